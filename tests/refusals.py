"""Calls that must be refused, each on a line with what the refusal says."""

import warnings

import pytest


def refused(message, call, *given, error=ValueError, **options):
    """Return the error that a call raises; `message` is a pattern that its text must match.

    If a warning is asked for, warnings of its kind are errors.
    """
    with warnings.catch_warnings():
        if isinstance(error, type) and issubclass(error, Warning):
            warnings.simplefilter("error", error)
        with pytest.raises(error, match=message) as caught:
            call(*given, **options)
    return caught.value
