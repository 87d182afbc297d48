"""A candidate: an estimator with the parameters of one trial, fitted on a run's budget."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from ..privacy import PrivacyGuarantee
from ._plan import RunPlan

# Set by the search in every run.
OWNED = ("epsilon", "delta", "adjacency", "noise_seed", "ledger", "classes")
_MOST_REHEARSALS = 16
# How far above the epsilon that fits the least that does not may be.
_NEAR = 1.1


@dataclass(frozen=True)
class Leaf:
    """The one step of an estimator that reads private rows, and where its budget is set.

    Attributes
    ----------
    path : str
        Of the step: "" or "name__".
    budget : str
        Of what has epsilon: the path, or that of the step's sketcher.
    """

    path: str
    budget: str

    @classmethod
    def of(cls, estimator: Any) -> Leaf:
        """Find the step.

        Raises
        ------
        ValueError
            If there is none whose budget could be set.
        """
        path, step = "", estimator
        while isinstance(step, Pipeline):
            name, step = step.steps[-1]
            path += f"{name}__"
        params = step.get_params() if hasattr(step, "get_params") else {}
        if "epsilon" not in params and params.get("sketcher", 0) is None:
            raise ValueError(
                f"{type(step).__name__} has sketcher=None; give the sketcher, such as "
                "RFFSketcher(gamma=2.0), so that the search can set its budget."
            )
        budget = path if "epsilon" in params else f"{path}sketcher__"
        found = {f"{budget}{name}" for name in OWNED[:4]} <= set(_params(estimator))
        if not found:
            raise ValueError(
                f"{type(step).__name__} has no epsilon to set: the search takes a private learner "
                "of skdpsumm (TDILClassifier, M2MRegressor, ...), or a Pipeline that ends in one."
            )
        return cls(path, budget)

    def settings(self, estimator: Any, classes: Any) -> dict[str, Any]:
        """Return the parameters that are the same in all runs, but for epsilon."""
        values = {f"{self.budget}ledger": None}
        if classes is not None and f"{self.path}classes" in _params(estimator):
            values[f"{self.path}classes"] = classes
        return values

    def check(self, estimator: Any, names: set[str]) -> None:
        """Raise ValueError where the user has set what the search sets."""
        owned = {f"{self.budget}{name}" for name in OWNED} | {f"{self.path}classes"}
        taken = sorted(names & owned)
        if taken:
            raise ValueError(
                f"param_distributions holds {taken[0]!r}, which the search sets itself; set it on "
                "PrivateSearchCV (classes: on the estimator)."
            )
        if _params(estimator).get(f"{self.budget}ledger") is not None:
            raise ValueError(
                "The estimator has a ledger of its own; give it to PrivateSearchCV, which makes "
                "one charge for the whole search, and set ledger=None on the estimator."
            )


def _params(estimator: Any) -> dict[str, Any]:
    return estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}


def last_step(estimator: Any) -> Any:
    """Return the step that reads private rows."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone with public seeds where there were none, the same in every run, and quiet."""
    given = _params(estimator)
    missing = {k: seed for k, v in given.items() if k.endswith("random_state") and v is None}
    loud = {k: 0 for k, v in given.items() if k.split("__")[-1] == "verbose" and v}
    return clone(estimator).set_params(**missing, **loud)


def settled(leaf: Leaf, candidate: Any, settings: dict[str, Any], seed: int) -> Any:
    """Return a candidate, whose steps may be its own, with all that the search decides.

    Raises
    ------
    ValueError
        If its budget is set elsewhere than that of the search's estimator.
    """
    if Leaf.of(candidate) != leaf:
        raise ValueError(
            "A candidate in param_distributions reads private rows in another place than the "
            "estimator of the search; give a search of its own to each kind."
        )
    return seeded(candidate, seed).set_params(**settings)


