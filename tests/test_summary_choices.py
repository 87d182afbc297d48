"""Defaults that follow from the noise, and owners that are not honest."""

from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from answers import said
from curators import curator_of, points, summarizer_of
from paper_protocols import AskAll
from refusals import refused

from skdpsumm.features._feature_maps import GRID
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._noise import IntegerNoise
from skdpsumm.summaries import DataOwner, Pool, Propose
from skdpsumm.summaries._mmd import Embedding, Quotas, exact_search
from skdpsumm.summaries._parties import draw_tilted, maximum_entropy, run_protocol, tilted_scores
from skdpsumm.summaries._protocol import Rows

FEW_OWNERS = pytest.mark.filterwarnings("ignore:Raise max_share_per_owner")
pytestmark = [pytest.mark.simulated(0), FEW_OWNERS]
SIMULATED = {"random_state": 0, "n_components": 200, "gamma": 0.5}


def run(parties, X_target=None, **options):
    target = points(100, 2.0, seed=9) if X_target is None else X_target
    curator = curator_of(target, list(parties), **{**SIMULATED, "n_select": 20, **options})
    return run_protocol(curator, parties)


# ------------------------------------------------------------------------- weights from the noise


@pytest.fixture(scope="module")
def scene():
    """Return an owner's rows, of which a tenth is like the target, phi, and the target's mean."""
    X = np.vstack([points(900), points(100, 3.0, seed=1)])
    phi = Embedding.draw(2, 400, 0.5, "pairs", np.random.RandomState(0))
    target = phi.features(points(500, 3.0, seed=2)).mean(axis=0, dtype=np.float64)
    return X, phi.features(X), target


def weights(scene, noise_std, seed=0):
    X, phi, target = scene
    noise = np.random.default_rng(seed).normal(0, noise_std, target.shape)
    told = target + noise, noise_std, np.random.default_rng(0)
    scores = tilted_scores(lambda rows: (X[rows], phi[rows]), len(X), *told)
    found = np.exp(scores - scores.max())
    return found / found.sum()


def test_without_much_noise_weights_match_the_target(scene):
    _, features, target = scene
    found = weights(scene, 1e-3)
    assert found[900:].sum() > 0.9
    left, all_equal = found @ features - target, features.mean(axis=0) - target
    assert np.linalg.norm(left) < 0.3 * np.linalg.norm(all_equal)


def test_with_much_noise_each_row_keeps_half_of_an_equal_weight(scene):
    assert weights(scene, 3.0).min() > 0.4 / 1000


def test_rare_rows_are_found_where_the_target_consists_of_them():
    X = 0.7 * (np.random.default_rng(0).random((1100, 20)) < 0.5)
    X[:, 0] = 0
    X[:105, 0] = 0.7  # the first 100 are the target, and 5 of the others are like it
    phi = Embedding.draw(20, 1000, 0.13, "pairs", np.random.RandomState(0)).features(X)
    found = weights((X[100:], phi[100:], phi[:100].mean(axis=0, dtype=np.float64)), 0.04)
    assert set(range(5)) <= set(draw_tilted(np.log(found), 80, np.random.default_rng(0)))


def test_weights_solve_the_problem_that_is_stated(scene):
    """The dual's solution: where the gradient vanishes, b is the residual over the ridge."""
    _, features, target = scene
    prior = np.linspace(-1, 1, len(features))
    b = maximum_entropy(features, prior, target, 0.02)
    found = np.exp(prior + features @ b)
    residual = target - found / found.sum() @ features
    np.testing.assert_allclose(b, residual / 0.02, atol=0.02 * np.abs(b).max())


@pytest.mark.statistical
def test_draws_follow_the_weights():
    """One of three rows; each count is within six standard errors: fails with 6e-9."""
    p = np.array([0.2, 0.3, 0.5])
    rng = np.random.default_rng()
    counts = np.bincount([draw_tilted(np.log(p), 1, rng)[0] for _ in range(20_000)], minlength=3)
    assert np.all(np.abs(counts - 20_000 * p) < 6 * np.sqrt(20_000 * p * (1 - p)))


def test_the_size_of_the_noise_is_told_and_public():
    owners = {k: DataOwner(points(100, seed=k), seed=k) for k in range(2)}
    curator = run(owners, n_target=100)
    message = curator.transcript[0][0]
    assert message.noise == pytest.approx(1 / (gdp_mu(1.0, 1e-6) * 100), rel=1e-3)
    assert run(owners, epsilon=np.inf).transcript[0][0].noise is None
    assert run(owners, protocol="pool").transcript[0][0].noise is None


# ------------------------------------------------------------------------------- a dishonest owner


class Flood(DataOwner):
    """Sends all it has, with flipped labels, at the first question."""

    def answer(self, message):
        rows = super().answer(message)
        if self._remaining.sum() + len(rows.indices) < len(self._X):
            return Rows(rows.indices[:0], rows.X[:0], rows.y[:0])
        return Rows(np.arange(len(self._X)), self._X, 1 - self._y)


