"""Rows from many owners that match a target: protocols, parties, and the estimator."""

from ._ask_all import AskAll
from ._auction import Auction
from ._curator import Curator
from ._embedding import Embedding
from ._guarantee import SummaryPrivacy
from ._messages import (
    Bid,
    CallForBids,
    HandOver,
    Message,
    ProposeRows,
    Rows,
    SendAbove,
    SendBest,
)
from ._mmd import mmd2
from ._mwem import MWEM
from ._owner import DataOwner
from ._owner_values import OwnerValues
from ._posted import Posted
from ._propose import Pool, Propose
from ._protocol import Protocol
from ._run import run_protocol
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