@contextmanager
def silent() -> Iterator[None]:
    """Keep what runs have to say to themselves: it would tell how many there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class Rehearsal:
    """Public rows, shaped like the private ones, on which candidates are tried.

    Attributes
    ----------
    X : array or frame of shape (m, d)
    y : ndarray of shape (m,)
    X_public : array-like or None
        What the user gave for `fit`.
    """

    X: Any
    y: NDArray
    X_public: Any = None

    @classmethod
    def like(cls, X: Any, d: int, classes: Any, X_public: Any) -> Rehearsal:
        """Return rows uniform in [0, 1], a frame where X is one, with every class."""
        rng = np.random.default_rng(0)
        m = 20 if classes is None else max(20, 3 * len(classes))
        values: Any = rng.random((m, d))
        if hasattr(X, "columns"):
            values = type(X)({name: values[:, j] for j, name in enumerate(X.columns)})
        y = rng.random(m) if classes is None else np.resize(np.asarray(classes), m)
        return cls(values, y, X_public)


def fit_on(estimator: Any, X: Any, y: NDArray, public: Rehearsal) -> Any:
    """Fit the last step to rows, and all before it to public ones, from which they learn nothing.

    So a pipeline's transformers cost nothing, whatever they are.
    """
    points = public.X_public
    while isinstance(estimator, Pipeline):
        before, estimator = estimator[:-1], estimator.steps[-1][1]
        if len(before):
            before.fit(public.X, public.y)
            public = replace(public, X=before.transform(public.X))
            X = transform_rows(before, X, public.X)
            points = None if points is None else before.transform(points)
    extra = {} if points is None else {"X_public": points}
    return estimator.fit(X, y, **extra)


def transform_rows(before: Any, X: Any, like: Any) -> Any:
    """Transform every row by itself, so that no row moves another; zeros where that fails.

    Parameters
    ----------
    before : fitted transformer
    X : array or frame of shape (n, d)
    like : array or frame of shape (m, p)
        What it makes of public rows.
    """
    width = like.shape[1]
    values = np.zeros((len(X), width))
    with config_context(assume_finite=True):
        for i in range(len(X)):
            with suppress(Exception):
                row = before.transform(_safe_indexing(X, [i]))
                row = row.toarray() if issparse(row) else np.asarray(row, dtype=np.float64)
                values[i] = row.reshape(width)
    values[~np.isfinite(values)] = 0.0
    if not hasattr(like, "columns"):
        return values
    return type(like)({name: values[:, j] for j, name in enumerate(like.columns)})


def rehearse(leaf: Leaf, candidate: Any, plan: RunPlan, public: Rehearsal) -> Any:
    """Return the candidate with an epsilon at which its fit costs no more than planned.

    Most mechanisms take the plan's. Of those that state another cost than they were asked for, as
    objective perturbation does, epsilon is lowered until it fits.

    Raises
    ------
    ValueError
        If it cannot be fitted, or has no guarantee that the plan can hold.
    """
    step, excess = _rehearsed(leaf, candidate, plan.epsilon, plan, public)
    if excess <= 1:
        return candidate
    if not np.isfinite(excess):
        raise ValueError(
            f"{type(step).__name__} costs {cost_of(step)!r}, which does not compare with a run's "
            f"{plan.base!r}: take a mechanism with Gaussian noise, or delta=0 for one that is pure."
        )
    return _with_less(leaf, candidate, excess, plan, public)


def _with_less(leaf: Leaf, candidate: Any, excess: float, plan: RunPlan, public: Rehearsal) -> Any:
    """Lower epsilon until the candidate fits, and not much further: a cost grows with epsilon.

    A part of it may not: a row's curvature, of objective perturbation. So steps grow, and below
    some epsilon the estimator refuses.
    """
    fits, low, high, power = None, 0.0, plan.epsilon, 1.0
    for _ in range(_MOST_REHEARSALS):
        if low:
            epsilon = float(np.sqrt(low * high))
        else:
            # Not a power of excess, which may overflow.
            epsilon = high * float(np.exp(-power * np.log(excess) - 1e-4))
            power *= 2
        try:
            _, found = _rehearsed(leaf, candidate, epsilon, plan, public)
        except ValueError:
            low = epsilon
            continue
        if found <= 1:
            fits = low = epsilon
        else:
            excess, high = found, epsilon
        if fits and high < _NEAR * fits:
            break
    if fits is None:
        raise ValueError(
            f"{type(last_step(candidate)).__name__} costs at least {excess:.3g} times what a run "
            "of the search may, whatever its epsilon. Raise the search's epsilon, or lower "
            "expected_trials; with mechanism='objective', raise regularization, which pays for a "
            "row's curvature."
        )
    return _with_budget(leaf, candidate, fits, plan)


def _with_budget(leaf: Leaf, candidate: Any, epsilon: float, plan: RunPlan) -> Any:
    budget = {f"{leaf.budget}epsilon": epsilon, f"{leaf.budget}delta": plan.delta}
    return candidate.set_params(**budget)


def _rehearsed(
    leaf: Leaf, candidate: Any, epsilon: float, plan: RunPlan, public: Rehearsal
) -> tuple[Any, float]:
    """Fit a clone at an epsilon on public rows; return its step, and what it costs per planned."""
    trial = clone(_with_budget(leaf, candidate, epsilon, plan))
    with silent():
        fit_on(trial, public.X, public.y, public)
        check_shape(trial, public.X)
    step = last_step(trial)
    if getattr(step, "holds_private_data", False):
        raise ValueError(
            f"{type(step).__name__} keeps private rows to answer from, and cannot be the "
            "result of a search; take TDDL or TDIL, which release a predictor."
        )
    if step.privacy_.adjacency != _params(trial)[f"{leaf.budget}adjacency"]:
        raise ValueError(
            f"{type(step).__name__} claims {step.privacy_.adjacency!r}, whatever its adjacency."
        )
    return step, plan.excess(cost_of(step))


def check_shape(trial: Any, X: Any) -> None:
    """Raise ValueError where a prediction of one row is not one value."""
    if np.shape(trial.predict(_safe_indexing(X, [0]))) != (1,):
        raise ValueError(f"{type(trial).__name__} must predict one value per row.")


def cost_of(step: Any) -> Any:
    """Return what a fitted step says that it cost."""
    if not isinstance(getattr(step, "privacy_", None), PrivacyGuarantee):
        raise ValueError(
            f"{type(step).__name__} states no privacy_ of its rows, so no search can be priced."
        )
    return step.privacy_.mechanism


def state(step: Any, privacy: PrivacyGuarantee) -> None:
    """Have the released step, its sketcher and its sketch state the cost of the whole search."""
    step.privacy_ = privacy
    inner = getattr(step, "sketcher_", None)
    if inner is not None:
        inner.privacy_, inner.noise_seed = privacy, None
    for owner in (step, inner):
        with suppress(AttributeError):
            owner.sketch_ = replace(owner.sketch_, privacy=privacy)
