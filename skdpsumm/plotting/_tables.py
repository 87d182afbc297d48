"""Shares and counts with their errors: a histogram, a two-way table, releases side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..moments import Estimate, M2MEstimator
from ..moments.asking._estimate import with_unit
from ..schema._schema import TableSchema
from ..sketches import PrivateSketch
from ._base import Display, TableDisplay, digits, of_level, same_length

# As many as `M2MEstimator.histogram` has where the schema has no edges.
_N_BINS = 10
# Beyond so many rows or columns no number fits into a cell of a table.
_MOST_ANNOTATED = 8
# Bars and their error bars, told apart in black and white.
_BAR = {"color": "0.82", "edgecolor": "0.35", "lw": 0.8}
_ERROR = {"fmt": "none", "ecolor": "k", "elinewidth": 1.1, "capsize": 3}
_FILLS = (("0.85", ""), ("0.6", "///"), ("1.0", "..."), ("0.4", ""), ("0.75", "xxx"))


@dataclass(eq=False, repr=False)
class HistogramDisplay(TableDisplay):
    """The share of rows in each bin or category, with an error bar.

    Parameters
    ----------
    shares : Estimate of shape (k,)
        The shares, as from `M2MEstimator.histogram`.
    edges : array-like of shape (k + 1,), default=None
        Edges of the bins, in the column's unit. None is for categories, which have no edges.
    names : sequence of k str, default=None
        Names of the categories, where there are no edges. None takes the labels of `shares`, which
        are their names already.
    label : str, default="value"
        Label of the x axis: the column, with its unit. The default fits any column.
    reference : array-like of shape (k,), default=None
        Shares of *public* data to draw beside, from a simulation for example. What is drawn is
        published, so by default there are none.

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
    >>> m2m = M2MEstimator(schema=schema, n_synthetic=1000, random_state=0).fit(X)
    >>> display = HistogramDisplay.from_estimator(m2m, 0, bins=4)
    >>> display.ax_.get_xlabel(), len(display.bars_)
    ('x0 (m)', 4)
    """

    shares: Estimate
    _: KW_ONLY
    edges: ArrayLike | None = None
    names: Sequence[str] | None = None
    label: str = "value"
    reference: ArrayLike | None = None

    def __post_init__(self) -> None:
        same_length("shares", self.shares, names=self.names, reference=self.reference)
        if self.edges is not None:
            self.edges = np.asarray(self.edges, dtype=np.float64)
            same_length("edges, less one,", self.edges[1:], shares=self.shares)

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
        reach = _reach(self.shares, level)
        ax = self._open_axes(ax)
        heights, (places, widths) = np.asarray(self.shares), self._places()
        self.bars_ = ax.bar(places, heights, widths, label="private", **_BAR)
        self.errorbar_ = ax.errorbar(places, heights, yerr=reach, label=of_level(level), **_ERROR)
        if self.reference is not None:
            ax.plot(places, np.asarray(self.reference), "x", color="0.1", ms=6, label="reference")
        if self.edges is None:
            _name_ticks(ax, _names(self.shares, 0) if self.names is None else self.names)
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
        reference: ArrayLike | None = None,
        ax: Any = None,
        level: float = 0.95,
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
            the schema, or 10 equal bins where there are none.
        reference : array-like of shape (k,), default=None
            *Public* data to draw beside, as in the constructor. By default there are none.
        ax, level :
            As in `plot`.

        Returns
        -------
        HistogramDisplay
        """
        columns = estimator.schema_
        j = columns.index(column, "column")
        values = columns.values(j)
        edges = _edges(columns, j, bins) if values is None else None
        display = cls(
            estimator.histogram(column, edges),
            edges=edges,
            names=None if values is None else [str(value) for value in values],
            label=with_unit(columns.name(j), columns.columns[j].unit if values is None else None),
            reference=reference,
        )
        return display.plot(ax, level=level)


def _edges(columns: TableSchema, j: int, bins: Any) -> NDArray:
    """Return the edges of the bins, as `M2MEstimator.histogram` takes them."""
    if bins is None:
        known = columns.edges(j)
        bins = _N_BINS if known is None else known
    if np.ndim(bins):
        return np.asarray(bins, dtype=np.float64)
    low, high = columns.bound(j)  # type: ignore[misc]  # numbers of an M2MEstimator have one
    return np.linspace(low, high, int(bins) + 1)


