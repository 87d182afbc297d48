"""Over Flower's wire: the same rows, nothing more said, nothing asked twice, and no one trusted."""

import contextlib
import errno
import hashlib
import importlib.util
import io
import json
import os
import pickle
import re
import signal
import sqlite3
import sys
import threading
import tomllib
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import flwr.supercore.constant
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flower_double import GridDouble
from flwr.app import ConfigRecord, Error, RecordDict
from simulated import simulate

from skdpsumm import LedgerDamagedError, PrivacyLedger, PublicVectorizer, TableSchema
from skdpsumm.federated import _commands, _curator, _wire
from skdpsumm.federated.__main__ import main
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._curator import GENERIC as CURATOR_GENERIC
from skdpsumm.federated._curator import CuratorSite, FederatedRun, sketch_of
from skdpsumm.federated._envelope import Keys, Letter, counter_of, seal, unseal
from skdpsumm.federated._files import GENERIC, Grants, Refusal, make_folder
from skdpsumm.federated._site import NOT_TAKEN, OwnerSite
from skdpsumm.federated._wire import (
    cells_of,
    check_codes,
    decode,
    describe,
    encode,
    message_of,
    question_content,
    read_table,
)
from skdpsumm.privacy import _noise
from skdpsumm.privacy._noise import drawing_from
from skdpsumm.schema._reading import Table
from skdpsumm.sketches._private_sketch import sealed
from skdpsumm.summaries import DataOwner
from skdpsumm.summaries._parties import run_protocol

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:Raise max_share_per_owner"),
]

ROOT = Path(__file__).resolve().parent.parent
NAMES = ["north", "south", "east"]
COLUMNS = ["a", "b", "c"]


def fixed_keys(name):
    """Return the same keys in every process, for texts with them are names of tests."""
    raw = hashlib.sha256(name.encode()).digest()
    return Keys(Ed25519PrivateKey.from_private_bytes(raw), X25519PrivateKey.from_private_bytes(raw))


KEYS = {name: fixed_keys(name) for name in ("curator", *NAMES)}
PUBLIC = {name: keys.public for name, keys in KEYS.items()}
KEYS_OF_ONE = '[keys.{}]\nsign = "{sign}"\nseal = "{seal}"\n'
PUBLIC_TEXT = "".join(KEYS_OF_ONE.format(name, **keys) for name, keys in PUBLIC.items())
SKETCH = """
[sketch]
epsilon = 1.0
delta = 1e-6
random_state = 5
sketchers = [{ kind = "histogram", n_bins = 4 }, { kind = "fourier", n_components = 10 }]
"""
START = (
    """
owners = ["north", "south", "east"]
labels = "y"
[schema]
extra_columns = "drop"
"""
    + "".join(f"[schema.columns.{name}]\nlow = -6\nhigh = 6\n" for name in COLUMNS)
    + """
[schema.columns.y]
categories = [0, 1, 2, 3, 4]
[rows]
protocol = "propose"
n_select = 6
n_components = 40
random_state = 3
"""
)
AGREEMENT = START + SKETCH + PUBLIC_TEXT
POOL = AGREEMENT.replace('"propose"', '"pool"')
TARGET = np.random.default_rng(9).normal(1.0, 1.0, (30, 3))


def agreed(text=AGREEMENT):
    return Agreement.from_dict(tomllib.loads(text))


def table(k, n=60):
    rng = np.random.default_rng(k)
    return rng.normal(k - 1, 1.0, (n, 3)), rng.integers(0, 5, n)


def frame(k):
    X, y = table(k)
    return pd.DataFrame({"y": y, "c": X[:, 2], "a": X[:, 0], "b": X[:, 1], "other": X[:, 0]})


def make_home(folder, k, text=AGREEMENT):
    folder.mkdir()
    frame(k).to_parquet(folder / "table.parquet")
    (folder / "agreement.toml").write_text(text)
    KEYS[NAMES[k]].save(folder / "keys.pem")
    PrivacyLedger(folder / "ledger", epsilon=2.5, delta=1e-5)
    Grants.make(folder / "grants")
    files = {"table": "table.parquet", "agreement": "agreement.toml", "keys": "keys.pem"}
    files |= {"log": "log.jsonl", "grants": "grants", "ledger": "ledger"}
    settle(folder / "owner.toml", name=NAMES[k], **files, max_rows=100, seed=k)
    return folder / "owner.toml"


def settle(path, **settings):
    """Set entries of a party's file; None takes one out."""
    before = path.read_text().splitlines() if path.exists() else []
    lines = [t for t in before if t.split(" =")[0] not in settings]
    lines += [f"{n} = {json.dumps(v)}" for n, v in settings.items() if v is not None]
    path.write_text("\n".join(lines))


@pytest.fixture
def homes(tmp_path):
    return {name: make_home(tmp_path / name, k) for k, name in enumerate(NAMES)}


@pytest.fixture
def north(homes):
    return Post(homes["north"])


def agree_on(homes, text):
    for path in homes.values():
        (path.parent / "agreement.toml").write_text(text)


def vectors(X, agreement=None):
    return PublicVectorizer((agreement or agreed()).features).fit_transform(X)


def curator(agreement, X=TARGET, **own):
    with drawing_from(7):
        return agreement.curator(vectors(X, agreement), **own)


def run(homes, text=AGREEMENT, *, grid=None, ours=None, odd=(), run_id=1, rows=True, **options):
    agreement = agreed(text)
    grid = GridDouble(homes, odd, run_id) if grid is None else grid
    if ours is None and rows:
        ours = curator(agreement)
    over = FederatedRun(agreement, KEYS["curator"], grid, run_id, 0.05, curator=ours)
    return over.carry_out(wait=0.0, **options)


def in_process(text=AGREEMENT, without=()):
    def absent(message):
        raise TimeoutError

    tables = {name: table(k) for k, name in enumerate(NAMES)}
    owners = {n: DataOwner(vectors(X), y, seed=k) for k, (n, (X, y)) in enumerate(tables.items())}
    for name in without:
        owners[name].answer = absent
    return run_protocol(curator(agreed(text)), owners)


def events(path, kind=None):
    """Return what an owner's log says, without lines that a crash has torn."""
    found = []
    for line in path.with_name("log.jsonl").read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [e for e in found if kind in (None, e["event"])]


class Post:
    """What passes between the curator and one owner, without Flower."""

    def __init__(self, path):
        self.path, self.site, self.counter = path, OwnerSite.load(path), -1
        self.ours = Agreement.load(self.site.agreement)

    @property
    def paid(self):
        return PrivacyLedger.open(self.site.ledger).entries()

    @property
    def granted(self):
        return [(e["run"], e["ask"]) for e in Grants(self.site.grants).entries()]

    def letter(self, kind, run_id, **changes):
        place = {"agreement": self.ours.digest, "run": run_id, "counter": self.counter}
        parties = {"sender": "curator", "receiver": self.site.name}
        return Letter(**{**place, **parties, "kind": kind} | changes)

    def sealed(self, kind, run_id, content, *, more=0, keys=KEYS["curator"], to=None, **changes):
        """Return a question, as the curator seals it or otherwise; each has a new counter."""
        self.counter += 1
        room, letter = _wire.room_of_question(self.ours, kind), self.letter(kind, run_id, **changes)
        return seal(letter, encode(content), room + more, keys, PUBLIC[to or self.site.name])

    def opened(self, kind, run_id, question, octets):
        """Return what an answer says, after all that the curator checks."""
        name, digest = self.site.name, hashlib.sha256(question).hexdigest()
        answer = {"sender": name, "receiver": "curator", "question": digest}
        letter = self.letter(kind, run_id, counter=counter_of(question), **answer)
        room = _wire.room_of_answer(self.ours, kind, name)
        return decode(unseal(letter, octets, room, KEYS["curator"], PUBLIC[name]))

    def sign(self, *runs):
        """Have the owner sign runs, and return this."""
        for run_id in runs:
            assert self.ask("sign", run_id)["kind"] == "SignOff"
        return self

    def ask(self, kind, run_id, **changes):
        """Return an owner's answer to a question that is in order but for `changes`."""
        asked = self.sealed(kind, run_id, content_of(kind, **changes))
        return self.opened(kind, run_id, asked, self.site.answer(kind, run_id, asked))


