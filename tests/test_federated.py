"""Over Flower's wire: the same rows, nothing more said, nothing asked twice, and no one trusted."""

import importlib.util
import io
import json
import pickle
import warnings
from functools import reduce
from operator import add
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import skdpsumm.federated  # isort: skip  (before flwr, whose telemetry it turns off)
import flwr.supercore.constant
import flwr.supercore.telemetry
import pandas as pd
from flower_double import GridDouble, wired
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, RecordDict

from skdpsumm import (
    BudgetExceededError,
    Categorical,
    Numeric,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateMMDSummarizer,
    PublicVectorizer,
    TableSchema,
)
from skdpsumm.federated import _commands
from skdpsumm.federated.__main__ import main
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._curator import run_app, run_over_grid
from skdpsumm.federated._owner_log import GENERIC, OwnerLog
from skdpsumm.federated._site import OwnerSite
from skdpsumm.federated._table import cells_of, check_codes, read_table
from skdpsumm.federated._wire import describe, message_content, message_of, pack, unpack
from skdpsumm.summaries import Curator, DataOwner
from skdpsumm.summaries._owners import run_protocol
from skdpsumm.summaries._protocol import ProposeRows, SendBest

pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

NAMES = ["north", "south", "east"]
COLUMNS = ["a", "b", "c"]
AGREEMENT = """
[tool.skdpsumm.agreement]
owners = ["north", "south", "east"]
labels = "y"

[tool.skdpsumm.agreement.schema]
extra_columns = "drop"
[tool.skdpsumm.agreement.schema.columns.a]
low = -6
high = 6
[tool.skdpsumm.agreement.schema.columns.b]
low = -6
high = 6
[tool.skdpsumm.agreement.schema.columns.c]
low = -6
high = 6

[tool.skdpsumm.agreement.rows]
protocol = "propose"
n_select = 6
n_components = 40
random_state = 3

[tool.skdpsumm.agreement.sketch]
epsilon = 1.0
delta = 1e-6
random_state = 5
sketchers = [{ kind = "histogram", n_bins = 4 }, { kind = "fourier", n_components = 10 }]
"""
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
    (folder / "pyproject.toml").write_text(agreement)
    PrivacyLedger(folder / "ledger", epsilon=cap, delta=1e-5)
    (folder / "owner.toml").write_text(
        f'name = "{NAMES[k]}"\ntable = "table.parquet"\nagreement = "pyproject.toml"\n'
        f'log = "log.jsonl"\nledger = "ledger"\nmax_rows = {max_rows}\nseed = {k}\n'
    )
    return folder / "owner.toml"


@pytest.fixture
def homes(tmp_path):
    return {name: make_home(tmp_path / name, k) for k, name in enumerate(NAMES)}


def agreed(text=AGREEMENT):
    import tomllib

    return Agreement.from_dict(tomllib.loads(text)["tool"]["skdpsumm"]["agreement"])


def vectors(X, agreement=None):
    return PublicVectorizer((agreement or agreed()).schema).fit_transform(X)


def curator(agreement, **own):
    return Curator(vectors(TARGET), noise_seed=7, **agreement.curator_parameters(), **own)


def run(homes, agreement=None, *, odd=(), run_id=1, rows=True, **options):
    agreement = agreed() if agreement is None else agreement
    grid = GridDouble(homes, odd, run_id)
    ours = curator(agreement) if rows and agreement.rows else None
    return run_over_grid(agreement, grid, ours, **{"timeout": 0.05, "wait": 0.0, **options})


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
        (path.parent / "pyproject.toml").write_text(text)
    over, here = run(homes, agreed(text)), in_process(agreed(text))
    assert over.left_out == {}
    assert over.curator.chosen == here.chosen
    np.testing.assert_array_equal(over.curator.X, here.X)
    np.testing.assert_array_equal(over.curator.y, here.y)
    for name in NAMES:
        transcript = [describe(message) for message in here.transcript[name]]
        assert log_of(homes, name).received("ask") == transcript
        kinds = [e["ask"] for e in log_of(homes, name).entries() if e["event"] == "received"]
        assert kinds == ["sign", "ask", "sketch"]


