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
    open_axes,
    reference_style,
    same_length,
    units_of,
    with_unit,
)


class CDFDisplay:
    """The share of rows at or below each threshold, with its noise band.

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
    ):
        self.thresholds = np.asarray(thresholds, dtype=np.float64)
        same_length("thresholds", self.thresholds, cdf=cdf, reference=reference)
        self.cdf = cdf
        self.label = label
        self.reference = reference

    def plot(self, ax: Any = None, *, level: float = 0.95, name: str = "private") -> CDFDisplay:
        """Draw the curve and its band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        level : float, default=0.95
            Of the band at each threshold, over the privacy noise (`Estimate.interval`).
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
        low, high = np.clip(self.cdf.interval(level), 0, 1).T
        ax = open_axes(self, ax)
        style = next_style(ax) | {"marker": ""}
        if self.reference is not None:
            ax.plot(self.thresholds, self.reference, **reference_style(ax, "reference"))
        band = {"alpha": 0.25, "color": style["color"], "lw": 0}
        self.band_ = ax.fill_between(self.thresholds, low, high, **band)
        (self.line_,) = ax.plot(self.thresholds, np.asarray(self.cdf), label=name, **style)
        ax.set(xlabel=self.label, ylabel="share of rows at or below", ylim=(0, 1))
        ax.legend(frameon=False, fontsize="small", title=f"band: {level:.4g} of noise")
        return self

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
            None is 101 between the column's bounds.
        unit : str, default=None
            Of the column. None takes the schema's (`PrivateSketch.with_units`).
        reference : array-like of shape (k,), default=None
            As in the constructor.
        ax, level, name :
            As in `plot`.

        Returns
        -------
        CDFDisplay
        """
        need_matplotlib(cls, "from_estimator")
        columns, j = estimator.columns_, estimator._column(column)
        if thresholds is None:
            thresholds = np.linspace(*estimator._bound(j), 101)
        label = with_unit(columns.name(j), unit or units_of(columns, None)[j])
        cdf = estimator.cdf(column, thresholds)
        display = cls(thresholds, cdf, label=label, reference=reference)
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
