"""Differentially private data summaries with scikit-learn's interface."""

# Each room says what is public of it; `__all__` has those names with which users start.
from .audit import *
from .learners import *
from .model_selection import *
from .moments import *
from .privacy import *
from .schema import *
from .sketches import *
from .summaries import *

__version__ = "0.1.0"

__all__ = [
    "AdaptiveSketcher",
    "AnswerWarning",
    "BudgetExceededError",
    "BudgetWarning",
    "Categorical",
    "Comparison",
    "Date",
    "Estimate",
    "HistogramSketcher",
    "LedgerDamagedError",
    "M2MClassifier",
    "M2MEstimator",
    "M2MRegressor",
    "NoiseWarning",
    "Numeric",
    "PINPClassifier",
    "PINPRegressor",
    "Points",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivateMMDSummarizer",
    "PrivateSearchCV",
    "PrivateSketch",
    "Public",
    "PublicVectorizer",
    "RACESketcher",
    "RFFSketcher",
    "SchemaFinder",
    "SketchSummarizer",
    "SketchUnion",
    "SummarizedEstimator",
    "TDDLClassifier",
    "TDDLRegressor",
    "TDILClassifier",
    "TDILRegressor",
    "TableSchema",
    "audit_epsilon",
    "check_private_estimator",
    "compare",
    "greedy_mmd_selection",
    "mmd2",
    "simulation",
    "uniform_selection",
]
