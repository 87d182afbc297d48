"""Over Flower's wire: the same rows, nothing more said, nothing asked twice, and no one trusted."""

import contextlib
import errno
import hashlib
import importlib.util
import io
import json
import os
import pickle
import signal
import sqlite3
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import flwr.supercore.constant
import flwr.supercore.telemetry
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flower_double import GridDouble
from flwr.app import ConfigRecord, Error, RecordDict
from flwr.common.config import parse_config_args
from simulated import simulate

from skdpsumm import (
    Categorical,
    LedgerDamagedError,
    Numeric,
    PrivacyLeakWarning,
    PrivacyLedger,
    PublicVectorizer,
    TableSchema,
)
from skdpsumm.federated import _commands, apps
from skdpsumm.federated.__main__ import main
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._curator import GENERIC as CURATOR_GENERIC
from skdpsumm.federated._curator import CuratorSite, RunEndedError, run_over_grid, sketch_of
from skdpsumm.federated._envelope import Keys, Letter, counter_of, seal, unseal
from skdpsumm.federated._files import make_folder, write_file
from skdpsumm.federated._grants import Grants
from skdpsumm.federated._owner_log import GENERIC, OwnerLog, Refusal
from skdpsumm.federated._site import NOT_TAKEN, OwnerSite
from skdpsumm.federated._table import cells_of, check_codes, read_table
from skdpsumm.federated._wire import (
    Rooms,
    decode,
    describe,
    empty_sketch,
    encode,
    message_content,
    message_of,
    rows_content,
    rows_of,
    size_of_sketch,
)
from skdpsumm.privacy import _noise
from skdpsumm.privacy._noise import drawing_from
from skdpsumm.summaries import DataOwner
from skdpsumm.summaries._owners import run_protocol
from skdpsumm.summaries._protocol import ProposeRows, Rows, SendBest

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:Raise max_share_per_owner"),
]

NAMES = ["north", "south", "east"]
COLUMNS = ["a", "b", "c"]
AGREEMENT = """
owners = ["north", "south", "east"]
labels = "y"

[schema]
extra_columns = "drop"
[schema.columns.a]
low = -6
high = 6
[schema.columns.b]
low = -6
high = 6
[schema.columns.c]
low = -6
high = 6

[rows]
protocol = "propose"
n_select = 6
n_components = 40
random_state = 3

[sketch]
epsilon = 1.0
delta = 1e-6
random_state = 5
sketchers = [{ kind = "histogram", n_bins = 4 }, { kind = "fourier", n_components = 10 }]
"""


def fixed_keys(name):
    """Return the same keys in every process, for texts with them are names of tests."""
    raw = hashlib.sha256(name.encode()).digest()
    return Keys(Ed25519PrivateKey.from_private_bytes(raw), X25519PrivateKey.from_private_bytes(raw))


KEYS = {name: fixed_keys(name) for name in ("curator", *NAMES)}
PUBLIC = {name: keys.public for name, keys in KEYS.items()}
AGREEMENT += "".join(
    f'[keys.{name}]\nsign = "{keys["sign"]}"\nseal = "{keys["seal"]}"\n'
    for name, keys in PUBLIC.items()
)
TARGET = np.random.default_rng(9).normal(1.0, 1.0, (30, 3))


def table(k, n=60):
    rng = np.random.default_rng(k)
    return rng.normal(k - 1, 1.0, (n, 3)), rng.integers(0, 5, n)


def frame(k):
    X, y = table(k)
    return pd.DataFrame({"y": y, "c": X[:, 2], "a": X[:, 0], "b": X[:, 1], "other": X[:, 0]})


def make_home(folder, k, *, agreement=AGREEMENT, cap=2.5, max_rows=100):
    folder.mkdir()
    frame(k).to_parquet(folder / "table.parquet")
    (folder / "agreement.toml").write_text(agreement)
    KEYS[NAMES[k]].save(folder / "keys.pem")
    PrivacyLedger(folder / "ledger", epsilon=cap, delta=1e-5)
    Grants.make(folder / "grants")
    (folder / "owner.toml").write_text(
        f'name = "{NAMES[k]}"\ntable = "table.parquet"\nagreement = "agreement.toml"\n'
        f'keys = "keys.pem"\nlog = "log.jsonl"\ngrants = "grants"\nledger = "ledger"\n'
        f"max_rows = {max_rows}\nseed = {k}\n"
    )
    return folder / "owner.toml"


@pytest.fixture
def homes(tmp_path):
    return {name: make_home(tmp_path / name, k) for k, name in enumerate(NAMES)}


def agreed(text=AGREEMENT):
    import tomllib

    return Agreement.from_dict(tomllib.loads(text))


def vectors(X, agreement=None):
    return PublicVectorizer((agreement or agreed()).schema).fit_transform(X)


def curator(agreement, **own):
    with drawing_from(7):
        return agreement.curator(vectors(TARGET), **own)


def run(homes, agreement=None, *, grid=None, ours=None, odd=(), run_id=1, rows=True, **options):
    agreement = agreed() if agreement is None else agreement
    grid = GridDouble(homes, odd, run_id) if grid is None else grid
    if ours is None and rows and agreement.rows:
        ours = curator(agreement)
    options = {"timeout": 0.05, "wait": 0.0, "keys": KEYS["curator"], "run_id": run_id, **options}
    return run_over_grid(agreement, grid, ours, **options)


class Post:
    """What passes between the curator and one owner, without Flower."""

    def __init__(self, path):
        self.site, self.counter = OwnerSite.load(path), -1
        self.ours = Agreement.load(self.site.agreement)
        self.rooms = Rooms(self.ours, self.site.name)

    def letter(self, kind, run_id, **changes):
        place = {"agreement": self.ours.digest, "run": run_id, "counter": self.counter}
        return Letter(
            **{**place, "kind": kind, "sender": "curator", "receiver": self.site.name} | changes
        )

    def sealed(self, kind, run_id, content, *, room=None, keys=KEYS["curator"], to=None, **changes):
        """Return a question, as the curator seals it or otherwise; each has a new counter."""
        self.counter += 1
        room = self.rooms.question(kind) if room is None else room
        letter = self.letter(kind, run_id, **changes)
        return seal(letter, encode(content), room, keys, PUBLIC[to or self.site.name])

    def opened(self, kind, run_id, question, octets):
        """Return what an answer says, after all that the curator checks."""
        name, digest = self.site.name, hashlib.sha256(question).hexdigest()
        counter = counter_of(question)
        answer = {"sender": name, "receiver": "curator", "question": digest, "counter": counter}
        letter = self.letter(kind, run_id, **answer)
        room = self.rooms.answer(kind)
        return decode(unseal(letter, octets, room, KEYS["curator"], PUBLIC[name]))

    def sign(self, *runs):
        """Have the owner sign runs, and return this."""
        for run_id in runs:
            assert self.ask("sign", run_id)["kind"] == "SignOff"
        return self

    def ask(self, kind, run_id, content=None):
        """Return an owner's answer to a question that is in order."""
        question = self.sealed(kind, run_id, content or {})
        return self.opened(kind, run_id, question, self.site.answer(kind, run_id, question))


def in_process(agreement, without=()):
    def absent(message):
        raise TimeoutError

    tables = {name: table(k) for k, name in enumerate(NAMES)}
    owners = {n: DataOwner(vectors(X), y, seed=k) for k, (n, (X, y)) in enumerate(tables.items())}
    for name in without:
        owners[name].answer = absent
    return run_protocol(curator(agreement), owners)


def home_of(homes, name):
    return homes[name].parent


def log_of(homes, name):
    return OwnerLog(home_of(homes, name) / "log.jsonl")


def pool_text():
    return AGREEMENT.replace('"propose"', '"pool"')


@pytest.mark.parametrize("text", [AGREEMENT, pool_text()], ids=["propose", "pool"])
def test_the_same_rows_and_no_more_said(homes, text):
    for path in homes.values():
        (path.parent / "agreement.toml").write_text(text)
    over, here = run(homes, agreed(text)), in_process(agreed(text))
    assert over.left_out == {}
    assert over.curator.chosen == here.chosen
    np.testing.assert_array_equal(over.curator.X, here.X)
    np.testing.assert_array_equal(over.curator.y, here.y)
    for name in NAMES:
        transcript = [describe(message) for message in here.transcript[name]]
        came = [e for e in log_of(homes, name).entries() if e["event"] == "received"]
        assert [e["content"] for e in came if e["ask"] == "ask"] == transcript
        assert [e["ask"] for e in came] == ["sign", "ask", "sketch"]


def test_sketches_are_those_made_at_home_and_are_added(homes, monkeypatch):
    monkeypatch.setattr(_noise, "_opendp", lambda kind, scale: lambda values: values + 7)
    over = run(homes, rows=False)
    made = [agreed().sketcher().fit(frame(k)[COLUMNS]).sketch_ for k in range(len(NAMES))]
    np.testing.assert_array_equal(over.sketch.sums, reduce(add, made).sums)
    assert over.sketch.privacy.epsilon(1e-6) <= 1.0
    assert over.sketch.schema.names == tuple(COLUMNS)


def test_an_owner_with_a_seed_has_fresh_noise_and_no_simulation_spends_their_ledger(homes):
    """The seed is of their coins; their ledger is a file."""
    releases = [run(homes, rows=False, run_id=run_id).sketch for run_id in (1, 2)]
    assert not releases[0].privacy.simulated
    assert not np.array_equal(releases[0].sums, releases[1].sums)
    with drawing_from(0):
        assert Post(homes["north"]).ask("sign", 3)["kind"] == "Refusal"


