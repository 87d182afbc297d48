"""The private summary over Flower: what the agreement fixes, and what comes of the sum."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

if importlib.util.find_spec("flwr") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

from simulated import simulate
from sklearn.base import clone

from skdpsumm import M2MClassifier, PrivacyLedger, SketchSummarizer
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._curator import merge_sketches
from skdpsumm.federated._envelope import Keys
from skdpsumm.summaries import summary_sketcher

pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
SCHEMA = {"a": (0, 1), "b": (0, 1), "ill": [0, 1]}
KEYS = {name: Keys().public for name in ("curator", "north", "south")}
BUDGET = {"epsilon": 3.0, "delta": 1e-6, "random_state": 0}


def agreement(**options):
    part = {"kind": "summary", "target": "ill", "n_owners": 2, **options}
    return Agreement(["north", "south"], SCHEMA, KEYS, sketch={"sketchers": [part], **BUDGET})


def table(seed, n=4000):
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, n))
    return pd.DataFrame({"a": a, "b": b, "ill": ((b > 0.5) == (a > 0.5)).astype(int)})


def test_the_agreement_fixes_the_groups_of_the_protocol():
    ours = agreement()
    found = ours.sketcher().preview_map(3, list(SCHEMA))
    alone = summary_sketcher(SCHEMA, "ill", n_owners=2, epsilon=3.0)
    assert found.same_as(alone.preview_map(3, list(SCHEMA)))
    assert ours.digest != agreement(rows_per_owner=50).digest
    few = agreement(rows_per_owner=20).sketcher().preview_map(3, list(SCHEMA))
    assert few.groups == ((0, 2), (1, 2))


def test_owners_release_once_each_and_the_consumer_weighs_at_home():
    ours, sketches = agreement(), []
    for k in range(2):
        ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
        sketches.append(simulate(ours.sketcher(ledger=ledger), table(k), seed=k).sketch_)
        assert len(ledger.entries()) == 1
        assert ledger.spent.epsilon == pytest.approx(sketches[-1].privacy.epsilon(1e-5), rel=1e-4)
    merged = merge_sketches(dict(zip(ours.owners, sketches, strict=True)))
    assert merged.privacy.mechanism == sketches[0].privacy.mechanism
    assert "no row is in two of the tables" in merged.privacy.given
    assert merged.privacy.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)
    held = table(8)
    held = held[held.a > 0.8]
    options = {"target": "ill", "n_synthetic": 5000, "random_state": 0}
    target = table(9)[["a", "b"]]
    rows = target[target.a > 0.8]
    plain = M2MClassifier.from_sketch(merged, **options)
    many = SketchSummarizer.from_sketch(merged, 8000, X_target=rows, **options)
    weighted = clone(plain.estimator_).fit(many.X_, many.y_)
    assert weighted.score(held[["a", "b"]], held.ill) > 0.85
    assert plain.score(held[["a", "b"]], held.ill) < 0.7
    home = SketchSummarizer.from_sketch(merged, 60, X_target=rows, **options)
    assert home.X_.a.mean() > 0.8
    assert set(home.y_) <= {0, 1}
    assert home.privacy_.consumer.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize(
    ("part", "match"),
    [
        ({"target": None}, "target is missing"),
        ({"target": "no such"}, "target"),
        ({"n_owners": 0}, "n_owners"),
        ({"ledger": "mine"}, "unknown entries"),
    ],
)
def test_what_cannot_be_agreed_is_refused(part, match):
    with pytest.raises(ValueError, match=match):
        agreement(**part)
