"""Statistics from a private sketch: a distribution, and moments of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..moments import Estimate, M2MEstimator
from ._base import TableDisplay, digits, label_of, labels_of_numbers, of_level


@dataclass(eq=False, repr=False)
class CDFDisplay(TableDisplay):
    """The share of rows at or below each threshold, with a band: the interval of its noise.

    The curve is a line, or a staircase if the thresholds are all the values that the column has.

    Parameters
    ----------
    thresholds : array-like of shape (k,)
        Where the shares are taken, in the column's unit.
    cdf : Estimate of shape (k,)
        The shares, as from `M2MEstimator.cdf`.
    label : str, default="value"
        Label of the x axis: the column, with its unit. The default fits any column.
    reference : array-like of shape (k,), default=None
        Shares of *public* data to draw beside, from a simulation for example. What is drawn is
        published, so by default there are none.
    steps : bool, default=False
        Whether `thresholds` are all the values that the column has, the least first. The curve is
        then flat between them, and rises from 0 at the first. The default fits continuous columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    band_ : matplotlib PolyCollection

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator, Numeric
    >>> from skdpsumm.plotting import CDFDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 1))
    >>> schema = Numeric(0, 1, unit="m")
    >>> m2m = M2MEstimator(schema, n_synthetic=1000, random_state=0).fit(X)
    >>> CDFDisplay.from_estimator(m2m, 0).ax_.get_xlabel()
    'x0 (m)'
    """

    thresholds: ArrayLike
    cdf: Estimate
    _: KW_ONLY
    label: str = "value"
    reference: ArrayLike | None = None
    steps: bool = False

    def __post_init__(self) -> None:
        cuts = np.asarray(self.thresholds)
        self.thresholds = cuts if cuts.dtype.kind == "M" else cuts.astype(np.float64)

    def plot(self, ax: Any = None, *, level: float = 0.95, name: str = "private") -> CDFDisplay:
        """Draw the curve and its band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the band, over the privacy noise, with the usual default. The band is an
            interval at each threshold by itself (`Estimate.interval`).
        name : str, default="private"
            Name in the legend. The default tells the curve from the public `reference`.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the level is outside (0, 1).
        """
        low, high = self.cdf[...].interval(level).T
        ax = self._open_axes(ax)
        drawn = {"drawstyle": "steps-post"} if self.steps else {}
        style = self._next_style() | {"marker": ""} | drawn
        if self.reference is not None:
            compared = self._reference_style("reference") | drawn
            ax.plot(*self._curves(self.reference), **compared)
        band = {"alpha": 0.25, "lw": 0, "step": "post" if self.steps else None}
        band |= {"color": style["color"], "label": self._once(of_level(level))}
        (self.line_,) = ax.plot(*self._curves(self.cdf), label=name, **style)
        self.band_ = ax.fill_between(*self._curves(low, high), **band)
        ax.set(xlabel=self.label, ylabel="share of rows at or below", ylim=(0, 1.01))
        self._legend_above()
        return self

    def _curves(self, *shares: Any) -> list[Any]:
        """Return thresholds and shares to draw; a staircase begins at 0."""
        places = np.asarray(self.thresholds)
        if not self.steps:
            return [places, *map(np.asarray, shares)]
        return [np.r_[places[0], places], *(np.r_[0, s] for s in shares)]

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        column: int | str,
        *,
        thresholds: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        **options: Any,
    ) -> CDFDisplay:
        """Draw one column of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        column : int or str
            A numeric column.
        thresholds : array-like of shape (k,), increasing, default=None
            Where to take the shares. None takes 257 over the column's range, enough for a smooth
            line, or all values of a column with a step if it has at most 513.
        reference : array-like of shape (k,), default=None
            *Public* data to draw beside, as in the constructor. By default there are none.
        **options
            As in `plot`.

        Returns
        -------
        CDFDisplay

        Raises
        ------
        ValueError
            If the column has categories. Use `M2MEstimator.histogram` for those.
        """
        columns = estimator.schema_
        j = columns.index(column, "column")
        if columns.values(j) is not None:
            raise ValueError(
                f"Column {columns.name(j)!r} holds categories, which have no order; take their "
                f"shares from M2MEstimator.histogram({column!r})."
            )
        n_values = columns.columns[j].n_values or np.inf
        # A smooth curve has 257 thresholds, as fine as the picture: they are on the edges of bins
        # wherever the number of bins is a power of 2. Up to 513 steps can be seen.
        n_drawn = int(n_values) if n_values <= 513 else 257
        low, high = columns.bound(j)  # type: ignore[misc]  # numbers of an M2MEstimator have one
        drawn = np.unique(columns.on_grid(np.linspace(low, high, n_drawn), j))
        drawn = columns.decode(j, drawn)
        thresholds = drawn if thresholds is None else np.asarray(thresholds, dtype=drawn.dtype)
        display = cls(
            thresholds,
            estimator.cdf(column, thresholds),
            label=label_of(columns, j),
            reference=reference,
            steps=n_drawn == n_values and np.array_equal(thresholds, drawn),
        )
        return display.plot(**options)


# ---- moments


@dataclass(eq=False, repr=False)
class MomentDisplay(TableDisplay):
    """A statistic of each column with its noise interval, within its range in the schema.

    Columns have different units, so the axis shows the share of each column's range. The values are
    written beside it, in their units, ± one standard error, as an `Estimate` prints them.

    Parameters
    ----------
    moments : Estimate of shape (k,)
        The statistics, as from `M2MEstimator.mean` or `moment`.
    ranges : array-like of shape (k, 2)
        Least and largest value that each can take, in its unit.
    names : sequence of k str
        Names of the columns, with their units.
    statistic : str, default="mean"
        What the values are, for the axis. The default is the moment that people ask for most.
    reference : array-like of shape (k,), default=None
        *Public* values to draw beside, in units. What is drawn is published, so by default there
        are none.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    errorbar_ : matplotlib ErrorbarContainer
    texts_ : list of matplotlib Text

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator, Numeric
    >>> from skdpsumm.plotting import MomentDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 2))
    >>> schema = [Numeric(0, 1, unit="m"), (0, 1)]
    >>> m2m = M2MEstimator(schema, n_synthetic=1000, random_state=0).fit(X)
    >>> display = MomentDisplay.from_estimator(m2m)
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['x0 (m)', 'x1']
    """

    moments: Estimate
    ranges: ArrayLike
    _: KW_ONLY
    names: Sequence[str]
    statistic: str = "mean"
    reference: ArrayLike | None = None

    def plot(self, ax: Any = None, *, level: float = 0.95) -> MomentDisplay:
        """Draw one line per column.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the bars, over the privacy noise (`Estimate.interval`), with the usual default.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the level is outside (0, 1).
        """
        ends = self.moments[...].interval(level)
        k = len(self.names)
        ax = self._open_axes(ax, (6.4, 1.3 + 0.32 * k))
        places, middle = np.arange(k), self._share(np.asarray(self.moments))
        reach = np.abs(self._share(ends.T) - middle)
        style = {"fmt": "o", "color": "C0", "ms": 4, "capsize": 3, "label": "private"}
        self.errorbar_ = ax.errorbar(middle, places, xerr=reach, **style)
        if self.reference is not None:
            shares = self._share(np.asarray(self.reference, np.float64))
            ax.plot(shares, places, "x", color="0.1", ms=7, label="reference")
            self._legend_above()
        self.texts_ = [self._write(ax, i) for i in range(k)]
        ax.set_yticks(places, self.names)
        ax.set(xlim=(-0.02, 1.02), ylim=(k - 0.5, -0.5))
        errors = f"bars: {of_level(level)}; ±: standard error"
        ax.set_xlabel(f"{self.statistic}, share of its range\n({errors})")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        return self

    def _share(self, values: Any) -> Any:
        low, high = np.asarray(self.ranges, np.float64).T
        return (values - low) / (high - low)

    def _write(self, ax: Any, i: int) -> Any:
        one = self.moments[i]
        text = f" {digits(float(one), 4)} ± {digits(float(one.std_error), 2)}"
        where = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": "small"}
        return ax.text(1.01, i, text, **where)

    @classmethod
    def from_estimator(
        cls, estimator: M2MEstimator, *, reference: ArrayLike | None = None, **options: Any
    ) -> MomentDisplay:
        """Draw the means of a fitted estimator's numeric columns. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        reference : array-like of shape (k,), default=None
            *Public* data to draw beside, as in the constructor. By default there are none.
        **options
            As in `plot`.

        Returns
        -------
        MomentDisplay
        """
        schema = estimator.schema_
        ranges = np.array([schema.bound(j) for j in schema.numbers], np.float64)
        names = labels_of_numbers(schema)
        return cls(estimator.mean(), ranges, names=names, reference=reference).plot(**options)
