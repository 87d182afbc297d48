"""Rows from many owners that match a target: protocols, parties, and the estimator."""

from ._auction import Auction
from ._mmd import greedy_mmd_selection, mmd2, uniform_selection
from ._parties import Curator, DataOwner
from ._protocol import Pool, Propose
from ._sketch_summarizer import PrivateSummaryPrivacy, SketchSummarizer, summary_sketcher
from ._summarized import SummarizedEstimator
from ._summarizer import PrivateMMDSummarizer

__all__ = [
    "Auction",
    "Curator",
    "DataOwner",
    "Pool",
    "PrivateMMDSummarizer",
    "PrivateSummaryPrivacy",
    "Propose",
    "SketchSummarizer",
    "SummarizedEstimator",
    "greedy_mmd_selection",
    "mmd2",
    "summary_sketcher",
    "uniform_selection",
]
