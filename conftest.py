"""What every test run needs: one BLAS thread per process, and no doctests that need an extra."""

import importlib.util
import os

import pytest

# Those of several test processes would fight for the cores.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

collect_ignore = []
if importlib.util.find_spec("numba") is None:
    collect_ignore.append("skdpsumm/features/_engine_numba.py")
if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    collect_ignore += ["skdpsumm/federated", "tests/flower_double.py"]


@pytest.fixture
def quick_fits():
    """scikit-learn looks at signatures in helpers that an audit calls thousands of times."""
    from sklearn import config_context  # the number of BLAS threads is set before numpy's import

    with config_context(skip_parameter_validation=True):
        yield


@pytest.fixture(scope="module")
def same_noise():
    """Noise that is the same in every run, for tests that ask how good an answer is.

    What is fitted alike has the same noise: a test that compares releases gives them a
    `noise_seed` each.
    """
    from skdpsumm.privacy import IntegerNoise

    add = IntegerNoise.add
    with pytest.MonkeyPatch.context() as patch:
        seeded = lambda noise, values, seed=None: add(noise, values, 0 if seed is None else seed)  # noqa: E731
        patch.setattr(IntegerNoise, "add", seeded)
        yield


_LONG = (
    "test_federated_loopback.py",
    "test_summary_noise.py",
    "test_release_audits.py",
    "test_learner_noise.py",
)


def pytest_collection_modifyitems(items):
    """Put the longest tests first, so that no worker of pytest-xdist ends with one alone."""
    items.sort(key=lambda item: item.path.name not in _LONG)
