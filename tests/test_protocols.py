"""What owners get to see, and what a row more or less changes in it."""

import contextlib
import pickle
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of, points, summarizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_protocols import AskAll, SendBest, printed
from refusals import refused

from skdpsumm import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger, mmd2
from skdpsumm.privacy import PureDP
from skdpsumm.summaries import Auction, DataOwner, Pool, Propose
from skdpsumm.summaries._mmd import Embedding, grid_scores
from skdpsumm.summaries._parties import run_protocol
from skdpsumm.summaries._protocol import Bid, CallForBids, HandOver, ProposeRows, Rows

pytestmark = [
    pytest.mark.simulated(0),
    pytest.mark.filterwarnings("ignore:Pass the rows to match"),
    pytest.mark.filterwarnings("ignore:Raise max_share_per_owner"),
]
SIMULATED = {"random_state": 0, "n_components": 64, "gamma": 0.5}
PROTOCOLS = {"propose": Propose(), "pool": Pool(), "auction": Auction()}
PROTOCOLS["ask_all"] = AskAll(n_rounds=5)


def embedding(d=64, kind="pairs", seed=0):
    return Embedding.draw(2, d, 0.5, kind, np.random.RandomState(seed))


def run(protocol, owners, X_target=None, **options):
    target = points(100, 2.0, seed=9) if X_target is None else X_target
    options = {**SIMULATED, "n_select": 20, **options}
    curator = curator_of(target, list(owners), protocol=protocol, **options)
    parties = {
        name: owner if hasattr(owner, "answer") else DataOwner(owner, seed=k)
        for k, (name, owner) in enumerate(owners.items())
    }
    return run_protocol(curator, parties)


def seen(curator, owner):
    """Return all that an owner saw, as bytes."""
    return pickle.dumps([vars(message) for message in curator.transcript[owner]])


# --------------------------------------------------------------------------------- all protocols


@pytest.mark.parametrize("protocol", ["propose", "auction"])
def test_numbers_of_short_types_round_no_budget(protocol):
    short = {"n_components": np.int16(64), "epsilon": np.float32(0.3), "delta": np.float16(0)}
    terms = summarizer_of(np.int8(20), gamma=0.5, protocol=protocol, **short).terms()
    types = [type(getattr(terms, name)) for name in ("n_select", "n_components")]
    types += [type(getattr(terms, name)) for name in ("epsilon", "delta")]
    assert types == [int, int, float, float]
    assert run(protocol, {"north": points(50)}, n_select=np.int8(20), **short).cost


@pytest.mark.parametrize("name", PROTOCOLS)
def test_all_protocols_choose_rows_of_the_owners(name):
    owners = {"a": points(200), "b": points(200, 2.0, seed=1), "c": points(50, 4.0, seed=2)}
    curator = run(PROTOCOLS[name], owners, epsilon=10.0)
    assert len(curator.chosen) == len(set(curator.chosen)) == 20
    for (owner, index), row in zip(curator.chosen, curator.X, strict=True):
        np.testing.assert_array_equal(owners[owner][index], row)
    assert set(curator.transcript) == set(owners)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_without_noise_they_beat_uniform_choice(name):
    owners = {"a": points(300), "b": points(300, 2.0, seed=1)}
    target = points(100, 2.0, seed=9)
    curator = run(PROTOCOLS[name], owners, target, epsilon=np.inf)
    uniform = np.vstack([owners["a"][:10], owners["b"][:10]])
    assert mmd2(curator.X, target, gamma=0.5) < 0.2 * mmd2(uniform, target, gamma=0.5)


@pytest.mark.parametrize("name", ["propose", "pool"])
def test_an_owner_sees_the_same_whatever_others_hold(name):
    worlds = [
        {"a": points(50), "b": points(50, seed=1)},
        {"a": points(50), "b": points(51, 2.0, seed=2)},
        {"a": points(50), "b": points(0)},
        {"a": points(50), "b": BrokenOwner(ValueError)},
    ]
    assert len({seen(run(PROTOCOLS[name], owners), "a") for owners in worlds}) == 1


def test_pool_tells_nothing_of_the_target():
    owners = {"a": points(50), "b": points(50, seed=1)}
    one = run(Pool(), owners, points(10))
    other = run(Pool(), owners, points(500, 7.0))
    assert seen(one, "a") == seen(other, "a")
    assert one.privacy.target.mechanism == PureDP(0.0)
    assert one.target_mean is None


def test_rounds_do_not_depend_on_what_was_received():
    """As many messages to each owner, each about the same number of rows."""
    others = points(3, seed=1), points(500, 2.0, seed=2)
    worlds = [{"a": points(50), "b": other} for other in others]
    for owner in "ab":
        kinds = {
            tuple((type(m).__name__, getattr(m, "n", None)) for m in run_.transcript[owner])
            for run_ in (run(AskAll(n_rounds=5), owners) for owners in worlds)
        }
        assert len(kinds) == 1


