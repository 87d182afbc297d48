"""Write the three notebooks, one for each job of the library, and store their outputs.

    python examples/notebooks.py [sketches] [summaries] [learners]

Each is made from a script of its name in `examples/notebooks/`: a docstring, and cells that start
with ``# %%`` and a comment in Markdown. The notebook is run here and stored with what it printed
and drew, so that you can read it without running anything. Noise is fresh in each run. A test
compares the cells with the script, and another one runs them.
"""

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).resolve().parent / "notebooks"
NAMES = ("sketches", "summaries", "learners")
_DOCSTRING = re.compile(r'\A"""\n?(.*?)"""\n', re.DOTALL)
_CELL = re.compile(r"^# %%\n", re.MULTILINE)
_COMMENTS = re.compile(r"\A((?:#.*\n)*)")


def cells_of(text):
    """Return the cells of a script as pairs of kind and content."""
    docstring = _DOCSTRING.match(text)
    cells = [("text", docstring[1])]
    for cell in _CELL.split(text[docstring.end() :]):
        comments = _COMMENTS.match(cell)[1]
        cells.append(("text", re.sub(r"^# ?", "", comments, flags=re.MULTILINE)))
        cells.append(("code", cell[len(comments) :]))
    return [(kind, content.strip()) for kind, content in cells if content.strip()]


def build(name):
    """Return a notebook, without outputs."""
    script = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    make = {"text": new_markdown_cell, "code": new_code_cell}
    notebook = new_notebook(cells=[make[kind](content) for kind, content in cells_of(script)])
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # not at random, for the same text shall give the same file
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.validate(notebook)
    return notebook


def run(notebook, folder):
    """Run a notebook in a folder, and return it with its outputs."""
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place)
    before = dict(notebook.metadata)
    client.execute()
    notebook.metadata.update(before)  # without this machine's version of Python
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
    return notebook


def main():
    """Write them all, or those that are named."""
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(build(name), folder)
        path = FOLDER / f"{name}.ipynb"
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
