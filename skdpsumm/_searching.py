"""Whether a search of scikit-learn is at work, whose every fit would repeat what is said."""

from __future__ import annotations

import traceback

_FITS = "sklearn.model_selection._validation"


def in_a_search() -> bool:
    """Whether this is called by a fit or a score of a scikit-learn search or cross-validation.

    Searches turn the memory of `warnings`, which should show each once, off and on again.
    """
    stack = traceback.walk_stack(None)
    return any(frame.f_globals.get("__name__") == _FITS for frame, _ in stack)
