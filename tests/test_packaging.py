"""What others install: floors that the gate tries, and metadata that indexes show."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = BUILD["project"]
FLOORS = {"floors": ["plot", "fast", "dask", "test"], "floors-flower": ["flower"]}


def floors(extras):
    """Return the lowest version of each requirement, by its name."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = [re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:,<\d+)?", line) for line in lines]
    return {match[1]: match[2] for match in found}


@pytest.mark.parametrize("name", FLOORS)
def test_the_gate_installs_the_floors(name):
    lines = (ROOT / f".ci/{name}.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned == floors(FLOORS[name])
    assert f".ci/{name}.txt" in (ROOT / ".ci/run").read_text()


def test_every_requirement_has_one_floor():
    for extra, lines in PROJECT["optional-dependencies"].items():
        shared = floors([extra]).items() & floors([]).items()
        assert shared == floors([]).items(), f"{extra} has another floor than the core"
        others = {n: v for e in PROJECT["optional-dependencies"] for n, v in floors([e]).items()}
        assert {k: others[k] for k in floors([extra])} == floors([extra]), lines


def test_links_of_the_readme_are_absolute_where_an_index_shows_it():
    text = (ROOT / "README.md").read_text("utf-8")
    relative = [one for one in re.findall(r"\]\(([^)]+)\)", text) if "://" not in one]
    assert relative, "the substitutions of pyproject.toml have nothing to do"
    assert not [one for one in relative if not (ROOT / one.partition("#")[0]).exists()]
    for one in BUILD["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) >= len(relative)
    assert all(link.startswith("https://") for link in links), links
    home = PROJECT["urls"]["Source"]
    assert f"{home}/blob/main/CONTRIBUTING.md" in links
    assert f"git clone {home}" in text


def test_the_archive_of_sources_holds_all_that_tests_read():
    kept = BUILD["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    needed = {"skdpsumm", "tests", "docs", "examples", ".ci", "conftest.py", "CITATION.cff"}
    assert needed <= set(kept)
