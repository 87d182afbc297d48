"""Candidates are tried on public rows before anything is charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import _safe_indexing

from ..privacy._fit import PricedLearner
from ..privacy._objective import CurvatureError
from ._candidate import Leaf, PublicSteps, alike, cost_of, last_step, seeded, steps_before, unit_of
from ._public_rows import PublicRows, Reading, meetings
from ._stopping import RunPlan

_MOST_FITS = 16
# How far above the epsilon that fits the least that does not may be.
_NEAR = 1.1
# Times that Lambda is doubled to say which one would do, and the last epsilon that is tried.
_MOST_RAISES, _LARGEST_EPSILON = 12, 20.0
_MOST_SHOWN = 3

Params = dict[str, Any]
Failed = list[tuple[Params, Exception]]


class TooExpensiveError(ValueError):
    """Raised for a candidate that no epsilon makes cheap enough for a run."""


_TOO_EXPENSIVE = (TooExpensiveError, CurvatureError)


@dataclass(eq=False, repr=False)
class Rehearsal:
    """All candidates of a search, tried on public rows.

    Parameters
    ----------
    leaf : Leaf
    estimator : estimator
        Of the search.
    plan_of : callable
        Returns the plan of a run of a search with another epsilon.
    epsilon : float
        Of the search.
    adjacency : str
    classes : ndarray or None
    seed : int
        Public, of what has none.
    bound : int, "average" or None
        `max_rows_per_group` of the search.
    schema : array or frame of shape (0, d)
        Of the user's table.

    Attributes
    ----------
    plan : RunPlan
    reading : Reading
        In which types the candidates read tables. Known once `open` is called, as all below.
    public : PublicRows
    tables : pair of arrays or frames
        Public rows with the types of the user's table, and the same rows as read.
    """

    leaf: Leaf
    estimator: Any
    _: KW_ONLY
    plan_of: Callable[[float], RunPlan]
    epsilon: float
    adjacency: str
    classes: Any
    seed: int
    schema: Any
    bound: Any = None

    reading: Reading = field(init=False)
    public: PublicRows = field(init=False)
    tables: tuple[Any, Any] = field(init=False)
    _passed: list[tuple[Params, Any]] = field(init=False, default_factory=list)
    _checked: list[Any] = field(init=False, default_factory=list)  # steps before learners

    def __post_init__(self) -> None:
        self.plan = self.plan_of(self.epsilon)

    def open(self, grid: list[Params], X_public: Any) -> None:
        """Make public rows, of the types in which these candidates read tables, and try them all.

        Raises
        ------
        ValueError
            That names all candidates that cannot be, and what would mend that.
        """
        self.reading = Reading.of(self._all(self.candidate, grid), self.schema)
        grouped = self.bound is not None
        self.public = PublicRows.like(self.reading, self.classes, X_public, grouped=grouped)
        self.tables = self.reading.own_and_read()
        # Prices come first: those of our learners follow from public numbers, without a fit.
        self._all(self._check_price, grid)
        self._all(self._try, grid)

    def candidate(self, params: Params) -> Any:
        """Return a candidate with all that the search decides, but for its budget."""
        candidate = self._with_settings(self.estimator).set_params(**clone(params, safe=False))
        return self._with_settings(candidate)

    def passed(self, params: Params) -> Any:
        """Return a candidate that can be fitted and paid for, and takes the user's own tables.

        Raises
        ------
        ValueError
            If it cannot. The message tells of parameters and public rows alone.
        """
        (candidate,) = self._all(self._try, [params])
        return candidate

    def read(self, X: Any) -> Any:
        """Return the private table as all steps meet it.

        Raises
        ------
        ValueError
            For cells that a schema, or a step without one, does not take; columns are named.
        """
        return self.reading(X)

    def _with_settings(self, estimator: Any) -> Any:
        """Return a clone, whose steps may be its own, with all that the search decides."""
        if Leaf.of(estimator) != self.leaf:
            raise ValueError(
                "A candidate in param_distributions reads private rows in another place than the "
                "estimator of the search; give a search of its own to each kind."
            )
        own = self.leaf.settings(estimator, self.classes, self.adjacency, self.bound)
        return seeded(estimator, self.seed).set_params(**own)

    def _all(self, attempt: Callable[[Params], Any], grid: list[Params]) -> list[Any]:
        """Return what is made of all candidates; raise one error for all that fail."""
        made, failed = [], []
        for params in grid:
            try:
                made.append(attempt(params))
            except Exception as error:
                failed.append((params, error))
        if failed:
            raise self._refusal(failed, len(grid))
        return made

    def _try(self, params: Params) -> Any:
        for known, candidate in self._passed:
            if alike(known, params):
                return candidate
        candidate = self.candidate(params)
        if not self.reading.covers(Reading.of([candidate], self.schema)):
            raise ValueError(
                "It has another schema than the candidates that are always tried; give schemas in "
                "lists, in a grid of at most 100 candidates, which are all tried."
            )
        _check_steps(candidate, self)
        candidate = self._price(candidate).affordable()
        trial = clone(candidate)
        steps = PublicSteps.fitted(trial, self.public)
        steps.fit_public(trial)
        _check_learner(last_step(trial), self.adjacency, self.bound)
        self._check_tables(trial, steps)
        self._passed.append((params, candidate))
        return candidate

    # ---- prices

    def _price(self, candidate: Any, plan: RunPlan | None = None) -> _Price:
        return _Price(self.leaf, candidate, plan or self.plan, self.public)

    def _check_price(self, params: Params) -> None:
        """Raise ValueError for a candidate that costs too much whatever is spent on noise."""
        candidate = self.candidate(params)
        _check_steps(candidate, self)
        self._price(candidate).check_least()

    def _refusal(self, failed: Failed, n_tried: int) -> Exception:
        expensive = [params for params, error in failed if isinstance(error, _TOO_EXPENSIVE)]
        others = [pair for pair in failed if not isinstance(pair[1], _TOO_EXPENSIVE)]
        if not expensive:
            return _refusal(others)
        text = f"{self._of_expensive(expensive, n_tried)} Nothing was charged."
        return ValueError(f"{_refusal(others)}\n{text}" if others else text)

    def _of_expensive(self, expensive: list[Params], n_tried: int) -> str:
        """Return what cannot be paid for, and all that would mend it, which is tried."""
        found = [self.candidate(params) for params in expensive]
        kinds = sorted({type(last_step(candidate)).__name__ for candidate in found})
        remedies = [*self._remedies(found)]
        if len(expensive) < n_tried:
            remedies.append("leave them out of param_distributions")
        told = f"; any of these would do: {'; '.join(remedies)}" if remedies else ""
        return (
            f"{len(expensive)} of {n_tried} candidates that were tried cost more than a run of the "
            f"search may, whatever their epsilon, because a row's curvature costs by itself in "
            f"{' and '.join(kinds)} with mechanism='objective': {_shown(expensive)}{told}."
        )

    def _remedies(self, expensive: list[Any]) -> Iterator[str]:
        names = [f"{self.leaf.path}{name}" for name in ("regularization", "mechanism")]
        given = [candidate.get_params().get(names[0]) for candidate in expensive]
        if None not in given:
            value = max([one for one in given if not isinstance(one, str)], default=1.0)
            for _ in range(_MOST_RAISES):
                value = _rounded_up(2 * value)
                if self._all_fit(_with(expensive, names[0], value)):
                    yield f"{names[0]} of {value:g} or more"
                    break
        epsilon = _rounded_up(1.4 * self.epsilon)
        while epsilon < _LARGEST_EPSILON:
            if self._all_fit(expensive, self.plan_of(epsilon)):
                yield f"epsilon={epsilon:g} of the search"
                break
            epsilon = _rounded_up(1.4 * epsilon)
        named = all(names[1] in candidate.get_params() for candidate in expensive)
        if named and self._all_fit(_with(expensive, names[1], "functional")):
            yield f"{names[1]}='functional', which costs what it is asked to"

    def _all_fit(self, candidates: list[Any], plan: RunPlan | None = None) -> bool:
        """Return whether each has an epsilon at which a fit costs no more than planned."""
        prices = [self._price(candidate, plan) for candidate in candidates]
        with suppress(ValueError):
            for price in prices:
                price.check_least()
            return all(price.largest_epsilon(math.inf) > 0 for price in prices)
        return False

    # ---- tables

    def _check_tables(self, trial: Any, steps: PublicSteps) -> None:
        """Raise ValueError where the user's own table gives something else than it does as read."""
        try:
            for table in reversed(self.tables):
                if np.shape(trial.predict(table)) != (len(table),):
                    raise ValueError(f"{type(trial).__name__} must predict one value per row.")
        except (TypeError, ValueError) as error:
            if not steps.before:
                raise
            raise ValueError(
                f"The pipeline, fitted to numbers as float64, fails on a table with the dtypes of "
                f"X: {error} Convert the columns first, as with X.astype(float)."
            ) from error
        unfitted = steps_before(trial)
        if not steps.before or any(alike(unfitted, known) for known in self._checked):
            return
        (a, good), (b, also_good) = (steps(table) for table in self.tables)
        same = np.allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)
        if not (same and np.array_equal(good, also_good)):
            raise ValueError(
                "Convert the columns of X first, numbers to float64 and categories to the types "
                "that the schema lists: the steps before the learner treat X's own dtypes in "
                "another way, and the search reads tables in these types."
            )
        self._checked.append(unfitted)