def content_of(kind, **changes):
    if kind != "ask":
        return {}
    told = {"direction": np.ones(40), "noise": 0.5, "map": MAP, **changes}
    return {name: value for name, value in told.items() if value is not None}


MAP = question_content(agreed().question("north", np.ones(40), 0.5))["map"]


# ---- a run


@pytest.mark.parametrize("text", [AGREEMENT, POOL], ids=["propose", "pool"])
def test_the_same_rows_and_no_more_said(homes, text):
    agree_on(homes, text)
    over, here = run(homes, text), in_process(text)
    assert (over.left_out, over.curator.chosen) == ({}, here.chosen)
    np.testing.assert_array_equal(over.curator.X, here.X)
    np.testing.assert_array_equal(over.rows["y"], here.y)
    for name in NAMES:
        came = events(homes[name], "received")
        transcript = [describe(question_content(m)) for m in here.transcript[name]]
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


# ---- the agreement

CHANGES = [
    ("low = -6", "low = -5", "schema.columns.a.low"),
    ('"drop"', '"refuse"', "schema.extra_columns"),
    ("columns.b", "columns.d", "schema.columns.b"),
    ("[0, 1,", "[1, 0,", "schema.columns.y.categories[0]"),
    ("low = -6", "low = -6\nunit = 'm'", "schema.columns.a.unit"),
    ("random_state = 3", "random_state = 4", "rows.random_state"),
    ("epsilon = 1.0", "epsilon = 9.0", "sketch.epsilon"),
    ("n_bins = 4", "n_bins = 5", "sketch.sketchers[0].n_bins"),
    (PUBLIC["east"]["seal"], fixed_keys("another").public["seal"], "keys.east.seal"),
]


@pytest.mark.parametrize(("old", "new", "entry"), CHANGES)
def test_a_command_names_the_entry_in_which_agreements_differ(tmp_path, capsys, old, new, entry):
    ours, theirs = str(tmp_path / "a"), str(tmp_path / "b")
    Path(ours).write_text(AGREEMENT)
    Path(theirs).write_text(AGREEMENT.replace(old, new))
    assert main(["agreement", ours, theirs]) == 1
    assert f"{entry}: " in capsys.readouterr().out
    assert main(["agreement", ours, ours]) == 0
    assert "is equal" in capsys.readouterr().out
    assert main(["agreement", ours]) == 0
    told = capsys.readouterr().out
    assert agreed().digest in told
    assert f"north is asked for {agreed().rows_asked('north')} rows a run" in told


def test_another_agreement_is_not_even_opened(homes):
    (homes["south"].parent / "agreement.toml").write_text(AGREEMENT.replace(*CHANGES[0][:2]))
    over = run(homes)
    assert list(over.left_out) == ["south"]
    assert "sign: did not open the question: their copy of the agreement" in over.left_out["south"]
    assert over.curator.chosen == in_process(without=["south"]).chosen
    assert [e["event"] for e in events(homes["south"])] == ["stranger"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("n_select = 6", "n_selekt = 6", "n_selekt"),
        ("n_select = 6", "", "rows must have n_select"),
        ("n_select = 6", "n_select = 6\ngamma = -1.0", "gamma"),
        ("n_select = 6", "n_select = 6\nshares = {north = 1, south = 0, east = 1}", "shares"),
        ('"propose"', '"auction"', "kind: one of"),
        ('"propose"', '{ kind = "pool", explore = 0.5 }', "unknown entries"),
        ("random_state = 3", "", "random_state"),
        ('kind = "fourier"', 'kind = "cosine"', "kind"),
        ("n_bins = 4", 'n_bins = 4, ledger = "x"', "ledger"),
        ("n_bins = 4", "n_bins = 4, schema = [0, 1]", "schema"),
        ("n_bins = 4", "n_bins = 4, max_rows_per_group = 2", "max_rows_per_group"),
        ('labels = "y"', 'labels = "d"', "labels"),
        ("schema.columns.b", "schema.all_columns", "one kind of tables"),
        ("low = -6", "lov = -6", "column 'a': unknown entries"),
        ('["north",', '["curator",', "curator"),
        ("[keys.north]", "[keys.west]", "keys must have a table"),
        (PUBLIC["north"]["sign"], PUBLIC["south"]["sign"], "the same key"),
        (PUBLIC["north"]["seal"], "AAAA", "keys.north: Give"),
    ],
)
def test_bad_agreements_are_named(old, new, reason):
    refused(reason, agreed, AGREEMENT.replace(old, new, 1))


def test_rows_are_asked_for_by_protocol_and_shares():
    def asked(old, new):
        return [agreed(AGREEMENT.replace(old, new)).rows_asked(name) for name in NAMES]

    assert asked('"propose"', '{ kind = "propose", parsimony = 6.0 }') == [12] * 3
    shares = "n_select = 6\nshares = { north = 2, south = 1, east = 1 }"
    assert asked("n_select = 6", shares) == [48, 24, 24]


def test_the_template_is_sound(tmp_path, monkeypatch):
    text = (ROOT / "examples/federated/agreement.toml").read_text()
    monkeypatch.chdir(tmp_path)
    owners = ["north", "south", "east", "west", "centre"]
    assert main(["new", "curator", *owners, "--epsilon", "2"]) == 0
    keys = "".join(Path(name, "public.toml").read_text() for name in ("curator", *owners))
    columns = {f"px{j}": (0, 16) for j in range(64)}
    for folder in (".", *owners):
        TableSchema({**columns, "digit": list(range(10))}).save(f"{folder}/schema.toml")
    Path("agreement.toml").write_text(text + keys)
    ours = Agreement.load("agreement.toml")
    assert [ours.rows_asked(owner) for owner in owners] == [48] * 5
    assert ours.features.names == tuple(columns)
    for path in tmp_path.rglob("*"):
        if path.name not in ("agreement.toml", "schema.toml"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    Path("north/agreement.toml").write_text(text + keys)
    assert OwnerSite.load("north/owner.toml").check().digest == ours.digest
    Path("north/keys.pem").chmod(0o640)
    refused(r"chmod 600 keys\.pem", OwnerSite.load("north/owner.toml").check)
    swapped = keys.replace("keys.north", "keys.swap").replace("keys.south", "keys.north")
    Path("south/agreement.toml").write_text(text + swapped.replace("keys.swap", "keys.south"))
    refused("keys of 'south' in the agreement", OwnerSite.load("south/owner.toml").check)
    assert main(["new", "north"]) == 2  # whose keys are there already


def test_owners_sign_what_the_page_has_them_type(tmp_path, monkeypatch):
    page = (ROOT / "docs/federated.md").read_text()
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


@pytest.mark.parametrize("name", ["north.west", 'a"b', "x]\n[rows", "mine too", "../.."])
def test_names_of_parties_are_names_in_toml(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "south", name]) == 2
    assert "cannot name a party" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_agreement_does_not_steer_the_terminal(tmp_path, capsys):
    trap = "\x1b[2K\ris equal"
    ours, theirs = tmp_path / "ours.toml", tmp_path / "theirs.toml"
    for path, high in ((ours, 1), (theirs, 2)):
        column = f"[schema.columns.{json.dumps(trap)}]\nlow = 0\nhigh = {high}\n"
        path.write_text(AGREEMENT.replace("[rows]", column + "[rows]", 1))
    assert main(["agreement", str(ours), str(theirs)]) == 1
    theirs.write_text(theirs.read_text() + f"[{json.dumps(trap)}]\n")
    assert main(["agreement", str(ours), str(theirs)]) == 2
    told = capsys.readouterr()
    assert r".\x1b[2K\ris equal." in told.out
    assert "unknown entries" in told.err
    assert "\x1b" not in told.out + told.err


