"""Rows from many owners that match a target: protocols, parties, and the estimator."""

from ._auction import Auction
from ._curator import Curator
from ._mmd import mmd2
from ._owners import DataOwner
from ._private_summary import PrivateSummaryPrivacy
from ._protocol import Pool, Propose
from ._releases import MWEMRelease
from ._selection import greedy_mmd_selection, uniform_selection
from ._sketches import SketchCurator, Sketches, SketchOwner
from ._summarized import SummarizedEstimator
from ._summarizer import PrivateMMDSummarizer

__all__ = [
    "Auction",
    "Curator",
    "DataOwner",
    "MWEMRelease",
    "Pool",
    "PrivateMMDSummarizer",
    "PrivateSummaryPrivacy",
    "Propose",
    "SketchCurator",
    "SketchOwner",
    "Sketches",
    "SummarizedEstimator",
    "greedy_mmd_selection",
    "mmd2",
    "uniform_selection",
]
