"""What a sketch answers: bars, matrices, curves, moments; which columns it counted together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._computing import TINY
from ..features._feature_maps import HistogramMap
from ..moments import Estimate, M2MEstimator
from ..sketches import PrivateSketch
from ..sketches._adaptive import MEAN_NOISE
from ._base import (
    ERROR_BARS,
    LINE_STYLES,
    Display,
    TableDisplay,
    digits,
    fill,
    label_of,
    labels_of_numbers,
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
        edges = estimator._edges(j, bins) if j in columns.numbers else None
        shares = estimator.histogram(column, bins if edges is None else edges)
        return cls(shares, edges=edges, label=label_of(columns, j)).plot(**options)


# ---- bars of several releases, side by side


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


# ---- matrices: a two-way table, covariances and correlations


class MatrixDisplay(TableDisplay):
    """A matrix that is shaded, and has numbers in its cells where there is room."""

    def _draw(self, ax: Any, values: NDArray, shades: NDArray, *told: Any) -> bool:
        """Draw the matrix, and return whether numbers are written: where there is room.

        Parameters
        ----------
        ax : matplotlib Axes or None
        values : ndarray of shape (k, m)
            What is written.
        shades : ndarray of shape (k, m)
            What is shaded.
        *told
            The numbers that are white and blue; what is shaded, for the scale; the names of the
            rows and of the columns; and a function of a position (i, j), which returns the text
            below its value.
        """
        (low, high), scale, rows, columns, below = told
        k, m = values.shape
        # The numbers of a larger matrix could not be read in its cells.
        annotate = max(k, m) <= 8
        wide, tall = (1.15, 0.6) if annotate else (0.35, 0.3)
        ax = self._open_axes(ax, (max(4.2, wide * m + 2.6), max(2.6, tall * k + 1.6)))
        from matplotlib.colors import LinearSegmentedColormap

        # Black text can be read on all of these colours.
        light = LinearSegmentedColormap.from_list("light", ["w", "C0"])
        self.image_ = ax.imshow(shades, cmap=light, vmin=low, vmax=high, aspect="auto")
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label=scale)
        ax.set_yticks(range(k), rows)
        name_ticks(ax, columns)
        self.texts_ = []
        for (i, j), value in np.ndenumerate(values) if annotate else ():
            text = f"{digits(value, 3)}\n{below(i, j)}"
            style = {"ha": "center", "va": "center", "fontsize": "small"}
            self.texts_.append(ax.text(j, i, text, **style))
        return annotate


@dataclass(eq=False, repr=False)
class CrosstabDisplay(MatrixDisplay):
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
    So both ends are written, not their distance. A darker cell has a larger answer, in print too.

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
    >>> m2m = M2MEstimator(schema, n_synthetic=1000, random_state=0).fit(people)
    >>> display = CrosstabDisplay.from_estimator(m2m, ["sex", "age"], bins={"age": [18, 30, 66]})
    >>> [tick.get_text() for tick in display.ax_.get_xticklabels()]
    ['[18, 30)', '[30, 66]']
    """

    table: Estimate
    _: KW_ONLY
    statistic: str = "number of rows"

    def plot(self, ax: Any = None, *, level: float = 0.95) -> CrosstabDisplay:
        """Draw the table; in up to 8 rows and 8 columns, write the answers, and their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the intervals that are written, each by itself (`Estimate.interval`), with the
            usual default.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the level is outside (0, 1), or the table has other than two axes.
        """
        ends = self.table[...].interval(level)
        values = np.asarray(self.table)

        def below(i: int, j: int) -> str:
            return " to ".join(digits(end, 3) for end in ends[i, j])

        names = names_of(self.table, 0), names_of(self.table, 1)
        ends_of_shades = 0.0, max(float(values.max(initial=0.0)), TINY)
        told = ends_of_shades, self.statistic, *names, below
        annotate = self._draw(ax, values, values, *told)
        axes = self.table.axes if len(self.table.axes) == 2 else ("", "")
        self.ax_.set(ylabel=axes[0], xlabel=axes[1])
        note = f"\nbelow each one its {of_level(level)}" if annotate else ""
        self.ax_.set_title(self.statistic + note, fontsize="medium")
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        columns: Sequence[int | str],
        *,
        bins: Any = None,
        **options: Any,
    ) -> CrosstabDisplay:
        """Draw two columns of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        columns : pair of int or str
            The two columns. The first goes down, the second across.
        bins :
            As in `M2MEstimator.table`.
        **options
            As in `plot`.

        Returns
        -------
        CrosstabDisplay

        Raises
        ------
        ValueError
            If you do not give two columns.
        """
        return cls(estimator.table(columns, bins=bins)).plot(**options)


