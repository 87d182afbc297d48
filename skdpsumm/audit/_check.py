"""Check any estimator against what a private estimator promises, from outside."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..privacy import GaussianDP, PrivacyGuarantee, PrivacyLedger
from ..privacy._mechanisms import ZeroConcentratedDP
from ._audit import AuditResult, audit_epsilon
from ._neighbours import worst_case_neighbours

# Attributes that tell of columns alone, which a fit that is refused may leave.
_OF_COLUMNS = {"n_features_in_", "feature_names_in_"}


def check_private_estimator(
    estimator: BaseEstimator,
    X: Any = None,
    X_neighbour: Any = None,
    *,
    release: Callable[[Any], Any] | None = None,
    n_trials: int = 1_000,
) -> AuditResult:
    """Check that an estimator claims, charges and adds the noise that it promises.

    Use it in the tests of an estimator that you write. It knows nothing of the code, so it works on
    any estimator with scikit-learn's interface. Like `sklearn.utils.estimator_checks`, it raises
    AssertionError if a check fails:

    1. `privacy_` is a `PrivacyGuarantee` that claims no more than the parameter `epsilon`, and does
       not come from a seed.
    2. The parameter `ledger` takes a `PrivacyLedger`, and `fit` charges it what `privacy_` claims.
    3. If the budget is too small, `fit` raises an error, and leaves no attribute but
       `n_features_in_` and `feature_names_in_`.
    4. An audit of all fitted attributes on two neighbours does not refute the claim. It finds noise
       that is too small, and any number or text that is exact.

    A check that passes proves nothing: other neighbours may tell more.

    Parameters
    ----------
    estimator : estimator
        It has the parameters `epsilon` and `ledger`, and `delta` unless it is 0. It is cloned, and
        never fitted itself, and its own ledger is not charged. Set `epsilon` to 1 or so: few
        trials see little of a large one.
    X, X_neighbour : array-like, tuple or dict, default=None
        The two tables: X, (X, y), or the keyword arguments of `fit`. Make sure that they are
        neighbours. By default, `worst_case_neighbours` builds them, which it can for estimators of
        this library alone.
    release : callable, default=None
        Takes the fitted estimator, and returns a number or a 1-D array of the same length each
        time. By default it is all numbers and texts in public attributes that end with "_", at any
        depth. Give one where that has thousands of numbers, or answers come from a method.
    n_trials : int, default=1_000
        Fits of each table. By default, claims up to 3.5 can be refuted. Noise of a third of what
        is promised is found in most releases; half of it may need 20,000.

    Returns
    -------
    AuditResult
        What the audit found. It fails an estimator that keeps its promises once in 1e6 checks.

    Raises
    ------
    AssertionError
        If a check fails.
    ValueError
        If so few trials can refute no claim of this size.

    Examples
    --------
    >>> from skdpsumm import HistogramSketcher
    >>> from skdpsumm.audit import check_private_estimator
    >>> sketcher = HistogramSketcher(schema=(0, 1), n_bins=2, epsilon=1.0, delta=0.0)
    >>> result = check_private_estimator(sketcher, n_trials=200)
    >>> result.refutes(1.0)
    False
    """
    name, model = type(estimator).__name__, clone(estimator)
    parameters = model.get_params(deep=False)
    if parameters.get("epsilon") is None:
        raise AssertionError(f"{name} needs a parameter epsilon, a number: what one fit promises.")
    if "ledger" not in parameters:
        raise AssertionError(f"{name} needs a parameter ledger, so that its fits can be counted.")
    epsilon, delta = float(parameters["epsilon"]), float(parameters.get("delta", 0.0))
    model.set_params(ledger=None)  # two ledgers of our own see what a fit is charged
    if parameters.get("random_state", 0) is None:
        model.set_params(random_state=0)  # public randomness is not what tells two fits apart
    if X is None:
        X, X_neighbour = worst_case_neighbours(model)
    claim = _check_claim(model, X, epsilon, delta)
    _check_charge(model, X, claim, delta)

    def published(data: Any) -> Any:
        fitted = _fit(clone(model), data)
        if release is not None:
            return release(fitted)
        return np.concatenate([values for _, values in _attributes(fitted)])

    family = "gaussian" if type(claim.mechanism) is GaussianDP else None
    # One check in a million fails an estimator that keeps its promises.
    result = audit_epsilon(
        published,
        X,
        X_neighbour,
        delta=delta,
        n_trials=n_trials,
        confidence=1 - 1e-6,
        family=family,
        random_state=0,
    )
    if result.largest_bound <= epsilon:
        raise ValueError(
            f"n_trials={n_trials} cannot refute epsilon={epsilon:g}, whatever {name} releases: "
            "check it at epsilon=1, or take more trials."
        )
    if result.refutes(epsilon):
        leaked = _exact_attributes(model, X, X_neighbour)
        why = (
            f"These attributes have no noise: {', '.join(leaked)}."
            if leaked
            else "Its noise is too small, or its sensitivity is larger than assumed."
        )
        raise AssertionError(
            f"{name} claims epsilon={epsilon:g} at delta={delta:g}, but its releases give "
            f"{result.lower_bound:.3g} away. {why}\n{result!r}"
        )
    return result


def _fit(model: Any, data: Any) -> Any:
    """Fit a model to a table, a pair (X, y) or the arguments of `fit`, and return it."""
    if isinstance(data, dict):
        return model.fit(**data)
    return model.fit(*data) if isinstance(data, tuple) else model.fit(data)


def _check_claim(model: Any, X: Any, epsilon: float, delta: float) -> PrivacyGuarantee:
    name = type(model).__name__
    claim = getattr(_fit(clone(model), X), "privacy_", None)
    if not isinstance(claim, PrivacyGuarantee):
        raise AssertionError(
            f"{name} needs privacy_, a PrivacyGuarantee, after fit; got {claim!r}."
        )
    if claim.simulated:
        raise AssertionError(f"{name} draws noise of a seed: such a fit protects nobody.")
    claimed = claim.epsilon(delta)
    if not claimed <= epsilon * (1 + 1e-9):
        raise AssertionError(
            f"{name} claims epsilon={claimed:g} at delta={delta:g} in privacy_, and was asked for "
            f"{epsilon:g}."
        )
    return claim


def _check_charge(model: Any, X: Any, claim: PrivacyGuarantee, delta: float) -> None:
    name, claimed = type(model).__name__, claim.epsilon(delta)
    terms: dict[str, Any] = {"delta": delta, "adjacency": claim.adjacency}
    terms["accountant"] = "zcdp" if isinstance(claim.mechanism, ZeroConcentratedDP) else None
    terms["unit"] = "row" if claim.unit == "one row" else "group"
    # This ledger has room for ten claims of the estimator, and another, below, for a tenth of one.
    ledger = PrivacyLedger(epsilon=10 * claimed, **terms)
    _fit(clone(model).set_params(ledger=ledger), X)
    paid = sum(entry["epsilon"] for entry in ledger.entries())
    if paid < claimed * (1 - 1e-9):
        raise AssertionError(
            f"{name} claims epsilon={claimed:g} in privacy_, and charged its ledger {paid:g}."
        )
    poor = clone(model).set_params(ledger=PrivacyLedger(epsilon=0.1 * claimed, **terms))
    try:
        _fit(poor, X)
    except Exception:
        left = {attribute for attribute in vars(poor) if attribute.endswith("_")} - _OF_COLUMNS
        if left:
            raise AssertionError(
                f"{name} was refused by its ledger, and keeps {', '.join(sorted(left))}: charge "
                "before anything is computed of the rows."
            ) from None
        return
    raise AssertionError(f"{name} was fitted though its ledger has no room for its claim.")


# ---- all that a fitted estimator shows


def _attributes(fitted: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers in all public fitted attributes, by their names."""
    yield "", np.zeros(1)  # so that an estimator without attributes shows something
    for name, value in sorted(vars(fitted).items()):
        if name.endswith("_") and not name.startswith("_"):
            # A fitted model holds a sketch, which holds a map: attributes of attributes are read
            # six deep.
            yield from _leaves(name, value, 6)