# ------------------------------------------------------------------------------- owners that fail


class BrokenOwner:
    def __init__(self, what):
        self.what = what

    def answer(self, message):
        if isinstance(self.what, type):
            raise self.what("secret 42")
        return self.what


FAULTS = {
    "raised ValueError": ValueError,
    "answered with str": "rubbish",
    "not finite": Rows(np.arange(1), np.array([[np.nan, 0.0]])),
    "shape or type": Rows(np.arange(1), np.zeros((1, 3))),
    "without an index": Rows(np.arange(2), np.zeros((1, 2))),
    "of labels than": Rows(np.arange(1), np.zeros((1, 2)), np.zeros((1, 2))),
    "cannot be read": Rows(np.arange(2), [[1.0], [2.0, 3.0]]),
    "more rows": Rows(np.arange(999), np.zeros((999, 2))),
    "a row twice": Rows(np.zeros(2, int), np.zeros((2, 2))),
    "no row has": Rows(np.array([-1]), np.zeros((1, 2))),
    "index that no": Rows(np.array([2**63], np.uint64), np.zeros((1, 2))),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_an_owner_that_fails_is_left_out(reason):
    owners = {"good": points(200), "bad": BrokenOwner(FAULTS[reason])}
    curator = run(Propose(), owners)
    assert list(curator.dropped_owners) == ["bad"]
    assert reason in curator.dropped_owners["bad"]
    assert "42" not in curator.dropped_owners["bad"]
    assert {owner for owner, _ in curator.chosen} == {"good"}
    assert len(curator.transcript["bad"]) == 1


class WritingOwner:
    """Overwrites whatever a message lets it, and then fails."""

    def answer(self, message):
        embedding = message.embedding
        arrays = [getattr(message, "direction", None)]
        arrays += [] if embedding is None else [embedding.frequencies, embedding.offsets]
        for array in arrays:
            with contextlib.suppress(AttributeError, ValueError):
                array.setflags(write=True)
            with contextlib.suppress(TypeError, ValueError):
                array[...] = 7.0
        raise ValueError


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_owner_that_writes_to_its_message_changes_nothing(name):
    """All owners of a round get the same arrays, and so does the curator."""
    runs = []
    for first in (WritingOwner(), BrokenOwner(ValueError)):
        owners = {"first": first, "later": points(100), "last": points(100, 2.0, seed=1)}
        runs.append(run(PROTOCOLS[name], owners))
    for owner in ("later", "last"):
        assert seen(runs[0], owner) == seen(runs[1], owner)
    assert runs[0].chosen == runs[1].chosen


@pytest.mark.parametrize("bid", [Bid(np.nan, 0), Bid("high", 0), Bid(1.0, None), Bid(1.0, "0")])
def test_a_bid_that_is_none_is_left_out(bid):
    curator = run(Auction(), {"good": points(50), "bad": BrokenOwner(bid)}, n_select=3)
    assert (list(curator.dropped_owners), len(curator.chosen)) == (["bad"], 3)


def test_the_auction_verifies_bids():
    class Boaster(DataOwner):
        def answer(self, message):
            reply = super().answer(message)
            return Bid(reply.score + 1, reply.index) if isinstance(reply, Bid) else reply

    owners = {"good": points(50), "boaster": Boaster(points(50, 5.0, seed=1))}
    curator = run(Auction(), owners, n_select=5, epsilon=50.0)
    assert "bid" in curator.dropped_owners["boaster"]
    assert {owner for owner, _ in curator.chosen} == {"good"}


# ------------------------------------------------------------------------------------ the curator


def test_a_fork_cannot_go_on(monkeypatch):
    curator = curator_of(points(5), ["a"], n_components=8, gamma=1.0)
    monkeypatch.setattr("os.getpid", lambda: -1)
    refused("fork", curator.open, error=RuntimeError)
    refused("fork", curator.receive, {}, error=RuntimeError)


def test_a_huge_row_spoils_nothing():
    for huge in (np.array([[1e308, 0.0]]), np.array([[3e38, -3e38]], np.float32)):
        own, other = (points(200, *at).astype(huge.dtype) for at in ((), (2.0, 1)))
        owners = {"a": np.vstack([own, huge]), "b": other}
        target = points(100, 2.0, seed=9)
        curator = run(Pool(parsimony=100), owners, np.vstack([target, huge]))
        assert np.isfinite(list(curator.owner_values().values())).all()
        assert mmd2(curator.X, target, gamma=0.5) < 0.01


def test_the_auction_always_has_as_many_rounds():
    worlds = [{"a": points(4), "b": points(n, seed=1)} for n in (3, 30)]
    sent = (run(Auction(), owners).transcript["a"] for owners in worlds)
    calls = [sum(isinstance(m, CallForBids) for m in messages) for messages in sent]
    assert calls == [20, 20]


def test_a_curator_runs_once_and_cannot_be_copied():
    curator = run(Propose(), {"a": points(50)})
    refused("opened already", curator.open)
    refused("awaited", curator.receive, {})
    refused("pickled", pickle.dumps, curator, error=TypeError)
    with pytest.raises(ValueError, match="not finished"):
        _ = curator_of(points(5), ["a"], n_components=8, gamma=1.0).chosen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"owners": []}, "owners"),
        ({"owners": ["a", "a"]}, "different"),
        ({"shares": {"a": 1, "b": 1}}, "no others"),
        ({"protocol": AskAll(n_rounds=0)}, "n_rounds"),
        ({"protocol": printed.PrintedAuction()}, "n_target is None"),
        ({"X_target": [[np.nan, 1.0]]}, "NaN"),
    ],
)
def test_curator_refuses(options, message):
    options = {"X_target": points(5), "owners": ["a"], "gamma": 1.0, **options}
    with pytest.raises(ValueError, match=message):
        curator_of(options.pop("X_target"), options.pop("owners"), n_components=8, **options)


