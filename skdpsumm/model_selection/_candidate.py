"""A base run: one candidate, tried on public rows, fitted to private ones, scored on others.

A candidate is an estimator with the parameters of one trial. Its last step, the learner, is the
only one that reads private rows. The steps before it in a pipeline are on a short list. They learn
nothing from rows, and map each row by itself: a private row must not move what another row becomes,
not by a last bit (see `features._row_alone`).

*The table as all candidates meet it.* A row must not decide how another one is read: one that is
missing makes floats of a column of integers, a name makes objects of it. So every cell is read by
itself, through the schema, and written down in a type that the schema alone decides: float64, or
objects for words. Without a schema all cells are finite numbers, in float64.

*What a search and its base runs cost* is in `plan_runs`; the theorem on the best of a random number
of private runs is in `skdpsumm.privacy._best_of`.

*The score* is bounded per row, summed over what is held out, and made private. What such scores can
tell apart, and what a plain fit would have had, is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Binarizer, PolynomialFeatures
from sklearn.utils.validation import has_fit_parameter

from .._computing import silence
from ..features._row_alone import map_rows
from ..privacy import GaussianDP, PrivacyGuarantee, PureDP, gdp_mu
from ..privacy._best_of import StoppingLaw
from ..privacy._mechanisms import Mechanism, gdp_epsilon
from ..privacy._noise import (
    RESERVE,
    Block,
    IntegerNoise,
    current_seed,
    drawing_from,
    nominal_mechanism,
)
from ..privacy._objective import CurvatureError
from ..schema._columns import Categorical, Date, Numeric
from ..schema._groups import Groups, label_bytes
from ..schema._reading import ReadRows, rows_of, tables_without_rows
from ..schema._schema import TableSchema, as_schema, stack_columns, stratified
from ..schema._vectorizer import PublicVectorizer

# Solvers stop within less than this part of a root.
_DISTANCE_FROM_ROOT = 1e-9
# The part of the reserve that `IntegerNoise` takes at most, and a little more.
_SHARE_OF_RESERVE = 2.0**-20 * (1 + 1e-6)
# The choice is mostly noise if it tells apart no less than this part of what scores can differ by.
DROWNED_SHARE_OF_SIZE = 0.1
# A row's score is rounded to half of the bounds' length, divided by this.
_STEPS_OF_SCORE = 2**20

ETAS = {"logarithmic": 0.0, "geometric": 1.0}


def stopping(distribution: str | float, mean: float) -> StoppingLaw:
    """Return the law of a name, or of eta."""
    eta = ETAS[distribution] if isinstance(distribution, str) else float(distribution)
    return StoppingLaw(eta, float(mean))


# ---- what one base run may cost, so that the whole search costs epsilon and delta


@dataclass(frozen=True)
class RunPlan:
    """The budget of a base run: of its fit, and of its score, which read different rows.

    Attributes
    ----------
    epsilon, delta : float
        To calibrate the fit and the score to.
    base : Mechanism
        What either may cost at most: `PureDP`, or `GaussianDP` with its slack.
    total : Mechanism
        What the search costs.
    """

    epsilon: float
    delta: float
    base: Mechanism
    total: Mechanism

    def excess(self, cost: Mechanism) -> float:
        """Return how many times the planned cost this is; infinite where they do not compare."""
        if self.base.unprotected:
            return 0.0
        planned, paid = self.base.price("gdp"), cost.price("gdp")
        if planned is None or paid is None:
            return math.inf
        if math.isfinite(planned.pure):
            return paid.pure / planned.pure
        if paid.log_ratio > planned.log_ratio or paid.tail > planned.tail:
            return math.inf
        return math.sqrt(paid.square / planned.square)

    def epsilon_of_fit(self, holdout: float, delta: float) -> float:
        """Return the epsilon of one fit to all rows that is as noisy, for its rows, as a run is.

        A run has a part of the rows, and its noise is larger by what K costs. Sums of rows grow
        with their number: fewer rows are as bad as more noise.
        """
        if isinstance(self.base, GaussianDP):
            return GaussianDP(self.base.mu * (1 - holdout)).epsilon(delta)
        return self.epsilon * (1 - holdout)


@lru_cache(maxsize=128)
def plan_runs(law: StoppingLaw, epsilon: float, delta: float) -> RunPlan:
    """Return the largest budget of base runs whose search is (epsilon, delta)-DP."""
    if math.isinf(epsilon):
        lost = nominal_mechanism(epsilon, delta)
        return RunPlan(epsilon, delta, lost, lost)
    plan = _plan_pure(law, epsilon) if delta == 0 else _plan_gaussian(law, epsilon, delta)
    if not plan.total.epsilon(delta) <= epsilon * (1 + 1e-12):  # whatever the solvers did
        raise ArithmeticError(
            f"No budget of one run was found for epsilon={epsilon!r}; try another epsilon."
        )
    return plan


def _plan_pure(law: StoppingLaw, epsilon: float) -> RunPlan:
    def excess(log_part: float) -> float:
        return law.price(PureDP(epsilon * math.exp(log_part))).epsilon(0.0) / epsilon - 1

    part = math.exp(brentq(excess, -60.0, 0.0, xtol=1e-14)) * (1 - _DISTANCE_FROM_ROOT)
    base = PureDP(epsilon * part)
    # Twice: the state of the claim is the user's number, and no float above it.
    total = PureDP(min(epsilon, law.price(base).epsilon(0.0)))
    return RunPlan(base.epsilon0, 0.0, PureDP(base.epsilon0 * (1 + 1e-12)), total)


def _plan_gaussian(law: StoppingLaw, epsilon: float, delta: float) -> RunPlan:
    delta_of_run = delta / (16 * law.mean)
    tail = RESERVE * delta_of_run * _SHARE_OF_RESERVE

    scale = min(epsilon, 1.0)
    # A ledger has room for some sixty such searches.
    room = RESERVE * scale / 64 / (law.slack(1e-9, 0.0)[0] / 1e-9)
    log_ratio = max(room, RESERVE * scale * _SHARE_OF_RESERVE)

    def excess(log_mu: float) -> float:
        total = law.price(GaussianDP(math.exp(log_mu), log_ratio, tail))
        return math.log(max(total.delta(epsilon), 1e-300) / delta)

    most = math.log(gdp_mu(epsilon, delta))
    mu = math.exp(brentq(excess, most - 30.0, most, xtol=1e-12)) * (1 - 1e-8)
    ideal = gdp_epsilon(mu, delta_of_run * (1 - RESERVE)) / (1 - RESERVE)
    found = GaussianDP(mu * (1 + _DISTANCE_FROM_ROOT), log_ratio, tail)
    return RunPlan(ideal * (1 - 1e-11), delta_of_run, found, law.price(found))


@dataclass(frozen=True)
class TableForm:
    """The names of a table, and the schema through which it is read.

    Parameters
    ----------
    like : array or frame of shape (0, d)
        The user's table, without its rows.
    schema : TableSchema
        The schema of the columns that are read, as `TableSchema.for_table` returns it. All columns
        are numbers where none was given.
    positions : list of int
        Where these columns stand in the table.
    """

    like: Any
    schema: TableSchema
    positions: list[int]

    @classmethod
    def of(cls, like: Any, schema: TableSchema | None, names: list[str] | None) -> TableForm:
        """Return the form of a table without rows.

        Raises
        ------
        ValueError
            For a schema of another table.
        """
        if schema is None:
            schema, names = TableSchema(Numeric()), None
        table = like.shape[1], names
        return cls(like, schema.for_table(*table), schema.positions(*table))

    def read(self, cells: Any) -> Any:
        """Return the table that holds what the schema reads of cells: a frame for a frame.

        Parameters
        ----------
        cells : ndarray or Table
            The columns of `positions`, as `validate_table` returns them.

        Raises
        ------
        ValueError
            For a cell that the schema does not take. The message tells no value.
        """
        every = range(self.schema.n_columns)
        return self._table([self.schema.decode(j, self.schema.read(cells, j)) for j in every])

    def public_rows(self, n_least: int) -> Any:
        """Return public rows that fill ranges, or [0, 1] without one, and lists evenly."""
        columns = self.schema.columns
        n_codes = [c.n_codes for c in columns if isinstance(c, Categorical)]
        # Candidates are tried on 20 public rows at least, and on each category twice.
        m = max(20, n_least, 2 * max(n_codes, default=0))
        rng = np.random.RandomState(0)
        return self._table([_public_cells(c, stratified(m, rng)) for c in columns])

    def _table(self, columns: list[NDArray]) -> Any:
        """Return a table of these columns, and zeros for those that the schema leaves out."""
        parts = [np.zeros(len(columns[0]))] * self.like.shape[1]
        for place, column in zip(self.positions, columns, strict=True):
            parts[place] = column
        if not hasattr(self.like, "columns"):
            return stack_columns(parts)
        named = list(zip(self.like.columns, parts, strict=True))
        if hasattr(self.like, "iloc"):  # pandas would make strings of objects, and lose None
            series = type(self.like.iloc[:, 0])
            kept = {name: None if p.dtype.kind == "M" else p.dtype for name, p in named}
            return type(self.like)({n: series(p, dtype=kept[n]) for n, p in named})
        return type(self.like)({n: p.tolist() if p.dtype == object else p for n, p in named})


def _public_cells(column: Any, u: NDArray[np.float64]) -> NDArray:
    """Return a cell for each number in [0, 1]: that number where the column has no range."""
    cells = u if isinstance(column, Numeric) and column.bounds is None else column.sample(u)
    return column.decode(cells) if isinstance(column, Date) else cells


@dataclass(frozen=True)
class PublicRows:
    """Rows that learn nothing from the private ones.

    Attributes
    ----------
    X : array or frame of shape (m, d)
    y : ndarray of shape (m,)
    X_public : array-like or None
        What the user gave for `fit`.
    groups : ndarray or None
        Whose each row is, where groups are protected: each of another one.
    """

    X: Any
    y: NDArray
    X_public: Any = None
    groups: Any = None

    @property
    def points(self) -> dict[str, Any]:
        """The public points, as a parameter of `fit`."""
        return {} if self.X_public is None else {"X_public": self.X_public}

    @classmethod
    def like(
        cls, form: TableForm, classes: Any, X_public: Any, *, grouped: bool = False
    ) -> PublicRows:
        """Return rows that fill what is known of the columns, with labels of all classes."""
        X = form.public_rows(0 if classes is None else 3 * len(classes))
        m = len(X)
        y = np.random.default_rng(2).random(m) if classes is None else np.resize(classes, m)
        return cls(X, y, X_public, np.arange(m) if grouped else None)

    def through(self, step: Any) -> PublicRows:
        """Return what a fitted step makes of them."""
        points = None if self.X_public is None else step.transform(self.X_public)
        return PublicRows(step.transform(self.X), self.y, points, self.groups)


# Parameters that the search sets in every run.
OWNED = (*("epsilon", "delta", "adjacency", "ledger"), *("max_rows_per_group", "classes"))
_ON_BUDGET = (
    " It is the price of the whole search, and nothing to tune: the largest one always fits best. "
    "`expected_noise(n_samples)` tells what each is worth, before anything is charged."
)
# Steps that a pipeline may have before the learner: exactly these types, for a subclass may do
# anything. Their fit looks at no row.
STEPS = (PublicVectorizer, Binarizer, PolynomialFeatures, RBFSampler)


@dataclass(frozen=True)
class Leaf:
    """The one step of an estimator that reads private rows, and where its budget is set.

    Attributes
    ----------
    path : str
        What comes before the names of the learner's parameters: "" or "name__".
    budget : str
        What comes before "epsilon": the path, or that of the learner's `release`.
    """

    path: str
    budget: str

    @classmethod
    def of(cls, estimator: Any) -> Leaf:
        """Find the step.

        Raises
        ------
        TypeError
            If it is a class.
        ValueError
            If there is none whose budget could be set.
        """
        step = last_step(estimator)
        if isinstance(step, type):
            raise TypeError(f"Give an instance, such as {step.__name__}(), and not the class.")
        path = "" if step is estimator else f"{estimator.steps[-1][0]}__"
        params = step.get_params(deep=False) if hasattr(step, "get_params") else {}
        # A model has the budget of its default sketcher; a sketcher of your own has its own.
        budget = f"{path}release__" if hasattr(params.get("release"), "get_params") else path
        if not {f"{budget}{name}" for name in OWNED[:4]} <= set(_params(estimator)):
            raise ValueError(
                f"{type(step).__name__} has no epsilon to set: the search takes a private learner "
                "of skdpsumm (TDILClassifier, M2MRegressor, ...), or a Pipeline that ends in one."
            )
        return cls(path, budget)

    def settings(
        self, estimator: Any, classes: Any, adjacency: str, bound: Any = None
    ) -> dict[str, Any]:
        """Return the parameters that are the same in all runs, but for epsilon and delta.

        Parameters
        ----------
        estimator : estimator
        classes : ndarray or None
        adjacency : str
        bound : int, "average" or None
            `max_rows_per_group` of the search.

        Raises
        ------
        ValueError
            For an estimator that bounds groups otherwise, or cannot.
        """
        given = _params(estimator)
        values = {"adjacency": adjacency, "ledger": None}
        values = {f"{self.budget}{name}": value for name, value in values.items()}
        if classes is not None and f"{self.path}classes" in given:
            values[f"{self.path}classes"] = classes
        name = f"{self.budget}max_rows_per_group"
        if given.get(name) not in (None, bound):
            raise ValueError(
                f"The estimator has {name}={given[name]!r} of its own, and the search {bound!r}: "
                "set max_rows_per_group on PrivateSearchCV, and None on the estimator."
            )
        if name in given:
            values[name] = bound
        step = last_step(estimator)
        if bound is not None and not (name in given and has_fit_parameter(step, "groups")):
            raise ValueError(
                f"{type(step).__name__} takes no groups in fit, so that a search with "
                f"max_rows_per_group={bound!r} cannot protect them: take a learner that has "
                "max_rows_per_group, such as TDILClassifier, or set it to None on the search, to "
                "protect single rows."
            )
        return values

    def check(self, estimator: Any, names: set[str]) -> None:
        """Raise ValueError where the user has set what the search sets."""
        owned = {f"{at}{name}" for at in {self.budget, self.path} for name in OWNED}
        taken = sorted(names & owned)
        if taken:
            name = taken[0].split("__")[-1]
            owner = "the estimator" if name == "classes" else "PrivateSearchCV"
            price = _ON_BUDGET if name in OWNED[:2] else ""
            raise ValueError(
                f"param_distributions holds {taken[0]!r}, which the search sets itself: give one "
                f"value to {owner}.{price}"
            )
        given = _params(estimator).items()
        if any(k.split("__")[-1] == "ledger" and v is not None for k, v in given):
            raise ValueError(
                "The estimator has a ledger of its own; give it to PrivateSearchCV, which makes "
                "one charge for the whole search, and set ledger=None on the estimator."
            )


def _params(estimator: Any) -> dict[str, Any]:
    return estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}


def last_step(estimator: Any) -> Any:
    """Return the step that reads private rows: the learner."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


