"""Dask: the same bits as in one process, one charge, one noise, and nothing private in a message.

Most run on Dask's threads; those with `cluster` start two worker processes on this machine.
"""

import contextlib
import os
import signal
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from curators import summarizer_of
from refusals import refused
from simulated import simulate
from sklearn.multiclass import OneVsRestClassifier

from skdpsumm.audit import audit_epsilon
from skdpsumm.learners import TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV
from skdpsumm.privacy import BudgetExceededError, PrivacyLedger
from skdpsumm.privacy._noise import IntegerNoise
from skdpsumm.schema import Numeric
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion, _partitions
from skdpsumm.summaries import PrivateMMDSummarizer

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
cloudpickle = pytest.importorskip("cloudpickle")

pytestmark = [
    pytest.mark.dask,
    pytest.mark.simulated(7),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in log"),
]

N, NAMES = 3000, ["a", "b", "c"]
SEEDED = {"random_state": 0}
PARTS = [HistogramSketcher(n_bins=4), RFFSketcher(n_components=10, gamma=1.0)]
SKETCHERS = {
    "rff": RFFSketcher(n_components=20, gamma=1.0, **SEEDED),
    "race": RACESketcher(n_repetitions=4, n_buckets=8, bandwidth=0.1, **SEEDED),
    "histogram": HistogramSketcher(n_bins=5, schema=(-2, 2), **SEEDED),
    "grid histogram": HistogramSketcher(
        schema=[Numeric(-2, 2, step=0.5), Numeric(edges=[-2, 0, 0.1, 2], missing=True), (-2, 2)],
        **SEEDED,
    ),
    "union": SketchUnion(PARTS, schema=(-2, 2), **SEEDED),
}


def rows(dtype=np.float64, n=N):
    return np.random.default_rng(0).normal(size=(n, 3)).astype(dtype)


def blocks_of_columns(X, folder):
    return da.from_array(X, chunks=(701, 2))


def unknown_sizes(X, folder):
    return frame(X, folder).to_dask_array()


def frame(X, folder):
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=5)


def with_empty_partitions(X, folder):
    whole = frame(np.vstack([X, np.full((N, 3), 9, X.dtype)]), folder)
    return whole[whole.a < 9]


def parquet(X, folder):
    for k, part in enumerate(np.array_split(X, 3)):
        pd.DataFrame(part, columns=NAMES).to_parquet(folder / f"{k}.parquet")
    return dd.read_parquet(folder / "*.parquet")


def same(a, b):
    return np.array_equal(a.sums, b.sums) and a.n_released == b.n_released


@contextlib.contextmanager
def within(seconds):
    """Fail rather than hang."""

    def give_up(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- the same bits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SKETCHERS)