def test_a_curator_asks_its_ledger_before_it_reads_the_target():
    ledger, unreadable = PrivacyLedger(epsilon=0.5, delta=1e-6), [[np.nan, 1.0]]
    with pytest.raises(BudgetExceededError):
        curator_of(unreadable, ["a"], ledger=ledger, gamma=1.0)
    with pytest.raises(ValueError, match="explore"):  # parameters come first
        curator_of(unreadable, ["a"], protocol=Propose(explore=2), ledger=ledger, gamma=1.0)
    roomy = PrivacyLedger(epsilon=5.0, delta=1e-4)
    asked = {"ledger": roomy, "gamma": 1.0}
    refused("imulation", curator_of, unreadable, ["a"], **asked, error=PrivacyLeakWarning)
    refused("NaN", curator_of, unreadable, ["a"], **asked)
    assert ledger.entries() == roomy.entries() == []


def test_a_curator_warns_when_the_rows_are_chosen():
    """The release is paid for by then; who makes the warning an error has them all the same."""
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-4)
    options = {"n_select": 5, "gamma": 1.0, "random_state": 0, "ledger": ledger}
    curator = curator_of(100 * points(1000), ["a"], **options)
    owner = DataOwner(100 * points(100, seed=1), seed=0)
    reply = {"a": owner.answer(curator.open()["a"])}
    refused("near 0 between any", curator.receive, reply, error=UserWarning)
    assert (len(curator.chosen), len(ledger.entries())) == (5, 1)


def test_owner_refuses():
    refused("NaN", DataOwner, [[np.nan]])
    refused("different numbers", DataOwner, points(3), [1, 2])
    asked = DataOwner(points(3)).answer
    refused("cannot answer", asked, type("Message", (), {"embedding": None})(), error=TypeError)
    refused("has not come", asked, CallForBids(direction=np.zeros(4)), error=TypeError)
    wrong = Embedding.draw(3, 8, 1.0, "pairs", np.random.RandomState(0))
    call = CallForBids(direction=np.zeros(8), embedding=wrong)
    refused("another number of columns", DataOwner(points(3)).answer, call, error=TypeError)
    assert "holds_private_data=True" in repr(DataOwner(points(3)))


def test_an_owner_hands_over_a_row_once():
    owner = DataOwner(points(30), seed=0)
    phi = embedding()
    direction = phi.quantise(np.random.default_rng(0).normal(size=64))
    sent = [
        owner.answer(ProposeRows(embedding=phi, direction=direction, n_herd=4, n_uniform=4)),
        owner.answer(SendBest(direction=direction, n=5)),
    ]
    bid = owner.answer(CallForBids(direction=direction))
    sent.append(owner.answer(HandOver()))
    assert sent[-1].indices.tolist() == [bid.index]
    indices = np.concatenate([rows.indices for rows in sent])
    assert len(set(indices.tolist())) == len(indices)


# --------------------------------------------------------------------- scores are exact functions


