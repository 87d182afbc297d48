"""Warnings: of ours, that point to the caller's line, and of others, that tell of private rows."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_HOME = os.path.join(os.path.dirname(__file__), "")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here.

    `warnings.warn` has `skip_file_prefixes` for this from Python 3.12 on.

    Parameters
    ----------
    message : str
    category : type of Warning
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOME):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def silence() -> Iterator[None]:
    """Drop the warnings of functions of others, and of numpy, for a private row may decide them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
