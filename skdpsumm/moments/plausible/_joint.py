"""How rows of several columns lie inside their common cells, in each plausible table.

Each cell has a few rows of each table, at quantiles u of its columns: a lattice, shifted at random.
What is likely moves these quantiles, one table beside the other:

- two numbers go up and down together inside a cell (`conditional_shares`), as far as the step tells
  that one makes across the cells of the other;
- rows of one category, or of one cell of another column, lie more to one side (`slopes`): the share
  of that cell grows evenly from one end to the other.

In some tables, either does so several times as steeply as neighbours tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY
from .._numbers import CHANCE_OF_JUMP, ROUNDING, STEEPER_THAN_NEIGHBOURS
from ..inferring._table_model import TableModel
from ._places import Places

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Group = tuple[int, ...]
# Fractional parts whose multiples fill a line, a square or a cube evenly (Roberts 2018: the golden
# ratio, the R2 and the R3 sequence).
_EVEN = (0.6180339887,), (0.7548776662, 0.5698402910), (0.8191725134, 0.6710436067, 0.5497004779)


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
    others = _EVEN[len(shifts) - 2] if len(shifts) > 1 else ()
    steps = [1, *(2 * round((m * part - 1) / 2) + 1 for part in others)]
    even = (np.outer(steps, np.arange(m)) % m / m).astype(shifts.dtype)
    found = even[:, None, None] + shifts[..., None]
    found -= found >= 1.0
    return found.reshape(*shifts.shape[:2], -1)


def even_shifts(n_axes: int, n_cells: int) -> Floats:
    """Return shifts of the cells that are spread evenly, shape (n_axes, 1, n_cells)."""
    return np.outer(_EVEN[2][:n_axes], 0.5 + np.arange(n_cells))[:, None] % 1.0


def slopes(model: TableModel, j: int, other: int) -> Floats:
    """Return how another column goes along inside the cells of a numeric one.

    Between the middles of two cells the shares of the other column's cells change evenly, as the
    rows do, from what they are in the one to what they are in the next. Of the changes, all squared
    together, noise makes a part: they are taken for as much smaller (as James and Stein do).

    Returns
    -------
    ndarray of shape (n_cells of j, n_cells of the other)
        By what part of itself a share grows from the lowest to the highest row of a cell.
    """
    n = model.sizes[j] - model.schema.missing(j)
    table = np.maximum(model.table((j, other)), 0.0)[:n]
    mass = table.sum(axis=1) + TINY
    shares = table / mass[:, None]
    before, after = np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)
    middle = np.cumsum(mass) - mass / 2
    distance = np.maximum(middle[after] - middle[before], TINY)
    apart = shares[after] - shares[before]
    noise = model.noise_of_cells((j, other))[:n] / model.n_rows
    off = np.minimum(noise / mass[:, None], 1.0)
    of_noise = mass**2 @ (off[after] ** 2 + off[before] ** 2)
    told = np.maximum(1 - of_noise / np.maximum(mass**2 @ apart**2, TINY), 0.0)
    step = np.minimum(mass / distance, 1.0)[:, None] * apart * told
    found = np.zeros((model.sizes[j], model.sizes[other]))
    # A share that grows by twice itself grows from 0.
    found[: len(mass)] = np.clip(step / np.maximum(shares, TINY), -2.0, 2.0)
    return found


def correlation(model: TableModel, a: int, b: int) -> Floats:
    """Return the correlation by ranks of a and b inside each cell of a, by what neighbours tell.

    The median of b changes from cell to cell of a by a step that neighbours tell, and b has
    quartiles in the cell. If a is even in its cell and b the step times a plus normal errors, with
    x = step / (distance of the quartiles), the correlation is about 0.389 x = x 1.349 / sqrt(12);
    it is 1 at x = 2, where steps alone make the quartiles.
    """
    n = model.sizes[a] - model.schema.missing(a)
    table = np.maximum(model.table((a, b)), 0.0)[:n]
    mass = table.sum(axis=1) + TINY
    ends = np.concatenate([[0.0], np.cumsum(np.maximum(model.table((b,)), 0.0))])
    curves = np.concatenate([np.zeros((n, 1)), np.cumsum(table, axis=1)], axis=1) / mass[:, None]
    low, median, high = np.array([np.interp([0.25, 0.5, 0.75], c, ends) for c in curves]).T
    at = np.cumsum(mass) - mass / 2
    before, after = np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)
    step = mass * (median[after] - median[before]) / np.maximum(at[after] - at[before], TINY)
    spread = np.maximum(high - low, 1e-6)
    x = step / spread
    found = np.zeros(model.sizes[a])
    found[:n] = np.clip(0.389 * x + 0.22 * np.sign(x) * (x / 2) ** 4, -0.99, 0.99)
    return found


def steepness(n_tables: int, rng: np.random.Generator) -> Floats:
    """Return how many times as steep as neighbours tell things are in each table, (1 + n, 1)."""
    coin = rng.random((1 + n_tables, 1)) < CHANCE_OF_JUMP
    coin[0] = False
    return np.where(coin, STEEPER_THAN_NEIGHBOURS, 1.0)


def conditional_shares(model: TableModel, a: int, b: int) -> tuple[Floats, Floats]:
    """Return where each cell of b begins in the rows of a cell of a, and how many it has of them.

    Both have shape (n_cells of a, n_cells of b).
    """
    table = np.maximum(model.table((a, b)), 0.0) + TINY
    share = table / table.sum(axis=1, keepdims=True)
    return np.cumsum(share, axis=1) - share, share


def plackett_quantiles(u: Floats, rank: Floats, odds: Floats) -> Floats:
    """Return quantiles u that go along with a rank, by Plackett's copula of these odds ratios."""
    a = u * (1 - u)
    b = odds + a * (odds - 1) ** 2
    c = 2 * a * (rank * (odds**2 - 1) + 1) + odds * (1 - 2 * a)
    d = np.sqrt(odds * (odds + 4 * a * rank * (1 - rank) * (1 - odds) ** 2))
    return np.clip((c - (1 - 2 * u) * d) / (2 * b), 0.0, 1.0)


