"""How well chosen rows match a public target."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..schema._reading import unwrap
from ..summaries._mmd import centred, mean_kernel, prefix_objective, read_two
from ._base import Display


@dataclass(eq=False, repr=False)
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

    sizes: ArrayLike
    mmd: ArrayLike
    _: KW_ONLY
    expected: ArrayLike | None = None

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
        chosen, target, gamma = read_two(schema, gamma, rows, "X_public", unwrap(X_public))
        # The MMD has the kernel between all pairs of rows of the target, so not all of many count.
        target = target[:: -(-len(target) // 5_000)]
        sizes = np.unique(np.geomspace(1, len(chosen), 60).round().astype(np.int64))
        chosen, target = centred(chosen, target)
        within = float(mean_kernel(target, target, gamma).mean())
        squares = np.maximum(within - prefix_objective(chosen, target, gamma), 0.0)
        expected = np.sqrt((1 - within) / sizes)
        return cls(sizes, np.sqrt(squares[sizes - 1]), expected=expected).plot(**options)
