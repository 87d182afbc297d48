"""What an audit has proved, and the evidence for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from .._sklearn import check_matplotlib
from ..privacy import gdp_mu
from ._events import Claims, lower_limit, upper_limit

# A claim of Gaussian DP is one of a whole trade-off curve, of which (epsilon, delta) is a point.
_GAUSSIAN_ONLY = "refutes claims of Gaussian differential privacy only"
# Where the trade-off curve of a claim is drawn.
_ALARMS = np.linspace(0, 1, 501)


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What an audit has proved about a release.

    Attributes
    ----------
    lower_bound : float
        With probability `confidence`, the release is (epsilon, delta)-differentially private for
        no epsilon below this. It is zero where nothing was found. With ``family="gaussian"`` it is
        about Gaussian claims alone: the release is mu-GDP for no mu below `mu`, and this is the
        epsilon that `mu` implies at `delta`.
    confidence : float
        Probability, over the release's own randomness, that the bound holds.
    delta : float
        The delta that was granted.
    n_trials : int
        Calls of the release per data set. The held-out half of them gives the bound.
    event : str
        The set of outputs that tells the two data sets apart, and the data set that it speaks for.
    counts : tuple of (int, int)
        How many held-out outputs lie in the event, on X and on X_neighbour.
    family : None or "gaussian"
        The claims that the bound refutes: any (None), or those of Gaussian differential privacy.
    mu : float or None
        With ``family="gaussian"``, the bound on mu.
    curve : tuple of (float, float)
        Errors of tests on the event's statistic, on held-out outputs, at up to 200 thresholds: the
        shares of false alarms and of misses. An alarm is for the data set on which the event is
        likelier. The curve is for `plot`; no bound is read off it.

    Examples
    --------
    >>> from skdpsumm.audit import AuditResult
    >>> result = AuditResult(1.62, 0.99, 0.0, 10_000, "output >= 10, likelier on X", (2500, 420))
    >>> result.refutes(1.0), result.rates
    (True, (0.5, 0.084))
    >>> result
    <AuditResult epsilon >= 1.62 with confidence 0.99 (delta=0)
      event: output >= 10, likelier on X
      held out: 2500 of 5000 on X, 420 of 5000 on X_neighbour
      largest bound that so many trials can give: 6.85>
    """

    lower_bound: float
    confidence: float
    delta: float
    n_trials: int
    event: str
    counts: tuple[int, int]
    family: str | None = None
    mu: float | None = None
    curve: tuple[tuple[float, float], ...] = field(default=())

    @property
    def n_held_out(self) -> int:
        """Number of outputs per data set that the bound rests on."""
        return self.n_trials - self.n_trials // 2

    @property
    def rates(self) -> tuple[float, float]:
        """Shares of the held-out outputs that lie in the event, on X and on X_neighbour."""
        return self.counts[0] / self.n_held_out, self.counts[1] / self.n_held_out

    @property
    def largest_bound(self) -> float:
        """The bound that a release without any privacy would get from as many trials."""
        n, error = self.n_held_out, (1 - self.confidence) / 2
        claims = Claims(self.family, self.delta)
        return claims.epsilon(claims.bound(n, 0, n, error))

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of (`epsilon`, delta)-differential privacy is refuted.

        With ``family="gaussian"``, return whether a claim of Gaussian differential privacy is
        refuted whose mu implies (`epsilon`, delta).

        Raises
        ------
        ValueError
            If `epsilon` is negative or not a number.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}.")
        return self.lower_bound > epsilon

    def plot(self, ax: Any = None, *, epsilon: float | None = None) -> Any:
        """Draw the held-out trade-off of false alarms and misses; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        epsilon : float, default=None
            A claim, of (epsilon, delta) or, with ``family="gaussian"``, of the mu that implies it.
            What it forbids is shaded; None shades nothing, as an audit needs no claim. With
            probability `confidence`, the event's true errors exceed the cross in neither direction.
            If it lies in the shade, the claim is refuted.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If `epsilon` is negative or not a number.
        """
        if ax is None:
            check_matplotlib("AuditResult.plot")
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6.8, 4), layout="constrained")[1]
        gaussian = self.family == "gaussian"
        if epsilon is not None:
            self.refutes(epsilon)  # complains of what is no epsilon
            kind = "Gaussian, " if gaussian else ""
            claim = f"{kind}epsilon = {epsilon:g}, delta = {self.delta:g}"
            style = {"color": "0.85", "lw": 0, "label": f"forbidden by the claim\n({claim})"}
            ax.fill_between(_ALARMS, _fewest_misses(self, epsilon), **style)
        ax.plot([0, 1], [1, 0], color="0.5", lw=1, ls=":", label="perfect privacy")
        if self.curve:
            ax.plot(*np.transpose(self.curve), color="k", lw=1.2, label="held-out outputs")
        _draw_event(self, ax)
        ax.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        bound = f"epsilon >= {self.lower_bound:.3g} with confidence {self.confidence:.10g}"
        title = f"{bound}\n(of Gaussian claims only)" if gaussian else bound
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1))
        return ax

    def __repr__(self) -> str:
        n = self.n_held_out
        gaussian = "" if self.family is None else f"\n  mu >= {self.mu:.4g}: {_GAUSSIAN_ONLY}"
        return (
            f"<AuditResult epsilon >= {self.lower_bound:.4g} with confidence "
            f"{self.confidence:.10g} (delta={self.delta:g}){gaussian}\n"
            f"  event: {self.event}\n"
            f"  held out: {self.counts[0]} of {n} on X, {self.counts[1]} of {n} on X_neighbour\n"
            f"  largest bound that so many trials can give: {self.largest_bound:.3g}>"
        )


# ---- the picture


def _fewest_misses(result: AuditResult, epsilon: float) -> NDArray[np.float64]:
    """Return the trade-off curve of the claim: below it lie the tests that it forbids."""
    if result.family == "gaussian":
        return ndtr(ndtri(1 - _ALARMS) - gdp_mu(epsilon, result.delta))
    rest = 1 - result.delta
    factor = math.exp(epsilon)
    return np.maximum(0.0, np.maximum(rest - factor * _ALARMS, (rest - _ALARMS) / factor))


def _draw_event(result: AuditResult, ax: Any) -> None:
    """Draw the event's errors, and as a cross the confidence limits that the bound rests on."""
    n, error = result.n_held_out, (1 - result.confidence) / 2
    on_x, on_neighbour = result.counts
    on_neighbour_likelier = result.event.endswith("X_neighbour")
    rare, likely = (on_x, on_neighbour) if on_neighbour_likelier else (on_neighbour, on_x)
    point = rare / n, 1 - likely / n
    limits = upper_limit(rare, n, error), 1 - lower_limit(likely, n, error)
    ax.plot(*point, "o", color="k", ms=5, mfc="w", label="the event", zorder=3)
    ax.plot(*limits, "x", color="k", ms=6, label="its confidence limits", zorder=3)
