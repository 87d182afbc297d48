"""Choosing rows without privacy against peers: quality in MMD, and time.

    python examples/benchmarks/selection.py [--cases mixture covertype million] [--data FILE]
        [--skip-slow] [--json FILE]

FILE is covtype_sub50k_float32.npz (key "X": rows of UCI Covertype as float32). All cases summarise
X itself with a Gaussian kernel whose sigma is the median distance.

    mixture    4,096 rows of 8 Gaussians in 10 dimensions, choose 64; medians of 10 data seeds.
               Wanted: MMD at most 0.0068 in at most 1 CPU second
    covertype  the first 10,000 rows x 54, standardised, choose 500; kernel thinning takes 8,000
    million    1,000,000 rows x 54, choose 1,000 by 140 random features; wanted: below 90 s on 2
               cores. Without FILE the rows are synthetic

Seconds are CPU seconds with one BLAS thread, except in "million". MMD is computed in float64.
Peers run where they are installed: goodpoints (kernel thinning, which wants n / p to be a power of
two), mmd-critic, apricot-select (facility location, which has another objective). ``--json`` stores
"million" where that is the only case, and both others where both run.
"""

import argparse
import importlib
import resource
import time
from pathlib import Path

import _results
import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_info, threadpool_limits

from skdpsumm.summaries import greedy_mmd_selection, mmd2, uniform_selection

# Where each peer is found. goodpoints is at its defaults; the other two were not at hand to try.
PEERS = {"goodpoints": "goodpoints.kt", "mmd-critic": "mmd_critic", "apricot-select": "apricot"}


def installed(package):
    """Return the module of a peer, or None."""
    try:
        return importlib.import_module(PEERS[package])
    except ImportError:
        return None


def median_gamma(X):
    """Return 1 / (2 sigma^2), sigma being the median distance between rows."""
    X = X[:5000].astype(np.float64)
    distances = pairwise_distances(X)[np.triu_indices(len(X), 1)]
    return float(1 / (2 * np.median(distances) ** 2))


def ours(X, p, gamma, **parameters):
    """Return a task that takes a seed and returns rows of X."""
    X = X.astype(np.float32)
    return lambda seed: X[
        greedy_mmd_selection(X, None, p, gamma=gamma, random_state=seed, **parameters)
    ]


def uniform(X, p):
    return lambda seed: X[uniform_selection(len(X), p, random_state=seed)]


def goodpoints(X, p, gamma):
    """Return tasks by name for kernel thinning: rows on demand, and with all pairs in memory."""
    kt = installed("goodpoints")
    halvings = round(np.log2(len(X) / p))
    if kt is None or len(X) != p * 2**halvings:
        return {}
    X = X.astype(np.float64)

    def kernel(y, rows):
        return np.exp(-gamma * ((rows - y) ** 2).sum(axis=1))

    def thin_pairs(seed):
        K = rbf_kernel(X, gamma=gamma)
        return X[kt.thin_K(K, K, halvings, seed=seed)]

    def compress(seed):
        compresspp = importlib.import_module("goodpoints.compress").compresspp_kt
        return X[compresspp(X, b"gaussian", k_params=np.array([1 / gamma]), g=4, seed=seed)]

    tasks = {
        "goodpoints kt.thin": lambda seed: X[kt.thin(X, halvings, kernel, kernel, seed=seed)],
        "goodpoints kt.thin_K, n x n": thin_pairs,
    }
    if p**2 == len(X):
        tasks["goodpoints compresspp_kt, g=4"] = compress
    return tasks


def other_peers(X, p, gamma):
    """Return tasks by name for the peers that take all pairs of rows into memory."""
    X, tasks = X.astype(np.float64), {}
    critic, apricot = installed("mmd-critic"), installed("apricot-select")
    if critic is not None:
        kernel = importlib.import_module("mmd_critic.kernels").RBFKernel((2 * gamma) ** -0.5)
        tasks["mmd-critic"] = lambda seed: np.asarray(
            critic.MMDCritic(X, kernel).select_prototypes(p)[0]
        )
    if apricot is not None:

        def facility(seed):
            choice = apricot.FacilityLocationSelection(
                p, metric="precomputed", optimizer="lazy", random_state=seed
            )
            return X[choice.fit(rbf_kernel(X, gamma=gamma)).ranking]

        tasks["apricot facility location"] = facility
    return tasks


def timed(task, seed):
    """Return the rows and the CPU seconds."""
    start = time.process_time()
    rows = task(seed)
    return rows, time.process_time() - start


