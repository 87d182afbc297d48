"""A cumulative distribution from a private sketch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..moments import Estimate, M2MEstimator
from ..sketches import PrivateSketch
from ._axes import (
    need_matplotlib,
    next_style,
    of_level,
    once,
    open_axes,
    reference_style,
    same_length,
    units_of,
    with_unit,
)

# As fine as the picture: thresholds on the edges of bins wherever their number is a power of 2.
_N_THRESHOLDS = 257
# Of a column with more values nobody sees the steps.
_MOST_STEPS = 513


class CDFDisplay:
    """The share of rows at or below each threshold, and a band: the interval of its noise.

    A line, or a staircase where the thresholds are all the values that the column has.

    Parameters
    ----------
    thresholds : array-like of shape (k,)
        In the column's unit.
    cdf : Estimate of shape (k,)
        As of `M2MEstimator.cdf`.
    label : str, default="value"
        Of the x axis: the column, with its unit.
    reference : array-like of shape (k,), default=None
        Shares of *public* data to draw beside, a simulation's for example. What is drawn is
        published.
    steps : bool, default=False
        Whether `thresholds` are all the values that the column has, the least first: then the
        curve is flat between them, and rises from 0 at the first.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    band_ : matplotlib PolyCollection

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import CDFDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 1))
    >>> m2m = M2MEstimator(bounds=(0, 1), n_synthetic=1000, random_state=0).fit(X)
    >>> CDFDisplay.from_estimator(m2m, 0, unit="m").ax_.get_xlabel()
    'x0 (m)'
    """

    def __init__(
        self,
        thresholds: ArrayLike,
        cdf: Estimate,
        *,
        label: str = "value",
        reference: ArrayLike | None = None,
        steps: bool = False,
    ):
        self.thresholds = np.asarray(thresholds, dtype=np.float64)
        same_length("thresholds", self.thresholds, cdf=cdf, reference=reference)
        self.cdf = cdf
        self.label = label
        self.reference = reference
        self.steps = steps

    def plot(self, ax: Any = None, *, level: float = 0.95, name: str = "private") -> CDFDisplay:
        """Draw the curve and its band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        level : float, default=0.95
            Of the band, over the privacy noise: an interval at each threshold by itself
            (`Estimate.interval`).
        name : str, default="private"
            For the legend.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            For a level outside (0, 1).
        """
        low, high = self.cdf.interval(level).T
        ax = open_axes(self, ax)
        drawn = {"drawstyle": "steps-post"} if self.steps else {}
        style = next_style(ax) | {"marker": ""} | drawn
        if self.reference is not None:
            compared = reference_style(ax, "reference") | drawn
            ax.plot(*self._curves(self.reference), **compared)
        band = {"alpha": 0.25, "color": style["color"], "lw": 0, "label": once(ax, of_level(level))}
        flat = "post" if self.steps else None
        (self.line_,) = ax.plot(*self._curves(self.cdf), label=name, **style)
        self.band_ = ax.fill_between(*self._curves(low, high), step=flat, **band)
        ax.set(xlabel=self.label, ylabel="share of rows at or below", ylim=(0, 1.01))
        ax.legend(frameon=False, fontsize="small")
        return self

    def _curves(self, *shares: Any) -> list[Any]:
        """Return thresholds and shares to draw; a staircase begins at 0."""
        if not self.steps:
            return [self.thresholds, *map(np.asarray, shares)]
        return [self.thresholds[[0, *range(len(self.thresholds))]], *(np.r_[0, s] for s in shares)]

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        column: int | str,
        *,
        thresholds: ArrayLike | None = None,
        unit: str | None = None,
        reference: ArrayLike | None = None,
        ax: Any = None,
        level: float = 0.95,
        name: str = "private",
    ) -> CDFDisplay:
        """Draw one column of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
        column : int or str
            A numeric one.
        thresholds : array-like of shape (k,), increasing, default=None
            None is 257 between the column's bounds, or all values of a column with `steps`, if
            these are at most 513.
        unit : str, default=None
            Of the column. None takes the schema's (`PrivateSketch.with_units`).
        reference : array-like of shape (k,), default=None
            As in the constructor.
        ax, level, name :
            As in `plot`.

        Returns
        -------
        CDFDisplay

        Raises
        ------
        ValueError
            For a column of categories, which `M2MEstimator.histogram` is for.
        """
        need_matplotlib(cls, "from_estimator")
        columns, j = estimator.columns_, estimator._column(column)
        if columns.values(j) is not None:
            raise ValueError(
                f"Column {columns.name(j)!r} holds categories, which have no order; take their "
                f"shares from M2MEstimator.histogram({column!r})."
            )
        n_values = columns.n_values(j) or np.inf
        n_drawn = int(n_values) if n_values <= _MOST_STEPS else _N_THRESHOLDS
        drawn = np.unique(columns.on_grid(np.linspace(*estimator._bound(j), n_drawn), j))
        thresholds = drawn if thresholds is None else np.asarray(thresholds, dtype=np.float64)
        display = cls(
            thresholds,
            estimator.cdf(column, thresholds),
            label=with_unit(columns.name(j), unit or units_of(columns, None)[j]),
            reference=reference,
            steps=n_drawn == n_values and np.array_equal(thresholds, drawn),
        )
        return display.plot(ax, level=level, name=name)

    @classmethod
    def from_sketch(
        cls, sketch: PrivateSketch, column: int | str, *, random_state: Any = None, **options: Any
    ) -> CDFDisplay:
        """Draw one column of a release. It costs no privacy.

        Parameters
        ----------
        sketch : PrivateSketch
        column : int or str
        random_state : int, RandomState or None, default=None
            Of the synthetic points.
        **options
            As in `from_estimator`.

        Returns
        -------
        CDFDisplay
        """
        need_matplotlib(cls, "from_sketch")
        estimator = M2MEstimator.from_sketch(sketch, random_state=random_state)
        return cls.from_estimator(estimator, column, **options)
