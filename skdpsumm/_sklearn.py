"""What estimators share with scikit-learn's: constraints on parameters, and requests of methods.

Scikit-learn's private modules are imported here and nowhere else. Each name has a stand-in, for the
day on which it moves or goes. `tests/test_sklearn.py` runs both.
"""

# mypy: disable-error-code="no-redef"

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

# ---- constraints on parameters: what follows, types, and what `_KINDS` has


@dataclass(frozen=True)
class _Allowed:
    """Values that a parameter may have, and how a message calls them."""

    told: str
    is_satisfied_by: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.told


def Interval(type: Any, left: float | None, right: float | None, *, closed: str) -> Any:
    """Return the numbers of a type between two ends, of which None is infinite."""
    low, high = -np.inf if left is None else left, np.inf if right is None else right
    with_low, with_high = closed in ("left", "both"), closed in ("right", "both")

    def takes(value: Any) -> bool:
        if not isinstance(value, type) or value != value:
            return False
        above = value >= low if with_low else value > low
        return bool(above and (value <= high if with_high else value < high))

    kind = "an int" if type is Integral else "a float"
    ends = f"{'[' if with_low else '('}{low}, {high}{']' if with_high else ')'}"
    return _Allowed(f"{kind} in the range {ends}", takes)


def StrOptions(options: set[str]) -> Any:
    """Return a few words."""
    told = f"a str among {{{', '.join(map(repr, sorted(options)))}}}"
    return _Allowed(told, lambda value: isinstance(value, str) and value in options)


def HasMethods(methods: list[str]) -> Any:
    """Return the objects with these methods."""
    told = f"an object implementing {' and '.join(map(repr, methods))}"
    return _Allowed(told, lambda value: all(callable(getattr(value, m, None)) for m in methods))


def _is_random_state(value: Any) -> bool:
    with suppress(ValueError, TypeError):
        # `check_random_state` takes numpy's module for None.
        return check_random_state(value) is not None and value is not np.random
    return False


_KINDS: dict[Any, _Allowed] = {
    None: _Allowed("None", lambda value: value is None),
    callable: _Allowed("a callable", callable),
    "boolean": _Allowed("a bool", lambda value: isinstance(value, bool | np.bool_)),
    "array-like": _Allowed(
        "an array-like",
        lambda value: (
            not np.isscalar(value) and (hasattr(value, "__len__") or hasattr(value, "shape"))
        ),
    ),
    "random_state": _Allowed(
        "an int from 0 to 2**32 - 1, a numpy.random.RandomState or None", _is_random_state
    ),
}


try:
    from sklearn.utils._param_validation import make_constraint
except ImportError:

    def make_constraint(constraint: Any) -> Any:
        """Allow everything where the constraint is one that scikit-learn alone can read."""
        return _Allowed(str(constraint), lambda value: True)


class InvalidParameterError(ValueError, TypeError):
    """A parameter that satisfies none of its constraints."""


def validate_parameter_constraints(
    constraints: Mapping[str, Any], params: Mapping[str, Any], caller_name: str
) -> None:
    """Raise InvalidParameterError for a parameter that satisfies none of its constraints."""
    for name, value in params.items():
        given = constraints.get(name, "no_validation")
        if given == "no_validation":
            continue
        allowed = [_allowed(one) for one in given]
        if not any(one.is_satisfied_by(value) for one in allowed):
            told = " or ".join(dict.fromkeys(map(str, allowed)))
            raise InvalidParameterError(
                f"The {name!r} parameter of {caller_name} must be {told}. Got {value!r} instead."
            )


def _allowed(one: Any) -> Any:
    """Return what a type, a word, None or `callable` allows; other constraints as they are."""
    if isinstance(one, type):
        return _Allowed(f"a {one.__name__}", lambda value: isinstance(value, one))
    own = one if hasattr(one, "is_satisfied_by") else _KINDS.get(one)
    return make_constraint(one) if own is None else own


def check_params(estimator: Any) -> None:
    """Raise ValueError for a parameter of an estimator that satisfies none of its constraints."""
    params = estimator.get_params(deep=False)
    validate_parameter_constraints(
        estimator._parameter_constraints, params, type(estimator).__name__
    )


# ---- requests of methods

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
