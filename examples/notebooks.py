"""Write the three notebooks, one for each job of the library, from the scripts of the gallery.

    python examples/notebooks.py

They are committed without outputs, so that a difference is one of the text or the code. A test
compares them with what this script would write, and another one executes them.
"""

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "notebooks"
NOTEBOOKS = {
    "sketches": (1, 2, 3, 9, 10, 11, 12),
    "summaries": (5, 6),
    "learners": (4, 7, 8),
}
TITLES = {
    "sketches": "Sketch once, ask forever",
    "summaries": "Choose rows from many owners",
    "learners": "Learn with kernels",
}
_DOCSTRING = re.compile(r'\A"""\n?(.*?)"""\n', re.DOTALL)
_CELL = re.compile(r"^# %%\n", re.MULTILINE)
_COMMENTS = re.compile(r"\A((?:#.*\n)*)")


def scripts(name):
    """Return the scripts of a notebook, in the order of the gallery."""
    return [next(HERE.glob(f"plot_{number:02d}_*.py")) for number in NOTEBOOKS[name]]


def cells_of(text):
    """Return the cells of a script as pairs of kind and content.

    Headings, emphasis and code are written alike in the gallery's reStructuredText and in Markdown,
    and the scripts use nothing else.
    """
    docstring = _DOCSTRING.match(text)
    cells = [("text", docstring[1])]
    for cell in _CELL.split(text[docstring.end() :]):
        comments = _COMMENTS.match(cell)[1]
        cells.append(("text", re.sub(r"^# ?", "", comments, flags=re.MULTILINE)))
        cells.append(("code", cell[len(comments) :]))
    return [(kind, content.strip()) for kind, content in cells if content.strip()]


def build(name):
    """Return a notebook, without outputs."""
    paths = scripts(name)
    sources = ", ".join(f"`{path.name}`" for path in paths)
    cells = [("text", f"# {TITLES[name]}\n\nFrom the gallery: {sources}.")]
    for path in paths:
        cells += cells_of(path.read_text(encoding="utf-8"))
    make = {"text": new_markdown_cell, "code": new_code_cell}
    notebook = new_notebook(cells=[make[kind](content) for kind, content in cells])
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # not at random, for the same text shall give the same file
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.validate(notebook)
    return notebook


def main():
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for name in NOTEBOOKS:
        path = FOLDER / f"{name}.ipynb"
        nbformat.write(build(name), path)
        print(path.relative_to(HERE.parent))


if __name__ == "__main__":
    main()
