"""Audits: what a release gives away, measured on two neighbouring data sets."""

from ._audit import AuditResult, audit_epsilon
from ._check import check_private_estimator
from ._compare import Comparison, compare
from ._neighbours import worst_case_neighbours

__all__ = [
    "AuditResult",
    "Comparison",
    "audit_epsilon",
    "check_private_estimator",
    "compare",
    "worst_case_neighbours",
]