def mixture(arguments):
    """Print medians over data seeds of 4,096 rows of 8 Gaussians."""
    n, p, found = 4096, 64, {}
    for seed in range(arguments.seeds):
        rng = np.random.default_rng(seed)
        centres = rng.normal(0, 3, (8, 10))
        X = centres[rng.integers(8, size=n)] + rng.normal(size=(n, 10))
        gamma = median_gamma(X)
        tasks = {
            "skdpsumm": ours(X, p, gamma),
            "skdpsumm, n_perturbations=0": ours(X, p, gamma, n_perturbations=0),
            "skdpsumm, refine=False": ours(X, p, gamma, refine=False),
            **goodpoints(X, p, gamma),
            **other_peers(X, p, gamma),
            "uniform": uniform(X, p),
        }
        with threadpool_limits(1):
            if seed == 0:
                tasks["skdpsumm"](0)  # imports
            for name, task in tasks.items():
                rows, seconds = timed(task, seed)
                mmd = mmd2(rows, X, gamma=gamma) ** 0.5
                found.setdefault(name, []).append((mmd, seconds))
    print(f"\nmixture: {n:,} x 10, choose {p}, medians of {arguments.seeds} data seeds")
    print(f"{'':<32}{'MMD':>9}{'from':>9}{'to':>9}{'CPU s':>8}")
    for name, values in found.items():
        mmd, seconds = np.transpose(values)
        print(
            f"{name:<32}{np.median(mmd):>9.5f}{mmd.min():>9.5f}{mmd.max():>9.5f}"
            f"{np.median(seconds):>8.2f}"
        )
    mmd, seconds = np.median(found["skdpsumm"], axis=0)
    verdict = "reached" if mmd <= 0.0068 and seconds <= 1 else "MISSED"
    print(f"wanted MMD <= 0.0068 in <= 1 CPU second: {mmd:.5f} in {seconds:.2f}, {verdict}")
    return {name: np.median(values, axis=0) for name, values in found.items()}


def load(path, n_rows=None):
    """Return the first rows with columns standardised, constant ones only centred."""
    with np.load(path) as file:
        X = file["X"][:n_rows].astype(np.float64)
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1)


def covertype(arguments):
    """Print MMD^2 to the 10,000 rows, and to those 8,000 of them that kernel thinning takes."""
    if arguments.data is None:
        print("\ncovertype: needs --data")
        return {}
    # The file's order is not random, and kernel thinning takes the first 8,000.
    X = np.random.default_rng(0).permutation(load(arguments.data, 10_000))
    part, p, gamma = X[:8000], 500, median_gamma(X)
    print(f"\ncovertype: {len(X):,} x {X.shape[1]}, choose {p}, medians of seeds")
    print(f"{'':<42}{'seeds':>6}{'MMD^2':>10}{'to 8,000':>10}{'CPU s':>8}")
    tasks = {
        "skdpsumm": (3, ours(X, p, gamma)),
        "skdpsumm, n_perturbations=0": (3, ours(X, p, gamma, n_perturbations=0)),
        "skdpsumm, refine=False": (3, ours(X, p, gamma, refine=False)),
        "skdpsumm, n_components=140": (3, ours(X, p, gamma, n_components=140)),
        "skdpsumm, n_components=1000": (3, ours(X, p, gamma, n_components=1000)),
        "skdpsumm, of 8,000 rows": (3, ours(part, p, gamma)),
        "uniform": (9, uniform(X, p)),
    }
    if not arguments.skip_slow:
        slow = {**goodpoints(part, p, gamma), **other_peers(part, p, gamma)}
        tasks |= {f"{name}, of 8,000 rows": (1, task) for name, task in slow.items()}
    found = {}
    for name, (n_seeds, task) in tasks.items():
        values = []
        for seed in range(n_seeds):
            with threadpool_limits(1):
                rows, seconds = timed(task, seed)
            values.append([*(mmd2(rows, other, gamma=gamma) for other in (X, part)), seconds])
        whole, first, seconds = np.median(values, axis=0)
        print(f"{name:<42}{n_seeds:>6}{whole:>10.2e}{first:>10.2e}{seconds:>8.2f}", flush=True)
        found[name.removesuffix(", of 8,000 rows")] = first, seconds  # the latter comes last
    return found


