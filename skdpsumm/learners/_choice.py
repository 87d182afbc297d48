"""Which mechanism a learner uses, by public numbers, and what its fit costs a ledger."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from .._computing import warn_caller
from .._sklearn import check_params
from ..privacy import BudgetExceededError, BudgetWarning, PrivacyGuarantee
from ..privacy._bisect import bisect
from ..privacy._clone_watch import own_clone
from ..privacy._noise import nominal_mechanism
from .erm._losses import EpsilonInsensitive, Huber, HuberizedHinge, SoftHinge, as_loss
from .mechanisms._base import LearnerMechanism
from .mechanisms._gradient import SHARPEST

# The largest epsilon of a descent: beyond it the minimiser itself is better than what so many
# steps come to.
_MAX_EPSILON_OF_DESCENT = 30.0
# The largest epsilon for which float64 has the curve of objective perturbation, and a Gaussian that
# dominates it.
_MAX_EPSILON_OF_OBJECTIVE = 1e5
# Steps of the search for an epsilon that a ledger has room for: each multiplies by the first, down
# to the second part of the user's epsilon. They are short, because under a fixed Lambda no noise
# brings a much smaller epsilon.
_EPSILON_STEP, _MIN_PART_OF_EPSILON = 0.85, 1e-3
# A ledger that counts this many times what Gaussian noise costs should not do so unnoticed.
_TIMES_GAUSSIAN_PRICE = 2.0


def mechanisms_of(kind: str) -> dict[str, type[LearnerMechanism]]:
    """Return the mechanisms of a kind of learner ("TDIL", "TDDL", "PINP"), by their names."""
    return {name: one for name, one in LearnerMechanism._named.items() if kind in one.learners}


def choose(learner: Any) -> LearnerMechanism:
    """Return the mechanism that a learner was given, or that the given name stands for."""
    if not isinstance(learner.mechanism, str):
        return learner.mechanism
    name = _automatic(learner) if learner.mechanism == "auto" else learner.mechanism
    return mechanisms_of(learner._kind)[name]()


def _automatic(learner: Any) -> str:
    """Return the name of the best mechanism, by public numbers."""
    if not learner._may_descend:
        return "functional"
    if learner.delta > 0 and learner.epsilon <= _MAX_EPSILON_OF_DESCENT:
        return "gradient"
    kind: Any = "regressor" if is_regressor(learner) else "classifier"
    is_sharp = learner.loss != "auto" and as_loss(learner.loss, kind).smoothness > SHARPEST
    is_priced = learner.epsilon <= _MAX_EPSILON_OF_OBJECTIVE or learner.epsilon == np.inf
    ours = str | SoftHinge | HuberizedHinge | Huber | EpsilonInsensitive
    minimises = learner._kind == "TDIL" and learner._is_explicit
    smooth = isinstance(learner.loss, ours) and not is_sharp
    by_rows = learner.max_rows_per_group is None
    return "objective" if minimises and smooth and is_priced and by_rows else "functional"


def check_choice(learner: Any) -> None:
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
    mechanism = choose(learner)
    check_params(mechanism)
    if learner.delta == 0 and learner.epsilon != np.inf and not mechanism.is_pure:
        pure = sorted(name for name, one in known.items() if one.is_pure)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} has no guarantee with delta=0; set "
            f"delta > 0, or take one of {pure}."
        )
    has_span = mechanism.spans_points and learner._spans_points
    if mechanism.needs_features and not (learner._is_explicit or has_span):
        raise ValueError(
            f"mechanism={mechanism.name!r} works on explicit features, not on "
            f"kernel={learner.kernel!r}; set kernel='linear', or give a feature_map such as "
            "RBFSampler."
        )
    if learner.max_rows_per_group is not None and not mechanism.takes_groups:
        able = sorted(name for name, one in known.items() if one.takes_groups)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} protects single rows only, and "
            f"max_rows_per_group={learner.max_rows_per_group!r} protects groups: take one of "
            f"{able}, or set max_rows_per_group=None."
        )


# ---- what a ledger counts, where it is more than epsilon


def check_price(learner: Any, draft: Any) -> None:
    """Raise, or warn, if a ledger has no room for a fit, or counts much more than its epsilon.

    Raises
    ------
    BudgetExceededError
        With the epsilon that fits, if there is one.
    """
    advice = choose(learner).price_advice(learner.epsilon)
    try:
        learner.ledger.check(draft.privacy)
    except BudgetExceededError as error:
        fits = _fitting_epsilon(learner, draft)
        found = "" if fits is None else f" It fits with epsilon={fits:g} or less."
        raise BudgetExceededError(f"{error} {advice}{found}") from None
    asked = replace(draft.privacy, mechanism=nominal_mechanism(learner.epsilon, learner.delta))
    paid, usual = (learner.ledger.price(one) for one in (draft.privacy, asked))
    if paid.epsilon > _TIMES_GAUSSIAN_PRICE * usual.epsilon:
        warn_caller(
            f"{advice} This fit costs epsilon={paid.epsilon:.4g} in its ledger at "
            f"delta={paid.delta:g}; one with Gaussian noise costs {usual.epsilon:.4g}.",
            BudgetWarning,
        )


def _fitting_epsilon(learner: Any, draft: Any) -> float | None:
    """Return the largest epsilon that the ledger has room for, to two digits, or None.

    All of it is public: the ledger, the parameters and what follows from them.
    """

    def fits(epsilon: float) -> bool:
        try:
            learner.ledger.check(_claim_at(epsilon, learner, draft))
        except BudgetExceededError:
            return False
        return True

    epsilon = float(learner.epsilon)
    try:
        while not fits(epsilon := epsilon * _EPSILON_STEP):
            if epsilon < _MIN_PART_OF_EPSILON * learner.epsilon:
                return None
    except ValueError:  # below this epsilon, a row's curvature alone costs more
        return None
    found = bisect(fits, epsilon, epsilon / _EPSILON_STEP, tolerance=0.005)
    digits = 1 - math.floor(math.log10(found))
    return math.floor(found * 10.0**digits) / 10.0**digits


def _claim_at(epsilon: float, learner: Any, draft: Any) -> PrivacyGuarantee:
    """Return what the same fit would claim at another epsilon."""
    copy, posed = own_clone(learner).set_params(epsilon=epsilon), draft.problem
    terms = copy._make_terms(posed.space, posed.terms.loss, posed.terms.n_scores, None)
    plan = choose(copy).plan(posed.space, terms, None)
    return replace(draft.privacy, mechanism=plan.mechanism)
