"""Sketch files from strangers, 20,000 of them (``SKDPSUMM_FUZZ_MUTANTS``); see `file_fuzz`."""

import os

import file_fuzz
import pytest

pytestmark = pytest.mark.long

FIRST = 10**6  # none of those that every test run examines


def test_mutants_load_to_something_consistent_or_are_refused():
    seeds = range(FIRST, FIRST + file_fuzz.number(20_000))
    workers = int(os.environ.get("PYTEST_WORKERS", 2))
    counts, failures = file_fuzz.run(seeds, n_workers=workers)
    print(f"{dict(counts)}, {len(failures)} failures")
    assert not failures
