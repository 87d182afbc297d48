"""Differentially private data summaries with scikit-learn's interface."""

from .audit import Comparison, audit_epsilon, check_private_estimator, compare
from .learners import (
    PINPClassifier,
    PINPRegressor,
    TDDLClassifier,
    TDDLRegressor,
    TDILClassifier,
    TDILRegressor,
)
from .model_selection import PrivateSearchCV
from .moments import AnswerWarning, Estimate, M2MClassifier, M2MEstimator, M2MRegressor, Points
from .privacy import (
    BudgetExceededError,
    BudgetWarning,
    LedgerDamagedError,
    NoiseWarning,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    simulation,
)
from .schema import Categorical, Date, Numeric, Public, PublicVectorizer, SchemaFinder, TableSchema
from .sketches import (
    AdaptiveSketcher,
    HistogramSketcher,
    PrivateSketch,
    RACESketcher,
    RFFSketcher,
    SketchUnion,
)
from .summaries import (
    PrivateMMDSummarizer,
    SketchSummarizer,
    SummarizedEstimator,
    greedy_mmd_selection,
    mmd2,
    uniform_selection,
)

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
