"""Time and memory of a sketch of more rows than memory holds: Dask against the bare loop.

    python examples/benchmarks/scaling.py [--rows 1e6 1e7] [--repeats 3] [--engines threads]
        [--json FILE]

Rows of 10 float32 columns are made chunk by chunk on two cores, and no more chunks exist at a time
than are being worked on. The bare loop hands chunks to a pool of two threads and adds the exact
sums of 200 Fourier features. Against it runs `RFFSketcher.fit` of a Dask array: on Dask's threads
("threads"), or on a LocalCluster of two processes ("cluster"). The two alternate in one fresh
process per line, after a warm-up. Medians; CPU seconds are of all processes, and tell more than
the clock where others use the machine. Memory is the peak over all processes during one more fit,
pages that they share counted once (PSS), and what that is above the state before.
"""

import argparse
import contextlib
import json
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import _results
import cloudpickle
import dask
import dask.array as da
import numpy as np
import psutil

from skdpsumm import RFFSketcher
from skdpsumm.features import _feature_maps as _engine
from skdpsumm.sketches import _partitions

COLUMNS = 10
ENGINES = ("threads", "cluster")


def chunk(rows, seed):
    """Return some rows, the same for the same seed."""
    return np.random.default_rng(seed).random((rows, COLUMNS), dtype=np.float32)


def block(rows, block_id=(0, 0)):
    """Return `chunk` as a block of a Dask array."""
    return chunk(rows, block_id[0])


def table(n_chunks, rows):
    """Return the Dask array of all chunks."""
    shape = ((rows,) * n_chunks, (COLUMNS,))
    meta = np.empty((0, 0), np.float32)
    return da.map_blocks(block, rows, chunks=shape, dtype=np.float32, meta=meta)


def bare_loop(n_chunks, rows):
    """Return the sum of phi over all chunks, without sketcher or Dask."""
    feature_map = RFFSketcher(n_components=200, gamma=1.0, random_state=0).preview_map(COLUMNS)
    with ThreadPoolExecutor(2) as pool:
        seeds = iter(range(n_chunks))
        sums = pool.map(lambda seed: feature_map.grid_sums(chunk(rows, seed)), seeds)
        return sum(sums)


def fit(n_chunks, rows):
    """Return a released sketch of all chunks."""
    return RFFSketcher(n_components=200, gamma=1.0, random_state=0).fit(table(n_chunks, rows))


@contextlib.contextmanager
def scheduler(engine):
    """Set Dask's scheduler: two threads, or a cluster of two processes on this machine."""
    if engine == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            yield
        return
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options, memory_limit=0) as cluster, Client(cluster):
        yield