CHANGES = [
    ("low = -6", "low = -5", "schema.columns.a.low"),
    ('"drop"', '"refuse"', "schema.extra_columns"),
    ("columns.b", "columns.d", "schema.columns.b"),
    ("random_state = 3", "random_state = 4", "rows.random_state"),
    ("n_select = 6", "n_select = 60", "rows.n_select"),
    ("epsilon = 1.0", "epsilon = 9.0", "sketch.epsilon"),
    ("n_bins = 4", "n_bins = 5", "sketch.sketchers[0].n_bins"),
    (PUBLIC["east"]["seal"], fixed_keys("another").public["seal"], "keys.east.seal"),
]


def test_another_agreement_is_not_even_opened(homes):
    old, new, _ = CHANGES[0]
    (home_of(homes, "south") / "agreement.toml").write_text(AGREEMENT.replace(old, new))
    over = run(homes)
    assert list(over.left_out) == ["south"]
    assert "sign: did not open the question: their copy of the agreement" in over.left_out["south"]
    assert over.curator.chosen == in_process(agreed(), ["south"]).chosen
    assert received(homes, "south") == []
    strangers = [e for e in log_of(homes, "south").entries() if e["event"] == "stranger"]
    assert len(strangers) == 1


@pytest.mark.parametrize(("old", "new", "entry"), CHANGES)
def test_a_command_names_the_entry_in_which_two_agreements_differ(
    tmp_path, capsys, old, new, entry
):
    (tmp_path / "a").write_text(AGREEMENT)
    (tmp_path / "b").write_text(AGREEMENT.replace(old, new))
    assert main(["agreement", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert f"\n{entry}: " in capsys.readouterr().out
    assert main(["agreement", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert "is equal" in capsys.readouterr().out


def test_agreements_carry_whole_schemas(tmp_path):
    schema = TableSchema(
        {
            "age": Numeric(17, 90, step=1, unit="years"),
            "gain": Numeric(edges=[0, 1, 5, 20, 99], missing=True),
            "job": Categorical(["clerk", "farmer"], description="as declared"),
        }
    )
    sketch = {"random_state": 0, "sketchers": [{"kind": "histogram", "n_bins": 74}]}
    keys = {name: PUBLIC[name] for name in ("curator", "north")}
    ours = Agreement(["north"], schema, keys, sketch=sketch)
    released = ours.sketcher().preview_map(3, schema.names)
    assert released.schema == schema
    assert released.n_bins == (74, 5, 2)
    text = 'owners = ["north"]\nschema = "adult.toml"\n'
    text += "sketch.random_state = 0\nsketch.sketchers = [{kind = 'histogram', n_bins = 74}]\n"
    text += "".join(f"keys.{n}.{k} = '{key}'\n" for n in keys for k, key in keys[n].items())
    (tmp_path / "agreement.toml").write_text(text)
    schema.save(tmp_path / "adult.toml")
    assert Agreement.load(tmp_path / "agreement.toml").digest == ours.digest
    changes = {
        "schema.columns.age.step": {"age": Numeric(17, 90, step=0.5, unit="years")},
        "schema.columns.age.unit": {"age": Numeric(17, 90, step=1)},
        "schema.columns.gain.missing": {"gain": Numeric(edges=[0, 1, 5, 20, 99])},
        "schema.columns.gain.edges[2]": {"gain": Numeric(edges=[0, 1, 4, 20, 99], missing=True)},
        "schema.columns.job.categories[0]": {
            "job": Categorical(["farmer", "clerk"], description="as declared")
        },
        "schema.columns.job.description": {"job": ["clerk", "farmer"]},
    }
    columns = dict(zip(schema.names, schema.columns, strict=True))
    for entry, change in changes.items():
        theirs = Agreement(["north"], columns | change, keys, sketch=sketch)
        assert ours.difference(theirs).startswith(f"{entry}: ")
        assert ours.digest != theirs.digest
    turned = Agreement(["north"], dict(reversed(columns.items())), keys, sketch=sketch)
    assert ours.difference(turned) == "schema.order[0]: 'age' here, 'job' there"
    for given in ({"kind": "race", "schema": [0, 1]}, {"kind": "race", "max_rows_per_group": 2}):
        with pytest.raises(ValueError, match="unknown entries"):
            Agreement(["north"], schema, keys, sketch=sketch | {"sketchers": [given]})


@pytest.fixture
def home(tmp_path):
    """Return the path of the curator's file."""
    folder = tmp_path / "curator"
    folder.mkdir()
    pd.DataFrame(TARGET, columns=COLUMNS).to_parquet(folder / "target.parquet")
    (folder / "agreement.toml").write_text(AGREEMENT)
    KEYS["curator"].save(folder / "keys.pem")
    (folder / "curator.toml").write_text(
        'agreement = "agreement.toml"\nkeys = "keys.pem"\ntarget = "target.parquet"\n'
        'result = "result"\nledger = "ledger"\ntimeout = 0.05\nwait = 0.0\n'
    )
    return folder / "curator.toml"


def run_app(path, grid, run_id=1, ticket=None):
    """Start the curator's app, as Flower does, with a ticket as the command `run` makes it."""
    if ticket is None:
        ticket = f"ticket {run_id}"
        tickets = make_folder(CuratorSite.load(path).tickets)
        (tickets / hashlib.sha256(ticket.encode()).hexdigest()).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(apps.CURATOR_FILE, str(path))
        apps.curator(grid, SimpleNamespace(run_config={"ticket": ticket}, run_id=run_id))


def result_of(path, run_id=1):
    folder = path.parent / "result" / str(run_id)
    return folder, json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_the_curators_app_asks_its_ledger_before_any_owner(homes, home, epsilon):
    ledger = PrivacyLedger(home.parent / "ledger", epsilon=epsilon, delta=1e-5)
    grid = GridDouble(homes)
    if epsilon < 1:
        with pytest.raises(RuntimeError, match="the curator's side failed"):
            run_app(home, grid)
        assert grid.asked == []
        assert "BudgetExceededError" in (result_of(home)[0] / "error.txt").read_text()
    else:
        run_app(home, grid)
        assert len(grid.asked) == 9
    assert ("error" in result_of(home)[1]) == (epsilon < 1)
    assert [entry["label"] for entry in ledger.entries()] == ["summary by Propose"] * (epsilon > 1)


def test_a_run_that_the_curator_did_not_start_asks_nobody(homes, home):
    """Whoever reaches Flower's port can start runs of the curator's app, and gets nothing."""
    grid = GridDouble(homes)
    ledger = PrivacyLedger(home.parent / "ledger", epsilon=5, delta=1e-5)
    for ticket in ("", "None", "../keys.pem", "0" * 64):
        with pytest.raises(RuntimeError, match="Start the run with the curator"):
            run_app(home, grid, ticket=ticket)
    assert not list((home.parent).glob("result/*"))
    run_app(home, grid)
    with pytest.raises(RuntimeError, match="Start the run with the curator"):
        run_app(home, grid, run_id=2, ticket="ticket 1")  # is good for one run
    with pytest.raises(RuntimeError, match="Start the run with the curator"):
        run_app(home, grid, run_id=1)  # nor is a run done twice
    assert len(grid.asked) == 9
    assert len(ledger.entries()) == 1


def test_nothing_of_a_run_is_told_to_flowers_logs(homes, home, capfd):
    PrivacyLedger(home.parent / "ledger", epsilon=50, delta=1e-3)
    run_app(home, GridDouble(homes))
    folder, report = result_of(home)
    assert capfd.readouterr() == ("", "")
    with np.load(folder / "summary.npz") as chosen:
        counts = {name: int((chosen["owner"] == name).sum()) for name in NAMES}
    assert sum(counts.values()) == 6
    assert set(report) == {"agreement", "left_out", "sketches_of", "privacy", "rounds"}
    for sent in report["rounds"]:
        assert set(sent) == {"question", "seconds", "bytes_sent", "bytes_received"}
    spoiled = pd.DataFrame(TARGET, columns=COLUMNS).astype(object)
    spoiled.iloc[3, 0] = "SECRET-4711"
    spoiled.astype(str).to_csv(home.parent / "target.csv", index=False)
    home.write_text(home.read_text().replace("target.parquet", "target.csv"))
    with pytest.raises(RuntimeError) as caught:
        run_app(home, GridDouble(homes), run_id=2)
    assert str(caught.value) == CURATOR_GENERIC
    assert caught.value.__suppress_context__
    assert result_of(home, 2)[1] == {"error": CURATOR_GENERIC}
    assert capfd.readouterr() == ("", "")


def test_files_are_for_their_owners_eyes_alone(homes, home):
    PrivacyLedger(home.parent / "ledger", epsilon=50, delta=1e-3)
    run_app(home, GridDouble(homes))
    made = [*(home.parent / "result").rglob("*")]
    for path in homes.values():
        made += [*path.parent.glob("log.jsonl*"), *(path.parent / "log.jsonl.answers").iterdir()]
    assert len(made) > 15
    for path in made:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_agreements_name_a_protocol_as_an_object_does():
    def agreed_on(protocol, **rows):
        rows = {"n_select": 10, "random_state": 0, **rows}
        keys = {name: PUBLIC[name] for name in ("curator", "north", "south")}
        rows = {"protocol": protocol, **rows}
        return Agreement(["north", "south"], {"age": (17, 90)}, keys, rows=rows)

    assert agreed_on("propose").rows_asked("north") == 80
    assert agreed_on({"kind": "propose", "parsimony": 6.0}).rows_asked("south") == 30
    shared = agreed_on("propose", shares={"north": 3, "south": 1})
    assert [shared.rows_asked(name) for name in ("north", "south")] == [120, 40]
    for shares in ({"north": 1}, {"north": 1, "south": 0}, {"north": 1, "south": "1"}, 2):
        with pytest.raises(ValueError, match="shares"):
            agreed_on("propose", shares=shares)
    assert agreed_on({"kind": "pool"}).protocol().explore == 1
    with pytest.raises(ValueError, match=r'kind = "propose", parsimony = 6.0 }'):
        agreed_on("propose", parsimony=6.0)  # as it was written before
    with pytest.raises(ValueError, match="kind: one of"):
        agreed_on("auction")
    with pytest.raises(ValueError, match="unknown entries"):
        agreed_on({"kind": "pool", "explore": 0.5})
    with pytest.raises(ValueError, match="explore"):
        agreed_on({"kind": "propose", "explore": 2.0})
    with pytest.raises(ValueError, match="gamma"):
        agreed_on("propose", gamma=-1.0)


def received(homes, name):
    events = log_of(homes, name).entries()
    return [(name, e["ask"]) for e in events if e["event"] == "received"]


def test_what_the_curator_did_not_ask_this_owner_now_is_not_opened(homes):
    """Other agreements, runs, kinds, receivers, senders, sizes and versions, and any change."""
    post = Post(homes["north"])
    told = question()
    sound = post.sealed("ask", 1, told)
    flipped = bytearray(sound)
    flipped[-1] ^= 1
    south = Post(homes["south"])
    bad = {
        "another agreement": post.sealed("ask", 1, told, agreement=agreed(pool_text()).digest),
        "another run": post.sealed("ask", 2, told),
        "another kind": post.sealed("sketch", 1, {}),
        "for another owner": south.sealed("ask", 1, told),
        "sent on to another owner": south.sealed("ask", 1, told, to="north"),
        "of another owner": post.sealed("ask", 1, told, keys=KEYS["east"]),
        "in an owner's name": post.sealed("ask", 1, told, keys=KEYS["east"], sender="east"),
        "an answer": post.sealed("ask", 1, told, question="ab"),
        "longer": post.sealed("ask", 1, told, room=post.rooms.question("ask") + 1),
        "changed": bytes(flipped),
        "of another place": (7).to_bytes(8, "big") + sound[8:],
        "in the clear": encode(told),
        "nothing": b"",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdpsumm.federated._envelope._VERSION", "skdpsumm federated 0; none")
        bad["of another version"] = post.sealed("ask", 1, told)
    for what, octets in bad.items():
        assert post.site.answer("ask", 1, octets) == NOT_TAKEN, what
    assert post.site.answer("train", 1, sound) == NOT_TAKEN
    log = OwnerLog(post.site.log)
    assert [entry["event"] for entry in log.entries()] == ["stranger"] * (len(bad) + 1)
    post.sign(1).counter = 0
    answer = post.opened("ask", 1, sound, post.site.answer("ask", 1, sound))
    assert answer["kind"] == "Rows"


def test_a_stranger_fills_no_disk_and_costs_no_memory(homes, monkeypatch):
    post = Post(homes["north"])
    monkeypatch.setattr("skdpsumm.federated._owner_log.MOST_STRANGERS", 3)
    monkeypatch.setattr("skdpsumm.federated._site.decode", lambda _: pytest.fail("was parsed"))
    columns = json.dumps({"columns": ["x{0..5000000}"]}).encode()
    for octets in (columns, bytes(30_000_000), *([b"A" * 1000] * 20)):
        tracemalloc.start()
        assert post.site.answer("ask", 1, octets) == NOT_TAKEN
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()
    assert len(OwnerLog(post.site.log).entries()) == 3
    assert post.site.log.stat().st_size < 1000
    assert not post.site.log.with_name("log.jsonl.answers").exists()


@pytest.mark.parametrize("kind", ["histogram", "fourier", "race"])
@pytest.mark.parametrize("release", ["", "delta = 0.0\n", 'adjacency = "replace_one"\n'])
def test_every_sketch_fits_into_its_room(homes, kind, release):
    """Noise hardly compresses; and what is charged is what was looked for when signing."""
    start = AGREEMENT.index("[sketch]")
    text = AGREEMENT[:start] + "[sketch]\nepsilon = 1.0\nrandom_state = 5\n" + release
    text += f'sketchers = [{{ kind = "{kind}" }}]\n' + AGREEMENT[AGREEMENT.index("[keys.") :]
    path = homes["north"]
    path.write_text(path.read_text().replace("seed = 0", "").replace('"ledger"', '"large"'))
    adjacency = "replace_one" if "replace_one" in release else "add_remove"
    ledger = PrivacyLedger(path.parent / "large", epsilon=50, delta=1e-5, adjacency=adjacency)
    (path.parent / "agreement.toml").write_text(text)
    post = Post(path)
    assert post.ask("sign", 1)["kind"] == "SignOff"
    file = post.ask("sketch", 1)["file"]
    room = post.rooms.answer("sketch")
    assert 0.1 * room < len(file) < room
    promised = ledger.price(empty_sketch(post.ours).privacy).epsilon
    assert ledger.spent.epsilon == pytest.approx(promised)


def test_whoever_carries_messages_learns_times_and_no_more(homes):
    """Sizes follow from the agreement, whatever owners hold, say or refuse; contents are noise."""
    frame(1).iloc[:2].to_parquet(home_of(homes, "south") / "table.parquet")
    homes["east"].write_text(homes["east"].read_text().replace("= 100", "= 9"))
    seen = []
    for run_id in (1, 2):  # in the second, the east refuses to sign
        seen.append(GridDouble(homes, run_id=run_id))
        run(homes, grid=seen[-1], run_id=run_id)
    for kind in ("sign", "ask", "sketch"):
        for at in ("questions", "answers"):
            told = [octets for grid in seen for _, k, octets in getattr(grid, at) if k == kind]
            assert len({len(octets) for octets in told}) == 1
            assert len({octets[8:] for octets in told}) == len(told)
    carried = b"".join(octets for grid in seen for *_, octets in grid.questions + grid.answers)
    for word in (b"north", b"indices", b"max_rows", b"Refusal", agreed().digest.encode()):
        assert word not in carried


def test_the_same_question_has_the_same_answer_to_the_last_bit(homes):
    ledger = PrivacyLedger.open(home_of(homes, "north") / "ledger")
    homes["north"].write_text(homes["north"].read_text().replace("seed = 0", ""))
    post = Post(homes["north"]).sign(1)
    for kind, content in (("ask", question()), ("sketch", {})):
        asked = post.sealed(kind, 1, content)
        answers = {OwnerSite.load(homes["north"]).answer(kind, 1, asked) for _ in range(3)}
        assert len(answers) == 1
        assert post.opened(kind, 1, asked, *answers)["kind"] in ("Rows", "Sketch")
        # Asked again in other words: refused.
        assert "asked before" in post.ask(kind, 1, content)["reason"]
    assert len(ledger.entries()) == 1
    assert Grants(post.site.grants).n_rows == 32
    assert "asked before" in post.ask("sign", 1)["reason"]


def test_a_question_of_another_run_is_refused_though_it_was_answered(homes):
    post = Post(homes["north"])
    asked = post.sealed("sketch", 1, {})
    assert post.site.answer("sketch", 1, asked) != NOT_TAKEN
    for kind, run_id in (("sketch", 2), ("sign", 1), ("ask", 1)):
        assert post.site.answer(kind, run_id, asked) == NOT_TAKEN
    (home_of(homes, "north") / "agreement.toml").write_text(pool_text())
    assert OwnerSite.load(homes["north"]).answer("sketch", 1, asked) == NOT_TAKEN


def test_two_copies_of_a_question_at_once_have_one_answer(homes):
    """A flood of copies, each in a process of its own as Flower starts them."""
    path = homes["north"]
    path.write_text(path.read_text().replace("seed = 0", ""))
    asked = Post(path).sign(1).sealed("sketch", 1, {})
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda _: OwnerSite.load(path).answer("sketch", 1, asked), range(8))
        )
    assert len(set(answers)) == 1
    assert len(PrivacyLedger.open(path.parent / "ledger").entries()) == 1


@pytest.mark.parametrize("status", [0, 1])
def test_a_ticket_is_shown_to_nobody_and_dies_with_a_run_that_did_not_start(
    home, monkeypatch, status
):
    seen = []

    def flwr(path, arguments, **options):
        config = Path(arguments[-1])
        assert config.stat().st_mode & 0o077 == config.parent.stat().st_mode & 0o077 == 0
        (text,) = parse_config_args([str(config)]).values()
        (stub,) = CuratorSite.load(home).tickets.iterdir()
        assert stub.name == hashlib.sha256(text.encode()).hexdigest()
        seen.append(text)
        assert not any(text in argument for argument in arguments)
        assert not any(text in p.read_text() for p in Path(arguments[1]).iterdir())
        return SimpleNamespace(
            stdout=b'{"success": false}' if not status else b"", returncode=status
        )

    monkeypatch.setattr(_commands, "_flwr", flwr)
    monkeypatch.setattr(_commands, "_wait_for", lambda _: None)
    assert _commands.run([str(home)]) == 1
    assert len(seen[0]) == 32
    assert list(CuratorSite.load(home).tickets.iterdir()) == []


def test_no_run_is_started_whose_result_has_no_room(home, monkeypatch, capsys):
    """Or the target would be charged, and the report never come."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(_commands, "_wait_for", lambda _: pytest.fail("was started"))
    assert main(["run", str(home)]) == 2
    assert "Make room for" in capsys.readouterr().err
    assert not list(home.parent.glob("result/*"))


@pytest.mark.parametrize("name", ["north.west", 'a"b', "x]\n[rows", "mine too", "../.."])
def test_names_of_parties_are_names_in_toml(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "south", name]) == 2
    assert "cannot name a party" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_agreement_does_not_steer_the_terminal(homes, tmp_path, capsys):
    trap = "\x1b[2K\ris equal"
    ours, theirs = tmp_path / "ours.toml", tmp_path / "theirs.toml"
    for path, high in ((ours, 1), (theirs, 2)):
        column = f"[schema.columns.{json.dumps(trap)}]\nlow = 0\nhigh = {high}\n"
        path.write_text(AGREEMENT.replace("[rows]", column + "[rows]", 1))
    assert main(["agreement", str(ours), str(theirs)]) == 1
    theirs.write_text(theirs.read_text() + f"[{json.dumps(trap)}]\n")
    assert main(["agreement", str(ours), str(theirs)]) == 2
    told = capsys.readouterr()
    assert "[2Kis equal" in told.out
    assert "unknown entries" in told.err
    assert "\x1b" not in told.out + told.err


def test_an_answer_is_taken_for_its_own_question_only(homes):
    """Whoever carries answers cannot exchange those of two owners, runs or questions."""
    for path in homes.values():
        PrivacyLedger(path.parent / "large", epsilon=50, delta=1e-5)
        path.write_text(path.read_text().replace('"ledger"', '"large"'))
    seen = {}
    for run_id in (1, 2):
        grid = GridDouble(homes, run_id=run_id)
        run(homes, grid=grid, run_id=run_id, rows=False)
        seen[run_id] = {(name, kind): octets for name, kind, octets in grid.answers}
    mistaken = [seen[1]["north", "sketch"], seen[1]["south", "sign"], seen[1]["south", "sketch"]]
    for run_id, octets in enumerate(mistaken, start=3):
        over = run(homes, odd={"south": at("sketch", octets)}, rows=False, run_id=run_id)
        assert over.left_out == {"south": "sketch: sent what cannot be read"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.drop(columns="b"), "columns: the table has no column 'b'"),
        (lambda t: t.rename(columns={"other": "a "}), None),
        (lambda t: t.drop(columns="y"), "columns: the table has no column 'y'"),
    ],
)
def test_another_table_is_refused_by_name(homes, change, reason):
    change(frame(1)).to_parquet(home_of(homes, "south") / "table.parquet")
    assert run(homes).left_out == ({"south": f"sign: refused: {reason}"} if reason else {})


def test_a_refusal_fits_into_its_room_whatever_columns_are_called(homes):
    """It would not be sent, and the owner be said to have another agreement."""
    home = home_of(homes, "north")
    name = "\N{GRINNING FACE}" * 2000
    column = f'[schema.columns."{name}"]\nlow = 0\nhigh = 1\n[rows]'
    (home / "agreement.toml").write_text(AGREEMENT.replace("[rows]", column, 1))
    assert "has no column" in Post(homes["north"]).ask("sign", 1)["reason"]


@pytest.mark.parametrize("fault", ["words", "missing", "gone", "label"])
def test_errors_in_the_data_stay_at_home(homes, fault):
    home = home_of(homes, "south")
    t = frame(1).astype({"a": object, "y": object})
    if fault == "words":
        t.loc[3, "a"] = "SECRET-4711"
    elif fault == "missing":
        t.loc[3, "a"] = None
    elif fault == "label":
        t.loc[3, "y"] = "SECRET-4711"
    t.to_csv(home / "table.csv", index=False)
    homes["south"].write_text(homes["south"].read_text().replace("table.parquet", "table.csv"))
    if fault == "gone":
        (home / "table.csv").unlink()
    over = run(homes)
    assert over.left_out == {"south": f"sign: refused: {GENERIC}"}  # before anything is charged
    assert "SECRET" not in json.dumps(over.report())
    refused = [e for e in log_of(homes, "south").entries() if e["event"] == "refused"]
    assert "Traceback" in refused[0]["detail"]


def test_what_flower_would_tell_of_a_crash_is_not_told(homes, capfd):
    homes["south"].write_text("name = SECRET")
    over = run(homes)
    assert "sign: did not open the question" in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert "Traceback" in capfd.readouterr().err  # at home


def question(**changes):
    ours = agreed()
    plan = {"n_herd": 6, "n_uniform": 2, "direction": np.ones(40), "embedding": ours.embedding()}
    return message_content(ProposeRows(**{**plan, **changes}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_herd": 1000}, "n_select: more rows"),
        ({"direction": None}, "protocol: 'propose' sends"),
        ({"direction": np.ones(39)}, "another length"),
        ({"embedding": agreed(AGREEMENT.replace("= 3", "= 4")).embedding()}, "feature map"),
    ],
)
def test_questions_beyond_the_agreement_are_refused(homes, changes, reason):
    post = Post(homes["north"]).sign(1)
    assert reason in post.ask("ask", 1, question(**changes))["reason"]
    assert post.ask("ask", 1, question())["kind"] == "Rows"


def test_a_pool_owner_takes_no_direction(homes):
    (home_of(homes, "north") / "agreement.toml").write_text(pool_text())
    post = Post(homes["north"]).sign(1)
    assert "protocol: 'pool'" in post.ask("ask", 1, question())["reason"]


def settle(path, **settings):
    """Set entries of an owner's file."""
    lines = [t for t in path.read_text().splitlines() if t.split(" =")[0] not in settings]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    path.write_text("\n".join(lines))


def test_rows_are_asked_for_once_and_counted_over_all_runs(homes):
    """In full, however few a question asks for: no allowance is spent as many small questions."""
    settle(homes["north"], max_rows=70)
    post = Post(homes["north"]).sign(1, 2, 3)
    answers = [post.ask("ask", r, question()) for r in (1, 1, 2, 3)]
    assert [a["kind"] for a in answers] == ["Rows", "Refusal", "Rows", "Refusal"]
    assert "asked before" in answers[1]["reason"]
    assert "max_rows: the owner does not let 32 more rows go" in answers[3]["reason"]
    other = post.ask("ask", 1, question(direction=np.zeros(40), n_herd=1))
    assert "asked before" in other["reason"]
    assert Grants(post.site.grants).n_rows == 64


@pytest.mark.parametrize("kind", ["ask", "sketch"])
def test_runs_are_counted_where_they_take_something(homes, kind):
    """Signing takes nothing, so that a run without enough owners is none."""
    settle(homes["north"], max_runs=2)
    content = question() if kind == "ask" else {}
    post = Post(homes["north"]).sign(1, 2, 3, 4, 5)
    answers = [post.ask(kind, run_id, content)["kind"] for run_id in (3, 4, 5)]
    assert answers == [{"ask": "Rows", "sketch": "Sketch"}[kind]] * 2 + ["Refusal"]
    other = "sketch" if kind == "ask" else "ask"  # of a run that counts already
    assert post.ask(other, 4, {} if other == "sketch" else question())["kind"] != "Refusal"
    assert "max_runs: the owner takes part in no more" in post.ask("sign", 6)["reason"]
    assert Grants(post.site.grants).runs == {3, 4}


@pytest.mark.parametrize(
    "settings", [{"max_rows": -500}, {"max_rows": 1.5}, {"max_runs": -1}, {"max_runs": "true"}]
)
def test_allowances_are_whole_numbers(homes, settings):
    settle(homes["north"], **settings)
    with pytest.raises(ValueError, match="must be a whole number, at least 0"):
        OwnerSite.load(homes["north"])


@pytest.mark.parametrize("kind", ["ask", "sketch"])
def test_owners_answer_in_runs_that_they_signed_themselves(homes, kind):
    """Not in others, nor under an agreement that they signed in another run, nor for others."""
    content = question() if kind == "ask" else {}
    south, post = Post(homes["south"]).sign(7), Post(homes["north"]).sign(1)
    assert south.ask("sketch", 7)["kind"] == "Sketch"
    refused = "sign: this owner has not signed the agreement off in this run"
    assert post.ask(kind, 7, content)["reason"] == refused
    settle(homes["north"], max_rows=1)  # which is too few for the agreement
    post = Post(homes["north"])
    assert "max_rows" in post.ask("sign", 2)["reason"]
    assert post.ask(kind, 2, content)["reason"] == refused
    settle(homes["north"], max_rows=100)
    (home_of(homes, "north") / "agreement.toml").write_text(AGREEMENT.replace("= 5\n", "= 6\n"))
    post = Post(homes["north"])
    assert post.ask(kind, 1, content)["reason"] == refused
    assert post.sign(3).ask(kind, 3, content)["kind"] != "Refusal"
    assert Grants(post.site.grants).runs == {3}
    paid = PrivacyLedger.open(home_of(homes, "north") / "ledger").entries()
    assert len(paid) == (kind == "sketch")


def test_a_crash_after_the_grant_does_not_give_a_second_answer(homes, monkeypatch):
    post = Post(homes["north"]).sign(1)
    with monkeypatch.context() as patch:
        patch.setattr(DataOwner, "answer", lambda *_: 1 / 0)
        assert post.ask("ask", 1, question())["reason"] == GENERIC
    assert "asked before" in post.ask("ask", 1, question())["reason"]
    assert [(e["run"], e["ask"], e["rows"]) for e in post.site.lost()] == [(1, "ask", 32)]


def no_noise():
    raise OSError("no library")


def test_without_a_source_of_noise_nothing_is_signed_or_granted_that_needs_it(homes, monkeypatch):
    post = Post(homes["north"]).sign(1)
    monkeypatch.setattr(_noise, "_library", no_noise)
    assert post.ask("sketch", 1)["reason"] == GENERIC
    assert post.ask("sign", 2)["reason"] == GENERIC
    assert "Noise cannot be drawn" in log_of(homes, "north").entries()[-1]["detail"]
    assert [(e["run"], e["ask"]) for e in Grants(post.site.grants).entries()] == [(1, "sign")]
    assert PrivacyLedger.open(post.site.ledger).entries() == []
    assert post.ask("ask", 1, question())["kind"] == "Rows"
    monkeypatch.undo()
    assert post.ask("sketch", 1)["kind"] == "Sketch"


@pytest.mark.parametrize("limit", [{"max_rows": 100}, {"max_rows": 1000, "max_runs": 1}])
def test_nodes_that_share_a_record_of_grants_share_what_is_allowed(tmp_path, limit):
    """Each has a log and a lock of its own, and one names the file by a link."""
    path, link = tmp_path / "grants", tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(path)
    Grants.make(path)
    barrier = threading.Barrier(8)

    def node(run_id):
        grants = Grants(link if run_id % 2 else path)
        barrier.wait()
        with contextlib.suppress(Refusal):
            grants.grant(run_id, "ask", "x", 80, **limit)

    threads = [threading.Thread(target=node, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (Grants(path).n_rows, len(Grants(path).runs)) == (80, 1)


@pytest.mark.parametrize("kind", ["ask", "sketch"])
def test_what_can_be_refused_is_refused_before_it_counts(homes, monkeypatch, kind):
    content = question() if kind == "ask" else {}
    post = Post(homes["north"]).sign(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr("skdpsumm.federated._site.read_table", lambda *_, **__: 1 / 0)
        assert post.ask(kind, 1, content)["reason"] == GENERIC
    full_ledger(home_of(homes, "north"))
    if kind == "sketch":
        assert post.ask(kind, 2)["reason"].startswith("ledger:")
    assert Grants(post.site.grants).runs == set()
    assert post.site.lost() == []


class Stopped(BaseException):
    """A kill: nothing that comes after it is done."""


def stop_at(patch, n, error, *, for_good):
    """Have the n-th step that reaches the disk fail, and all that follow if `for_good`."""
    steps = []

    def failing(whole):
        def step(*arguments, **options):
            steps.append(1)
            if len(steps) == n or (for_good and len(steps) > n):
                raise error
            return whole(*arguments, **options)

        return step

    patch.setattr(os, "fsync", failing(os.fsync))
    patch.setattr(os, "posix_fallocate", failing(os.posix_fallocate))
    patch.setattr(PrivacyLedger, "charge", failing(PrivacyLedger.charge))
    patch.setattr(Path, "replace", failing(Path.replace))
    return steps


FULL, FULL_FOR_A_MOMENT = (OSError(errno.ENOSPC, "full"), True), (OSError(errno.EDQUOT, ""), False)


@pytest.mark.parametrize(
    ("kind", "error", "for_good"),
    [
        *((kind, Stopped(), True) for kind in ("sign", "ask", "sketch")),
        ("ask", *FULL),
        ("sketch", *FULL),
        ("sketch", *FULL_FOR_A_MOMENT),
    ],
    ids=["kill-sign", "kill-ask", "kill-sketch", "full-ask", "full-sketch", "moment-sketch"],
)
def test_whatever_stops_an_owner_nothing_is_granted_twice_or_lost_unseen(
    homes, monkeypatch, capsys, kind, error, for_good
):
    """At each step that reaches the disk. A question that was stopped is put again, and anew."""
    settle(homes["north"], max_rows=10_000)
    PrivacyLedger(home_of(homes, "north") / "large", epsilon=500, delta=1e-4)
    settle(homes["north"], ledger='"large"')
    content = question() if kind == "ask" else {}
    steps, run_id = [1], 0
    while len(steps) >= run_id:  # the step was reached
        run_id += 1
        post = Post(homes["north"])
        if kind != "sign":
            post.sign(run_id)
        asked, outcomes = post.sealed(kind, run_id, content), []
        with monkeypatch.context() as patch, contextlib.suppress(Stopped):
            steps = stop_at(patch, run_id, error, for_good=for_good)
            outcomes.append(post.site.answer(kind, run_id, asked))
        stopped = [post.opened(kind, run_id, asked, o) for o in outcomes]
        for told in stopped:
            if isinstance(error, OSError) and told["kind"] == "Refusal":
                assert told["reason"].startswith("disk: the owner's disk is full")
        again = post.opened(kind, run_id, asked, post.site.answer(kind, run_id, asked))
        anew = post.ask(kind, run_id, content)
        told = [describe(one) for one in (*stopped, again, anew) if one["kind"] != "Refusal"]
        assert all(one == told[0] for one in told)
        granted = [(e["run"], e["ask"]) for e in Grants(post.site.grants).entries()]
        assert granted.count((run_id, kind)) == 1 or not told
        lost = [(e["run"], e["ask"]) for e in post.site.lost()]
        spent = kind != "sign" and (run_id, kind) in granted
        assert ((run_id, kind) in lost) == (spent and not told)
    assert 7 <= run_id < 20
    paid = PrivacyLedger.open(home_of(homes, "north") / "large").entries()
    assert len(paid) <= len(set(granted)) * (kind == "sketch")
    if isinstance(error, OSError) and for_good:  # what cannot be written down is printed
        assert "Errno" in capsys.readouterr().err


def test_sketches_are_charged_by_run_up_to_the_cap(homes):
    post = Post(homes["north"]).sign(*range(1, 12))
    ledger = PrivacyLedger.open(home_of(homes, "north") / "ledger")
    answers = [post.ask("sketch", run_id) for run_id in range(1, 12)]
    kinds, n_charged = [answer["kind"] for answer in answers], len(ledger.entries())
    assert kinds == ["Sketch"] * n_charged + ["Refusal"] * (11 - n_charged)
    assert 2 <= n_charged < 10
    assert ledger.spent.epsilon <= 2.5
    reason = answers[-1]["reason"]
    assert reason.startswith("ledger:")
    assert "0." not in reason  # how much is left is nobody's business


def test_no_ledger_no_sketch(homes):
    text = homes["north"].read_text().replace('ledger = "ledger"', "")
    homes["north"].write_text(text)
    assert "ledger" in run(homes).left_out["north"]


def full_ledger(folder):
    (folder / "ledger").unlink()
    PrivacyLedger(folder / "ledger", epsilon=0.5, delta=1e-5)


def long_labels(folder):
    frame(1).assign(y="x" * 65).to_parquet(folder / "table.parquet")


def wrong_cell(folder):
    bad = frame(1).astype({"c": object})
    bad.loc[7, "c"] = "SECRET"
    bad.astype(str).to_csv(folder / "table.csv", index=False)
    path = folder / "owner.toml"
    path.write_text(path.read_text().replace("table.parquet", "table.csv"))


def few_rows(folder):
    path = folder / "owner.toml"
    path.write_text(path.read_text().replace("max_rows = 100", "max_rows = 7"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (few_rows, "max_rows: the owner does not let 32 more rows go"),
        (full_ledger, "ledger: the owner's budget cannot hold this release"),
        (long_labels, "labels: texts may have 64 characters"),
        (wrong_cell, GENERIC),
    ],
)
def test_who_cannot_keep_to_the_agreement_does_not_sign_it(homes, fault, reason):
    """Nothing is charged to anybody, where all owners are needed."""
    text = AGREEMENT.replace('labels = "y"', 'labels = "y"\nlabels_dtype = "string"')
    for k, path in enumerate(homes.values()):
        (path.parent / "agreement.toml").write_text(text)
        frame(k).astype({"y": str}).to_parquet(path.parent / "table.parquet")
    fault(home_of(homes, "south"))
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    grid, ours = GridDouble(homes), curator(agreed(text), ledger=ledger)
    with pytest.raises(RunEndedError, match="2 of 3 owners signed off") as caught:
        run(homes, agreed(text), grid=grid, ours=ours, min_owners=3)
    assert f"sign: refused: {reason}" in str(caught.value)
    ledgers = [ledger, *(PrivacyLedger.open(p.parent / "ledger") for p in homes.values())]
    assert [ledger.entries() for ledger in ledgers] == [[]] * 4
    assert {kind for _, kind in grid.asked} == {"sign"}


def emptied(path):
    path.write_bytes(b"")


def gone(path):
    path.unlink()


def cut_off(path):
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM records WHERE place = (SELECT max(place) FROM records)")


def half(path):
    os.truncate(path, path.stat().st_size // 2)


CHANGE = "UPDATE records SET body = replace(body, '{0}', '{1}') WHERE body LIKE '%{0}%'"


def set_back(path):
    with sqlite3.connect(path) as db:
        assert db.execute(CHANGE.format('rows\\": 32', 'rows\\": -500')).rowcount


def of_another_run(path):
    with sqlite3.connect(path) as db:
        assert db.execute(CHANGE.format('run\\": 1', 'run\\": 2')).rowcount


@pytest.mark.parametrize("damage", [emptied, gone, cut_off, half, set_back, of_another_run])
def test_a_record_of_grants_that_was_damaged_grants_nothing(homes, damage):
    settle(homes["north"], max_rows=70)
    post = Post(homes["north"]).sign(1, 2, 3)
    assert post.ask("ask", 1, question())["kind"] == "Rows"
    damage(post.site.grants)
    assert post.ask("ask", 2, question())["reason"] == GENERIC
    assert post.ask("sign", 4)["reason"] == GENERIC
    told = log_of(homes, "north").entries()[-1]["detail"]
    assert "damaged" in told or "no record of grants" in told
    with pytest.raises((OSError, LedgerDamagedError), match=r"damaged|no record of grants"):
        post.site.check()


def test_whatever_becomes_of_the_log_what_was_granted_counts(homes):
    settle(homes["north"], max_rows=70)
    post = Post(homes["north"]).sign(1, 2, 3, 4)
    damages = [b"", b"{ no json\n", b'{"event": "granted", "run": 9, "ask": "ask", "rows": -500}\n']
    kinds = []
    for run_id, text in enumerate(damages, start=1):
        post.site.log.write_bytes(text)
        kinds.append(post.ask("ask", run_id, question())["kind"])
    assert kinds == ["Rows", "Rows", "Refusal"]
    post.site.log.unlink()
    assert "max_rows" in post.ask("ask", 4, question())["reason"]
    assert Grants(post.site.grants).n_rows == 64
    # An answer that is kept counts as sent; a log that is gone has none of them.
    assert [e["run"] for e in post.site.lost()] == [1, 2]


@pytest.mark.parametrize("torn", ['{"time": "2026', '{"event": "granted", "rows": 100}', "\u20ac"])
def test_a_torn_last_line_is_cut_off(homes, torn):
    """Of a log: what comes next may be written without a look at what is there."""
    post = Post(homes["north"]).sign(1)
    octets = post.sealed("ask", 1, question())
    answer = post.site.answer("ask", 1, octets)
    with post.site.log.open("ab") as file:  # a crash in the middle of a line, or of a letter
        file.write(torn.encode()[:-1])
    assert post.site.answer("ask", 1, octets) == answer
    events = [e["event"] for e in log_of(homes, "north").entries()]
    assert events[-2:] == ["repaired", "repeated"]


def test_what_a_killed_process_left_stands_in_nobodys_way(tmp_path, monkeypatch):
    """In a container, every process may have the same number."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            write_file(tmp_path / "answer", b"half")
    write_file(tmp_path / "answer", b"whole")
    assert (tmp_path / "answer").read_bytes() == b"whole"


STRANGE_LABELS = [
    np.full(4, "a", ">U1"),
    np.full(4, 2**31 - 1, "<u4").view("<U1"),  # beyond Unicode
    np.full(4, "\ud800"),
    np.full(4, "a" * 65),
]


@pytest.mark.parametrize("labels", STRANGE_LABELS, ids=["swapped", "beyond", "surrogate", "long"])
def test_labels_that_no_file_holds_are_refused(labels):
    content = rows_reply(y=labels)
    with pytest.raises(ValueError, match="not text"):
        rows_of(content, agreed().schema, "string", 4)


@pytest.mark.parametrize(
    ("column", "dtype", "fits"),
    [
        (pa.array(["0", "SECRET77"]), "int64", False),
        (pa.array([0.0, 7712345.5]), "int64", False),
        (pa.array(["0", "SECRET77"], pa.large_string()), "int64", False),
        (pa.array(["0", "SECRET77"]).dictionary_encode(), "int64", False),
        (pa.array(["0", "1"], pa.large_string()), "int64", True),  # as polars writes words
        (pa.array([0.0, 1.0]), "int64", True),
        (pa.array(["0", "1"]).dictionary_encode(), "string", True),
    ],
    ids=str,
)
def test_no_message_tells_a_label_of_any_type(column, dtype, fits, tmp_path):
    text = AGREEMENT.replace('labels = "y"', f'labels = "y"\nlabels_dtype = "{dtype}"')
    (tmp_path / "agreement.toml").write_text(text)
    agreement = Agreement.load(tmp_path / "agreement.toml")
    cells = {name: [0.5, 0.5] for name in agreement.schema.names}
    pyarrow.parquet.write_table(pa.table({**cells, "y": column}), tmp_path / "table.parquet")
    if fits:
        assert len(read_table(tmp_path / "table.parquet", agreement)[1]) == 2
        return
    with pytest.raises(ValueError, match="'y' holds") as caught:
        read_table(tmp_path / "table.parquet", agreement)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not any(secret in str(caught.value) for secret in ("SECRET", "7712345"))


def test_labels_tell_nothing_of_rows_that_are_not_sent():
    """The type of an array of texts holds the length of the longest in all the table."""
    X, y = np.zeros((4, 3)), np.array(["a", "b" * 37, "c", "d"])
    sent = rows_content(Rows(np.array([0, 2]), X[[0, 2]], y[[0, 2]]))
    assert encode(sent) == encode({**sent, "y": np.array(["a", "c"])})
    assert rows_of(sent, agreed().schema, "string", 2).y.tolist() == ["a", "c"]
    none = rows_content(Rows(np.arange(0), X[:0], y[:0]))
    assert rows_of(none, agreed().schema, "string", 2).y.tolist() == []


def rows_reply(**changes):
    plan = {"kind": "Rows", "indices": np.arange(4), "X": np.ones((4, 3)), "y": np.arange(4)}
    return {**plan, **changes}


def at(stage, content):
    """Answer as the app does, and with `content` at one stage."""
    return lambda kind: content if kind == stage else NotImplemented


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "did not answer within"),
        (Error(code=1, reason="SECRET"), "Flower says LOAD_CLIENT_APP_EXCEPTION"),
        (RecordDict({"x": ConfigRecord({"a": 1})}), "did not open the question"),
        (b"", "did not open the question"),
        (b"\0" * 1000, "sent what cannot be read"),
        ({"kind": "Rows"}, "sent no rows"),
        (rows_reply(X=np.ones((4, 2))), "another shape"),
        (rows_reply(X=np.array(1.0)), "another shape"),
        (rows_reply(indices=np.array(1)), "without an index each"),
        (rows_reply(X=np.full((4, 3), 6.5)), "column 'a' of the schema does not take"),
        (rows_reply(X=np.ones((4, 3), np.float32)), "another dtype"),
        (rows_reply(X=np.full((4, 3), np.nan)), "column 'a' of the schema does not take"),
        (rows_reply(y=np.array(list("abcd"))), "labels of another dtype"),
        (rows_reply(indices=np.zeros(4, int)), "a row twice"),
        (rows_reply(X=np.ones((33, 3)), indices=np.arange(33), y=np.arange(33)), "more rows"),
        ({"kind": "Refusal", "reason": "no\x1b[2J"}, "refused: no[2J"),
        ({"kind": np.arange(2)}, "sent what cannot be read"),
    ],
)
def test_who_sends_rubbish_or_nothing_is_left_out(homes, content, reason):
    over = run(homes, odd={"south": at("ask", content)})
    assert list(over.left_out) == ["south"]
    assert over.left_out["south"].startswith("ask: ")
    assert reason in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert over.curator.chosen == in_process(agreed(), ["south"]).chosen
    assert list(over.sketches) == ["north", "east"]


def test_a_pickle_is_not_opened():
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], object), allow_pickle=True)
    for trap in (buffer.getvalue(), pickle.dumps(Trap())):
        head = json.dumps({"scalars": {"kind": "Rows"}, "arrays": {"X": len(trap)}}).encode()
        with pytest.raises(ValueError, match="cannot be read"):
            decode(len(head).to_bytes(8, "big") + head + trap)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"scalars": {"a": null}, "arrays": {}}',
        b'{"scalars": {"a": [1]}, "arrays": {}}',
        b'{"scalars": {}, "arrays": {"X": -8}}',
        b'{"scalars": {}, "arrays": {"X": 99999999999999}}',
        b'{"scalars": {}, "arrays": {"X": "8"}}',
        b'{"scalars": {}, "arrays": {}} ' + b"1" * 5000,
    ],
)
def test_bytes_of_a_malicious_owner_are_read_or_refused(head):
    for octets in (len(head).to_bytes(8, "big") + head, b"\xff" * 8 + head, head):
        with pytest.raises(ValueError, match="cannot be read"):
            decode(octets + b"rest")


def test_a_long_head_is_not_parsed(monkeypatch):
    """Where messages may be long, heads may not, nor be deep."""
    head = json.dumps({"scalars": {str(k): 0 for k in range(1000)}, "arrays": {}}).encode()
    octets = len(head).to_bytes(8, "big") + head
    monkeypatch.setattr("skdpsumm.federated._wire.json.loads", lambda _: pytest.fail("was parsed"))
    with pytest.raises(ValueError, match="cannot be read"):
        decode(octets)


def test_a_larger_sketch_than_agreed_is_not_read(monkeypatch):
    ours = agreed()
    octets = np.zeros(size_of_sketch(empty_sketch(ours)) + 1, np.uint8)
    unread = staticmethod(lambda _: pytest.fail("was read"))
    monkeypatch.setattr("skdpsumm.sketches.PrivateSketch.load", unread)
    with pytest.raises(ValueError, match="of another size than agreed"):
        sketch_of({"kind": "Sketch", "file": octets}, ours)


def sketch_bytes(tmp_path, text=AGREEMENT, change=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        made = simulate(agreed(text).sketcher(), frame(1)[COLUMNS], seed=1).sketch_
    if change is not None:
        change(made)
    with pytest.MonkeyPatch.context() as patch:  # a stranger writes what `save` would refuse
        patch.setattr("skdpsumm.sketches._private_sketch.check_consistent", lambda sketch: None)
        made.save(tmp_path / "made")
    octets = np.frombuffer((tmp_path / "made").read_bytes(), np.uint8)
    return {"kind": "Sketch", "file": octets}


def spoil(sketch):
    sketch.sums[0] = 1e6


def understate(sketch):
    sketch.noise_std[:] /= 2


def overstate(sketch):
    sketch.noise_std[:] *= 2


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("text", "change", "reason"),
    [
        (AGREEMENT.replace("= 5\n", "= 6\n"), None, "another feature map"),
        (AGREEMENT.replace("epsilon = 1.0", "epsilon = 0.5"), None, "other noise"),
        (AGREEMENT, overstate, "other noise"),
        (AGREEMENT, understate, "no sketch"),
        (AGREEMENT, spoil, "no sketch"),
    ],
)
def test_a_sketch_that_was_not_agreed_is_not_added(homes, tmp_path, text, change, reason):
    reply = sketch_bytes(tmp_path, text, change)
    over = run(homes, odd={"south": at("sketch", reply)})
    assert reason in over.left_out["south"]
    assert list(over.sketches) == ["north", "east"]
    octets = {"kind": "Sketch", "file": np.arange(50, dtype=np.uint8)}
    assert (
        "no sketch" in run(homes, odd={"south": at("sketch", octets)}, run_id=2).left_out["south"]
    )


def test_who_signs_something_else_or_for_another_is_left_out(homes):
    signed = {"kind": "SignOff", "owner": "east", "agreement": agreed().digest}
    over = run(homes, odd={"south": at("sign", signed)}, rows=False)
    assert over.left_out == {"south": "sign: signed something else off"}
    signed["owner"] = np.array(["south", "east"])  # of which numpy makes no one truth
    over = run(homes, odd={"south": at("sign", signed)}, run_id=2, rows=False)
    assert over.left_out == {"south": "sign: signed something else off"}


def test_with_no_owner_nothing_is_spent(homes):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    odd = {name: at("sign", None) for name in NAMES}
    for fewest in (0, -1, 1):
        ours = curator(agreed(), ledger=ledger)
        with pytest.raises(RunEndedError, match="min_owners"):
            run(homes, ours=ours, odd=odd, min_owners=fewest)
    assert ledger.entries() == []


def test_two_nodes_of_one_name_are_none(homes):
    grid = GridDouble(homes)
    twin = [*grid.get_nodes(), grid.get_nodes()[0]]
    grid.get_nodes = lambda: twin
    over = run(homes, grid=grid, rows=False)
    told = "sign: has two nodes that are connected under their name: they must end one"
    assert over.left_out == {"north": told}


def test_a_second_node_of_one_folder_says_so(homes, capsys, monkeypatch):
    monkeypatch.setattr(_commands, "_keep", lambda *_: main(["supernode", str(homes["north"])]))
    assert main(["supernode", str(homes["north"])]) == 2
    told = capsys.readouterr()
    assert "A node of 'north' runs here already: end it first" in told.err
    monkeypatch.setattr(_commands, "_keep", lambda *_: 0)
    assert main(["supernode", str(homes["north"])]) == 0


def test_a_node_tells_at_its_start_which_grants_were_lost(homes, capsys, monkeypatch):
    post = Post(homes["north"]).sign(1, 2)
    assert post.ask("ask", 2, question())["kind"] == "Rows"
    with monkeypatch.context() as patch:
        patch.setattr(DataOwner, "answer", lambda *_: 1 / 0)
        post.ask("ask", 1, question())
    monkeypatch.setattr(_commands, "_keep", lambda *_: 0)
    assert main(["supernode", str(homes["north"])]) == 0
    told = capsys.readouterr().out
    assert "Run 1: 'ask' was granted with 32 rows, and the log has no answer: it counts" in told
    assert "Run 2" not in told


def test_messages_come_out_as_they_went_in():
    sent = ProposeRows(
        n_herd=3,
        n_uniform=1,
        direction=np.arange(40.0) / 7,
        noise=0.25,
        embedding=agreed().embedding(),
    )
    got = message_of(decode(encode(message_content(sent))))
    assert describe(got) == describe(sent)
    assert got.noise == 0.25
    np.testing.assert_array_equal(got.direction, sent.direction)
    np.testing.assert_array_equal(got.embedding.frequencies, sent.embedding.frequencies)
    with pytest.raises(ValueError, match="SendBest does not go over Flower"):
        message_content(SendBest(direction=np.ones(3), n=1))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "SendBest"},
        {"n_herd": -1},
        {"n_herd": 1.5},
        {"n_herd": True},
        {"extra": 1},
        {"direction": np.array([np.inf])},
        {"direction": np.ones(3, np.float32)},
        {"reveal": "rows"},
        {"noise": 0.0},
        {"noise": np.inf},
        {"noise": True},
    ],
)
def test_messages_with_other_entries_are_refused(change):
    content = message_content(ProposeRows(n_herd=3, n_uniform=1)) | change
    with pytest.raises(ValueError, match="message"):
        message_of(content)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("n_select = 6", "n_selekt = 6", "n_selekt"),
        ("n_select = 6", "", "rows must have n_select"),
        ('"propose"', '"auction"', "protocol"),
        ("random_state = 3", "", "random_state"),
        ("random_state = 5", "", "random_state"),
        ('kind = "fourier"', 'kind = "cosine"', "kind"),
        ("n_bins = 4", 'n_bins = 4, ledger = "x"', "ledger"),
        ("n_bins = 4", "n_bins = 4, ledger = 1", "ledger"),
        ('labels = "y"', 'labels = "a"', "labels"),
        ('labels = "y"', 'dtypes = "object"', "dtypes"),
        ("schema.columns.b", "schema.all_columns", "one kind of tables"),
        ("low = -6", "lov = -6", "column 'a': unknown entries"),
        ("low = -6", "", "low and high"),
    ],
)
def test_bad_agreements_are_named(old, new, reason):
    with pytest.raises(ValueError, match=reason):
        agreed(AGREEMENT.replace(old, new, 1))


def test_the_template_is_sound(tmp_path, monkeypatch):
    text = (
        Path(__file__).resolve().parent.parent / "examples/federated/agreement.toml"
    ).read_text()
    monkeypatch.chdir(tmp_path)
    owners = ["north", "south", "east", "west", "centre"]
    assert main(["new", "curator", *owners, "--epsilon", "2"]) == 0
    keys = "".join(Path(name, "public.toml").read_text() for name in ("curator", *owners))
    Path("agreement.toml").write_text(text + keys)
    for folder in (".", *owners):
        TableSchema({f"px{j}": (0, 16) for j in range(64)}).save(f"{folder}/schema.toml")
    ours = Agreement.load("agreement.toml")
    assert [ours.rows_asked(owner) for owner in owners] == [48] * 5
    assert ours.schema.names == tuple(f"px{j}" for j in range(64))
    for path in tmp_path.rglob("*"):
        if path.name not in ("agreement.toml", "schema.toml"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    Path("north/agreement.toml").write_text(text + keys)
    assert OwnerSite.load("north/owner.toml").check().digest == ours.digest
    Path("south/agreement.toml").write_text(
        text
        + keys.replace("keys.north", "keys.swap")
        .replace("keys.south", "keys.north")
        .replace("keys.swap", "keys.south")
    )
    with pytest.raises(ValueError, match="keys of 'south' in the agreement"):
        OwnerSite.load("south/owner.toml").check()
    assert main(["new", "north"]) == 2  # whose keys are there already


def test_owners_sign_what_the_page_has_them_type(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parent.parent / "docs/federated.md").read_text()
    typed = page.split("## A first result")[1].split("```bash\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    for line in typed.splitlines():
        if "skdpsumm.federated new " in line:
            assert main(line.split()[3:]) == 0
    exec(typed.split("<<'EOF'\n")[1].split("\nEOF\n")[0], {})
    parts = ["agreement.toml", *sorted(Path().glob("*/public.toml"))]
    text = "".join(Path(part).read_text() for part in parts)
    for owner in ("north", "south"):
        Path(owner, "agreement.toml").write_text(text)
        assert OwnerSite.load(f"{owner}/owner.toml")._sign(1, {})["kind"] == "SignOff"


def test_keys_that_others_can_read_are_not_used(homes):
    (home_of(homes, "north") / "keys.pem").chmod(0o640)
    with pytest.raises(ValueError, match=r"chmod 600 keys\.pem"):
        OwnerSite.load(homes["north"]).check()


def test_a_node_opens_no_port_to_others(homes, capsys):
    for host in ("0.0.0.0", "192.0.2.10", "::", "example.org"):
        assert main(["supernode", str(homes["north"]), "--host", host]) == 2
        assert "is refused" in capsys.readouterr().err


@pytest.fixture
def signals():
    """Give back what a command takes: pytest itself is the process that would be told to end."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("statuses", "n_starts", "told"),
    [
        ([49, 1, 0], 3, 0),  # not taken yet, and sent away once
        ([-9, 0], 2, 0),  # killed
        ([2], 1, 2),  # wrong options
        ([49] * 50, 8, 49),  # another key: five minutes
    ],
)
def test_a_node_is_started_again_until_it_is_taken(
    tmp_path, monkeypatch, signals, statuses, n_starts, told
):
    monkeypatch.setattr(_commands, "_PAUSE_SECONDS", 0.0)
    clock = iter(np.arange(0.0, 1e6, 15.0))  # is looked at three times a start
    monkeypatch.setattr(_commands.time, "monotonic", lambda: next(clock))
    ends, n_run = iter(statuses), []

    def run(runner, command, environment):
        n_run.append(command)
        return next(ends)

    monkeypatch.setattr(_commands._Runner, "run", run)
    assert _commands._keep(["node"], {}) == told
    assert len(n_run) == n_starts


def test_a_node_that_is_told_to_end_is_not_started_again(signals):
    code = "import time; print('up', flush=True); time.sleep(60)"
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert _commands._keep([sys.executable, "-c", code], dict(os.environ)) == -signal.SIGTERM


def test_a_flower_that_starts_apps_otherwise_is_not_run(monkeypatch):
    commands = {kind: "flwr-runtime" for kind in flwr.supercore.constant.TaskType}
    monkeypatch.setattr("flwr.supercore.constant.TASK_TYPE_TO_COMMAND", commands)
    starts = (_commands.clientapp, _commands.serverapp)
    for start in (*starts, lambda: _commands.supernode([]), lambda: _commands.superlink([])):
        with pytest.raises(RuntimeError, match="might execute what others send"):
            start()


def test_the_digest_of_an_agreement_is_printed(homes, capsys):
    assert main(["agreement", str(home_of(homes, "north") / "agreement.toml")]) == 0
    told = capsys.readouterr().out
    assert agreed().digest in told
    assert f"north is asked for {agreed().rows_asked('north')} rows a run" in told
    assert main([]) == 2


# ---- words, missing values and whole numbers

CENSUS = """
owners = ["north", "south", "east"]
labels = "income"
labels_dtype = "string"

[schema.columns.age]
low = 17
high = 90
step = 1
[schema.columns.gain]
low = 0
high = 99_999
missing = true
[schema.columns.job]
categories = ["clerk", "farmer", "NA"]
missing = true
[schema.columns.zip]
categories = [1, 2.5, 70001, "PO box"]
[schema.columns.veteran]
categories = [true, false]

[rows]
protocol = "propose"
n_select = 12
n_components = 40
epsilon = 20.0
random_state = 3

[sketch]
epsilon = 1.0
delta = 1e-6
random_state = 5
sketchers = [{ kind = "histogram", n_bins = 4 }]
"""
CENSUS += AGREEMENT[AGREEMENT.index("[keys.") :]


def census(k, n=80):
    """A table as it comes: objects, and dtypes that hang on what a file happens to hold."""
    rng = np.random.default_rng(k)
    zips = np.array([1, 2.5, 70001, "PO box"], object)
    jobs = np.array(["clerk", "farmer", "NA", None], object)
    return pd.DataFrame(
        {
            "veteran": rng.random(n) < 0.5,
            "age": rng.integers(17, 91, n).astype("int8" if k else "float32"),
            "job": jobs[rng.integers(0, 4, n)],
            "zip": zips[rng.integers(0, 3 if k else 4, n)],
            "gain": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 100_000, n)),
            "income": rng.choice(["<=50K", ">50K"], n),
        }
    )


def to_csv(frame, path):
    """Write numbers in full, and missing cells in different ways."""
    texts = frame.astype(object)
    for name, absent in (("gain", " n/a "), ("job", "")):
        texts[name] = texts[name].where(frame[name].notna(), absent)
    texts.to_csv(path, index=False)


@pytest.fixture
def census_homes(tmp_path):
    made = {}
    for k, name in enumerate(NAMES):
        made[name] = make_home(tmp_path / name, k, agreement=CENSUS)
        to_csv(census(k), made[name].parent / "table.csv")
        made[name].write_text(made[name].read_text().replace("table.parquet", "table.csv"))
    return made


def census_target():
    rows = census(7, 300)
    return rows[(rows.age > 60) & (rows.job == "farmer")].drop(columns="income")


def over_census(census_homes, text=CENSUS, ours=None, run_id=1):
    return run(census_homes, agreed(text), ours=ours, rows=False, run_id=run_id)


def census_curator(ours):
    with drawing_from(7):
        return ours.curator(vectors(census_target(), ours))


def test_raw_tables_are_read_cell_by_cell_and_come_out_as_they_were(census_homes, tmp_path):
    ours = agreed(CENSUS)
    over = over_census(census_homes, CENSUS, census_curator(ours))
    assert over.left_out == {}
    tables = {name: census(k) for k, name in enumerate(NAMES)}
    owners = {
        name: DataOwner(vectors(t.drop(columns="income"), ours), t["income"], seed=k)
        for k, (name, t) in enumerate(tables.items())
    }
    here = run_protocol(census_curator(ours), owners)
    assert over.curator.chosen == here.chosen
    np.testing.assert_array_equal(over.curator.X, here.X)
    over.save(tmp_path / "result")
    saved = pd.read_parquet(tmp_path / "result" / "summary.parquet")
    assert list(saved) == ["age", "gain", "job", "zip", "veteran", "income"]
    for k, (name, index) in enumerate(over.curator.chosen):
        row = tables[name].iloc[index]
        got = saved.iloc[k]
        assert got.age == row.age
        assert got.veteran == row.veteran
        assert got.income == row.income
        assert got.zip == str(row.zip)  # of several kinds, which a file has no type for
        assert got.gain == row.gain or (np.isnan(got.gain) and np.isnan(row.gain))
        assert got.job == row.job or (pd.isna(got.job) and row.job is None)
    assert len(saved) == 12


def test_parquet_of_any_types_gives_the_same_codes(tmp_path):
    ours = agreed(CENSUS)
    frame = census(1)
    frame["zip"] = np.where(frame.zip == 2.5, 1, 70001).astype(np.int64)
    ways = {
        "plain": frame,
        "nullable": frame.astype({"gain": "Float64", "age": "UInt16", "zip": "Int64"}),
        "categories": frame.astype({"job": "category", "income": "category"}),
        "words": frame.astype({"job": "string"}),
    }
    codes = []
    for name, table_of_way in ways.items():
        table_of_way.to_parquet(tmp_path / name)
        codes.append(read_table(tmp_path / name, ours))
    to_csv(frame, tmp_path / "table.csv")
    codes.append(read_table(tmp_path / "table.csv", ours))
    for got, labels in codes:
        np.testing.assert_array_equal(got, codes[0][0])
        np.testing.assert_array_equal(labels, frame.income)
    assert set(codes[0][0][:, 3]) == {0, 2}


def test_a_row_more_changes_no_other_cell_of_a_csv_file(tmp_path):
    """What a text stands for is a matter of its column's schema, and of no other cell."""
    ours, frame = agreed(CENSUS), census(1)
    to_csv(frame, tmp_path / "one.csv")
    before, _ = read_table(tmp_path / "one.csv", ours)
    text = (tmp_path / "one.csv").read_text()
    for row in ("True,17.6,NA,PO box,1e4,>50K", "FALSE, 90 ,null,1.0,NaN,x", "0,99,,70001,-5,NA"):
        (tmp_path / "two.csv").write_text(f"{text}{row}\n")
        after, labels = read_table(tmp_path / "two.csv", ours)
        np.testing.assert_array_equal(after[:-1], before)
        assert len(labels) == len(frame) + 1
    assert after[-1].tolist()[:1] == [90.0]  # clipped to the range
    for row in ("True,SECRET,NA,1,1,x", "True,20,SECRET,1,1,x", "True,,NA,1,1,x", "2,20,NA,1,1,x"):
        (tmp_path / "two.csv").write_text(f"{text}{row}\n")
        with pytest.raises(ValueError, match="Column '") as caught:
            read_table(tmp_path / "two.csv", ours)
        assert "SECRET" not in str(caught.value)


def test_extra_columns_are_refused_or_left_out_as_the_schema_says(census_homes):
    home = home_of(census_homes, "south")
    to_csv(census(1).assign(SECRET=1), home / "table.csv")
    over = over_census(census_homes)
    assert "some that the schema does not describe" in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert "SECRET" in log_of(census_homes, "south").entries()[-1]["detail"]
    start = "[schema.columns.age]"
    dropping = '[schema]\nextra_columns = "drop"\n'
    text = CENSUS.replace(start, dropping + start)
    for path in census_homes.values():
        (path.parent / "agreement.toml").write_text(text)
    over = over_census(census_homes, text, run_id=2)
    assert over.left_out == {}


@pytest.mark.parametrize(
    ("column", "code", "sound"),
    [
        (0, 17.0, True),
        (0, 17.5, False),  # between two values
        (0, 91.0, False),
        (0, np.nan, False),
        (1, np.nan, True),
        (1, 0.1, True),
        (1, -1.0, False),
        (1, np.inf, False),
        (2, 3.0, True),  # missing
        (2, 4.0, False),
        (2, 1.5, False),
        (2, -1.0, False),
        (2, np.nan, False),
        (3, 4.0, False),
        (4, 2.0, False),
    ],
)
def test_codes_from_a_stranger_are_checked(column, code, sound):
    codes = np.array([[20.0, 5.0, 1.0, 2.0, 0.0]])
    codes[0, column] = code
    schema = agreed(CENSUS).schema
    if sound:
        check_codes(schema, codes)
        again = cells_of(schema, codes)
        np.testing.assert_array_equal([schema.read(again, j) for j in range(5)], codes.T)
    else:
        with pytest.raises(ValueError, match="does not take"):
            check_codes(schema, codes)


def test_the_target_has_to_fit_the_agreement(homes, home):
    PrivacyLedger(home.parent / "ledger", epsilon=5, delta=1e-5)
    pd.DataFrame(TARGET, columns=["a", "b", "d"]).to_parquet(home.parent / "target.parquet")
    grid = GridDouble(homes)
    with pytest.raises(RuntimeError):
        run_app(home, grid)
    assert "The target does not fit" in result_of(home)[1]["error"]
    assert "no column 'c'" in result_of(home)[1]["error"]
    assert grid.asked == []
