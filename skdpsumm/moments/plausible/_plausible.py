"""Plausible tables: tables that one release may have come from, drawn jointly.

Whatever is asked is a statistic of rows and weights. `PlausibleTables.rows` has these for the model
of the release, and for each of B tables that are as plausible: a question is asked of each, and its
interval is where the answers lie. Three priors say what a release does not tell, each in its file:
what noise has done to counts (`_noise.py`), how columns go together that nobody counted together
(`_interactions.py`), and where in their cells rows lie (`_places.py`).

Nothing in a plausible table is clipped: its counts may be negative, as unbiased counts are. Only
answers are moved to what is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..._computing import TINY, Codes, Floats, Kept
from ..._linear_systems import Design
from ...sketches._graphical import subsets
from ...sketches._private_sketch import most_rows_of_a_unit
from ...sketches._rounding import RAKING_SWEEPS, calibrated, projected, raked
from .._numbers import (
    FEWEST_IN_CELL,
    FEWEST_POINTS,
    MOST_KEPT,
    N_POINTS,
    N_TABLES,
    ROUNDING,
    ROWS_OF_MODEL,
    ROWS_OF_TABLE,
    Group,
)
from ..inferring._table_model import TableModel, places_of_rows, table_of_places
from ._interactions import Interactions
from ._noise import RedrawnCounts, generator, other_people
from ._places import InsideCells, Places, at_quantiles
from ._rows import NamedRows, Rows

Meets = Callable[[Rows], NDArray[np.bool_]]
# The cell of each point in a group, and the counts of these cells in all tables.
Cells = tuple[NDArray[np.int64], Floats]
NOISE, UNCOUNTED, PLACES, SAMPLING = "noise", "uncounted", "places", "sampling"
# In what plausible tables differ, by what an interval covers.
PRIORS = {
    "model": (),
    "noise": (NOISE,),
    "uncounted": (UNCOUNTED,),
    "places": (PLACES,),
    "table": (NOISE, UNCOUNTED, PLACES),
    "sampling": (SAMPLING,),
    "population": (NOISE, UNCOUNTED, PLACES, SAMPLING),
}


class PlausibleTables:
    """What a release's histograms tell of a table: the model, and B tables that are as plausible.

    Parameters
    ----------
    model : TableModel

    Attributes
    ----------
    n_rows : float
        Private number of rows.
    draws : str
        What all that is drawn hangs on: engines with the same draw the same.
    interactions : Interactions
        How columns may go together that nobody counted together.
    redrawn : RedrawnCounts
        What the noise of counts may have been.
    """

    def __init__(self, model: TableModel):
        self.model, self.schema, self.sketch = model, model.schema, model.sketch
        self.n_rows, self.draws = model.n_rows, model.sketch.key
        self.interactions, self.redrawn = Interactions(model), RedrawnCounts(model)
        self._tables = {covers: DrawnTables(self, priors) for covers, priors in PRIORS.items()}
        self._anywhere = Kept(MOST_KEPT)

    def __reduce__(self) -> tuple:
        # Tables take much room, and come out the same when they are asked again.
        return PlausibleTables, (self.model,)

    @cached_property
    def points(self) -> tuple[Codes, Floats]:
        """The cells of points of the model, and their weights: rows of the table."""
        codes = self.model.model.rounded(N_POINTS, generator(self.draws, "codes"))
        return codes, self.model.model.rake(codes) * self.model.n_rows

    @cached_property
    def more_points(self) -> Codes:
        """The cells of more points, as many as the model has rows with those."""
        rng = generator(self.draws, "more codes")
        return self.model.model.rounded(ROWS_OF_MODEL - N_POINTS, rng)

    def inside(self, columns: Group, codes: Codes) -> Codes:
        """Return at which places of their cells points lie (`places_of_rows`), in all tables."""
        key, rng = (columns, hash(codes.tobytes())), generator(self.draws, "in", columns)
        return self._anywhere.get(key, lambda: places_of_rows(self.model, codes, columns, rng))

    def products(self, a: int, b: int, of_a: Floats, of_b: Floats) -> Floats:
        """Return mean products of two columns in their cells, from the values of their places."""
        find, table = partial(table_of_places, self.model, a, b), None
        if self.model.counts_together((a, b)):
            table = self._anywhere.get(("places", a, b), find)
        if table is None:  # inside their cells the two are independent
            return np.outer(of_a.mean(axis=1), of_b.mean(axis=1))
        found = np.einsum("ipjq,ip,jq->ij", table, of_a, of_b, optimize=True)
        return found / table.sum(axis=(1, 3))

    def rows(
        self,
        columns: Sequence[int],
        covers: Any = "table",
        meets: Meets | None = None,
        *,
        empty: bool = True,
    ) -> Rows:
        """Return rows for questions about some columns, and their weights.

        Parameters
        ----------
        columns : sequence of int
        covers : {"table", "model", "noise", "uncounted", "places", "sampling", "population"}
            What plausible tables differ in: all priors, which is the default; nothing, so that
            there are none; one of the priors; which rows a population happened to have; or all
            priors and that. Another release's engine is asked itself, for which rows a population
            happened to have.
        meets : callable, default=None
            Takes rows and returns which meet the conditions that are asked for, (n, k). Where few
            points meet one, more are drawn for it.
        empty : bool, default=True
            Whether points of four columns and more stand in cells that the model has empty, too.
            Totals need them. They pull at a fit from far away: with them coefficients had intervals
            three times as wide at epsilon 0.3.

        Returns
        -------
        Rows
        """
        if not isinstance(covers, str):
            return covers.rows(columns, SAMPLING, meets)
        return self.tables_of(covers).rows(columns, meets, empty=empty)

    def tables_of(self, covers: str) -> DrawnTables:
        """Return the tables that an interval covers; what they draw is kept."""
        return self._tables[covers]

    def apart(self, columns: Sequence[int]) -> dict[tuple[int, int], float]:
        """Return the model's covariances of all pairs of numbers that nobody counted together.

        Inside their common cells the rows of such a pair are independent. So the covariance is that
        of the means of the cells, which all pairs share.
        """
        together = [m.columns for m in self.model.marginals]
        together += [tuple(j for j, _ in ruled) for ruled in self.schema.impossible]
        known = {pair for group in together for pair in combinations(sorted(group), 2)}
        pairs = [pair for pair in combinations(columns, 2) if pair not in known]
        each = {j: self.tables_of("model").places(j).means() for j in columns}
        means = {j: np.stack([there, own.mean(axis=1)]) for j, (there, own) in each.items()}
        found = {}
        for k, (a, b) in enumerate(pairs):
            self.model.model.ahead(islice(pairs, k, None))
            moments = means[a] @ self.model.table((a, b)) @ means[b].T
            (_, of_b), (of_a, both) = moments / max(moments[0, 0], TINY)
            found[a, b] = float(both - of_a * of_b)
        return found

    def some_rows(self, n: int) -> NamedRows:
        """Return rows to try a function on."""

        def column(j: int) -> NDArray:  # which is asked for again and again
            return self._anywhere.get(("some", j, n), lambda: self.model.some_values(j, n))

        return NamedRows(self.schema, n, column)

    def rows_anywhere(self, n: int) -> NamedRows:
        """Return rows whatever is likely, those at ends of cells and of ranges among them."""

        def column(j: int) -> NDArray:
            rng = np.random.default_rng(j)
            return self._anywhere.get((j, n), lambda: self.model.cells[j].anywhere(n, rng))

        return NamedRows(self.schema, n, column)

    def all_rows(self, columns: Sequence[int], most: int) -> Rows | None:
        """Return all rows of some columns, or None where these are more than `most`.

        Those that the schema rules out have no weight.
        """
        values = [self.model.cells[j].all_values() for j in columns]
        sizes = [most + 1 if one is None else len(one) for one in values]
        if math.prod(sizes) > most:
            return None
        grid = np.meshgrid(*map(np.asarray, values), indexing="ij")
        known = {j: one.ravel() for j, one in zip(columns, grid, strict=True)}
        rows = Rows(self.schema, known, np.ones((1, math.prod(sizes))), self.model.some_values)
        return rows.where(self.model.schema.allows(known))


class DrawnTables:
    """The model of a release, and tables that differ from it in what some priors leave open.

    Parameters
    ----------
    engine : PlausibleTables
        What it has drawn once serves all of its tables.
    priors : sequence of {"noise", "uncounted", "places", "sampling"}
        Of none there is the model alone.
    """

    def __init__(self, engine: PlausibleTables, priors: Sequence[str]):
        self._engine, self.model, self.priors = engine, engine.model, frozenset(priors)
        self.n_tables = N_TABLES if self.priors else 0
        # How many tables differ in where rows lie.
        self._n_moved = self.n_tables if PLACES in self.priors else 0
        self._kept, self._rows = Kept(MOST_KEPT), Kept(MOST_KEPT)

    def _stream(self, *use: object) -> np.random.Generator:
        return generator(self.model.sketch.key, *use)

    # ---- how many rows are in each cell

    def counts(self, columns: Sequence[int]) -> Floats:
        """Return the rows in each cell of some columns, shape (1 + n_tables, *sizes).

        By the model first, where no cell is negative.
        """
        ordered = tuple(sorted(columns))
        found = self._kept.get(("counts", ordered), lambda: self._tables(ordered))
        return np.transpose(found, [0, *(ordered.index(a) + 1 for a in columns)])

    def _tables(self, group: Group) -> Floats:
        own = np.maximum(self.model.table(group), 0.0) * self.model.n_rows
        if not self.n_tables:
            return own[None]
        covers = self.model.model.residuals.covers
        # Where the number of rows is public, all tables are scaled to it at last.
        is_free = {NOISE} < self.priors <= {*PRIORS["table"]} and self.model.sketch.n_noise_std
        if is_free:  # then tables are those of the noise, and what is added to these
            drawn = self._engine.tables_of("noise").counts(group)[1:]
        elif covers(group):
            counts = self.model.model.residuals.marginal(group)[None]
            drawn = self._engine.redrawn.table(group) if NOISE in self.priors else counts
            drawn = np.repeat(drawn, self.n_tables // len(drawn), axis=0)
            possible = self.model.model.possible(group)
            drawn = np.where(possible, drawn + self._other_people(group), 0.0)
        else:
            drawn = self._uncounted(group, own[None])
        if UNCOUNTED in self.priors:
            for part in (p for p in subsets(group) if len(p) > 1 and not covers(p)):
                drawn = drawn + self.model.n_rows * self._grown(group, part)
        if not self.model.sketch.n_noise_std:  # the number of rows is public
            total = drawn.sum(axis=tuple(range(1, drawn.ndim)), keepdims=True)
            drawn = drawn * (self.model.n_rows / total)
        return np.concatenate([own[None], drawn])

    def _other_people(self, group: Group) -> Any:
        """Return by how much tables of other people differ, in the cells of some columns.

        It is a bootstrap of points of the model (`other_people`). So it is one draw for all
        columns, and hangs on the rows of the table and not of the points.
        """
        if SAMPLING not in self.priors:
            return 0.0
        codes, base = self._engine.points
        sizes = [self.model.sizes[a] for a in group]
        place = np.ravel_multi_index([codes[:, a] for a in group], sizes)
        n_cells = math.prod(sizes)
        found = [np.bincount(place, one, n_cells) for one in self._of_points(self._people, base)]
        return np.reshape(found, (self.n_tables, *sizes))

    def _of_points(self, draw: Callable[..., Floats], base: Floats, *use: object) -> Floats:
        """Return what is drawn for points; kept for those that all questions share."""
        # Points that are there for a use of their own are others for each condition.
        return draw(base, *use) if use else self._kept.get(draw.__name__, lambda: draw(base))

    def _people(self, own: Floats, *use: object) -> Floats:
        """Return by how much weights of points differ in tables of other people."""
        stream = self._stream("people", *use)
        return other_people(own, self.model.sketch.privacy, stream, self.n_tables)

    def _uncounted(self, group: Group, own: Floats) -> Floats:
        """Return the model's cells, moved to what their counted parts are."""
        covers = self.model.model.residuals.covers
        told = [g for g in subsets(group) if 0 < len(g) < len(group) and covers(g)]
        told = [g for g in told if not any(set(g) < set(other) for other in told)]
        drawn = np.repeat(own, self.n_tables, axis=0) + self._other_people(group)
        for _ in range(1 if all(len(g) == 1 for g in told) else RAKING_SWEEPS):
            for g in told:  # in proportion to the model's
                outside = tuple(k for k, a in enumerate(group, 1) if a not in g)
                whole = own.sum(axis=outside, keepdims=True)
                shares = np.divide(own, whole, out=np.zeros_like(own), where=whole > 0)
                counts = self.counts(g)[1:].reshape(-1, *whole.shape[1:])
                drawn += (counts - drawn.sum(axis=outside, keepdims=True)) * shares
        return drawn

    def _grown(self, group: Group, part: Group) -> Floats:
        """Return the interaction of a part of a group in all of its cells, in shares of rows."""
        draw = partial(self._engine.interactions.drawn, part, self.n_tables, self._stream)
        found = self._kept.get(("interaction", part), draw)
        for k, a in enumerate(group):
            if a not in part:
                margin = np.maximum(self.model.table((a,)), 0.0)
                found = np.moveaxis(found[..., None] * margin, -1, k + 1)
        return found

    # ---- rows of these cells

    def places(self, j: int) -> Places:
        """Return where in their cells the rows of a column may lie."""
        if self.priors and not self._n_moved:
            return self._engine.tables_of("model").places(j)
        how = self.model, j, self._n_moved, partial(self._stream, "places", j)
        return self._kept.get(("places", j), lambda: Places(*how, self.counts((j,))))

    def rows(
        self, columns: Sequence[int], meets: Meets | None = None, *, empty: bool = True
    ) -> Rows:
        """Return rows for questions about some columns, and their weights in each table.

        Up to three columns have rows that fill all of their cells; more have points of the model.
        """
        columns = tuple(sorted(columns))
        if len(columns) == 1:
            return self._rows.get(columns, lambda: self._rows_of_one(columns[0]))
        if len(columns) <= 3 and self.model.n_units(columns) <= N_POINTS:
            return self._rows.get(columns, lambda: self._joint(columns))
        points = partial(self._rows_of_points, columns, *self._engine.points, empty=empty)
        found = self._rows.get(columns, points) if empty else points()
        if meets is None:
            return found
        pool = found.first(1)
        few = np.flatnonzero(np.count_nonzero(meets(pool), axis=0) < FEWEST_POINTS)
        if not len(few):
            return found
        return self._about(columns, lambda rows: np.any(meets(rows)[:, few], axis=1), pool)

    def _made(self, values: dict[int, NDArray], weights: Floats, **how: Any) -> Rows:
        return Rows(self.model.schema, values, weights, self.model.some_values, **how)

    def _rows_of_one(self, j: int) -> Rows:
        places = self.places(j)
        counts = self.counts((j,))
        weights = self._by_chance(counts[:, places.cell] * places.weights, places.cell, (j,))
        follow = self._following(weights, weights[0], [(places.cell, counts)], [])
        return self._made({j: places.values()}, weights, **follow)

    def _following(
        self, weights: Floats, base: Floats, margins: list[Cells], cells: list[Cells]
    ) -> dict[str, Any]:
        """Return what rows keep where weights are not negative, as `Rows` takes it."""
        # Counts of single columns have less noise than others, and are met last.
        how = partial(self._raked, weights, base, [*cells, *margins * RAKING_SWEEPS])
        return {"raked": how, "places": [p for p, _ in margins + cells], "n_margins": len(margins)}

    def _joint(self, columns: Group) -> Rows:
        units = [self._units(j) for j in columns]
        table = self.counts(columns)
        for k, (cell, share) in enumerate(units):
            if share is not None:
                shape = [len(share)] + [len(cell) if a == k else 1 for a in range(len(columns))]
                table = np.take(table, cell, axis=k + 1) * share.reshape(shape)
        sizes, n_units = table.shape[1:], math.prod(table.shape[1:])
        places = [self.places(j) for j in columns]
        m = 1
        if not all(one.column.is_exact for one in places):
            n_rows = ROWS_OF_TABLE if self.n_tables else ROWS_OF_MODEL
            m = 2 ** int(math.log2(max(n_rows / n_units, FEWEST_IN_CELL)))
        unit = np.repeat(np.arange(n_units), m)
        of_unit = np.unravel_index(unit, sizes)
        code = [cell[of_unit[k]] for k, (cell, _) in enumerate(units)]
        values = {
            j: self.model.cells[j].values(of_unit[k], np.full(len(unit), 0.5))
            for k, j in enumerate(columns)
            if places[k].column.is_exact
        }
        rng = self._stream("joint", columns)
        inside = InsideCells(self.model, places, code, m, self._n_moved, rng, self.counts)
        values |= {columns[k]: found for k, found in inside.values().items()}
        weights = np.repeat(table.reshape(1 + self.n_tables, n_units), m, axis=1)
        weights *= self._shares_of_rows(values, m)
        weights = self._by_chance(weights, unit, columns)
        words = {j: of_unit[k] for k, j in enumerate(columns) if self.model.cells[j].edges is None}
        others = [tuple(a + 1 for a in range(len(columns)) if a != k) for k in range(len(columns))]
        margins = [(of_unit[k], table.sum(axis=axes)) for k, axes in enumerate(others)]
        cells = [(unit, table.reshape(1 + self.n_tables, n_units))]
        follow = self._following(weights, weights[0], margins, cells)
        return self._made(values, weights, atoms=words, **follow)

    def _shares_of_rows(self, values: Mapping[int, NDArray], m: int) -> Floats:
        """Return the share of each row in its unit of m rows: none of rows that are ruled out."""
        found = self.model.schema.allows(values).astype(np.float64)
        if found.size == 1:
            return found / m
        possible = found.reshape(len(found), -1, m)
        possible /= np.maximum(possible.sum(axis=2, keepdims=True), 1.0)
        return possible.reshape(len(found), -1)

    def _units(self, j: int) -> tuple[NDArray[np.int64], Floats | None]:
        """Return the cell of each unit of a column, and its share of the cell's rows or None.

        Units are the cells of numbers, and categories one by one.
        """
        column = self.model.cells[j]
        if column.edges is not None or column.n_atoms == column.n_cells:
            return np.arange(column.n_cells), None
        return column.cell_of_atom, self.places(j).atom_shares()

    # ---- points, of more columns

    def _about(self, columns: Group, meets: Meets, pool: Rows) -> Rows:
        """Return points of which many meet a condition that hardly one of the pool meets.

        More are drawn from the model, and from anywhere that the schema allows, as one row of the
        table may be anywhere: so what noise says of a cell that the model has empty is heard.
        """
        codes, base = self._engine.points
        rng, n = self._stream("about", columns), len(codes)
        more = self._engine.more_points
        more = more[meets(self._valued(columns, more, rng))]
        anywhere = np.zeros((ROWS_OF_MODEL, codes.shape[1]), np.int64)
        for j in columns:
            anywhere[:, j] = rng.integers(self.model.sizes[j], size=ROWS_OF_MODEL)
        anywhere = self.model.allowed(anywhere)
        found = anywhere[meets(self._valued(columns, anywhere, rng))]
        others = found[:n]
        one_row = len(found) / max(len(anywhere) * len(others), 1)
        rare = base.sum() / ROWS_OF_MODEL
        # Points of empty cells come after the first n.
        own = np.where(meets(pool)[:n], base * n / ROWS_OF_MODEL, base)
        base = np.concatenate([own, np.full(len(more), rare), np.full(len(others), one_row)])
        whole = np.concatenate([codes, more, others])
        return self._rows_of_points(columns, whole, base, "about", columns)

    def _valued(self, columns: Group, codes: NDArray, rng: np.random.Generator) -> Rows:
        """Return rows of the model in these cells."""
        cells, n = self.model.cells, len(codes)
        values = {j: cells[j].values(*cells[j].at(codes[:, j], rng.random(n))) for j in columns}
        return self._made(values, np.ones((1, n)))

    def _rows_of_points(
        self, columns: Group, codes: NDArray, base: Floats, *use: object, empty: bool = True
    ) -> Rows:
        """Return points in these cells, with weights that follow each table's counts."""
        weights = np.repeat(base[None], 1 + self.n_tables, axis=0)
        if SAMPLING in self.priors:
            weights[1:] += self._of_points(self._people, base, *use)
        if UNCOUNTED in self.priors:
            weights[1:] += self._of_points(self._beyond, base, *use)
        groups = self.model.counted_together(columns)
        more = self._in_empty_cells(groups if empty else [], codes)
        codes, base = np.concatenate([codes, more]), np.append(base, np.full(len(more), ROUNDING))
        weights = np.concatenate([weights, np.zeros((len(weights), len(more)))], axis=1)
        rng, values, words, n = self._stream("points", columns), {}, dict[int, Codes](), len(base)
        inside = self._engine.inside(columns, codes)
        for j in columns:
            places, column, cell = self.places(j), self.model.cells[j], codes[:, j]
            n_places = column.n_places
            if column.is_exact:
                atom, where = column.at(cell, rng.random(n))
                values[j] = column.values(atom, where)
                words |= {j: atom} if column.edges is None else {}
                if column.n_atoms > column.n_cells:
                    shares = places.atom_shares()[:, atom]
                    weights *= shares / np.maximum(shares[:1], TINY)
            else:
                # One table after the other, so that all stays in the processor's cache.
                found = [
                    at_quantiles(q[None], cell, (inside[None, :, j] + rng.random(n)) / n_places)
                    for q in places.quantiles
                ]
                values[j] = np.concatenate(found)
        possible = self.model.schema.allows(values)
        base, weights = base * possible[0], weights * possible
        groups += [p for p in combinations(columns, 2) if p not in groups]
        cells = self.cells_of_points(codes, groups)
        margins = self.cells_of_points(codes, [(j,) for j in columns])
        signed = np.concatenate([weights[:1], self.followed(weights[1:], base, [*cells, *margins])])
        signed = self._with_products(signed, base, columns, codes, inside)
        follow = self._following(weights, base, margins, cells)
        return self._made(values, signed, atoms=words, **follow).where(possible, len(margins))

    def _in_empty_cells(self, groups: Sequence[Group], codes: NDArray) -> NDArray:
        """Return the cells of points, one in each cell of some groups in which none of these is.

        The model has next to nobody where noise took rows away. Without a point there, a table
        would keep the rows that noise added to a long tail, and lose those that it took.
        """
        rng, n = self._stream("empty"), len(codes)
        for g in groups:
            empty = np.ones([self.model.sizes[a] for a in g], np.bool_)
            empty[*codes[:, g].T] = False
            cells = np.argwhere(empty & self.model.model.possible(g))
            more = codes[rng.integers(n, size=len(cells))]
            more[:, g] = cells
            codes = np.concatenate([codes, more])
        return self.model.allowed(codes[n:])

    def cells_of_points(self, codes: NDArray, groups: Sequence[Group]) -> list[Cells]:
        """Return in which cell of each group points are, and that group's counts in all tables."""
        found = []
        for g in [g for g in groups if not any(set(g) < set(other) for other in groups)]:
            place = np.ravel_multi_index(tuple(codes[:, g].T), [self.model.sizes[a] for a in g])
            found.append((place, self.counts(g).reshape(1 + self.n_tables, -1)))
        return found

    def followed(self, weights: Floats, base: Floats, cells: Sequence[Cells]) -> Floats:
        """Return weights of points, moved to the counts of some groups in each table.

        They are moved by what is missing in a cell, in proportion to weights `base` there, which
        are not negative: so they stay linear in the counts, and signed as these are.

        Parameters
        ----------
        weights : ndarray of shape (n_tables, n)
        base : ndarray of shape (n,)
        cells : sequence of Cells
        """
        parts, n = [], len(base)
        for place, counts in cells:
            shared = csr_array((base, place, np.arange(n + 1)), (n, counts.shape[1]))
            summed = csr_array((np.ones(n), place, np.arange(n + 1)), shared.shape).T
            whole = np.maximum(summed @ base, TINY)[:, None]
            parts.append((shared, summed, counts[1:].T, whole))
        found = np.empty_like(weights)
        # So few tables at once that they stay in the processor's cache, which is four times faster.
        step = max(2**19 // n, 1)
        for some in (slice(k, k + step) for k in range(0, len(weights), step)):
            moved = weights[some].T.copy()
            for _ in range(RAKING_SWEEPS):
                for shared, summed, counts, whole in parts:
                    moved += shared @ ((counts[:, some] - summed @ moved) / whole)
            found[some] = moved.T
        return found

    def _with_products(
        self, weights: Floats, base: Floats, columns: Group, codes: Codes, inside: Codes
    ) -> Floats:
        """Return weights of points, moved until products of columns are right, by regression [1]_.

        Points can follow no more counts than there are points, and the model may have many pairs
        wrong. So products are set right: their sums are what counts of cells say, and neighbours of
        the places inside these. The model's weights are tilted to its own sums, if some weights
        have these. Those of the tables are moved alike, until they are right on average. Noise
        makes a part of what these miss, and that part is left, as James and Stein do, with each
        product in units of its noise. For each product there are to be enough points to tell it.
        Counts of single cells then differ by a few rows.

        References
        ----------
        .. [1] Särndal, Swensson and Wretman (1992), "Model assisted survey sampling", section 6.4.
        """
        scores = self._scores(columns, base, codes)
        if FEWEST_POINTS * (len(scores) + 1) ** 2 > 2 * len(base):
            return weights
        own = {j: score[codes[:, j], inside[:, j]] for j, score in scores.items()}
        found, goals = [np.ones(len(base))], [self.counts(columns[:1]).sum(axis=1)]
        for j, score in scores.items():
            found += [own[j], own[j] ** 2]
            goals += [self.counts((j,)) @ (score**k).mean(axis=1) for k in (1, 2)]
        for a, b in combinations(scores, 2):
            found.append(own[a] * own[b])
            of_cells = self._engine.products(a, b, scores[a], scores[b])
            goals.append(np.tensordot(self.counts((a, b)), of_cells))
        products, sums = np.array(found), np.array(goals)
        every = Design(np.empty((0, len(base)), int), range(len(sums)), len(sums))
        every = every.with_numbers([*products[:, None]])
        tilted = calibrated(weights[:1], sums.T[:1], every, np.zeros(len(sums)))
        if np.abs(products @ tilted[0] - sums[:, 0]).max() > ROUNDING * sums[0, 0]:
            tilted = weights[:1]  # no weights have these sums
        if not self.n_tables:
            return tilted
        noise, shared = np.var(sums[:, 1:], axis=1), products * base
        miss = np.mean(sums[:, 1:], axis=1) - products @ weights[1:].mean(axis=0)
        noisy = noise > ROUNDING * noise.max()
        surprise = np.sum(miss[noisy] ** 2 / noise[noisy])
        told = max(1 - noisy.sum() / max(surprise, TINY), 0.0)
        # The square of a column of two categories is that column once more.
        move = told * (np.linalg.pinv(shared @ products.T, ROUNDING, True) @ miss) @ shared
        return np.concatenate([tilted, weights[1:] + move])

    def _scores(self, columns: Group, base: Floats, codes: Codes) -> dict[int, Floats]:
        """Return the standardised values of places, (n_cells, n_places), of some columns.

        They are those of numbers, and of columns of two categories after these.
        """
        found, cells = dict[int, Floats](), self.model.cells
        for j in sorted(columns, key=lambda j: cells[j].n_places == 1):
            there, values = np.ones(2), np.arange(2.0)[:, None]
            if cells[j].edges is not None:
                there, values = self._engine.tables_of("model").places(j).means()
            if len(values) == self.model.sizes[j]:
                rows, means = np.bincount(codes[:, j], base, len(values)), values.mean(axis=1)
                values = values - (there * (rows @ means / max(rows @ there, TINY)))[:, None]
                spread = math.sqrt(rows @ (values**2).mean(axis=1) / rows.sum())
                found |= {j: values / spread} if spread > ROUNDING * np.abs(means).max() else {}
        return found

    def _raked(self, weights: Floats, base: Floats, cells: list[Cells], block: slice) -> Floats:
        """Return weights that are not negative and follow the counts of some tables.

        Counts are made those of their projection to the simplex, so that cells of noise alone do
        not add rows.
        """
        goals = [projected(n[block], np.bincount(p, minlength=n.shape[1]) > 0) for p, n in cells]
        return raked(weights[block], [place for place, _ in cells], goals, ROUNDING * base)

    def _beyond(self, base: Floats, *use: object) -> Floats:
        """Return how points go together beyond their pairs: white, in rows of each table."""
        white = self._stream("beyond", *use).standard_normal((self.n_tables, len(base)), np.float32)
        return white * (self._engine.interactions.beyond * np.sqrt(base.sum() * base))

    def _by_chance(self, weights: Floats, cell: NDArray, columns: Group) -> Floats:
        """Let rows of plausible tables fall by chance inside their cells.

        Other people do so by draws of their own, which other releases of the same rows may share.
        """
        units = (PLACES, 1), (SAMPLING, most_rows_of_a_unit(self.model.sketch.privacy))
        alike = [(prior, math.sqrt(n)) for prior, n in units if prior in self.priors]
        falls = [(spread, self._stream("chance", prior, columns)) for prior, spread in alike]
        if not falls:
            return weights
        for own in weights[1:]:
            there, n = np.maximum(own, 0.0), len(own)
            white = sum(spread * rng.standard_normal(n, np.float32) for spread, rng in falls)
            off, whole = np.sqrt(there) * white, np.maximum(np.bincount(cell, there), TINY)
            own += off - there * (np.bincount(cell, off) / whole)[cell]
        return weights
