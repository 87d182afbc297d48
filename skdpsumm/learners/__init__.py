"""Private kernel learners: a kernel ERM whose sensitivity is proved, and what may be released."""

from ._pinp import PINPAnswer, PINPClassifier, PINPRegressor
from ._tddl import TDDLClassifier, TDDLRegressor
from ._tdil import TDILClassifier, TDILRegressor
from .erm._kernel_space import PolynomialKernel
from .erm._losses import Hinge, Huber, HuberizedHinge, Logistic, SoftHinge, Squared
from .mechanisms._answers_at_points import LaplaceAnswers
from .mechanisms._exponential import ExponentialMechanism
from .mechanisms._functional import FunctionalMechanism
from .mechanisms._objective import ObjectivePerturbation
from .mechanisms._public_hypothesis import NoisyThreshold, SparseVector

__all__ = [
    "ExponentialMechanism",
    "FunctionalMechanism",
    "Hinge",
    "Huber",
    "HuberizedHinge",
    "LaplaceAnswers",
    "Logistic",
    "NoisyThreshold",
    "ObjectivePerturbation",
    "PINPAnswer",
    "PINPClassifier",
    "PINPRegressor",
    "PolynomialKernel",
    "SoftHinge",
    "SparseVector",
    "Squared",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
]
