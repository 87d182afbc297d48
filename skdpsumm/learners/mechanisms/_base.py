"""What mechanisms of kernel learners state, and what interactive ones remember."""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..._computing import warn_caller
from ..._linear_systems import Floats
from ..._sklearn import check_params
from ...privacy._mechanisms import Mechanism, register
from ...schema._sparse import SparseRows
from ..erm._kernel_space import KernelSpace, SpanSpace
from ..erm._problem import Minimizer, Problem, Space, Terms
from ._planning import Curvature, ScoreNoise, noise_multiplier

# Times the least Lambda of explicit features: all of a kernel's space has more to overfit with.
# Without noise 1.5 had an AUC of 0.854 on 2,500 rows of ACS, and 0.855 on 5,000 of Covertype; 2 had
# 0.857 and 0.853, and 2.5 had 0.859 and 0.851, beside SVC's 0.864 and 0.862 (standardised).
_MORE_OF_KERNELS = 2.0


class Plan:
    """A mechanism whose noise is fixed, before anything private is minimised.

    Subclasses set `space`, `terms`, `mechanism` and `score_noise`. They have `release`, or, for
    learners that answer as they are asked, `open`.

    Attributes
    ----------
    space : Space
        The space in which the minimiser is sought.
    terms : Terms
        What is public about the problem.
    mechanism : Mechanism
        The cost, as the ledger is charged.
    score_noise : float
        Standard deviation of the noise on one score of a row with |phi| = R, in the units of the
        scores: 1 is a margin, or half the interval of y. It is public, 0 without noise, and NaN if
        the plan does not say.
    idealised : bool
        Whether the noise is in floating point.
    noise_is_exact : bool
        Whether `score_noise` holds for any data. The noise then moves the scores of rows with
        features phi by a Gaussian (or radial) vector of covariance ``(score_noise / R)^2 phi
        phi^T``. Otherwise `score_noise` is an upper bound, and rows, or what is made of answers,
        may bring the noise below it.
    rows_divide_noise : bool
        Whether the noise falls as rows are added: see `expected_score_noise`.
    sigma : float
        The error from which on an answer is corrected; 0 if all answers are.
    n_counted : float or None
        The number of rows, if `release` publishes it, with noise or because it is public.
    y_centre, y_scale : float
        What scores of numbers are counted from, and their unit, in halves of the interval of y.
        A plan that finds out where y lies sets them as it releases.
    """

    space: Any
    terms: Terms
    mechanism: Mechanism
    score_noise: float = math.nan
    idealised: bool = False
    noise_is_exact: ClassVar[bool] = False
    rows_divide_noise: ClassVar[bool] = False
    sigma: float = 0.0
    n_counted: float | None = None
    y_centre: float = 0.0
    y_scale: float = 1.0

    @property
    def sensitivity(self) -> float:
        """How far what is released of two neighbours can be apart before the noise."""
        return self.terms.sensitivity

    def check(self, problem: Problem) -> None:
        """Raise ValueError if the fit cannot succeed. It is called before the charge."""
        problem.check()

    def expected_score_noise(self, curvature: Curvature, n_samples: float) -> ScoreNoise:
        """Return what `score_noise` comes to for so many rows of an expected shape.

        Parameters
        ----------
        curvature : Curvature
            What is expected of a row, from public numbers.
        n_samples : float
        """
        return ScoreNoise(self.score_noise, np.full(len(curvature.sizes), self.score_noise))

    def release(self, problem: Problem) -> Minimizer:
        """Minimise, and return what is released."""
        raise NotImplementedError

    def open(self, problem: Problem) -> AnsweredQueries:
        """Minimise, and return what answers queries."""
        raise NotImplementedError


