"""Flower's own processes on loopback: five owners, kills, strangers, floods, and two attacks."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import httpx
import pyarrow.parquet
import scripts
from flower_double import Serving

from skdpsumm import PrivacyLedger, PrivateSketch
from skdpsumm.federated import _commands, _gate
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._curator import merge_sketches, sketch_of
from skdpsumm.federated._envelope import Letter, seal, unseal
from skdpsumm.federated._wire import (
    decode,
    describe,
    encode,
    question_content,
    room_of_answer,
    room_of_question,
)

LEAKS = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
pytestmark = [pytest.mark.flower, LEAKS]

ROOT = Path(__file__).resolve().parent.parent
ATTACKS = ROOT / "tests" / "attacks"
POOL = """
[rows]
protocol = "pool"
n_select = 20
gamma = 0.001
n_components = 500
random_state = 0
"""
MODULE = scripts.load("federated_loopback.py")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Processes of five owners: they take longer to start than all of it takes to run."""
    tables, target = MODULE.digits_tables()
    folder = tmp_path_factory.mktemp("federation")
    with MODULE.Loopback(folder, tables, target, {}) as parties:
        parties.start_superlink()
        for owner in tables:
            parties.start_supernode(owner)
        yield parties


@pytest.fixture(scope="module")
def first(federation):
    """Return a run while strangers call, and its report."""
    run = federation.run()
    with flood(federation):
        return run, federation.finish(run, 600)


def test_a_federation_on_one_machine(federation, first):
    all_owners_take_part(federation, *first)
    telemetry_is_off(federation)
    nothing_is_told(federation, first[0])


def test_kills_and_strangers(federation, first):
    run, report = first
    slowest = max(r["seconds"] for r in report["rounds"])
    # What comes back by itself does so while strangers try.
    for owner in ("north", "east", "centre"):
        federation.kill(owner)
    federation.start_supernode("north")
    an_outsider_gets_nothing(federation, run)
    kills_and_strangers(federation, max(15, round(1.5 * slowest)))
    nothing_outlives_a_kill(federation)


class flood:
    """Strangers call the gate, and send it more than it takes, as long as a run lasts."""

    def __init__(self, parties):
        self.url, self.over = f"https://127.0.0.1:{parties.port}", threading.Event()
        self.thread = threading.Thread(target=self._call)
        self.answers = set()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        # Not here, too much, no message of Flower's.
        assert {403, 413} <= self.answers <= {403, 413, 415, 401}

    def _call(self):
        calls = [("control/start-run", 100), ("fleet/pull-messages", 100)]
        calls += [("fleet/push-object", 2**23 + 1)]
        with httpx.Client(verify=False, base_url=self.url, timeout=60) as client:
            while not self.over.wait(1.0):
                for path, size in calls:
                    try:
                        reply = client.post(f"/v1/{path}", content=bytes(size))
                        self.answers.add(reply.status_code)
                    except httpx.TransportError:
                        self.answers.add(413)  # it hung up while more came


def all_owners_take_part(parties, run, report):
    assert report["left_out"] == {}
    here = parties.in_process()
    assert parties.chosen(run) == here.chosen
    result = parties.result(run)
    rows = pyarrow.parquet.read_table(result / "summary.parquet").to_pandas()
    np.testing.assert_array_equal(rows.pop("digit"), here.y)
    whose = [parties.tables[owner][0][index] for owner, index in here.chosen]
    np.testing.assert_array_equal(rows, whose)
    for owner in parties.tables:
        transcript = [describe(question_content(m)) for m in here.transcript[owner]]
        assert MODULE.asked(parties.log(owner), run) == transcript
        assert len(entries_of(parties, owner)) == 1
    merged = PrivateSketch.load(result / "merged.sketch")
    expected = merge_sketches({owner: sent_sketch(parties, owner, run) for owner in parties.tables})
    np.testing.assert_allclose(merged.sums, expected.sums, rtol=1e-12)  # added in another order
    assert merged.privacy.epsilon(1e-6) <= 1.0


def sent_sketch(parties, owner, run):
    """Return what an owner sent, from the answer that they keep: only the curator can open it."""
    ours = Agreement.load(parties.folder / owner / "agreement.toml")
    room = room_of_answer(ours, "sketch", owner)
    (question,) = (
        e["question"]
        for e in parties.log(owner)
        if e["event"] == "received" and e["ask"] == "sketch" and e["run"] == run
    )
    name = f"{ours.digest[:16]}.{run}.sketch.{question}"
    kept = (parties.folder / owner / "log.jsonl.answers" / name).read_bytes()
    letter = Letter(ours.digest, run, 2, "sketch", owner, "curator", question)
    content = unseal(letter, kept, room, parties.keys("curator"), ours.keys[owner])
    return sketch_of(ours, owner, decode(content))


