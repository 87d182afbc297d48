"""How rows of two columns lie inside the cells of their table, by what neighbouring cells tell.

Tables finer than their cells say how many rows each place of a cell has: `interpolated` of a number
and a category, `coupled` of two numbers. Quantiles say it row by row: `plackett_quantiles`,
`tilted`, `at_a_jump`, of rows that begin on a `lattice`. All are functions of arrays alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from .._computing import TINY, UNIT, Codes, Floats
from ._rounding import RAKING_SWEEPS


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


def going_along(table: Floats, ends: Floats) -> Floats:
    """Return how b goes along with a inside the cells of a, by what neighbours tell.

    The median of b changes from cell to cell of a by a step that neighbours tell, and b has
    quartiles in the cell. If a is even in its cell and b the step times a plus normal errors, with
    x = step / (distance of the quartiles), the correlation is about 0.389 x = x 1.349 / sqrt(12);
    it is 1 at x = 2, where steps alone make the quartiles.

    Parameters
    ----------
    table : ndarray of shape (n_cells of a, n_cells of b)
        At least 0.
    ends : ndarray of shape (n_cells of b + 1,)
        The ranks of b at the ends of its cells.

    Returns
    -------
    ndarray of shape (2, n_cells of a)
        The correlation by ranks, if only the step across the cell makes it, and if what is left
        beside the steps is alike in all cells.
    """
    mass = table.sum(axis=1) + TINY
    curves = running_sums(table.T).T / mass[:, None]
    low, median, high = np.array([np.interp([0.25, 0.5, 0.75], c, ends) for c in curves]).T
    step, spread = across(mass, median)[0], np.maximum(high - low, 1e-6)
    x = step / spread
    own = 0.389 * x + 0.22 * np.sign(x) * (x / 2) ** 4
    # Coarse cells of b hide what is left beside the steps: the least of a quarter of the rows.
    left = np.maximum(spread**2 / 1.82 - 0.137 * step**2, 1e-8)
    order = np.argsort(left)
    quarter = np.searchsorted(np.cumsum(mass[order]), 0.25 * mass.sum())
    alike = step / np.sqrt(step**2 + 12 * left[order][min(quarter, len(left) - 1)])
    return np.clip([own, alike], -0.99, 0.99)


def interpolated(shares: Floats, n_places: int) -> Floats:
    """Return shares of places in each cell of a number, as cells of another column change.

    The other's shares, summed along the number's rows, are interpolated without a wave [1]_. Each
    place has as many rows.

    Parameters
    ----------
    shares : ndarray of shape (n, k)
        Of all rows, at least 0.
    n_places : int

    Returns
    -------
    ndarray of shape (n, n_places, k)

    References
    ----------
    .. [1] Fritsch and Carlson (1980), "Monotone piecewise cubic interpolation".
    """
    # Half of the digits, so that the ends of cells without rows are not one end.
    mass = shares.sum(axis=1) + math.sqrt(UNIT)
    below = PchipInterpolator(running_sums(mass), running_sums(shares))
    found = np.diff(below(running_sums(np.repeat(mass / n_places, n_places))), axis=0)
    return found.reshape(len(shares), n_places, -1)


def coupled(table: Floats, odds: Floats, n_places: Sequence[int]) -> Floats:
    """Return counts of places of two numbers, where b's rank in a cell of a follows a's place.

    They are Plackett's copula [1]_.

    Parameters
    ----------
    table : ndarray of shape (n, k)
        Counts of cells, more than 0.
    odds : ndarray of shape (n,)
        The odds ratio in each cell of a.
    n_places : pair of int
        Of each cell of either number.

    Returns
    -------
    ndarray of shape (n, n_places[0], k, n_places[1])

    References
    ----------
    .. [1] Nelsen (2006), "An Introduction to Copulas", section 3.3.1.
    """
    mass, odds = table.sum(axis=1, keepdims=True), odds[:, None, None]
    n, m = n_places
    v = running_sums(np.repeat((table / mass).T / m, m, axis=0)).T[:, None]
    u = (np.arange(n + 1) / n)[:, None]
    a = 1 + (odds - 1) * (u + v)
    below = 2 * u * v * odds / (a + np.sqrt(a**2 - 4 * u * v * odds * (odds - 1)))
    found = np.diff(np.diff(below, axis=1), axis=2) * mass[..., None]
    return found.reshape(len(table), n, -1, m)


def plackett_quantiles(u: Floats, rank: Floats, odds: Floats) -> Floats:
    """Return quantiles u that go along with a rank, by Plackett's copula of these odds ratios."""
    a = u * (1 - u) * (odds - 1)
    b = a * (odds - 1)
    c = odds + 2 * a * (rank * (odds + 1) - 1)
    d = np.sqrt(odds * (odds + 4 * b * rank * (1 - rank)))
    return np.clip((c - (1 - 2 * u) * d) / (2 * (odds + b)), 0.0, 1.0)


