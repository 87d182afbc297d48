"""Pictures of private answers beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..moments import Estimate


def plot_against_epsilon(
    answers: Mapping[float, Estimate],
    truth: ArrayLike,
    *,
    names: Sequence[str],
    level: float = 0.95,
    axes: Sequence[Any] | None = None,
) -> Sequence[Any]:
    """Draw each statistic's private answers, with noise intervals, against epsilon.

    Parameters
    ----------
    answers : mapping from epsilon to Estimate of shape (k,)
    truth : array-like of shape (k,)
        The values without privacy, drawn as a line.
    names : sequence of k str
    level : float, default=0.95
        Level of the intervals (`Estimate.interval`: over the privacy noise).
    axes : sequence of k matplotlib Axes, default=None
        None makes a new figure.

    Returns
    -------
    sequence of k matplotlib Axes
    """
    if axes is None:
        import matplotlib.pyplot as plt

        _, grid = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3), squeeze=False)
        axes = grid[0]
    budgets = sorted(answers)
    values = np.array([np.asarray(answers[e]) for e in budgets])
    ends = np.array([answers[e].interval(level) for e in budgets])
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        reach = np.abs(ends[:, k] - values[:, k, None]).T
        ax.axhline(np.asarray(truth)[k], color="0.4", lw=1, label="without privacy")
        ax.errorbar(budgets, values[:, k], yerr=reach, fmt="o", capsize=3, label="private")
        ax.set(xscale="log", xlabel="epsilon", title=name)
        ax.set_xticks(budgets, [f"{e:g}" for e in budgets])
        ax.minorticks_off()
    axes[0].legend(frameon=False, fontsize="small")
    return axes


def plot_cdf(estimate: Estimate, thresholds: ArrayLike, *, level: float = 0.95, ax: Any = None):
    """Draw a private CDF (`M2MEstimator.cdf`) with its noise band.

    Parameters
    ----------
    estimate : Estimate of shape (k,)
    thresholds : array-like of shape (k,)
    level : float, default=0.95
    ax : matplotlib Axes, default=None
        None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.gca()
    low, high = np.clip(estimate.interval(level), 0, 1).T
    (line,) = ax.plot(thresholds, np.asarray(estimate), label="private")
    ax.fill_between(thresholds, low, high, alpha=0.25, color=line.get_color(), lw=0)
    ax.set(ylabel="share of rows at or below", ylim=(0, 1))
    return ax