# ---- the curator's app


@pytest.fixture
def home(tmp_path):
    """Return the path of the curator's file."""
    folder = tmp_path / "curator"
    folder.mkdir()
    pd.DataFrame(TARGET, columns=COLUMNS).to_parquet(folder / "target.parquet")
    (folder / "agreement.toml").write_text(AGREEMENT)
    KEYS["curator"].save(folder / "keys.pem")
    files = {"agreement": "agreement.toml", "keys": "keys.pem", "target": "target.parquet"}
    files |= {"result": "result", "ledger": "ledger"}
    settle(folder / "curator.toml", **files, timeout=0.05, wait=0.0)
    PrivacyLedger(folder / "ledger", epsilon=50, delta=1e-3)
    return folder / "curator.toml"


def run_app(path, grid, run_id=1, ticket=None):
    """Start the curator's app, as Flower does, with a ticket as the command `run` makes it."""
    if ticket is None:
        ticket = f"ticket {run_id}"
        tickets = make_folder(CuratorSite.load(path).tickets)
        (tickets / hashlib.sha256(ticket.encode()).hexdigest()).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_curator.CURATOR_FILE, str(path))
        _curator.curator_app(grid, SimpleNamespace(run_config={"ticket": ticket}, run_id=run_id))


def result_of(path, run_id=1):
    folder = path.parent / "result" / str(run_id)
    return folder, json.loads((folder / "report.json").read_text())


def test_the_curators_app_tells_flowers_logs_nothing_and_others_no_file(homes, home, capfd):
    run_app(home, GridDouble(homes))
    folder, report = result_of(home)
    with np.load(folder / "summary.npz") as chosen:
        assert np.isin(chosen["owner"], NAMES).sum() == 6
    assert set(report) == {"agreement", "left_out", "sketches_of", "privacy", "rounds"}
    assert [set(sent) for sent in report["rounds"]] == [{"question", "seconds"}] * 3
    entries = PrivacyLedger.open(home.parent / "ledger").entries()
    assert [entry["label"] for entry in entries] == ["summary by Propose"]
    made = [*(home.parent / "result").rglob("*")]
    for path in homes.values():
        made += [*path.parent.glob("log.jsonl*"), *(path.parent / "log.jsonl.answers").iterdir()]
    assert len(made) > 15
    told = [p.read_text() for p in made if p.suffix in (".json", ".jsonl", ".txt")]
    assert len(told) == 5
    assert not re.search(r"\b60\b", "".join(told))  # rows of each owner
    for path in made:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    spoiled = pd.DataFrame(TARGET, columns=COLUMNS).astype(object)
    spoiled.iloc[3, 0] = "SECRET-4711"
    spoiled.astype(str).to_csv(home.parent / "target.csv", index=False)
    settle(home, target="target.csv")
    with pytest.raises(RuntimeError) as caught:
        run_app(home, GridDouble(homes), run_id=2)
    assert str(caught.value) == CURATOR_GENERIC
    assert caught.value.__suppress_context__
    assert result_of(home, 2)[1] == {"error": CURATOR_GENERIC}
    assert capfd.readouterr() == ("", "")


def full_ledger(folder):
    (folder / "ledger").unlink()
    PrivacyLedger(folder / "ledger", epsilon=0.5, delta=1e-5)


def other_target(folder):
    pd.DataFrame(TARGET, columns=["a", "b", "d"]).to_parquet(folder / "target.parquet")


@pytest.mark.parametrize(
    ("fault", "told"),
    [(full_ledger, "but epsilon=0.5 of 0.5 is left"), (other_target, "has no column 'c'")],
)
def test_what_the_curator_lacks_is_told_before_any_owner_is_asked(homes, home, fault, told):
    fault(home.parent)
    grid = GridDouble(homes)
    refused("the curator's side failed", run_app, home, grid, error=RuntimeError)
    assert told in result_of(home)[1]["error"]
    assert grid.asked == []


def test_a_run_that_the_curator_did_not_start_asks_nobody(homes, home):
    """Whoever reaches Flower's port can start runs of the curator's app, and gets nothing."""
    grid, no_ticket = GridDouble(homes), pytest.raises(RuntimeError, match="Start the run with the")
    for ticket in ("", "None", "../keys.pem", "0" * 64):
        with no_ticket:
            run_app(home, grid, ticket=ticket)
    assert not list((home.parent).glob("result/*"))
    run_app(home, grid)
    with no_ticket:
        run_app(home, grid, run_id=2, ticket="ticket 1")  # is good for one run
    with no_ticket:
        run_app(home, grid, run_id=1)  # nor is a run done twice
    assert (len(grid.asked), len(PrivacyLedger.open(home.parent / "ledger").entries())) == (9, 1)


def test_a_ticket_dies_with_a_run_that_did_not_start(home, monkeypatch, capsys):
    def start(path, ticket):
        (stub,) = CuratorSite.load(home).tickets.iterdir()
        assert (stub.name, len(ticket)) == (hashlib.sha256(ticket.encode()).hexdigest(), 32)
        raise RuntimeError("no")

    monkeypatch.setattr(_commands, "start_run", start)
    monkeypatch.setattr(_commands, "_wait_for", lambda _: None)
    assert main(["run", str(home)]) == 2
    assert "Flower started no run" in capsys.readouterr().err
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


# ---- what an owner opens


