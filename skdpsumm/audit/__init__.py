"""Audits: what a release gives away, measured on two neighbouring data sets."""

from ._audit import AuditResult, audit_epsilon

__all__ = ["AuditResult", "audit_epsilon"]