def tilted(u: Floats, slope: Floats) -> Floats:
    """Return quantiles under the density ``1 + slope (x - 1/2)`` for even ones."""
    slope = np.clip(slope, -2.0, 2.0)  # at which it is 0 at one end
    first = 1 - slope / 2
    return 2 * u / np.maximum(first + np.sqrt(first**2 + 2 * slope * u), math.sqrt(UNIT))


def at_a_jump(u: Floats, place: Floats, first: Floats) -> Floats:
    """Return even quantiles under a density that jumps."""
    before = u * (place / np.maximum(first, 1e-9))
    after = 1 - (1 - u) * ((1 - place) / np.maximum(1 - first, 1e-9))
    return np.where(u < first, before, after)


def raked_places(counts: Floats, table: Floats) -> Floats:
    """Return counts of places that sum to a table's cells, and to as many in all places of a cell.

    Parameters
    ----------
    counts : ndarray of shape (n, places of each, k, places of each)
    table : ndarray of shape (n, k)
    """
    counts = np.maximum(counts, TINY)
    for _ in range(RAKING_SWEEPS):
        for places, others in ((1, (2, 3)), (3, (0, 1))):
            own = counts.sum(axis=others, keepdims=True)
            counts *= own.mean(axis=places, keepdims=True) / own
        counts *= (table / counts.sum(axis=(1, 3)))[:, None, :, None]
    return counts


def running_sums(values: Floats) -> Floats:
    """Return the sums of the first values, from none to all of them."""
    return np.insert(np.cumsum(values, axis=0), 0, 0.0, axis=0)


@cache
def evenly_filling(n_axes: int) -> Floats:
    """Return fractional parts whose multiples fill a line, a square or a cube evenly.

    They are powers of 1 / g, where ``g**(n_axes + 1) = g + 1`` (Roberts 2018): the golden ratio,
    and the R2 and R3 sequences.
    """
    g = brentq(lambda g: g ** (n_axes + 1) - g - 1, 1.0, 2.0)
    return g ** -np.arange(1.0, n_axes + 1)


def lattice(m: int, shifts: NDArray) -> NDArray:
    """Return m places in each cell, evenly along each axis.

    Parameters
    ----------
    m : int
        A power of two.
    shifts : ndarray of shape (n_axes, n_tables, n_cells)
        In [0, 1).

    Returns
    -------
    ndarray of shape (n_axes, n_tables, n_cells * m)
    """
    others = evenly_filling(len(shifts) - 1) if len(shifts) > 1 else ()
    steps = [1, *(2 * round((m * part - 1) / 2) + 1 for part in others)]
    even = (np.outer(steps, np.arange(m)) % m / m).astype(shifts.dtype)
    found = even[:, None, None] + shifts[..., None]
    found -= found >= 1.0
    return found.reshape(*shifts.shape[:2], -1)