def test_sketches_are_those_made_at_home_and_are_added(homes):
    over = run(homes, rows=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        made = [
            agreed().sketcher(noise_seed=k).fit(frame(k)[COLUMNS]).sketch_
            for k in range(len(NAMES))
        ]
    np.testing.assert_array_equal(over.sketch.sums, reduce(add, made).sums)
    assert over.sketch.privacy.epsilon(1e-6) <= 1.0
    assert over.sketch.privacy.simulated
    assert over.sketch.schema.names == tuple(COLUMNS)


def test_without_a_seed_the_noise_is_fresh_and_no_simulation(homes):
    releases = []
    for run_id in (1, 2):
        for path in homes.values():
            path.write_text("\n".join(t for t in path.read_text().split("\n") if "seed" not in t))
        releases.append(run(homes, rows=False, run_id=run_id).sketch)
    assert not releases[0].privacy.simulated
    assert not np.array_equal(releases[0].sums, releases[1].sums)


def test_csv_gives_the_same_as_parquet(homes):
    before = run(homes)
    for k, path in enumerate(homes.values()):
        frame(k).to_csv(path.parent / "table.csv", index=False)
        path.write_text(path.read_text().replace("table.parquet", "table.csv"))
    after = run(homes, run_id=2)
    assert after.curator.chosen == before.curator.chosen
    np.testing.assert_allclose(after.curator.X, before.curator.X, rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "entry"),
    [
        ("low = -6", "low = -5", "schema.columns.a.bounds[0]"),
        ('"drop"', '"refuse"', "schema.extra_columns"),
        ("columns.b", "columns.d", "schema.columns.b"),
        ("random_state = 3", "random_state = 4", "rows.random_state"),
        ("n_select = 6", "n_select = 60", "rows.n_select"),
        ("epsilon = 1.0", "epsilon = 9.0", "sketch.epsilon"),
        ("n_bins = 4", "n_bins = 5", "sketch.sketchers[0].n_bins"),
    ],
)
def test_another_agreement_is_refused_by_name(homes, old, new, entry):
    (home_of(homes, "south") / "pyproject.toml").write_text(AGREEMENT.replace(old, new))
    over = run(homes)
    reason = f"sign: refused: the agreement differs from the owner's copy in {entry}"
    assert over.left_out == {"south": reason}
    assert over.curator.chosen == in_process(agreed(), ["south"]).chosen
    assert [kind for name, kind in received(homes, "south")] == ["sign"]


def test_agreements_carry_whole_schemas(tmp_path):
    schema = TableSchema(
        {
            "age": Numeric(17, 90, step=1, unit="years"),
            "gain": Numeric(edges=[0, 1, 5, 20, 99], missing=True),
            "job": Categorical(["clerk", "farmer"], description="as declared"),
        }
    )
    sketch = {"random_state": 0, "sketchers": [{"kind": "histogram", "n_bins": 74}]}
    ours = Agreement(["north"], schema, sketch=sketch)
    released = ours.sketcher().preview_map(3, schema.names)
    assert released.schema == schema
    assert released.n_bins == (74, 5, 2)
    text = '[tool.skdpsumm.agreement]\nowners = ["north"]\nschema = "adult.toml"\n'
    text += "sketch.random_state = 0\nsketch.sketchers = [{kind = 'histogram', n_bins = 74}]\n"
    (tmp_path / "pyproject.toml").write_text(text)
    schema.save(tmp_path / "adult.toml")
    assert Agreement.load(tmp_path).digest == ours.digest
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
        theirs = Agreement(["north"], columns | change, sketch=sketch)
        assert ours.difference(theirs).startswith(f"{entry}: ")
        assert ours.digest != theirs.digest
    turned = Agreement(["north"], dict(reversed(columns.items())), sketch=sketch)
    assert ours.difference(turned) == "schema.order[0]: 'age' here, 'job' there"
    for given in ({"kind": "race", "schema": [0, 1]}, {"kind": "race", "max_rows_per_group": 2}):
        with pytest.raises(ValueError, match="unknown entries"):
            Agreement(["north"], schema, sketch=sketch | {"sketchers": [given]})


