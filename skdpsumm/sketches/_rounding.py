"""Rows whose counts are those of a distribution, as nearly as whole rows can be.

Rows are drawn a column at a time, given the columns before it (its parents). They are sorted by the
parents, and where these agree by all other columns, the latest first. Along them row k takes the
value at quantile ``u_k = (u_0 + k g) mod 1``, with g the golden ratio: each u_k is uniform, and of
any stretch of L rows the counts are off by O(log L), not by sqrt(L) [1]_. So counts given the
parents are nearly exact, and so are those given whatever the order has next.

Counts of a column with others, of which each cell of `tables` says how many it wants, are sums over
many stretches. They are followed as rows are drawn: half of the rows first, then half of the
others, and so on. Each time the probabilities are raked to what the tables still want, from where
the part before left off. What chance does to the first rows, the next set right, also in tables
with columns that are no parents. The last few go one by one to the value that is wanted most.

Weighted rows become whole ones in the same way (`whole_rows`); `calibrated`, `raked` and
`projected` give them weights that are not negative.

It is the rounding of private-pgm [2]_, which takes whole rows of each stretch and draws the rest at
random, with the rest balanced over all tables.

References
----------
.. [1] Kuipers and Niederreiter (1974), "Uniform distribution of sequences", chapter 2.3.
.. [2] McKenna, Sheldon and Miklau (2019), "Graphical-model based estimation and inference for
       differential privacy".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from .._computing import TINY, UNIT, Codes, Floats
from .._linear_systems import Design

Group = tuple[int, ...]

_GOLDEN = (math.sqrt(5) - 1) / 2
# Probabilities of rows that are drawn at once, at most: a megabyte, which a core's cache holds.
_PROBABILITIES_AT_ONCE = 2**17
# Rows that are left for the end, rounds of raking for a part of the rows, and the most by which one
# multiplies a probability. `examples/benchmarks/rounding.py` compares them with others.
_LAST_ROWS, RAKING_SWEEPS, _MOST_STEP = 64, 3, 4.0
# Values that are less likely than this, beside the likeliest, are no choice at the end.
_LEAST_LIKELY = 0.01


class Rounding:
    """Rows in the making.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    n_rows : int
    rng : Generator
    tables : mapping of tuple of int to ndarray
        Probabilities of the cells of groups, that counts of rows are to match.
    known : ndarray of shape (n_rows, k), default=None
        Of the first k columns, if they were drawn before.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, d)
        Of the columns that were drawn.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        n_rows: int,
        rng: np.random.Generator,
        tables: Mapping[Group, Floats],
        known: Codes | None = None,
    ):
        self.codes = np.zeros((n_rows, len(sizes)), np.int64, order="F")
        known = self.codes[:, :0] if known is None else known
        self.codes[:, : known.shape[1]] = known
        self._sizes, self._rng, self.tables = sizes, rng, tables
        self._order, self._drawn = np.arange(n_rows), set(range(known.shape[1]))

    def draw(self, a: int, given: Sequence[int], conditional: Floats) -> None:
        """Draw column `a`, with ``conditional[..., k]`` its probabilities given other columns."""
        place, n_rows = self._place(given), len(self.codes)
        # Another start for each column, so that parts of the rows differ, too.
        order = np.roll(in_order(self._order, place), self._rng.integers(max(n_rows, 1)))
        probabilities, wanted = conditional.reshape(-1, self._sizes[a]), self._wanted(a)
        start, most = self._rng.random(), max(_PROBABILITIES_AT_ONCE // self._sizes[a], 1)
        for k, part in enumerate(_parts(order, most, halved=bool(wanted))):
            likely = np.take(probabilities, place[part], axis=0)
            for table in wanted:
                table.look_at(part)
                table.multiply(likely, table.factor)
            # What a large part misses, those after it set right.
            n_sweeps = 1 if k and 2 * len(part) > most else RAKING_SWEEPS
            for table in wanted * n_sweeps:
                table.rake(likely)
            at_end = wanted and len(part) <= 2 * _LAST_ROWS
            quantiles = evenly(start, len(part))
            found = _most_wanted(likely, wanted) if at_end else _at(likely, quantiles)
            self.codes[part, a] = found
            start += _GOLDEN * len(part)
            for table in wanted:
                table.take(found)
        self._drawn.add(a)
        self._order = in_order(order, self.codes[:, a])

    def _place(self, columns: Sequence[int]) -> Codes:
        """Return the cell of each row in a table of some columns."""
        place = np.zeros(len(self.codes), np.int64)
        for a in columns:
            place = place * self._sizes[a] + self.codes[:, a]
        return place

    def _wanted(self, a: int) -> list[_Wanted]:
        """Return the tables of a column and others that are drawn."""
        found = []
        for group, table in self.tables.items():
            others = [b for b in group if b != a]
            if len(others) < len(group) and self._drawn.issuperset(others):
                counts = np.moveaxis(table, group.index(a), -1) * len(self.codes)
                found.append(_Wanted(counts.reshape(-1, self._sizes[a]), self._place(others)))
        return found


class _Wanted:
    """What a table still wants of the rows that are not drawn yet.

    Parameters
    ----------
    counts : ndarray of shape (n_places, n_values)
    place : ndarray of shape (n_rows,)
        Of each row.

    Attributes
    ----------
    counts : ndarray
        What is wanted of each cell.
    factor : ndarray
        By what all raking so far has multiplied probabilities.
    places : ndarray
        The places of the rows at hand (`look_at`).
    """

    def __init__(self, counts: Floats, place: Codes):
        self.counts, self._place = counts.copy(), place
        self._n_left = np.bincount(place, minlength=len(counts))
        self.factor = np.ones_like(counts)

    def look_at(self, part: Codes) -> None:
        """Turn to some of the rows, which get their share of what is wanted."""
        place, n_places = self._place[part], len(self.counts)
        one_each = np.ones(len(part)), place, np.arange(len(part) + 1)
        self._of_places, self.places = csc_array(one_each, (n_places, len(part))), place
        n_here = np.bincount(place, minlength=n_places)
        self._share = self.counts * (n_here / np.maximum(self._n_left, 1))[:, None]
        self._n_left -= n_here

    def rake(self, likely: Floats) -> None:
        """Multiply their probabilities, in any unit of each row, so that counts fit."""
        self._of_places.data[:] = 1 / np.maximum(likely @ np.ones(likely.shape[1]), TINY)
        # Where both are errors of a fit, their quotient would be anything: it is 1.
        half = math.sqrt(UNIT)
        step = (self._share + half) / (self._of_places @ likely + half)
        step = np.clip(step, 1 / _MOST_STEP, _MOST_STEP)
        # Where no rows have all counts, factors would grow without end.
        most = _MOST_STEP**RAKING_SWEEPS
        self.factor = np.clip(self.factor * step, 1 / most, most)
        self.multiply(likely, step)

    def multiply(self, likely: Floats, step: Floats) -> None:
        """Multiply the probabilities of the rows at hand."""
        likely *= np.take(step, self.places, axis=0)  # which is faster than brackets

    def take(self, values: Codes) -> None:
        """Count what was drawn in these rows."""
        shape = self.counts.shape
        cells = self.places * shape[1] + values
        self.counts -= np.bincount(cells, minlength=self.counts.size).reshape(shape)


def whole_rows(weights: Floats, n_rows: int, places: Sequence[Codes]) -> Codes:
    """Return so many of weighted rows, each as often as its weight says, rounded and not drawn.

    Half of the rows are rounded first, then half of the others, and so on, along their order by
    cells. Each time the weights of those that are left are raked to what cells still want.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        At least 0, and somewhere more.
    n_rows : int
    places : sequence of ndarray of int, shape (n,)
        The cell of each row in each table whose counts are to be kept.
    """
    weights, taken = weights * (n_rows / weights.sum()), np.zeros(len(weights), np.int64)
    wanted = [np.bincount(place, weights) for place in places]
    rows = np.lexsort(places[::-1]) if len(places) else np.arange(len(weights))
    is_left = weights > 0
    rows = rows[is_left[rows]]
    for part in _parts(rows, len(rows), halved=True):
        left = np.flatnonzero(is_left)
        own = weights[left]
        for place, want in [*zip(places, wanted, strict=True)] * RAKING_SWEEPS:
            here = place[left]
            step = want / np.maximum(np.bincount(here, own, len(want)), TINY)
            own *= np.clip(step, 1 / _MOST_STEP, _MOST_STEP)[here]
        weights[left] = own
        ends, n_left = np.cumsum(weights[part]), n_rows - taken.sum()
        n = round(n_left * ends[-1] / own.sum())
        chosen = part[np.searchsorted(ends, (np.arange(n) + 0.5) / max(n, 1) * ends[-1])]
        taken += np.bincount(chosen, minlength=len(taken))
        is_left[part] = False
        for place, want in zip(places, wanted, strict=True):
            want -= np.bincount(place[chosen], minlength=len(want))
    return np.repeat(np.arange(len(taken)), taken)


def counts_in(weights: Floats, place: Codes) -> Floats:
    """Return the sums of weights in each cell, shape (n_tables, n_cells)."""
    return np.array([np.bincount(place, own) for own in weights])


def raked(
    weights: Floats, places: Sequence[Codes], counts: Sequence[Floats], least: Floats | float = 0.0
) -> Floats:
    """Return weights of tables, of which those of each cell are multiplied until they fit.

    It is raking [1]_, three times over all tables of counts.

    Parameters
    ----------
    weights : ndarray of shape (n_tables, n)
    places : sequence of ndarray of int, shape (n,)
        The cell of each row in each table of counts.
    counts : sequence of ndarray of shape (n_tables, n_cells)
    least : ndarray of shape (n,), default=0.0
        What each row weighs at least.

    References
    ----------
    .. [1] Deming and Stephan (1940), "On a least squares adjustment of a sampled frequency table
           when the expected marginal totals are known".
    """
    found = np.maximum(weights, least)
    first, unit = _units(places, found.shape[1])
    whole, kept = counts_in(found, unit), np.bincount(unit, np.broadcast_to(least, unit.shape))
    moved = whole.copy()
    every = [(place[first], goal) for place, goal in zip(places, counts, strict=True)]
    for k, own in enumerate(moved):
        for place, goal in every * RAKING_SWEEPS:
            step = goal[k] / np.maximum(np.bincount(place, own, goal.shape[1]), TINY)
            own *= step[place]
            np.maximum(own, kept, out=own)
    found *= (moved / np.maximum(whole, TINY))[:, unit]
    return np.maximum(found, least, out=found)


def _units(places: Sequence[Codes], n_rows: int) -> tuple[Any, Codes]:
    """Return the first row of each unit, and the unit of each row: these are in the same cells."""
    each, distinct = np.arange(n_rows), {id(place): place for place in places}
    first, unit = each, np.zeros_like(each)
    # Up to three columns have tables of each and of all together; points of more are not alike.
    for place in distinct.values() if len(distinct) <= 4 else ():
        cell = unit * (place.max() + 1) + place
        first, unit = np.unique(cell, return_index=True, return_inverse=True)[1:]
    return (first, unit) if len(first) < n_rows else (slice(None), each)


def calibrated(start: Floats, goal: Floats, functions: Design, cost: Floats) -> Floats:
    """Return weights of some tables that are not negative and have some sums.

    It takes twenty steps of Newton's at most, in which no weight grows more than to exp(4) times
    what it was. Where they do not arrive, the sums may be those of no weights. With costs it is
    ridge calibration [1]_: a sum that is missed by the root of its cost is one standard error off.

    Parameters
    ----------
    start : ndarray of shape (n_tables, n)
        Weights that are tilted.
    goal : ndarray of shape (n_tables, k)
        The sums.
    functions : Design
        What is summed; ones first.
    cost : ndarray of shape (k,)
        What a tilt costs: it misses the sum by itself times this. 0 is for exact sums.

    References
    ----------
    .. [1] Bardsley and Chambers (1984), "Multipurpose estimation from unbalanced samples".
    """
    tilt, weights, tilts = np.zeros_like(start), start.copy(), np.zeros_like(goal)
    largest = math.sqrt(UNIT) * np.maximum(goal[:, 0], TINY)  # half of the digits
    for _ in range(20):
        off = goal - functions.sums(weights) - cost * tilts
        todo = np.flatnonzero(np.max(np.abs(off), axis=1) >= largest)
        if not len(todo):
            break
        some = functions.part(todo)
        curve = some.squares(weights[todo]) + cost * np.eye(goal.shape[1])
        values, vectors = np.linalg.eigh(curve)
        kept = values > 1e-10 * values[:, -1:]
        along = np.where(kept, (off[todo, None] @ vectors)[:, 0], 0.0) / np.where(kept, values, 1.0)
        step = (vectors @ along[..., None])[..., 0]
        moved = some.at(step)
        part = np.minimum(1.0, 4.0 / np.maximum(moved.max(axis=1, keepdims=True), TINY))
        tilt[todo] += moved * part
        tilts[todo] += step * part
        weights[todo] = start[todo] * np.exp(np.minimum(tilt[todo], 700.0))
    return weights


def projected(counts: Floats, possible: NDArray[np.bool_]) -> Floats:
    """Return the nearest counts that are not negative and sum to the same, shape (n_tables, n).

    They are 0 where rows are not possible [1]_.

    References
    ----------
    .. [1] Duchi, Shalev-Shwartz, Singer and Chandra (2008), "Efficient projections onto the l1-ball
       for learning in high dimensions", figure 1.
    """
    found, own = np.zeros_like(counts), counts[:, possible]
    whole = np.maximum(own.sum(axis=1, keepdims=True), TINY)
    ordered = -np.sort(-own, axis=1)
    excess = (np.cumsum(ordered, axis=1) - whole) / np.arange(1, own.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1, keepdims=True) - 1
    found[:, possible] = np.maximum(own - np.take_along_axis(excess, last, axis=1), 0.0)
    return found


def systematic(weights: NDArray, size: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Return indices drawn by their weights, by systematic resampling, which has low variance."""
    return at_quantiles_of(weights, (np.arange(size) + rng.uniform()) / size)


def at_quantiles_of(weights: NDArray, ladder: NDArray) -> NDArray[np.int64]:
    """Return the index at each quantile of the weights."""
    return np.minimum(np.searchsorted(np.cumsum(weights), ladder), len(weights) - 1)


def evenly(start: float, n: int) -> Floats:
    """Return n quantiles in [0, 1), of which any stretch is spread evenly."""
    return np.asarray((start + _GOLDEN * np.arange(n)) % 1, np.float64)


def in_order(order: Codes, keys: Codes) -> Codes:
    """Return an order by keys, and where these agree as before."""
    small = keys.astype(np.min_scalar_type(keys.max(initial=0)))  # such are sorted much faster
    return order[np.argsort(small[order], kind="stable")]


def _parts(rows: Codes, most: int, *, halved: bool) -> Iterator[Codes]:
    """Yield parts of the rows: stretches, or each spread over all and the last in halves."""
    n_parts = max(math.ceil(len(rows) / most), 1)
    if not halved:
        yield from np.array_split(rows, n_parts)
        return
    yield from (rows[k::n_parts] for k in range(n_parts - 1))
    rows = rows[n_parts - 1 :: n_parts]
    while len(rows) > 2 * _LAST_ROWS:
        yield rows[::2]
        rows = rows[1::2]
    yield rows


def _at(likely: Floats, quantiles: Floats) -> Codes:
    """Return the value of each row at its quantile."""
    ends = np.cumsum(likely, axis=1)
    # A quantile that rounds to one would be past the last value that is possible.
    sought = np.minimum(quantiles * ends[:, -1], np.nextafter(ends[:, -1], 0.0))
    found: Codes = (ends[:, :-1] <= sought[:, None]).sum(axis=1)
    return found


def _most_wanted(likely: Floats, wanted: Sequence[_Wanted]) -> Codes:
    """Return the value of each row that its tables together want most, if it is likely enough."""
    found = np.empty(len(likely), np.int64)
    # Ties are ties on any machine, and not broken by errors of a fit.
    left = np.concatenate([table.counts for table in wanted]).round(3)
    starts = np.cumsum([0, *(len(table.counts) for table in wanted[:-1])])
    places = np.stack([table.places for table in wanted], axis=1) + starts
    is_choice = likely >= _LEAST_LIKELY * likely.max(axis=1, keepdims=True)
    unlikely = np.where(is_choice, 0.0, -np.inf)
    for k, of_row in enumerate(places):
        found[k] = (np.add.reduce(left[of_row]) + unlikely[k]).argmax()
        left[of_row, found[k]] -= 1
    return found