def _reach(estimate: Estimate, level: float) -> NDArray:
    """Return how far an interval reaches below and above each value, shape (2, k)."""
    reach = np.abs(estimate[...].interval(level) - np.asarray(estimate)[..., None])
    return np.moveaxis(reach, -1, 0)


def _names(estimate: Estimate, axis: int) -> Sequence[str]:
    """Return the labels along an axis, or numbers where there are none."""
    if len(estimate.labels) > axis:
        return estimate.labels[axis]
    return [str(i) for i in range(estimate.shape[axis])]


def _name_ticks(ax: Any, names: Sequence[str]) -> None:
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")


# ---- two columns at a time

_STATISTICS: dict[Any, str] = {
    False: "number of rows",
    True: "share of all rows",
    "index": "share of each row of the table",
    "columns": "share of each column of the table",
}


@dataclass(eq=False, repr=False)
class CrosstabDisplay(TableDisplay):
    """A two-way table: shaded by the answer, with the answer and its interval in each cell.

    Parameters
    ----------
    table : Estimate of shape (k, m)
        The table, as from `M2MEstimator.table` of two columns. Names come from its `labels` and
        `axes`.
    statistic : str, default="number of rows"
        What the answers are, for the title and the scale. The default is what `M2MEstimator.table`
        returns by default.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    texts_ : list of matplotlib Text
        One for each cell, row by row.
    colorbar_ : matplotlib Colorbar

    Notes
    -----
    An interval of a count often ends at 0, and then reaches farther above the answer than below it.
    So both ends are written, not their distance. Shades go from white to black, so they keep their
    order in print.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import CrosstabDisplay
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 9000)})
    >>> people["age"] = rng.integers(18, 65, 9000)
    >>> schema = {"sex": ["f", "m"], "age": (18, 66)}
    >>> m2m = M2MEstimator(schema=schema, n_synthetic=1000, random_state=0).fit(people)
    >>> display = CrosstabDisplay.from_estimator(m2m, ["sex", "age"], bins={"age": [18, 30, 66]})
    >>> [tick.get_text() for tick in display.ax_.get_xticklabels()]
    ['[18, 30)', '[30, 66]']
    """

    table: Estimate
    _: KW_ONLY
    statistic: str = "number of rows"

    def __post_init__(self) -> None:
        if len(self.table.shape) != 2:
            raise ValueError(
                f"table must have two axes, got shape {self.table.shape}. Ask "
                "M2MEstimator.table of two columns."
            )

    def plot(
        self, ax: Any = None, *, level: float = 0.95, annotate: bool | None = None
    ) -> CrosstabDisplay:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the intervals that are written, each by itself (`Estimate.interval`), with the
            usual default.
        annotate : bool, default=None
            Whether to write the answers and, below, the ends of their intervals. None writes them
            for up to 8 rows and 8 columns, as more would be too small to read.

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
        ends = self.table[...].interval(level)
        values = np.asarray(self.table)
        k, m = values.shape
        if annotate is None:
            annotate = max(k, m) <= _MOST_ANNOTATED
        wide, high = (1.15, 0.6) if annotate else (0.35, 0.3)
        ax = self._open_axes(ax, (max(4.2, wide * m + 2.6), max(2.6, high * k + 1.6)))
        largest = max(float(values.max(initial=0.0)), 1e-300)
        self.image_ = ax.imshow(values, cmap="Greys", vmin=0, vmax=largest, aspect="auto")
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label=self.statistic)
        _name_ticks(ax, _names(self.table, 1))
        ax.set_yticks(range(k), _names(self.table, 0))
        axes = self.table.axes if len(self.table.axes) == 2 else ("", "")
        ax.set(ylabel=axes[0], xlabel=axes[1])
        self.texts_ = self._write(ends, values / largest) if annotate else []
        below = f"\nbelow each one its {of_level(level)}" if annotate else ""
        ax.set_title(self.statistic + below, fontsize="medium")
        return self

    def _write(self, ends: NDArray, shades: NDArray) -> list[Any]:
        values, style = np.asarray(self.table), {"ha": "center", "va": "center"}
        texts = []
        for i, j in np.ndindex(*values.shape):
            low, high = (digits(end, 3) for end in ends[i, j])
            text = f"{digits(values[i, j], 3)}\n{low} to {high}"
            color = "w" if shades[i, j] > 0.55 else "k"
            texts.append(self.ax_.text(j, i, text, color=color, fontsize="small", **style))
        return texts

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        columns: Sequence[int | str],
        *,
        bins: Any = None,
        normalize: bool | str = False,
        ax: Any = None,
        level: float = 0.95,
        annotate: bool | None = None,
    ) -> CrosstabDisplay:
        """Draw two columns of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        columns : pair of int or str
            The two columns. The first goes down, the second across.
        bins, normalize :
            As in `M2MEstimator.table`.
        ax, level, annotate :
            As in `plot`.

        Returns
        -------
        CrosstabDisplay

        Raises
        ------
        ValueError
            If you do not give two columns.
        """
        table = estimator.table(columns, bins=bins, normalize=normalize)
        display = cls(table, statistic=_STATISTICS[normalize])
        return display.plot(ax, level=level, annotate=annotate)


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
    names : sequence of k str, default=None
        Names of the statistics. None takes the labels of the first estimate, as all share them.
    reference : array-like of shape (k,), default=None
        *Public* values to draw beside. What is drawn is published, so by default there are none.

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
    ...     f"epsilon={e}": M2MEstimator(schema=(0, 1), epsilon=e, random_state=0).fit(X)
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
    names: Sequence[str] | None = None
    reference: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not self.estimates:
            raise ValueError("estimates must hold at least one release.")
        first_name, first = next(iter(self.estimates.items()))
        for name, one in self.estimates.items():
            if len(one.shape) != 1:
                raise ValueError(
                    f"estimates must have one axis, got shape {one.shape} for {name!r}. Draw a "
                    "two-way table with CrosstabDisplay."
                )
            if one.shape != first.shape or one.labels != first.labels:
                raise ValueError(
                    f"estimates must answer the same question, but those of {first_name!r} and "
                    f"{name!r} have other labels. Ask both with the same bins."
                )
        same_length("each estimate", first, names=self.names, reference=self.reference)

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
        reaches = [_reach(one, level) for one in self.estimates.values()]
        first = next(iter(self.estimates.values()))
        k, n = len(first), len(self.estimates)
        ax = self._open_axes(ax, (5.6, 1.6 + 0.24 * k * (n + 1)))
        self.bars_, width = {}, 0.8 / n
        for i, (name, one) in enumerate(self.estimates.items()):
            places = np.arange(k) - 0.4 + width * (i + 0.5)
            color, hatch = _FILLS[i % len(_FILLS)]
            style = _BAR | {"color": color, "hatch": hatch, "label": name}
            self.bars_[name] = ax.barh(places, np.asarray(one), width, **style)
            told = self._once(of_level(level))
            ax.errorbar(np.asarray(one), places, xerr=reaches[i], label=told, **_ERROR)
        if self.reference is not None:
            where = np.arange(k)
            ax.plot(np.asarray(self.reference), where, "x", color="k", ms=7, label="reference")
        ax.set_yticks(range(k), _names(first, 0) if self.names is None else self.names)
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
        reference: ArrayLike | None = None,
        ax: Any = None,
        level: float = 0.95,
    ) -> ComparisonDisplay:
        """Ask several fitted estimators the same question, and draw it. It costs no privacy.

        Parameters
        ----------
        estimators : mapping from str to M2MEstimator
            What to ask, by the name of the release.
        statistic : callable
            Takes an `M2MEstimator` and returns an `Estimate` of one axis, such as
            ``lambda m2m: m2m.histogram("age")``.
        label, reference :
            As in the constructor.
        ax, level :
            As in `plot`.

        Returns
        -------
        ComparisonDisplay
        """
        answers = {name: statistic(one) for name, one in estimators.items()}
        return cls(answers, label=label, reference=reference).plot(ax, level=level)

    @classmethod
    def from_sketch(
        cls,
        sketches: Mapping[str, PrivateSketch],
        statistic: Callable[[M2MEstimator], Estimate],
        *,
        random_state: Any = None,
        **options: Any,
    ) -> ComparisonDisplay:
        """Ask several sketches the same question, and draw it. It costs no privacy.

        Parameters
        ----------
        sketches : mapping from str to PrivateSketch
            What to ask, by the name of the release.
        statistic : callable
            As in `from_estimator`.
        random_state : int, RandomState or None, default=None
            Seed of the synthetic points. None draws others in each call; an int repeats a picture.
        **options
            As in `from_estimator`.

        Returns
        -------
        ComparisonDisplay
        """
        estimators = {
            name: M2MEstimator.from_sketch(sketch, random_state=random_state)
            for name, sketch in sketches.items()
        }
        return cls.from_estimator(estimators, statistic, **options)