def test_ranges_of_names_are_bounded_before_they_are_made():
    def named(*keys):
        columns = {key: {"low": 0, "high": 1} for key in keys}
        sketch = {"random_state": 0, "sketchers": [{"kind": "race"}]}
        table = {"owners": ["a"], "schema": {"columns": columns}, "sketch": sketch}
        return Agreement.from_dict(table).schema.names

    assert named("id", "px{9..11}") == ("id", "px9", "px10", "px11")
    for key in ("px{0..999999999999}", "px{0.." + 9000 * "9" + "}", "px{0..100000}", "px{5..4}"):
        with pytest.raises(ValueError, match=r"100,000 columns|no range of names"):
            named(key)
    with pytest.raises(ValueError, match="twice"):
        named("px2", "px{0..3}")


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_the_curators_app_asks_its_ledger_before_any_owner(homes, tmp_path, epsilon):
    pd.DataFrame(TARGET, columns=COLUMNS).to_parquet(tmp_path / "target.parquet")
    (tmp_path / "pyproject.toml").write_text(AGREEMENT)
    PrivacyLedger(tmp_path / "target.ledger", epsilon=epsilon, delta=1e-5)
    files = {"project": ".", "result": "result", "target": "target.parquet"}
    files["ledger"] = "target.ledger"
    config = {name: str(tmp_path / path) for name, path in files.items()}
    context = SimpleNamespace(run_config=config | {"timeout": 0.05, "wait": 0.0}, run_id=1)
    grid = GridDouble(homes)
    if epsilon < 1:
        with pytest.raises(BudgetExceededError):
            run_app(grid, context)
        assert grid.asked == []
    else:
        run_app(grid, context)
        assert len(grid.asked) == 9
    report = json.loads((tmp_path / "result" / "1" / "report.json").read_text())
    assert ("error" in report) == (epsilon < 1)
    spent = PrivacyLedger.open(tmp_path / "target.ledger").entries()
    assert [entry["label"] for entry in spent] == ["summary by Propose"] * (epsilon > 1)


def test_agreements_name_a_protocol_as_an_object_does():
    def agreed_on(protocol, **rows):
        rows = {"n_select": 10, "random_state": 0, **rows}
        return Agreement(["north", "south"], {"age": (17, 90)}, rows={"protocol": protocol, **rows})

    assert agreed_on("propose").rows_per_owner == 80
    assert agreed_on({"kind": "propose", "parsimony": 6.0}).rows_per_owner == 30
    assert agreed_on({"kind": "pool"}).protocol().explore == 1
    with pytest.raises(ValueError, match=r'kind = "propose", parsimony = 6.0 }'):
        agreed_on("propose", parsimony=6.0)  # as it was written before
    with pytest.raises(ValueError, match="kind: one of"):
        agreed_on("posted")
    with pytest.raises(ValueError, match="unknown entries"):
        agreed_on({"kind": "pool", "explore": 0.5})
    with pytest.raises(ValueError, match="explore"):
        agreed_on({"kind": "propose", "explore": 2.0})
    with pytest.raises(ValueError, match="gamma"):
        agreed_on("propose", gamma=-1.0)


def received(homes, name):
    events = log_of(homes, name).entries()
    return [(name, e["ask"]) for e in events if e["event"] == "received"]


def test_a_question_under_another_agreement_is_refused(homes):
    site = OwnerSite.load(homes["north"])
    for kind in ("ask", "sketch"):
        reply = site.answer(kind, 1, {"agreement": agreed(pool_text()).digest})
        assert "another agreement" in reply["reason"]
    assert site.answer("train", 1, {})["reason"] == GENERIC


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
    stage = "sign" if fault == "gone" else "ask"
    assert over.left_out == {"south": f"{stage}: refused: {GENERIC}"}
    assert "SECRET" not in json.dumps(over.report())
    refused = [e for e in log_of(homes, "south").entries() if e["event"] == "refused"]
    assert "Traceback" in refused[0]["detail"]