# ---- what a candidate may be


def schemas_of(estimator: Any) -> list[TableSchema | None]:
    """Return the schema through which an estimator reads the table, None for finite numbers.

    It is that of the first step, which meets the table: of the learner, or a `PublicVectorizer`.
    The schemas of later steps follow.
    """
    steps = [*_steps_before(estimator), last_step(estimator)]
    first, *later = (as_schema(getattr(step, "schema", None)) for step in steps)
    return [first, *(schema for schema in later if schema is not None)]


def check_steps(estimator: Any) -> None:
    """Raise ValueError for a pipeline with a step that is not on the short list."""
    for step in _steps_before(estimator):
        if type(step) is RBFSampler and isinstance(step.gamma, str):
            raise ValueError(
                f"Give RBFSampler a number as gamma: {step.gamma!r} learns it from rows, and a "
                "search must not show it private ones."
            )
        if type(step) not in STEPS:
            raise ValueError(
                f"A search takes no {type(step).__name__} before the learner, because it may look "
                "at other rows or learn from them. Put PublicVectorizer(schema) in its place, "
                "which reads words, numbers and missing values. Or give it to the learner as "
                f"kernel. Steps may be {', '.join(kind.__name__ for kind in STEPS)}."
            )


def _steps_before(estimator: Any) -> list[Any]:
    """Return the steps before the learner that do something."""
    steps = [step for _, step in estimator.steps[:-1]] if isinstance(estimator, Pipeline) else []
    return [step for step in steps if not (step is None or step == "passthrough")]


