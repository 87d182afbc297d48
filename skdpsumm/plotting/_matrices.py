"""Numbers in a matrix: a two-way table, covariances and correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._computing import TINY
from ..moments import Estimate, M2MEstimator
from ._base import TableDisplay, digits, labels_of_numbers, name_ticks, names_of, of_level


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