@pytest.mark.parametrize("kind", ["pairs", "cosines"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_is_a_function_of_its_row_alone(kind, dtype):
    X = np.vstack([points(700), 1e9 * points(3, seed=1)]).astype(dtype)
    phi = embedding(1000, kind)
    direction = phi.quantise(np.random.default_rng(0).normal(size=phi.n_features))
    whole = grid_scores(phi.grid(X), direction, phi.unit)
    for rows in (slice(0, 1), slice(3, 10), slice(100, 703), slice(None, None, -1)):
        found = grid_scores(phi.grid(X[rows]), direction, phi.unit)
        np.testing.assert_array_equal(found, whole[rows])


@pytest.mark.parametrize("d", [2, 1000])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e30])
def test_products_with_a_quantised_direction_are_exact(d, scale):
    phi, rng = embedding(d), np.random.default_rng(0)
    direction = phi.quantise(rng.uniform(0.5, 1, size=d) * scale)
    for signs in (np.ones(d), rng.choice([-1.0, 1.0], d)):
        grid = 2.0**15 * signs - rng.integers(0, 2, d)
        exact = sum(Fraction(g) * Fraction(v) for g, v in zip(grid, direction, strict=True))
        order = rng.permutation(d)
        assert Fraction(float(grid @ direction)) == exact
        assert Fraction(float(np.cumsum((grid * direction)[order])[-1])) == exact
    assert np.abs(direction / scale - phi.quantise(direction) / scale).max() == 0
    assert not phi.quantise(np.zeros(d)).any()


# --------------------------------------------------------------------------------- sensitivities


def kept_by_ask_all(owners, directions, phi, b, dropped=None):
    """Run the curator's side on fixed directions; return the rows kept after each round.

    `dropped` is an owner that fails in the third round.
    """
    parties = {name: DataOwner(X) for name, X in owners.items()}
    options = {"n_components": 16, "random_state": 0, "gamma": 1.0}
    curator = curator_of(points(5), list(owners), n_select=b * len(directions), **options)
    protocol, kept, states = AskAll(), [], []
    for k, direction in enumerate(directions):
        if k == 2 and dropped is not None:
            curator.dropped_owners[dropped] = "raised"
        for name, party in parties.items():
            if name in curator.dropped_owners:
                continue
            message = SendBest(direction=direction, n=b, embedding=phi)
            curator.pool.add(name, party.answer(message))
        scores = grid_scores(phi.grid(curator.pool.X), direction, phi.unit)
        kept += protocol._best(curator, scores, kept, b)
        states.append({tuple(curator.pool.X[place]) for place in kept})
    return states


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 12), st.sampled_from([None, 0, 1]))
def test_ask_all_a_row_more_displaces_at_most_one(seed, b, n, dropped):
    """Lemma A, where rows run out and where they do not, and where an owner fails half way."""
    phi = embedding(16)
    rng = np.random.default_rng(seed)
    owners = {k: points(n, seed=seed + k) for k in range(3)}
    more = {**owners, 1: np.insert(owners[1], rng.integers(n), points(1, seed=seed + 7), axis=0)}
    directions = [phi.quantise(rng.normal(size=16)) for _ in range(4)]
    worlds = [kept_by_ask_all(o, directions, phi, b, dropped) for o in (owners, more)]
    for one, other in zip(*worlds, strict=True):
        assert len(one - other) <= 1
        assert len(other - one) <= 1


# ------------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize("name", ["propose", "ask_all"])
def test_where_the_target_is_the_owners_own_all_counts_against_them(name):
    options = {"n_components": 32, "target_is_owners": True, "gamma": 1.0}
    options["protocol"] = PROTOCOLS[name]
    curator = curator_of(points(5), ["a", "b"], **options)
    assert 0.5 < curator.privacy.owners.epsilon(1e-6) <= 1 + 1e-9
    assert curator.privacy.owners.mechanism == curator.privacy.target.mechanism


def test_the_auction_claims_nothing_and_accounts_for_h2():
    options = {"n_components": 140, "n_select": 100, "n_target": 400, "gamma": 1.0}
    options["adjacency"] = "replace_one"
    options["protocol"] = printed.PrintedAuction()
    curator = curator_of(points(5), ["a", "b"], delta=1e-4, **options)
    assert curator.privacy.owners.epsilon(0.01) == np.inf
    assert "auction" in repr(curator.privacy.owners)
    # The review's table: 4 eps^2 per step under swaps; 3.300 at delta = .01 (with RDP).
    assert curator.privacy.target.mechanism.rho == pytest.approx(1656 * 4 * 0.01**2)
    assert curator.privacy.target.epsilon(0.01) == pytest.approx(3.3, abs=0.05)
    per_step = (0.01 / np.sqrt(500)) ** 2 * 4**2
    assert curator.privacy.h2.mechanism.rho == pytest.approx(99 * 5 * per_step)
    options["adjacency"] = "add_remove"
    swapped = curator_of(points(5), ["a", "b"], **options)
    assert swapped.privacy.h2.epsilon(1e-4) == pytest.approx(0.076, abs=0.003)
