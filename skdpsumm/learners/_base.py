"""What all private kernel learners share: from a table to a private minimiser, price and labels."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._computing import Floats, warn_caller
from .._sklearn import HasMethods, Interval, StrOptions, check_params
from ..features._feature_maps import NO_GAMMA, NO_SCHEMA_FOR_GAMMA
from ..privacy import (
    BudgetExceededError,
    BudgetWarning,
    NoiseWarning,
    PrivacyGuarantee,
    PrivacyLedger,
)
from ..privacy._fit import PrivateFit, own_clone
from ..privacy._noise import nominal_mechanism
from ..schema._columns import class_codes, known_classes, public_interval
from ..schema._groups import Groups
from ..schema._reading import ReadRows, SparseRows, unwrap
from ..schema._schema import SchemaLike, allowed, as_schema
from ..schema._vectorizer import part_of
from ._space import MOST_COLUMNS, Reading, even_points, open_space
from .erm._kernel_space import PolynomialKernel
from .erm._losses import (
    EpsilonInsensitive,
    Huber,
    HuberizedHinge,
    Loss,
    SoftHinge,
    as_loss,
    classifier_loss,
)
from .erm._problem import ROUNDED_UP, Minimizer, Problem, Space, Terms, check_radius, equal_shares
from .mechanisms._base import (
    N_JUDGED_POINTS,
    Curvature,
    LearnerMechanism,
    Plan,
    check_mechanism,
    epsilon_for,
    mechanisms_of,
    noise_of,
    rows_needed,
    warn_of_public_noise,
)
from .mechanisms._gradient import SHARPEST


@dataclass(frozen=True, repr=False)
class Draft:
    """A fit that is not paid for: what to minimise, how to release it, and what y's codes mean."""

    problem: Problem
    plan: Plan
    coding: Any
    privacy: PrivacyGuarantee
    places: NDArray | None  # public points at which the release is judged