def test_what_the_curator_did_not_ask_this_owner_now_is_not_opened(homes, north):
    """Other agreements, runs, kinds, receivers, senders, sizes and versions, and any change."""
    told, south = content_of("ask"), Post(homes["south"])
    sound = north.sealed("ask", 1, told)
    bad = {
        "another agreement": north.sealed("ask", 1, told, agreement=agreed(POOL).digest),
        "another run": north.sealed("ask", 2, told),
        "another kind": north.sealed("sketch", 1, {}),
        "for another owner": south.sealed("ask", 1, told),
        "sent on to another owner": south.sealed("ask", 1, told, to="north"),
        "of another owner": north.sealed("ask", 1, told, keys=KEYS["east"]),
        "in an owner's name": north.sealed("ask", 1, told, keys=KEYS["east"], sender="east"),
        "an answer": north.sealed("ask", 1, told, question="ab"),
        "longer": north.sealed("ask", 1, told, more=1),
        "changed": sound[:-1] + bytes([sound[-1] ^ 1]),
        "of another place": (7).to_bytes(8, "big") + sound[8:],
        "in the clear": encode(told),
        "nothing": b"",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdpsumm.federated._envelope._VERSION", "skdpsumm federated 0; none")
        bad["of another version"] = north.sealed("ask", 1, told)
    for what, octets in bad.items():
        assert north.site.answer("ask", 1, octets) == NOT_TAKEN, what
    assert north.site.answer("train", 1, sound) == NOT_TAKEN
    assert [entry["event"] for entry in events(north.path)] == ["stranger"] * (len(bad) + 1)
    north.sign(1).counter = 0
    assert north.opened("ask", 1, sound, north.site.answer("ask", 1, sound))["kind"] == "Rows"


def test_a_stranger_fills_no_disk_and_costs_no_memory(north, monkeypatch):
    monkeypatch.setattr("skdpsumm.federated._files.MOST_STRANGERS", 3)
    monkeypatch.setattr("skdpsumm.federated._wire.decode", lambda _: pytest.fail("was parsed"))
    columns = json.dumps({"columns": ["x{0..5000000}"]}).encode()
    for octets in (columns, bytes(30_000_000), *([b"A" * 1000] * 20)):
        tracemalloc.start()
        assert north.site.answer("ask", 1, octets) == NOT_TAKEN
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()
    assert len(events(north.path)) == 3
    assert not north.site.log.with_name("log.jsonl.answers").exists()


def test_whoever_carries_messages_learns_times_and_no_more(homes):
    """Sizes follow from the agreement, whatever owners hold, say or refuse; contents are noise."""
    frame(1).iloc[:2].to_parquet(homes["south"].parent / "table.parquet")
    settle(homes["east"], max_rows=9)
    seen = []
    for run_id in (1, 2):  # in both, the east refuses to sign
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


def test_the_same_question_has_the_same_answer_to_the_last_bit(north):
    """A flood of copies, each in a process of its own as Flower starts them; and no other words."""
    settle(north.path, seed=None)
    north.sign(1)
    for kind in ("ask", "sketch"):
        asked = north.sealed(kind, 1, content_of(kind))
        with ThreadPoolExecutor(4) as pool:
            answers = set(
                pool.map(lambda _: OwnerSite.load(north.path).answer(kind, 1, asked), range(8))  # noqa: B023
            )
        assert len(answers) == 1
        assert north.opened(kind, 1, asked, *answers)["kind"] in ("Rows", "Sketch")
        assert "asked before" in north.ask(kind, 1)["reason"]
        # Of another run, kind or agreement, the same bytes are another question.
        for other, run_id in ((kind, 2), ("sign", 1)):
            assert north.site.answer(other, run_id, asked) == NOT_TAKEN
    assert "asked before" in north.ask("sign", 1)["reason"]
    assert (len(north.paid), Grants(north.site.grants).n_rows) == (1, 32)
    (north.path.parent / "agreement.toml").write_text(POOL)
    assert OwnerSite.load(north.path).answer("sketch", 1, asked) == NOT_TAKEN


def at(stage, content):
    """Answer as the app does, and with `content` at one stage."""
    return lambda kind: content if kind == stage else NotImplemented


def test_an_answer_is_taken_for_its_own_question_only(homes):
    """Whoever carries answers cannot exchange those of two owners, runs or questions."""
    for path in homes.values():
        PrivacyLedger(path.parent / "large", epsilon=50, delta=1e-5)
        settle(path, ledger="large")
    seen = {}
    for run_id in (1, 2):
        grid = GridDouble(homes, run_id=run_id)
        run(homes, grid=grid, run_id=run_id, rows=False)
        seen[run_id] = {(name, kind): octets for name, kind, octets in grid.answers}
    mistaken = [seen[1]["north", "sketch"], seen[1]["south", "sign"], seen[1]["south", "sketch"]]
    for run_id, octets in enumerate(mistaken, start=3):
        over = run(homes, odd={"south": at("sketch", octets)}, rows=False, run_id=run_id)
        assert over.left_out == {"south": "sketch: sent what cannot be read (EnvelopeError)"}


# ---- what an owner refuses


def wrong_cell(folder):
    bad = frame(1).astype({"c": object})
    bad.loc[7, "c"] = "SECRET-4711"
    bad.astype(str).to_csv(folder / "table.csv", index=False)
    settle(folder / "owner.toml", table="table.csv")


def settled(**settings):
    return lambda folder: settle(folder / "owner.toml", **settings)


def with_table(table):
    return lambda folder: table.to_parquet(folder / "table.parquet")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (settled(max_rows=7), "max_rows: the owner does not let 32 more rows go"),
        (full_ledger, "ledger: the owner's budget cannot hold this release"),
        (settled(ledger=None), "ledger: the owner has none"),
        (with_table(frame(1).drop(columns="b")), "columns: the table has no column 'b'"),
        (with_table(frame(1).drop(columns="y")), "columns: the table has no column 'y'"),
        (with_table(frame(1).replace({"y": {0: 7}})), GENERIC),
        (lambda folder: (folder / "table.parquet").unlink(), GENERIC),
        (wrong_cell, GENERIC),
    ],
)
def test_who_cannot_keep_to_the_agreement_does_not_sign_it(homes, fault, reason):
    """Nothing is charged to anybody, where all owners are needed, and no cell leaves its home."""
    fault(homes["south"].parent)
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    grid, ours = GridDouble(homes), curator(agreed(), ledger=ledger)
    options = {"grid": grid, "ours": ours, "min_owners": 3}
    told = refused("2 of 3 owners signed off", run, homes, **options, error=Refusal)
    assert f"sign: refused: {reason}" in str(told)
    assert "SECRET" not in str(told)
    if reason == GENERIC:
        assert "Traceback" in events(homes["south"], "refused")[0]["detail"]
    ledgers = [ledger, *(PrivacyLedger.open(p.parent / "ledger") for p in homes.values())]
    assert [ledger.entries() for ledger in ledgers] == [[]] * 4
    assert {kind for _, kind in grid.asked} == {"sign"}


def test_a_refusal_fits_into_its_room_whatever_columns_are_called(homes):
    """It would not be sent, and the owner be said to have another agreement."""
    name = "\N{GRINNING FACE}" * 2000
    column = f'[schema.columns."{name}"]\nlow = 0\nhigh = 1\n[rows]'
    agree_on(homes, AGREEMENT.replace("[rows]", column, 1))
    assert "has no column" in Post(homes["north"]).ask("sign", 1)["reason"]


def test_what_flower_would_tell_of_a_crash_is_not_told(homes, capfd):
    homes["south"].write_text("name = SECRET")
    over = run(homes)
    assert "sign: did not open the question" in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert "Traceback" in capfd.readouterr().err  # at home


