"""Warnings and errors that speak of privacy.

Each has the module from which users import it: a traceback then names what they can catch.
"""


class PrivacyLeakWarning(UserWarning):
    """What you ask for weakens or voids the privacy claim.

    Change it as the message says. To turn such warnings into errors, use
    ``warnings.simplefilter("error", PrivacyLeakWarning)``.
    """

    __module__ = "skdpsumm.privacy"


class BudgetWarning(UserWarning):
    """You are spending a budget faster than you may think.

    The message says what the fits cost, and how to pay less.
    """

    __module__ = "skdpsumm.privacy"


class NoiseWarning(UserWarning):
    """A release is mostly noise, so it says little or nothing about the data.

    You get it before a charge, if public numbers tell, or after the charge, if the release tells.
    After a charge, everything is fitted, even if you turn the warning into an error.
    """

    __module__ = "skdpsumm.privacy"


class LedgerDamagedError(ValueError):
    """A ledger's file is not what it should be. Nothing was charged, and nothing is allowed.

    Put back a copy that holds all charges. Without such a copy, nobody knows what was spent: ask
    whoever owns the data for a new budget, and make a new ledger. The file is damaged, foreign, of
    a newer version, or was set back to an earlier state. It is left as it is.
    """

    __module__ = "skdpsumm.privacy"


class BudgetExceededError(RuntimeError):
    """A release would cost more than its ledger has left. Nothing was charged.

    Ask for a smaller epsilon. `PrivacyLedger.remaining` says how much is left.
    """

    __module__ = "skdpsumm.privacy"
