"""Stored results: what a benchmark measured, where, when, and with which versions.

A file of ``results/`` holds one small table as JSON. A benchmark writes it with ``--json FILE``,
and ``report.py`` makes docs/benchmarks.md of all of them.
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


def add_argument(parser):
    """Add ``--json FILE`` to a benchmark's arguments."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the result, see report.py")


def store(path, **table):
    """Write a result, with how it came about.

    Parameters
    ----------
    path : Path or None
        None stores nothing.
    **table
        job, title, about, columns and rows: what `load` checks.
    """
    if path is None:
        return
    script = Path(sys.argv[0]).resolve()
    root = Path(__file__).resolve().parents[2]
    words = ["python", script.relative_to(root).as_posix(), *sys.argv[1:]]
    table |= {
        "command": shlex.join(_without_json(words)),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "source": MEASURED,
    }
    path.write_text(json.dumps(table, indent=1) + "\n")
    load(path)


def _without_json(words):
    """Return a command without ``--json FILE``, which is no part of what is measured."""
    if "--json" not in words:
        return words
    k = words.index("--json")
    return words[:k] + words[k + 2 :]


def machine():
    """Return what the machine is, in words."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB"


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
    if set(table) != set(FIELDS):
        raise ValueError(f"{path.name}: fields must be {FIELDS}, got {tuple(table)}.")
    if table["job"] not in JOBS:
        raise ValueError(f"{path.name}: job must be one of {JOBS}, got {table['job']!r}.")
    if any(len(row) != len(table["columns"]) for row in table["rows"]):
        raise ValueError(f"{path.name}: each row must have {len(table['columns'])} cells.")
    datetime.date.fromisoformat(table["date"])
    return table
