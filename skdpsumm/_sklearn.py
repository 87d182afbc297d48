"""What we use of scikit-learn's private modules: imported here and nowhere else.

Each name has a stand-in, for the day on which it moves or goes. A stand-in does what we need of
the original, and no more. `tests/test_sklearn.py` runs both.
"""

# mypy: disable-error-code="no-redef"

from __future__ import annotations

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

    class Interval:
        """Numbers of a type between two ends."""

        def __init__(self, type: Any, left: Any, right: Any, *, closed: str):
            self.type, self.closed = type, closed
            self.left = -np.inf if left is None else left
            self.right = np.inf if right is None else right

        def is_satisfied_by(self, value: Any) -> bool:
            """Whether a value is one of them."""
            if not isinstance(value, self.type) or value != value:
                return False
            above = value >= self.left if self.closed in ("left", "both") else value > self.left
            below = value <= self.right if self.closed in ("right", "both") else value < self.right
            return bool(above and below)

        def __str__(self) -> str:
            kind = "an int" if self.type is Integral else "a float"
            first = "[" if self.closed in ("left", "both") else "("
            last = "]" if self.closed in ("right", "both") else ")"
            return f"{kind} in the range {first}{self.left}, {self.right}{last}"

    class StrOptions:
        """One of a few words."""

        def __init__(self, options: set[str]):
            self.options = options

        def is_satisfied_by(self, value: Any) -> bool:
            """Whether a value is one of them."""
            return isinstance(value, str) and value in self.options

        def __str__(self) -> str:
            return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"

    class HasMethods:
        """An object with these methods."""

        def __init__(self, methods: list[str]):
            self.methods = methods

        def is_satisfied_by(self, value: Any) -> bool:
            """Whether a value has them."""
            return all(callable(getattr(value, name, None)) for name in self.methods)

        def __str__(self) -> str:
            return f"an object implementing {' and '.join(map(repr, self.methods))}"

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
            if value is np.random:  # which `check_random_state` takes for None
                return False
            try:
                return check_random_state(value) is not None
            except ValueError:
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
