"""The privacy floor: guarantees, mechanisms, the ledger, and exact noise."""

from . import _best_of, _objective, _threshold  # noqa: F401  for files
from ._guarantee import PrivacyGuarantee
from ._ledger import PrivacyLedger
from ._mechanisms import GaussianDP, PureDP, gdp_mu
from ._noise import simulation
from ._warnings import (
    BudgetExceededError,
    BudgetWarning,
    LedgerDamagedError,
    NoiseWarning,
    PrivacyLeakWarning,
)

__all__ = [
    "BudgetExceededError",
    "BudgetWarning",
    "GaussianDP",
    "LedgerDamagedError",
    "NoiseWarning",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PureDP",
    "gdp_mu",
    "simulation",
]