_ODDS = np.exp(np.linspace(-12, 12, 400))
with np.errstate(all="ignore"):
    # Spearman's correlation of Plackett's copula (Nelsen, An Introduction to Copulas, ex. 5.20).
    _OF_ODDS = (_ODDS + 1) / (_ODDS - 1) - 2 * _ODDS * np.log(_ODDS) / (_ODDS - 1) ** 2


def odds_ratio(correlation: Floats) -> Floats:
    """Return the odds ratio of Plackett's copula that has a correlation by ranks."""
    return np.exp(np.interp(correlation, _OF_ODDS, np.log(_ODDS)))


def tilted(u: Floats, slope: Floats) -> Floats:
    """Return quantiles under the density ``1 + slope (x - 1/2)`` for even ones."""
    slope = np.clip(slope, -2.0, 2.0)  # at which it is 0 at one end
    first = 1 - slope / 2
    return 2 * u / np.maximum(first + np.sqrt(first**2 + 2 * slope * u), ROUNDING)


def at_quantiles(quantiles: NDArray, cell: Codes, u: Floats) -> NDArray:
    """Return the values of rows at quantiles of their cells.

    Parameters
    ----------
    quantiles : ndarray of shape (n_tables, n_cells, n_steps)
    cell : ndarray of int, shape (n,)
    u : ndarray of shape (n_tables, n)
    """
    n = quantiles.shape[2]
    place = np.minimum((u * n).astype(np.int32), n - 1)
    place += (cell * n).astype(np.int32)
    place += np.arange(len(u), dtype=np.int32)[:, None] * quantiles[0].size
    return quantiles.ravel()[place]