class LearnerMechanism(BaseEstimator):
    """How a kernel learner releases its minimiser: plain parameters, and public facts.

    To add one, write a subclass with a `name`; learners of the kinds that it lists then take it,
    by that name or as an object.

    Attributes
    ----------
    name : str
        The string that stands for it with its default parameters.
    learners : tuple of str
        Which learners have it: "TDIL", "TDDL", "PINP".
    is_pure : bool
        Whether it has a guarantee with ``delta=0``.
    needs_features : bool
        Whether it works on explicit features alone, and on no kernel.
    takes_groups : bool
        Whether all that it asks of neighbours is that their minimisers are no more than
        `Terms.sensitivity` apart: then it holds for groups of rows as well.
    takes_sparse : bool
        Whether it takes sparse rows, where features are explicit.
    pays_for_curvature : bool
        Whether a row's curvature costs privacy: then smoother losses are the default, and the
        ledger counts more than epsilon where Lambda is small.
    spans_points : bool
        Whether it seeks a kernel's minimiser in the span of public points, as weights.
    default_losses : tuple of two str
        What ``loss="auto"`` of classifiers is, for two classes and for more.
    n_landmarks : int, "auto" or None
        How many landmarks to draw for a kernel where nobody has given public points.
    candidates : array-like or None
        Public points that the mechanism brings itself.
    """

    name: ClassVar[str]
    learners: ClassVar[tuple[str, ...]]
    is_pure: ClassVar[bool] = True
    needs_features: ClassVar[bool] = False
    takes_groups: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    pays_for_curvature: ClassVar[bool] = False
    spans_points: ClassVar[bool] = False
    default_losses: ClassVar[tuple[str, str]] = ("huberized_hinge", "huberized_hinge")
    n_landmarks: Any = None
    candidates: Any = None
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _named: ClassVar[dict[str, type[LearnerMechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            register(LearnerMechanism._named, cls.name, cls)

    def count_landmarks(self, n_numeric: int, delta: float) -> int:
        """Return how many landmarks to draw, by the number of numeric columns and delta."""
        return int(self.n_landmarks)

    def narrowed(self, space: Space, public: Any, *, is_pure: bool) -> tuple[Space, Any]:
        """Return the space in which the minimiser is sought, and the public points left to use.

        Mechanisms that work on weights take the span of the points: for a kernel, and for pure
        noise on explicit features, which costs more than that on their values at the points.

        Parameters
        ----------
        space : Space
            The space of the kernel, or of the features.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.
        is_pure : bool
            Whether the guarantee is pure, so that noise grows with the dimension.

        Returns
        -------
        tuple of Space, and ndarray or None
        """
        is_spanned = self.spans_points and (is_pure or isinstance(space, KernelSpace))
        if is_spanned and public is not None:
            return SpanSpace(space, public, leading=is_pure), None
        return space, public

    @abstractmethod
    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        """Return the plan of a fit, with its noise calibrated.

        Parameters
        ----------
        space : Space
            The space in which the minimiser is sought.
        terms : Terms
            What is public about the problem: loss, Lambda, sensitivity and budget.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.

        Raises
        ------
        ValueError
            If there is no plan for these terms.
        """

    def default_regularization(
        self, space: Space, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        """Return the public Lambda of ``regularization="auto"``: that of "functional".

        Parameters
        ----------
        space : Space
            The space in which the minimiser is sought.
        terms : Terms
            What is public about the problem, with any Lambda.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.
        charged : bool
            Whether a ledger counts the fit.
        """
        return public_regularization(space, terms, 1 if public is None else len(public))

    def price_advice(self, epsilon: float) -> str:
        """Return why a ledger counts more than epsilon, and what to do; "" if it never does."""
        return ""


def public_regularization(space: Space, terms: Terms, n_points: int) -> float:
    """Return Lambda of the sum form at which noise is a fixed part of a margin, or of y.

    The noise on a prediction has standard deviation ``L R^2 / Lambda`` times the number of rows
    that come and go between neighbours, and a number that the budget alone decides (1 / mu of
    Gaussian noise), however many rows there are. Scores have a public unit: 1 is the margin of a
    class, or half the interval of y. So Lambda may be chosen for the noise to be a fixed part of
    it, and no data touch it. The study behind the parts is in docs/learners.md.

    Parameters
    ----------
    space : Space
    terms : Terms
        For all but their Lambda.
    n_points : int
        Public points at which a kernel's function is released: with ``delta=0`` they set the noise.
    """
    dimension = n_points if space.n_features is None else space.n_features
    n_coordinates = terms.n_scores * dimension
    per_sensitivity = noise_multiplier(terms.epsilon, terms.delta, n_coordinates)
    noise = terms.n_moved * terms.loss.lipschitz * space.radius**2 * per_sensitivity
    more = _MORE_OF_KERNELS if space.n_features is None else 1.0
    least = more * terms.loss.least_regularization * space.radius**2
    return max(noise / terms.loss.noise_part, least)


def mechanisms_of(kind: str) -> dict[str, type[LearnerMechanism]]:
    """Return the mechanisms of a kind of learner ("TDIL", "TDDL", "PINP"), by their names."""
    return {name: one for name, one in LearnerMechanism._named.items() if kind in one.learners}


def check_mechanism(learner: Any) -> None:
    """Raise ValueError for a mechanism that a learner cannot use."""
    known, given, class_name = (
        mechanisms_of(learner._kind),
        learner.mechanism,
        type(learner).__name__,
    )
    names = {"auto", *known}
    is_name = isinstance(given, str) and given in names
    if not is_name and (isinstance(given, str) or learner._kind not in given.learners):
        objects = [f"{one.__name__}()" for one in known.values() if one().get_params()]
        raise ValueError(
            f"The 'mechanism' parameter of {class_name} must be a str among {sorted(names)} or one "
            f"of {', '.join(objects)}. Got {given!r} instead."
        )
    mechanism = learner._chosen_mechanism()
    check_params(mechanism)
    if learner.delta == 0 and learner.epsilon != np.inf and not mechanism.is_pure:
        pure = sorted(name for name, one in known.items() if one.is_pure)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} has no guarantee with delta=0; set "
            f"delta > 0, or take one of {pure}."
        )
    if mechanism.needs_features and not (learner._is_explicit or mechanism.spans_points):
        raise ValueError(
            f"mechanism={mechanism.name!r} works on explicit features, not on "
            f"kernel={learner.kernel!r}; set kernel='linear', or to a transformer such as "
            "RBFSampler."
        )
    if learner.max_rows_per_group is not None and not mechanism.takes_groups:
        able = sorted(name for name, one in known.items() if one.takes_groups)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} protects single rows only, and "
            f"max_rows_per_group={learner.max_rows_per_group!r} protects groups: take one of "
            f"{able}, or set max_rows_per_group=None."
        )


