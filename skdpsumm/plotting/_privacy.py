"""What a ledger has paid, and has left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..privacy import PrivacyLedger
from ._base import Display, fill


@dataclass(eq=False, repr=False)
class LedgerDisplay(Display):
    """What a ledger has charged: a bar per charge, and lines at the total and at the cap.

    Each bar shows what the charge costs alone. Together the charges cost less than the sum of the
    bars (under "gdp" and "zcdp", and in partitions). So the total is drawn as the ledger counts it.

    Parameters
    ----------
    entries : sequence of dict
        As from `PrivacyLedger.entries`: id, label, dataset, epsilon, simulated.
    spent, cap : float
        Total epsilon so far, and the most that the ledger allows.
    delta : float, default=0.0
        The delta at which all epsilons are stated. The default is that of pure DP.
    accountant, adjacency : str, default="pure", "add_remove"
        Those of the ledger, for the axis; by default those of a ledger of pure DP.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from skdpsumm.plotting import LedgerDisplay
    >>> from skdpsumm.privacy import PrivacyLedger, PureDP
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> ledger.charge(PureDP(0.3), label="histogram of ages")
    1
    >>> display = LedgerDisplay.from_ledger(ledger)
    >>> float(display.bars_[0].get_width()), display.spent, display.cap
    (0.3, 0.3, 1.0)
    """

    entries: Sequence[Mapping[str, Any]]
    _: KW_ONLY
    spent: float
    cap: float
    delta: float = 0.0
    accountant: str = "pure"
    adjacency: str = "add_remove"

    def plot(self, ax: Any = None) -> LedgerDisplay:
        """Draw the charges, the first on top; of more than 30, the last ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        shown = self.entries[-30:]
        ax = self._open_axes(ax, (6.4, 1.9 + 0.28 * len(shown)))
        widths = np.array([entry["epsilon"] for entry in shown], dtype=np.float64)
        # Infinite charges reach to the edge.
        ends = np.array([*widths, self.spent, self.cap, 1e-9])
        right = 1.08 * ends[np.isfinite(ends)].max()
        self.bars_ = ax.barh(range(len(shown)), np.where(np.isinf(widths), right, widths), 0.7)
        self._hatch(ax, shown)
        for name, value, line in (("all together", self.spent, "--"), ("cap", self.cap, "-")):
            x = value if np.isfinite(value) else np.nan
            style = {"color": "k", "ls": line, "lw": 1.4, "label": f"{name}: {value:.4g}"}
            ax.plot([x, x], [0, 1], transform=ax.get_xaxis_transform(), **style)
        ax.set_yticks(range(len(shown)), [_name(entry) for entry in shown])
        ax.set(ylim=(max(len(shown), 1) - 0.5, -0.5), xlim=(0, right))
        at = f" at delta={self.delta:g}, {self.accountant}" if self.delta else ""
        ax.set_xlabel(f"epsilon{at} ({self.adjacency.replace('_', '-')})")
        if len(shown) < len(self.entries):
            ax.set_title(f"the last {len(shown)} of {len(self.entries)} charges", fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self

    def _hatch(self, ax: Any, shown: Sequence[Mapping[str, Any]]) -> None:
        """Give the bars of each data set a look of their own, and a place in the legend."""
        datasets = list(dict.fromkeys(entry["dataset"] for entry in shown))
        for bar, entry in zip(self.bars_, shown, strict=True):
            bar.set(**fill(datasets.index(entry["dataset"])))
        for k, name in enumerate(datasets if len(datasets) > 1 else []):
            ax.bar(0, 0, 0, label=f"data set {name!r}", **fill(k))

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, **options: Any) -> LedgerDisplay:
        """Draw a ledger as it stands.

        Parameters
        ----------
        ledger : PrivacyLedger
            The ledger to draw.
        **options
            As in `plot`.

        Returns
        -------
        LedgerDisplay
        """
        display = cls(
            ledger.entries(),
            spent=ledger.spent.epsilon,
            cap=ledger.epsilon,
            delta=ledger.spent.delta,
            accountant=ledger.accountant,
            adjacency=ledger.adjacency,
        )
        return display.plot(**options)


def _name(entry: Mapping[str, Any]) -> str:
    simulated = " (simulated)" if entry.get("simulated") else ""
    return f"{entry['id']}. {entry['label'] or 'no label'}{simulated}"
