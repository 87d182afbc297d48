"""Warnings and errors that speak of privacy."""


class PrivacyLeakWarning(UserWarning):
    """Something asked for weakens or voids the privacy claim."""


class BudgetWarning(UserWarning):
    """A budget is being spent faster than one may think."""


class NoiseWarning(UserWarning):
    """A release is mostly noise: it says little or nothing about the data.

    It is told by public numbers before a charge, or by the release after it. After the charge all
    that was fitted is there, even where the warning is made an error.
    """


class LedgerDamagedError(ValueError):
    """A ledger's file is not what it should be. Nothing was charged, and nothing is allowed.

    It is damaged, foreign, of a newer version, or was set back to an earlier state. The file is
    left as it is. Put back a copy that holds all charges. Without one, what was spent is unknown:
    a new ledger needs a new budget, from whoever owns the data.
    """


class BudgetExceededError(RuntimeError):
    """A release would take more than its ledger has left. Nothing was charged."""
