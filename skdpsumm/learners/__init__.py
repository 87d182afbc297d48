"""Private kernel learners: a kernel ERM whose sensitivity is proved, and what may be released."""

from ._pinp import PINPClassifier, PINPRegressor
from ._tddl import TDDLClassifier, TDDLRegressor
from ._tdil import TDILClassifier, TDILRegressor
from .erm._losses import Huber, HuberizedHinge, SoftHinge

__all__ = [
    "Huber",
    "HuberizedHinge",
    "PINPClassifier",
    "PINPRegressor",
    "SoftHinge",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
]
