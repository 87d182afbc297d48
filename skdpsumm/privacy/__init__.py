"""The privacy floor: guarantees, the ledger, exact noise and its calibration."""

from ._choice import exponential_choice
from ._clones import own_clone
from ._float_noise import radial_noise, secret_generator
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
from ._noise import (
    RESERVE,
    Block,
    IntegerNoise,
    check_scale,
    derived_seed,
    noisy_integers,
    nominal_mechanism,
    on_grid,
)
from ._shifted import ShiftedGaussianDP
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
    "Unprotected",
    "Worst",
    "ZeroConcentratedDP",
    "check_scale",
    "compose",
    "derived_seed",
    "exponential_choice",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "mechanism_from_dict",
    "noisy_integers",
    "nominal_mechanism",
    "on_grid",
    "own_clone",
    "parallel",
    "radial_noise",
    "secret_generator",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
