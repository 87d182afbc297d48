"""What the rows of each owner contributed to a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..summaries import OwnerValues
from ._axes import need_matplotlib, of_level, open_axes


class OwnersDisplay:
    """A bar per owner: the released values with their noise, or rows where nothing is private.

    Parameters
    ----------
    values : mapping from owner to float
    noise_std : float, default=0.0
        Standard deviation of the Laplace noise of each.
    label : str, default="value to the target (share of the largest possible)"
        Of the axis.
    title : str, default=None
        What the release promises, where it is one.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from skdpsumm.plotting import OwnersDisplay
    >>> display = OwnersDisplay({"north": 0.2, "south": 0.7}, noise_std=0.1).plot()
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['north', 'south']
    """

    def __init__(
        self,
        values: Mapping[Any, float],
        *,
        noise_std: float = 0.0,
        label: str = "value to the target (share of the largest possible)",
        title: str | None = None,
    ):
        self.values = dict(values)
        self.noise_std = noise_std
        self.label = label
        self.title = title

    def plot(self, ax: Any = None, *, level: float = 0.95) -> OwnersDisplay:
        """Draw the bars, with an error bar on each where there is noise.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        level : float, default=0.95
            Of the error bars: the probability, over the noise, that one holds its value without
            noise. The noise is of Laplace, not normal.

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
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        k = len(self.values)
        ax = open_axes(self, ax, (5.6, 1.7 + 0.32 * k))
        # A Laplace variable of standard deviation std exceeds t with probability exp(-t / b).
        reach = -math.log1p(-level) * self.noise_std / math.sqrt(2)
        error = {"xerr": reach, "capsize": 3} if reach else {}
        heights = np.array(list(self.values.values()), dtype=np.float64)
        self.bars_ = ax.barh(range(k), heights, 0.65, color="0.75", edgecolor="0.2", **error)
        ax.axvline(0, color="0.2", lw=0.8)
        ax.set_yticks(range(k), [str(owner) for owner in self.values])
        noise = f"\n(error bars: {of_level(level)} of the noise)" if reach else ""
        ax.set(xlabel=self.label + noise, ylabel="owner", ylim=(k - 0.5, -0.5))
        if self.title is not None:
            ax.set_title(fill(self.title, 60), fontsize="small")
        return self

    @classmethod
    def from_release(
        cls, release: OwnerValues, *, ax: Any = None, level: float = 0.95
    ) -> OwnersDisplay:
        """Draw the values that `noisy_owner_values` released.

        Parameters
        ----------
        release : OwnerValues
        ax, level :
            As in `plot`.

        Returns
        -------
        OwnersDisplay
        """
        need_matplotlib(cls, "from_release")
        title = release.privacy.badge
        display = cls(release.values, noise_std=release.noise_std, title=title)
        return display.plot(ax, level=level)

    @classmethod
    def from_estimator(cls, summarizer: Any, *, ax: Any = None) -> OwnersDisplay:
        """Draw the chosen rows by owner, where nothing is kept from anyone.

        Parameters
        ----------
        summarizer : PrivateMMDSummarizer or SummarizedEstimator
            Fitted with ``epsilon=np.inf``, so that there is no noise and no `level`.
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        OwnersDisplay

        Raises
        ------
        ValueError
            If it was fitted with privacy: then the counts are exact numbers that no release paid
            for.
        """
        need_matplotlib(cls, "from_estimator")
        summarizer = getattr(summarizer, "summarizer_", summarizer)
        check_is_fitted(summarizer, "owner_counts_")
        if not summarizer.privacy_.target.mechanism.unprotected:
            raise ValueError(
                "owner_counts_ is exact and private, so no picture is drawn of it. Pay for a "
                "release: OwnersDisplay.from_release(summarizer.noisy_owner_values(epsilon))."
            )
        counts = summarizer.owner_counts_
        return cls(counts, label="number of rows in the summary").plot(ax)
