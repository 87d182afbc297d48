"""Private kernel learners: a kernel ERM whose sensitivity is proved, and what may be released."""

from ._pinp import PINPClassifier, PINPRegressor
from ._tddl import TDDLClassifier, TDDLRegressor
from ._tdil import TDILClassifier, TDILRegressor
from .erm._kernel_space import PolynomialKernel
from .erm._losses import EpsilonInsensitive, Huber, HuberizedHinge, SoftHinge
from .mechanisms import _objective  # noqa: F401  its mechanism is named by a string
from .mechanisms._functional import FunctionalMechanism
from .mechanisms._gradient import GradientDescent
from .mechanisms._paper import ExponentialMechanism, LaplaceAnswers, NoisyThreshold, SparseVector

__all__ = [
    "EpsilonInsensitive",
    "ExponentialMechanism",
    "FunctionalMechanism",
    "GradientDescent",
    "Huber",
    "HuberizedHinge",
    "LaplaceAnswers",
    "NoisyThreshold",
    "PINPClassifier",
    "PINPRegressor",
    "PolynomialKernel",
    "SoftHinge",
    "SparseVector",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
]
