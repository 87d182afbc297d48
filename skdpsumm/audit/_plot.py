"""The picture of an audit: how well held-out outputs tell the two data sets apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..privacy import gdp_mu
from ._events import lower_limit, upper_limit

if TYPE_CHECKING:
    from ._result import AuditResult

_ALARMS = np.linspace(0, 1, 501)


def plot_trade_off(result: AuditResult, ax: Any, epsilon: float | None) -> Any:
    """Draw what `AuditResult.plot` describes."""
    if ax is None:
        ax = _new_axes()
    if epsilon is not None:
        result.refutes(epsilon)  # complains of what is no epsilon
        allowed = _fewest_misses(result, epsilon)
        ax.fill_between(_ALARMS, allowed, color="0.85", lw=0, label=_claim(result, epsilon))
    ax.plot([0, 1], [1, 0], color="0.5", lw=1, ls=":", label="perfect privacy")
    if result.curve:
        ax.plot(*np.transpose(result.curve), color="k", lw=1.2, label="held-out outputs")
    _draw_event(result, ax)
    ax.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_title(_title(result), fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1))
    return ax


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "AuditResult.plot needs matplotlib; install it with: pip install matplotlib"
        ) from error
    return plt.subplots(figsize=(6.8, 4), layout="constrained")[1]


def _title(result: AuditResult) -> str:
    bound = f"epsilon >= {result.lower_bound:.3g} with confidence {result.confidence:.10g}"
    return bound if result.family is None else f"{bound}\n(of Gaussian claims only)"


def _fewest_misses(result: AuditResult, epsilon: float) -> NDArray[np.float64]:
    """Return the trade-off curve of the claim: below it lie the tests that it forbids."""
    if result.family == "gaussian":
        return ndtr(ndtri(1 - _ALARMS) - gdp_mu(epsilon, result.delta))
    rest = 1 - result.delta
    factor = math.exp(epsilon)
    return np.maximum(0.0, np.maximum(rest - factor * _ALARMS, (rest - _ALARMS) / factor))


def _claim(result: AuditResult, epsilon: float) -> str:
    kind = "Gaussian, " if result.family == "gaussian" else ""
    return f"forbidden by the claim\n({kind}epsilon = {epsilon:g}, delta = {result.delta:g})"


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