def test_partitions_give_the_bits_of_one_process(name, dtype, tmp_path):
    X, sketcher = rows(dtype), SKETCHERS[name]
    expected = sketcher.fit(X).sketch_
    for make in (blocks_of_columns, unknown_sizes, frame, with_empty_partitions, parquet):
        assert same(sketcher.fit(make(X, tmp_path)).sketch_, expected), make.__name__
    framed = sketcher.fit(pd.DataFrame(X, columns=NAMES))
    lazily = sketcher.fit(frame(X, tmp_path))
    assert lazily.sketch_.feature_map.difference(framed.sketch_.feature_map) is None
    assert lazily.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize(("whole", "part"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_the_dtype_of_a_partition_changes_nothing(whole, part):
    """What a row adds is computed in float64, whatever holds it."""
    X = rows(np.float32)
    tables = [pd.DataFrame(p, columns=NAMES) for p in np.array_split(X, 3)]
    tables[1] = tables[1].astype(part)
    parts = [dask.delayed(table.copy)() for table in tables]
    lazily = dd.from_delayed(parts, meta=tables[0].astype(whole), verify_meta=False)
    sketcher = RFFSketcher(n_components=20, gamma=50.0, **SEEDED)
    for dtype in (np.float32, np.float64):
        assert same(sketcher.fit(lazily).sketch_, sketcher.fit(X.astype(dtype)).sketch_)


# ---- order, cost and words


def raised(sketcher, table):
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        sketcher.fit(table)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    return type(error), str(error)


def spoilt(value, dtype=np.float64):
    X = rows().astype(dtype)
    X[1234, 1] = value
    return X


BAD = {"nan": spoilt(np.nan), "words": spoilt("Mallory", object)}
BAD |= {"one column": rows()[:, 0], "no rows": rows()[:0]}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_costs_nothing_and_says_what_one_process_says(case):
    X = BAD[case]
    ledger = PrivacyLedger(epsilon=2, delta=1e-5)
    sketcher = RFFSketcher(n_components=20, gamma=1.0, ledger=ledger, **SEEDED)
    expected = raised(sketcher, X)
    assert raised(sketcher, da.from_array(X, chunks=(700, *X.shape[1:]))) == expected
    assert "Mallory" not in expected[1]
    assert sketcher.ledger.entries() == []
    assert not sketcher.holds_private_data
    assert not hasattr(sketcher, "n_features_in_")


def test_a_partition_with_other_columns_is_refused_and_not_quoted():
    tables = [pd.DataFrame(part, columns=NAMES) for part in np.array_split(rows(), 3)]
    for odd in (tables[1].rename(columns={"a": "Mallory"}), tables[1][["b", "a", "c"]]):
        parts = [dask.delayed(table) for table in (tables[0], odd, tables[2])]
        lazily = dd.from_delayed(parts, meta=tables[0][:0], verify_meta=False)
        kind, message = raised(RFFSketcher(n_components=20, gamma=1.0), lazily)
        assert (kind, "different columns" in message) == (ValueError, True)
        assert "Mallory" not in message


def counted(X, calls):
    """Return a Dask array that notes whenever one of its blocks is computed."""

    def note(block):
        calls.append(1)
        return block

    return da.from_array(X, chunks=(1000, 3)).map_blocks(note, dtype=X.dtype, meta=X[:0])


def test_whatever_can_be_told_without_rows_is_told_without_them():
    calls = []
    X = counted(rows(), calls)
    small = PrivacyLedger(epsilon=0.1, delta=1e-5)
    with pytest.raises(BudgetExceededError):
        RFFSketcher(n_components=20, gamma=1.0, ledger=small).fit(X)
    refused("gamma", RFFSketcher(n_components=20, gamma=-1).fit, X)
    refused("schema describes 1 columns", RFFSketcher({"z": (0, 1)}, n_components=20).fit, X)
    refused("gamma", RFFSketcher(n_components=20).fit, X)
    assert (calls, small.entries()) == ([], [])


def test_the_charge_is_between_the_sums_and_the_noise(monkeypatch):
    calls, seen = [], []
    ledger = PrivacyLedger(epsilon=2, delta=1e-5)
    charge, add = PrivacyLedger.charge, IntegerNoise.add

    def charging(self, *args, **options):
        seen.append(f"charge after {sum(calls)} blocks")
        return charge(self, *args, **options)

    def adding(self, *args):
        seen.append("noise")
        return add(self, *args)

    monkeypatch.setattr(PrivacyLedger, "charge", charging)
    monkeypatch.setattr(IntegerNoise, "add", adding)
    RFFSketcher(n_components=20, gamma=1.0, ledger=ledger, **SEEDED).fit(counted(rows(), calls))
    assert seen == ["charge after 3 blocks", "noise"]
    assert len(ledger.entries()) == 1


def test_a_graph_that_fails_costs_nothing_and_keeps_its_secret():
    def fail(block):
        raise KeyError("Mallory")

    X = da.from_array(rows(), chunks=(1000, 3)).map_blocks(fail, dtype=float, meta=rows()[:0])
    sketcher = RFFSketcher(n_components=20, gamma=1.0, ledger=PrivacyLedger(epsilon=2, delta=1e-5))
    kind, message = raised(sketcher, X)
    assert kind is RuntimeError
    assert "KeyError" in message
    assert "Mallory" not in message
    assert sketcher.ledger.entries() == []


def test_workers_get_no_ledger_and_no_noise(monkeypatch):
    """The graph without the rows: map and schema are all there is."""
    graphs = []
    compute = _partitions.compute

    def seen(tasks):
        graphs.append(dict(tasks[0].dask))
        return compute(tasks)

    monkeypatch.setattr(_partitions, "compute", seen)
    ledger = PrivacyLedger(epsilon=2, delta=1e-5).dataset("Mallory")
    sketcher = RFFSketcher(n_components=20, gamma=1.0, random_state=0, ledger=ledger)
    simulate(sketcher, blocks_of_columns(rows(), None), seed=987654321987)
    sent = b"".join(cloudpickle.dumps(task) for task in graphs[0].values())
    assert sketcher.feature_map_.frequencies.tobytes() in sent  # or the test sees nothing
    seed = (987654321987).to_bytes(5, "little")
    for secret in (b"Mallory", seed, b"IntegerNoise", b"RFFSketcher(", b"ledger"):
        assert secret not in sent


def test_a_worker_with_another_engine_is_refused(monkeypatch):
    """Else a row would add other bits by the worker that it happened to be given to."""
    names = iter(["numba", "numba", "numpy", "numba", "numba", "numba"])
    monkeypatch.setattr(_partitions, "engine_signature", lambda *_: next(names))
    sketcher = RFFSketcher(n_components=20, gamma=1.0, ledger=PrivacyLedger(epsilon=2, delta=1e-5))
    kind, message = raised(sketcher, da.from_array(rows(), chunks=(1000, 3)))
    assert (kind, "SKDPSUMM_ENGINE" in message) == (RuntimeError, True)
    assert sketcher.ledger.entries() == []


def test_dask_is_not_imported():
    code = (
        "import sys, numpy, skdpsumm\n"
        "skdpsumm.RFFSketcher(gamma=1.0, epsilon=numpy.inf).fit(numpy.zeros((5, 2)))\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\n"
    )
    environment = os.environ | {"SKDPSUMM_ENGINE": "numpy"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100, env=environment)


# ---- owners and selection


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (1500, 2)), rng.normal(3, 1, (500, 2))])
    return rng.permutation(X), rng.normal(3, 1, (100, 2))


