"""Texts that the docstrings of several classes share, written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)

RELEASE = """
    noise_seed : int or None, default=None
        For simulations only: None draws noise from the operating system.
    ledger : PrivacyLedger or LedgerDataset, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too, and without a ledger nothing counts them."""


def shared_docs(**texts: str) -> Callable[[T], T]:
    """Return a decorator that puts texts where a class's docstring names them: ``{name}``.

    Parameters
    ----------
    **texts : str
        Each stands in place of a line that has nothing else than its name in braces.
    """

    def fill(cls: T) -> T:
        for name, text in texts.items():
            # Python drops docstrings where it is asked to (-OO).
            cls.__doc__ = (cls.__doc__ or "").replace("    {" + name + "}", text.strip("\n"))
        return cls

    return fill
