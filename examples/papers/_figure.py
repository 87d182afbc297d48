"""What the scripts of this folder share: their arguments, and how a figure is drawn and kept.

A curve has the same look and label in all panels, and the first three in every figure. A point is
the median over seeds, and the band around it goes from the lowest to the highest of them. Beside
``figure.png`` comes ``figure.json`` with all values, the command, the machine, the versions and the
seconds.
"""

import argparse
import json
import os
import platform
import shlex
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

PRINTED, CORRECTED, DEFAULT = "as printed", "corrected", "skdpsumm's default"
# Markers tell curves apart where there is no colour.
_LOOKS = {PRINTED: ("C3", "s"), CORRECTED: ("C1", "^"), DEFAULT: ("C0", "o")}
_OTHERS = ("C2", "v"), ("C4", "D"), ("C5", "P"), ("C6", "X"), ("C8", "<"), ("k", ">")
_DASHES = "--", ":", "-.", (0, (1, 4))
_STARTED = time.perf_counter()


def parser(doc):
    """Return an ArgumentParser with what all these scripts take; add your own to it.

    Parameters
    ----------
    doc : str
        The script's docstring, for ``--help``.
    """
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--data", help="see above; --quick needs none")
    made.add_argument("--out", type=Path, required=True, help="figure.png; numbers: figure.json")
    made.add_argument("--quick", action="store_true", help="a small figure, in less than a minute")
    made.add_argument("--seeds", type=int, default=5, help="runs of each point")
    made.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return made


def figure(rows=1, columns=1, height=3.6):
    """Return a Figure of 1,200 pixels' width, and its axes, shape (rows, columns).

    Parameters
    ----------
    rows, columns : int
    height : float
        Of a row, in inches; the figure is 8 wide.
    """
    made = Figure(figsize=(8, height * rows), layout="constrained", dpi=150)
    return made, made.subplots(rows, columns, squeeze=False)


def panel(ax, x, values_by_curve, references=None, **labels):
    """Draw curves with their spread, and references in grey; return the numbers for `save`.

    Parameters
    ----------
    ax : Axes
    x : array-like of shape (n,)
    values_by_curve : dict of array-likes of shape (n, n_seeds)
        By label: `PRINTED`, `CORRECTED`, `DEFAULT`, or another. NaN stands for what was not run.
    references : dict of float or array-like of shape (n,) or (n, n_seeds), optional
        Without privacy, of the paper, and the like.
    **labels
        To ``ax.set``: title, xlabel, ylabel, xscale, yscale, ylim.

    Returns
    -------
    dict
    """
    drawn = {line.get_label(): line for axes in ax.figure.axes for line in axes.get_lines()}
    looks = _LOOKS | {name: (v.get_color(), v.get_marker()) for name, v in drawn.items()}
    others = iter(look for look in _OTHERS if look not in looks.values())
    numbers = {"x": _plain(x), "curves": {}, "references": {}}
    for name, values in values_by_curve.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")
            found = np.asarray(values, dtype=float)
            low, middle, high = np.nanpercentile(found, [0, 50, 100], axis=1)
        colour, marker = looks[name] if name in looks else next(others)
        ax.plot(x, middle, marker=marker, markersize=4, color=colour, label=name)
        ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        numbers["curves"][name] = {"median": _plain(middle), "values": _plain(values)}
    for i, (name, values) in enumerate((references or {}).items()):
        found = np.asarray(values, dtype=float)
        middle = np.median(found, axis=1) if found.ndim == 2 else found
        line = np.broadcast_to(middle, len(x))
        ax.plot(x, line, color="0.45", lw=1.2, ls=_DASHES[i % len(_DASHES)], label=name)
        numbers["references"][name] = {"median": _plain(middle), "values": _plain(values)}
    ax.set(**labels)
    ax.grid(alpha=0.25)
    return numbers


def legend(fig, columns=3):
    """Put one legend of all panels below them: a label that several have comes once."""
    handles = {}
    for ax in fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    fig.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8
    )


def measured(args):
    """Return the JSON beside ``args.out``, of an earlier run, with ``--keep``; else {}."""
    return json.loads(args.out.with_suffix(".json").read_text()) if args.keep else {}


def values_of(numbers):
    """Return curves of what `panel` returned, as arrays of shape (n, n_seeds), NaN for None."""
    return {name: np.array(c["values"], dtype=float) for name, c in numbers["curves"].items()}


def save(fig, args, numbers, earlier=None):
    """Write ``args.out``, and the numbers beside it as JSON.

    Parameters
    ----------
    fig : Figure
    args : Namespace
        Of `parser`.
    numbers : dict
        What `panel` returned, by panel, and what else a reader should know: the true guarantee of
        a curve, sizes, the settings.
    earlier : dict, optional
        Of `measured`: its command and seconds stay in the JSON.
    """
    args.out.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(args.out)
    # A palette makes pictures with bands a third as large.
    Image.open(args.out).convert("RGB").quantize(128).save(args.out, optimize=True)
    words = [Path(a).name if os.path.isabs(a) else a for a in sys.argv[1:]]
    kept = {
        "command": shlex.join(["python", Path(sys.argv[0]).name, *words]),
        "seconds": round(time.perf_counter() - _STARTED, 1),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("skdpsumm", "numpy", "scipy", "scikit-learn")},
    }
    if earlier:
        last = {name: earlier[name] for name in kept}
        last["cpu_seconds"] = earlier["numbers"].get("cpu_seconds")
        kept["earlier"] = [*earlier.get("earlier", []), last]
    kept["numbers"] = _plain(numbers)
    beside = args.out.with_suffix(".json")
    beside.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n")
    print(f"{args.out} and {beside.name}: {kept['seconds']:.0f} seconds on {kept['machine']}")


def _plain(value):
    """Return `value` as JSON knows it: lists, six digits, None for NaN, and "inf"."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if not isinstance(value, float):
        return value
    if np.isnan(value):
        return None
    return float(f"{value:.6g}") if np.isfinite(value) else str(value)
