"""Private kernel learners: a kernel ERM whose sensitivity is proved, and what may be released."""

from ._pinp import PINPAnswer, PINPClassifier, PINPRegressor
from ._tddl import TDDLClassifier, TDDLRegressor
from ._tdil import TDILClassifier, TDILRegressor
from .erm._losses import Hinge, Huber, HuberizedHinge, Logistic, SoftHinge, Squared

__all__ = [
    "Hinge",
    "Huber",
    "HuberizedHinge",
    "Logistic",
    "PINPAnswer",
    "PINPClassifier",
    "PINPRegressor",
    "SoftHinge",
    "Squared",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
]
