"""Candidates are tried on public rows before anything is charged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ._candidate import Leaf, cost_of, last_step, settled
from ._maps import Maps, alike
from ._plan import RunPlan
from ._public_rows import PublicRows

_MOST_REHEARSALS = 16
# How far above the epsilon that fits the least that does not may be.
_NEAR = 1.1
# Times that Lambda is doubled to say which one would do.
_MOST_RAISES = 4


@dataclass(frozen=True)
class Stage:
    """Where all candidates of a search are tried.

    Attributes
    ----------
    leaf : Leaf
    plan : RunPlan
    public : PublicRows
    estimator : estimator
        Of the search.
    adjacency : str
    classes : ndarray or None
    seed : int
        Public, of what has none.
    """

    leaf: Leaf
    plan: RunPlan
    public: PublicRows
    estimator: Any
    adjacency: str
    classes: Any
    seed: int
    _done: list[tuple[dict[str, Any], Any]] = field(default_factory=list)

    def _settled(self, estimator: Any) -> Any:
        """Return an estimator, whose steps may be its own, with all that the search decides."""
        budget = self.leaf.budget
        own = {f"{budget}adjacency": self.adjacency, f"{budget}noise_seed": None}
        own |= self.leaf.settings(estimator, self.classes)
        return settled(self.leaf, estimator, own, self.seed)

    def tried(self, params: dict[str, Any]) -> Any:
        """Return a candidate that can be fitted and paid for.

        Raises
        ------
        ValueError
            If it cannot. The message tells of parameters and public rows alone.
        """
        for known, candidate in self._done:
            if alike(known, params):
                return candidate
        try:
            candidate = self._settled(self.estimator).set_params(**clone(params, safe=False))
            candidate = self._settled(candidate)
            candidate = _affordable(self.leaf, candidate, self.plan, self.public)
        except Exception as error:
            if not params:
                raise
            raise ValueError(
                f"A search over param_distributions can draw {params!r}, which fails on public "
                f"rows: {error} Take it out, so that no search fails by the luck of the draw; "
                "nothing was charged."
            ) from error
        self._done.append((params, candidate))
        return candidate


def fit_last(step: Any, X: Any, y: NDArray, public: PublicRows) -> Any:
    """Fit a learner to rows that all steps before it have mapped, as they have the public ones."""
    extra = {} if public.X_public is None else {"X_public": public.X_public}
    return step.fit(X, y, **extra)


def _affordable(leaf: Leaf, candidate: Any, plan: RunPlan, public: PublicRows) -> Any:
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
    fits, least = _less(leaf, candidate, excess, plan, public)
    if not fits:
        raise ValueError(
            f"{type(step).__name__} costs at least {least:.3g} times what a run of the search may, "
            "whatever its epsilon. Raise the search's epsilon or lower expected_trials"
            f"{_remedy(leaf, candidate, step, least, plan, public)}."
        )
    return _with_budget(leaf, candidate, fits, plan)


def _less(
    leaf: Leaf,
    candidate: Any,
    excess: float,
    plan: RunPlan,
    public: PublicRows,
    near: float = _NEAR,
) -> tuple[float | None, float]:
    """Lower epsilon until the candidate fits, and not much further: a cost grows with epsilon.

    A part of it may not: a row's curvature, of objective perturbation. So steps grow, and below
    some epsilon the estimator refuses.

    Returns
    -------
    fits : float or None
        An epsilon.
    excess : float
        What the least epsilon that is too much costs per planned.
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
        if fits and high < near * fits:
            break
    return fits, excess


def _remedy(
    leaf: Leaf, candidate: Any, step: Any, excess: float, plan: RunPlan, public: PublicRows
) -> str:
    """Return what a refusal adds for objective perturbation: a Lambda that was tried, and does."""
    if getattr(step, "mechanism", "") != "objective":
        return ""
    advice = ", or raise regularization, which pays for a row's curvature"
    value = step.regularization_ * excess
    for _ in range(_MOST_RAISES):
        value = _rounded_up(2 * value)
        raised = clone(candidate).set_params(**{f"{leaf.path}regularization": value})
        try:
            _, excess = _rehearsed(leaf, raised, plan.epsilon, plan, public)
            if excess <= 1 or _less(leaf, raised, excess, plan, public, near=np.inf)[0]:
                return f"{advice}: {value:g} is enough"
        except ValueError:  # of a Lambda that cannot be, for other reasons
            break
    return advice


def _rounded_up(value: float) -> float:
    """Return two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit) * unit:.2g}")


def _with_budget(leaf: Leaf, candidate: Any, epsilon: float, plan: RunPlan) -> Any:
    budget = {f"{leaf.budget}epsilon": epsilon, f"{leaf.budget}delta": plan.delta}
    return candidate.set_params(**budget)


def _rehearsed(
    leaf: Leaf, candidate: Any, epsilon: float, plan: RunPlan, public: PublicRows
) -> tuple[Any, float]:
    """Fit a clone at an epsilon on public rows; return its step, and what it costs per planned."""
    trial = clone(_with_budget(leaf, candidate, epsilon, plan))
    maps = Maps.fitted(trial, public)
    step = fit_last(last_step(trial), maps.public.X, public.y, maps.public)
    check_shape(trial, public.X)
    if getattr(step, "holds_private_data", False):
        raise ValueError(
            f"{type(step).__name__} keeps private rows to answer from, and cannot be the "
            "result of a search; take TDDL or TDIL, which release a predictor."
        )
    if step.privacy_.adjacency != trial.get_params()[f"{leaf.budget}adjacency"]:
        raise ValueError(
            f"{type(step).__name__} claims {step.privacy_.adjacency!r}, whatever its adjacency."
        )
    return step, plan.excess(cost_of(step))


def check_shape(trial: Any, X: Any) -> None:
    """Raise ValueError where a prediction of one row is not one value."""
    if np.shape(trial.predict(_safe_indexing(X, [0]))) != (1,):
        raise ValueError(f"{type(trial).__name__} must predict one value per row.")