# Parameters by which a fit would tell of itself, and values with which it does not: to the screen,
# to the disk, or in another ledger.
_QUIET = {"verbose": False, "memory": None, "ledger": None}


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone with public seeds where there were none, the same in every run, and quiet."""
    given = _params(estimator)
    missing = {k: seed for k, v in given.items() if k.endswith("random_state") and v is None}
    last = {k: k.split("__")[-1] for k in given}
    loud = [k for k in given if last[k] in _QUIET and given[k] not in (None, False)]
    return clone(estimator).set_params(**missing, **{k: _QUIET[last[k]] for k in loud})


def hides_simulation(learner: Any) -> bool:
    """Return whether a learner began a simulation in its own `fit`, of which no search tells."""
    return learner.privacy_.simulated and current_seed() is None


def set_claim(step: Any, privacy: PrivacyGuarantee) -> None:
    """Have the released step, its sketcher and its sketch claim what the whole search costs."""
    told = getattr(step.privacy_, "noise", "")  # which is that of this one release
    step.privacy_ = replace(privacy, noise=told)
    owners = [step]
    if hasattr(step, "sketcher_"):
        step.sketcher_.privacy_ = privacy
        owners.append(step.sketcher_)
    for owner in owners:
        with suppress(AttributeError):  # it has none, or its sketcher's
            owner.sketch_ = replace(owner.sketch_, privacy=privacy)


# ---- what a search chooses from: lists, and distributions


class Choices:
    """Candidates by their parameters.

    Parameters
    ----------
    given : dict or list of dict
        As `ParameterSampler` takes.

    Raises
    ------
    ValueError, TypeError
        For values that are no lists and no distributions.
    """

    def __init__(self, given: Any):
        self._given = [given] if isinstance(given, dict) else given
        ParameterSampler(self._given, 1)  # which raises
        self.names = {name for one in self._given for name in one}
        values = [value for one in self._given for value in one.values()]
        self._is_finite = not any(hasattr(value, "rvs") for value in values)

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the parameters of one trial, drawn from the secret source."""
        words = rng.integers(2**32, size=8, dtype=np.uint32)
        source = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(words.tolist())))
        (params,) = ParameterSampler(self._given, 1, random_state=source)
        return params

    def to_try(self) -> Iterator[dict[str, Any]]:
        """Yield all parameters of a grid of up to 100, else some that never change."""
        n = 10  # of distributions
        if self._is_finite:
            n = min(100, len(ParameterGrid(self._given)))
        yield from ParameterSampler(self._given, n, random_state=0)