def entries_of(parties, owner):
    return PrivacyLedger.open(parties.folder / owner / "ledger").entries()


def telemetry_is_off(parties):
    """All processes named flower-... have it in their environment."""
    for name, process in parties.processes.items():
        if name.startswith("run "):
            continue
        seen = [facts_of(pid) for pid in all_pids() if session(pid) == process.pid]
        engines = [environment for command, environment in seen if b"/flower-" in command]
        assert engines
        assert all(b"FLWR_TELEMETRY_ENABLED=0" in environment for environment in engines)


def all_pids():
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def facts_of(pid):
    """Return the command line and the environment of a process, empty if it has ended."""
    try:
        return tuple(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    except (FileNotFoundError, ProcessLookupError):
        return b"", b""


def nothing_is_told(parties, run):
    """Neither Flower's log of the run nor the processes' output has a word of it."""
    assert parties.flwr("supernode", "list", "ours").count("online") == len(parties.tables)
    log = parties.flwr("log", run, "ours", "--show")
    told = log + parties.output("superlink") + (parties.result(run) / "report.json").read_text()
    for word in ("rows_by_owner", "indices", "n_herd", "summary.npz", "Traceback"):
        assert word not in told
    for path in parties.curator.parent.rglob("result/**/*"):
        assert path.stat().st_mode & 0o077 == 0


def an_outsider_gets_nothing(parties, run):
    """With the certificate and the address, through the gate and past it."""
    stolen = parties.folder / "stolen"
    stolen.mkdir()
    config = {"curator": str(parties.curator.parent), "evidence": str(stolen)}
    inner = parties.curator.parent / "flwr"
    certificate = parties.curator.parent / "server.pem"
    done = start_app(parties, "outsider", config, parties.port, certificate)
    assert "success" in done.stdout + done.stderr or done.returncode
    assert "403" in done.stdout + done.stderr
    runs = parties.flwr("list", "--format", "json")
    assert str(run) in runs
    assert "outsider" not in runs
    # On the curator's own machine, where the port of Flower's control can be reached.
    done = start_app(parties, "outsider", config, inner_port(parties), inner / "server.pem")
    theirs = str(json.loads(done.stdout)["run-id"])
    MODULE.wait_until(
        lambda: "Start the run with the curator" in parties.flwr("log", theirs, "ours", "--show"),
        "the end of the attack",
    )
    assert "STOLEN" not in parties.flwr("log", theirs, "ours", "--show")
    assert not list(stolen.iterdir())
    assert not parties.result(theirs).exists()


def inner_port(parties):
    text = (parties.curator.parent / "flwr" / "config.toml").read_text()
    return int(text.split("127.0.0.1:")[1].split('"')[0])


def start_app(parties, name, config, port, certificate):
    """Run Flower's own `flwr run` with an app of the attacks, from a home of the attacker's."""
    home = parties.folder / f"home of {name}"
    home.mkdir(exist_ok=True)
    connection = _commands.CONNECTION.format(port=port, root=certificate)
    (home / "config.toml").write_text(connection)
    given = [part for k, v in config.items() for part in ("-c", f"{k}={json.dumps(v)}")]
    return subprocess.run(
        [_commands.command_path("flwr"), "run", ATTACKS / name, "ours", "--format", "json", *given],
        env={**parties.environment, "FLWR_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=MODULE.START_SECONDS,
    )


def kills_and_strangers(parties, timeout):
    """One owner hangs and is killed, one has a wrong key, one meets an expired certificate."""
    parties.agree(parties.agreed[: parties.agreed.index("[rows]")] + POOL)
    impostor = parties.folder / "impostor"
    impostor.mkdir(mode=0o700)
    for path in (parties.folder / "east").glob("[!l]*"):  # all but log and ledger
        (impostor / path.name).write_bytes(path.read_bytes())
        (impostor / path.name).chmod(0o600)
    (impostor / "node.key").unlink()
    _commands.new_node_key(impostor / "node.key")
    text = (impostor / "owner.toml").read_text().replace('ledger = "ledger"', "")
    (impostor / "owner.toml").write_text(text)
    parties.start_supernode("east", "impostor")
    expired = parties.folder / "expired"
    expired.mkdir()
    _gate.write_certificate(expired, ["127.0.0.1"], days=-1)
    inner, port = parties.curator.parent / "flwr" / "server.pem", _commands.free_port()
    upstream = f"https://127.0.0.1:{inner_port(parties)}"
    gate = Serving(_gate.serve(upstream, inner, "127.0.0.1", port, expired))
    parties.start_supernode("centre", port=port, root=expired / "server.pem")

    # The north was killed and started again at once: it is taken when the SuperLink has missed it.
    MODULE.wait_until(lambda: parties.output("north").count("SuperNode ID") == 2, "the north", 120)
    run = parties.run(timeout=timeout, wait=5)

    # The south has signed, and is to hang and be killed while it answers.
    MODULE.wait_until(lambda: events(parties, "south", run, "sent"), "south's signature", 300)
    table = parties.folder / "south" / "table.parquet"
    os.mkfifo(parties.folder / "pipe")
    (parties.folder / "pipe").replace(table)
    MODULE.wait_until(lambda: MODULE.asked(parties.log("south"), run), "the question", 300)
    parties.kill("south")

    report = parties.finish(run, 600)
    gate.stop()
    gone = ("did not answer", "is not connected")  # soon, or once Flower has missed them
    for owner, question in {"east": "sign", "centre": "sign", "south": "ask"}.items():
        assert report["left_out"][owner].removeprefix(f"{question}: ").startswith(gone)
    assert set(report["left_out"]) == {"east", "centre", "south"}
    assert parties.chosen(run) == parties.in_process(report["left_out"]).chosen
    for owner in ("east", "impostor", "centre"):
        assert not events(parties, owner, run, "received")
    assert "trying again" in parties.output("impostor")
    for owner in ("impostor", "centre"):
        last = parties.output(owner).split("Starting Flower SuperNode")[-1]
        assert "SuperNode ID" not in last


def nothing_outlives_a_kill(parties):
    """Nor does Flower's open port, where a command is killed that has started it."""
    for name in ("west", "superlink"):
        process = parties.processes[name]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        MODULE.wait_until(
            lambda pid=process.pid: not [p for p in all_pids() if session(p) == pid],
            f"end of {name}",
        )


def events(parties, owner, run, kind):
    return [e for e in parties.log(owner) if e["event"] == kind and e["run"] == run]


def test_an_insider_who_holds_the_superlink_gets_nothing(tmp_path):
    """They run Flower as they like, and the other owner's node connects to it."""
    tables, target = MODULE.digits_tables()
    tables = {owner: tables[owner] for owner in ("north", "east")}
    with MODULE.Loopback(tmp_path, tables, target, {"owners": '["north", "east"]'}) as parties:
        home = parties.curator.parent
        ours, port = Agreement.load(home / "agreement.toml"), _commands.free_port()
        flwr = parties.folder / "flwr"
        flwr.mkdir()
        root = home / "server.pem"
        (flwr / "config.toml").write_text(_commands.CONNECTION.format(port=port, root=root))
        parties.start_flower("flower-superlink", port, home)
        MODULE.wait_until(lambda: "Uvicorn running" in parties.output("flower-superlink"), "it")
        register(parties, flwr)
        parties.start_supernode("north", port=port)

        letter = Letter(ours.digest, 4711, 0, "ask", "curator", "north")
        room, keys = room_of_question(ours, "ask"), parties.keys("curator")
        captured = seal(letter, encode({}), room, keys, ours.keys["north"])
        (parties.folder / "captured").write_bytes(captured)
        evidence = parties.folder / "evidence"
        config = {"home": parties.folder / "east", "captured": parties.folder / "captured"}
        config = {name: str(path) for name, path in {**config, "evidence": evidence}.items()}
        done = start_app(parties, "insider", config, port, root)
        assert json.loads(done.stdout)["success"]
        MODULE.wait_until(evidence.exists, "the end of the attack", 200)

        got = json.loads(evidence.read_text())
        assert sorted(got) == [["query.ask", 0, {}]] * 4 + [["query.sign", 0, {}]] * 2
        entries = parties.log("north")
        assert {entry["event"] for entry in entries} == {"stranger"}
        assert len(entries) == 6
        assert (parties.folder / "north" / "log.jsonl").stat().st_size < 2000
        assert PrivacyLedger.open(parties.folder / "north" / "ledger").entries() == []


def register(parties, home):
    """Register all nodes, in a process of its own: flwr reads its home when it is imported."""
    code = (
        "import sys; from pathlib import Path; from skdpsumm.federated import _commands as c; "
        "c.register(c.Agreement.load(sys.argv[1]), Path(sys.argv[2]))"
    )
    agreement = parties.curator.parent / "agreement.toml"
    command = [sys.executable, "-c", code, agreement, home]
    subprocess.run(command, env=parties.environment, check=True, timeout=MODULE.START_SECONDS)