class BaseKernelLearner(PrivateFit, BaseEstimator):
    """A regularised loss over a kernel's space, minimised to a certified distance.

    What is released of the minimiser is up to the mechanism. Subclasses say what labels mean
    (`ClassifierTarget`, `RegressorTarget`).
    """

    _kind: ClassVar[str]  # "TDIL", "TDDL" or "PINP": which mechanisms it takes
    _automatic_kernel: ClassVar[str] = "rbf"
    _takes_public_points: ClassVar[bool] = False
    _draws_landmarks: ClassVar[bool] = True

    kernel: Any
    gamma: Any
    schema: Any
    norm_bound: float | None
    regularization: Any
    mechanism: Any

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [
            StrOptions({"auto", "rbf", "linear", "splines", "poly", "polynomial"}),
            PolynomialKernel,
            HasMethods(["fit", "transform"]),
        ],
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        "norm_bound": [None, Interval(Real, 0, None, closed="neither")],
        "regularization": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "mechanism": [str, LearnerMechanism],
        **PrivateFit._parameter_constraints,
    }

    # ---- what subclasses say

    @abstractmethod
    def _describe_target(self, y: NDArray) -> tuple[Loss, Any, str]:
        """Return the loss, the coding of y, and what the guarantee takes as given about y."""

    @abstractmethod
    def _public_target(self) -> NDArray:
        """Return a y as public parameters describe it."""

    # ---- the fit

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Learn from private rows, and pay for it.

        TDIL and TDDL learners release a predictor. PINP learners keep it, and charge for all
        answers to come.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)
            One row per person (or other unit of protection). With `groups`, any number of rows.
            Sparse X is for linear kernels and feature maps. It is never made dense as a whole
            (docs/learners.md, "Sparse, wide tables").
        y : array-like of shape (n_samples,)
            Labels, or the numbers to predict.
        groups : array-like of shape (n_samples,), default=None
            Label of the group that each row belongs to, such as a person. Give it if you set
            `max_rows_per_group`. None fits the default, which protects single rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.

        Warns
        -----
        NoiseWarning
            If the release is mostly noise. If public numbers show it, the warning comes before
            the charge. Otherwise all is fitted, even if you turn the warning into an error.
        UserWarning
            If there is neither a schema nor a `norm_bound`, and rows are clipped. It comes before
            the charge.
        """
        return self._private_fit(X, y, groups=groups)

    def _warn_first(self) -> None:
        clips = self._transformer is None and self._kernel != "rbf"
        if clips and self.schema is None and self.norm_bound is None:
            warn_caller(
                f"Give {type(self).__name__} a schema, the public ranges and categories of the "
                "columns: without one it clips each row to length 1, and of columns in large units "
                "little is left. Or set norm_bound to the public length of a row (1 where rows are "
                "no longer than that)."
            )

    def _draft(
        self, noise_seed: int | None, X: Any, y: Any, X_public: Any = None, groups: Any = None
    ) -> Draft:
        reading = self._reading
        X, y = reading.cells(self, X, y, y_numeric=is_regressor(self))
        X = reading.rows(X, self)
        loss, coding, given = self._describe_target(y)
        plan, public = self._planned(X, X_public, loss, coding.n_scores, noise_seed)
        problem = self._pose(plan, X, coding.encode(y), groups)
        _check_size(len(problem.X), plan.terms)
        plan.check(problem)
        warn_of_public_noise(plan, problem, self._chosen_mechanism().name)
        # Even points of a schema fill all columns: nothing public says how few a sparse row fills.
        points = getattr(plan.space, "points", public)
        places = points if isinstance(problem.X, SparseRows) else self._places(points)
        return Draft(problem, plan, coding, self._guarantee(plan, given, noise_seed), places)

    def _pay(self, privacy: PrivacyGuarantee) -> None:
        if self.ledger is not None and self.delta and self._chosen_mechanism().pays_for_curvature:
            self._check_price(privacy)
        super()._pay(privacy)

    def _check_price(self, privacy: PrivacyGuarantee) -> None:
        """Raise, or warn, if a ledger has no room for a fit, or counts much more than epsilon."""
        advice = self._chosen_mechanism().price_advice(self.epsilon)
        try:
            self.ledger.check(privacy)
        except BudgetExceededError as error:
            raise BudgetExceededError(f"{error} {advice}") from None
        asked = replace(privacy, mechanism=nominal_mechanism(self.epsilon, self.delta))
        paid, usual = (self.ledger.price(one) for one in (privacy, asked))
        # A ledger that counts twice what Gaussian noise costs should not do so unnoticed.
        if paid.epsilon > 2.0 * usual.epsilon:
            warn_caller(
                f"{advice} This fit costs epsilon={paid.epsilon:.4g} in its ledger at "
                f"delta={paid.delta:g}; one with Gaussian noise costs {usual.epsilon:.4g}.",
                BudgetWarning,
            )

    def _publish(self, draft: Draft) -> None:
        released = self._release(draft.plan, draft.problem)
        terms, self._coding = draft.plan.terms, draft.coding
        self.noise_ = noise_of(draft.plan, draft.coding, draft.places, released)
        is_told = terms.is_private and not math.isnan(self.noise_.noise)
        self.privacy_ = replace(draft.privacy, noise=str(self.noise_) if is_told else "")
        self._read_as = self._reading  # and later tables are, whatever becomes of parameters
        self.regularization_ = terms.regularization
        self.sensitivity_ = draft.plan.sensitivity

    def _release(self, plan: Plan, problem: Problem) -> Minimizer | None:
        """Minimise, set what is fitted, and return the function if it is released at once."""
        self.predictor_ = plan.release(problem)
        return self.predictor_

    def _warn_last(self, draft: Draft) -> None:
        if self.noise_.is_drowned:
            warn_caller(self.noise_.advice, NoiseWarning)

    def expected_noise(
        self, n_samples: float, *, n_features: int | None = None, X_public: Any = None
    ) -> dict[str, float]:
        """Return how large the noise on a prediction will be, and how many rows are enough.

        Call it before `fit`. It reads no data and costs nothing: the answer follows from the
        parameters and the schema. If `classes` is None, it assumes two classes.

        Parameters
        ----------
        n_samples : float
            Number of rows that you expect (of groups, with ``max_rows_per_group="average"``). A
            rough number is enough.
        n_features : int, default=None
            Number of columns. You need it if the schema is one range for all columns, or if there
            is none. None takes the number from the schema.
        X_public : array-like of shape (T, n_columns), default=None
            The public points that you will give to `fit`. None, as in `fit`, draws landmarks from
            the schema if the kernel needs some.

        Returns
        -------
        dict
            - "noise": standard deviation of the noise on a prediction, for a row with the largest
              norm. It is in units of a score, or of y. If data help against noise ("gradient",
              "objective"), it is what so many rows of the schema lead you to expect. For
              mechanisms that are there for comparison, it is the most that it can be.
            - "size": how large a prediction can be: 1, the margin of a class, or half the interval
              `y_bounds`.
            - "n_samples": how many rows the model needs, at this epsilon, to be likely more than
              noise.
            - "epsilon": the epsilon at which the rows that you expect are enough.

            The last two are rules of thumb (docs/learners.md), good to a factor of two or three.

        Raises
        ------
        ValueError
            For bad parameters, or where the number of columns cannot be known.

        Examples
        --------
        >>> from skdpsumm import TDILClassifier
        >>> model = TDILClassifier(schema=(0, 1), mechanism="functional")
        >>> planned = model.expected_noise(150, n_features=4)
        >>> {name: round(value, 1) for name, value in planned.items()}
        {'noise': 0.5, 'size': 1.0, 'n_samples': 423.3, 'epsilon': 3.1}
        """
        if not (isinstance(n_samples, Real) and 0 < n_samples < np.inf):
            raise ValueError(f"n_samples must be a positive number, got {n_samples!r}.")
        copy = own_clone(self)
        copy._check_parameters()
        table, places = copy._public_table(n_features, X_public)
        loss, coding, _ = copy._describe_target(copy._public_target())
        plan, public = copy._planned(table, X_public, loss, coding.n_scores)
        curvature = Curvature.of(plan.space, places, coding.codes)
        noise = plan.expected_score_noise(curvature, float(n_samples)).noise
        enough = rows_needed(plan, 1 if public is None else len(public))
        return {
            "noise": coding.half * noise,
            "size": coding.half,
            "n_samples": enough,
            "epsilon": epsilon_for(plan.terms, enough / float(n_samples)),
        }

    def _public_table(self, n_features: Any, X_public: Any) -> tuple[NDArray, NDArray | None]:
        """Return rows as wide as those of a table to come, and public points of it if there are.

        Where X_public is given, its columns are those of the table.
        """
        reading = self._reading
        if X_public is not None:
            points = self._read(unwrap(X_public), reading, reset=True)
            return points, points
        known = reading.schema
        if known is not None and not known.is_for_all:
            n_features = known.n_columns
            if known.names is not None:
                self.feature_names_in_ = np.array(known.names, dtype=object)
        if not (isinstance(n_features, Integral) and int(n_features) > 0):
            raise ValueError(
                f"n_features must be the number of columns of the table, got {n_features!r}. Or "
                "give a schema that lists the columns."
            )
        self.n_features_in_ = int(n_features)
        places = self._places(None)
        return np.zeros((1, self.n_features_in_)) if places is None else places, places

    def _places(self, public: NDArray | None) -> NDArray | None:
        """Return public points: those given, or such of the schema; None where there are none."""
        if public is not None or self.schema is None:
            return public
        table = self._reading.of_table(self)
        if table.n_columns > MOST_COLUMNS:
            return None
        return self._reading.vectors(even_points(table, N_JUDGED_POINTS, 0), self)

    def kernel_diag(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x) for each row. Nothing is fitted or charged.

        Use it to look for rows to audit with (`skdpsumm.audit.worst_case_neighbours`). A release
        is calibrated to hide the rows with the largest values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as `fit` takes them, some 1,000 at most: all pairs are evaluated.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        copy = own_clone(self).set_params(epsilon=np.inf, ledger=None)
        copy._check_schema()
        rows = copy._read(X, copy._reading, reset=True)
        space, _ = open_space(copy, rows, X)
        return np.diag(space.gram(rows, rows))

    def _pose(self, plan: Plan, X: Any, codes: NDArray, groups: Any) -> Problem:
        """Return what is to be minimised: rows that count, with their shares."""
        n_rows, terms = len(X), plan.terms
        if n_rows == 0:  # which a search lets be; solvers are for one row at least, of no share
            shape = 1, X.shape[1]
            X = SparseRows(shape) if isinstance(X, SparseRows) else np.zeros(shape)
            return Problem(plan.space, X, np.ones((1, terms.n_scores)), terms, np.zeros((1, 1)))
        if groups is None:
            return Problem(plan.space, X, codes, terms)
        people = Groups.read(groups, n_rows)
        if self._averages_groups:
            shares = equal_shares(people.sizes[people.codes])
            return Problem(plan.space, X, codes, terms, shares, people.codes)
        kept = people.kept(self._rows_per_group, self._group_key(terms.noise_seed))
        return Problem(plan.space, part_of(X, kept), codes[kept], terms, units=people.codes[kept])

    @property
    def _reading(self) -> Reading:
        known = None if self.schema is None else as_schema(self.schema)
        return Reading(known, self._kernel == "splines", self._takes_sparse)

    @property
    def _takes_sparse(self) -> bool:
        """Whether X may be sparse: what is learnt are weights of its columns, or of features."""
        # "auto" is asked nothing: it takes none that does not, and asks for the tags itself.
        given = self.mechanism
        if isinstance(given, str) and given == "auto":
            return self._is_explicit
        known = mechanisms_of(self._kind).get(given) if isinstance(given, str) else given
        return self._is_explicit and getattr(known, "takes_sparse", False)

    def _read(self, X: Any, reading: Reading, *, reset: bool = False) -> Any:
        """Return the rows of a table as the space takes them."""
        return reading.vectors(reading.cells(self, X, reset=reset), self)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.kernel, PolynomialKernel):
            check_params(self.kernel)
        check_mechanism(self)
        self._check_schema()

    def _check_schema(self) -> None:
        if self.schema is None:
            if self.gamma == "auto" and self._kernel == "rbf":
                # Without a schema there are no landmarks, so a number alone would not do.
                needs_both = self._draws_landmarks and not self._takes_public_points
                raise ValueError(NO_SCHEMA_FOR_GAMMA if needs_both else NO_GAMMA)
            return
        as_schema(self.schema).require_bounds()
        if self.norm_bound not in (None, 1):
            raise ValueError(
                f"Leave norm_bound={self.norm_bound!r} out: the vectors of a schema are no longer "
                "than 1. Or leave the schema out."
            )

    @property
    def _kernel(self) -> Any:
        """The kernel that was given, or that of this kind of learner."""
        is_automatic = isinstance(self.kernel, str) and self.kernel == "auto"
        return self._automatic_kernel if is_automatic else self.kernel

    @property
    def _transformer(self) -> Any:
        """The transformer that was given as the kernel, or None."""
        return self.kernel if hasattr(self.kernel, "transform") else None

    def _chosen_mechanism(self) -> LearnerMechanism:
        """Return the mechanism that was given, or that the given name stands for."""
        if not isinstance(self.mechanism, str):
            return self.mechanism
        name = self._automatic_mechanism() if self.mechanism == "auto" else self.mechanism
        return mechanisms_of(self._kind)[name]()

    def _automatic_mechanism(self) -> str:
        """Return the name of the best mechanism, by public numbers."""
        if self._kind == "PINP":
            return "functional"
        # With a larger epsilon the minimiser itself is better than what so many steps come to.
        if self.delta > 0 and self.epsilon <= 30.0:
            return "gradient"
        kind: Any = "regressor" if is_regressor(self) else "classifier"
        is_sharp = self.loss != "auto" and as_loss(self.loss, kind).smoothness > SHARPEST
        # Up to this epsilon float64 has the curve of objective perturbation, and a Gaussian that
        # dominates it.
        is_priced = self.epsilon <= 1e5 or self.epsilon == np.inf
        ours = str | SoftHinge | HuberizedHinge | Huber | EpsilonInsensitive
        minimises = self._kind == "TDIL" and self._is_explicit
        smooth = isinstance(self.loss, ours) and not is_sharp
        by_rows = self.max_rows_per_group is None
        return "objective" if minimises and smooth and is_priced and by_rows else "functional"

    @property
    def _is_explicit(self) -> bool:
        """Whether the function has explicit weights."""
        return self._transformer is not None or self._kernel in ("linear", "splines")

    def _open_space(self, X: NDArray, X_public: Any) -> tuple[Space, NDArray | None]:
        """Return the space that the mechanism learns in, and the public points it still needs."""
        space, public = open_space(self, X, X_public)
        is_pure = self.delta == 0 and self.epsilon != np.inf
        return self._chosen_mechanism().narrowed(space, public, is_pure=is_pure)

    def _planned(
        self, X: Any, X_public: Any, loss: Loss, n_scores: int, noise_seed: int | None = None
    ) -> tuple[Plan, NDArray | None]:
        """Return the plan of a fit to rows that are as wide as X, and its public points."""
        space, public = self._open_space(X, X_public)
        check_radius(space.radius)
        terms = Terms(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
            loss=loss,
            regularization=1.0,
            radius=space.radius * ROUNDED_UP,
            n_scores=n_scores,
            noise_seed=noise_seed,
            kernel_error=space.kernel_error,
            max_rows=space.max_rows,
            rows_of_unit=self._rows_per_group,
        )
        mechanism, penalty = self._chosen_mechanism(), self.regularization
        if penalty == "auto":
            charged = self.ledger is not None
            penalty = mechanism.default_regularization(space, terms, public, charged=charged)
        terms = replace(terms, regularization=float(penalty))
        terms.check()
        return mechanism.plan(space, terms, public), public

    def _guarantee(self, plan: Plan, given: str, noise_seed: int | None) -> PrivacyGuarantee:
        facts = filter(None, ["the parameters of the estimator", given, self._given_number])
        return self._guaranteed(
            plan.mechanism,
            ", and ".join(facts),
            noise_seed,
            protects="the rows of X and y",
            idealised=plan.idealised,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.schema is not None:
            tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        try:
            reading = self._reading
            tags.input_tags.sparse = reading.takes_sparse and reading.keeps_zero
        except ValueError:  # of a bad schema, which `fit` tells
            tags.input_tags.sparse = False
        return tags

    # ---- predictions

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Return the released scores of each row, shape (n, q)."""
        check_is_fitted(self, "privacy_")
        return self.predictor_.scores(self._read_rows(X))

    def _read_rows(self, X: Any) -> Any:
        """Return the rows of a table as the predictor takes them."""
        return X.values if isinstance(X, ReadRows) else self._read(X, self._read_as)