def _with(candidates: list[Any], name: str, value: Any) -> list[Any]:
    return [clone(candidate).set_params(**{name: value}) for candidate in candidates]


def _refusal(failed: Failed) -> Exception:
    """Return an error that names all candidates that failed, and why."""
    if not any(params for params, _ in failed):
        return failed[0][1]
    reasons: dict[str, list[Params]] = {}
    for params, error in failed:
        reasons.setdefault(str(error), []).append(params)
    told = [
        f"A search over param_distributions can draw {_shown(some)}, which fails on public rows: "
        f"{reason}"
        for reason, some in reasons.items()
    ]
    return ValueError(
        "\n".join(told) + " Take it out, so that no search fails by chance; nothing was charged."
    )


def _shown(some: list[Params]) -> str:
    more = f" and {len(some) - _MOST_SHOWN} others" if len(some) > _MOST_SHOWN else ""
    return ", ".join(repr(params) for params in some[:_MOST_SHOWN]) + more


class _Price:
    """What a candidate costs, by its epsilon.

    Most mechanisms take the plan's. Of those that state another cost than they were asked for, as
    objective perturbation does, epsilon is lowered until it fits.

    Parameters
    ----------
    leaf : Leaf
    candidate : estimator
    plan : RunPlan
    public : PublicRows
    """

    def __init__(self, leaf: Leaf, candidate: Any, plan: RunPlan, public: PublicRows):
        self.leaf, self.candidate, self.plan = leaf, candidate, plan
        self.public = PublicSteps.fitted(clone(candidate), public).public

    def affordable(self) -> Any:
        """Return the candidate with an epsilon at which its fit costs no more than planned.

        Raises
        ------
        TooExpensiveError, CurvatureError
            Where there is none.
        ValueError
            If it cannot be fitted, or has no guarantee that the plan can hold.
        """
        return self._with_budget(self.largest_epsilon(_NEAR))

    def check_least(self) -> None:
        """Raise for what costs too much whatever is spent on noise: no fit is made."""
        learner = last_step(self._with_budget(self.plan.epsilon))
        if not isinstance(learner, PricedLearner):
            return
        cost = learner.least_cost(self.public.X, self.public.y, **self.public.points)
        if cost is not None and not self.plan.covers(cost):
            raise TooExpensiveError("It costs more than a run may, whatever its epsilon.")

    def largest_epsilon(self, near: float) -> float:
        """Return an epsilon at which a fit costs no more than planned; some are, `near` times it.

        Raises
        ------
        TooExpensiveError, ValueError
            As `affordable`.
        """
        excess = self._excess(self.plan.epsilon)
        if excess <= 1:
            return self.plan.epsilon
        if not np.isfinite(excess):
            name = type(last_step(self.candidate)).__name__
            raise ValueError(
                f"{name} has a guarantee that does not compare with a run's {self.plan.base!r}: "
                "take a mechanism with Gaussian noise, or set delta=0."
            )
        return self._less(excess, near)

    def _less(self, excess: float, near: float) -> float:
        """Lower epsilon until the candidate fits, and not much further: costs grow with it.

        A part of them may not: a row's curvature, of objective perturbation. So steps grow, and
        below some epsilon the estimator refuses.
        """
        fits, low, high, power = 0.0, 0.0, self.plan.epsilon, 1.0
        for _ in range(_MOST_FITS):
            if low:
                epsilon = float(np.sqrt(low * high))
            else:
                # Not a power of excess, which may overflow.
                epsilon = high * float(np.exp(-power * np.log(excess) - 1e-4))
                power *= 2
            try:
                found = self._excess(epsilon)
            except ValueError:
                low = epsilon
                continue
            if found <= 1:
                fits = low = epsilon
            else:
                excess, high = found, epsilon
            if fits and high < near * fits:
                return fits
        if not fits:
            raise TooExpensiveError(f"It costs at least {excess:.3g} times what a run may.")
        return fits

    def _excess(self, epsilon: float) -> float:
        learner = last_step(self._with_budget(epsilon))
        data = self.public.X, self.public.y
        if isinstance(learner, PricedLearner):
            return self.plan.excess(learner.planned_cost(*data, **self.public.points))
        return self.plan.excess(cost_of(learner.fit(*data, **self.public.fit_params)))

    def _with_budget(self, epsilon: float) -> Any:
        budget = {"epsilon": epsilon, "delta": self.plan.delta}
        named = {f"{self.leaf.budget}{name}": value for name, value in budget.items()}
        return clone(self.candidate).set_params(**named)