def peak_gib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def million(arguments):
    """Print seconds, MMD^2 to 5,000 random rows, and peak memory."""
    n, p, rng = 1_000_000, 1000, np.random.default_rng(0)
    if arguments.data is None:
        base, source = rng.normal(size=(50_000, 54)) @ rng.normal(size=(54, 54)) / 7, "synthetic"
    else:
        base, source = load(arguments.data), "Covertype, repeated with jitter"
    base = base.astype(np.float32)
    X = np.empty((n, base.shape[1]), np.float32)
    for start in range(0, n, len(base)):
        rows = base[: n - start]
        X[start : start + len(rows)] = rows + 0.01 * rng.standard_normal(
            rows.shape, dtype=np.float32
        )
    rng.shuffle(base)
    gamma, (sample, another) = median_gamma(base), X[rng.choice(n, (2, 5000), replace=False)]
    before = peak_gib()
    tasks = {
        "skdpsumm, 140 features": ours(X, p, gamma, n_components=140, refine=False),
        "uniform": uniform(X, p),
    }
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"\nmillion: {n:,} x {X.shape[1]} ({source}), choose {p:,}; BLAS threads {threads}")
    print(f"{'':<32}{'MMD^2':>10}{'wall s':>8}{'CPU s':>8}")
    lines = {}
    for name, task in tasks.items():
        start = time.perf_counter()
        rows, cpu = timed(task, 0)
        seconds = time.perf_counter() - start
        found = mmd2(rows, sample, gamma=gamma)
        print(f"{name:<32}{found:>10.2e}{seconds:>8.1f}{cpu:>8.1f}", flush=True)
        lines[name] = found, seconds, cpu
        if name != "uniform":
            verdict = "reached" if seconds < 90 else "MISSED"
            peak = peak_gib()
    own = mmd2(sample, another, gamma=gamma) / 2
    print(f"about {own:.2e} of each MMD^2 is the distance between the 5,000 rows and all")
    print(f"wanted below 90 s: {verdict}")
    print(
        f"peak memory {peak:.2f} GiB, of which {before:.2f} before choosing; "
        f"the rows are {X.nbytes / 2**30:.2f} GiB"
    )
    return lines


def store(path, found):
    """Store "million" alone, or what the two other cases say of the same methods."""
    if path is not None and "million" in found:
        lines = {"ours": found["million"]["skdpsumm, 140 features"]}
        lines["uniform"] = found["million"]["uniform"]
        _results.store(
            path,
            job="choose",
            title="1,000 of 1,000,000 rows",
            about="54 columns, 140 random features, no privacy: MMD^2 to 5,000 random rows, "
            "seconds, and CPU seconds of all threads.",
            columns=["method", "MMD^2", "seconds", "CPU s"],
            rows=[
                [name, f"{mmd:.1e}", round(seconds, 1), round(cpu, 1)]
                for name, (mmd, seconds, cpu) in lines.items()
            ],
        )
    elif path is not None:
        names = {
            "ours": "skdpsumm",
            "goodpoints": "goodpoints kt.thin",
            "with matrix": "goodpoints kt.thin_K, n x n",
            "uniform": "uniform",
        }
        cases = found["mixture"], found["covertype"]
        names = {name: key for name, key in names.items() if all(key in case for case in cases)}
        _results.store(
            path,
            job="choose",
            title="Choosing rows without privacy",
            about="64 of 4,096 rows in 10 dimensions, by MMD, and 500 of 8,000 rows of Covertype, "
            "by MMD^2. Less is better; CPU seconds. goodpoints (kernel thinning) as it is, and "
            "with the kernel matrix given.",
            columns=["method", "MMD, 64", "s", "MMD^2, 500", "s"],
            rows=[
                [
                    name,
                    round(cases[0][key][0], 4),
                    round(cases[0][key][1], 2),
                    f"{cases[1][key][0]:.1e}",
                    round(cases[1][key][1], 1),
                ]
                for name, key in names.items()
            ],
        )


CASES = {
    "million": million,
    "mixture": mixture,
    "covertype": covertype,
}  # in this order, for peak memory


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--data", type=Path, help="covtype_sub50k_float32.npz")
    parser.add_argument("--seeds", type=int, default=10, help='data seeds of "mixture"')
    parser.add_argument("--skip-slow", action="store_true", help='no peers in "covertype"')
    _results.add_argument(parser)
    arguments = parser.parse_args()
    for package in PEERS:
        print(f"{package}: {'not installed' if installed(package) is None else 'installed'}")
    cases = {name: case for name, case in CASES.items() if name in arguments.cases}
    store(arguments.json, {name: case(arguments) for name, case in cases.items()})


if __name__ == "__main__":
    main()
