"""The pages say what the code does: their examples run, and their links lead somewhere.

A ```python block runs, by itself, if it stands on one of the pages `EXECUTED`, or below a comment
``<!-- runs -->``; a ```text block that follows is what it prints (``...`` stands for anything, and
white space does not count). Of all other blocks the imports run.
"""

import ast
import contextlib
import doctest
import io
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
EXECUTED = {"choosing.md", "errata.md", "known_limits.md", "privacy_promise.md"}

_FENCED = re.compile(
    r"^(?P<mark><!-- runs -->\n\n?)?```python\n(?P<code>.*?)^```\n"
    r"(?:\n?```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)\s]*)\)")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks():
    """Return code, what it prints or None, and whether it runs, of every block."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCED.finditer(text):
            line = text.count("\n", 0, match.start("code"))
            runs = page.name in EXECUTED or match["mark"] is not None
            name = f"{page.name}:{line}"
            found.append(pytest.param(match["code"], match["printed"], runs, id=name))
    return found


def run(code):
    """Return what the code prints; each block has a namespace of its own."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<example>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def imports_of(code):
    tree = ast.parse(code)
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.unparse(tree)


def agree(expected, printed):
    return doctest.OutputChecker().check_output(expected, printed, _FLAGS)


@pytest.mark.parametrize(("code", "expected", "runs"), blocks())
def test_blocks_run_and_print_what_is_shown(code, expected, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "import dask" in code:
        pytest.importorskip("dask")
    printed = run(code if runs else imports_of(code))
    if runs:
        assert agree(expected or "", printed), f"shown:\n{expected}\nprinted:\n{printed}"


def test_a_wrong_number_is_seen():
    assert agree("1 2 ...\n", "1  2 3\n")
    assert not agree("1 2\n", "1 3\n")


def anchors(page):
    """Return the names that a hosting site gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link
