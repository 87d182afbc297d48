"""How rows of several columns lie inside their common cells, by what neighbours tell.

Two numbers go up and down together inside a cell (`correlation`), as far as the step tells that one
makes across the cells of the other. Rows of one category lie more to one side, where it has more of
the rows (`slopes` for answers, `_of_cells` for synthetic rows).

Synthetic rows lie at places, `N_PLACES` of each cell (`places_of_rows`). Tables of two columns say
how many rows each place is to have, and rows are rounded to these as they are to counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from ..._computing import TINY, Codes, Floats
from ...sketches._rounding import RAKING_SWEEPS, Rounding
from .._numbers import N_QUANTILES, ROUNDING, Group

if TYPE_CHECKING:
    from ._table_model import TableModel

# Two columns together have as many places in a common cell as one has quantiles.
N_PLACES = math.isqrt(N_QUANTILES)


def across(mass: Floats, values: Floats) -> tuple[Floats, Codes, Codes]:
    """Return by how much values grow from the lowest to the highest row of each cell.

    Between the middles of two cells they change evenly, as the rows do. The cells before and after
    each one come second and third.
    """
    k = np.arange(len(mass))
    before, after = np.maximum(k - 1, 0), np.minimum(k + 1, len(mass) - 1)
    middle = np.cumsum(mass) - mass / 2
    part = np.minimum(mass / np.maximum(middle[after] - middle[before], TINY), 1.0)
    return (part * (values[after] - values[before]).T).T, before, after


def _changes(model: TableModel, j: int, other: int) -> tuple[Floats, Floats, Floats, float]:
    """Return how the shares of another column's cells change along the cells of a number.

    Of the changes, all squared together, noise makes a part. They are to be taken for as much
    smaller (as James and Stein do).

    Returns
    -------
    table : ndarray of shape (n_present of j, n_cells of the other)
        Shares of all rows.
    shares, step : ndarray of the same shape
        In each cell of j, and by how much they grow across it.
    told : float
        The part of the changes that is no noise.
    """
    n = model.sizes[j] - model.schema.missing(j)
    table = np.maximum(model.table((j, other)), 0.0)[:n]
    mass = table.sum(axis=1) + TINY
    shares = table / mass[:, None]
    step, before, after = across(mass, shares)
    noise = model.noise_of_cells((j, other))[:n] / model.n_rows
    off = np.minimum(noise / mass[:, None], 1.0)
    of_noise = mass**2 @ (off[after] ** 2 + off[before] ** 2)
    apart = mass**2 @ (shares[after] - shares[before]) ** 2
    return table, shares, step, np.maximum(1 - of_noise / np.maximum(apart, TINY), 0.0)


def slopes(model: TableModel, j: int, other: int) -> Floats:
    """Return how another column goes along inside the cells of a numeric one.

    The shares of the other column's cells change evenly from cell to cell, less what noise does.

    Returns
    -------
    ndarray of shape (n_cells of j, n_cells of the other)
        By what part of itself a share grows from the lowest to the highest row of a cell.
    """
    _, shares, step, told = _changes(model, j, other)
    found = np.zeros((model.sizes[j], model.sizes[other]))
    # A share that grows by twice itself grows from 0.
    found[: len(shares)] = np.clip(step * told / np.maximum(shares, TINY), -2.0, 2.0)
    return found


def correlation(model: TableModel, a: int, b: int) -> Floats:
    """Return how b goes along with a inside the cells of a, by what neighbours tell.

    The median of b changes from cell to cell of a by a step that neighbours tell, and b has
    quartiles in the cell. If a is even in its cell and b the step times a plus normal errors, with
    x = step / (distance of the quartiles), the correlation is about 0.389 x = x 1.349 / sqrt(12);
    it is 1 at x = 2, where steps alone make the quartiles.

    Returns
    -------
    ndarray of shape (2, n_cells)
        The correlation by ranks, if only the step across the cell makes it, and if what is left
        beside the steps is alike in all cells.
    """
    n = model.sizes[a] - model.schema.missing(a)
    table = np.maximum(model.table((a, b)), 0.0)[:n]
    mass = table.sum(axis=1) + TINY
    ends = np.concatenate([[0.0], np.cumsum(np.maximum(model.table((b,)), 0.0))])
    curves = np.concatenate([np.zeros((n, 1)), np.cumsum(table, axis=1)], axis=1) / mass[:, None]
    low, median, high = np.array([np.interp([0.25, 0.5, 0.75], c, ends) for c in curves]).T
    step, spread = across(mass, median)[0], np.maximum(high - low, 1e-6)
    x = step / spread
    own = 0.389 * x + 0.22 * np.sign(x) * (x / 2) ** 4
    # Coarse cells of b hide what is left beside the steps: the least of a quarter of the rows.
    left = np.maximum(spread**2 / 1.82 - 0.137 * step**2, 1e-8)
    order = np.argsort(left)
    quarter = np.searchsorted(np.cumsum(mass[order]), 0.25 * mass.sum())
    alike = step / np.sqrt(step**2 + 12 * left[order][min(quarter, n - 1)])
    found = np.zeros((2, model.sizes[a]))
    found[:, :n] = np.clip([own, alike], -0.99, 0.99)
    return found


# ---- places of synthetic rows


def places_of_rows(model: TableModel, codes: Codes, rng: np.random.Generator) -> dict[int, Codes]:
    """Return the places in their cells of rows, of each number that was counted with others.

    Parameters
    ----------
    model : TableModel
    codes : ndarray of int, shape (n_rows, d)
        The cells of the rows.
    rng : Generator
    """
    d, found = len(model.sizes), dict[int, Codes]()
    rows = Rounding([*model.sizes, *[N_PLACES] * d], len(codes), rng, {}, codes)
    for j in (j for j, column in enumerate(model.cells) if not column.is_exact):
        others = (k for k in range(d) if k != j and model.counts_together((j, k)))
        rows.tables = dict(_wanted(model, j, k, k in found) for k in others)
        if rows.tables:
            rows.draw(d + j, (j,), np.full((model.sizes[j], N_PLACES), 1 / N_PLACES))
            found[j] = rows.codes[:, d + j]
    return found


def _wanted(model: TableModel, j: int, k: int, is_placed: bool) -> tuple[Group, Floats]:
    """Return the cells and places of a number, by the rows' columns, with those of another one."""
    d = len(model.sizes)
    if model.cells[k].is_exact:
        return (j, d + j, k), _of_cells(model, j, k)
    table = _of_places(model, j, k)
    return ((j, d + j, k, d + k), table) if is_placed else ((j, d + j, k), table.sum(axis=3))


