"""Warnings and errors that speak of privacy."""


class PrivacyLeakWarning(UserWarning):
    """Something asked for weakens or voids the privacy claim."""


class BudgetWarning(UserWarning):
    """A budget is being spent faster than one may think."""


class BudgetExceededError(RuntimeError):
    """A release would take more than its ledger has left. Nothing was charged."""
