"""The errata of the papers show what `docs/papers.md` says that they print."""

import re
import runpy
from pathlib import Path

import pytest

from skdpsumm import AnswerWarning

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/papers.md").read_text()
PRINTED = dict(
    re.findall(r"`(\w+)\(\)`[^`]*\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)


@pytest.fixture(scope="module")
def shown():
    return runpy.run_path(str(ROOT / "examples/papers/errata.py"))["SHOWN"]


def test_every_erratum_is_on_the_page(shown):
    assert set(shown) - {"main"} == set(PRINTED)
    for name in PRINTED:
        assert f"## {shown[name].__doc__.removesuffix('.')}\n" in PAGE


@pytest.mark.notebooks
@pytest.mark.filterwarnings("ignore", f"error::{AnswerWarning.__module__}.AnswerWarning")
@pytest.mark.parametrize("name", PRINTED)
def test_an_erratum_prints_what_the_page_shows(name, shown, capsys):
    shown[name]()
    assert capsys.readouterr().out.split() == PRINTED[name].split()