def alike(a: Any, b: Any) -> bool:
    """Return whether two parameters are surely the same: they are, to the bit, or one object."""
    if a is b:
        return True
    try:
        return bool(joblib.hash(a, hash_name="sha1") == joblib.hash(b, hash_name="sha1"))
    except Exception:  # what cannot be pickled, such as a lambda
        return False


# ---- what stands before the learner


@dataclass(frozen=True)
class PublicSteps:
    """The steps before a learner, fitted to public rows.

    Parameters
    ----------
    before : list of fitted transformers
    public : PublicRows
        The public rows as they are after all steps.
    """

    before: list[Any]
    public: PublicRows

    @classmethod
    def fitted(cls, estimator: Any, public: PublicRows) -> PublicSteps:
        """Fit the steps before the last one of an estimator to public rows, in place."""
        before = _steps_before(estimator)
        for step in before:
            public = public.through(step.fit(public.X, None))
        return cls(before, public)

    def fit_public(self, estimator: Any) -> Any:
        """Fit the last step of an estimator to public rows; return it."""
        return self.fit_learner(estimator, self.public.X, self.public.y, self.public.groups)

    def fit_learner(self, estimator: Any, X: Any, y: NDArray, groups: Any = None) -> Any:
        """Fit the last step of an estimator to rows that these steps have mapped; return it.

        Parameters
        ----------
        estimator : estimator
        X, y : array or frame of shape (n, p), ndarray of shape (n,)
        groups : array of shape (n,), default=None
            Whose each row is; None where rows are protected.
        """
        of_groups = {} if groups is None else {"groups": groups}
        return last_step(estimator).fit(X, y, **self.public.points, **of_groups)

    def __call__(self, X: Any) -> tuple[Any, NDArray[np.bool_]]:
        """Map every row by itself; say which of them all steps could take.

        Parameters
        ----------
        X : array or frame of shape (n, d)

        Returns
        -------
        values : ndarray, or frame where the steps return frames, of shape (n, p)
            With zeros for what is not finite, and for rows that a step refuses.
        good : ndarray of bool, shape (n,)
            False for these.
        """
        if not self.before:
            return X, np.ones(len(X), np.bool_)
        like = self.public.X
        values, taken = map_rows(self.before, X, like.shape[1])
        finite = np.isfinite(values)
        values[~finite] = 0.0
        if hasattr(like, "columns"):
            values = type(like)({name: values[:, j] for j, name in enumerate(like.columns)})
        return values, taken & finite.all(axis=1)