def test_what_flower_would_tell_of_a_crash_is_not_told(homes):
    homes["south"].write_text("name = SECRET")
    over = run(homes)
    assert over.left_out == {"south": f"sign: refused: {GENERIC}"}


def question(**changes):
    ours = agreed()
    plan = {"n_herd": 6, "n_uniform": 2, "direction": np.ones(40), "embedding": ours.embedding()}
    message = ProposeRows(**{**plan, **changes})
    return {"agreement": ours.digest, **message_content(message)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_herd": 1000}, "n_select: more rows"),
        ({"reveal": "features"}, "reveal"),
        ({"direction": None}, "protocol: 'propose' sends"),
        ({"direction": np.ones(39)}, "another length"),
        ({"embedding": agreed(AGREEMENT.replace("= 3", "= 4")).embedding()}, "feature map"),
    ],
)
def test_questions_beyond_the_agreement_are_refused(homes, changes, reason):
    site = OwnerSite.load(homes["north"])
    assert reason in site.answer("ask", 1, question(**changes))["reason"]
    assert site.answer("ask", 1, question())["kind"] == "Rows"


def test_a_pool_owner_takes_no_direction(homes):
    (home_of(homes, "north") / "pyproject.toml").write_text(pool_text())
    asked = question() | {"agreement": agreed(pool_text()).digest}
    reply = OwnerSite.load(homes["north"]).answer("ask", 1, asked)
    assert "protocol: 'pool'" in reply["reason"]


def test_rows_are_asked_for_once_and_counted_over_all_runs(homes):
    homes["north"].write_text(homes["north"].read_text().replace("= 100", "= 20"))
    site = OwnerSite.load(homes["north"])
    answers = [site.answer("ask", r, question()) for r in (1, 1, 2, 3)]
    assert [a["kind"] for a in answers] == ["Rows", "Refusal", "Rows", "Refusal"]
    assert "asked before" in answers[1]["reason"]
    assert "max_rows" in answers[3]["reason"]
    other = site.answer("ask", 1, question(direction=np.zeros(40), n_herd=1))
    assert "asked before" in other["reason"]


def test_a_crash_after_the_grant_does_not_give_a_second_answer(homes, monkeypatch):
    site = OwnerSite.load(homes["north"])
    with monkeypatch.context() as patch:
        patch.setattr("skdpsumm.federated._site.read_table", lambda *_, **__: 1 / 0)
        assert site.answer("ask", 1, question())["reason"] == GENERIC
    assert "asked before" in site.answer("ask", 1, question())["reason"]


def test_a_sketch_is_charged_once_per_run_and_never_drawn_twice(homes):
    site, asked = OwnerSite.load(homes["north"]), {"agreement": agreed().digest}
    ledger = PrivacyLedger.open(home_of(homes, "north") / "ledger")
    first, again = (site.answer("sketch", 1, asked | more) for more in ({}, {"x": 1}))
    np.testing.assert_array_equal(first["file"], again["file"])
    assert len(ledger.entries()) == 1
    kinds = []
    for run_id in range(2, 12):
        kinds.append(site.answer("sketch", run_id, dict(asked))["kind"])
    n_charged = len(ledger.entries())
    assert kinds == ["Sketch"] * (n_charged - 1) + ["Refusal"] * (11 - n_charged)
    assert 2 <= n_charged < 10
    assert ledger.spent.epsilon <= 2.5
    assert not ledger_reason(site, asked).count("0.")  # how much is left is nobody's business


def ledger_reason(site, asked):
    reason = site.answer("sketch", 99, dict(asked))["reason"]
    assert reason.startswith("ledger:")
    return reason


def test_no_ledger_no_sketch(homes):
    text = homes["north"].read_text().replace('ledger = "ledger"', "")
    homes["north"].write_text(text)
    assert "ledger" in run(homes).left_out["north"]