class InsideCells:
    """Where in the common cells of several columns rows lie, in the model and in each table.

    Parameters
    ----------
    model : TableModel
    places : sequence of Places
        Of each column.
    code : sequence of ndarray of int, shape (n,)
        The cell of each row, for each column. Rows of one unit follow one another.
    m : int
        Rows of a unit.
    n_tables : int
    rng : Generator
    """

    def __init__(
        self,
        model: TableModel,
        places: Sequence[Places],
        code: Sequence[Codes],
        m: int,
        n_tables: int,
        rng: np.random.Generator,
    ):
        self._model, self._places, self._code, self._m = model, places, code, m
        self._n_tables, self._rng = n_tables, rng
        self.loose = [k for k, one in enumerate(places) if not one.is_exact]
        n, n_units = len(self.loose), len(code[0]) // m
        drawn = rng.random((n, n_tables, n_units))
        shifts = np.concatenate([even_shifts(n, n_units), drawn], axis=1)
        # A value is one of few quantiles of its cell: half of the digits tell which.
        self._shifts = shifts.astype(np.float32)
        # What neighbours tell of a pair that nobody counted is a part of its interaction.
        told = [
            (a, b)
            for a, b in combinations(self.loose, 2)
            if model.counts_together((places[a].j, places[b].j))
        ]
        self._pairs = [self._pair(a, b) for a, b in told]
        others = [k for k in range(len(places)) if k not in self.loose]
        self._slopes = {k: self._slope(k, others) for k in self.loose if others}

    def values(self) -> dict[int, NDArray]:
        """Return the values of the columns whose cells hold several, (1 + n_tables, n) each."""
        if not self.loose:
            return {}
        shape = (1 + self._n_tables, len(self._code[0]))
        found = {k: np.empty(shape) for k in self.loose}
        # So few tables at once that all that is computed of them stays in the processor's cache.
        step = max(2**15 // shape[1], 1)
        for start in range(0, shape[0], step):
            block = slice(start, start + step)
            for k, u in self._quantiles(block).items():
                quantiles = self._places[k].quantiles[block]
                found[k][block] = at_quantiles(quantiles, self._code[k], u)
        return found

    def _quantiles(self, block: slice) -> dict[int, Floats]:
        """Return at which quantiles of their cells the rows of some tables lie."""
        u = dict(zip(self.loose, lattice(self._m, self._shifts[:, block]), strict=True))
        for a, b, of_a, of_b in self._pairs:
            between = u[a] + u[b]  # even, and independent of either
            between -= between >= 1.0
            u[b] = self._coupled(b, of_b, u[b], between, block)
            u[a] = self._coupled(a, of_a, u[a], self._ranks(u[b]), block)
        for k, (slope, steeper) in self._slopes.items():
            u[k] = tilted(u[k], slope * steeper[block])
        return u

    def _coupled(self, k: int, how: tuple, u: Floats, other: Floats, block: slice) -> Floats:
        """Return quantiles that go along with those of another column in the same unit."""
        odds, start, share = how
        return plackett_quantiles(u, start + share * other, np.take(odds[block], self._code[k], 1))

    def _ranks(self, u: Floats) -> Floats:
        """Return where in its unit each row is by its quantile, from 0 to 1."""
        order = np.argsort(u.reshape(len(u), -1, self._m), axis=2)
        found, ranks = np.empty_like(u), (np.arange(self._m, dtype=u.dtype) + 0.5) / self._m
        np.put_along_axis(found.reshape(order.shape), order, ranks[None, None], axis=2)
        return found

    def _pair(self, a: int, b: int) -> tuple:
        """Let two numbers go up and down together in their cells, first in those of the latter.

        It is the one of which neighbours tell less.
        """
        i, j = self._places[a].j, self._places[b].j
        told, back = correlation(self._model, i, j), correlation(self._model, j, i)
        of_i, of_j = (np.maximum(self._model.table((one,)), 0.0) for one in (i, j))
        if back**2 @ of_j > told**2 @ of_i:
            a, b, i, j, told, back = b, a, j, i, back, told
        return a, b, self._coupling(told, a, (i, j), b), self._coupling(back, b, (j, i), a)

    def _coupling(self, told: Floats, k: int, pair: Group, other: int) -> tuple:
        z = np.arctanh(told) * steepness(self._n_tables, self._rng)
        start, share = conditional_shares(self._model, *pair)
        cells = self._code[k], self._code[other]
        found = odds_ratio(np.tanh(z)), start[cells], share[cells]
        return tuple(one.astype(np.float32) for one in found)

    def _slope(self, k: int, others: Sequence[int]) -> tuple[NDArray, NDArray]:
        """Return the slopes of rows beside cells of other columns, and how steep each table is."""
        found = np.zeros(len(self._code[k]))
        for other in others:
            told = slopes(self._model, self._places[k].j, self._places[other].j)
            found += told[self._code[k], self._code[other]]
        steep = steepness(self._n_tables, self._rng)
        return found.astype(np.float32), steep.astype(np.float32)
