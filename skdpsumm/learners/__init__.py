"""Private kernel learners: a kernel ERM whose sensitivity is proved, and what may be released."""

from ._pinp import PINPAnswer, PINPClassifier, PINPRegressor
from ._tddl import TDDLClassifier, TDDLRegressor
from ._tdil import TDILClassifier, TDILRegressor

__all__ = [
    "PINPAnswer",
    "PINPClassifier",
    "PINPRegressor",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
]