def test_a_damaged_log_grants_nothing(homes):
    site = OwnerSite.load(homes["north"])
    assert site.answer("ask", 1, question())["kind"] == "Rows"
    with site.log.open("a") as file:
        file.write("{ no json\n")
    assert site.answer("ask", 2, question())["reason"] == GENERIC


def rows_reply(**changes):
    plan = {"kind": "Rows", "indices": np.arange(4), "X": np.ones((4, 3)), "y": np.arange(4)}
    return pack({**plan, **changes})


def at(stage, content):
    """Answer as the app does, and with `content` at one stage."""
    return lambda kind: content if kind == stage else NotImplemented


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "did not answer within"),
        (Error(code=1, reason="SECRET"), "Flower says LOAD_CLIENT_APP_EXCEPTION"),
        (RecordDict({"x": ConfigRecord({"a": 1})}), "cannot be read"),
        (pack({"kind": "Rows"}), "sent no rows"),
        (rows_reply(X=np.ones((4, 2))), "another shape"),
        (rows_reply(X=np.array(1.0)), "another shape"),
        (rows_reply(indices=np.array(1)), "without an index each"),
        (rows_reply(X=np.full((4, 3), 6.5)), "column 'a' of the schema does not take"),
        (rows_reply(X=np.ones((4, 3), np.float32)), "another dtype"),
        (rows_reply(X=np.full((4, 3), np.nan)), "column 'a' of the schema does not take"),
        (rows_reply(y=np.array(list("abcd"))), "labels of another dtype"),
        (rows_reply(indices=np.zeros(4, int)), "a row twice"),
        (rows_reply(X=np.ones((99, 3)), indices=np.arange(99), y=np.arange(99)), "more rows"),
        (pack({"kind": "Refusal", "reason": "no\x1b[2J"}), "refused: no[2J"),
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
    array = Array("object", (1,), "numpy.ndarray", buffer.getvalue())
    raw = Array("float64", (1,), "numpy.ndarray", pickle.dumps(Trap()))
    for trap in (array, raw):
        parts = {"scalars": ConfigRecord({"kind": "Rows"}), "arrays": ArrayRecord({"X": trap})}
        with pytest.raises(ValueError, match="cannot be read"):
            unpack(wired(RecordDict(parts)))


