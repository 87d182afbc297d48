"""What the page for those who sign says of mechanisms is what the claims say."""

import numpy as np
import pytest

from skdpsumm.learners import PINPClassifier, TDDLClassifier, TDILClassifier
from skdpsumm.sketches import AdaptiveSketcher
from skdpsumm.summaries import PrivateMMDSummarizer

RNG = np.random.default_rng(0)
X, Z = RNG.uniform(-1, 1, (300, 2)), RNG.uniform(-1, 1, (30, 2))
Y, OWNERS = (X[:, 0] > 0).astype(int), np.arange(300) % 3


def words(claim):
    """Return epsilon at delta = 1e-6, or at 0 ("pure"), and whether the claim is idealised."""
    pure, epsilon = claim.epsilon(0), claim.epsilon(1e-6)
    cost = f"{epsilon:.3g}" if np.isinf(pure) else f"pure {pure:.3g}"
    return cost + ", idealised" * claim.idealised


@pytest.mark.parametrize(("delta", "claim"), [(1e-6, "1"), (0, "pure 1")])
def test_a_sketch(delta, claim):
    assert words(AdaptiveSketcher((-1, 1), delta=delta).fit(X).privacy_) == claim


@pytest.mark.parametrize(
    ("protocol", "claims"),
    [
        ("propose", ("1", "pure 0", "inf")),
        ("pool", ("pure 0", "pure 0", "inf")),
        ("auction", ("1", "inf", "inf")),
    ],
)
def test_summaries(protocol, claims):
    summarizer = PrivateMMDSummarizer(n_select=10, protocol=protocol, gamma=0.5, n_components=50)
    found = summarizer.fit(X, X_target=Z, owners=OWNERS).privacy_
    assert tuple(words(one) for one in (found.target, found.owners, found.consumer)) == claims


@pytest.mark.parametrize(
    ("kind", "mechanism", "gaussian", "pure"),
    [
        (PINPClassifier, "functional", "1", "pure 1, idealised"),
        (PINPClassifier, "svt", "1", "pure 1"),
        (PINPClassifier, "threshold", "1", None),
        (TDDLClassifier, "functional", "1", "pure 1, idealised"),
        (TDDLClassifier, "laplace", "1", "pure 1"),
        (TDDLClassifier, "gradient", "1", None),
        (TDILClassifier, "functional", "1", "pure 1, idealised"),
        (TDILClassifier, "objective", "1", "pure 1, idealised"),
        (TDILClassifier, "exponential", "1, idealised", "pure 1, idealised"),
        (TDILClassifier, "gradient", "1", None),
    ],
)
def test_mechanisms_of_learners(kind, mechanism, gaussian, pure):
    public = {"X_public": Z} if kind is TDDLClassifier else {}
    for delta, claim in ((1e-6, gaussian), (0, pure)):
        if claim is not None:
            model = kind(kernel="linear", mechanism=mechanism, delta=delta)
            assert words(model.fit(X, Y, **public).privacy_) == claim
