"""The pages say what the code does: their examples run, and their links lead somewhere.

A ```python block runs, by itself, if it stands on one of the pages `EXECUTED`, or below a comment
``<!-- runs -->``; a ```text block that follows is what it prints (``...`` stands for anything, and
white space does not count), or, below "It prints, for instance:", what it prints but for the
numbers. How-tos run, too. Of all other blocks the imports run. A block below
``<!-- needs x -->`` is left out where the package x is not installed. The blocks of a chapter of
the user guide, and of the page for those who sign, run one after the other, as one program.
"""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import pydoc
import re
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import skdpsumm
from skdpsumm import AnswerWarning

ROOT = Path(__file__).resolve().parent.parent
SIGN = ROOT / "docs/before_you_sign.md"  # reads as a chapter
CHAPTERS = [SIGN, *sorted((ROOT / "docs/user_guide").glob("*.md"))]
HOW_TOS = sorted((ROOT / "docs/how_to").glob("*.md"))
TOP = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in [*TOP, *HOW_TOS] if page != SIGN]
PACKAGES = [
    path.parent.name
    for path in sorted((ROOT / "skdpsumm").glob("[a-z]*/__init__.py"))
    if "__all__" in path.read_text()
]
EXECUTED = {"README.md", "known_limits.md"}

_FENCED = re.compile(
    r"^(?:<!-- (?P<mark>runs|needs (?P<needs>\w+)) -->\n\n?)?```python\n(?P<code>.*?)^```\n"
    r"(?:\n?(?P<instance>It prints, for instance:\n\n)?```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)\s]*)\)")
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks():
    """Return code, what it prints or None, if but for numbers, and if it runs, of every block."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCED.finditer(text):
            if match["needs"] and importlib.util.find_spec(match["needs"]) is None:
                continue
            line = text.count("\n", 0, match.start("code"))
            runs = page.name in EXECUTED or page in HOW_TOS or match["mark"] is not None
            name = f"{page.name}:{line}"
            instance = match["instance"] is not None
            found.append(pytest.param(match["code"], match["printed"], instance, runs, id=name))
    return found


def run(code, namespace=None):
    """Return what the code prints; each block has a namespace of its own, if none is given."""
    namespace = {"__name__": "__main__"} if namespace is None else namespace
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", AnswerWarning)  # none of which a page shows unasked
        exec(compile(code, "<example>", "exec"), namespace)
    return printed.getvalue()


def imports_of(code):
    tree = ast.parse(code)
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.unparse(tree)


def agree(expected, printed, instance=False):
    if instance:
        expected, printed = (_NUMBER.sub("#", text) for text in (expected, printed))
    return doctest.OutputChecker().check_output(expected, printed, _FLAGS)


@pytest.mark.notebooks
@pytest.mark.parametrize(("code", "expected", "instance", "runs"), blocks())
def test_blocks_run_and_print_what_is_shown(code, expected, instance, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("dask", "statsmodels"):
        if f"import {name}" in code:
            pytest.importorskip(name)
    printed = run(code if runs else imports_of(code))
    if runs:
        assert agree(expected or "", printed, instance), f"shown:\n{expected}\nprinted:\n{printed}"


@pytest.mark.notebooks
@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_chapters_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for match in _FENCED.finditer(page.read_text()):
        printed, expected = run(match["code"], namespace), match["printed"] or ""
        instance = match["instance"] is not None
        assert agree(expected, printed, instance), f"shown:\n{expected}\nprinted:\n{printed}"


def docstrings():
    """Return the name and the docstring of each class and function that has a public name."""
    there = [name for name in PACKAGES if name != "federated" or importlib.util.find_spec("flwr")]
    homes = [skdpsumm, *(importlib.import_module(f"skdpsumm.{name}") for name in there)]
    public = {getattr(home, name) for home in homes for name in home.__all__}
    for one in public:
        members = vars(one).items() if isinstance(one, type) else []
        members = [(one.__name__, one), *((n, m) for n, m in members if n[0] != "_")]
        yield from ((f"{one.__name__}: {name}", member.__doc__ or "") for name, member in members)


def test_what_is_shown_to_users_imports_no_private_module():
    notebooks = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
    gallery = sorted((ROOT / "examples").glob("plot_*.py"))
    texts = [(str(path), path.read_text()) for path in [*PAGES, *CHAPTERS, *notebooks, *gallery]]
    for name, text in [*texts, *docstrings()]:
        assert not re.search(r"(from|import) skdpsumm[\w.]*\._", text), name


def test_a_wrong_number_is_seen():
    assert agree("1 2 ...\n", "1  2 3\n")
    assert not agree("1 2\n", "1 3\n")
    assert agree("x: 0.5 [1 2]\n", "x: -1e-7 [10  0]\n", instance=True)
    assert not agree("x: 0.5\n", "x: nan\n", instance=True)


def anchors(page):
    """Return the names that a hosting site gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES + CHAPTERS, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), link
        named = anchor.startswith("skdpsumm.") and pydoc.locate(anchor)  # of the API reference
        assert not anchor or anchor in anchors(to) or named, link


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.name)
def test_a_how_to_fits_one_screen_and_is_listed(page):
    if page.name == "index.md":
        return
    text = page.read_text()
    (match,) = _FENCED.finditer(text)
    assert len(match["code"].replace("\n\n", "\n").splitlines()) <= 20
    assert text.startswith("# ")
    for part in ("**What it guarantees.**", "**What people get wrong.**", "**Next:**"):
        assert part in text
    listed = (page.parent / "index.md").read_text()
    title = text.splitlines()[0].removeprefix("# ")
    assert f"[{title}]({page.name})" in listed
    assert f"\n{page.stem}\n" in listed


@pytest.mark.statistical
def test_adult_runs_on_files_like_adults(tmp_path, monkeypatch, capsys):
    example = runpy.run_path(str(ROOT / "examples/adult.py"))
    schema = example["SCHEMA"]
    for name, ending, n_rows in (("data", "", 1000), ("test", ".", 7000)):
        cells = schema.sample(n_rows, np.random.RandomState(n_rows))
        rows = [", ".join("?" if cell is None else str(cell) for cell in row) for row in cells]
        (tmp_path / f"adult.{name}").write_text("\n".join(row + ending for row in rows))
    monkeypatch.setattr("sys.argv", ["adult.py", "--data", str(tmp_path)])
    example["main"]()
    printed = capsys.readouterr().out
    assert "age (years)" in printed
    assert "like mine" in printed
    assert printed.count("for one row, add or remove") == 5
