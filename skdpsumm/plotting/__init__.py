"""Pictures; need matplotlib (the extra ``plot``). They read well without colour.

On all of them a number after ``±`` is one standard error, as an `Estimate` prints it,
and a bar or a band is an interval at ``level``, 0.95 unless another is asked for.
"""

from ._privacy import LedgerDisplay, PrivacyUtilityDisplay
from ._sketches import (
    CDFDisplay,
    ColumnGraphDisplay,
    ComparisonDisplay,
    CovarianceDisplay,
    CrosstabDisplay,
    HistogramDisplay,
    MomentDisplay,
)
from ._summaries import SummaryDisplay

__all__ = [
    "CDFDisplay",
    "ColumnGraphDisplay",
    "ComparisonDisplay",
    "CovarianceDisplay",
    "CrosstabDisplay",
    "HistogramDisplay",
    "LedgerDisplay",
    "MomentDisplay",
    "PrivacyUtilityDisplay",
    "SummaryDisplay",
]
