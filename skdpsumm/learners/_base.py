"""What all private kernel learners share: from a table to a private minimiser, price and labels."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._computing import progress, warn_caller
from .._docs import inherited_docs
from .._sklearn import HasMethods, Interval, StrOptions, check_params
from ..features._feature_maps import NO_GAMMA, auto_gamma
from ..privacy import BudgetExceededError, BudgetWarning, NoiseWarning, PrivacyGuarantee
from ..privacy._bisect import bisect
from ..privacy._clone_watch import own_clone
from ..privacy._fit import PrivateFit, estimator, given_of_columns
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import nominal_mechanism
from ..schema._groups import Groups
from ..schema._reading import ReadRows, beside_X, unwrap, validate_table
from ..schema._schema import TableSchema, allowed, as_schema, public_points
from ..schema._sparse import SparseRows
from ..schema._vectorizer import (
    Interactions,
    keeps_zero,
    n_splines,
    vectorize,
    vectorize_sparse,
)
from ._public_points import MOST_COLUMNS, even_points, warn_of_blindness, warn_of_isolation
from .erm._feature_space import FeatureSpace
from .erm._kernel_space import KERNELS, WITH_WIDTH, KernelSpace, PolynomialKernel, PrecomputedSpace
from .erm._losses import (
    EpsilonInsensitive,
    Huber,
    HuberizedHinge,
    Loss,
    SoftHinge,
    as_loss,
)
from .erm._problem import (
    ROUNDED_UP,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_radius,
    equal_shares,
)
from .mechanisms import _planning
from .mechanisms._base import LearnerMechanism, Plan
from .mechanisms._gradient import SHARPEST

# Of the gamma that sketches take. Measured with TDDL and landmarks: without noise half of it had an
# AUC of 0.886 on Adult, where all of it had 0.866 (0.843 and 0.821 on ACS, 0.811 and 0.793 on
# Covertype), and on 2 and 5 columns of a box 0.01 less; with noise they differ less.
_OF_AUTO_GAMMA = 0.5
# Hats of a number, and of all of them at most. 4 to 8 were within 0.005 AUC of one another on Adult
# and ACS, and 0.004 to 0.01 above none at epsilon 1; on 64 pixels they lost 0.02 of accuracy.
_N_KNOTS, _MOST_HATS = 6, 256
# Public points at which landmarks are tried out.
_N_PROBES = 64
# Beyond this epsilon the minimiser itself is better than what so many steps of a descent come to.
_MOST_OF_DESCENTS = 30.0
# To this epsilon float64 has the curve of objective perturbation, and a Gaussian that dominates it.
_MOST_OF_OBJECTIVES = 1e5
# Steps down in search of an epsilon that a ledger has room for. They are short, for under a fixed
# Lambda no noise brings a much smaller one.
_STEP_DOWN, _LEAST_TRIED = 0.85, 1e-3
# A ledger that counts this many times a fit's epsilon should not do so unnoticed.
_MANY_TIMES = 2.0


@dataclass(frozen=True, repr=False)
class _Draft:
    """A fit that is not paid for: what to minimise, how to release it, and what y's codes mean."""

    problem: Problem
    plan: Plan
    coding: Any
    privacy: PrivacyGuarantee
    places: NDArray | None  # public points at which the release is judged


class _Reading(NamedTuple):
    """How tables become rows of numbers: by a schema, or as they are."""

    schema: TableSchema | None
    lowest: float  # of the scale that numbers go to, which ends at 1
    wants_splines: bool
    takes_sparse: bool

    def of_table(self, model: BaseKernelLearner) -> TableSchema:
        """Return the schema of the tables that a learner was given."""
        assert self.schema is not None
        names = getattr(model, "feature_names_in_", None)
        return self.schema.for_table(model.n_features_in_, names)

    def vectors(self, cells: Any, model: BaseKernelLearner) -> Any:
        """Return cells that were read for a learner as its rows, each by itself."""
        if self.schema is None:
            return cells
        table, n_knots = self.of_table(model), self._n_knots(model)
        if isinstance(cells, SparseRows):
            if n_knots and n_splines(table, n_knots):
                raise ValueError(
                    "With sparse X, zero must stay zero, and feature_map='auto' makes new numbers "
                    "of each: set feature_map=None, or leave the schema out."
                )
            return vectorize_sparse(table, cells)
        return vectorize(table, cells, lowest=self.lowest, n_knots=n_knots)

    def interactions(self, model: BaseKernelLearner) -> Interactions | None:
        """Return the products that go beside a learner's vectors, if there are any."""
        n_knots = self._n_knots(model)
        return Interactions.of(self.of_table(model), n_knots) if n_knots else None

    def _n_knots(self, model: BaseKernelLearner) -> int:
        """Return how many hats each number has."""
        if self.schema is None or not self.wants_splines:
            return 0
        few = n_splines(self.of_table(model), _N_KNOTS) <= _MOST_HATS
        return _N_KNOTS if few else 0

    @property
    def keeps_zero(self) -> bool:
        """Whether sparse rows stay sparse; raises ValueError for numbers that have no range."""
        if self.schema is None:
            return True
        self.schema.require_bounds()
        return keeps_zero(self.schema) and not (
            self.wants_splines and n_splines(self.schema, _N_KNOTS)
        )