def _check_size(n_rows: int, terms: Terms) -> None:
    """Raise ValueError for more rows than the bounds on rounding errors hold for."""
    if n_rows <= terms.max_rows:
        return
    if terms.kernel_error:
        raise ValueError(
            f"An exact kernel takes at most {terms.max_rows} rows; for more, set kernel to a "
            "transformer such as RBFSampler or PolynomialCountSketch."
        )
    raise ValueError(f"A learner takes at most {terms.max_rows} rows; sample that many.")


# ---- classes and numbers: what a learner makes of y, and of its scores


@dataclass(frozen=True)
class ClassCoding:
    """Codes of K classes as rows of a (K, q) matrix, and the way back from scores.

    Attributes
    ----------
    classes : ndarray of shape (K,)
    codes : ndarray of shape (K, q)
        -1 and 1 for two classes; else one-hot.
    has_probabilities : bool
        Whether scores are those of a logistic model.
    """

    classes: NDArray
    codes: Floats
    has_probabilities: bool
    half: ClassVar[float] = 1.0
    unit: ClassVar[str] = "score"

    @property
    def n_scores(self) -> int:
        """q, the number of scores of a row."""
        return self.codes.shape[1]

    def encode(self, y: NDArray) -> Floats:
        """Return the code of each label, shape (n, q)."""
        return self.codes[class_codes(y, self.classes)]


