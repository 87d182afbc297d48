"""The number of BLAS threads while we work, and afterwards."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from skdpsumm._computing import one_blas_thread


def threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_the_last_to_leave_restores_what_was():
    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before


def test_an_error_restores_it_too():
    before = threads()
    with pytest.raises(ValueError, match="x"), one_blas_thread():
        raise ValueError("x")
    assert threads() == before
