"""The site has a page for everything public, at the address that estimators link to.

Sphinx is not needed here: `.ci/run` builds the site.
"""

import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import skdpsumm

ROOT = Path(__file__).resolve().parent.parent
# Cannot be imported without the extra flower.
MISSING = {"skdpsumm.federated"} if importlib.util.find_spec("flwr") is None else set()
PACKAGES = {"skdpsumm"} | {
    f"skdpsumm.{module.name}"
    for module in pkgutil.iter_modules(skdpsumm.__path__)
    if module.ispkg and not module.name.startswith("_")
}
PACKAGES = sorted(PACKAGES - MISSING)

_MODULE = re.compile(r"^\.\. currentmodule:: (\S+)$")
_ENTRY = re.compile(r"^   ([A-Za-z]\w*)$")
_DATA = re.compile(r"^\.\. data:: (\w+)$")


def api_entries(text):
    """Return the full names that the API reference lists: tables and data, by module."""
    module, found = "", []
    for line in text.splitlines():
        if match := _MODULE.match(line):
            module = match[1]
        elif match := _ENTRY.match(line) or _DATA.match(line):
            found.append(f"{module}.{match[1]}")
    return [name for name in found if name.rpartition(".")[0] not in MISSING]


# 60, three for the schema (TableSchema, Numeric, Categorical), a sketcher that chooses, and its
# picture; four for the private summary, three pictures more, a loss, a prior, how points are drawn,
# what an audit found, and simulations.
MOST_ENTRIES = 78
ENTRIES = api_entries((ROOT / "docs/api.rst").read_text())


def look_up(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_entries_are_public_and_listed_once():
    assert 30 < len(ENTRIES) <= MOST_ENTRIES
    assert len(set(ENTRIES)) == len(ENTRIES)
    for name in ENTRIES:
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_api_reference(package):
    module = importlib.import_module(package)
    names = {f"{package}.{name}" for name in module.__all__}
    if package == "skdpsumm":  # most of it is listed where it lives
        listed = {id(look_up(entry)) for entry in ENTRIES}
        names = {name for name in names if id(look_up(name)) not in listed}
    assert names <= set(ENTRIES), f"docs/api.rst lacks {sorted(names - set(ENTRIES))}"


def test_a_forgotten_name_is_seen():
    table = ".. currentmodule:: a.b\n\n.. autosummary::\n   :nosignatures:\n\n   One\n"
    assert api_entries(table + "\n.. data:: TWO\n\n   Text.\n") == ["a.b.One", "a.b.TWO"]


def test_tables_write_their_pages_into_generated():
    text = (ROOT / "docs/api.rst").read_text()
    assert text.count(".. autosummary::") == text.count(":toctree: generated/")
