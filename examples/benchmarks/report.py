"""Write docs/benchmarks.md from the stored results.

    python examples/benchmarks/report.py [--check] [--picture]

``--check`` writes nothing, and fails where the page is not what the results say.
"""

import argparse
import sys
from pathlib import Path

import _results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "benchmarks.png"
# What the picture calls the columns of two results, and their colours.
LOOKS = {
    "our features": ("DP-SGD, our features", "C2"),
    "Fourier": ("DP-SGD, Fourier", "C5"),
    "Opacus": ("Opacus", "C3"),
    "EBM, tuned": ("EBM, tuned", "C4"),
}
HEADINGS = {
    "sketch": "Sketch once, ask forever",
    "choose": "Choose rows from many owners",
    "learn": "Learn with privacy",
}
TOP = """# Benchmarks

![AUC of private classifiers and errors of private releases, beside rivals](images/benchmarks.png)

`python examples/benchmarks/report.py --picture` makes page and picture from the files in
`examples/benchmarks/results`. Noise is fresh in every run, so yours will differ a little. "Older
cells" did not run again with the others.

"""
# The results that are shown as tables.
TABLES = {
    *("sketch_2_nist", "sketch_2_unseen", "sketch_2_wide", "sketch_9_unseen", "sketch_9_schema"),
    *("choose_1_mnist", "learn_6_adult", "learn_7_covertype"),
}


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


def section(table, name):
    """Return the lines of one result; a row in which ours stands alone is left out."""
    columns = table["columns"]
    marks = ["---", *["---:"] * (len(columns) - 1)]
    shown = [row for row in table["rows"] if any(cell is not None for cell in row[2:])]
    first, *others = zip(*shown, strict=True)
    rows = map(line, zip(map(str, first), *map(cells, others), strict=True))
    origin = [table["date"], f"`{name}`"]
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
        "; ".join(origin),
    ]


def page():
    """Return the page that the stored results make."""
    tables = {name: _results.load(RESULTS / f"{name}.json") for name in sorted(TABLES)}
    parts = [TOP.strip()]
    for job in _results.JOBS:
        parts.append(f"## {HEADINGS[job]}")
        for name, table in tables.items():
            if table["job"] == job:
                parts += section(table, name)
    return "\n\n".join(parts) + "\n"


def picture():
    """Draw our defaults beside rivals: the learners of two tables, and the releases of one."""
    from matplotlib.figure import Figure

    # As wide as a page, so that letters can still be read on a telephone.
    figure = Figure(figsize=(7.2, 7.2), layout="constrained")
    *curves, bars = figure.subplot_mosaic("ab;cc").values()
    for ax, name, data in zip(
        curves, ("learn_6_adult", "learn_7_covertype"), ("Adult", "Covertype"), strict=True
    ):
        table = _results.load(RESULTS / f"{name}.json")
        epsilons, *columns = zip(*table["rows"], strict=True)
        for k, (label, column) in enumerate(zip(table["columns"][1:], columns, strict=True)):
            look = {"lw": 3} if k == 0 else {"ls": "--"}
            label, color = LOOKS.get(label, (label, f"C{k}"))
            ax.plot(epsilons, column, marker="o", label=label, color=color, **look)
        ahead = sum(ours >= max(others) for ours, *others in zip(*columns, strict=True))
        ax.set_title(f"{data}: ours is ahead at {ahead} of {len(epsilons)} epsilons", fontsize=10)
        ax.set(xscale="log", xlabel="epsilon", ylabel="AUC of private classifiers")
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], minor=False)
        ax.legend(fontsize="small")
    wide = _results.load(RESULTS / "sketch_2_wide.json")
    ends = ": tables of two columns, total variation"
    rows = [row for row in wide["rows"] if row[0].endswith(ends) and None not in row]
    for k, label in enumerate(wide["columns"][1:]):
        places = [i + 0.27 * (k - 1) for i in range(len(rows))]
        bars.bar(places, [row[k + 1] for row in rows], 0.25, label=label, color=f"C{k}")
    names = [row[0].removesuffix(ends).replace(", ", ",\nepsilon = ") for row in rows]
    bars.set_xticks(range(len(rows)), names)
    best = sum(ours <= min(others) for _, ours, *others in rows)
    bars.set_title(f"Private releases: the error of ours is the smallest in {best} of {len(rows)}")
    bars.set(ylabel="total variation of pairs of columns")
    bars.legend(fontsize="small")
    figure.savefig(PICTURE, dpi=125)


def main():
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", action="store_true", help="draw the picture, too")
    arguments = parser.parse_args()
    if arguments.picture:
        picture()
    if not arguments.check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/benchmarks.md is stale; run python examples/benchmarks/report.py.")


if __name__ == "__main__":
    main()
