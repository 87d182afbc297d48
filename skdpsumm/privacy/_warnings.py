"""Warnings and errors that speak of privacy.

Each has the module from which users import it: a traceback then names what they can catch.
"""


class PrivacyLeakWarning(UserWarning):
    """Something asked for weakens or voids the privacy claim."""

    __module__ = "skdpsumm.privacy"


class BudgetWarning(UserWarning):
    """A budget is being spent faster than one may think."""

    __module__ = "skdpsumm.privacy"


class NoiseWarning(UserWarning):
    """A release is mostly noise: it says little or nothing about the data.

    It is told by public numbers before a charge, or by the release after it. After the charge all
    that was fitted is there, even where the warning is made an error.
    """

    __module__ = "skdpsumm.privacy"


class LedgerDamagedError(ValueError):
    """A ledger's file is not what it should be. Nothing was charged, and nothing is allowed.

    It is damaged, foreign, of a newer version, or was set back to an earlier state. The file is
    left as it is. Put back a copy that holds all charges. Without one, what was spent is unknown:
    a new ledger needs a new budget, from whoever owns the data.
    """

    __module__ = "skdpsumm.privacy"


class BudgetExceededError(RuntimeError):
    """A release would take more than its ledger has left. Nothing was charged."""

    __module__ = "skdpsumm.privacy"
