"""Warnings that point to the caller's line, however deep inside the package they arise."""

from __future__ import annotations

import os
import sys
import warnings

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
