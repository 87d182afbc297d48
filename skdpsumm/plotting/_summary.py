"""How well the chosen rows match a public target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import check_is_fitted

from ..schema._reading import unwrap
from ..summaries._mmd import centred, check_gamma, kernel_matrix, mean_kernel
from ._axes import need_matplotlib, next_style, open_axes, reference_style, same_length

_MOST_SIZES = 60
# The kernel between all pairs of target rows is part of the MMD.
_MOST_TARGET_ROWS = 5_000


class SummaryDisplay:
    """The MMD between the first s chosen rows and a public target, against s.

    Chosen rows are real rows, without any guarantee against whoever sees them. So the picture is
    for the consumer, who has them, and for those to whom he may hand them on. The summarizer's
    own target is private, and no picture is drawn of it: give public rows like it.

    Parameters
    ----------
    sizes : array-like of shape (k,)
        Numbers of rows.
    mmd : array-like of shape (k,)
        MMD (not squared) of so many.
    expected : array-like of shape (k,), default=None
        Root mean squared MMD of as many rows drawn at random from the target itself: what a
        summary should get below.

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
            None makes a new figure.
        name : str, default="chosen rows"
            For the legend.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        ax = open_axes(self, ax)
        style = next_style(ax) | {"ms": 3.5}
        (self.line_,) = ax.plot(self.sizes, self.mmd, label=name, **style)
        self.expected_line_ = None
        if self.expected is not None:
            style = reference_style(ax, "random rows of the target")
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
        gamma: float,
        ax: Any = None,
        name: str = "chosen rows",
    ) -> SummaryDisplay:
        """Draw rows that were chosen in this order.

        Parameters
        ----------
        rows : array-like or frame of shape (p, d)
            The summary.
        X_public : array-like, frame or `Public` of shape (m, d)
            Public rows of the target's population; of more than 5,000 every k-th counts.
        gamma : float
            Of the kernel, as in `PrivateMMDSummarizer`.
        ax, name :
            As in `plot`.

        Returns
        -------
        SummaryDisplay

        Raises
        ------
        ValueError
            If both tables have different columns, or `gamma` is not above 0.
        """
        need_matplotlib(cls, "from_rows")
        check_gamma(gamma)
        chosen = check_array(rows, dtype=np.float64, input_name="rows")
        target = check_array(unwrap(X_public), dtype=np.float64, input_name="X_public")
        if chosen.shape[1] != target.shape[1]:
            raise ValueError(
                f"rows has {chosen.shape[1]} columns and X_public has {target.shape[1]}; give both "
                "the same."
            )
        target = target[:: -(-len(target) // _MOST_TARGET_ROWS)]
        sizes = _sizes(len(chosen))
        squares, within = _prefix_mmd2(chosen, target, gamma)
        expected = np.sqrt((1 - within) / sizes)
        display = cls(sizes, np.sqrt(squares[sizes - 1]), expected=expected)
        return display.plot(ax, name=name)

    @classmethod
    def from_estimator(
        cls, summarizer: Any, X: Any, X_public: Any, **options: Any
    ) -> SummaryDisplay:
        """Draw a fitted summarizer's choice; for those who may see the rows.

        Parameters
        ----------
        summarizer : PrivateMMDSummarizer or SummarizedEstimator
        X : array-like or frame of shape (n_samples, n_features)
            The rows that it was fitted on.
        X_public : array-like, frame or `Public` of shape (m, n_features)
            Public rows of the target's population. Not the private target.
        **options
            ``ax`` and ``name``, as in `plot`.

        Returns
        -------
        SummaryDisplay
        """
        need_matplotlib(cls, "from_estimator")
        summarizer = getattr(summarizer, "summarizer_", summarizer)
        check_is_fitted(summarizer, "sample_indices_")
        rows = _safe_indexing(X, summarizer.sample_indices_)
        return cls.from_rows(rows, X_public, gamma=summarizer.gamma, **options)


def _sizes(n_rows: int) -> NDArray[np.int64]:
    return np.unique(np.geomspace(1, n_rows, _MOST_SIZES).round().astype(np.int64))


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
