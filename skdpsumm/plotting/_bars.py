"""Bars with their errors: a histogram, and releases side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..moments import Estimate, M2MEstimator
from ..schema._schema import TableSchema
from ._base import (
    ERROR_BARS,
    Display,
    TableDisplay,
    fill,
    label_of,
    name_ticks,
    names_of,
    of_level,
    reach_of,
)


@dataclass(eq=False, repr=False)
class HistogramDisplay(TableDisplay):
    """The share of rows in each bin or category, with an error bar.

    Parameters
    ----------
    shares : Estimate of shape (k,)
        The shares, as from `M2MEstimator.histogram`.
    edges : array-like of shape (k + 1,), default=None
        Edges of the bins, in the column's unit. None is for categories, which have no edges.
    label : str, default="value"
        Label of the x axis: the column, with its unit. The default fits any column.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    errorbar_ : matplotlib ErrorbarContainer

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator, Numeric
    >>> from skdpsumm.plotting import HistogramDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 1))
    >>> schema = Numeric(0, 1, unit="m")
    >>> m2m = M2MEstimator(schema, n_synthetic=1000, random_state=0).fit(X)
    >>> display = HistogramDisplay.from_estimator(m2m, 0, bins=4)
    >>> display.ax_.get_xlabel(), len(display.bars_)
    ('x0 (m)', 4)
    """

    shares: Estimate
    _: KW_ONLY
    edges: ArrayLike | None = None
    label: str = "value"

    def plot(self, ax: Any = None, *, level: float = 0.95) -> HistogramDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the error bars, each by itself (`Estimate.interval`), with the usual default.

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
        reach = reach_of(self.shares, level)
        ax = self._open_axes(ax)
        heights, (places, widths) = np.asarray(self.shares), self._places()
        self.bars_ = ax.bar(places, heights, widths, label="private", **fill(0))
        self.errorbar_ = ax.errorbar(
            places, heights, yerr=reach, label=of_level(level), **ERROR_BARS
        )
        if self.edges is None:
            name_ticks(ax, names_of(self.shares, 0))
        ax.set(xlabel=self.label, ylabel="share of rows")
        ax.set_ylim(bottom=0)
        self._legend_above()
        return self

    def _places(self) -> tuple[NDArray, NDArray]:
        """Return the middle and the width of each bar."""
        if self.edges is None:
            k = len(self.shares)
            return np.arange(k), np.full(k, 0.7)
        edges = np.asarray(self.edges)
        return (edges[1:] + edges[:-1]) / 2, np.diff(edges)

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        column: int | str,
        *,
        bins: int | ArrayLike | None = None,
        **options: Any,
    ) -> HistogramDisplay:
        """Draw one column of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        column : int or str
            The column, by number or name.
        bins : int or array-like of edges, default=None
            As in `M2MEstimator.histogram`; columns of categories ignore it. None takes the edges of
            the schema, or 10 equal bins where there are none (of dates: the bins of the release).
        **options
            As in `plot`.

        Returns
        -------
        HistogramDisplay
        """
        columns = estimator.schema_
        j = columns.index(column, "column")
        edges = _edges(columns, j, bins) if j in columns.numbers else None
        shares = estimator.histogram(column, bins if edges is None else edges)
        return cls(shares, edges=edges, label=label_of(columns, j)).plot(**options)


def _edges(columns: TableSchema, j: int, bins: Any) -> NDArray:
    """Return the edges of the bins, as `M2MEstimator.histogram` takes them."""
    if bins is None:
        known = columns.edges(j)
        bins = 10 if known is None else known  # as in `M2MEstimator.histogram`
    if np.ndim(bins):
        return np.asarray(bins, dtype=np.float64)
    low, high = columns.bound(j)  # type: ignore[misc]  # numbers of an M2MEstimator have one
    return np.linspace(low, high, int(bins) + 1)


# ---- releases side by side


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Display):
    """The same statistics from several releases, as bars side by side with error bars.

    Parameters
    ----------
    estimates : mapping from str to Estimate of shape (k,)
        The answers, by the name of the release.
    label : str, default="value"
        Label of the axis: what the statistics are, with their unit. The default fits any statistic.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : dict from str to matplotlib BarContainer
        One for each release.

    Notes
    -----
    Releases of one table share its rows, and have independent noise. If two of them differ by more
    than their bars, one has missed the truth. 95% intervals do so in at most about 5 of 100 cases.
    Each release costs privacy by itself. The ledger tells what they cost together.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import ComparisonDisplay
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 1))
    >>> releases = {
    ...     f"epsilon={e}": M2MEstimator((0, 1), epsilon=e, random_state=0).fit(X)
    ...     for e in (0.3, 3)
    ... }
    >>> display = ComparisonDisplay.from_estimator(
    ...     releases, lambda m2m: m2m.histogram(0, bins=4), label="share of rows"
    ... )
    >>> list(display.bars_)
    ['epsilon=0.3', 'epsilon=3']
    """

    estimates: Mapping[str, Estimate]
    _: KW_ONLY
    label: str = "value"

    def __post_init__(self) -> None:
        first, *others = ((one.shape, one.labels) for one in self.estimates.values())
        if len(first[0]) != 1 or any(one != first for one in others):
            raise ValueError(
                "estimates must answer the same question, with one axis: ask all releases with the "
                "same bins. Draw a two-way table with CrosstabDisplay."
            )

    def plot(self, ax: Any = None, *, level: float = 0.95) -> ComparisonDisplay:
        """Draw the bars, the first release on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the error bars, each by itself (`Estimate.interval`), with the usual default.

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
        reaches = [reach_of(one, level) for one in self.estimates.values()]
        first = next(iter(self.estimates.values()))
        k, n = len(first), len(self.estimates)
        ax = self._open_axes(ax, (5.6, 1.6 + 0.24 * k * (n + 1)))
        self.bars_, width = {}, 0.8 / n
        for i, (name, one) in enumerate(self.estimates.items()):
            places = np.arange(k) - 0.4 + width * (i + 0.5)
            self.bars_[name] = ax.barh(places, np.asarray(one), width, label=name, **fill(i))
            told = self._once(of_level(level))
            ax.errorbar(np.asarray(one), places, xerr=reaches[i], label=told, **ERROR_BARS)
        ax.set_yticks(range(k), names_of(first, 0))
        ax.set(xlabel=self.label, ylim=(k - 0.45, -0.55))
        self._legend_above()
        return self

    @classmethod
    def from_estimator(
        cls,
        estimators: Mapping[str, M2MEstimator],
        statistic: Callable[[M2MEstimator], Estimate],
        *,
        label: str = "value",
        **options: Any,
    ) -> ComparisonDisplay:
        """Ask several fitted estimators the same question, and draw it. It costs no privacy.

        Parameters
        ----------
        estimators : mapping from str to M2MEstimator
            What to ask, by the name of the release.
        statistic : callable
            Takes an `M2MEstimator` and returns an `Estimate` of one axis, such as
            ``lambda m2m: m2m.histogram("age")``.
        label :
            As in the constructor.
        **options
            As in `plot`.

        Returns
        -------
        ComparisonDisplay
        """
        answers = {name: statistic(one) for name, one in estimators.items()}
        return cls(answers, label=label).plot(**options)