@pytest.mark.parametrize(
    ("text", "changes", "reason"),
    [
        (AGREEMENT, {"n_herd": 1000}, "protocol: 'propose' sends"),
        (AGREEMENT, {"direction": None}, "protocol: 'propose' sends"),
        (AGREEMENT, {"map": None}, "protocol: 'propose' sends"),
        (AGREEMENT, {"direction": np.ones(39)}, "another length"),
        (AGREEMENT, {"direction": np.full(40, np.inf)}, "not finite"),
        (AGREEMENT, {"direction": np.ones(40, np.float32)}, "another dtype"),
        (AGREEMENT, {"direction": 1.0}, "another dtype"),
        *((AGREEMENT, {"noise": noise}, "noise: it must") for noise in (0.0, -1.0, True)),
        (AGREEMENT, {"map": MAP * (1 + 1e-5)}, "feature map"),
        (AGREEMENT, {"map": np.full(2, MAP)}, "feature map"),
        (AGREEMENT.replace("= 3", "= 4"), {}, "feature map"),
        (POOL, {"direction": None, "map": None}, "protocol: 'pool' sends neither"),
    ],
)
def test_questions_beyond_the_agreement_are_refused(homes, text, changes, reason):
    agree_on(homes, text)
    post = Post(homes["north"]).sign(1)
    assert reason in post.ask("ask", 1, **changes)["reason"]
    assert post.granted == [(1, "sign")]


def test_a_question_that_was_refused_is_refused_for_good(north):
    """Or whoever keeps a copy of it could have it answered, and paid for, in a run that is over."""
    asked = north.sealed("ask", 1, content_of("ask"))
    refusal = north.site.answer("ask", 1, asked)  # for it was not signed
    north.sign(1)
    assert OwnerSite.load(north.path).answer("ask", 1, asked) == refusal
    assert north.granted == [(1, "sign")]
    assert north.ask("ask", 1)["kind"] == "Rows"


def test_rows_are_asked_for_once_and_counted_over_all_runs(north):
    """No allowance is spent as many small questions."""
    settle(north.path, max_rows=70)
    post = Post(north.path).sign(1, 2, 3)
    answers = [post.ask("ask", r) for r in (1, 1, 2, 3)]
    assert [a["kind"] for a in answers] == ["Rows", "Refusal", "Rows", "Refusal"]
    assert "asked before" in answers[1]["reason"]
    assert "max_rows: the owner does not let 32 more rows go" in answers[3]["reason"]
    assert "asked before" in post.ask("ask", 1, direction=np.zeros(40))["reason"]
    assert Grants(post.site.grants).n_rows == 64


@pytest.mark.parametrize(("kind", "other"), [("ask", "sketch"), ("sketch", "ask")])
def test_runs_are_counted_where_they_take_something(north, kind, other):
    """Signing takes nothing, so that a run without enough owners is none."""
    settle(north.path, max_runs=2)
    post = Post(north.path).sign(1, 2, 3, 4, 5)
    answers = [post.ask(kind, run_id)["kind"] for run_id in (3, 4, 5)]
    assert answers == [{"ask": "Rows", "sketch": "Sketch"}[kind]] * 2 + ["Refusal"]
    assert post.ask(other, 4)["kind"] != "Refusal"  # of a run that counts already
    assert "max_runs: the owner takes part in no more" in post.ask("sign", 6)["reason"]
    assert Grants(post.site.grants).runs == {3, 4}


@pytest.mark.parametrize(
    "settings", [{"max_rows": -500}, {"max_rows": 1.5}, {"max_runs": -1}, {"max_runs": True}]
)
def test_allowances_are_whole_numbers(homes, settings):
    settle(homes["north"], **settings)
    refused("must be a whole number, at least 0", OwnerSite.load, homes["north"])


@pytest.mark.parametrize("kind", ["ask", "sketch"])
def test_owners_answer_in_runs_that_they_signed_themselves(homes, north, kind):
    """Not in others, nor under an agreement that they signed in another run, nor for others."""
    assert Post(homes["south"]).sign(7).ask("sketch", 7)["kind"] == "Sketch"
    unsigned = "sign: this owner has not signed the agreement off in this run"
    assert north.sign(1).ask(kind, 7)["reason"] == unsigned
    settle(north.path, max_rows=1)  # which is too few for the agreement
    post = Post(north.path)
    assert "max_rows" in post.ask("sign", 2)["reason"]
    assert post.ask(kind, 2)["reason"] == unsigned
    settle(north.path, max_rows=100)
    agree_on(homes, AGREEMENT.replace("= 5\n", "= 6\n"))
    post = Post(north.path)
    assert post.ask(kind, 1)["reason"] == unsigned
    assert post.sign(3).ask(kind, 3)["kind"] != "Refusal"
    assert Grants(post.site.grants).runs == {3}
    assert len(post.paid) == (kind == "sketch")


def test_sketches_are_charged_by_run_up_to_the_cap(north):
    north.sign(*range(1, 12))
    answers = [north.ask("sketch", run_id) for run_id in range(1, 12)]
    kinds, n_charged = [answer["kind"] for answer in answers], len(north.paid)
    assert kinds == ["Sketch"] * n_charged + ["Refusal"] * (11 - n_charged)
    assert 2 <= n_charged < 10
    assert PrivacyLedger.open(north.site.ledger).spent.epsilon <= 2.5
    assert answers[-1]["reason"].startswith("ledger:")
    assert "0." not in answers[-1]["reason"]  # how much is left is nobody's business


@pytest.mark.parametrize("kind", ["histogram", "fourier", "race"])
@pytest.mark.parametrize("release", ["delta = 0.0\n", 'adjacency = "replace_one"\n'])
def test_every_sketch_fits_into_its_room(homes, kind, release):
    """Noise hardly compresses; and what is charged is what was looked for when signing."""
    text = f"{START}[sketch]\nepsilon = 1.0\nrandom_state = 5\n{release}"
    agree_on(homes, f'{text}sketchers = [{{ kind = "{kind}" }}]\n{PUBLIC_TEXT}')
    path, adjacency = homes["north"], "replace_one" if "replace" in release else "add_remove"
    ledger = PrivacyLedger(path.parent / "large", epsilon=50, delta=1e-5, adjacency=adjacency)
    settle(path, ledger="large")
    post = Post(path).sign(1)
    room = _wire.room_of_answer(post.ours, "sketch", "north")
    assert 0.1 * room < len(post.ask("sketch", 1)["file"]) < room
    promised = ledger.price(post.ours.empty_sketch.privacy).epsilon
    assert ledger.spent.epsilon == pytest.approx(promised)


# ---- what is granted, whatever happens


def test_without_a_source_of_noise_nothing_is_signed_or_granted_that_needs_it(north, monkeypatch):
    def no_noise():
        raise OSError("no library")

    north.sign(1)
    monkeypatch.setattr(_noise, "_library", no_noise)
    assert north.ask("sketch", 1)["reason"] == GENERIC
    assert north.ask("sign", 2)["reason"] == GENERIC
    assert "Noise cannot be drawn" in events(north.path)[-1]["detail"]
    assert (north.granted, north.paid) == ([(1, "sign")], [])
    assert north.ask("ask", 1)["kind"] == "Rows"
    monkeypatch.undo()
    assert north.ask("sketch", 1)["kind"] == "Sketch"