@dataclass(frozen=True)
class IntervalCoding:
    """Numbers of a public interval, clipped and scaled to [-1, 1].

    A score s stands for the number at ``centre + scale * s`` there.
    """

    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0
    n_scores: int = 1
    codes: ClassVar[Floats] = np.linspace(-1.0, 1.0, 9)[:, None]
    unit: ClassVar[str] = "prediction"

    @property
    def half(self) -> float:
        """Half the length of the interval, in the units of y."""
        return (self.high - self.low) / 2

    def encode(self, y: NDArray) -> Floats:
        """Return each number's place in [-1, 1], shape (n, 1)."""
        clipped = np.clip(y, self.low, self.high)
        return ((clipped - self.low) / self.half - 1)[:, None]

    def decode(self, scores: Floats) -> Floats:
        """Return predictions in the units of y, within the interval, shape (n,)."""
        codes = self.centre + self.scale * scores[:, 0]
        return self.low + self.half * (np.clip(codes, -1, 1) + 1)


def _has_probabilities(self) -> bool:
    is_fitted = hasattr(self, "privacy_")  # whatever becomes of parameters
    if not (self._coding.has_probabilities if is_fitted else self._says_probabilities):
        raise AttributeError(
            "For probabilities, set loss='logistic' before you fit: this loss has scores only, see "
            "decision_function. (loss='auto' is logistic with mechanism='gradient'.)"
        )
    return True


