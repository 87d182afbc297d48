"""One data set's view of a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ._guarantee import PrivacyGuarantee
from ._mechanisms import Mechanism

if TYPE_CHECKING:
    from ._ledger import PrivacyLedger


class Budget(NamedTuple):
    """An amount of privacy: `epsilon`, stated at `delta`."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class LedgerDataset:
    """One data set's view of a `PrivacyLedger`, which estimators take in the ledger's place.

    Charges go to this data set, under the cap of the whole ledger. Made by `PrivacyLedger.dataset`.
    """

    ledger: PrivacyLedger
    name: str
    partition: str | None = None

    def check(
        self, mechanism: Mechanism | PrivacyGuarantee, *, adjacency: str = "add_remove"
    ) -> None:
        """Raise `BudgetExceededError` if the cap cannot hold `mechanism` here."""
        self.ledger.check(mechanism, dataset=self.name, adjacency=adjacency)

    def price(
        self, mechanism: Mechanism | PrivacyGuarantee, *, adjacency: str = "add_remove"
    ) -> Budget:
        """Return what a charge of `mechanism` would cost by itself."""
        return self.ledger.price(mechanism, adjacency=adjacency)

    def charge(
        self,
        mechanism: Mechanism | PrivacyGuarantee,
        *,
        label: str = "",
        adjacency: str = "add_remove",
        simulated: bool = False,
    ) -> int:
        """Charge `mechanism` to this data set and return the entry's id."""
        return self.ledger.charge(
            mechanism, dataset=self.name, label=label, adjacency=adjacency, simulated=simulated
        )

    @property
    def spent(self) -> Budget:
        """What the releases from this data set cost together."""
        return self.ledger._spent_by(self.name)

    @property
    def remaining(self) -> Budget:
        """What one more release from this data set may be calibrated to."""
        return self.ledger._remaining_for(self.name)

    def entries(self) -> list[dict[str, Any]]:
        """Return the charges to this data set in order."""
        return [entry for entry in self.ledger.entries() if entry["dataset"] == self.name]

    def __sklearn_clone__(self) -> LedgerDataset:
        self.ledger.__sklearn_clone__()
        return self