@pytest.mark.parametrize("protocol", ["propose", "pool"])
@pytest.mark.parametrize(
    "how",
    [{}, {"epsilon": np.inf}, {"shares": {2: 1, 0: 2, 3: 1, 1: 1}}, {"target_is_owners": True}],
    ids=["noisy", "exact", "shares", "claim"],
)
def test_partitions_are_owners(mixture, protocol, how):
    X, target = mixture
    how = how | {"gamma": 0.5, "n_components": 200, "random_state": 0}
    summarizer = summarizer_of(20, protocol=protocol, **how)
    owners = np.repeat(np.arange(4), [600, 600, 600, 200])
    memory = summarizer.fit(X, X_target=target, owners=owners)
    expected = memory.sample_indices_.tolist(), memory.owner_counts_, memory.privacy_, {}
    lazily = summarizer.fit(da.from_array(X, chunks=(600, 1)), X_target=target)
    found = lazily.sample_indices_.tolist(), lazily.owner_counts_, lazily.privacy_
    assert (*found, lazily.dropped_owners_) == expected


def test_bad_owners_cost_nothing(mixture):
    X, target = mixture
    ledger = PrivacyLedger(epsilon=2, delta=1e-5)
    options = {"n_components": 50, "gamma": 1.0, "ledger": ledger}
    lazily = da.from_array(X, chunks=(600, 2))
    bad = X.copy()
    bad[700, 1] = np.nan
    summarizer = PrivateMMDSummarizer(n_select=5, **options)
    partitioned = da.from_array(bad, chunks=(600, 2))
    at, nan = {"X_target": target}, "Input X contains NaN"
    told = [refused(nan, summarizer.fit, table, **at) for table in (bad, partitioned)]
    assert str(told[0]) == str(told[1])
    refused("X_target", summarizer.fit, lazily)
    refused("many rounds", summarizer.set_params(protocol="auction").fit, lazily, X_target=target)
    assert ledger.entries() == []


