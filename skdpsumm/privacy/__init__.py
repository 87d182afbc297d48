"""The privacy floor: guarantees, the ledger, exact noise and its calibration."""

from ._gaussian_dp import gdp_delta, gdp_epsilon, gdp_mu, zcdp_delta, zcdp_epsilon, zcdp_rho
from ._guarantee import PrivacyGuarantee
from ._ledger import PrivacyLedger
from ._mechanisms import (
    Composed,
    EventDP,
    GaussianDP,
    Mechanism,
    PureDP,
    Unprotected,
    Worst,
    ZeroConcentratedDP,
    compose,
    mechanism_from_dict,
    parallel,
)
from ._noise import RESERVE, Block, IntegerNoise, nominal_mechanism, warn_of_seed
from ._warnings import BudgetExceededError, PrivacyLeakWarning

__all__ = [
    "RESERVE",
    "Block",
    "BudgetExceededError",
    "Composed",
    "EventDP",
    "GaussianDP",
    "IntegerNoise",
    "Mechanism",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PureDP",
    "Unprotected",
    "Worst",
    "ZeroConcentratedDP",
    "compose",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "mechanism_from_dict",
    "nominal_mechanism",
    "parallel",
    "warn_of_seed",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
