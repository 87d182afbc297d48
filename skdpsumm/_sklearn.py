"""What we use of scikit-learn's private modules: imported here and nowhere else.

Each name has a stand-in, for the day on which it moves or goes. A stand-in does what we need of
the original, and no more. `tests/test_sklearn.py` runs both.
"""

# mypy: disable-error-code="no-redef"

from __future__ import annotations

from contextlib import suppress
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

try:
    from sklearn.utils._param_validation import (
        HasMethods,
        Interval,
        StrOptions,
        validate_parameter_constraints,
    )
except ImportError:

    class _Allowed:
        """Values that a parameter may have, and how a message calls them."""

        def __init__(self, told: str, is_satisfied_by: Any):
            self.told, self.is_satisfied_by = told, is_satisfied_by

        def __str__(self) -> str:
            return self.told

    def Interval(type: Any, left: Any, right: Any, *, closed: str) -> Any:
        """Return the numbers of a type between two ends."""
        low, high = -np.inf if left is None else left, np.inf if right is None else right
        with_low, with_high = closed in ("left", "both"), closed in ("right", "both")

        def is_inside(value: Any) -> bool:
            if not isinstance(value, type) or value != value:
                return False
            above = value >= low if with_low else value > low
            return bool(above and (value <= high if with_high else value < high))

        kind = "an int" if type is Integral else "a float"
        ends = f"{'[' if with_low else '('}{low}, {high}{']' if with_high else ')'}"
        return _Allowed(f"{kind} in the range {ends}", is_inside)

    def StrOptions(options: set[str]) -> Any:
        """Return a few words."""
        told = f"a str among {{{', '.join(map(repr, sorted(options)))}}}"
        return _Allowed(told, lambda value: isinstance(value, str) and value in options)

    def HasMethods(methods: list[str]) -> Any:
        """Return the objects with these methods."""
        told = f"an object implementing {' and '.join(map(repr, methods))}"
        return _Allowed(told, lambda value: all(callable(getattr(value, m, None)) for m in methods))

    class InvalidParameterError(ValueError, TypeError):
        """A parameter that satisfies none of its constraints."""

    _KINDS: dict[str, Any] = {
        "boolean": lambda value: isinstance(value, bool | np.bool_),
        "verbose": lambda value: isinstance(value, np.bool_ | Integral) and int(value) >= 0,
        "array-like": lambda value: (
            not np.isscalar(value) and (hasattr(value, "__len__") or hasattr(value, "shape"))
        ),
    }

    def _satisfies(value: Any, allowed: Any) -> bool:
        if isinstance(allowed, str) and allowed == "random_state":
            with suppress(ValueError):
                # `check_random_state` takes numpy's module for None.
                return check_random_state(value) is not None and value is not np.random
            return False
        if isinstance(allowed, str):
            return bool(_KINDS[allowed](value))
        if allowed is callable:
            return callable(value)
        if allowed is None or isinstance(allowed, type):
            return value is None if allowed is None else isinstance(value, allowed)
        return bool(allowed.is_satisfied_by(value))

    def validate_parameter_constraints(
        parameter_constraints: dict[str, Any], params: dict[str, Any], caller_name: str
    ) -> None:
        """Raise InvalidParameterError for a parameter that satisfies none of its constraints."""
        for name, value in params.items():
            allowed = parameter_constraints.get(name, "no_validation")
            if allowed == "no_validation" or any(_satisfies(value, one) for one in allowed):
                continue
            kinds = " or ".join(getattr(one, "__name__", str(one)) for one in allowed)
            raise InvalidParameterError(
                f"The {name!r} parameter of {caller_name} must be {kinds}. Got {value!r} instead."
            )


try:
    from sklearn.utils._metadata_requests import SIMPLE_METHODS, RequestMethod

    # imbalanced-learn appends it, too: without it, scikit-learn 1.6 routes nothing to a summarizer.
    if "fit_resample" not in SIMPLE_METHODS:
        SIMPLE_METHODS.append("fit_resample")
except ImportError:
    SIMPLE_METHODS: list[str] = []

    class RequestMethod:
        """A method ``set_<name>_request`` that an estimator does not have."""

        def __init__(self, name: str, keys: list[str]):
            self.name = name

        def __get__(self, instance: Any, owner: Any) -> Any:
            raise AttributeError(
                f"set_{self.name}_request needs a scikit-learn with `RequestMethod`: call fit, and "
                "pass what you would have routed."
            )


def check_params(estimator: Any) -> None:
    """Raise ValueError for a parameter of an estimator that satisfies none of its constraints."""
    validate_parameter_constraints(
        estimator._parameter_constraints,
        estimator.get_params(deep=False),
        caller_name=type(estimator).__name__,
    )


def check_matplotlib(caller: str) -> None:
    """Raise ImportError if matplotlib is missing."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} requires matplotlib: install it with pip install "skdpsumm[plot]".'
        ) from error
