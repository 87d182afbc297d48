"""Sketch files from strangers, 20,000 of them (``SKDPSUMM_FUZZ_MUTANTS``); see `file_fuzz`."""

import file_fuzz
import pytest

pytestmark = pytest.mark.long

FIRST = 10**6  # none of those that every test run examines
N_EACH = file_fuzz.number(20_000) // 20


@pytest.mark.parametrize("part", range(20))
def test_mutants_load_to_something_consistent_or_are_refused(part):
    print(file_fuzz.run(FIRST + part * N_EACH, N_EACH))
