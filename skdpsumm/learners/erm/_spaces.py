"""Where a learner's functions live: a public map phi from rows, its kernel, and its radius.

`phi` is known by its inner products (`KernelSpace`) or by its values (`FeatureSpace`). Its norm
is at most `radius` on every row, because rows are clipped or features are scaled down, and an
intercept is one more feature of constant value, so it is penalised like all others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import gen_batches

from ..._computing import silence
from ...features._row_alone import dense, map_rows
from ._careful import UNIT
from ._entries import (
    CHI2_ERROR,
    KERNEL_ERROR,
    NORM_ERROR,
    chi2,
    clip_rows,
    cosine,
    gaussian,
    laplacian,
    polynomial,
    polynomial_error,
)
from ._rows import FeatureRows

Floats = NDArray[np.float64]

# Columns are clipped to this, far beyond any data.
_LARGEST = 1e100
# What we ask of kernels of the user's: their values may be off by this part of |phi(x)| |phi(y)|.
# Their scaling adds as much again, and a little of its own.
GIVEN_ERROR = 2.0**-46
SCALED_ERROR = 2 * GIVEN_ERROR + 8 * UNIT
# Positive definite kernels of scikit-learn, and what bounds phi.
UNIT_KERNELS = ("rbf", "laplacian", "cosine", "chi2")
NORM_KERNELS = ("linear", "poly", "polynomial")
KERNELS = (*UNIT_KERNELS, *NORM_KERNELS)


class Space(ABC):
    """A public map phi from rows to a Hilbert space.

    Attributes
    ----------
    radius : float
        R, a bound on the norm of phi for every row, intercept included.
    intercept : float
        The value of the constant feature; 0 for none.
    n_jobs : int
        Threads that may call `gram`: one where it calls a function of the user's.
    is_users : bool
        Whether it calls a function of the user's, which may fail.
    entry_error : float
        How far entries of `gram` may be from exact inner products, in units of R^2. They may
        differ by as much from one call to another.
    """

    radius: float
    intercept: float
    n_jobs: int = 2
    is_users: bool = False
    entry_error: float

    @abstractmethod
    def gram(self, X: NDArray, Y: NDArray) -> Floats:
        """Return the inner products of phi(X) and phi(Y), shape (n, m)."""

    def check(self, X: NDArray) -> None:  # noqa: B027
        """Raise ValueError for rows on which the kernel is not defined."""


class KernelSpace(Space):
    """The reproducing kernel Hilbert space of a kernel.

    Parameters
    ----------
    kernel : str or callable
        One of `KERNELS` but "linear", or a function of two tables that returns their matrix.
    params : dict
        Keyword arguments of the kernel.
    norm_bound : float
        Rows are clipped to this norm ("poly"); phi itself is scaled down to it (callables).
    intercept : float
    """

    def __init__(
        self, kernel: str | Callable, params: dict[str, Any], norm_bound: float, intercept: float
    ):
        self.kernel, self.params = kernel, params
        self.norm_bound, self.intercept = norm_bound, intercept
        self.radius = math.hypot(self._kernel_radius(), intercept)
        self.n_jobs = 1 if callable(kernel) else 2
        self.is_users = callable(kernel)
        self.entry_error = self._entry_error()

    def _entry_error(self) -> float:
        if callable(self.kernel):
            return SCALED_ERROR
        if self._is_polynomial:
            return polynomial_error(self.params["degree"])
        return CHI2_ERROR if self.kernel == "chi2" else KERNEL_ERROR

    @property
    def _is_polynomial(self) -> bool:
        return self.kernel in ("poly", "polynomial")

    def _kernel_radius(self) -> float:
        if callable(self.kernel):
            return self.norm_bound
        if self.kernel in UNIT_KERNELS:
            return 1.0
        p = self.params
        longer = 1 + 2 * p["degree"] * NORM_ERROR
        try:
            return (p["gamma"] * self.norm_bound**2 + p["coef0"]) ** (p["degree"] / 2) * longer
        except OverflowError:
            return math.inf  # which `Terms.check` refuses

    def gram(self, X, Y):
        # Far beyond any data, and below where squares overflow.
        X, Y = (np.clip(np.asarray(A, dtype=np.float64), -_LARGEST, _LARGEST) for A in (X, Y))
        matrix = self._entries(X, Y)
        if self.intercept:
            matrix += self.intercept**2
        return matrix

    def _entries(self, X: Floats, Y: Floats) -> Floats:
        if callable(self.kernel):
            matrix = _zero_where_undefined(self._call_on_rows(X, Y))
            return matrix * self._scales(X)[:, None] * self._scales(Y)
        if self._is_polynomial:
            return polynomial(X, Y, self.norm_bound, **self.params)
        named = {"rbf": gaussian, "laplacian": laplacian, "cosine": cosine, "chi2": chi2}
        return named[self.kernel](X, Y, **self.params)

    def try_out(self, n_columns: int) -> None:
        """Raise ValueError for a function that is no kernel of two tables, on public zeros."""
        if not callable(self.kernel):
            return
        try:
            shape = self._call_as_is(np.zeros((2, n_columns)), np.zeros((1, n_columns))).shape
            reason = f"returned shape {shape}"
        except Exception as error:
            shape, reason = None, f"raised {type(error).__name__}: {error}"
        if shape != (2, 1):
            raise ValueError(
                "kernel must be a function of two tables, of shapes (n, d) and (m, d), and return "
                f"their (n, m) matrix; for zeros of shapes (2, d) and (1, d) it {reason}."
            )

    def _call_as_is(self, X: NDArray, Y: NDArray) -> Floats:
        with silence():
            return np.asarray(self.kernel(X, Y, **self.params), dtype=np.float64)

    def _call_on_rows(self, X: NDArray, Y: NDArray) -> Floats:
        with suppress(Exception):
            matrix = self._call_as_is(X, Y)
            if matrix.shape == (len(X), len(Y)):
                return matrix
        # Raised out here, for the error above may hold a value of a row.
        raise ValueError(
            "kernel fails on rows of these tables, or returns another shape than (n, m). It must "
            "take any rows of finite numbers; clip columns to public bounds (PublicScaler). (What "
            "it said is left out, for it may hold a private value.)"
        )

    def _scales(self, X: NDArray) -> Floats:
        """Return what brings the norm of phi of each row below the bound; 0 where it has none."""
        squares = np.empty(len(X))
        for rows in gen_batches(len(X), 64):
            squares[rows] = np.diag(self._call_on_rows(X[rows], X[rows]))
        squares = np.where(np.isnan(squares), np.inf, np.abs(squares))
        return self.norm_bound / np.sqrt(np.maximum(squares, self.norm_bound**2))

    def check(self, X):
        if self.kernel == "chi2" and (X < 0).any():
            raise ValueError(
                "kernel='chi2' is defined for columns that are nowhere negative; clip them to "
                "public bounds (PublicScaler), or take another kernel."
            )


class FeatureSpace(Space):
    """The span of explicit public features; their coefficients can be released as a vector.

    Parameters
    ----------
    transformer : fitted transformer or None
        None takes the columns themselves.
    n_columns : int
        Number of columns of the table.
    norm_bound : float
        Features of a row are scaled down to this norm.
    intercept : float
    """

    def __init__(self, transformer: Any, n_columns: int, norm_bound: float, intercept: float):
        self.transformer, self.norm_bound, self.intercept = transformer, norm_bound, intercept
        self.radius = math.hypot(norm_bound, intercept)
        self.is_users = transformer is not None
        self._n_mapped = self._try_out(n_columns) if self.is_users else n_columns
        self.n_features = self._n_mapped + bool(intercept)
        self.entry_error = (self.n_features + 4) * UNIT

    def _try_out(self, n_columns: int) -> int:
        """Return the number of features of a row; raise what the map raises for zeros."""
        one, again = (dense(self.transformer.transform(np.zeros((1, n_columns)))) for _ in range(2))
        if not np.array_equal(one, again, equal_nan=True):
            raise ValueError(
                "feature_map gives a row of zeros other features the second time. It must be a "
                "function of the row alone: without noise of its own, or memory of other rows."
            )
        return one.shape[1]

    @classmethod
    def of(
        cls, feature_map: Any, n_columns: int, norm_bound: float, intercept: float, seed: int
    ) -> FeatureSpace:
        """Return the space of a transformer, which is fitted here, on a public row of zeros."""
        if feature_map is not None:
            feature_map = clone(feature_map)
            for name, value in feature_map.get_params().items():
                if value is None and (name == "random_state" or name.endswith("__random_state")):
                    feature_map.set_params(**{name: seed})
            feature_map.fit(np.zeros((1, n_columns)), None)
        return cls(feature_map, n_columns, norm_bound, intercept)

    def features(self, X: NDArray) -> Floats:
        """Return phi of each row, shape (n, n_features), clipped and with the intercept last."""
        X = np.clip(np.asarray(X, dtype=np.float64), -_LARGEST, _LARGEST) + 0.0  # -0.0 is 0.0
        values = _zero_where_undefined(self._mapped(X)) if self.is_users else X
        values = clip_rows(values, self.norm_bound)
        if not self.intercept:
            return values
        return np.column_stack([values, np.full(len(values), self.intercept)])

    def _mapped(self, X: Floats) -> Floats:
        values, taken = map_rows([self.transformer], X, self._n_mapped)
        if taken.all():
            return values
        raise ValueError(
            "feature_map fails on a row of the table. It must take any row of finite numbers: "
            "clip columns to public bounds before it (PublicScaler), or have it ignore what it "
            "does not know (handle_unknown='ignore'). (What it said is left out, for it may hold "
            "a private value.)"
        )

    def rows(self, X: NDArray) -> FeatureRows:
        """Return the features of a table, for passes over it."""
        return FeatureRows(self.features, X, radius=self.radius)

    def gram(self, X, Y):
        return self.features(X) @ self.features(Y).T


def _zero_where_undefined(values: Floats) -> Floats:
    """Return values with zero for those that a map or a kernel overflowed on."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)