class ClassifierTarget(ClassifierMixin, BaseKernelLearner):
    """Two classes or more, by the scores' margins or by multinomial logistic regression."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelLearner._parameter_constraints,
        "loss": "no_validation",
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        kernel: str | PolynomialKernel | BaseEstimator = "auto",
        gamma: float | str = "auto",
        norm_bound: float | None = None,
        loss: Loss | str = "auto",
        classes: ArrayLike | None = None,
        regularization: float | str = "auto",
        mechanism: LearnerMechanism | str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.kernel = kernel
        self.gamma = gamma
        self.norm_bound = norm_bound
        self.loss = loss
        self.classes = classes
        self.regularization = regularization
        self.mechanism = mechanism
        self.random_state = random_state
        self.ledger = ledger

    def _check_parameters(self):
        super()._check_parameters()
        classifier_loss(self._loss(2), 2)  # which checks it

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if not (isinstance(self.loss, str) and self.loss == "auto"):
            try:
                classifier_loss(self.loss, 3)
            except ValueError:  # of a loss for two classes, or of none, which `fit` tells
                tags.classifier_tags.multi_class = False
        return tags

    @property
    def _says_probabilities(self) -> bool:
        loss = self._loss(2)
        return loss == "logistic" or getattr(loss, "has_probabilities", False)

    def _loss(self, n_classes: int) -> Any:
        """Return the loss that was given, or that the mechanism takes where none was."""
        if not (isinstance(self.loss, str) and self.loss == "auto"):
            return self.loss
        is_auto = isinstance(self.mechanism, str) and self.mechanism == "auto"
        if is_auto and self._kind != "PINP" and self.delta > 0:
            return "logistic"  # at any epsilon, so that there are probabilities at all or at none
        return self._chosen_mechanism().default_losses[n_classes > 2]

    def _describe_target(self, y):
        with warnings.catch_warnings(action="ignore"):  # of how many rows there are
            check_classification_targets(y)
        known = known_classes(y, self.classes)
        flat = self._chosen_mechanism().pays_for_curvature
        loss = classifier_loss(self._loss(len(known)), len(known), flat=flat)
        if isinstance(self.loss, str) and self.loss == "auto":
            loss = loss.relaxed(self.epsilon)
        given = "the set of labels in y" if self.classes is None else ""
        codes = loss.class_codes(len(known))
        return loss, ClassCoding(known, codes, self._says_probabilities), given

    def _public_target(self):
        return np.array([0, 1]) if self.classes is None else np.asarray(self.classes)

    @property
    def classes_(self) -> NDArray:
        """The classes, sorted."""
        return self._coding.classes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the released scores.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            The predicted class has a positive score, or the largest one. 1 is the margin.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0).astype(int)]
        return self.classes_[decision.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return the probabilities of the logistic model, with the noise that is in its scores.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        return softmax(decision, axis=1)


class RegressorTarget(RegressorMixin, BaseKernelLearner):
    """A number of a public interval."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelLearner._parameter_constraints,
        "loss": "no_validation",
        "y_bounds": "no_validation",
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        kernel: str | PolynomialKernel | BaseEstimator = "auto",
        gamma: float | str = "auto",
        norm_bound: float | None = None,
        loss: Loss | str = "huber",
        y_bounds: Sequence[float] | None = None,
        regularization: float | str = "auto",
        mechanism: LearnerMechanism | str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.kernel = kernel
        self.gamma = gamma
        self.norm_bound = norm_bound
        self.loss = loss
        self.y_bounds = y_bounds
        self.regularization = regularization
        self.mechanism = mechanism
        self.random_state = random_state
        self.ledger = ledger

    def _check_parameters(self):
        super()._check_parameters()
        as_loss(self.loss, "regressor")
        self._interval()

    def _interval(self) -> IntervalCoding:
        if self.y_bounds is None:
            raise ValueError("y_bounds is missing: give the public (low, high) of y.")
        return IntervalCoding(*public_interval("y_bounds", self.y_bounds))

    def _publish(self, draft):
        super()._publish(draft)
        plan = draft.plan
        self._coding = replace(self._coding, centre=plan.y_centre, scale=plan.y_scale)

    def _describe_target(self, y):
        # A copy, for the user's may get other parameters while a learner answers with its noise.
        return clone(as_loss(self.loss, "regressor")), self._interval(), ""

    def _public_target(self):
        return np.array(self._interval().low)

    def predict(self, X: Any) -> NDArray:
        """Return the prediction for each row, within `y_bounds`.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self._scores(X)  # which raises where nothing is fitted
        return self._coding.decode(scores)