# ---- interactive learners: answers given, and who may draw new ones

_KNOWS_NOTHING = (
    "Ask the fitted PINP learner, or copy it after it has answered points like these: this copy "
    "(a pickle, a deep copy or a fork) was made before that, holds no private data, and gives all "
    "new points one constant. TDIL and TDDL learners can be pickled whole."
)


class AnsweredQueries(ABC):
    """Answers given so far; the same point always gets the same answer.

    Only the object that was fitted, in the process that fitted it, draws noise. Copies (by pickle
    or `copy`) and forks carry the answers and the public hypothesis, and answer new points by it:
    two copies with noise of their own would average to the exact answer for one charge.

    Parameters
    ----------
    n_scores : int
    is_public : bool
        Whether the hypothesis is public: not where no noise was added.
    """

    n_updates_left: int = 0

    def __init__(self, n_scores: int, *, is_public: bool):
        self._n_scores = n_scores
        self._is_public = is_public  # and the points asked, which copies carry
        self._known: dict[bytes, tuple[Floats, bool]] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()

    @property
    def holds_private_data(self) -> bool:
        """True: the private minimiser is in memory."""
        return True

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy or a fork, which draws no noise."""
        return self._process != os.getpid()

    def ask(self, X: NDArray, *, public: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores of each row, shape (m, q), and whether noise was drawn for it.

        Unless all that are asked are said to be `public`, copies hold private data.
        """
        if isinstance(X, SparseRows):
            keys = X.keys()
        else:
            X = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 is 0.0
            keys = [row.tobytes() for row in X]
        with self._lock:
            new = {key: i for i, key in enumerate(keys) if key not in self._known}
            if new and not self.is_copy:
                self._is_public &= public
            known = self._known | self._answers(X[list(new.values())], list(new))
            if not self.is_copy:
                self._known = known
        scores = np.array([known[key][0] for key in keys]).reshape(len(X), self._n_scores)
        return scores, np.array([known[key][1] for key in keys], dtype=bool)

    def _answers(self, X: NDArray, keys: list[bytes]) -> dict[bytes, tuple[Floats, bool]]:
        if not keys:
            return {}
        if self.is_copy:
            known = self.hypothesis()
            if known.is_zero:
                warn_caller(_KNOWS_NOTHING, UserWarning)
            scores, fresh = known.scores(X), np.zeros(len(X), dtype=bool)
        else:
            with np.errstate(all="ignore"):  # what numpy raises may hang on a private row
                scores, fresh = self._draw(X)
        return {k: (f, bool(flag)) for k, f, flag in zip(keys, scores, fresh, strict=True)}

    @abstractmethod
    def hypothesis(self) -> Minimizer:
        """Return the function that all answers given so far amount to; it is public."""

    @abstractmethod
    def _draw(self, X: NDArray) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer distinct new points, with noise where the mechanism draws any."""

    def __reduce__(self):
        with self._lock:
            state = self._n_scores, dict(self._known), self.hypothesis(), self._is_public
        return FrozenAnswers, state


class FrozenAnswers(AnsweredQueries):
    """What copies carry of `AnsweredQueries`: points asked, answers, and what those amount to.

    No training row is among them, unless somebody asked at one, or the answers had no noise.
    """

    def __init__(self, n_scores: int, known: dict, hypothesis: Minimizer, is_public: bool):
        super().__init__(n_scores, is_public=is_public)
        self._known = known
        self._hypothesis = hypothesis

    @property
    def holds_private_data(self) -> bool:
        """Whether a point was asked that nobody said is public, or no noise was added."""
        return not self._is_public

    @property
    def is_copy(self) -> bool:
        """True: this draws no noise."""
        return True

    def hypothesis(self) -> Minimizer:
        """Return the function that all answers amounted to when this copy was made."""
        return self._hypothesis

    def _draw(self, X):
        raise AssertionError("a copy draws no noise")