@pytest.mark.parametrize("limit", [{"max_rows": 100}, {"max_rows": 1000, "max_runs": 1}])
def test_nodes_that_share_a_record_of_grants_share_what_is_allowed(tmp_path, limit):
    """Each has a log and a lock of its own, and one names the file by a link."""
    path, link = tmp_path / "grants", tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(path)
    Grants.make(path)
    barrier = threading.Barrier(8)

    def node(run_id):
        grants = Grants(link if run_id % 2 else path, **limit)
        barrier.wait()
        with contextlib.suppress(Refusal):
            grants.grant(run_id, "ask", "x", 80)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(node, range(8)))
    assert (Grants(path).n_rows, len(Grants(path).runs)) == (80, 1)


@pytest.mark.parametrize("kind", ["ask", "sketch"])
def test_what_can_be_refused_is_refused_before_it_counts(north, monkeypatch, kind):
    north.sign(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr("skdpsumm.federated._wire.read_table", lambda *_, **__: 1 / 0)
        assert north.ask(kind, 1)["reason"] == GENERIC
    full_ledger(north.path.parent)
    if kind == "sketch":
        assert north.ask(kind, 2)["reason"].startswith("ledger:")
    assert Grants(north.site.grants).runs == set()
    assert north.site.lost() == []


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


@pytest.mark.parametrize(
    ("kind", "error", "for_good"),
    [
        *((kind, Stopped(), True) for kind in ("sign", "ask", "sketch")),
        ("ask", OSError(errno.ENOSPC, "full"), True),
        ("sketch", OSError(errno.ENOSPC, "full"), True),
        ("sketch", OSError(errno.EDQUOT, ""), False),
    ],
    ids=["kill-sign", "kill-ask", "kill-sketch", "full-ask", "full-sketch", "moment-sketch"],
)
def test_whatever_stops_an_owner_nothing_is_granted_twice_or_lost_unseen(
    north, monkeypatch, capsys, kind, error, for_good
):
    """At each step that reaches the disk. A question that was stopped is put again, and anew."""
    PrivacyLedger(north.path.parent / "large", epsilon=500, delta=1e-4)
    settle(north.path, max_rows=10_000, ledger="large")
    steps, run_id = [1], 0
    while len(steps) >= run_id:  # the step was reached
        run_id += 1
        post = Post(north.path)
        if kind != "sign":
            post.sign(run_id)
        asked, outcomes = post.sealed(kind, run_id, content_of(kind)), []
        with monkeypatch.context() as patch, contextlib.suppress(Stopped):
            steps = stop_at(patch, run_id, error, for_good=for_good)
            outcomes.append(post.site.answer(kind, run_id, asked))
        stopped = [post.opened(kind, run_id, asked, o) for o in outcomes]
        for told in stopped:
            if isinstance(error, OSError) and told["kind"] == "Refusal":
                assert told["reason"].startswith("disk: the owner's disk is full")
        again = post.opened(kind, run_id, asked, post.site.answer(kind, run_id, asked))
        anew = post.ask(kind, run_id)
        told = [describe(one) for one in (*stopped, again, anew) if one["kind"] != "Refusal"]
        assert all(one == told[0] for one in told)
        assert post.granted.count((run_id, kind)) == 1 or not told
        lost = [(e["run"], e["ask"]) for e in post.site.lost()]
        spent = kind != "sign" and (run_id, kind) in post.granted
        assert ((run_id, kind) in lost) == (spent and not told)
    assert 7 <= run_id < 20
    assert len(post.paid) <= len(set(post.granted)) * (kind == "sketch")
    if isinstance(error, OSError) and for_good:  # what cannot be written down is printed
        assert "Errno" in capsys.readouterr().err


def changed(old, new):
    def change(path):
        with sqlite3.connect(path) as db:
            words = "UPDATE records SET body = replace(body, ?, ?) WHERE instr(body, ?)"
            assert db.execute(words, (old, new, old)).rowcount

    return change


def cut_off(path):
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM records WHERE place = (SELECT max(place) FROM records)")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: os.truncate(path, path.stat().st_size // 2),
        cut_off,
        changed('rows\\": 32', 'rows\\": -500'),
        changed('run\\": 1', 'run\\": 2'),
    ],
    ids=["emptied", "gone", "half", "cut off", "set back", "of another run"],
)
def test_a_record_of_grants_that_was_damaged_grants_nothing(north, damage):
    north.sign(1, 2, 3)
    assert north.ask("ask", 1)["kind"] == "Rows"
    damage(north.site.grants)
    assert north.ask("ask", 2)["reason"] == GENERIC
    assert north.ask("sign", 4)["reason"] == GENERIC
    told = events(north.path)[-1]["detail"]
    assert "damaged" in told or "no record of grants" in told
    refused(r"damaged|no record of grants", north.site.check, error=(OSError, LedgerDamagedError))


def test_whatever_becomes_of_the_log_what_was_granted_counts(north):
    settle(north.path, max_rows=70)
    post = Post(north.path).sign(1, 2, 3)
    kinds = []
    for run_id, text in enumerate((b"", b"{ no json\n", "€".encode()[:-1]), start=1):
        post.site.log.write_bytes(text)  # a crash may come in the middle of a letter
        kinds.append(post.ask("ask", run_id)["kind"])
    assert kinds == ["Rows", "Rows", "Refusal"]
    assert [e["event"] for e in events(post.path)] == ["received", "refused"]
    assert Grants(post.site.grants).n_rows == 64
    assert post.site.lost() == []


# ---- what the curator takes


def rows_reply(n=4, **changes):
    X = np.column_stack([np.ones((n, 3)), np.arange(n) % 5])
    return {"kind": "Rows", "indices": np.arange(n), "X": X, **changes}


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
        (rows_reply(y=np.arange(4)), "sent no rows"),
        (rows_reply(X=np.ones((4, 2))), "another shape"),
        (rows_reply(X=np.array(1.0)), "another shape"),
        (rows_reply(X=1.0), "another dtype"),
        (rows_reply(X=np.ones((4, 4), np.float32)), "another dtype"),
        (rows_reply(indices=np.array(1)), "without an index each"),
        (rows_reply(indices=np.zeros(4, int)), "a row twice"),
        (rows_reply(X=np.full((4, 4), 6.5)), "column 'a' of the schema does not take"),
        (rows_reply(X=np.full((4, 4), np.nan)), "column 'a' of the schema does not take"),
        (rows_reply(X=np.full((4, 4), 5.0)), "column 'y' of the schema does not take"),
        (rows_reply(33), "more rows"),
        ({"kind": "Refusal", "reason": "no\x1b[2J"}, r"refused: no\x1b[2J"),
        ({"kind": np.arange(2)}, "sent what cannot be read"),
    ],
)
def test_who_sends_rubbish_or_nothing_is_left_out(homes, content, reason):
    over = run(homes, odd={"south": at("ask", content)})
    assert list(over.left_out) == ["south"]
    assert over.left_out["south"].startswith("ask: ")
    assert reason in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert over.curator.chosen == in_process(without=["south"]).chosen
    assert list(over.sketches) == ["north", "east"]


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], object), allow_pickle=True)
    return [buffer.getvalue(), pickle.dumps(Trap())]


HEADS = [
    *(b"", b"[]", b"[" * 100_000, b'{"a": 1}', b'{"a": null, "arrays": []}'),
    *(b'{"a": [1], "arrays": []}', b'{"arrays": [["X", -8]]}'),
    *(b'{"arrays": [["X", 99999999999999]]}', b'{"arrays": [["X", "8"]]}'),
    b'{"arrays": []} ' + b"1" * 5000,
]


