"""Pictures; need matplotlib (the extra ``plot``). They read well without colour."""

from ._cdf import CDFDisplay
from ._covariance import CovarianceDisplay
from ._ledger import LedgerDisplay
from ._moments import MomentDisplay
from ._owners import OwnersDisplay
from ._privacy_profile import PrivacyProfileDisplay
from ._privacy_utility import PrivacyUtilityDisplay
from ._summary import SummaryDisplay

__all__ = [
    "CDFDisplay",
    "CovarianceDisplay",
    "LedgerDisplay",
    "MomentDisplay",
    "OwnersDisplay",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
    "SummaryDisplay",
]
