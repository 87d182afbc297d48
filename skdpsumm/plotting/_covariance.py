"""Covariances and correlations from a private sketch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..moments import Estimate, M2MEstimator
from ..sketches import PrivateSketch
from ._axes import digits, need_matplotlib, open_axes, same_length, units_of, with_unit

# Beyond so many columns no number fits into a cell.
_MOST_ANNOTATED = 10


class CovarianceDisplay:
    """A matrix of covariances or correlations: shaded by correlation, with numbers and errors.

    What is written after ``±`` is one standard error of the noise, as an `Estimate` prints it.

    Parameters
    ----------
    matrix : Estimate of shape (k, k)
        As of `M2MEstimator.covariance` or `correlation`.
    names : sequence of k str
    units : sequence of k str or None, default=None
        Of the columns; a covariance has the product of two.
    statistic : {"covariance", "correlation"}, default="covariance"

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
    Shades go from white (-1) to black (+1), so that they keep their order in print.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> from skdpsumm.plotting import CovarianceDisplay
    >>> X = np.random.default_rng(0).random((5000, 2))
    >>> m2m = M2MEstimator(bounds=(0, 1), n_synthetic=1000, random_state=0).fit(X)
    >>> display = CovarianceDisplay.from_estimator(m2m, statistic="correlation")
    >>> display.colorbar_.ax.get_ylabel()
    'correlation'
    """

    def __init__(
        self,
        matrix: Estimate,
        *,
        names: Sequence[str],
        units: Sequence[str | None] | None = None,
        statistic: str = "covariance",
    ):
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix must be square, got shape {matrix.shape}.")
        same_length("matrix", matrix, names=names, units=units)
        _check_statistic(statistic)
        self.matrix = matrix
        self.names = list(names)
        self.units = [None] * len(self.names) if units is None else list(units)
        self.statistic = statistic

    def plot(self, ax: Any = None, *, annotate: bool | None = None) -> CovarianceDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        annotate : bool, default=None
            Whether to write the values and, below, the standard error of their noise. None does
            for up to 10 columns.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        k = len(self.names)
        side = max(3.2, 0.9 * k if k <= _MOST_ANNOTATED else 0.35 * k)
        ax = open_axes(self, ax, (side + 3.2, side + 1.0))
        shades = _correlations(np.asarray(self.matrix))
        self.image_ = ax.imshow(shades, cmap="Greys", vmin=-1, vmax=1)
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label="correlation")
        units = self.units if self.statistic == "covariance" else [None] * k
        labels = [with_unit(*pair) for pair in zip(self.names, units, strict=True)]
        ax.set_xticks(range(k), labels, rotation=40, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(k), labels)
        annotate = k <= _MOST_ANNOTATED if annotate is None else annotate
        self.texts_ = self._write(ax, shades) if annotate else []
        title = "covariance, in products of units" if any(units) else self.statistic
        errors = "\n± standard error of the noise" if annotate else ""
        ax.set_title(title + errors, fontsize="medium")
        return self

    def _write(self, ax: Any, shades: NDArray) -> list[Any]:
        values, errors = np.asarray(self.matrix), self.matrix.noise_std_error
        return [
            ax.text(
                j,
                i,
                f"{digits(values[i, j], 3)}\n±{digits(errors[i, j], 2)}",
                ha="center",
                va="center",
                fontsize="small",
                color="w" if shades[i, j] > 0.15 else "k",
            )
            for i, j in np.ndindex(*values.shape)
        ]

    @classmethod
    def from_estimator(
        cls,
        estimator: M2MEstimator,
        *,
        statistic: str = "covariance",
        units: Mapping[str, str] | None = None,
        ax: Any = None,
        annotate: bool | None = None,
    ) -> CovarianceDisplay:
        """Draw the numeric columns of a fitted estimator. It costs no privacy.

        Parameters
        ----------
        estimator : M2MEstimator
        statistic : {"covariance", "correlation"}, default="covariance"
        units : mapping from column name to str, default=None
            Units of the columns. None takes the schema's (`PrivateSketch.with_units`).
        ax, annotate :
            As in `plot`.

        Returns
        -------
        CovarianceDisplay
        """
        need_matplotlib(cls, "from_estimator")
        _check_statistic(statistic)
        which = estimator._numeric()
        known = units_of(estimator.columns_, units)
        display = cls(
            getattr(estimator, statistic)(),
            names=estimator._names(which),
            units=[known[j] for j in which],
            statistic=statistic,
        )
        return display.plot(ax, annotate=annotate)

    @classmethod
    def from_sketch(
        cls, sketch: PrivateSketch, *, random_state: Any = None, **options: Any
    ) -> CovarianceDisplay:
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
        CovarianceDisplay
        """
        need_matplotlib(cls, "from_sketch")
        estimator = M2MEstimator.from_sketch(sketch, random_state=random_state)
        return cls.from_estimator(estimator, **options)


def _check_statistic(statistic: str) -> None:
    if statistic not in ("covariance", "correlation"):
        raise ValueError(f"statistic must be 'covariance' or 'correlation', got {statistic!r}.")


def _correlations(matrix: NDArray) -> NDArray:
    """Return a covariance (or correlation) matrix scaled to correlations, for the shades."""
    spread = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return np.clip(matrix / spread / spread[:, None], -1, 1)