def labelled(n, centre, seed, kind=DataOwner):
    X = points(n, centre, seed)
    return kind(X, (X[:, 0] > centre).astype(int), seed=seed)


@pytest.mark.parametrize("protocol", [Propose(), Pool(), AskAll(4)])
def test_who_sends_more_than_agreed_is_left_out(protocol):
    owners = {k: labelled(100, 2.0, k) for k in range(9)}
    owners["bad"] = labelled(3000, 2.0, 9, Flood)
    curator = run(owners, protocol=protocol)
    assert "more rows" in curator.dropped_owners["bad"]
    assert "bad" not in {owner for owner, _ in curator.chosen}


@pytest.mark.parametrize("protocol", [Propose(), Pool(), AskAll(4)])
def test_no_owner_has_more_than_its_part_of_the_summary(protocol):
    """One of ten holds all that is like the target: a quarter is the most it may have."""
    owners = {k: labelled(100, -4.0, k) for k in range(9)}
    owners["special"] = labelled(300, 2.0, 9)
    options = {"protocol": protocol, "epsilon": 50.0, "n_select": 20}
    with pytest.warns(UserWarning, match="max_share_per_owner"):
        bounded = run(owners, **options)
    assert sum(owner == "special" for owner, _ in bounded.chosen) == 5
    assert len(bounded.chosen) == len(set(bounded.chosen)) == 20
    owners = {k: labelled(100, -4.0, k) for k in range(9)}
    owners["special"] = labelled(300, 2.0, 9)
    free = run(owners, **options, max_share_per_owner=1.0)
    assert sum(owner == "special" for owner, _ in free.chosen) > 5


@pytest.mark.parametrize(
    ("n_owners", "share", "most"),
    [(1, 1, 20), (2, 0.5, 20), (4, 0.25, 13), (5, 0.2, 10), (10, 0.1, 5), (40, 0.025, 5)],
)
def test_the_default_bound_is_a_public_number(n_owners, share, most):
    terms = curator_of(points(5), range(n_owners), n_select=20, gamma=1.0).terms
    assert terms.most_chosen(share) == most


def test_quotas_are_kept_through_swaps_and_restarts():
    X, target = points(300), points(50, 1.0, seed=1)
    codes = (X[:, 0] > 0).astype(int)
    free = exact_search(X, target, 20, 0.5).run(True, 20, np.random.RandomState(0))
    assert np.bincount(codes[free])[1] > 12
    for most in ([20, 12], [5, 12], [20, 0]):
        quotas = Quotas(codes, np.array(most))
        search = exact_search(X, target, 20, 0.5, quotas=quotas)
        chosen = search.run(True, 20, np.random.RandomState(0))
        assert len(set(chosen.tolist())) == len(chosen) == min(20, sum(most))
        assert np.all(np.bincount(codes[chosen], minlength=2) <= most)
        assert quotas.are_reached(chosen)
    loose = exact_search(X, target, 20, 0.5, quotas=Quotas(codes, np.array([20, 20])))
    np.testing.assert_array_equal(loose.run(True, 20, np.random.RandomState(0)), free)


# ------------------------------------------------------------------------------------------ labels

BAD_LABELS = {
    "missing": np.full(20, np.nan),
    "words": np.full(20, "1"),
    "objects": np.array([object()] * 20),
    "mixed": np.array(["a", 1] * 10, dtype=object),
    "none": None,
    "times": np.zeros(20, "M8[s]"),
}


@pytest.mark.parametrize("kind", BAD_LABELS)
@pytest.mark.parametrize("first", [True, False])
def test_labels_that_would_spoil_those_of_others_are_left_out(kind, first):
    class Bad(DataOwner):
        def answer(self, message):
            rows = super().answer(message)
            labels = BAD_LABELS[kind]
            return Rows(rows.indices, rows.X, None if labels is None else labels[: len(rows.X)])

    bad = {"bad": Bad(points(100, 2.0), np.zeros(100, int), seed=0)}
    good = {k: labelled(100, 2.0, k) for k in range(8)}
    curator = run({**bad, **good} if first else {**good, **bad})
    assert list(curator.dropped_owners) == ["bad"]
    assert "labels" in curator.dropped_owners["bad"]
    assert (len(curator.chosen), curator.y.dtype) == (20, np.int64)
    for (owner, index), row, label in zip(curator.chosen, curator.X, curator.y, strict=True):
        assert owner != "bad"
        np.testing.assert_array_equal(good[owner]._X[index], row)
        assert good[owner]._y[index] == label


# ------------------------------------------------------------------------- arrays that are shared


@pytest.mark.parametrize("protocol", [Propose(), AskAll(4)])
def test_an_owner_cannot_write_to_what_it_has_sent(protocol):
    class Writer(DataOwner):
        sent: ClassVar[list[Rows]] = []

        def answer(self, message):
            for rows in self.sent:  # of the rounds before
                rows.X[...], rows.y[...], rows.indices[...] = np.nan, -7, 0
            rows = super().answer(message)
            self.sent.append(Rows(rows.indices.copy(), rows.X.copy(), rows.y.copy()))
            return self.sent[-1]

    writer = labelled(200, 2.0, 0, Writer)
    curator = run({"writer": writer, "other": labelled(200, 2.0, 1)}, protocol=protocol)
    for rows in Writer.sent:
        rows.X[...], rows.y[...] = np.nan, -7
    assert np.isfinite(curator.X).all()
    assert set(curator.y.tolist()) <= {0, 1}
    assert curator.dropped_owners == {}


