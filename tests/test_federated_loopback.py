"""Flower's own processes on loopback: TLS, keys, crashes, and a curator who sends code."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import pyarrow.parquet

from skdpsumm import PrivacyLedger, PrivateSketch
from skdpsumm.federated._curator import merge_sketches
from skdpsumm.federated._wire import describe

pytestmark = pytest.mark.flower

ROOT = Path(__file__).resolve().parent.parent
SPOILED = """
import os
from flwr.clientapp import ClientApp
open({path!r}, "w").write("the curator's code ran here")
owner = ClientApp()
"""
POOL = """
[tool.skdpsumm.agreement.rows]
protocol = "pool"
n_select = 20
gamma = 0.001
n_components = 500
random_state = 0
"""


def loopback():
    path = ROOT / "examples" / "federated_loopback.py"
    spec = importlib.util.spec_from_file_location("federated_loopback", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_federation_on_one_machine(tmp_path):
    """One test, for the processes take longer to start than all of it takes to run."""
    module = loopback()
    tables, target = module.digits_tables()
    with module.Loopback(tmp_path, tables, target, {"min-owners": "2"}) as parties:
        parties.start_superlink()
        for owner in tables:
            parties.start_supernode(owner)
        run = parties.run()
        report = parties.finish(run, 300)
        all_owners_take_part(parties, run, report)
        telemetry_is_off(parties)
        slowest = max(r["seconds"] for r in report["rounds"])
        crashes_and_strangers(parties, max(15, round(1.5 * slowest)), module.wait_until)


def all_owners_take_part(parties, run, report):
    assert report["left_out"] == {}
    here = parties.in_process()
    assert parties.chosen(run) == here.chosen
    result = parties.folder / "result" / str(run)
    rows = pyarrow.parquet.read_table(result / "summary.parquet").to_pandas()
    np.testing.assert_array_equal(rows.pop("digit"), here.y)
    whose = [parties.tables[owner][0][index] for owner, index in here.chosen]
    np.testing.assert_array_equal(rows, whose)
    made = []
    for owner in parties.tables:
        transcript = [describe(m) for m in here.transcript[owner]]
        assert parties.log(owner).received("ask", run) == transcript
        home = parties.folder / owner
        made += [PrivateSketch.load(path) for path in (home / "log.jsonl.releases").iterdir()]
        assert len(PrivacyLedger.open(home / "ledger").entries()) == 1
    merged = PrivateSketch.load(result / "merged.sketch")
    expected = merge_sketches(dict(enumerate(made)))
    np.testing.assert_allclose(merged.sums, expected.sums, rtol=1e-12)  # added in another order
    assert merged.privacy.epsilon(1e-6) <= 1.0


def telemetry_is_off(parties):
    """All processes named flower-... have it in their environment."""
    for process in parties.processes.values():
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


def crashes_and_strangers(parties, timeout, wait_until):
    """In a "pool" two are killed, one comes with a wrong key, and the curator sends code."""
    text = (parties.project / "pyproject.toml").read_text()
    start = text.index("[tool.skdpsumm.agreement.rows]")
    text = text[:start].replace("skdpsumm.federated.apps:owner", "spoiled:owner")
    text = text.replace('["HOWTO.md"]', '["HOWTO.md", "spoiled.py"]')
    (parties.project / "pyproject.toml").write_text(text + POOL)
    evidence = parties.folder / "evidence"
    (parties.project / "spoiled.py").write_text(SPOILED.format(path=str(evidence)))
    parties.agree()

    parties.kill("north")
    parties.kill("east")
    loopback().write_key(parties.folder / "stranger.key", parties.folder / "stranger.pub")
    parties.start_supernode("east", key="stranger")
    run = parties.run(timeout=timeout, wait=5)

    # The south has signed, and is to hang and be killed while it answers.
    wait_until(lambda: events(parties, "south", run, "sent"), "south's signature", 300)
    table = parties.folder / "south" / "table.parquet"
    os.mkfifo(parties.folder / "pipe")
    (parties.folder / "pipe").replace(table)
    wait_until(lambda: parties.log("south").received("ask", run), "the question", 300)
    parties.kill("south")

    report = parties.finish(run, 300)
    gone = ("did not answer", "is not connected")  # soon, or once Flower has missed them
    for owner, question in {"north": "sign", "east": "sign", "south": "ask"}.items():
        assert report["left_out"][owner].removeprefix(f"{question}: ").startswith(gone)
    assert set(report["left_out"]) == {"north", "south", "east"}
    assert parties.chosen(run) == parties.in_process(report["left_out"]).chosen
    assert not events(parties, "east", run, "received")
    assert "Failed to activate SuperNode" in parties.output("east")
    assert "SuperNode ID" not in parties.output("east").split("Starting Flower SuperNode")[-1]
    assert not evidence.exists()


def events(parties, owner, run, kind):
    return [e for e in parties.log(owner).entries() if e["event"] == kind and e["run"] == run]
