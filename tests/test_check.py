"""`check_private_estimator`: an outsider's right estimator passes, and each wrong one fails."""

import numpy as np
import pytest
from refusals import refused
from sklearn.base import BaseEstimator

from skdpsumm import BudgetExceededError, TDDLClassifier, TDILRegressor, check_private_estimator
from skdpsumm.learners import LaplaceAnswers
from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP, gdp_mu


class PrivateSum(BaseEstimator):
    """The sum of one column in [0, 1], as somebody may write it who knows the convention alone."""

    part = 1.0  # of the noise that the claim needs

    def __init__(self, epsilon=1.0, delta=0.0, ledger=None):
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger

    def fit(self, X, y=None):
        X = np.clip(np.asarray(X, float)[:, 0], 0, 1)
        self.charge(PrivacyGuarantee(self.mechanism()))
        self.sum_ = X.sum() + self.draw()
        self.n_features_in_ = 1
        return self

    def mechanism(self):
        return GaussianDP(gdp_mu(self.epsilon, self.delta)) if self.delta else PureDP(self.epsilon)

    def charge(self, guarantee):
        if self.ledger is not None:
            self.ledger.charge(guarantee)
        self.privacy_ = guarantee

    def draw(self):
        rng = np.random.default_rng()
        if self.delta:
            return rng.normal(scale=self.part / gdp_mu(self.epsilon, self.delta))
        return rng.laplace(scale=self.part / self.epsilon)


class TooLittleNoise(PrivateSum):
    part = 0.1


class ChargesNothing(PrivateSum):
    def charge(self, guarantee):
        self.privacy_ = guarantee


class ChargesHalf(PrivateSum):
    def charge(self, guarantee):
        super().charge(PrivacyGuarantee(PureDP(self.epsilon / 2)))
        self.privacy_ = guarantee


class ChargesWhenAllIsDone(PrivateSum):
    def charge(self, guarantee):
        self.privacy_ = guarantee
        super().charge(guarantee)


class IgnoresRefusals(PrivateSum):
    def charge(self, guarantee):
        try:
            super().charge(guarantee)
        except BudgetExceededError:
            self.privacy_ = guarantee


class ClaimsMore(PrivateSum):
    def mechanism(self):
        return PureDP(2 * self.epsilon)


class ClaimsNothing(PrivateSum):
    def charge(self, guarantee):
        pass


class DrawsFromASeed(PrivateSum):
    def charge(self, guarantee):
        super().charge(PrivacyGuarantee(guarantee.mechanism, simulated=True))


class TellsTheNumberOfRows(PrivateSum):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.n_samples_ = len(X)
        return self


class CountsBeforeTheCharge(PrivateSum):
    def fit(self, X, y=None):
        self.n_samples_ = len(X)
        return super().fit(X, y)


class TellsItInWords(PrivateSum):
    """In a dict of an object of its own, as text."""

    class Report:
        def __init__(self, X):
            self.lines = {"title": f"the sum of {len(X)} rows"}

    def fit(self, X, y=None):
        super().fit(X, y)
        self.report_ = self.Report(X)
        return self


class TellsItByNothing(PrivateSum):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.rest_ = None if len(X) % 2 else 0.0
        return self


class HasNoLedger(BaseEstimator):
    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        self.privacy_ = PrivacyGuarantee(PureDP(self.epsilon))
        return self


class HasNoEpsilon(BaseEstimator):
    def fit(self, X, y=None):
        return self


PAIR = np.full((5, 1), 0.5), np.array([[0.5]] * 5 + [[1.0]])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_right_one_passes(delta, unpaid):
    model = PrivateSum(delta=delta)
    assert check_private_estimator(model, *PAIR, n_trials=400).lower_bound <= 1.0
    assert not hasattr(model, "privacy_")
    model.set_params(ledger=unpaid)
    check_private_estimator(model, *PAIR, release=lambda fitted: fitted.sum_, n_trials=200)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (TooLittleNoise(), "its releases give .* away. Its noise is too small"),
        (TooLittleNoise(delta=1e-6), "Its noise is too small"),
        (ChargesNothing(), "charged its ledger 0"),
        (ChargesHalf(), "charged its ledger 0.5"),
        (ChargesWhenAllIsDone(), "refused by its ledger, and keeps privacy_"),
        (IgnoresRefusals(), "no room for its claim"),
        (ClaimsMore(), "claims epsilon=2"),
        (ClaimsNothing(), "needs privacy_"),
        (DrawsFromASeed(), "noise of a seed"),
        (TellsTheNumberOfRows(), "no noise: n_samples_"),
        (CountsBeforeTheCharge(), "refused by its ledger, and keeps n_samples_"),
        (TellsItInWords(), r"no noise: report_\.lines\['title'\]"),
        (TellsItByNothing(), "no noise: rest_"),
        (HasNoLedger(), "parameter ledger"),
        (HasNoEpsilon(), "parameter epsilon"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseEstimator) else "",
)
def test_a_wrong_one_fails(wrong, words):
    refused(words, check_private_estimator, wrong, *PAIR, error=AssertionError, n_trials=300)


def test_estimators_of_the_library_need_no_pair():
    """Of a cost in zCDP, with groups, and with labels."""
    model = TDDLClassifier(schema=(0, 1), classes=[0, 1], gamma=1.0, max_rows_per_group=2)
    model.set_params(mechanism=LaplaceAnswers(n_landmarks=2))
    check_private_estimator(
        model, release=lambda m: m.predictor_.coefficients.ravel(), n_trials=100
    )
    # Where noise drowns a model, it says which epsilon would be enough, and None elsewhere.
    check_private_estimator(TDILRegressor((0, 1), y_bounds=(0, 1)), n_trials=100)


def test_pairs_may_be_arguments_of_fit_or_have_labels():
    y = np.zeros(5), np.zeros(6)
    check_private_estimator(PrivateSum(), *zip(PAIR, y, strict=True), n_trials=200)
    tables = [{"X": table} for table in PAIR]
    with pytest.raises(AssertionError, match="n_samples_"):
        check_private_estimator(TellsTheNumberOfRows(), *tables, n_trials=200)


def test_what_cannot_be_refuted_is_no_success():
    with pytest.raises(ValueError, match="n_trials=100 cannot refute epsilon=9"):
        check_private_estimator(PrivateSum(epsilon=9.0), *PAIR, n_trials=100)


def test_neighbours_of_strangers_are_built_by_hand():
    refused("build a pair by hand", check_private_estimator, PrivateSum(), error=TypeError)
