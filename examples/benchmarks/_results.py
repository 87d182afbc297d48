"""Stored results: what a benchmark measured, where, when, and with which versions.

A file of ``results/`` holds one small table as JSON. A benchmark writes it with ``--json FILE``,
and ``report.py`` makes docs/benchmarks.md of all of them. A benchmark of many methods can run some
of them alone: the other columns then stay as they were, and "kept" says of when they are.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import sys
from pathlib import Path

JOBS = ("sketch", "choose", "learn")
FIELDS = (
    "job",
    "title",
    "about",
    "columns",
    "rows",
    "command",
    "date",
    "machine",
    "versions",
    "source",
)
MEASURED, TRANSCRIBED = "measured", "transcribed from the README"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "opendp", "numba")


def add_argument(parser, name="--json", what="the result"):
    """Add ``--json FILE`` to a benchmark's arguments, or another name that begins so."""
    parser.add_argument(name, type=Path, metavar="FILE", help=f"store {what}, see report.py")


def store(path, **table):
    """Write a result, with how it came about.

    Parameters
    ----------
    path : Path or None
        None stores nothing.
    **table
        job, title, about, columns and rows: what `load` checks; kept, if columns are older.
    """
    if path is None:
        return
    script = Path(sys.argv[0]).resolve()
    root = Path(__file__).resolve().parents[2]
    words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
    table |= {
        "command": shlex.join(
            ["python", script.relative_to(root).as_posix(), *_without_files(words)]
        ),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "source": MEASURED,
    }
    path.write_text(json.dumps(table, indent=1) + "\n")
    load(path)


def _without_files(words):
    """Return a command without ``--json FILE`` and the like, no part of what is measured."""
    beside = "--json", "--out", "--save", "--with"
    names = [k for k, word in enumerate(words) if word.startswith(beside)]
    return [word for k, word in enumerate(words) if k not in names and k - 1 not in names]


def kept(path, columns, rows):
    """Fill the columns that were not measured from the result that is stored in `path`.

    Parameters
    ----------
    path : Path or None
    columns : list of str
    rows : list of lists
        Beginning as the stored rows do; None in each cell of a column that was not measured.

    Returns
    -------
    rows : list of lists
    kept : dict
        By column that was filled, the date of its cells and where they are from.
    """
    if path is None or not path.exists():
        return rows, {}
    old = load(path)
    source = old["date"] if old["source"] == MEASURED else f"{old['date']}, {old['source']}"
    since = {}
    for k, column in enumerate(columns):
        if column in old["columns"] and all(row[k] is None for row in rows):
            since[column] = old.get("kept", {}).get(column, source)
            cells = {row[0]: row[old["columns"].index(column)] for row in old["rows"]}
            for row in rows:
                row[k] = cells.get(row[0])
    return rows, since


def machine():
    """Return what the machine is, in words, and how busy: a load above its cores slows it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = models[0] if models else platform.processor() or platform.machine()
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, load average {load:.1f}"


def versions():
    """Return the versions of Python and of what does the work, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def load(path):
    """Return a stored result.

    Raises
    ------
    ValueError
        If it lacks a field, or a row has not a cell for each column.
    """
    table = json.loads(path.read_text())
    if set(table) - {"kept"} != set(FIELDS):
        raise ValueError(f"{path.name}: fields must be {FIELDS}, got {tuple(table)}.")
    if table["job"] not in JOBS:
        raise ValueError(f"{path.name}: job must be one of {JOBS}, got {table['job']!r}.")
    if any(len(row) != len(table["columns"]) for row in table["rows"]):
        raise ValueError(f"{path.name}: each row must have {len(table['columns'])} cells.")
    datetime.date.fromisoformat(table["date"])
    return table
