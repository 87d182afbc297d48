"""What a fit costs a ledger whose cost is more than its epsilon, and what to do about it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .._computing import warn_caller
from ..privacy import BudgetExceededError, BudgetWarning, PrivacyGuarantee
from ..privacy._bisect import bisect
from ..privacy._clone_watch import own_clone
from ..privacy._noise import nominal_mechanism

# Steps of the search for an epsilon that a ledger has room for: each multiplies by the first, down
# to the second part of the user's epsilon. They are short, because under a fixed Lambda no noise
# brings a much smaller epsilon.
_EPSILON_STEP, _MIN_PART_OF_EPSILON = 0.85, 1e-3


def check_price(learner: Any, draft: Any) -> None:
    """Raise, or warn, if a ledger has no room for a fit, or counts much more than its epsilon.

    Raises
    ------
    BudgetExceededError
        With the epsilon that fits, if there is one.
    """
    advice = learner._chosen_mechanism().price_advice(learner.epsilon)
    try:
        learner.ledger.check(draft.privacy)
    except BudgetExceededError as error:
        fits = _fitting_epsilon(learner, draft)
        found = "" if fits is None else f" It fits with epsilon={fits:g} or less."
        raise BudgetExceededError(f"{error} {advice}{found}") from None
    asked = replace(draft.privacy, mechanism=nominal_mechanism(learner.epsilon, learner.delta))
    paid, usual = (learner.ledger.price(one) for one in (draft.privacy, asked))
    # A ledger that counts twice what Gaussian noise costs should not do so unnoticed.
    if paid.epsilon > 2.0 * usual.epsilon:
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
    plan = copy._chosen_mechanism().plan(posed.space, terms, None)
    return replace(draft.privacy, mechanism=plan.mechanism)
