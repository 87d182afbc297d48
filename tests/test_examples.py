"""Every example runs once, and the notebooks are stored with what they print and draw."""

import runpy
import sys
from pathlib import Path

import pytest
import scripts

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore:Raise max_share_per_owner", "ignore:Ask more owner")

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GALLERY = sorted(EXAMPLES.glob("plot_*.py"))


notebooks = scripts.load("notebooks.py")


def stored(name):
    return nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)


def without_outputs(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def pictures(notebook):
    """Return the sizes of the pictures of each cell."""
    outputs = [cell.get("outputs", ()) for cell in notebook.cells]
    found = [[o.get("data", {}).get("image/png") for o in of] for of in outputs]
    return [[len(image) for image in of if image is not None] for of in found]


def test_every_script_is_a_notebook():
    assert {path.stem for path in notebooks.FOLDER.iterdir()} == set(notebooks.NAMES)


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebooks_are_what_the_scripts_make(name):
    remedy = f"run: python examples/notebooks.py {name}"
    assert without_outputs(stored(name)) == notebooks.build(name), remedy


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebooks_are_stored_with_their_outputs(name):
    notebook = stored(name)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    kinds = {o.output_type for cell in notebook.cells for o in cell.get("outputs", ())}
    assert kinds <= {"stream", "execute_result", "display_data"}  # no errors
    streams = [o for c in notebook.cells for o in c.get("outputs", ()) if o.output_type == "stream"]
    assert {stream.name for stream in streams} == {"stdout"}  # no warnings
    sizes = [size for of in pictures(notebook) for size in of]
    assert 0 < max(sizes, default=0) < 150_000
    words = [cell.source.split() for cell in notebook.cells if cell.cell_type == "markdown"]
    assert sum(map(len, words)) < 700  # five minutes, with the code
    assert "/tmp" not in nbformat.writes(notebook)


def test_cells_are_all_of_a_script():
    script = '"""\n# Title\n"""\n\n# %%\n# Text\n#\n# more\n\nimport os\n\n# why\nos\n'
    script += "\n# %%\n\nos\n"
    assert notebooks.cells_of(script) == [
        ("text", "# Title"),
        ("text", "Text\n\nmore"),
        ("code", "import os\n\n# why\nos"),
        ("code", "os"),
    ]


@pytest.mark.one_in(3)
@pytest.mark.notebooks
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebooks_run_and_show_their_pictures(name, tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel's own shows figures inline
    notebook = notebooks.run(notebooks.build(name), tmp_path)
    assert [len(of) for of in pictures(notebook)] == [len(of) for of in pictures(stored(name))]
    assert list(tmp_path.iterdir()) == []  # an example leaves nothing behind


@pytest.mark.one_in(6)
@pytest.mark.notebooks
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_the_gallery_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with plt.rc_context({"backend": "agg"}):
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums()
        plt.close("all")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.notebooks
def test_the_picture_of_the_readme_is_drawn(tmp_path, monkeypatch):
    path = tmp_path / "overview.png"
    monkeypatch.setattr(sys, "argv", ["overview.py", "--output", str(path)])
    with plt.rc_context({"backend": "agg"}):
        runpy.run_path(str(EXAMPLES / "overview.py"), run_name="__main__")
        plt.close("all")
    assert 10_000 < path.stat().st_size < 200_000