# ---- a cluster


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, ended by their ids whatever happens.

    On numpy, which they inherit: numba takes them seconds to load.
    """
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKDPSUMM_ENGINE", "numpy")
        with within(120):
            started = LocalCluster(**options, host="127.0.0.1", memory_limit=0, silence_logs=50)
            client = Client(started)
        yield client
    pids = [nanny.process.pid for nanny in started.workers.values()]
    try:
        with within(30):
            client.close()
            started.close(timeout=20)
    except TimeoutError:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def die_once(block, marker, block_id):
    """Return the block, but kill the process that is first to compute the eighth."""
    with contextlib.suppress(FileExistsError):
        if block_id[0] == 7:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.statistical
def test_a_worker_that_dies_changes_nothing(cluster, tmp_path):
    X = rows()
    marker = str(tmp_path / "died")
    lazily = da.from_array(X, chunks=(150, 3))
    lazily = lazily.map_blocks(die_once, marker, dtype=X.dtype, meta=X[:0])
    ledger = PrivacyLedger(epsilon=5, delta=1e-5)
    sketcher = RFFSketcher(n_components=20, gamma=1.0, ledger=ledger, **SEEDED)
    before = {nanny.process.pid for nanny in cluster.cluster.workers.values()}
    with within(90):
        sketcher.fit(lazily)
    after = {nanny.process.pid for nanny in cluster.cluster.workers.values()}
    assert os.path.exists(marker)
    assert (len(before & after), len(ledger.entries())) == (1, 1)
    assert same(sketcher.sketch_, RFFSketcher(n_components=20, gamma=1.0, **SEEDED).fit(X).sketch_)


@pytest.mark.statistical
def test_no_value_reaches_the_logs_of_workers(cluster):
    X = spoilt("Mallory", object)
    with within(60):
        sketcher = RFFSketcher(n_components=20, gamma=1.0)
        kind, message = raised(sketcher, da.from_array(X, chunks=(1000, 3)))
        logs = str(cluster.get_worker_logs())
    assert kind is ValueError
    assert "Mallory" not in message
    assert "Mallory" not in logs
    assert "Compute Failed" not in logs


def labelled():
    X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    return X, np.select([X[:, 0] > 0.3, X[:, 1] > 0], [0, 1], 2)


def searched(context):
    X, y = labelled()
    choices = {"regularization": [0.01, 0.1, 1.0]}
    terms = {"expected_trials": 3, "epsilon": 3.0, "random_state": 0}
    search = PrivateSearchCV(TDILClassifier(), choices, **terms)
    with context:
        simulate(search, X, y > 0, seed=4)
    return search.best_sum_, search.best_params_


def one_against_rest(context):
    X, y = labelled()
    learner = OneVsRestClassifier(TDILClassifier(epsilon=np.inf, random_state=0))
    with context:
        return learner.fit(X, y).decision_function(X[:20])


# Fails once in 1e9 runs, as `test_audit.test_processes_share_the_trials`: workers draw fresh noise.
@pytest.mark.statistical
@pytest.mark.fresh_noise(1e-9)
@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_joblib_carries_trials(backend, request):
    """Of the audit, of the search, and one learner per class: the results of one process."""
    if backend == "dask":
        request.getfixturevalue("cluster")

    def parallel():
        return joblib.parallel_config(backend=backend, n_jobs=2)

    def noisy_count(rows):  # in here it travels whole: no worker imports this module for it
        return len(rows) + np.random.default_rng().laplace(scale=0.25)

    one = contextlib.nullcontext
    with within(120):
        with parallel():
            options = {"n_trials": 2000, "confidence": 1 - 1e-9, "random_state": 0}
            audit = audit_epsilon(noisy_count, np.ones(10), np.ones(9), **options)
        assert (audit.refutes(1.0), audit.refutes(4.0)) == (True, False)
        assert searched(parallel()) == searched(one())
        np.testing.assert_array_equal(one_against_rest(parallel()), one_against_rest(one()))