@inherited_docs
@estimator
class BaseKernelLearner(PrivateFit, BaseEstimator):
    """A regularised loss over a kernel's space, minimised to a certified distance.

    What is released of the minimiser is up to the mechanism. Subclasses say what labels mean
    (`ClassifierTarget`, `RegressorTarget`).

    Parameters
    ----------
    kernel : str or callable, default={default}
        The kernel: "linear", "rbf", "laplacian", "poly", "cosine" or "chi2" (scikit-learn's
        `pairwise_kernels`), or a function of your own. TDIL defaults to "linear", which needs
        neither gamma nor landmarks. TDDL and PINP default to "rbf", which can learn any smooth
        shape.

        - "poly" is the paper's ``(<x, y> + 1)^3``. For another polynomial, give a
          `PolynomialKernel(degree=2, coef0=0.0)`.
        - A function takes two tables, of shapes (n, d) and (m, d), and returns an (n, m) matrix. It
          must be positive semi-definite, up to rounding errors of 1e-14 of the norms of two rows.
          Use `functools.partial` for a function that has parameters.
        - "precomputed" is for TDDL alone. X then has shape (n, n), and X_public has shape
          (T, n + T): the kernel of the public points with X, and with each other. Give `predict`
          the kernel of new rows with the public points.

        PINP, and functions of your own, take at most 60,000 rows. For more rows use a
        `feature_map`, the linear kernel, or another learner.
    gamma : "auto" or float, default="auto"
        Parameter of "rbf", "laplacian", "chi2" and "poly", as in scikit-learn. It is public, and
        never computed from the data. The default follows from the distances between public points
        of the schema, so that the kernel is neither flat nor near 0 between them. Without a schema
        you must give a number. For "poly", whose rows are clipped, the default is 1, as in the
        paper.
    schema : TableSchema or what stands for one, default=None
        Public description of the columns: their ranges and categories. Give one if you can. Your
        table may then hold words, and missing values where the schema allows them. Rows become
        vectors of norm at most one, as `PublicVectorizer` makes them (for "chi2" without negative
        numbers), and kernels and `feature_map` see these. The default is None because only you
        know what is public. It takes columns of numbers as they are, so scale them by public
        constants. TDIL and TDDL learners need public points for kernels other than "linear": they
        draw them from the schema, unless there is a `feature_map` or `fit` is given X_public.
    feature_map : transformer, "auto" or None, default="auto"
        Explicit public features in place of a kernel: `RBFSampler`, `PolynomialFeatures`,
        `PolynomialCountSketch`, or any transformer that maps each row by itself. The learner fits
        a clone to a row of zeros, so that the map learns nothing from your data. Pass a map that
        you fitted to public data as a `FrozenEstimator`.

        The default matters for the linear kernel with a schema. It makes the function piecewise
        linear in each number, by six hats at even knots (or at the `edges` of the column), unless
        that would be more than 256 hats in all. Classifiers get products of every two of up to 17
        numbers as well, unless delta is 0. With 1,000 rows or more, shape is worth far more than
        its noise (docs/learners.md). None uses the numbers alone.
    norm_bound : float, default=1.0
        Largest norm of a row. Longer rows are clipped ("linear", "poly"), and features are scaled
        down to it (`feature_map`, your own and precomputed kernels). The other kernels are bounded
        anyway. The default fits a schema, whose vectors are no longer than 1.
    fit_intercept : bool, default=False
        Whether to add a constant feature of value `intercept_scaling`. It is penalised like the
        others, because otherwise no sensitivity is finite. It also adds its square to R^2, and so
        to the noise. The default is False because vectors of a schema need no intercept: they hold
        a constant, or the indicators of a category.
    intercept_scaling : float, default=1.0
        Value of the constant feature. The default is that of scikit-learn's `LinearSVC`.
    regularization : "auto" or float, default="auto"
        Lambda, the weight of the penalty beside the sum of the losses: scikit-learn's 1 / C. The
        default is a public rule of the mechanism (docs/learners.md). For "functional" it keeps the
        noise on a prediction at half a margin or less, and for regressors at a tenth of half the
        interval. For "objective" it keeps curvature cheap. For "gradient" it is small, because
        stopping early does the same.
    epsilon, delta : float, default=1.0, 1e-6
        The guarantee of `fit` and of all later predictions. The defaults are a common choice for
        tables of up to some 100,000 rows: delta should be far below 1 / n. ``delta=0`` is pure
        differential privacy, if the mechanism has it. ``epsilon=np.inf`` adds no noise.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        The default keeps the number of rows private and needs less noise. "replace_one" needs
        twice the noise, and takes the number of rows as public. With `max_rows_per_group`, one
        group of any number of rows comes or goes, or is replaced by another.
    {max_rows_per_group}
    random_state : int, RandomState or None, default=None
        Public randomness, of `feature_map` and of landmarks. It does not touch the noise. None, as
        in scikit-learn, differs from fit to fit.
    {noise_seed...ledger}
        Use `PrivateSearchCV` to choose parameters at one price.
    verbose : int, default=0
        1 shows the solver's progress on the standard error stream, for the curator alone: an exact
        kernel of tens of thousands of rows takes a minute or more, and so does exact noise on a
        million columns. 0, as in scikit-learn, is silent.

    Attributes
    ----------
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
    privacy_ : PrivacyGuarantee
        What the release promises, and under which assumptions.
    noise_ : ReleasedNoise
        How large the noise on a prediction is, compared with what predictions can be. If the model
        is mostly noise (`is_drowned`), `fit` gives a `NoiseWarning`. All of it is computed from
        the release and public numbers. `privacy_` and the repr show it, too. It says which rows it
        is for. For sparse X these are rows of the largest norm, spread over all columns: nothing
        public says which columns yours use. Shorter rows get less noise, and smaller predictions.
    regularization_ : float
        Lambda.
    sensitivity_ : float
        Delta_w: how far the minimisers of two neighbours can be apart, in the norm of the space.
        It includes the solver's tolerance and rounding. An int `max_rows_per_group` multiplies it.
        For "gradient": how far their sums of gradients can be apart.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, if it has them.
    """

    _kind: ClassVar[str]  # "TDIL", "TDDL" or "PINP": which mechanisms it takes
    _takes_public_points: ClassVar[bool] = False
    _draws_landmarks: ClassVar[bool] = True
    _printed: ClassVar[dict[str, Any]]  # parameters of the paper's experiments, see below
    _printed_lipschitz: ClassVar[float]  # L and R with these
    _printed_radius: ClassVar[float]

    kernel: Any = "rbf"
    gamma: Any = "auto"
    schema: Any = None
    feature_map: Any = "auto"
    norm_bound: float = 1.0
    fit_intercept: bool = False
    intercept_scaling: float = 1.0
    regularization: Any = "auto"
    mechanism: Any = "auto"
    verbose: int | bool = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions({*KERNELS, "precomputed"}), PolynomialKernel, callable],
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        "feature_map": [None, StrOptions({"auto"}), HasMethods(["fit", "transform"])],
        "norm_bound": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "regularization": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "mechanism": [str, LearnerMechanism],
        **PrivateFit._parameter_constraints,
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    # ---- what subclasses say

    @abstractmethod
    def _describe_target(self, y: NDArray) -> tuple[Loss, Any, str]:
        """Return the loss, the coding of y, and what the guarantee takes as given about y."""

    @abstractmethod
    def _public_target(self) -> NDArray:
        """Return a y as public parameters describe it."""

    # ---- the mechanism

    @classmethod
    def _mechanisms(cls) -> dict[str, type[LearnerMechanism]]:
        """Return the mechanisms of such a learner, by their names."""
        known = LearnerMechanism._named.items()
        return {name: one for name, one in known if cls._kind in one.learners}

    def _chosen_mechanism(self) -> LearnerMechanism:
        """Return the mechanism that was given, or that the name given stands for."""
        if not isinstance(self.mechanism, str):
            return self.mechanism
        name = self._automatic_mechanism() if self.mechanism == "auto" else self.mechanism
        return self._mechanisms()[name]()

    def _automatic_mechanism(self) -> str:
        """Return the name of the best mechanism, by public numbers."""
        kind: Any = "regressor" if is_regressor(self) else "classifier"
        if not self._may_descend:
            return "functional"
        if self.delta > 0 and self.epsilon <= _MOST_OF_DESCENTS:
            return "gradient"
        is_sharp = self.loss != "auto" and as_loss(self.loss, kind).smoothness > SHARPEST
        minimises = self._kind == "TDIL" and self._is_explicit and self.max_rows_per_group is None
        ours = str | SoftHinge | HuberizedHinge | Huber | EpsilonInsensitive
        is_priced = self.epsilon <= _MOST_OF_OBJECTIVES or self.epsilon == np.inf
        return (
            "objective"
            if minimises and isinstance(self.loss, ours) and is_priced and not is_sharp
            else "functional"
        )

    @property
    def _may_descend(self) -> bool:
        """Whether "auto" is gradient descent at some epsilon."""
        return self._kind != "PINP" and (self._is_explicit or self._spans_points)

    @property
    def _spans_points(self) -> bool:
        """Whether the kernel is one of ours, so that public points have a span with coordinates."""
        return self.kernel != "precomputed" and not callable(self.kernel)

    @property
    def _is_explicit(self) -> bool:
        """Whether the function has explicit weights."""
        return self.kernel == "linear" or self._transformer is not None

    def _check_mechanism(self) -> None:
        known, given = self._mechanisms(), self.mechanism
        known_names = {"auto", *known}
        if (isinstance(given, str) and given not in known_names) or (
            isinstance(given, LearnerMechanism) and self._kind not in given.learners
        ):
            objects = [f"{one.__name__}()" for one in known.values() if one().get_params()]
            raise ValueError(
                f"The 'mechanism' parameter of {type(self).__name__} must be a str among "
                f"{sorted(known_names)} or one of {', '.join(objects)}. Got {given!r} instead."
            )
        mechanism = self._chosen_mechanism()
        check_params(mechanism)
        if self.delta == 0 and self.epsilon != np.inf and not mechanism.is_pure:
            pure = sorted(name for name, one in known.items() if one.is_pure)
            raise ValueError(
                f"mechanism={mechanism.name!r} of {type(self).__name__} has no guarantee with "
                f"delta=0; set delta > 0, or take one of {pure}."
            )
        has_span = mechanism.spans_points and self._spans_points
        if mechanism.needs_features and not (self._is_explicit or has_span):
            raise ValueError(
                f"mechanism={mechanism.name!r} works on explicit features, not on "
                f"kernel={self.kernel!r}; set kernel='linear', or give a feature_map such as "
                "RBFSampler."
            )
        if self.max_rows_per_group is not None and not mechanism.takes_groups:
            able = sorted(name for name, one in known.items() if one.takes_groups)
            raise ValueError(
                f"mechanism={mechanism.name!r} of {type(self).__name__} protects single rows only, "
                f"and max_rows_per_group={self.max_rows_per_group!r} protects groups: take one of "
                f"{able}, or set max_rows_per_group=None."
            )

    # ---- the fit

    def fit(self, X, y, *, groups=None):
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
        """
        self._fit(X, y, groups=groups)
        return self

    def _fit(self, X: Any, y: Any, X_public: Any = None, groups: Any = None) -> None:
        with progress(f"{type(self).__name__}.fit", self.verbose):
            self._private_fit(X, y, X_public, groups=groups)

    def planned_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism:
        """Return what `fit` would cost, from public numbers. Nothing is minimised or charged."""
        self._check_parameters()
        problem, _, _, public = self._pose(X, y, X_public)
        return self._chosen_mechanism().plan(problem.space, problem.terms, public).mechanism

    def least_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism | None:
        """Return the least that `fit` can cost, whatever its epsilon; None if it can be free."""
        mechanism = self._chosen_mechanism()
        # "auto" raises Lambda where epsilon is lowered, and with it lowers the price of curvature.
        is_fixed = self.regularization != "auto" and self.epsilon != np.inf
        if not (mechanism.pays_for_curvature and is_fixed):
            return None
        self._check_parameters()
        return mechanism.least_cost(self._pose(X, y, X_public)[0].terms)

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
            The public points that you will give to `fit`. With ``kernel="precomputed"``, the
            kernel of the public points with each other, of shape (T, T). None, as in `fit`, draws
            landmarks from the schema if the kernel needs some.

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
        space, _, public = copy._open_space(table, X_public)
        space, public = copy._narrowed(space, public)
        terms = copy._make_terms(space, loss, coding.n_scores, public)
        plan = copy._chosen_mechanism().plan(space, terms, public)
        noise = plan.score_noise
        if hasattr(plan, "expected_score_noise"):
            curvature = _planning.Curvature.of(space, places, coding.codes)
            noise = plan.expected_score_noise(curvature, float(n_samples))
        enough = _planning.rows_needed(plan, space, terms, 1 if public is None else len(public))
        return {
            "noise": coding.half * noise,
            "size": coding.half,
            "n_samples": enough,
            "epsilon": _planning.epsilon_for(terms, enough / float(n_samples)),
        }

    def _public_table(self, n_features: Any, X_public: Any) -> tuple[NDArray, NDArray | None]:
        """Return rows as wide as those of a table to come, and public points of it if there are.

        Where X_public is given, its columns are those of the table.
        """
        reading = self._reading
        if self._kernel == "precomputed":
            return np.zeros((0, 0)), None
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
        return self._reading.vectors(even_points(table, _planning.N_PLACES, 0), self)

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
        space = copy._open_space(rows, X)[0]
        return np.diag(space.gram(rows, rows))

    def _pose(
        self, X: Any, y: Any, X_public: Any, groups: Any = None
    ) -> tuple[Problem, Any, str, Any]:
        """Return what is to be minimised, the coding of y, what is given of it, public points.

        Prices are asked for without groups: they are the same for any rows.
        """
        reading = self._reading
        X, y = validate_table(
            self,
            X,
            y,
            schema=reading.schema,
            y_numeric=is_regressor(self),
            accept_sparse=reading.takes_sparse,
        )
        X = reading.vectors(X, self)
        loss, coding, given = self._describe_target(y)
        n_rows, codes = len(X), coding.encode(y)
        if n_rows == 0:  # which a search lets be; solvers are for one row at least
            codes, width = np.ones((1, coding.n_scores)), X.shape[1]
            is_sparse = isinstance(X, SparseRows)
            X = SparseRows.zeros(1, width) if is_sparse else np.zeros((1, width))
        space, rows, public = self._open_space(X, X_public)
        space, public = self._narrowed(space, public)
        terms = self._make_terms(space, loss, coding.n_scores, public)
        problem = Problem(space, rows, codes, terms)
        if n_rows == 0:  # and that one counts nothing
            problem = replace(problem, shares=np.zeros((1, 1)))
        elif groups is not None:
            problem = self._bounded(problem, Groups.read(groups, n_rows))
        return problem, coding, given, public

    def _narrowed(self, space: Space, public: NDArray | None) -> tuple[Space, NDArray | None]:
        """Return the space that the mechanism learns in, and the public points it still needs."""
        is_pure = self.delta == 0 and self.epsilon != np.inf
        return self._chosen_mechanism().narrowed(space, public, is_pure=is_pure)

    @property
    def _has_interactions(self) -> bool:
        """Whether products stand beside numbers, where there are hats.

        Not under pure DP, where noise grows with the number of features. And not for numbers:
        halving the part of the hats cost R^2 0.07 on Friedman's function at epsilon 1, and more
        with fewer rows.
        """
        return is_classifier(self) and self.delta > 0

    def _bounded(self, problem: Problem, groups: Groups) -> Problem:
        """Return the problem of the rows of each group that stay, or of rows with shares."""
        if self._averages_groups:
            shares = equal_shares(groups.sizes[groups.codes])
            return replace(problem, shares=shares, units=groups.codes)
        kept = groups.kept(self._rows_per_group, self._group_key())
        units = groups.codes[kept]
        return replace(problem, X=problem.X[kept], codes=problem.codes[kept], units=units)

    def _draft(self, X: Any, y: Any, X_public: Any, groups: Any = None) -> _Draft:
        problem, coding, given, public = self._pose(X, y, X_public, groups)
        _check_size(len(problem.X), problem.terms)
        plan = self._chosen_mechanism().plan(problem.space, problem.terms, public)
        getattr(plan, "check", Problem.check)(problem)
        if public is not None:
            problem.space.check_points(public, problem.X)
        self._warn_of_public_noise(plan, problem)
        # Even points of a schema fill all columns: nothing public says how few a sparse row fills.
        points = getattr(problem.space, "points", public)
        places = points if isinstance(problem.X, SparseRows) else self._places(points)
        return _Draft(problem, plan, coding, self._guarantee(plan, given), places)

    @property
    def _reading(self) -> _Reading:
        # The chi-squared kernel is for numbers that are nowhere negative.
        lowest = 0.0 if self._kernel == "chi2" else -1.0
        splines = self.kernel == "linear" and isinstance(self.feature_map, str)
        return _Reading(as_schema(self.schema), lowest, splines, self._takes_sparse)

    @property
    def _takes_sparse(self) -> bool:
        """Whether X may be sparse: what is learnt are weights of its columns, or of features."""
        # "auto" is asked nothing: it takes none that does not, and asks for the tags itself.
        given = self.mechanism
        if isinstance(given, str) and given == "auto":
            return self._is_explicit
        known = self._mechanisms().get(given) if isinstance(given, str) else given
        return self._is_explicit and getattr(known, "takes_sparse", False)

    def _read(self, X: Any, reading: _Reading, *, reset: bool = False) -> Any:
        """Return the rows of a table as the space takes them."""
        cells = validate_table(
            self, X, schema=reading.schema, reset=reset, accept_sparse=reading.takes_sparse
        )
        return reading.vectors(cells, self)

    def _publish(self, draft: _Draft) -> None:
        released = self._release(draft.plan, draft.problem)
        self._coding, self.noise_ = draft.coding, _noise_of(draft, released)
        is_told = draft.problem.terms.is_private and not math.isnan(self.noise_.noise)
        told = str(self.noise_) if is_told else ""
        self.privacy_ = replace(draft.privacy, noise=told)
        self._read_as = self._reading  # and later tables are, whatever becomes of parameters
        terms = draft.problem.terms
        self.regularization_ = terms.regularization
        self.sensitivity_ = getattr(draft.plan, "sensitivity", terms.sensitivity)

    def _release(self, plan: Plan, problem: Problem) -> Minimizer | None:
        """Minimise, set what is fitted, and return the function if it is released at once."""
        self.predictor_ = plan.release(problem)
        return self.predictor_

    def _warn_of_public_noise(self, plan: Any, problem: Problem) -> None:
        """Warn, before the charge, of noise that public numbers show to be too large."""
        terms = problem.terms
        if getattr(plan, "sigma", 0.0) > _planning.HOPELESS:
            warn_caller(
                "Set mechanism='functional', or raise epsilon or `regularization`: the answers "
                f"will say little. mechanism={self._chosen_mechanism().name!r} answers from public "
                f"rows, and corrects an answer only if it is off by more than {plan.sigma:.2g} (1 "
                "is a margin, or half of y_bounds).",
                NoiseWarning,
            )
        n_known = _known_rows(self, problem)
        if n_known is None or not hasattr(plan, "expected_score_noise"):
            return
        needed = _planning.rows_needed(plan, problem.space, terms, 1)
        if n_known < _planning.FEW * needed:
            epsilon = _planning.epsilon_for(terms, needed / n_known)
            warn_caller(
                f"Take about {float(f'{needed:.2g}'):,.0f} rows, or epsilon={epsilon:.2g}: with "
                f"{n_known} rows and "
                f"epsilon={terms.epsilon:g} the model will be mostly noise.",
                NoiseWarning,
            )

    def _warn_last(self, draft: _Draft) -> None:
        if self.noise_.is_drowned:
            warn_caller(self.noise_.advice, NoiseWarning)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.kernel, PolynomialKernel):
            check_params(self.kernel)
        if self.kernel == "precomputed" and not self._takes_public_points:
            raise ValueError(
                f"{type(self).__name__} needs kernel values between points that it has not seen: "
                "in place of kernel='precomputed', give a callable, which may look up indices in "
                "your own matrix."
            )
        self._check_mechanism()
        self._check_schema()

    def _check_schema(self) -> None:
        known = as_schema(self.schema)
        if known is None:
            if self.gamma == "auto" and self._kernel in WITH_WIDTH:
                raise ValueError(NO_GAMMA)
            return
        known.require_bounds()
        if self._kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' takes kernel values, which a schema cannot describe: set "
                "schema=None, or take another kernel."
            )

    @property
    def _kernel(self) -> Any:
        """The kernel, "linear" where explicit features take its place."""
        return self.kernel if self._transformer is None else "linear"

    @property
    def _transformer(self) -> Any:
        """The map that was given in place of a kernel, or None."""
        return None if isinstance(self.feature_map, str) else self.feature_map

    def _pay_for(self, draft: _Draft) -> None:
        mechanism = self._chosen_mechanism()
        if self.ledger is None or not mechanism.pays_for_curvature or self.delta == 0:
            super()._pay_for(draft)
            return
        advice = mechanism.price_advice(self.epsilon)
        try:
            self.ledger.check(draft.privacy)
            # Before the charge, for a warning may be an error.
            self._warn_of_price(draft.privacy, advice)
            super()._pay_for(draft)
        except BudgetExceededError as error:
            fits = self._fitting_epsilon(draft)
            found = "" if fits is None else f" It fits with epsilon={fits:g} or less."
            raise BudgetExceededError(f"{error} {advice}{found}") from None

    def _fitting_epsilon(self, draft: _Draft) -> float | None:
        """Return the largest epsilon that the ledger has room for, to two digits, or None.

        All of it is public: the ledger, the parameters and what follows from them.
        """

        def fits(epsilon: float) -> bool:
            try:
                self.ledger.check(self._claim_at(epsilon, draft))
            except BudgetExceededError:
                return False
            return True

        epsilon = float(self.epsilon)
        try:
            while not fits(epsilon := epsilon * _STEP_DOWN):
                if epsilon < _LEAST_TRIED * self.epsilon:
                    return None
        except ValueError:  # below this epsilon, a row's curvature alone costs more
            return None
        found = bisect(fits, epsilon, epsilon / _STEP_DOWN, tolerance=0.005)
        digits = 1 - math.floor(math.log10(found))
        rounded = math.floor(found * 10.0**digits) / 10.0**digits
        return rounded

    def _claim_at(self, epsilon: float, draft: _Draft) -> PrivacyGuarantee:
        """Return what the same fit would claim at another epsilon."""
        copy, posed = own_clone(self).set_params(epsilon=epsilon), draft.problem
        terms = copy._make_terms(posed.space, posed.terms.loss, posed.terms.n_scores, None)
        plan = copy._chosen_mechanism().plan(posed.space, terms, None)
        return replace(draft.privacy, mechanism=plan.mechanism)

    def _warn_of_price(self, privacy: PrivacyGuarantee, advice: str) -> None:
        """Warn where the ledger counts much more than for Gaussian noise of the same epsilon."""
        asked = replace(privacy, mechanism=nominal_mechanism(self.epsilon, self.delta))
        paid, usual = (self.ledger.price(one) for one in (privacy, asked))
        if paid.epsilon > _MANY_TIMES * usual.epsilon:
            warn_caller(
                f"{advice} This fit costs epsilon={paid.epsilon:.4g} in its ledger at "
                f"delta={paid.delta:g}; one with Gaussian noise costs {usual.epsilon:.4g}.",
                BudgetWarning,
            )

    def _open_space(self, X: NDArray, X_public: Any) -> tuple[Space, NDArray, NDArray | None]:
        """Return the space, the rows of X in it, and the public points in it."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        intercept = float(self.intercept_scaling) if self.fit_intercept else 0.0
        norm_bound, n_columns = float(self.norm_bound), X.shape[1]
        X_public = unwrap(X_public)
        if self.kernel == "precomputed" and self._transformer is None:
            return PrecomputedSpace.split(X, X_public, norm_bound, intercept)
        if self._is_explicit:
            own = self._transformer
            if own is None and self._has_interactions:
                own = self._reading.interactions(self)
            space: Space = FeatureSpace.of(
                own, n_columns, norm_bound, intercept, seed, is_sparse=isinstance(X, SparseRows)
            )
        else:
            space = KernelSpace(*self._kernel_and_params(), norm_bound, intercept)
            space.try_out(n_columns)
        check_radius(space.radius)  # which landmarks are tried out with
        space.check(X)
        return space, X, self._public_points(X_public, space, seed)

    def _public_points(self, X_public: Any, space: Space, seed: int) -> NDArray | None:
        """Return the public points: those given, or landmarks where the kernel needs some."""
        if X_public is not None:
            with beside_X("X_public", X_public):
                points = self._read(X_public, self._reading)
                space.check(points)
            if space.n_features is None:
                warn_of_isolation(space, points, self.kernel)
            return points
        mechanism = self._chosen_mechanism()
        if mechanism.candidates is not None:
            points = self._read(mechanism.candidates, self._reading)
            space.check(points)
            return points
        explicit = space.n_features is not None
        if explicit or not self._draws_landmarks or mechanism.n_landmarks is None:
            return None
        if self.schema is None:
            raise ValueError(
                f"{type(self).__name__} with kernel={self.kernel!r} needs public points: "
                + ("pass them to fit as X_public, or " if self._takes_public_points else "")
                + "give a schema, the public description of the columns, to draw landmarks from, "
                "such as schema=(0, 1) or {'age': (17, 90)}, or an explicit feature_map."
            )
        reading, table = self._reading, self._reading.of_table(self)
        n_landmarks = mechanism.count_landmarks(len(table.numeric), float(self.delta))
        landmarks, others = (
            reading.vectors(even_points(table, n_points, own_seed), self)
            for n_points, own_seed in ((n_landmarks, seed), (_N_PROBES, seed + 1))
        )
        warn_of_blindness(space, landmarks, others, self.kernel)
        return landmarks

    def _kernel_and_params(self) -> tuple[Any, dict[str, Any]]:
        """Return the kernel's name, or the function that was given, and its parameters."""
        kernel = PolynomialKernel() if self.kernel in ("poly", "polynomial") else self.kernel
        if isinstance(kernel, PolynomialKernel):
            more = {"degree": int(kernel.degree), "coef0": float(kernel.coef0)}
            return "poly", {"gamma": 1.0 if self.gamma == "auto" else float(self.gamma), **more}
        if callable(kernel) or kernel == "cosine":
            return kernel, {}
        return kernel, {"gamma": self._gamma()}

    def _gamma(self) -> float:
        """Return gamma, that of the public points of the schema where it is left to us."""
        if self.gamma != "auto":
            return float(self.gamma)
        reading = self._reading
        points = reading.vectors(public_points(reading.of_table(self)), self)
        return _OF_AUTO_GAMMA * auto_gamma(points, self.kernel)

    def _make_terms(self, space: Space, loss: Loss, n_scores: int, public: NDArray | None) -> Terms:
        check_radius(space.radius)
        terms = Terms(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
            loss=loss,
            regularization=1.0,
            radius=space.radius * ROUNDED_UP,
            n_scores=n_scores,
            noise_seed=self.noise_seed,
            kernel_error=space.kernel_error,
            max_rows=space.max_rows,
            rows_of_unit=self._rows_per_group,
        )
        chosen = self.regularization
        if chosen == "auto":
            chosen = self._chosen_mechanism().default_regularization(
                space, terms, public, charged=self.ledger is not None
            )
        terms = replace(terms, regularization=float(chosen))
        terms.check()
        return terms

    def _guarantee(self, plan: Plan, given: str) -> PrivacyGuarantee:
        facts = ["the parameters of the estimator", given, self._given_of_kernel()]
        of_groups = self.max_rows_per_group is not None
        if self.adjacency == "replace_one":
            facts.append("the number of groups" if of_groups else "the number of rows")
        return PrivacyGuarantee(
            plan.mechanism,
            self.adjacency,
            protects="the rows of X and y",
            unit=self._unit,
            given=", and ".join(filter(None, facts))
            + given_of_columns(self.schema)
            + self._given_groups,
            simulated=self.noise_seed is not None,
            counted=self.ledger is not None,
            idealised=plan.idealised,
        )

    def _given_of_kernel(self) -> str:
        """Return what is taken on trust of a kernel that the user computes, in tables."""
        is_users = callable(self.kernel) or self.kernel == "precomputed"
        if self._transformer is not None or not is_users:
            return ""
        return (
            "that the kernel is positive semi-definite, and a function of two rows alone, up to "
            "rounding errors"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
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


def _known_rows(learner: BaseKernelLearner, problem: Problem) -> int | None:
    """Return the number of rows if it is public: single rows, of which one is replaced."""
    is_public = learner.adjacency == "replace_one" and learner.max_rows_per_group is None
    return len(problem.X) if is_public and problem.shares is None else None


def _noise_of(draft: _Draft, released: Minimizer | None) -> _planning.ReleasedNoise:
    """Return what a release, and public numbers, tell of its noise.

    A plan of somebody else's may state none: it is already paid for, so that is no error.
    """
    plan: Any = draft.plan
    terms, half = draft.problem.terms, draft.coding.half
    is_exact = getattr(plan, "noise_is_exact", False)
    found = _planning.ReleasedNoise(
        noise=half * getattr(plan, "score_noise", math.nan),
        kind="exact" if is_exact else "largest",
        size=half,
        unit=draft.coding.unit,
    )
    if draft.places is None and released is not None and released.points is None:
        found = replace(found, over=_planning.ALL_DIRECTIONS)  # weights are judged
    n_counted = getattr(plan, "n_counted", None)
    if released is None or not terms.is_private:
        return found
    try:
        if is_exact:
            return found.judged(*_planning.spread(plan, terms, released, draft.places), terms)
        if n_counted is None:
            return found
        curvature = _planning.Curvature.of(plan.space, draft.places, draft.coding.codes)
        noise = half * plan.expected_score_noise(curvature, n_counted)
        found = replace(found, noise=noise, kind="expected")
        seen = _planning.spread(plan, terms, released, draft.places)
        few = n_counted < _planning.FEW * _planning.rows_needed(plan, plan.space, terms, 1)
        return found.judged(*seen, terms, may_drown=few)
    except (ValueError, ArithmeticError):
        # A user's function fails at a public point, or numbers overflow: the model is paid for.
        return found


def _check_size(n_rows: int, terms: Terms) -> None:
    """Raise ValueError for more rows than the bounds on rounding errors hold for."""
    if n_rows <= terms.max_rows:
        return
    if terms.kernel_error:
        raise ValueError(
            f"An exact kernel takes at most {terms.max_rows} rows; give a feature_map for more, "
            "such as RBFSampler or PolynomialCountSketch."
        )
    raise ValueError(f"A learner takes at most {terms.max_rows} rows; sample that many.")
