"""The errata of the papers print what their docstrings say, and `docs/papers.md` tells of each."""

import runpy
from pathlib import Path

import pytest
from paper_protocols import FOLDER

PAGE = (Path(__file__).resolve().parent.parent / "docs/papers.md").read_text()
SHOWN = runpy.run_path(str(FOLDER / "errata.py"))["SHOWN"]
ERRATA = {name: show for name, show in SHOWN.items() if name != "main"}


def test_every_erratum_is_on_the_page():
    for name, show in ERRATA.items():
        assert f"`{name}`" in PAGE
        for part in ("*Claim.*", "*True", "*Instead.*"):
            assert part in show.__doc__


@pytest.mark.notebooks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ERRATA)
def test_an_erratum_prints_what_it_says(name, capsys):
    ERRATA[name]()
    said = ERRATA[name].__doc__.partition("It prints:")[2]
    assert capsys.readouterr().out.split() == said.split()