def _rounded_up(value: float) -> float:
    """Return two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit) * unit:.2g}")


# ---- what cannot be the result of a search


def _check_learner(step: Any, adjacency: str, bound: Any) -> None:
    name = type(step).__name__
    if getattr(step, "holds_private_data", False):
        raise ValueError(
            f"{name} keeps private rows to answer from, and cannot be the result of a search; take "
            "a TDDL or TDIL learner, which releases a predictor."
        )
    if step.privacy_.adjacency != adjacency:
        raise ValueError(
            f"{name} claims {step.privacy_.adjacency!r} with adjacency={adjacency!r}; set the "
            "search's adjacency to what it claims."
        )
    if step.privacy_.unit != unit_of(bound):
        raise ValueError(
            f"{name} claims to protect {step.privacy_.unit}, whatever its max_rows_per_group."
        )


def _check_steps(candidate: Any, rehearsal: Rehearsal) -> None:
    """Raise ValueError for steps that would learn of rows what public ones cannot tell."""
    learner = last_step(candidate)
    X = rehearsal.public.X
    for step in (step for steps in steps_before(candidate) for _, step in steps):
        X = _without_labels(step, X, rehearsal.public.y)
    for step, columns in meetings(candidate, rehearsal.schema):
        if step is not learner and _learns(step, columns, rehearsal):
            raise ValueError(
                f"{type(step).__name__} learns from rows, and a search must not show it private "
                "ones. Put PublicVectorizer(schema) before it, or in its place. Or fit it to "
                "public rows of your own, and wrap it in FrozenEstimator."
            )


def _without_labels(step: Any, X: Any, y: NDArray) -> Any:
    """Return what a step makes of public rows; raise ValueError if it needs their labels."""
    if step is None or isinstance(step, str):
        return X
    found = clone(step).fit(X, y).transform(X)
    try:
        clone(step).fit(X, None)
    except Exception as error:
        raise ValueError(
            f"Leave out {type(step).__name__}: it learns from labels, and a search must not show "
            "it private ones."
        ) from error
    return found


def _learns(step: Any, columns: list[int], rehearsal: Rehearsal) -> bool:
    """Return whether a step makes something else of rows once it has met others."""
    if isinstance(step, Pipeline | ColumnTransformer | FeatureUnion | str | None):
        return False
    tables = [rehearsal.public.X, rehearsal.tables[1]]
    first, second = (_safe_indexing(table, columns, axis=1) for table in tables)
    return _differ([clone(step).fit(X, None) for X in (first, second)], first)


def _differ(fitted: list[Any], X: Any) -> bool:
    try:
        found = [one.transform(X) for one in fitted]
    except Exception:  # of missing values, say
        return False
    first, second = (np.asarray(X.toarray() if issparse(X) else X) for X in found)
    numeric = first.dtype.kind == "f" == second.dtype.kind
    return not np.array_equal(first, second, equal_nan=numeric)