# ---- before anything is charged

_TOO_EXPENSIVE = (
    "A row's curvature alone costs more than a run of the search may, whatever its epsilon. Set a "
    "larger regularization, or mechanism='functional', which costs what it is asked to. Or set a "
    "larger epsilon on the search."
)

Params = dict[str, Any]


@dataclass(eq=False, repr=False)
class Rehearsal:
    """All candidates of a search, tried on public rows.

    Parameters
    ----------
    search : PrivateSearchCV
    leaf : Leaf
    plan : RunPlan
    classes : ndarray or None
    seed : int
        The public seed of what has none.
    public : PublicRows
    """

    search: Any
    leaf: Leaf
    plan: RunPlan
    classes: Any
    seed: int
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
        candidate = self._with_settings(self.search.estimator).set_params(
            **clone(params, safe=False)
        )
        return self._with_settings(candidate)

    def _with_settings(self, estimator: Any) -> Any:
        """Return a clone, whose steps may be its own, with all that the search decides."""
        if Leaf.of(estimator) != self.leaf:
            raise ValueError(
                "A candidate in param_distributions reads private rows in another place than the "
                "estimator of the search; give a search of its own to each kind."
            )
        bound = self.search.max_rows_per_group
        own = self.leaf.settings(estimator, self.classes, self.search.adjacency, bound)
        return seeded(estimator, self.seed).set_params(**own)

    def _affordable(self, candidate: Any) -> Any:
        """Return a candidate with an epsilon at which its fit costs no more than planned.

        Most mechanisms cost what they are asked to. Of those that state another cost, as objective
        perturbation does, epsilon is lowered until it fits. Costs grow with it, but for a row's
        curvature: below some epsilon the learner refuses.
        """
        check_steps(candidate)
        if schemas_of(candidate) != schemas_of(self.search.estimator):
            raise ValueError(
                "A search reads the table through one schema, for all candidates. Set schema on "
                "the estimator, and leave it out of param_distributions."
            )
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
        self._check_learner(learner)
        if np.shape(trial.predict(self.public.X)) != (len(self.public.X),):
            raise ValueError(f"{type(trial).__name__} must predict one value per row.")
        return found, self.plan.excess(learner.privacy_.mechanism)

    # ---- what cannot be the result of a search

    def _check_learner(self, step: Any) -> None:
        name = type(step).__name__
        if not isinstance(getattr(step, "privacy_", None), PrivacyGuarantee):
            raise ValueError(
                f"{name} has no privacy_ after fit, so the search has no price: take a private "
                "learner of skdpsumm."
            )
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
        adjacency = self.search.adjacency
        if step.privacy_.adjacency != adjacency:
            raise ValueError(
                f"{name} claims {step.privacy_.adjacency!r} with adjacency={adjacency!r}; set the "
                "search's adjacency to what it claims."
            )
        if step.privacy_.unit != self.search._unit:
            raise ValueError(
                f"{name} claims to protect {step.privacy_.unit}, whatever its max_rows_per_group."
            )