@dataclass(eq=False, repr=False)
class CovarianceDisplay(MatrixDisplay):
    """A matrix of covariances or correlations: shaded by correlation, with numbers and errors.

    A number after ``±`` is one standard error, as an `Estimate` prints it.

    Parameters
    ----------
    matrix : Estimate of shape (k, k)
        The matrix, as from `M2MEstimator.covariance` or `correlation`.
    names : sequence of k str
        Names of the columns, with their units. A covariance has the product of two units.
    statistic : {"covariance", "correlation"}, default="covariance"
        What the matrix holds. The default is the statistic that the class is named after.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
        Of the correlations.
    texts_ : list of matplotlib Text
    colorbar_ : matplotlib Colorbar

    Notes
    -----
    Shades go from white (-1) to blue (+1), and keep their order in print.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import CovarianceDisplay
    >>> X = np.random.default_rng(0).random((5000, 2))
    >>> m2m = M2MEstimator((0, 1), n_synthetic=1000, random_state=0).fit(X)
    >>> display = CovarianceDisplay.from_estimator(m2m, statistic="correlation")
    >>> display.colorbar_.ax.get_ylabel()
    'correlation'
    """

    matrix: Estimate
    _: KW_ONLY
    names: Sequence[str]
    statistic: str = "covariance"

    def plot(self, ax: Any = None) -> CovarianceDisplay:
        """Draw the matrix; of up to 8 columns, write the values, and their standard errors.

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
        values, errors = np.asarray(self.matrix), self.matrix[...].std_error
        # Shades are of correlations.
        spread = np.sqrt(np.maximum(np.diag(values), TINY))
        shades, names = np.clip(values / spread / spread[:, None], -1, 1), self.names

        def below(i: int, j: int) -> str:
            return f"±{digits(errors[i, j], 2)}"

        told = (-1.0, 1.0), "correlation", names, names, below
        annotate = self._draw(ax, values, shades, *told)
        note = "\n± standard error" if annotate else ""
        self.ax_.set_title(self.statistic + note, fontsize="medium")
        return self

    @classmethod
    def from_estimator(
        cls, estimator: M2MEstimator, *, statistic: str = "covariance", **options: Any
    ) -> CovarianceDisplay:
        """Draw the numeric columns of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
            A fitted one.
        statistic : {"covariance", "correlation"}, default="covariance"
            What to draw, with the same default as in the constructor.
        **options
            As in `plot`.

        Returns
        -------
        CovarianceDisplay
        """
        if statistic not in ("covariance", "correlation"):
            raise ValueError(f"statistic must be 'covariance' or 'correlation', got {statistic!r}.")
        schema = estimator.schema_
        plain = [schema.name(j) for j in schema.numbers]
        names = labels_of_numbers(schema) if statistic == "covariance" else plain
        matrix = getattr(estimator, statistic)()
        return cls(matrix, names=names, statistic=statistic).plot(**options)


# ---- curves


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
            ax.plot(*self._curves(self.reference), **self._reference_style("reference") | drawn)
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


# ---- the columns as a graph

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
