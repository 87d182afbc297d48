"""Candidates are tried on public rows before anything is charged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from ..privacy._objective import CurvatureError
from ._candidate import (
    Leaf,
    PublicSteps,
    alike,
    check_same_schema,
    check_steps,
    cost_of,
    hides_simulation,
    last_step,
    seeded,
)
from ._public_rows import PublicRows
from ._stopping import RunPlan

_TOO_EXPENSIVE = (
    "A row's curvature alone costs more than a run of the search may, whatever its epsilon. Set a "
    "larger regularization, or mechanism='functional', which costs what it is asked to. Or set a "
    "larger epsilon on the search."
)

Params = dict[str, Any]


@dataclass(eq=False, repr=False, kw_only=True)
class Rehearsal:
    """All candidates of a search, tried on public rows.

    Parameters
    ----------
    leaf : Leaf
    estimator : estimator
        The estimator of the search.
    plan : RunPlan
    adjacency : str
    classes : ndarray or None
    seed : int
        The public seed of what has none.
    bound : int, "average" or None
        `max_rows_per_group` of the search.
    public : PublicRows
    """

    leaf: Leaf
    estimator: Any
    plan: RunPlan
    adjacency: str
    classes: Any
    seed: int
    bound: Any
    public: PublicRows
    _passed: list[tuple[Params, Any]] = field(init=False, default_factory=list)

    def try_all(self, grid: list[Params]) -> list[Any]:
        """Return the candidates, which can be fitted and paid for. Each is tried once.

        Raises
        ------
        ValueError
            If some of them cannot. The message names all of these, and tells of parameters and
            public rows alone.
        """
        for params in grid:
            if not any(alike(params, known) for known, _ in self._passed):
                try:
                    self._passed.append((params, self._affordable(self.candidate(params))))
                except Exception as error:
                    if not params:
                        raise
                    raise ValueError(
                        f"A search over param_distributions can draw {params}, which fails on "
                        f"public rows: {error} Take it out, so that no search fails by chance; "
                        "nothing was charged."
                    ) from error
        return [next(c for known, c in self._passed if alike(known, params)) for params in grid]

    def candidate(self, params: Params) -> Any:
        """Return a candidate with all that the search decides, but for its budget."""
        candidate = self._with_settings(self.estimator).set_params(**clone(params, safe=False))
        return self._with_settings(candidate)

    def _with_settings(self, estimator: Any) -> Any:
        """Return a clone, whose steps may be its own, with all that the search decides."""
        if Leaf.of(estimator) != self.leaf:
            raise ValueError(
                "A candidate in param_distributions reads private rows in another place than the "
                "estimator of the search; give a search of its own to each kind."
            )
        own = self.leaf.settings(estimator, self.classes, self.adjacency, self.bound)
        return seeded(estimator, self.seed).set_params(**own)

    def _affordable(self, candidate: Any) -> Any:
        """Return a candidate with an epsilon at which its fit costs no more than planned.

        Most mechanisms cost what they are asked to. Of those that state another cost, as objective
        perturbation does, epsilon is lowered until it fits. Costs grow with it, but for a row's
        curvature: below some epsilon the learner refuses.
        """
        check_steps(candidate)
        check_same_schema(candidate, self.estimator)
        high = self.plan.epsilon
        try:
            found, excess = self._fitted(candidate, high)
        except CurvatureError:
            raise ValueError(_TOO_EXPENSIVE) from None
        if excess <= 1:
            return found
        if not np.isfinite(excess):
            raise ValueError(
                f"{type(last_step(candidate)).__name__} has a guarantee that does not compare with "
                f"a run's {self.plan.base!r}: take a mechanism with Gaussian noise, or set delta=0."
            )
        # A candidate goes down to a thousandth of the plan's epsilon; that way is halved ten times.
        affordable, low = None, 1e-3 * high
        for _ in range(10):
            middle = math.sqrt(low * high)
            try:
                found, excess = self._fitted(candidate, middle)
            except ValueError:  # too little for the curvature
                low = middle
                continue
            if excess <= 1:
                affordable, low = found, middle
            else:
                high = middle
        if affordable is None:
            raise ValueError(_TOO_EXPENSIVE)
        return affordable

    def _fitted(self, candidate: Any, epsilon: float) -> tuple[Any, float]:
        """Return a candidate with a budget, and how many times the planned cost it costs.

        It is fitted to public rows, and all is checked that a run relies on.
        """
        budget = {"epsilon": epsilon, "delta": self.plan.delta}
        named = {f"{self.leaf.budget}{name}": value for name, value in budget.items()}
        found = clone(candidate).set_params(**named)
        trial = clone(found)
        learner = PublicSteps.fitted(trial, self.public).fit_public(trial)
        cost = cost_of(learner)
        self._check_learner(learner)
        if np.shape(trial.predict(self.public.X)) != (len(self.public.X),):
            raise ValueError(f"{type(trial).__name__} must predict one value per row.")
        return found, self.plan.excess(cost)

    # ---- what cannot be the result of a search

    def _check_learner(self, step: Any) -> None:
        name = type(step).__name__
        if hides_simulation(step):
            raise ValueError(
                f"fit of {name} begins a simulation: begin it around the fit of the "
                "search, which then says that it is simulated."
            )
        if getattr(step, "holds_private_data", False):
            raise ValueError(
                f"{name} keeps private rows to answer from, and cannot be the result of a search; "
                "take a TDDL or TDIL learner, which releases a predictor."
            )
        if step.privacy_.adjacency != self.adjacency:
            raise ValueError(
                f"{name} claims {step.privacy_.adjacency!r} with adjacency={self.adjacency!r}; set "
                "the search's adjacency to what it claims."
            )
        if step.privacy_.unit != ("one row" if self.bound is None else "one group"):
            raise ValueError(
                f"{name} claims to protect {step.privacy_.unit}, whatever its max_rows_per_group."
            )