def _of_cells(model: TableModel, j: int, k: int) -> Floats:
    """Return the shares of the places of a number with the cells of another column.

    The other's counts, summed along the number's rows, are interpolated without a wave [1]_, less
    what noise does.

    Returns
    -------
    ndarray of shape (n_cells of j, N_PLACES, n_cells of k)

    References
    ----------
    .. [1] Fritsch and Carlson (1980), "Monotone piecewise cubic interpolation".
    """
    counts, _, _, told = _changes(model, j, k)
    mass = counts.sum(axis=1) + ROUNDING
    even = np.repeat(counts / N_PLACES, N_PLACES, axis=0)
    below = PchipInterpolator(_summed(mass), _summed(counts))
    places = below(_summed(np.repeat(mass / N_PLACES, N_PLACES)))
    even += told * (np.diff(places, axis=0) - even)
    table = np.maximum(model.table((j, k)), 0.0) + TINY
    found = np.repeat(table[:, None] / N_PLACES, N_PLACES, axis=1)
    found[: len(counts)] = even.reshape(len(counts), N_PLACES, -1)
    return _raked(found[..., None], table)[..., 0]


def _of_places(model: TableModel, a: int, b: int) -> Floats:
    """Return the shares of the places of two numbers.

    Inside a common cell they go together as neighbours tell of the one of which they tell more.

    Returns
    -------
    ndarray of shape (n_cells of a, N_PLACES, n_cells of b, N_PLACES)
    """
    of_a, of_b = correlation(model, a, b), correlation(model, b, a)
    if told_of(model, a, of_a) < told_of(model, b, of_b):
        return np.transpose(_of_places(model, b, a), (2, 3, 0, 1))
    table = np.maximum(model.table((a, b)), 0.0) + TINY
    other = _coupled(table.T, of_b).sum(axis=3) / table.T[:, None]
    return _raked(_coupled(table, of_a) * np.transpose(other, (2, 0, 1))[:, None], table)


def told_of(model: TableModel, j: int, expected: Floats) -> float:
    """Return how much neighbours tell of how another number goes along inside the cells of j."""
    return float(np.maximum(model.table((j,)), 0.0) @ expected[0] ** 2)


def _coupled(table: Floats, expected: Floats) -> Floats:
    """Return shares of places if b's rank in each cell of a goes along with a's place in it.

    They are Plackett's copula [1]_, with the odds ratio that plausible tables have on average.

    References
    ----------
    .. [1] Nelsen (2006), "An Introduction to Copulas", section 3.3.1.
    """
    odds = np.exp(3 * np.arctanh(expected).mean(axis=0))[:, None, None]
    mass = table.sum(axis=1, keepdims=True)
    v = _summed(np.repeat((table / mass).T / N_PLACES, N_PLACES, axis=0)).T[:, None]
    u = (np.arange(N_PLACES + 1) / N_PLACES)[:, None]
    a = 1 + (odds - 1) * (u + v)
    below = 2 * u * v * odds / (a + np.sqrt(a**2 - 4 * u * v * odds * (odds - 1)))
    found = np.diff(np.diff(below, axis=1), axis=2) * mass[..., None]
    return np.maximum(found, TINY).reshape(len(table), N_PLACES, -1, N_PLACES)


def _raked(found: Floats, table: Floats) -> Floats:
    """Return shares of places that sum to those of cells, each place of a cell with as many."""
    found = np.maximum(found, TINY)
    for _ in range(RAKING_SWEEPS):
        for axes in ((2, 3), (0, 1)):
            own = found.sum(axis=axes, keepdims=True)
            found *= own.mean(axis=4 - axes[1], keepdims=True) / own
        found *= (table / found.sum(axis=(1, 3)))[:, None, :, None]
    return found


def _summed(values: Floats) -> Floats:
    """Return the sums of the first values, from none to all of them."""
    return np.insert(np.cumsum(values, axis=0), 0, 0.0, axis=0)
