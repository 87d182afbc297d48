"""What all private kernel learners share: from a table to a private minimiser, and its price."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._computing import progress
from ..privacy import PrivacyGuarantee
from ..privacy._clone_watch import own_clone
from ..privacy._contract import PrivateFit
from ..privacy._mechanisms import Mechanism
from ..schema._reading import beside_X, unwrap, validate_table
from ._public_points import draw_landmarks, warn_of_blindness, warn_of_isolation
from .erm._feature_space import FeatureSpace
from .erm._kernel_space import (
    KERNELS,
    KernelSpace,
    PrecomputedSpace,
)
from .erm._losses import Loss
from .erm._problem import (
    ROUNDED_UP,
    Problem,
    Space,
    Terms,
    check_radius,
)
from .mechanisms._functional import public_regularization

# Public points at which landmarks are tried out.
_N_PROBES = 64


@dataclass(frozen=True)
class _Draft:
    """A fit that is not paid for: what to minimise, how to release it, and what y's codes mean."""

    problem: Problem
    plan: Any
    coding: Any
    privacy: PrivacyGuarantee


class BaseKernelLearner(PrivateFit, BaseEstimator):
    """A regularised loss over a kernel's space, minimised to a certified distance.

    Subclasses say what is released of the minimiser (`_plan`), and what labels mean
    (`ClassifierTarget`, `RegressorTarget`).
    """

    # Mechanisms that have a pure guarantee, and those that give an answer for kernels.
    _pure: ClassVar[tuple[str, ...]] = ()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "kernel_params": [None, dict],
        "feature_map": [None, HasMethods(["fit", "transform"])],
        "norm_bound": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "regularization": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        **PrivateFit._parameter_constraints,
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    # ---- what subclasses say

    @abstractmethod
    def _describe_target(self, y: NDArray) -> tuple[Loss, Any, str]:
        """Return the loss, the coding of y, and what the guarantee takes as given about y."""

    @abstractmethod
    def _plan(self, space: Space, terms: Terms, public: NDArray | None) -> Any:
        """Return the mechanism that releases something of the minimiser, with its cost."""

    @abstractmethod
    def _release(self, plan: Any, problem: Problem) -> None:
        """Minimise, release, and set what is fitted."""

    def _n_coordinates(self, space: Space, public: NDArray | None, n_scores: int) -> int:
        """Return the dimension of what is released."""
        if isinstance(space, FeatureSpace):
            return space.n_features * n_scores
        return n_scores * (1 if public is None else len(public))

    # ---- the fit

    def _fit(self, X: Any, y: Any, X_public: Any = None) -> None:
        with progress(f"{type(self).__name__}.fit", self.verbose):
            self._private_fit(X, y, X_public)

    def planned_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism:
        """Return what `fit` would cost, from public numbers: nothing is minimised or charged."""
        self._check_parameters()
        problem, _, _, public = self._pose(X, y, X_public)
        return self._plan(problem.space, problem.terms, public).mechanism

    def least_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism | None:
        """Return what `fit` would cost at least, whatever its epsilon; None if that is nothing."""
        return None

    def kernel_diag(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x) of rows, as `fit` takes them. Nothing is fitted or charged.

        The rows with the largest are those that a release is calibrated to hide: an audit looks
        for them (`skdpsumm.audit.worst_case_neighbours`).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All pairs are evaluated: some 1,000 rows at most.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        copy = own_clone(self).set_params(epsilon=np.inf, ledger=None)
        rows = validate_table(copy, X)
        space, rows, _ = copy._open_space(rows, rows)
        return np.diag(space.gram(rows, rows))

    def _pose(self, X: Any, y: Any, X_public: Any) -> tuple[Problem, Any, str, Any]:
        """Return what is to be minimised, the coding of y, what is given of it, public points."""
        X, y = self._validate(X, y)
        loss, coding, given = self._describe_target(y)
        space, rows, public = self._open_space(X, unwrap(X_public))
        terms = self._make_terms(space, loss, coding.n_scores, public)
        _check_size(len(X), terms)
        return Problem(space, rows, coding.encode(y), terms), coding, given, public

    def _draft(self, X: Any, y: Any, X_public: Any) -> _Draft:
        problem, coding, given, public = self._pose(X, y, X_public)
        plan = self._plan(problem.space, problem.terms, public)
        problem.check(**getattr(plan, "demands", {}))
        if public is not None:
            problem.check_points(public)
        return _Draft(problem, plan, coding, self._guarantee(plan, given))

    def _publish(self, draft: _Draft) -> None:
        self._release(draft.plan, draft.problem)
        self._coding, self.privacy_ = draft.coding, draft.privacy
        terms = draft.problem.terms
        self.regularization_, self.sensitivity_ = terms.regularization, terms.sensitivity

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.delta == 0 and self.epsilon != np.inf and self.mechanism not in self._pure:
            raise ValueError(
                f"mechanism={self.mechanism!r} of {type(self).__name__} has no pure guarantee; set "
                f"delta > 0, or take one of {sorted(self._pure)}."
            )
        if self.kernel == "precomputed" and not self._takes_public_points:
            raise ValueError(
                f"{type(self).__name__} needs kernel values between points that it has not seen: "
                "give a callable kernel, of indices into your own matrix if need be, in place of "
                "kernel='precomputed'."
            )

    def _validate(self, X: Any, y: Any) -> tuple[NDArray, NDArray]:
        return validate_table(self, X, y)

    def _open_space(self, X: NDArray, X_public: Any) -> tuple[Space, NDArray, NDArray | None]:
        """Return the space, the rows of X in it, and the public points in it."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        intercept = float(self.intercept_scaling) if self.fit_intercept else 0.0
        norm_bound, n_columns = float(self.norm_bound), X.shape[1]
        if self.kernel == "precomputed" and self.feature_map is None:
            return PrecomputedSpace.split(X, X_public, norm_bound, intercept)
        if self.feature_map is not None or self.kernel == "linear":
            space: Space = FeatureSpace.of(self.feature_map, n_columns, norm_bound, intercept, seed)
        else:
            space = KernelSpace(self.kernel, self._kernel_params(), norm_bound, intercept)
            space.try_out(n_columns)
        space.check(X)
        return space, X, self._public_points(X_public, space, seed)

    def _public_points(self, X_public: Any, space: Space, seed: int) -> NDArray | None:
        """Return the public points: those given, or landmarks where the kernel needs some."""
        if X_public is not None:
            with beside_X("X_public"):
                points = validate_table(self, X_public, reset=False).astype(np.float64)
                space.check(points)
            if isinstance(space, KernelSpace):
                warn_of_isolation(space, points, self.kernel)
            return points
        if isinstance(space, FeatureSpace) or not self._needs_landmarks():
            return None
        if self.bounds is None:
            raise ValueError(
                f"{type(self).__name__} with kernel={self.kernel!r} needs public points: "
                + ("pass them to fit as X_public, or " if self._takes_public_points else "")
                + "give the public (low, high) of the columns as bounds, to draw landmarks from, "
                "or an explicit feature_map."
            )
        names = getattr(self, "feature_names_in_", None)
        box = self.bounds, self.n_features_in_
        landmarks = draw_landmarks(*box, int(self.n_landmarks), seed, names)
        others = draw_landmarks(*box, _N_PROBES, seed + 1, names)
        warn_of_blindness(space, landmarks, others, self.kernel)
        return landmarks

    _takes_public_points: ClassVar[bool] = False

    def _needs_landmarks(self) -> bool:
        return hasattr(self, "n_landmarks")

    def _kernel_params(self) -> dict[str, Any]:
        if callable(self.kernel):
            return dict(self.kernel_params or {})
        if self.kernel == "cosine":
            return {}
        params = {"gamma": float(self.gamma)}
        if self.kernel in ("poly", "polynomial"):
            params |= {"degree": int(self.degree), "coef0": float(self.coef0)}
        return params

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
        )
        if self.regularization == "auto":
            chosen = self._auto_regularization(space, terms, public)
        else:
            chosen = float(self.regularization)
        terms = replace(terms, regularization=chosen)
        terms.check()
        return terms

    def _auto_regularization(self, space: Space, terms: Terms, public: NDArray | None) -> float:
        return public_regularization(
            terms.loss,
            space.radius,
            epsilon=terms.epsilon,
            delta=terms.delta,
            adjacency=terms.adjacency,
            n_coordinates=self._n_coordinates(space, public, terms.n_scores),
        )

    def _guarantee(self, plan: Any, given: str) -> PrivacyGuarantee:
        facts = ["the parameters of the estimator"]
        facts += [given] if given else []
        facts += self._given_of_kernel()
        facts += ["the number of rows"] if self.adjacency == "replace_one" else []
        return PrivacyGuarantee(
            plan.mechanism,
            self.adjacency,
            protects="the rows of X and y",
            given=", and ".join(facts),
            simulated=self.noise_seed is not None,
            idealised=plan.idealised,
        )

    def _given_of_kernel(self) -> list[str]:
        """Return what is taken on trust of a kernel that the user computes, in tables."""
        if self.feature_map is not None or self.kernel in KERNELS:
            return []
        return [
            "that the kernel is positive semi-definite, and a function of two rows alone, up to "
            "rounding errors"
        ]

    # ---- predictions

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Return the released scores of each row, shape (n, q)."""
        check_is_fitted(self, "privacy_")
        return self.predictor_.scores(validate_table(self, X, reset=False))


def _check_size(n_rows: int, terms: Terms) -> None:
    """Raise ValueError for more rows than the bounds on rounding errors hold for."""
    if n_rows <= terms.max_rows:
        return
    if terms.kernel_error:
        raise ValueError(
            f"An exact kernel takes at most {terms.max_rows} rows; give an explicit feature_map "
            "(RBFSampler, PolynomialCountSketch) for more."
        )
    raise ValueError(f"A learner takes at most {terms.max_rows} rows; sample that many.")
