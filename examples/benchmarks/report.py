"""Write docs/benchmarks.md from the stored results.

    python examples/benchmarks/report.py [--check]

``--check`` writes nothing, and fails where the page is not what the results say.
"""

import argparse
import sys
from pathlib import Path

import _results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
HEADINGS = {
    "sketch": "Sketch once, ask forever",
    "choose": "Choose rows from many owners",
    "learn": "Learn with privacy",
}
TOP = """# Benchmarks

Measured figures, by job, beside those of others. Noise is fresh in every run, so yours will
differ a little. Below each table you find the command, the date, the machine and the versions.

`python examples/benchmarks/report.py` makes this page from the files in
`examples/benchmarks/results`. A script with `--json FILE` stores a new result there. A table
"transcribed from the README" was measured before results were stored: its date is that of the
commit which brought it, and its versions were not recorded. "Older cells" are columns of a table
that did not run again with the others. A load average above the number of cores means that others
used the machine as well, which makes seconds longer.
"""


def decimals(value):
    """Return how many decimals a number is stored with."""
    text = f"{value:.10f}".rstrip("0")
    return len(text.partition(".")[2])


def cells(column):
    """Return a column as text: numbers with the same decimals, a dash for none."""
    numbers = [value for value in column if isinstance(value, int | float)]
    digits = max(map(decimals, numbers), default=0)
    written = {str: str, type(None): lambda _: "-"}
    return [written.get(type(value), lambda v: f"{v:.{digits}f}")(value) for value in column]


def line(cells):
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def section(table):
    """Return the lines of one result."""
    columns = table["columns"]
    marks = ["---", *["---:"] * (len(columns) - 1)]
    first, *others = zip(*table["rows"], strict=True)
    rows = map(line, zip(map(str, first), *map(cells, others), strict=True))
    versions = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    origin = [table["date"], table["machine"], versions or "versions not recorded"]
    if table["source"] != _results.MEASURED:
        origin.append(table["source"])
    dates = dict.fromkeys(table.get("kept", {}).values())
    for date in dates:
        older = [column for column, since in table["kept"].items() if since == date]
        origin.append(f"older cells, {date}: {', '.join(older)}")
    return [
        f"### {table['title']}",
        table["about"],
        "\n".join([line(columns), line(marks), *rows]),
        "Command not recorded." if table["command"] == "not recorded" else f"`{table['command']}`",
        "; ".join(origin) + ".",
    ]


def page():
    """Return the page that the stored results make."""
    tables = [_results.load(path) for path in sorted(RESULTS.glob("*.json"))]
    parts = [TOP.strip()]
    for job in _results.JOBS:
        parts.append(f"## {HEADINGS[job]}")
        for table in tables:
            parts += section(table) if table["job"] == job else []
    return "\n\n".join(parts) + "\n"


def main():
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/benchmarks.md is stale; run python examples/benchmarks/report.py.")


if __name__ == "__main__":
    main()
