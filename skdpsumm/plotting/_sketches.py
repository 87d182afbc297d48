"""Which columns a sketch counted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features._histogram import HistogramMap
from ..sketches import PrivateSketch
from ..sketches._adaptive import MEAN_NOISE
from ._base import LINE_STYLES, Display

# Widths in points of the lines between two independent columns, and between two that are one.
_THIN, _THICK = 0.8, 7.0


@dataclass(eq=False, repr=False)
class ColumnGraphDisplay(Display):
    """The columns of a sketch as a graph: a line joins two that were counted together.

    The style of a line tells in which step of an `AdaptiveSketcher` the two were first counted
    together. Its width tells how far they are from independent. The sketch has released all of it.

    Parameters
    ----------
    columns : sequence of str
        Their names, in the order in which they stand around the circle.
    pairs : mapping from pair of str to int
        The step in which two columns were first counted together, from 1 on.
    strengths : mapping from pair of str to float
        How far two columns are from independent, between 0 and 1: the total variation distance.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict from pair of str to matplotlib Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import AdaptiveSketcher
    >>> from skdpsumm.plotting import ColumnGraphDisplay
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> sketch = AdaptiveSketcher(schema=(0, 1)).fit(X).sketch_
    >>> display = ColumnGraphDisplay.from_sketch(sketch)
    >>> sorted(display.lines_)
    [('x0', 'x1'), ('x0', 'x2'), ('x1', 'x2')]
    """

    columns: Sequence[str]
    pairs: Mapping[tuple[str, str], int]
    strengths: Mapping[tuple[str, str], float]

    def plot(self, ax: Any = None) -> ColumnGraphDisplay:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        size = 4.2 + 0.06 * len(self.columns)
        ax = self._open_axes(ax, (size, size))
        angle = np.pi / 2 - 2 * np.pi * np.arange(len(self.columns)) / len(self.columns)
        place = dict(zip(self.columns, np.c_[np.cos(angle), np.sin(angle)].tolist(), strict=True))
        styles: dict[int, dict[str, Any]] = {}
        for k, step in enumerate(sorted(set(self.pairs.values()))):
            line, _ = LINE_STYLES[k % len(LINE_STYLES)]
            styles[step] = {"color": f"C{k}", "ls": line, "gid": "curve"}
            ax.plot([], [], label=f"step {step}", **styles[step])  # for the legend
        self.lines_: dict[tuple[str, str], Any] = {}
        for pair, step in self.pairs.items():
            x, y = zip(*(place[name] for name in pair), strict=True)
            width = _THIN + (_THICK - _THIN) * min(max(self.strengths[pair], 0.0), 1.0)
            (self.lines_[pair],) = ax.plot(x, y, lw=width, **styles[step])
        for name, turn in zip(self.columns, angle.tolist(), strict=True):
            self._write(name, place[name], turn)
        ax.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
        ax.set_axis_off()
        if self.pairs:
            self._legend_above()
        return self

    def _write(self, name: str, place: Sequence[float], turn: float) -> None:
        """Write a column's name outside the circle, away from the lines."""
        x, y = place
        self.ax_.plot([x], [y], "o", color="0.2", ms=4, zorder=3, gid="reference")
        left = np.cos(turn) < -1e-9
        style = {"va": "center", "fontsize": "small", "rotation_mode": "anchor"}
        style |= {"ha": "right" if left else "left", "rotation": np.degrees(turn) + 180 * left}
        self.ax_.text(1.06 * x, 1.06 * y, name, **style)

    @classmethod
    def from_sketch(cls, sketch: PrivateSketch, *, ax: Any = None) -> ColumnGraphDisplay:
        """Draw what a release counted together. It costs no privacy.

        Parameters
        ----------
        sketch : PrivateSketch
            A release with histograms, such as that of an `AdaptiveSketcher`.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.

        Returns
        -------
        ColumnGraphDisplay

        Raises
        ------
        ValueError
            If the sketch has no histogram.
        """
        schema = sketch.schema
        names = [schema.name(j) for j in range(schema.n_columns)]
        pairs: dict[tuple[str, str], int] = {}
        strengths: dict[tuple[str, str], float] = {}
        steps = [(p, where) for p, where in sketch.blocks() if isinstance(p, HistogramMap)]
        if not steps:
            raise ValueError(
                "The sketch has no histogram, so it counted no columns together. Draw the sketch "
                "of an AdaptiveSketcher or a HistogramSketcher."
            )
        for step, (part, where) in enumerate(steps, 1):
            cells = zip(part.groups, part.row_groups(), strict=True)
            for group, place in cells:
                counts = sketch.sums[where][place].reshape([part.n_bins[j] for j in group])
                noise = float(sketch.noise_std[where][place][0])
                for a, b in combinations(range(len(group)), 2):
                    pair = names[min(group[a], group[b])], names[max(group[a], group[b])]
                    if pair not in pairs:
                        pairs[pair] = step
                        strengths[pair] = _strength(counts, (a, b), noise)
        return cls(names, pairs, strengths).plot(ax)


def _strength(counts: NDArray, axes: tuple[int, int], noise_std: float) -> float:
    """Return the total variation of two columns from independence, less what noise adds to it."""
    others = tuple(k for k in range(counts.ndim) if k not in axes)
    pair = counts.sum(axis=others)
    n = max(float(pair.sum()), 1.0)
    independent = np.outer(pair.sum(axis=1), pair.sum(axis=0)) / n
    noise = MEAN_NOISE * noise_std * np.sqrt(counts.size / pair.size) * pair.size
    return float(max(np.abs(pair - independent).sum() - noise, 0.0) / (2 * n))
