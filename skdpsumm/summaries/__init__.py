"""Rows from many owners that match a target: protocols, parties, and the estimator."""

from ._ask_all import AskAll
from ._auction import Auction
from ._curator import Curator
from ._mmd import Embedding, mmd2
from ._mwem import MWEM
from ._owners import DataOwner, run_protocol
from ._posted import Posted
from ._protocol import (
    Bid,
    CallForBids,
    HandOver,
    Message,
    Pool,
    Propose,
    ProposeRows,
    Protocol,
    Rows,
    SendAbove,
    SendBest,
)
from ._releases import MWEMRelease, OwnerValues, SummaryPrivacy
from ._selection import greedy_mmd_selection, uniform_selection
from ._summarized import SummarizedEstimator
from ._summarizer import PrivateMMDSummarizer

__all__ = [
    "MWEM",
    "AskAll",
    "Auction",
    "Bid",
    "CallForBids",
    "Curator",
    "DataOwner",
    "Embedding",
    "HandOver",
    "MWEMRelease",
    "Message",
    "OwnerValues",
    "Pool",
    "Posted",
    "PrivateMMDSummarizer",
    "Propose",
    "ProposeRows",
    "Protocol",
    "Rows",
    "SendAbove",
    "SendBest",
    "SummarizedEstimator",
    "SummaryPrivacy",
    "greedy_mmd_selection",
    "mmd2",
    "run_protocol",
    "uniform_selection",
]