def sketch_bytes(tmp_path, text=AGREEMENT, change=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        made = agreed(text).sketcher(noise_seed=1).fit(frame(1)[COLUMNS]).sketch_
    if change is not None:
        change(made)
    with pytest.MonkeyPatch.context() as patch:  # a stranger writes what `save` would refuse
        patch.setattr("skdpsumm.sketches._file.check_consistent", lambda sketch: None)
        made.save(tmp_path / "made")
    octets = np.frombuffer((tmp_path / "made").read_bytes(), np.uint8)
    return pack({"kind": "Sketch", "file": octets})


def spoil(sketch):
    sketch.sums[0] = 1e6


def understate(sketch):
    sketch.noise_std[:] /= 2


def overstate(sketch):
    sketch.noise_std[:] *= 2


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
    octets = pack({"kind": "Sketch", "file": np.arange(50, dtype=np.uint8)})
    assert (
        "no sketch" in run(homes, odd={"south": at("sketch", octets)}, run_id=2).left_out["south"]
    )


def test_an_agreement_is_compared_before_anything_of_it_is_made(homes):
    """A trillion columns in a line of text are no load for the owner."""
    theirs = json.loads(agreed().to_json())
    theirs["schema"]["order"] = ["px{0..999999999999}"]
    site = OwnerSite.load(homes["north"])
    reply = site.answer("sign", 1, {"agreement": json.dumps(theirs)})
    assert reply["reason"] == "the agreement differs from the owner's copy in schema.order"


def test_who_signs_something_else_or_for_another_is_left_out(homes):
    signed = {"kind": "SignOff", "owner": "east", "agreement": agreed().digest}
    over = run(homes, odd={"south": at("sign", pack(signed))}, rows=False)
    assert over.left_out == {"south": "sign: signed something else off"}


def test_too_few_owners_spend_nothing(homes, tmp_path):
    (home_of(homes, "south") / "pyproject.toml").write_text(pool_text())
    ledger = PrivacyLedger(tmp_path / "target.ledger", epsilon=10, delta=1e-3)
    grid, agreement = GridDouble(homes), agreed()
    ours = curator(agreement, ledger=ledger)
    with pytest.raises(ValueError, match="2 of 3 owners signed off"):
        run_over_grid(agreement, grid, ours, timeout=0.05, wait=0.0, min_owners=3)
    assert ledger.entries() == []
    assert {kind for _, kind in grid.asked} == {"sign"}


def test_two_nodes_of_one_name_are_none(homes):
    grid = GridDouble(homes)
    twin = [*grid.get_nodes(), grid.get_nodes()[0]]
    grid.get_nodes = lambda: twin
    over = run_over_grid(agreed(), grid, None, timeout=0.05, wait=0.0)
    assert over.left_out == {"north": "sign: is not connected"}


def test_messages_come_out_as_they_went_in():
    sent = ProposeRows(
        n_herd=3,
        n_uniform=1,
        direction=np.arange(40.0) / 7,
        noise=0.25,
        embedding=agreed().embedding(),
    )
    got = message_of(unpack(wired(pack(message_content(sent)))))
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
        {"reveal": "all"},
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
        ("n_select = 6", "n_selekt = 6", "n_select"),
        ('"propose"', '"auction"', "protocol"),
        ("random_state = 3", "", "random_state"),
        ("random_state = 5", "", "random_state"),
        ('kind = "fourier"', 'kind = "cosine"', "kind"),
        ("n_bins = 4", 'n_bins = 4, ledger = "x"', "ledger"),
        ("n_bins = 4", "n_bins = 4, noise_seed = 1", "noise_seed"),
        ('labels = "y"', 'labels = "a"', "labels"),
        ('labels = "y"', 'dtypes = "object"', "dtypes"),
        ("schema.columns.b", "schema.all_columns", "one of the tables"),
        ("low = -6", "lov = -6", "column 'a': unknown entries"),
        ("low = -6", "", "low and high"),
    ],
)
def test_bad_agreements_are_named(old, new, reason):
    with pytest.raises(ValueError, match=reason):
        agreed(AGREEMENT.replace(old, new, 1))


def test_the_template_is_sound():
    project = Path(__file__).resolve().parent.parent / "examples" / "federated"
    ours = Agreement.load(project)
    assert ours.rows_per_owner == 48
    assert ours.schema.names == tuple(f"px{j}" for j in range(64))
    assert not list(project.glob("*.py")), "no code is to be sent to owners"


def test_a_flower_that_starts_apps_otherwise_is_not_run(monkeypatch):
    commands = {kind: "flwr-runtime" for kind in flwr.supercore.constant.TaskType}
    monkeypatch.setattr("flwr.supercore.constant.TASK_TYPE_TO_COMMAND", commands)
    for start in (lambda: _commands.supernode([]), _commands.clientapp):
        with pytest.raises(RuntimeError, match="might execute what the curator sends"):
            start()


def test_the_digest_of_an_agreement_is_printed(homes, capsys):
    assert main(["agreement", str(home_of(homes, "north"))]) == 0
    assert agreed().digest in capsys.readouterr().out
    assert main([]) == 2


def test_telemetry_is_off():
    assert flwr.supercore.telemetry.FLWR_TELEMETRY_ENABLED == "0"
    assert skdpsumm.federated.os.environ["FLWR_DISABLE_UPDATE_CHECK"] == "1"


# ---- words, missing values and whole numbers

