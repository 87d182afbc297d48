"""Every example runs once: those of the gallery in the notebooks, the others as they are.

The notebooks are generated from the scripts, so that to execute them is to run the scripts.
"""

import importlib.util
import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GALLERY = sorted(EXAMPLES.glob("plot_*.py"))


def load(path):
    """Return a script as a module, without running its main."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = load(EXAMPLES / "notebooks.py")


def committed(name):
    return nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)


def test_every_example_of_the_gallery_is_in_one_notebook():
    found = [path for name in notebooks.NOTEBOOKS for path in notebooks.scripts(name)]
    assert sorted(found) == GALLERY
    assert sorted(path.stem for path in notebooks.FOLDER.glob("*")) == sorted(notebooks.NOTEBOOKS)


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_notebooks_are_what_the_scripts_make(name):
    assert committed(name) == notebooks.build(name), "run: python examples/notebooks.py"


def test_cells_are_all_of_a_script():
    script = '"""\nTitle\n=====\n"""\n\n# %%\n# Text\n#\n# more\n\nimport os\n\n# why\nos\n'
    script += "\n# %%\n\nos\n"
    assert notebooks.cells_of(script) == [
        ("text", "Title\n====="),
        ("text", "Text\n\nmore"),
        ("code", "import os\n\n# why\nos"),
        ("code", "os"),
    ]


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_scripts_are_written_for_both_formats(path):
    """Sphinx needs every heading underlined in full; Markdown knows no roles and directives."""
    text = path.read_text(encoding="utf-8")
    written = [content for kind, content in notebooks.cells_of(text) if kind == "text"]
    for lines in (content.splitlines() for content in written):
        for heading, rule in pairwise(lines):
            if rule and set(rule) in ({"="}, {"-"}):
                assert len(rule) == len(heading)
    assert not any(mark in content for content in written for mark in (":class:", ".. ", "|", "`_"))


@pytest.mark.notebooks
@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_notebooks_run_and_show_their_pictures(name, tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel's own shows figures inline
    notebook = committed(name)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    for cell in notebook.cells:
        outputs = [one.get("data", {}) for one in cell.get("outputs", ())]
        drawn = sum("image/png" in data for data in outputs)
        assert drawn == cell.source.count("plt.show()")
    assert list(tmp_path.iterdir()) == []  # an example leaves nothing behind


@pytest.mark.notebooks
def test_the_picture_of_the_readme_is_drawn(tmp_path, monkeypatch):
    path = tmp_path / "overview.png"
    monkeypatch.setattr(sys, "argv", ["overview.py", "--output", str(path)])
    with plt.rc_context({"backend": "agg"}):
        runpy.run_path(str(EXAMPLES / "overview.py"), run_name="__main__")
        plt.close("all")
    assert 10_000 < path.stat().st_size < 200_000
