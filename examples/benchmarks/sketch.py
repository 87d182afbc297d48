"""Speed of a private sketch against the same mean with scikit-learn's RBFSampler.

    python examples/benchmarks/sketch.py [--rows 1000000] [--columns 10] [--repeats 5]
        [--questions-only] [--json FILE]

Both compute the mean of 200 random Fourier features over the same float32 rows; ours does it with
exact integer sums and adds noise. Medians of interleaved runs in one process, ratios beside them.
The engine is numba where it is installed (extra ``fast``), numpy else;
``SKDPSUMM_ENGINE=numpy`` forces numpy. ``--questions-only`` measures 1,000 statistics from one
fitted sketch instead.
"""

import argparse
import resource
import time
import warnings

import _results
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

from skdpsumm import HistogramSketcher, M2MEstimator, RACESketcher, RFFSketcher
from skdpsumm.features import _feature_maps as _engine


def median_times(tasks, repeats):
    """Run all tasks in turn, `repeats` times after a warm-up; return medians in seconds."""
    times = {name: [] for name in tasks}
    for repeat in range(repeats + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if repeat:
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(found)) for name, found in times.items()}


def thousand_statistics(at_once, seed=0):
    """Return the CPU seconds of 1,000 questions to one fitted sketch, so many in one call."""
    X = np.random.default_rng(seed).random((27_000, 10))
    model = M2MEstimator((0, 1), release=RFFSketcher(n_components=200), random_state=0).fit(X)
    rng = np.random.default_rng(1)
    planes = rng.normal(size=(1000, 10))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the sketch tells little of half-spaces
        for some in np.split(planes, len(planes) // at_once):
            model.estimate(lambda rows, some=some: rows @ some.T > 0)
    return time.process_time() - start


def ask(path):
    """Print and store the time of questions."""
    rows = []
    for at_once in (1, 50):
        seconds = thousand_statistics(at_once)
        rows.append([f"1,000, {at_once} in a call", round(seconds, 1)])
        print(f"1,000 statistics from one sketch, {at_once} in a call: {seconds:.2f} CPU s")
    _results.store(
        path,
        job="sketch",
        title="1,000 questions to one sketch",
        about="Half-spaces of ten numbers, asked of a sketch of 200 Fourier features: CPU seconds, "
        "with the check that warns of what the sketch does not tell, without intervals. The check "
        "reads the features of 100,000 points once a call, which is most of the time: ask in one "
        "call what you know already, as columns of one function.",
        columns=["questions", "CPU s"],
        rows=rows,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--blas-threads", type=int, default=None, help="for scikit-learn's BLAS")
    parser.add_argument("--questions-only", action="store_true", help="the 1,000 statistics alone")
    _results.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.questions_only:
        ask(arguments.json)
        return
    if arguments.blas_threads is not None:
        threadpool_limits(arguments.blas_threads, user_api="blas")
    X = np.random.default_rng(0).random((arguments.rows, arguments.columns), dtype=np.float32)
    wide = X.astype(np.float64)
    sampler = RBFSampler(n_components=200, random_state=0)

    def ours():
        return RFFSketcher(n_components=200, gamma=1.0, random_state=0).fit(X)

    tasks = {
        "RBFSampler, float64 rows": lambda: sampler.fit_transform(wide).mean(0),
        "RBFSampler, float32 rows": lambda: sampler.fit_transform(X).mean(0),
        "RFFSketcher": ours,
        "RACESketcher 80 x 80": lambda: RACESketcher(bandwidth=0.1, random_state=0).fit(X),
        "HistogramSketcher 100 bins": lambda: HistogramSketcher(schema=(0, 1)).fit(X),
    }
    ours()  # imports and compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = median_times(tasks, arguments.repeats)
    base64, base32 = found["RBFSampler, float64 rows"], found["RBFSampler, float32 rows"]
    print(f"{arguments.rows:,} x {arguments.columns} rows, engine {_engine.engine_name()}")
    print(f"{'':<28}{'median s':>9}{'x float64':>11}{'x float32':>11}")
    for name, seconds in found.items():
        print(f"{name:<28}{seconds:>9.3f}{base64 / seconds:>11.2f}{base32 / seconds:>11.2f}")
    print(f"peak memory added by one fit: {grown:.0f} MiB for {X.nbytes / 2**20:.0f} MiB of rows")
    _results.store(
        arguments.json,
        job="sketch",
        title="Time of a sketch",
        about=f"{arguments.rows:,} rows of {arguments.columns} float32 numbers, 200 Fourier "
        "features: median wall seconds of interleaved runs, and how many times the time of "
        "`RFFSketcher` that is. Beside it scikit-learn's `RBFSampler` and the mean of its output, "
        f"without privacy. Our engine is {_engine.engine_name()}.",
        columns=["sketch", "seconds", "times ours"],
        rows=[
            [name, round(seconds, 3), round(seconds / found["RFFSketcher"], 2)]
            for name, seconds in found.items()
        ],
    )


if __name__ == "__main__":
    main()