def test_bytes_of_a_malicious_owner_are_read_or_refused(monkeypatch):
    octets = [head + b"\n" + rest for head in HEADS for rest in (b"", b"rest")]
    for trap in pickled():
        octets.append(b'{"arrays": [["X", %d]]}\n' % len(trap) + trap)
    # An array that a number names: the curator, who sorts by names, would end the run for all.
    octets.append(encode({"X": np.zeros(1)})[:-64].replace(b'"X"', b"5"))
    for part in (*map(sealed, octets), *octets, encode({"kind": "Rows"})[:-1]):
        refused("cannot be read", decode, part)
    # Where messages may be long, heads may not.
    unread = pytest.fail
    monkeypatch.setattr("skdpsumm._bounded.json.loads", lambda *_, **__: unread("was parsed"))
    refused("cannot be read", decode, sealed(json.dumps({str(k): 0 for k in range(1000)}).encode()))


def test_a_larger_sketch_than_agreed_is_not_read(monkeypatch):
    ours = agreed()
    monkeypatch.setattr("skdpsumm.federated._curator.read_octets", pytest.fail)
    octets = np.zeros(ours.bytes_of_sketch + 1, np.uint8)
    refused("of another size than agreed", sketch_of, ours, "", {"kind": "Sketch", "file": octets})


def scaled(name, factor, which=slice(None)):
    def change(sketch):
        getattr(sketch, name)[which] *= factor

    return change


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("text", "change", "reason"),
    [
        (AGREEMENT.replace("= 5\n", "= 6\n"), None, "another feature map"),
        (AGREEMENT.replace("epsilon = 1.0", "epsilon = 0.5"), None, "other noise"),
        (AGREEMENT, scaled("noise_std", 2), "other noise"),
        (AGREEMENT, scaled("noise_std", 0.5), "no sketch"),
        (AGREEMENT, scaled("sums", 1e6, 0), "no sketch"),
    ],
)
def test_a_sketch_that_was_not_agreed_is_not_added(tmp_path, text, change, reason):
    made = simulate(agreed(text).sketcher(), frame(1)[COLUMNS], seed=1).sketch_
    if change is not None:
        change(made)
    with pytest.MonkeyPatch.context() as patch:  # a stranger writes what `save` would refuse
        patch.setattr("skdpsumm.sketches._private_sketch.check_consistent", lambda sketch: None)
        made.save(tmp_path / "made")
    octets = np.frombuffer((tmp_path / "made").read_bytes(), np.uint8)
    refused(reason, sketch_of, agreed(), "", {"kind": "Sketch", "file": octets})
    for content in ({"kind": "Sketch", "file": octets[:50]}, {"kind": "Sketch"}, {"kind": "Rows"}):
        refused("no sketch", sketch_of, agreed(), "", content)


def test_who_signs_something_else_or_for_another_is_left_out(homes):
    signed = {"kind": "SignOff", "owner": "east", "agreement": agreed().digest}
    two = {**signed, "owner": np.arange(2)}  # of which numpy makes no one truth
    for run_id, content in enumerate((signed, two)):
        over = run(homes, odd={"south": at("sign", content)}, run_id=run_id, rows=False)
        assert over.left_out == {"south": "sign: signed something else off"}


def test_with_no_owner_nothing_is_spent(homes, unpaid):
    odd = {name: at("sign", None) for name in NAMES}
    for fewest in (0, -1, 1):
        ours = curator(agreed(), ledger=unpaid)
        with pytest.raises(Refusal, match="min_owners"):
            run(homes, ours=ours, odd=odd, min_owners=fewest)


def test_two_nodes_of_one_name_are_none(homes):
    grid = GridDouble(homes)
    twin = [*grid.get_nodes(), grid.get_nodes()[0]]
    grid.get_nodes = lambda: twin
    over = run(homes, grid=grid, rows=False)
    told = "sign: has two nodes that are connected under their name: they must end one"
    assert over.left_out == {"north": told}


def test_messages_come_out_as_they_went_in():
    sent = agreed().question("north", np.arange(40.0) / 7, 0.25)
    got = message_of(agreed(), "north", decode(encode(question_content(sent))))
    assert (got.n_herd, got.n_uniform, got.noise) == (32, 0, 0.25)
    np.testing.assert_array_equal(got.direction, sent.direction)
    np.testing.assert_array_equal(got.embedding.frequencies, sent.embedding.frequencies)
    endless = {**question_content(sent), "direction": np.empty((10**12, 0))}
    refused("another length", message_of, agreed(), "north", endless)
    assert question_content(agreed(POOL).question("north", None, None)) == {}
    assert message_of(agreed(POOL), "north", {}).n_uniform == 32


# ---- nodes


def test_a_node_says_which_grants_were_lost_and_is_the_only_one(north, capsys, monkeypatch):
    north.sign(1, 2)
    assert north.ask("ask", 2)["kind"] == "Rows"
    with monkeypatch.context() as patch:
        patch.setattr(DataOwner, "answer", lambda *_: 1 / 0)
        assert north.ask("ask", 1)["reason"] == GENERIC
    assert "asked before" in north.ask("ask", 1)["reason"]
    monkeypatch.setattr(_commands, "_keep", lambda *_: main(["supernode", str(north.path)]))
    assert main(["supernode", str(north.path)]) == 2
    told = capsys.readouterr()
    assert "A node of 'north' runs here already: end it first" in told.err
    lost = "Run 1: 'ask' was granted with 32 rows, and no answer is kept: it counts"
    assert lost in told.out
    assert "Run 2" not in told.out
    monkeypatch.setattr(_commands, "_keep", lambda *_: 0)
    assert main(["supernode", str(north.path)]) == 0


def test_a_node_opens_no_port_to_others(homes, monkeypatch):
    monkeypatch.setattr(_commands, "_keep", lambda command, _: started.append(command) or 0)
    started = []
    assert main(["supernode", str(homes["north"]), "--host", "0.0.0.0", "--insecure"]) == 0
    assert started[0][-4:-1] == ["--host", "127.0.0.1", "--port"]  # the last ones win
    assert "--insecure" in started[0]


@pytest.fixture
def signals():
    """Give back what a command takes: pytest itself is the process that would be told to end."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("statuses", [[49, 1, 0], [-9, 0], [2]], ids=str)
def test_a_node_is_started_again_until_it_is_taken(monkeypatch, statuses):
    """It was not taken yet, was sent away once, or was killed; or it has wrong options."""

    @contextlib.contextmanager
    def running(command, environment):
        yield SimpleNamespace(wait=lambda: ends.pop(0))

    ends = list(statuses)
    monkeypatch.setattr(_commands, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_commands, "_running", running)
    assert (_commands._keep(["node"], {}), ends) == (statuses[-1], [])


def test_a_node_that_is_told_to_end_is_not_started_again(signals):
    code = "import time; print('up', flush=True); time.sleep(60)"
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SystemExit):
        _commands._keep([sys.executable, "-c", code], dict(os.environ))


def test_a_flower_that_starts_apps_otherwise_is_not_run(homes, home, monkeypatch):
    commands = {kind: "flwr-runtime" for kind in flwr.supercore.constant.TaskType}
    monkeypatch.setattr("flwr.supercore.constant.TASK_TYPE_TO_COMMAND", commands)
    for start in (
        lambda: _commands.be_app("flwr_clientapp"),
        lambda: main(["supernode", str(homes["north"])]),
        lambda: main(["superlink", str(home)]),
    ):
        refused("might execute what others send", start, error=RuntimeError)


# ---- words, missing values, whole numbers and days

CENSUS = (
    """