def family():
    """Return this process and all that it has started."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def cpu_seconds():
    """Return what the family has used."""
    return sum(sum(process.cpu_times()[:2]) for process in family())


class Memory:
    """The peak, in MiB, of the family while blocks of `watch` run."""

    def __init__(self):
        self.before = self.peak = self._now()

    @contextlib.contextmanager
    def watch(self):
        """Look ten times a second."""
        end = threading.Event()
        thread = threading.Thread(target=self._watch, args=(end,))
        thread.start()
        yield
        end.set()
        thread.join()

    def _watch(self, end):
        while not end.wait(0.1):
            self.peak = max(self.peak, self._now())

    def _now(self):
        total = 0
        for process in family():
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total / 2**20


def timed(task, *arguments):
    """Return the seconds that a task took: by the clock, and of CPU."""
    cpu, start = cpu_seconds(), time.perf_counter()
    task(*arguments)
    return time.perf_counter() - start, cpu_seconds() - cpu


def measure(engine, n_rows, rows, repeats):
    """Return the numbers of one line, without its name."""
    case = n_rows // rows, rows
    loops, fits = [], []
    with scheduler(engine):
        for task in (bare_loop, fit, fit):
            task(2, rows)  # imports, compiles, and fills allocators
        memory = Memory()
        for _ in range(repeats):
            loops.append(timed(bare_loop, *case))
            fits.append(timed(fit, *case))
        with memory.watch():  # which takes time itself
            fit(*case)
    (loop, loop_cpu), (dasked, cpu) = np.median(loops, axis=0), np.median(fits, axis=0)
    return [loop, dasked, loop_cpu, cpu, memory.peak, memory.peak - memory.before]


def show(engine, n_rows, rows, found):
    """Print one line."""
    loop, dasked, loop_cpu, cpu, peak, added = found
    print(
        f"{engine:<9}{n_rows:>12,}{n_rows // rows:>7}{loop:>9.2f}{dasked:>9.2f}"
        f"{dasked / loop - 1:>+9.0%}{loop_cpu:>9.2f}{cpu:>9.2f}{cpu / loop_cpu - 1:>+9.0%}"
        f"{cpu / n_rows * 1e9:>9.1f}{peak:>10.0f}{added:>7.0f}",
        flush=True,
    )


def store(arguments, found):
    """Store the last line."""
    loop, dasked, loop_cpu, cpu, peak, _ = found
    n_rows = int(arguments.rows[-1])
    _results.store(
        arguments.json,
        job="sketch",
        title=f"A table of {n_rows:,} rows",
        about=f"{n_rows:,} x {COLUMNS} rows, made chunk by chunk, sketched through Dask on two "
        f"{arguments.engines[-1]}, {peak:.0f} MiB in all; number of runs: {arguments.repeats}. The "
        "bare loop of two threads makes the rows and adds the same exact sums of 200 Fourier "
        "features, without Dask and without noise.",
        columns=["run", "seconds", "CPU s"],
        rows=[
            ["sketch", round(dasked, 1), round(cpu, 1)],
            ["bare loop", round(loop, 1), round(loop_cpu, 1)],
        ],
    )


def constants(n_chunks=1000):
    """Print what an extrapolation needs: bytes that travel, and what a task costs beside sums."""
    seen = []

    compute = _partitions.compute

    def computing(tasks):
        seen.append(dict(tasks[0].dask))
        return compute(tasks)

    _partitions.compute = computing
    sketch = fit(n_chunks, 1).feature_map_
    _partitions.compute = compute
    part = _partitions._Part(np.zeros(sketch.n_features, np.int64), 1)
    print(f"answer of a partition, 200 features: {len(pickle.dumps(part)):,} bytes")
    plan = next(task for key, task in seen[0].items() if str(key).startswith("shared"))
    print(f"what a worker is told, once: {len(cloudpickle.dumps(plan)):,} bytes")
    print(f"graph: {len(cloudpickle.dumps(seen[0])) / n_chunks:,.0f} bytes per partition")
    for engine in ENGINES:
        with scheduler(engine):
            fit(n_chunks, 1)
            seconds, cpu = np.median([timed(fit, n_chunks, 1) for _ in range(3)], axis=0)
        per = 1e3 / n_chunks
        print(f"{engine}: {seconds * per:.2f} ms per partition of one row, {cpu * per:.2f} of CPU")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--chunk", type=int, default=500_000, help="rows per chunk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--constants", action="store_true", help="of docs/scaling.md")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    _results.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.constants:
        constants()
        return
    if arguments.one:
        (engine,), (n_rows,) = arguments.engines, arguments.rows
        found = measure(engine, int(n_rows), arguments.chunk, arguments.repeats)
        print(json.dumps(list(map(float, found))))
        return
    print(f"{COLUMNS} columns, 200 features, engine {_engine.engine_name()}")
    print(
        f"{'':<9}{'rows':>12}{'chunks':>7}{'loop s':>9}{'Dask s':>9}{'':>9}{'loop CPU':>9}"
        f"{'Dask CPU':>9}{'':>9}{'ns / row':>9}{'peak MiB':>10}{'added':>7}",
        flush=True,
    )
    options = ["--one", "--chunk", str(arguments.chunk), "--repeats", str(arguments.repeats)]
    for n_rows in arguments.rows:
        for engine in arguments.engines:
            case = ["--rows", str(n_rows), "--engines", engine]
            line = [sys.executable, __file__, *case, *options]
            done = subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            show(engine, int(n_rows), arguments.chunk, found)
    store(arguments, found)


if __name__ == "__main__":
    main()
