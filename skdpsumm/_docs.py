"""Texts that the docstrings of several classes share, written once."""

from __future__ import annotations

import inspect
import re
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


def inherited_docs(cls: T) -> T:
    """Put what the base class says of its parameters where a docstring names them.

    A line ``{epsilon}`` stands for one entry of the base's docstring, ``{epsilon...ledger}`` for
    all entries from the one to the other.
    """
    base = inspect.cleandoc(cls.__bases__[0].__doc__ or "") + "\n"
    entries = {found[1]: found[0] for found in re.finditer(r"(?m)^(\w+) : .*\n(?: .*\n)*", base)}
    names = list(entries)

    def text(found: re.Match[str]) -> str:
        first, last = names.index(found[1]), names.index(found[2] or found[1])
        return "".join(entries[name] for name in names[first : last + 1])

    # Python drops docstrings where it is asked to (-OO).
    own = inspect.cleandoc(cls.__doc__ or "")
    cls.__doc__ = re.sub(r"(?m)^\{(\w+)(?:\.\.\.(\w+))?\}\n", text, own)
    return cls