owners = ["north", "south", "east"]
labels = "income"
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
[schema.columns.since]
low = 2001-01-01
high = 2020-12-31
[schema.columns.income]
categories = ["<=50K", ">50K"]
[rows]
n_select = 12
protocol = "propose"
n_components = 40
epsilon = 20.0
random_state = 3
"""
    + SKETCH
    + PUBLIC_TEXT
)
WHOLE = agreed(CENSUS).schema


def census(k, n=80):
    """A table as it comes: objects, and dtypes that hang on what a file happens to hold."""
    rng = np.random.default_rng(k)
    zips = np.array([1, 2.5, 70001, "PO box"], object)
    jobs = np.array(["clerk", "farmer", "NA", None], object)
    days = np.datetime64("2001-01-01") + rng.integers(0, 7000, n)
    return pd.DataFrame(
        {
            "veteran": rng.random(n) < 0.5,
            "age": rng.integers(17, 91, n).astype("int8" if k else "float32"),
            "job": jobs[rng.integers(0, 4, n)],
            "zip": zips[rng.integers(0, 3 if k else 4, n)],
            "gain": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 100_000, n)),
            "since": pd.Series(days).astype("datetime64[s]"),
            "income": rng.choice(["<=50K", ">50K"], n),
        }
    )


def to_csv(frame, path):
    """Write numbers in full, and missing cells in different ways."""
    texts = frame.astype(object).assign(since=frame.since.dt.strftime("%Y-%m-%d"))
    for name, absent in (("gain", " n/a "), ("job", "")):
        texts[name] = texts[name].where(frame[name].notna(), absent)
    texts.to_csv(path, index=False)


@pytest.fixture
def census_homes(tmp_path):
    made = {}
    for k, name in enumerate(NAMES):
        made[name] = make_home(tmp_path / name, k, CENSUS)
        to_csv(census(k), made[name].parent / "table.csv")
        settle(made[name], table="table.csv")
    return made


def test_raw_tables_are_read_cell_by_cell_and_come_out_as_they_were(census_homes, tmp_path):
    ours, rows = agreed(CENSUS), census(7, 300)
    target = rows[(rows.age > 60) & (rows.job == "farmer")].drop(columns="income")
    over = run(census_homes, CENSUS, ours=curator(ours, target))
    assert over.left_out == {}
    tables = {name: census(k) for k, name in enumerate(NAMES)}
    owners = {
        name: DataOwner(vectors(t.drop(columns="income"), ours), seed=k)
        for k, (name, t) in enumerate(tables.items())
    }
    assert over.curator.chosen == run_protocol(curator(ours, target), owners).chosen
    over.save(tmp_path / "result")
    saved = pd.read_parquet(tmp_path / "result" / "summary.parquet")
    assert (tuple(saved), len(saved)) == (WHOLE.names, 12)
    for k, (name, index) in enumerate(over.curator.chosen):
        row, got = tables[name].iloc[index], saved.iloc[k]
        for column in ("age", "veteran", "income"):
            assert got[column] == row[column]
        assert got.since == row.since.date()
        assert got.zip == str(row.zip)  # of several kinds, which a file has no type for
        assert got.gain == row.gain or (np.isnan(got.gain) and np.isnan(row.gain))
        assert got.job == row.job or (pd.isna(got.job) and row.job is None)


def test_parquet_of_any_types_gives_the_same_codes(tmp_path):
    frame = census(1)
    frame["zip"] = np.where(frame.zip == 2.5, 1, 70001).astype(np.int64)
    ways = [
        frame,
        frame.astype({"gain": "Float64", "age": "UInt16", "zip": "Int64"}),
        frame.astype({"job": "category", "income": "category"}),
        frame.astype({"job": "string"}),
    ]
    to_csv(frame, tmp_path / "table.csv")
    codes = read_table(tmp_path / "table.csv", WHOLE)
    for way in ways:
        way.to_parquet(tmp_path / "table.parquet")
        np.testing.assert_array_equal(read_table(tmp_path / "table.parquet", WHOLE), codes)
    assert set(codes[:, 3]) == {0, 2}


def test_a_row_more_changes_no_other_cell_of_a_csv_file(tmp_path):
    """What a text stands for is a matter of its column's schema, and of no other cell."""
    path = tmp_path / "table.csv"
    to_csv(census(1), path)
    before, text = read_table(path, WHOLE), path.read_text()
    for row in (
        "True,17.6,NA,PO box,1e4,2001-01-01,>50K",
        "FALSE, 90 ,null,1.0,NaN, 2020-12-31T10:00 ,>50K",
        "0,99,,70001,-5,1999-01-01,<=50K",
    ):
        path.write_text(f"{text}{row}\n")
        after = read_table(path, WHOLE)
        np.testing.assert_array_equal(after[:-1], before)
        assert len(after) == len(before) + 1
    assert after[-1, 0] == 90.0  # clipped to the range
    good = ["True", "20", "NA", "1", "1", "2001-01-01", ">50K"]
    for j, bad in ((1, "SECRET"), (2, "SECRET"), (1, ""), (0, "2"), (5, "SECRET"), (6, "SECRET")):
        path.write_text(f"{text}{','.join([*good[:j], bad, *good[j + 1 :]])}\n")
        assert "SECRET" not in str(refused("Column '", read_table, path, WHOLE))


def test_extra_columns_are_refused_or_left_out_as_the_schema_says(census_homes):
    home = census_homes["south"]
    to_csv(census(1).assign(SECRET=1), home.parent / "table.csv")
    over = run(census_homes, CENSUS, rows=False)
    assert "some that the schema does not describe" in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert "SECRET" in events(home)[-1]["detail"]
    start = "[schema.columns.age]"
    text = CENSUS.replace(start, f'[schema]\nextra_columns = "drop"\n{start}')
    agree_on(census_homes, text)
    assert run(census_homes, text, rows=False, run_id=2).left_out == {}


SOUND = [(0, 17.0), (1, np.nan), (1, 0.1), (2, 3.0)]
UNSOUND = [
    *((0, code) for code in (17.5, 91.0, np.nan)),  # between two values, beyond, missing
    *((1, code) for code in (-1.0, np.inf)),
    *((2, code) for code in (4.0, 1.5, -1.0, np.nan)),
    *((j, 4.0) for j in (3, 4, 6)),
    (5, 0.5),
]


@pytest.mark.parametrize(("column", "code"), SOUND + UNSOUND)
def test_codes_from_a_stranger_are_checked(column, code):
    codes = np.array([[20.0, 5.0, 1.0, 2.0, 0.0, 4.0, 1.0]])
    codes[0, column] = code
    if (column, code) in SOUND:
        check_codes(WHOLE, codes)
        again = WHOLE.in_steps(Table(list(cells_of(WHOLE, codes).values())))
        np.testing.assert_array_equal([WHOLE.read(again, j) for j in range(7)], codes.T)
    else:
        refused("does not take", check_codes, WHOLE, codes)
