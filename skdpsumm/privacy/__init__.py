"""The privacy floor: guarantees, mechanisms, the ledger, and exact noise."""

from ._compositions import Composed, EventDP, Worst, compose, parallel
from ._contract import PrivacyGuarantee
from ._ledger import PrivacyLedger
from ._mechanisms import (
    GaussianDP,
    Mechanism,
    PureDP,
    Unprotected,
    ZeroConcentratedDP,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    mechanism_from_dict,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from ._noise import RESERVE, Block, IntegerNoise
from ._shifted_gaussian import ShiftedGaussianDP
from ._threshold import ThresholdDP
from ._warnings import (
    BudgetExceededError,
    BudgetWarning,
    LedgerDamagedError,
    PrivacyLeakWarning,
)

__all__ = [
    "RESERVE",
    "Block",
    "BudgetExceededError",
    "BudgetWarning",
    "Composed",
    "EventDP",
    "GaussianDP",
    "IntegerNoise",
    "LedgerDamagedError",
    "Mechanism",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PureDP",
    "ShiftedGaussianDP",
    "ThresholdDP",
    "Unprotected",
    "Worst",
    "ZeroConcentratedDP",
    "compose",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "mechanism_from_dict",
    "parallel",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
