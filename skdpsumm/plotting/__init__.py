"""Pictures; need matplotlib (the extra ``plot``). They read well without colour.

On all of them a number after ``±`` is one standard error of the noise, as an `Estimate` prints it,
and a bar or a band is an interval at ``level``, .95 unless another is asked for.
"""

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