def _leaves(name: str, value: Any, depth: int) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, str | bytes | None):  # None takes a place: other fits may have a number
        text = value if isinstance(value, bytes) else str(value).encode()
        yield name, np.array([float(zlib.crc32(text))])
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _leaves(f"{name}[{key!r}]", value[key], depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for place, one in enumerate(value):
            yield from _leaves(f"{name}[{place}]", one, depth - 1)
    elif isinstance(value, np.ndarray | np.generic | int | float):
        values = np.asarray(value)
        if values.dtype.kind in "biuf":
            yield name, np.nan_to_num(values.astype(np.float64).ravel())
        elif depth:
            yield from _leaves(name, values.astype(str).tolist(), depth - 1)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, type | PrivacyLedger):
        for key, one in sorted(vars(value).items()):
            yield from _leaves(f"{name}.{key}", one, depth - 1)


def _exact_attributes(model: Any, X: Any, X_neighbour: Any) -> list[str]:
    """Return the attributes that are the same in all fits of a table, and differ between tables."""
    # Five fits of each table must agree on an attribute before an error calls it exact.
    fits = [
        [dict(_attributes(_fit(clone(model), data))) for _ in range(5)] for data in (X, X_neighbour)
    ]
    first, other = fits[0][0], fits[1][0]

    def is_same(name: str, *shown: dict[str, np.ndarray]) -> bool:
        return all(name in one and np.array_equal(shown[0][name], one[name]) for one in shown)

    shared = [name for name in first if name in other and not is_same(name, first, other)]
    return [name for name in shared if is_same(name, *fits[0]) and is_same(name, *fits[1])]
