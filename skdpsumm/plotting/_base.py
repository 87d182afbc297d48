"""What the displays share: axes, styles that differ without colour, and names with units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._html import open_axes
from ..moments import Estimate, M2MEstimator
from ..moments.asking._estimate import with_unit
from ..schema._schema import TableSchema
from ..sketches import PrivateSketch

# Lines and markers, any two of which can be told apart in black and white.
LINE_STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ((0, (6, 1, 1, 1, 1, 1)), "v"))

# Hatches of bars, for the same reason.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++")

# The style of error bars without a marker.
ERROR_BARS = {"fmt": "none", "ecolor": "k", "elinewidth": 1.1, "capsize": 3}


class Display:
    """A picture that `plot` draws, on new axes or on yours.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Any

    def _open_axes(self, ax: Any, figsize: tuple[float, float] = (5.2, 3.6)) -> Any:
        """Return the axes to draw on, new ones where `ax` is None."""
        self.ax_ = open_axes(ax, f"{type(self).__name__}.plot", figsize)
        self.figure_ = self.ax_.figure
        return self.ax_

    def _next_style(self) -> dict[str, Any]:
        """Return colour, line and marker that no curve on the axes has so far."""
        k = self._count("curve")
        line, marker = LINE_STYLES[k % len(LINE_STYLES)]
        return {"color": f"C{k}", "ls": line, "marker": marker, "gid": "curve"}

    def _reference_style(self, label: str) -> dict[str, Any]:
        """Return the style of a line drawn for comparison; the first of them is in the legend."""
        style = {"color": "0.45", "lw": 1.5, "ls": (0, (1, 1)), "gid": "reference"}
        return style | {"label": "_" + label if self._count("reference") else label}

    def _count(self, gid: str) -> int:
        """Return how many lines on the axes are of a kind, "curve" or "reference"."""
        return sum(line.get_gid() == gid for line in self.ax_.get_lines())

    def _once(self, label: str) -> str:
        """Return a label for the legend, hidden where an artist on the axes has it already."""
        return "_" + label if label in self.ax_.get_legend_handles_labels()[1] else label

    def _legend_above(self) -> None:
        """Put the legend where no data can be."""
        style = {"frameon": False, "fontsize": "small", "borderaxespad": 0.2}
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, **style)


class TableDisplay(Display):
    """A picture of statistics that an `M2MEstimator` answers."""

    @classmethod
    def from_sketch(
        cls, sketch: PrivateSketch, *args: Any, random_state: Any = None, **options: Any
    ) -> Any:
        """Draw statistics of a release. It costs no privacy.

        Parameters
        ----------
        sketch : PrivateSketch
            The release.
        *args, **options
            As in `from_estimator`, after the estimator.
        random_state : int, RandomState or None, default=None
            Seed of the synthetic points. None draws others in each call; an int repeats a picture.

        Returns
        -------
        display
            Of this class.
        """
        estimator = M2MEstimator.from_sketch(sketch, random_state=random_state)
        return cls.from_estimator(estimator, *args, **options)  # type: ignore[attr-defined]


def labels_of_numbers(schema: TableSchema) -> list[str]:
    """Return the names of the columns of numbers, dates left out, with their units."""
    return [label_of(schema, j) for j in schema.numbers]


def label_of(schema: TableSchema, j: int) -> str:
    """Return the name of a column, with its unit if it holds numbers."""
    return with_unit(schema.name(j), None if schema.values(j) else schema.columns[j].unit)


def reach_of(estimate: Estimate, level: float) -> NDArray:
    """Return how far an interval reaches below and above each value, shape (2, k)."""
    return np.abs(estimate[...].interval(level) - np.asarray(estimate)[..., None]).T


def names_of(estimate: Estimate, axis: int) -> Sequence[str]:
    """Return the labels along an axis, or numbers where there are none."""
    if len(estimate.labels) > axis:
        return estimate.labels[axis]
    return [str(i) for i in range(estimate.shape[axis])]


def name_ticks(ax: Any, names: Sequence[str]) -> None:
    """Write names below the axis, slanted."""
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")


def fill(k: int) -> dict[str, Any]:
    """Return the style of the bars of the k-th series: the colour of its curve, and a hatch."""
    hatch = HATCHES[k % len(HATCHES)]
    return {"facecolor": f"C{k}", "hatch": hatch, "edgecolor": "0.2", "lw": 0.8}


def of_level(level: float) -> str:
    """Return what every bar and band shows, in the words that all pictures share."""
    return f"{100 * level:.4g}% interval"


def digits(number: Any, n: int) -> str:
    """Return a number of n significant digits, with a power of ten only where it is far from 1."""
    return f"{float(f'{float(number):.{n}g}'):.7g}"
