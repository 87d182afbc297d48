"""Moments of all columns from a private sketch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..moments import Estimate, M2MEstimator
from ..sketches import PrivateSketch
from ._axes import (
    digits,
    legend_above,
    need_matplotlib,
    of_level,
    open_axes,
    same_length,
    units_of,
    with_unit,
)


class MomentDisplay:
    """A statistic of each column with its noise interval, within the range that bounds allow.

    Columns have different units, so that the axis is the share of each one's range; the values
    are written beside, in units, ± one standard error of the noise, as an `Estimate` prints them.

    Parameters
    ----------
    moments : Estimate of shape (k,)
        As of `M2MEstimator.mean` or `moment`.
    ranges : array-like of shape (k, 2)
        Least and largest value that each can take, in its unit.
    names : sequence of k str
    units : sequence of k str or None, default=None
        Of the values.
    statistic : str, default="mean"
        What they are, for the axis.
    reference : array-like of shape (k,), default=None
        *Public* values to draw beside, in units. What is drawn is published.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    errorbar_ : matplotlib ErrorbarContainer
    texts_ : list of matplotlib Text

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import MomentDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 2))
    >>> m2m = M2MEstimator(bounds=(0, 1), n_synthetic=1000, random_state=0).fit(X)
    >>> display = MomentDisplay.from_estimator(m2m, units={"x0": "m"})
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['x0 (m)', 'x1']
    """

    def __init__(
        self,
        moments: Estimate,
        ranges: ArrayLike,
        *,
        names: Sequence[str],
        units: Sequence[str | None] | None = None,
        statistic: str = "mean",
        reference: ArrayLike | None = None,
    ):
        same_length("moments", moments, ranges=ranges, names=names, reference=reference)
        self.moments = moments
        self.ranges = np.asarray(ranges, dtype=np.float64)
        self.names = list(names)
        self.units = [None] * len(self.names) if units is None else list(units)
        self.statistic = statistic
        self.reference = reference

    def plot(self, ax: Any = None, *, level: float = 0.95) -> MomentDisplay:
        """Draw one line per column.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        level : float, default=0.95
            Of the bars, over the privacy noise (`Estimate.interval`).

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
        ends = self.moments.interval(level)
        k = len(self.names)
        ax = open_axes(self, ax, (6.4, 1.3 + 0.32 * k))
        places, middle = np.arange(k), self._share(np.asarray(self.moments))
        reach = np.abs(self._share(ends.T) - middle)
        style = {"fmt": "o", "color": "k", "ms": 4, "capsize": 3, "label": "private"}
        self.errorbar_ = ax.errorbar(middle, places, xerr=reach, **style)
        if self.reference is not None:
            shares = self._share(np.asarray(self.reference, dtype=np.float64))
            ax.plot(shares, places, "x", color="0.45", ms=7, label="reference")
            legend_above(ax)
        self.texts_ = [self._write(ax, i) for i in range(k)]
        labels = [with_unit(*pair) for pair in zip(self.names, self.units, strict=True)]
        ax.set_yticks(places, labels)
        ax.set(xlim=(-0.02, 1.02), ylim=(k - 0.5, -0.5))
        errors = f"bars: {of_level(level)}; ±: standard error of the noise"
        ax.set_xlabel(f"{self.statistic}, share of its range within the bounds\n({errors})")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        return self

    def _share(self, values: Any) -> Any:
        low, high = self.ranges.T
        return (values - low) / (high - low)

    def _write(self, ax: Any, i: int) -> Any:
        one = self.moments[i]
        text = f" {digits(float(one), 4)} ± {digits(float(one.noise_std_error), 2)}"
        where = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": "small"}
        return ax.text(1.01, i, text, **where)

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        *,
        order: int = 1,
        units: Mapping[str, str] | None = None,
        reference: ArrayLike | None = None,
        ax: Any = None,
        level: float = 0.95,
    ) -> MomentDisplay:
        """Draw the numeric columns of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
        order : int, default=1
            Of the raw moment ``E[x^order]``; 1 is the mean.
        units : mapping from column name to str, default=None
            Units of the columns. None takes the schema's (`PrivateSketch.with_units`).
        reference : array-like of shape (k,), default=None
            As in the constructor.
        ax, level :
            As in `plot`.

        Returns
        -------
        MomentDisplay
        """
        need_matplotlib(cls, "from_estimator")
        which = estimator._numeric()
        known = units_of(estimator.columns_, units)
        moments = estimator.moment(order)
        display = cls(
            moments,
            [_range(estimator._bound(j), int(order)) for j in which],
            names=estimator._names(which),
            units=[_power(known[j], int(order)) for j in which],
            statistic="mean" if order == 1 else f"mean of the power {order}",
            reference=reference,
        )
        return display.plot(ax, level=level)

    @classmethod
    def from_sketch(
        cls, sketch: PrivateSketch, *, random_state: Any = None, **options: Any
    ) -> MomentDisplay:
        """Draw the numeric columns of a release. It costs no privacy.

        Parameters
        ----------
        sketch : PrivateSketch
        random_state : int, RandomState or None, default=None
            Of the synthetic points.
        **options
            As in `from_estimator`.

        Returns
        -------
        MomentDisplay
        """
        need_matplotlib(cls, "from_sketch")
        estimator = M2MEstimator.from_sketch(sketch, random_state=random_state)
        return cls.from_estimator(estimator, **options)


def _range(bound: tuple[float, float], order: int) -> tuple[float, float]:
    """Return the least and the largest power of a value within bounds."""
    powers = [end**order for end in bound]
    if order % 2 == 0 and bound[0] < 0 < bound[1]:
        powers.append(0.0)
    return min(powers), max(powers)


def _power(unit: str | None, order: int) -> str | None:
    return (
        unit
        if unit is None or order == 1
        else f"{unit}^{order}"
        if unit.isalpha()
        else f"({unit})^{order}"
    )