# ----------------------------------------------------------------- one table with all owners' rows


def table(n=240):
    X = np.vstack([points(n, 2.0, seed=k) for k in range(3)])
    return X, (X[:, 0] > 2).astype(int), np.repeat(["a", "b", "c"], n)


def summarizer(**options):
    return summarizer_of(20, **{**SIMULATED, **options})


@pytest.mark.parametrize("protocol", ["propose", "pool"])
@pytest.mark.parametrize("cell", [np.nan, np.inf, "word", None])
def test_one_owners_bad_cell_leaves_that_owner_out(cell, protocol):
    X, y, owners = table()
    spoilt = X.astype(object) if isinstance(cell, str | None) else X.copy()
    spoilt[300, 1] = cell
    target = points(100, 2.0, seed=9)
    s = summarizer(protocol=protocol)
    with pytest.warns(UserWarning, match="1 of 3 owners take no part"):
        s.fit(spoilt, y, X_target=target, owners=owners)
    assert s.dropped_owners_ == {"b": "has rows that cannot be read"}
    assert set(owners[s.sample_indices_]) == {"a", "c"}
    # What others see and send is what they would if the owner had not answered.
    absent = summarizer(protocol=protocol, shares=dict.fromkeys("abc", 1.0))
    others = owners != "b"
    absent.fit(X[others], X_target=target, owners=owners[others])
    chosen = np.flatnonzero(others)[absent.sample_indices_]
    np.testing.assert_array_equal(s.sample_indices_, chosen)


def test_whether_an_owner_without_rows_takes_part_hangs_on_no_row_of_somebody_else():
    X, _, owners = table()
    rows = X.tolist()  # of which none has no columns, either
    rows[300][1] = "word"
    s = summarizer(shares=dict.fromkeys(["a", "b", "c", "none"], 0.25))
    with pytest.warns(UserWarning, match="1 of 4 owners take no part"):
        s.fit(rows, X_target=points(100, 2.0, seed=9), owners=owners)
    assert set(s.dropped_owners_) == {"b"}


def test_a_table_that_nobody_can_read_is_refused_and_costs_nothing():
    X, _, owners = table()
    target = points(10)
    refused("NaN", summarizer().fit, np.full_like(X, np.nan), X_target=target, owners=owners)
    X[0, 0] = np.nan
    refused("NaN", summarizer().fit, X, X_target=target)  # one owner, and nobody else to go on with
    refused("NaN", summarizer().fit, X, X_target=X, owners=owners)  # all rows are the target


def test_who_takes_part_hangs_on_no_label_of_somebody_else():
    X, _, owners = table()
    labels = np.ones(len(X), object)
    labels[owners == "c"] = "word"
    seen = []
    for label in (1, 1.5):  # of one row of "b"
        labels[np.flatnonzero(owners == "b")[0]] = label
        s = summarizer(protocol=AskAll(5))
        given = {"X_target": points(100, 2.0, seed=9), "owners": owners}
        told = said(partial(s.fit, X, labels, **given), UserWarning)[1]
        assert list(s.dropped_owners_) == ["c"]
        assert any("1 of 3" in text for text in told)
        seen.append([message.n for message in s.transcript_["a"]])
        assert len(s.transcript_["c"]) == len(s.transcript_["a"])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("protocol", ["propose", "pool", AskAll(4)])
@pytest.mark.parametrize(
    "options", [{}, {"target_is_owners": True}, {"adjacency": "replace_one", "n_target": 90}]
)
def test_messages_follow_from_releases_alone(monkeypatch, protocol, options):
    def pinned(self, index, values, noise_seed):
        if len(values) == 1:  # the number of rows of the target
            return np.full(1, 100.0 * GRID)
        return np.random.default_rng(index).normal(size=len(values)) * 10 * GRID

    monkeypatch.setattr(IntegerNoise, "add_block", pinned)
    X, y, owners = table()
    few = (owners == "a") | (np.arange(len(X)) % 20 == 0)  # of the others', other rows
    others = np.where((owners == "a")[:, None], X, points(len(X), 5.0, seed=7))
    one = X, y, points(100), owners
    other = others[few], y[few] == 0, points(37, 3.0, seed=8), owners[few]
    seen, n_accessed = [], []
    for rows, labels, target, whose in (one, other):
        s = summarizer(protocol=protocol, **options)
        s.fit(rows, labels, X_target=target, owners=whose)
        seen.append([_content(message) for message in s.transcript_["a"]])
        n_accessed.append(s.n_accessed_)
    assert seen[0] == seen[1]
    assert min(n_accessed) >= 40


def _content(message):
    told = {k: v for k, v in vars(message).items() if k != "embedding"}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in told.items()}
