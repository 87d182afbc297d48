"""What every mechanism of a kernel learner states, and the plan that it makes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

from sklearn.base import BaseEstimator

from ...privacy._mechanisms import Mechanism
from ..erm._problem import Minimizer, Problem, Space, Terms


class Plan(Protocol):
    """A mechanism whose noise is fixed, before anything private is minimised.

    Plans of released predictors have `release`. Those of learners that answer as they are asked
    have ``open(problem)``, which returns `AnsweredQueries`. A plan that asks more of the solver
    than `Terms` do says so in `demands`, the arguments of `Problem.check`.

    Attributes
    ----------
    mechanism : Mechanism
        The cost, as the ledger is charged.
    idealised : bool
        Whether the noise is in floating point.
    """

    mechanism: Mechanism
    idealised: bool

    def release(self, problem: Problem) -> Minimizer:
        """Minimise, and return what is released."""


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
    pays_for_curvature : bool
        Whether a row's curvature costs privacy: then smoother losses are the default, and the
        ledger counts more than epsilon where Lambda is small.
    n_landmarks : int or None
        How many landmarks to draw for a kernel where nobody has given public points.
    candidates : array-like or None
        Public points that the mechanism brings itself.
    """

    name: ClassVar[str]
    learners: ClassVar[tuple[str, ...]]
    is_pure: ClassVar[bool] = True
    needs_features: ClassVar[bool] = False
    pays_for_curvature: ClassVar[bool] = False
    n_landmarks: Any = None
    candidates: Any = None
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _named: ClassVar[list[type[LearnerMechanism]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            LearnerMechanism._named.append(cls)

    @abstractmethod
    def plan(self, space: Space, terms: Terms, public: Any) -> Any:
        """Return the `Plan`, with its noise calibrated; raise ValueError where there is none.

        Parameters
        ----------
        space : Space
        terms : Terms
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.
        """

    @abstractmethod
    def default_regularization(
        self, space: Space, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        """Return the public Lambda of ``regularization="auto"``.

        Parameters
        ----------
        space : Space
        terms : Terms
            With any Lambda.
        public : ndarray of shape (T, n_columns) or None
        charged : bool
            Whether a ledger counts the fit.
        """

    def least_cost(self, terms: Terms) -> Mechanism | None:
        """Return what the fit costs at least, whatever its epsilon; None if that is nothing."""
        return None

    def price_advice(self, epsilon: float) -> str:
        """Return why a ledger counts more than epsilon, and what to do; "" if it never does."""
        return ""