CENSUS = """
[tool.skdpsumm.agreement]
owners = ["north", "south", "east"]
labels = "income"
labels_dtype = "string"

[tool.skdpsumm.agreement.schema.columns.age]
low = 17
high = 90
step = 1
[tool.skdpsumm.agreement.schema.columns.gain]
low = 0
high = 99_999
missing = true
[tool.skdpsumm.agreement.schema.columns.job]
categories = ["clerk", "farmer", "NA"]
missing = true
[tool.skdpsumm.agreement.schema.columns.zip]
categories = [1, 2.5, 70001, "PO box"]
[tool.skdpsumm.agreement.schema.columns.veteran]
categories = [true, false]

[tool.skdpsumm.agreement.rows]
protocol = "propose"
n_select = 12
n_components = 40
epsilon = 20.0
random_state = 3

[tool.skdpsumm.agreement.sketch]
epsilon = 1.0
delta = 1e-6
random_state = 5
sketchers = [{ kind = "histogram", n_bins = 4 }]
"""


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


def census_curator(ours):
    return Curator(vectors(census_target(), ours), noise_seed=7, **ours.curator_parameters())


def test_raw_tables_are_read_cell_by_cell_and_come_out_as_they_were(census_homes, tmp_path):
    ours = agreed(CENSUS)
    over = run_over_grid(
        ours, GridDouble(census_homes), census_curator(ours), timeout=0.05, wait=0.0
    )
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


def test_the_kernel_is_that_of_one_process():
    ours = agreed(CENSUS)
    alone = PrivateMMDSummarizer(schema=ours.schema, n_components=40, random_state=3)
    frequencies = alone.preview_embedding(5).frequencies
    np.testing.assert_array_equal(ours.embedding().frequencies, frequencies)
    fixed = agreed(CENSUS.replace("n_select = 12", "n_select = 12\ngamma = 0.25"))
    assert fixed.curator_parameters()["gamma"] == fixed.gamma == 0.25 != ours.gamma


def test_one_sketch_of_raw_tables_from_csv_and_parquet(census_homes):
    ours = agreed(CENSUS)
    made = run_over_grid(ours, GridDouble(census_homes), None, timeout=0.05, wait=0.0).sketches
    for k, name in enumerate(NAMES):
        whole = census(k).drop(columns="income")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            expected = ours.sketcher(noise_seed=k).fit(whole).sketch_
        np.testing.assert_array_equal(made[name].sums, expected.sums)


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
    ours = agreed(CENSUS)
    over = run_over_grid(ours, GridDouble(census_homes), None, timeout=0.05, wait=0.0)
    assert "some that the schema does not describe" in over.left_out["south"]
    assert "SECRET" not in json.dumps(over.report())
    assert "SECRET" in log_of(census_homes, "south").entries()[-1]["detail"]
    start = "[tool.skdpsumm.agreement.schema.columns.age]"
    dropping = '[tool.skdpsumm.agreement.schema]\nextra_columns = "drop"\n'
    text = CENSUS.replace(start, dropping + start)
    for path in census_homes.values():
        (path.parent / "pyproject.toml").write_text(text)
    over = run_over_grid(agreed(text), GridDouble(census_homes), None, timeout=0.05, wait=0.0)
    assert over.left_out == {}


def test_a_table_with_two_columns_of_one_name_is_refused(census_homes):
    home = home_of(census_homes, "south")
    text = (home / "table.csv").read_text().replace("gain", "age", 1)
    (home / "table.csv").write_text(text)
    over = run_over_grid(agreed(CENSUS), GridDouble(census_homes), None, timeout=0.05, wait=0.0)
    assert "columns: the table has more than one column 'age'" in over.left_out["south"]


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


def test_the_target_has_to_fit_the_agreement(homes, tmp_path):
    pd.DataFrame(TARGET, columns=["a", "b", "d"]).to_parquet(tmp_path / "target.parquet")
    (tmp_path / "pyproject.toml").write_text(AGREEMENT)
    files = {"project": ".", "result": "result", "target": "target.parquet"}
    config = {name: str(tmp_path / path) for name, path in files.items()}
    grid = GridDouble(homes)
    with pytest.raises(ValueError, match=r"The target does not fit .* no column 'c'"):
        run_app(grid, SimpleNamespace(run_config=config, run_id=1))
    assert grid.asked == []
