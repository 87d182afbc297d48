"""What every test run needs: one BLAS thread per process, and noise of a seed.

Every test draws its noise, and whatever else the library takes from the operating system's entropy,
from one seed: it passes always or never. ``pytest --noise-seed 7`` takes another seed, with which
all tests should pass as well.

A test of the system's own noise is marked ``fresh_noise(p)``. It fails by chance with probability p
or less, which a comment derives from the law of its statistic. All p together (1.6e-8 now) stay
below 1e-6, or no test runs. What other processes draw is fresh: notebooks and the federation, whose
tests pass whatever it is, and audits in several processes, which are marked.
"""

import gc
import importlib
import importlib.util
import math
import os
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import settings

# Nothing dies while modules are imported and tests are listed, and to look for what did takes a
# third of that time, in each process; `pytest_collection` has it looked for again.
gc.disable()

# Those of several test processes would fight for the cores.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# The same examples in every run; ``pytest --hypothesis-profile default`` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# The process that hands out tests makes warnings of ours again, those of each worker in a thread of
# its own; and two threads that import a package for the first time at once see it half imported.
importlib.import_module("skdpsumm")

collect_ignore = ["tests/attacks"]  # apps that a test sends
if importlib.util.find_spec("numba") is None:
    collect_ignore.append("skdpsumm/features/_engine_numba.py")
if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    collect_ignore += ["skdpsumm/federated", "tests/flower_double.py"]


_FRESH_NOISE, _SIMULATED = "fresh_noise", "simulated"
_LARGEST_CHANCE = 1e-6  # that any test of a run fails, though nothing is wrong


def pytest_addoption(parser):
    """Let all tests be tried with other noise."""
    parser.addoption("--noise-seed", type=int, default=0, help="seed of the noise in tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for garbage from here on, and not among what lives as long as the run."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Seed what a test draws, and what its fixtures do, unless it is marked."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker(_FRESH_NOISE) is None:
            seed_all_noise(patch, item.config.getoption("noise_seed"))
        if (mark := item.get_closest_marker(_SIMULATED)) is None:
            return (yield)
        from skdpsumm.privacy._noise import drawing_from

        with drawing_from(*mark.args):
            return (yield)


def seed_all_noise(patch, seed):
    """Put one seeded generator in place of OpenDP's noise and of the system's entropy."""
    import numpy as np

    from skdpsumm.privacy import _noise
    from skdpsumm.privacy._noise import exponential_choice

    rng = np.random.default_rng([seed, 0xD9])  # no test draws its rows from this seed

    def opendp(kind, scale):
        return lambda values: values + _noise._simulate(kind, scale, len(values), rng)

    def randbits(n_bits):
        return int.from_bytes(rng.bytes(n_bits // 8), "little")

    patch.setattr(_noise, "_opendp", opendp)
    patch.setattr(_noise, "_noisy_max", lambda scale: lambda u: exponential_choice(u, scale, rng))
    patch.setattr(_noise, "secrets", SimpleNamespace(randbits=randbits))
    patch.setattr(np.random.bit_generator, "randbits", randbits)  # of generators without a seed
    np.random.seed(seed)  # noqa: NPY002  what scikit-learn takes for random_state=None


@pytest.fixture
def reseed(monkeypatch, request):
    """Return a function that starts all noise again from its seed."""
    return lambda: seed_all_noise(monkeypatch, request.config.getoption("noise_seed"))


@pytest.fixture
def unpaid():
    """Give a ledger that would hold everything, and must be empty at the end of the test."""
    from skdpsumm import PrivacyLedger

    ledger = PrivacyLedger(epsilon=math.inf, delta=1e-3)
    yield ledger
    assert ledger.entries() == []


@pytest.fixture
def quick_fits():
    """Leave out what takes long in helpers that an audit calls thousands of times.

    scikit-learn looks at signatures, and each step of a descent asks BLAS how many threads it has,
    unless that is settled outside.
    """
    from sklearn import config_context  # the number of BLAS threads is set before numpy's import

    from skdpsumm._computing import one_blas_thread

    with config_context(skip_parameter_validation=True), one_blas_thread():
        yield


_LONG = ("test_federated_loopback.py", "test_kit.py", "test_learner_noise.py")


_met: Counter = Counter()


def pytest_itemcollected(item):
    """Let examples warn, and leave all but one in n cases of a test that says so to `.ci/long`."""
    if isinstance(item, pytest.DoctestItem):
        item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning"))
    if item.get_closest_marker(_SIMULATED) is not None:
        item.add_marker(pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"))
    mark = item.get_closest_marker("one_in")
    if mark is None:
        return
    test = item.path, item.originalname
    if _met[test] % mark.args[0]:
        item.add_marker("long")
    _met[test] += 1


def is_plain(config):
    """Whether all tests run that a plain `pytest` does: no file, no -m and no -k was given."""
    folders = {config.rootpath / name for name in config.getini("testpaths")}
    given = {config.invocation_params.dir / name for name in config.args}
    plain = given == folders and not config.option.keyword
    return plain and config.option.markexpr in config.getini("addopts")


def some_cases(items):
    """Return four cases of each test that has more, or one in four of more than sixteen."""
    cases: dict = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for own in cases.values() for item in own[:: max(1, min(4, len(own) // 4))]]


@pytest.hookimpl(trylast=True)  # of what runs, when -m and -k have chosen
def pytest_collection_modifyitems(config, items):
    """Leave most cases to the gate; put the longest tests first, so that none ends a run alone."""
    if is_plain(config):
        kept = some_cases(items)
        config.hook.pytest_deselected(items=list({*items} - {*kept}))
        items[:] = kept
    items.sort(key=lambda item: item.path.name not in _LONG)
    marks = [mark for item in items if (mark := item.get_closest_marker(_FRESH_NOISE))]
    chance = math.fsum(mark.args[0] for mark in marks)
    if chance > _LARGEST_CHANCE:
        raise pytest.UsageError(f"Tests with fresh noise fail by chance once in {1 / chance:.3g}.")
