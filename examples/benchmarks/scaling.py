"""Time and memory of a sketch of more rows than memory holds: Dask against the bare loop.

    python examples/benchmarks/scaling.py [--rows 1e6 1e7] [--repeats 3] [--engines loop threads]

Rows of 10 float32 columns are made chunk by chunk on two cores, and no more chunks exist at a time
than are being worked on. "loop" hands chunks to a pool of two threads and adds the sums of 200
Fourier features; "threads" is `RFFSketcher.fit` of a Dask array on Dask's threads, "cluster" the
same on a LocalCluster of two processes. Each line is a fresh process, after a warm-up; memory is
the peak over all its processes, with pages that they share counted once (PSS), and what one fit
adds to what was there before it.
"""

import argparse
import contextlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import psutil

from skdpsumm import RFFSketcher
from skdpsumm.features import _engine

COLUMNS = 10
ENGINES = ("loop", "threads", "cluster")


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
    feature_map = RFFSketcher(200, random_state=0).preview_map(COLUMNS)
    with ThreadPoolExecutor(2) as pool:
        seeds = iter(range(n_chunks))
        sums = pool.map(lambda seed: feature_map.grid_sums(chunk(rows, seed)), seeds)
        return sum(sums)


def fit(n_chunks, rows):
    """Return a released sketch of all chunks."""
    return RFFSketcher(200, random_state=0).fit(table(n_chunks, rows))


@contextlib.contextmanager
def scheduler(engine):
    """Set Dask's scheduler: two threads, or a cluster of two processes on this machine."""
    if engine != "cluster":
        with dask.config.set(scheduler="threads", num_workers=2):
            yield
        return
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options, memory_limit=0) as cluster, Client(cluster):
        yield


class Memory:
    """The peak, in MiB, of this process and its children while the block runs."""

    def __enter__(self):
        self.before = self.peak = self._now()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()

    def _watch(self):
        while not self._end.wait(0.1):
            self.peak = max(self.peak, self._now())

    def _now(self):
        total, me = 0, psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total / 2**20


def measure(engine, n_rows, rows, repeats):
    """Print one line: median seconds, nanoseconds per row, memory."""
    task = bare_loop if engine == "loop" else fit
    n_chunks = n_rows // rows
    with scheduler(engine):
        for _ in range(2):
            task(4, rows)  # imports, compiles, and fills allocators
        times = []
        with Memory() as memory:
            for _ in range(repeats):
                start = time.perf_counter()
                task(n_chunks, rows)
                times.append(time.perf_counter() - start)
    seconds = float(np.median(times))
    spread = f"{min(times):.2f} to {max(times):.2f}"
    print(
        f"{engine:<9}{n_rows:>13,}{n_chunks:>7}{seconds:>10.2f}{spread:>19}"
        f"{seconds / n_rows * 1e9:>10.1f}{memory.peak:>10.0f}{memory.peak - memory.before:>8.0f}",
        flush=True,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--chunk", type=int, default=250_000, help="rows per chunk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        (engine,), (n_rows,) = arguments.engines, arguments.rows
        measure(engine, int(n_rows), arguments.chunk, arguments.repeats)
        return
    print(f"{COLUMNS} columns, 200 features, engine {_engine.engine_name()}")
    print(
        f"{'':<9}{'rows':>13}{'chunks':>7}{'median s':>10}{'range':>19}{'ns / row':>10}"
        f"{'peak MiB':>10}{'added':>8}",
        flush=True,
    )
    options = ["--one", "--chunk", str(arguments.chunk), "--repeats", str(arguments.repeats)]
    for n_rows in arguments.rows:
        for engine in arguments.engines:
            case = ["--rows", str(n_rows), "--engines", engine]
            subprocess.run([sys.executable, __file__, *case, *options], check=True)


if __name__ == "__main__":
    main()