# ---- a base run


@dataclass(frozen=True)
class Table:
    """The private rows, parted by secret coins.

    Attributes
    ----------
    X, y : array or frame of shape (n, d), ndarray of shape (n,)
    held_out : ndarray of bool, shape (n,)
        Which rows are scored; the others are trained on.
    groups : Groups, default=None
        Whose each row is, where groups are protected.
    averages : bool, default=False
        Whether each group counts once in the score, as the mean of its rows.
    """

    X: Any
    y: NDArray
    held_out: NDArray[np.bool_]
    groups: Groups | None = None
    averages: bool = False

    @property
    def scored(self) -> NDArray[np.int64]:
        """The positions of the rows held out."""
        return np.flatnonzero(self.held_out)

    @property
    def counted(self) -> NDArray[np.int64]:
        """Whose each row held out is, 0, 1, ...: its own, or its group's where each counts once."""
        if self.groups is None or not self.averages:
            return np.arange(len(self.scored))
        return np.unique(self.groups.codes[self.scored], return_inverse=True)[1]

    @property
    def n_scores(self) -> int:
        """How many scores are summed: of rows, or of groups that count once."""
        return len(np.unique(self.counted))

    def scored_rows(self, learner: Any, values: Any, good: NDArray[np.bool_]) -> list[Any]:
        """Return the rows held out, as a learner takes them; None for those that are not good.

        Parameters
        ----------
        learner : fitted estimator
            If it can, it reads all rows at once: a frame's rows are slow to read.
        values : array or frame of shape (n, p)
            All rows, as the learner takes them.
        good : ndarray of bool, shape (n,)
        """
        with suppress(Exception):  # a row that cannot be read, which is scored low by itself
            if good[self.scored].all():
                read = ReadRows.of(learner, _rows_of(values, self.scored))
                if read is not None:
                    return [read.row(i) for i in range(len(self.scored))]
        return [_rows_of(values, [i]) if good[i] else None for i in self.scored]


def _rows_of(X: Any, rows: Any) -> Any:
    """Return some rows, of arrays at once: there are many calls for one row."""
    return X[rows] if isinstance(X, np.ndarray) else rows_of(X, rows)


def labels_of(groups: Groups, rows: NDArray[np.int64]) -> NDArray:
    """Return the label of the group of each of some rows, as an array of objects."""
    labels = np.empty(len(rows), object)
    labels[:] = [groups.labels[code] for code in groups.codes[rows].tolist()]
    return labels


def groups_held_out(groups: Groups, chance: float, key: bytes) -> NDArray[np.bool_]:
    """Return whether each row is held out, by a secret coin of its group's: none is cut.

    The coin is a keyed hash of the label: a function of the group and of the key alone, whatever
    other groups there are. Without the key coins of different labels are as good as independent.
    """
    coins = [
        int.from_bytes(
            blake2b(label_bytes(label), key=key, digest_size=7, person=b"hold-out").digest()
        )
        for label in groups.labels
    ]
    return (np.array(coins, np.float64) < chance * 2.0**56)[groups.codes]


