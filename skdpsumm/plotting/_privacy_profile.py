"""The whole promise of a release: delta against epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..privacy import PrivacyGuarantee
from ..sketches import PrivateSketch
from ._axes import legend_above, need_matplotlib, next_style, open_axes

# Deltas below are of no use to anyone, and would squeeze the others.
_LEAST_DELTA = 1e-12


class PrivacyProfileDisplay:
    """delta(epsilon) of a guarantee: every (epsilon, delta) on or above the curve holds.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
    epsilons : array-like of shape (k,), default=None
        Where to evaluate it. None is 201 from 0 to where delta falls to 1e-12.

    Attributes
    ----------
    deltas : ndarray of shape (k,)
        What is drawn.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Raises
    ------
    ValueError
        If `epsilons` holds what is no finite number from 0 on.

    Examples
    --------
    >>> from skdpsumm.plotting import PrivacyProfileDisplay
    >>> from skdpsumm.privacy import GaussianDP, PrivacyGuarantee
    >>> display = PrivacyProfileDisplay(PrivacyGuarantee(GaussianDP(0.5)), epsilons=[0, 1])
    >>> display.deltas.round(4)
    array([0.1974, 0.0068])
    >>> display.plot().ax_.get_ylabel()
    'delta (probability)'
    """

    def __init__(self, guarantee: PrivacyGuarantee, *, epsilons: ArrayLike | None = None):
        self.guarantee = guarantee
        self.epsilons = _default(guarantee) if epsilons is None else _checked(epsilons)
        self.deltas = np.array([guarantee.delta(float(epsilon)) for epsilon in self.epsilons])

    def plot(self, ax: Any = None, *, name: str | None = None) -> PrivacyProfileDisplay:
        """Draw the curve. Draw several on the same axes to compare them.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        name : str, default=None
            For the legend. None says what is protected.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        ax = open_axes(self, ax)
        label = f"protects {self.guarantee.protects}" if name is None else name
        if self.guarantee.simulated:
            label += " (SIMULATED: protects nobody)"
        style = next_style(ax) | {"markevery": max(1, len(self.epsilons) // 8), "ms": 4}
        # A delta of 0 lies below the axis, where a pure guarantee's line leads.
        shown = np.maximum(self.deltas, _LEAST_DELTA / 100)
        (self.line_,) = ax.plot(self.epsilons, shown, label=label, **style)
        adjacency = self.guarantee.adjacency.replace("_", "-")
        ax.set(xlabel=f"epsilon ({adjacency})", ylabel="delta (probability)")
        ax.set(yscale="log", ylim=(_LEAST_DELTA / 3, 2))
        ax.grid(color="0.9")
        legend_above(ax)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        claim: str | None = None,
        epsilons: ArrayLike | None = None,
        ax: Any = None,
        name: str | None = None,
    ) -> PrivacyProfileDisplay:
        """Draw a fitted estimator's `privacy_`.

        Parameters
        ----------
        estimator : estimator
        claim : {"target", "owners"}, default=None
            Which guarantee of a summary, which has several; only for those.
        epsilons : array-like of shape (k,), default=None
            As in the constructor.
        ax, name :
            As in `plot`.

        Returns
        -------
        PrivacyProfileDisplay

        Raises
        ------
        ValueError
            If `claim` is missing for a summary, or given for anything else.
        """
        need_matplotlib(cls, "from_estimator")
        privacy = estimator.privacy_
        has_several = not isinstance(privacy, PrivacyGuarantee)
        if has_several and claim not in ("target", "owners"):
            raise ValueError(
                f"claim must be 'target' or 'owners' for {type(estimator).__name__}, got {claim!r}."
            )
        if not has_several and claim is not None:
            raise ValueError(
                f"claim must be None for {type(estimator).__name__}, which has one guarantee, got "
                f"{claim!r}."
            )
        guarantee = getattr(privacy, claim) if has_several else privacy
        return cls(guarantee, epsilons=epsilons).plot(ax, name=name)

    @classmethod
    def from_sketch(
        cls,
        sketch: PrivateSketch,
        *,
        epsilons: ArrayLike | None = None,
        ax: Any = None,
        name: str | None = None,
    ) -> PrivacyProfileDisplay:
        """Draw a release's `privacy`.

        Parameters
        ----------
        sketch : PrivateSketch
        epsilons : array-like of shape (k,), default=None
            As in the constructor.
        ax, name :
            As in `plot`.

        Returns
        -------
        PrivacyProfileDisplay
        """
        need_matplotlib(cls, "from_sketch")
        return cls(sketch.privacy, epsilons=epsilons).plot(ax, name=name)


def _default(guarantee: PrivacyGuarantee) -> Any:
    # A pure guarantee ends in a step, which deserves to be seen.
    last = 1.05 * min(guarantee.epsilon(0.0), guarantee.epsilon(_LEAST_DELTA))
    return np.linspace(0, last if 0 < last < np.inf else 1.0, 201)


def _checked(epsilons: ArrayLike) -> Any:
    values = np.asarray(epsilons, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.all((values >= 0) & np.isfinite(values)):
        raise ValueError("epsilons must be a list of finite numbers from 0 on.")
    return np.sort(values)
