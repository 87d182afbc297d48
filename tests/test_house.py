"""The shape of the house: who imports whom, how much a room holds, what a fit enters.

Imports inside functions count as well, and those for type checkers alone: whoever reads a module
has to know what it names.
"""

import ast
import graphlib
import importlib.util
import pickle
import re
import sys
import tomllib
import warnings
from functools import cache
from pathlib import Path

import pytest
from files_per_fit import LIMITS, files_entered, fits

import skdpsumm

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skdpsumm"
MOST_FILES = 16  # in one folder
# Each room imports from lower floors and from itself alone.
FLOORS = [
    ["_bounded", "_computing", "_delegation", "_html", "_sklearn"],
    ["_linear_systems", "privacy"],
    ["schema"],
    ["features"],
    ["sketches", "learners"],
    ["moments"],
    ["summaries"],
    ["model_selection", "audit", "plotting", "federated"],
    ["skdpsumm"],
    ["__main__"],
]
# What installs a module whose name is not that of its distribution.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting"}

# What is told from a page's text, its code left out.
SLIPS = {
    "no leading zero": re.compile(r"(?<![\w.)\]])\.\d"),
    "he for they": re.compile(r"\b(he|him|his|himself)\b", re.IGNORECASE),
}
_CODE = re.compile(r"^```\w+\n.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
BUILT = {"auto_examples", "generated", "pages"}  # by Sphinx


def modules():
    """Return the files of all modules, by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def statements(tree):
    """Yield the import statements, and whether they run at the module's import."""

    def visit(node, at_once):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield child, at_once
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            later = is_typing or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Try)
            if hasattr(child, "body") or hasattr(child, "cases"):  # no expression holds an import
                yield from visit(child, at_once and not later)

    yield from visit(tree, True)


def imported(name, tree):
    """Yield the full names that the module `name` imports, and whether at its own import."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for statement, at_once in statements(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.name, at_once
            continue
        base = "." * statement.level + (statement.module or "")
        base = importlib.util.resolve_name(base, package)
        for alias in statement.names:
            whole = f"{base}.{alias.name}"
            yield (whole if whole in MODULES else base), at_once


@cache
def all_imports():
    """Return what each module imports, and whether at its own import."""
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}
    return {name: set(imported(name, tree)) for name, tree in trees.items()}


def arrows():
    """Return what each module imports of ours."""
    return {
        name: {one for one, _ in found if one.partition(".")[0] == "skdpsumm"}
        for name, found in all_imports().items()
    }


def room(name):
    """Return the room of a module: the package or module below `skdpsumm`."""
    return name.split(".")[1] if "." in name else name


def circle_in(graph):
    """Return a circle of imports, or None."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_module_imports_itself_by_way_of_others():
    assert circle_in(arrows()) is None


def upward(arrows):
    """Return the imports that do not go to a lower floor, or stay in the room."""
    floor = {one: k for k, rooms in enumerate(FLOORS) for one in rooms}
    return [
        f"{name} imports {other}"
        for name, others in arrows.items()
        for other in sorted(others)
        if room(name) != room(other) and floor[room(name)] <= floor[room(other)]
    ]


def test_rooms_import_from_lower_floors_alone():
    assert {room(name) for name in MODULES} == {one for rooms in FLOORS for one in rooms}
    assert not upward(arrows())


def test_no_folder_has_more_files_than_one_can_know():
    folders = {path.parent for path in MODULES.values()}
    counts = {str(f.relative_to(ROOT)): len(list(f.glob("*.py"))) for f in folders}
    assert {name: n for name, n in counts.items() if n > MOST_FILES} == {}


@pytest.mark.parametrize("name", LIMITS)
def test_a_fit_enters_few_files(name):
    with warnings.catch_warnings(action="ignore"):
        files = files_entered(fits()[name])
    assert 0 < len(files) <= LIMITS[name], files


def declared():
    """Return the names of the distributions that the core needs, and those of any extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements):
        return {re.match(r"[\w-]+", text).group() for text in requirements}

    extras = project["optional-dependencies"]
    return names(project["dependencies"]), {key: names(some) for key, some in extras.items()}


def test_what_is_imported_is_declared():
    core, extras = declared()
    needed = {"plotting": "plot", "federated": "flower"}
    for module, found in all_imports().items():
        extra = "fast" if module.endswith("_engine_numba") else needed.get(room(module))
        for one, at_once in found:
            name = one.partition(".")[0]
            # Polars is used where it is installed, and never needed.
            if name in sys.stdlib_module_names or name in ("skdpsumm", "polars"):
                continue
            allowed = core | extras.get(extra, set())
            if not at_once:  # in a function, or tried
                allowed = allowed.union(*extras.values())
            assert DISTRIBUTIONS.get(name, name) in allowed, f"{module} imports {name}"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert project["version"] == cited[1] == skdpsumm.__version__


def test_errors_and_warnings_are_named_as_users_import_them():
    """A traceback names what one can catch, and pickles find it there."""
    public = [getattr(skdpsumm, name) for name in skdpsumm.__all__]
    raised = [one for one in public if isinstance(one, type) and issubclass(one, Exception)]
    assert len(raised) >= 6
    for one in raised:
        assert not re.search(r"\._", one.__module__), one
        assert getattr(importlib.import_module(one.__module__), one.__name__) is one
        assert type(pickle.loads(pickle.dumps(one("said")))) is one


def test_every_dependency_is_imported():
    core, _ = declared()
    names = {one.partition(".")[0] for found in all_imports().values() for one, _ in found}
    assert core <= {DISTRIBUTIONS.get(name, name) for name in names}


def slips(text):
    """Return the slips of a page in Markdown, each with the words around it."""
    prose = _CODE.sub("", text)
    return [
        (name, prose[max(0, match.start() - 20) : match.end() + 20])
        for name, pattern in SLIPS.items()
        for match in pattern.finditer(prose)
    ]


def test_pages_keep_the_rules_of_the_language():
    docs = ROOT / "docs"
    pages = [one for one in docs.rglob("*.md") if not BUILT & {*one.relative_to(docs).parts}]
    assert len(pages) > 20
    found = {str(page.relative_to(ROOT)): slips(page.read_text("utf-8")) for page in pages}
    assert {page: some for page, some in found.items() if some} == {}
