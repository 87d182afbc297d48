"""Calls that must be refused, each on a line with what the refusal says."""

import pytest


def refused(message, call, *given, error=ValueError, **options):
    """Return the error that a call raises; `message` is a pattern that its text must match."""
    with pytest.raises(error, match=message) as caught:
        call(*given, **options)
    return caught.value
