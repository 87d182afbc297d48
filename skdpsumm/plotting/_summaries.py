"""How well chosen rows match a public target, and whose they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..schema._reading import unwrap
from ..summaries._mmd import RowReader, centred, check_gamma, kernel_matrix, mean_kernel
from ..summaries._releases import OwnerValues
from ._base import Display, of_level, same_length


class SummaryDisplay(Display):
    """How well chosen rows match a public target: the MMD of the first s rows, against s.

    Chosen rows are real rows, without any guarantee against whoever sees them. So the picture is
    for the consumer, who has them, and for those to whom they may hand them on. The summarizer's
    own target is private, so no picture shows it. Give public rows that are like it.

    Parameters
    ----------
    sizes : array-like of shape (k,)
        Numbers of rows.
    mmd : array-like of shape (k,)
        MMD (not squared) of that many rows.
    expected : array-like of shape (k,), default=None
        Root mean squared MMD of as many rows drawn at random from the target itself. A good summary
        lies below. None draws no such line, as it takes the target's rows to know it.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    expected_line_ : matplotlib Line2D or None

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import greedy_mmd_selection
    >>> from skdpsumm.plotting import SummaryDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.normal(size=(500, 2)), rng.normal(1, 1, size=(300, 2))
    >>> chosen = greedy_mmd_selection(X, X_public, n_select=40, gamma=0.5)
    >>> display = SummaryDisplay.from_rows(X[chosen], X_public, gamma=0.5)
    >>> bool(display.mmd[-1] < display.expected[-1])
    True
    >>> display.ax_.get_xlabel()
    'rows in the summary'
    """

    def __init__(self, sizes: ArrayLike, mmd: ArrayLike, *, expected: ArrayLike | None = None):
        self.sizes = np.asarray(sizes)
        same_length("sizes", self.sizes, mmd=mmd, expected=expected)
        self.mmd = np.asarray(mmd, dtype=np.float64)
        self.expected = None if expected is None else np.asarray(expected, dtype=np.float64)

    def plot(self, ax: Any = None, *, name: str = "chosen rows") -> SummaryDisplay:
        """Draw the curve. Draw several on the same axes to compare them.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        name : str, default="chosen rows"
            Name in the legend. The default tells the curve from the line of random rows.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        ax = self._open_axes(ax)
        style = self._next_style() | {"ms": 3.5}
        (self.line_,) = ax.plot(self.sizes, self.mmd, label=name, **style)
        self.expected_line_ = None
        if self.expected is not None:
            style = self._reference_style("random rows of the target")
            (self.expected_line_,) = ax.plot(self.sizes, self.expected, **style)
        ax.set(xscale="log", yscale="log", xlabel="rows in the summary")
        ax.set_ylabel("MMD to the public target (no unit)")
        ax.set_title("real rows: no guarantee against who sees this", fontsize="small")
        ax.legend(frameon=False, fontsize="small")
        return self

    @classmethod
    def from_rows(
        cls,
        rows: ArrayLike,
        X_public: Any,
        *,
        gamma: Any = "auto",
        schema: Any = None,
        **options: Any,
    ) -> SummaryDisplay:
        """Draw rows that were chosen in this order.

        Parameters
        ----------
        rows : array-like or frame of shape (p, d)
            The summary.
        X_public : array-like, frame or `Public` of shape (m, d)
            Public rows of the target's population. Of more than 5,000, every k-th counts.
        gamma : "auto" or float, default="auto"
            Parameter of the kernel, as in `PrivateMMDSummarizer`. "auto" follows from the schema
            alone, so that all summaries of a table are measured alike.
        schema : TableSchema or what stands for one, default=None
            What is public about the columns, as in `PrivateMMDSummarizer`. None is for tables
            of numbers, which need no schema if you give `gamma`.
        **options
            As in `plot`.

        Returns
        -------
        SummaryDisplay

        Raises
        ------
        ValueError
            If the two tables have different columns, `gamma` is not above 0, or it is "auto" and
            there is no schema.
        """
        check_gamma(gamma, schema)
        reader, public = RowReader(schema), unwrap(X_public)
        chosen = reader.read(rows).astype(np.float64)
        target = reader.another("X_public", rows, public).read(public).astype(np.float64)
        gamma = reader.gamma(gamma)
        if chosen.shape[1] != target.shape[1]:
            raise ValueError(
                f"rows has {chosen.shape[1]} columns and X_public has {target.shape[1]}; give both "
                "the same."
            )
        # The MMD has the kernel between all pairs of rows of the target, so not all of many count.
        target = target[:: -(-len(target) // 5_000)]
        sizes = np.unique(np.geomspace(1, len(chosen), 60).round().astype(np.int64))
        squares, within = _prefix_mmd2(chosen, target, gamma)
        expected = np.sqrt((1 - within) / sizes)
        display = cls(sizes, np.sqrt(squares[sizes - 1]), expected=expected)
        return display.plot(**options)


def _prefix_mmd2(rows: NDArray, target: NDArray, gamma: float) -> tuple[NDArray, float]:
    """Return MMD^2 of the first 1, 2, ... rows to the target, and the target's mean kernel."""
    rows, target = centred(rows, target)
    s = np.arange(1, len(rows) + 1)
    # The sum over a leading square is that over the smaller one, and two edges.
    lower = np.tril(kernel_matrix(rows, rows, gamma), -1).sum(axis=1)
    pairs = np.cumsum(2 * lower + 1)
    across = np.cumsum(mean_kernel(rows, target, gamma))
    within = float(mean_kernel(target, target, gamma).mean())
    return np.maximum(pairs / s**2 - 2 * across / s + within, 0.0), within


# ---- owners


@dataclass(eq=False, repr=False)
class OwnersDisplay(Display):
    """A bar per owner: the released values with their noise, or rows where nothing is private.

    Parameters
    ----------
    values : mapping from owner to float
        What each owner's bar shows.
    noise_std : float, default=0.0
        Standard deviation of the Laplace noise of each value. The default is for values without
        noise, and draws no error bars.
    label : str, default="value to the target (share of the largest possible)"
        Label of the axis. The default fits the values that `noisy_owner_values` releases.
    title : str, default=None
        What the release promises. None writes no title, for values that are not a release.

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

    values: Mapping[Any, float]
    _: KW_ONLY
    noise_std: float = 0.0
    label: str = "value to the target (share of the largest possible)"
    title: str | None = None

    def plot(self, ax: Any = None, *, level: float = 0.95) -> OwnersDisplay:
        """Draw the bars, with an error bar on each where there is noise.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        level : float, default=0.95
            Level of the error bars, with the usual default: the probability, over the noise, that a
            bar holds its value without noise. The noise is Laplace, not normal.

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
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        k = len(self.values)
        ax = self._open_axes(ax, (5.6, 1.7 + 0.32 * k))
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
    def from_release(cls, release: OwnerValues, **options: Any) -> OwnersDisplay:
        """Draw the values that `noisy_owner_values` released.

        Parameters
        ----------
        release : OwnerValues
            The release.
        **options
            As in `plot`.

        Returns
        -------
        OwnersDisplay
        """
        title = release.privacy.badge
        display = cls(release.values, noise_std=release.noise_std, title=title)
        return display.plot(**options)