@dataclass(frozen=True)
class Result:
    """What a run returns."""

    value: float
    params: dict[str, Any]
    estimator: Any


def run(
    params: dict[str, Any],
    estimator: Any,
    public: PublicRows,
    table: Table,
    score: PrivateScore,
    seeds: list[int | None],
) -> Result:
    """Return the result of one base run; where it fails, that of public rows, scored low.

    It may run in a process of its own, which gets neither the search nor its ledger.
    """
    with silence(), drawing_from(seeds[0]):
        fitted = clone(estimator)
        exact = _fit_and_score(fitted, public, table, score)
        if exact is None:  # nothing of what failed may be left
            fitted, exact = clone(estimator), score.worst(table.n_scores)
            PublicSteps.fitted(fitted, public).fit_public(fitted)
        value = score.release(exact, seeds[1])
    return Result(value, params, fitted)


def _fit_and_score(
    estimator: Any, public: PublicRows, table: Table, score: PrivateScore
) -> int | None:
    """Fit an estimator in place and return its exact score; None if anything fails."""
    try:
        steps = PublicSteps.fitted(estimator, public)
        values, good = steps(table.X)
        train = np.flatnonzero(~table.held_out)
        groups = None if table.groups is None else labels_of(table.groups, train)
        # Coins may have held out all that the table has, and one unit more may not be held out.
        with tables_without_rows():
            learner = steps.fit_learner(estimator, _rows_of(values, train), table.y[train], groups)
        if not score.plan.excess(learner.privacy_.mechanism) <= 1 or hides_simulation(learner):
            return None
        if score.predicts:
            model, rows = learner, table.scored_rows(learner, values, good)
        else:
            model, rows = estimator, [_rows_of(table.X, [i]) for i in table.scored]
        return score.exact(model, rows, table.y[table.scored], table.counted)
    except Exception:  # whatever it is, it must not stop the search
        return None


# ---- the score


RowScore = Callable[[Any, Any, Any], Any]


def _accuracy(estimator: Any, X: Any, y: Any) -> Any:
    return estimator.predict(X) == y


def _neg_absolute_error(estimator: Any, X: Any, y: Any) -> Any:
    return -np.abs(estimator.predict(X) - y)


def _neg_squared_error(estimator: Any, X: Any, y: Any) -> Any:
    return -np.square(estimator.predict(X) - y)


SCORES: dict[str, RowScore] = {
    "accuracy": _accuracy,
    "neg_absolute_error": _neg_absolute_error,
    "neg_squared_error": _neg_squared_error,
}


