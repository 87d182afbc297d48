"""Variances, covariances and correlations: what is asked for them, and what is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SMALLEST = 1e-300
# Of the largest noise of a variance, what any is taken to have at least.
_LEAST_NOISE = 1e-6
# Of the square of a range, what a column's variance is taken to be where its noise left less.
_LEAST_VARIANCE = 1e-12


class SecondMoments:
    """Products of numeric columns, and the covariances that their means give.

    Columns are taken from the middles of their ranges, so that second moments lose no digits.

    Parameters
    ----------
    which : list of int
        The columns.
    ranges : ndarray of shape (d, 2)
    gaps : ndarray of bool, shape (d,)
        Whether values may be missing: a column beside one with gaps has a mean of its own, that of
        the rows with both.
    """

    def __init__(self, which: list[int], ranges: NDArray, gaps: NDArray):
        self._which, self._middles = which, ranges.mean(axis=1)
        spans = np.ptp(ranges, axis=1)
        self.units = np.outer(spans, spans)
        left, right = self.left, self.right = np.triu_indices(len(which))
        self.diagonal = np.flatnonzero(left == right)
        self._gaps = gaps
        # Of which pairs the left column, and of which the right one, has a mean of its own.
        self._own = [np.flatnonzero((left != right) & gaps[other]) for other in (right, left)]

    # ---- from the means of products, of weighted points

    def products(self, X: NDArray) -> Floats:
        """Return the columns, each product of two of them, and columns where others are present."""
        columns = floats(X, self._which) - self._middles
        both = columns[:, self.left] * columns[:, self.right]
        sides = zip((self.left, self.right), self._own, strict=True)
        own = [np.where(np.isnan(both[:, k]), np.nan, columns[:, side[k]]) for side, k in sides]
        return np.hstack([columns, both, *own])

    def covariance(self, means: NDArray) -> Floats:
        """Return the matrices for means of `products`, shape (..., k)."""
        d, of_left, of_right = len(self._which), *self._own
        ends = np.cumsum([d, len(self.left), len(of_left)])
        first, both, own_left, own_right = np.split(means, ends, axis=-1)
        left, right = first[..., self.left], first[..., self.right]
        left[..., of_left], right[..., of_right] = own_left, own_right
        return self.matrix(both - left * right)

    # ---- from a graphical model, a pair after the other

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the positions of each pair of columns, one with itself included."""
        yield from zip(self.left.tolist(), self.right.tolist(), strict=True)

    def columns_of_pairs(self) -> list[Callable[[Any], NDArray]]:
        """Return, for each pair, the function of rows that gives both where both are present."""

        def both(rows: Any, a: int, b: int) -> Floats:
            x, y = (rows[:, self._which[k]].astype(np.float64) for k in (a, b))
            found = np.column_stack([x, y])
            if not self._gaps[[a, b]].any():
                return found
            return np.where(np.isnan(found).any(axis=1)[:, None], np.nan, found)

        return [partial(both, a=a, b=b) for a, b in self.pairs()]

    def centred(self, means: NDArray) -> list[Callable[[Any], NDArray]]:
        """Return, for each pair, the function whose mean is its covariance; means are theirs."""

        def product(rows: Any, a: int, b: int, mean: NDArray) -> Floats:
            x, y = (rows[:, self._which[k]].astype(np.float64) for k in (a, b))
            return (x - mean[0]) * (y - mean[1])

        return [
            partial(product, a=a, b=b, mean=m)
            for (a, b), m in zip(self.pairs(), means, strict=True)
        ]

    def influence(self, means: NDArray, matrix: NDArray) -> list[Callable[[Any], NDArray]]:
        """Return, for each pair, the function whose mean is the error of its correlation."""
        least = _LEAST_VARIANCE * np.diagonal(self.units)
        spread = np.sqrt(np.maximum(np.diagonal(matrix), least))

        def moved(rows: Any, a: int, b: int, mean: NDArray) -> Floats:
            if a == b:
                return np.zeros(len(rows))
            x, y = (
                (rows[:, self._which[k]].astype(np.float64) - mean[side]) / spread[k]
                for side, k in enumerate((a, b))
            )
            return x * y - matrix[a, b] / (spread[a] * spread[b]) * (x**2 + y**2) / 2

        return [
            partial(moved, a=a, b=b, mean=m) for (a, b), m in zip(self.pairs(), means, strict=True)
        ]

    # ---- matrices

    def matrix(self, entries: NDArray) -> Floats:
        """Return the symmetric matrices of the entries of all pairs, shape (..., n_pairs)."""
        d = len(self._which)
        found = np.empty((*entries.shape[:-1], d, d))
        found[..., self.left, self.right] = found[..., self.right, self.left] = entries
        return found

    def possible(self, covariance: NDArray, noise: NDArray | None = None) -> Floats:
        """Return a positive semi-definite matrix near by, with the same variances.

        Parameters
        ----------
        covariance : ndarray of shape (d, d)
        noise : ndarray of shape (d,), default=None
            Standard errors of the variances. A column that hardly anybody has is noise: it gives
            way before others do. None: all are as large in units of the ranges.
        """
        units = np.sqrt(np.diagonal(self.units))
        if noise is not None and noise.any():
            relative = noise / units**2
            units = units * np.maximum(relative, _LEAST_NOISE * relative.max())
        units = np.outer(units, units)
        values, vectors = np.linalg.eigh(covariance / units)
        closest = (vectors * np.maximum(values, 0.0)) @ vectors.T * units
        # The closest matrix has larger variances; a smaller one of both sides keeps it possible.
        variances = np.clip(np.diagonal(covariance), 0.0, np.diagonal(self.units) / 4)
        scale = np.sqrt(variances / np.maximum(np.diagonal(closest), _SMALLEST))
        scale = np.minimum(scale, 1.0)  # but for rounding it is
        return closest * np.outer(scale, scale)


def correlations(covariance: NDArray) -> Floats:
    """Return the correlations for a covariance matrix."""
    # Noise may leave a column no variance, and then no correlation with others either.
    spread = np.sqrt(np.maximum(np.diagonal(covariance), _SMALLEST))
    found = covariance / np.outer(spread, spread)
    # A column's correlation with itself has no noise, not even where its variance drowned.
    np.fill_diagonal(found, 1.0)
    return found


def floats(X: Any, which: list[int]) -> Floats:
    """Return columns of rows as floats."""
    return X[:, which].astype(np.float64)


def from_the_mean(X: Any, which: list[int]) -> Floats:
    """Return columns less their means over these rows."""
    columns = floats(X, which)
    return columns - np.nanmean(columns, axis=0)