@dataclass(frozen=True)
class PrivateScore:
    """The sum over rows of (score - middle of the bounds), with integer noise.

    Candidates meet the same rows, so the sum ranks them as the mean would, and no count is needed.
    A row that comes or goes moves the sum by half of the bounds' length at most, a row that is
    replaced by the whole of it; a group of k rows by k times that. Where each group counts once, it
    adds the mean of its rows' scores, rounded once, which is no larger than the largest of them.

    Each row is scored by itself: in a block, the last digits of a prediction can depend on the
    other rows, and a class can hang on them.

    Parameters
    ----------
    row_score : callable
        Takes an estimator, a row of shape (1, d) and its label of shape (1,); higher is better.
    low, high : float
        Public bounds, to which a row's score is clipped. NaN, and an error, count as low.
    adjacency : {"add_remove", "replace_one"}
    plan : RunPlan
    rows_of_unit : int, default=1
        How many scores a row, or a group, adds at most.
    """

    row_score: RowScore
    low: float
    high: float
    adjacency: str
    plan: RunPlan
    rows_of_unit: int = 1

    def __post_init__(self) -> None:
        # Noise beyond 64 bits is refused here, and not once the ledger has paid.
        self._noise  # noqa: B018

    @property
    def _unit(self) -> float:
        return (self.high - self.low) / 2 / _STEPS_OF_SCORE

    @cached_property
    def _noise(self) -> IntegerNoise:
        rows = self.rows_of_unit * (2 if self.adjacency == "replace_one" else 1)
        moved = rows * _STEPS_OF_SCORE
        block = Block(1, moved, moved)
        return IntegerNoise([block], epsilon=self.plan.epsilon, delta=self.plan.delta)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the score."""
        return float(self._noise.std[0]) * self._unit

    def told_apart(self, n_rows: float) -> float:
        """Return by how much mean scores of so many rows must differ to be told apart."""
        # Two standard deviations of the noise on a difference of two scores can be told apart.
        return 2.0 * math.sqrt(2) * self.noise_std / n_rows

    @property
    def rows_to_tell(self) -> float:
        """How many rows are needed for a choice that is not mostly noise."""
        return self.told_apart(1.0) / (DROWNED_SHARE_OF_SIZE * (self.high - self.low))

    def exact(self, estimator: Any, rows: list[Any], y: NDArray, counted: NDArray[np.int64]) -> int:
        """Return the sum over rows, or groups that count once, in grid units: private."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            scores = [self._of_row(estimator, row, y[[i]]) for i, row in enumerate(rows)]
        units = self._on_grid(np.array(scores, np.float64))
        n_rows = np.bincount(counted)
        sums = np.zeros(len(n_rows), np.int64)
        np.add.at(sums, counted, units)  # in whole units, so a group's sum hangs on no other
        return int(np.rint(sums / n_rows).astype(np.int64).sum())

    @property
    def predicts(self) -> bool:
        """Whether nothing but predictions is asked of an estimator."""
        return self.row_score in SCORES.values()

    def _of_row(self, estimator: Any, row: Any, label: NDArray) -> float:
        """Return a row's score; low where it has none, so that no row can stop a run."""
        if row is None:
            return self.low
        try:
            return float(np.ravel(self.row_score(estimator, row, label))[0])
        except Exception:
            return self.low

    def worst(self, n_scores: int) -> int:
        """Return the sum of as many scores that are all low."""
        return -_STEPS_OF_SCORE * n_scores

    def _on_grid(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        clipped = np.clip(np.where(np.isnan(scores), self.low, scores), self.low, self.high)
        steps = (
            np.rint((clipped - self.low) / (self.high - self.low) * (2 * _STEPS_OF_SCORE))
            - _STEPS_OF_SCORE
        )
        return steps.astype(np.int64)

    def release(self, exact: int, seed: int | None) -> float:
        """Return the noisy sum, in units of the score."""
        noisy = self._noise.add_block(0, np.array([exact], np.int64), seed)
        return float(noisy[0]) * self._unit


# ---- what scores can tell apart


@dataclass(frozen=True)
class ChoiceNoise:
    """How much of the choice among candidates is noise; computed from the release alone.

    Attributes
    ----------
    difference : float
        Candidates whose mean scores differ by less were told apart by chance. From above, for the
        number of rows is private: of the released sum it is known how many rows it takes at least.
        Infinite where that is none.
    size : float
        What scores can differ by: the length of `score_bounds`.
    is_drowned : bool
        Whether the choice is mostly noise: `difference` is more than a tenth of `size`.
    is_default : bool
        Whether the best candidate is the estimator as it was given to the search.
    epsilon : float
        Of the search.
    epsilon_of_fit : float
        The epsilon of one fit to all rows that has as much noise for its rows as a run has.
    """

    difference: float
    size: float
    is_drowned: bool
    is_default: bool
    epsilon: float
    epsilon_of_fit: float

    @classmethod
    def of(
        cls, score: PrivateScore, best_sum: float, mean_trials: float, **facts: Any
    ) -> ChoiceNoise:
        """Return what the released sum shows; `facts` are all fields that it does not."""
        size = score.high - score.low
        # The largest of K sums flatters, by this at most, as a rule.
        noise = score.noise_std * (2 + math.sqrt(2 * math.log(max(mean_trials, 1.0))))
        least_rows = (abs(best_sum) - noise) / (size / 2)
        difference = score.told_apart(least_rows) if least_rows > 0 else math.inf
        difference = difference if score.noise_std else 0.0
        drowned = difference > DROWNED_SHARE_OF_SIZE * size
        return cls(difference, size, drowned, **facts)

    def __str__(self) -> str:
        words = f"{self._apart[0].upper()}{self._apart[1:]}; {self._of_fit}"
        if self.is_default:
            words += "; the estimator as it was given is the best: fitted alone it has less noise"
        return f"Mostly noise: {words}" if self.is_drowned else words

    @property
    def advice(self) -> str:
        """What to say where the choice is mostly noise."""
        return (
            "Fit the estimator as it is, which will probably be better, or give the search more "
            "rows: `expected_noise(n_samples)` tells how many, before anything is charged. The "
            f"choice among candidates is mostly noise: {self._apart}, and {self._of_fit}."
        )

    @property
    def _apart(self) -> str:
        if self.difference < self.size:
            closer = f"scores closer than {self.difference:.2g}, of a range of {self.size:.4g},"
            return f"{closer} cannot be told apart"
        return "no two candidates can be told apart"

    @property
    def _of_fit(self) -> str:
        return (
            f"the search leaves the model epsilon={self.epsilon_of_fit:.2g} of {self.epsilon:.4g}"
        )
