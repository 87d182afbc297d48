"""Public cells of a column of numbers, and the descent to what stands out of noisy counts."""

import math
from itertools import pairwise

import numpy as np
import pytest

from skdpsumm import Numeric
from skdpsumm.schema._columns import N_VALUES, public_cells

MOST_FINE = 2**15
COLUMNS = [
    *(Numeric(17, 90, step=1), Numeric(0, 127, step=1), Numeric(0, 99_999, step=1)),
    *(Numeric(-5, 1e6, step=1), Numeric(0, 0.7, step=0.1), Numeric(0, 10**13, step=1)),
    *(Numeric(0, 1), Numeric(0, 1000), Numeric(-100, 100)),
    *(Numeric(1e9, 1e9 + 1e-3), Numeric(1e9, np.nextafter(1e9, 2e9)), Numeric(-1e300, 1e300)),
    *(Numeric(-1e-9, 5), Numeric(0, 1e-290)),
]
EVERY_COLUMN = pytest.mark.parametrize("column", COLUMNS, ids=str)


def thresholds_of(column):
    """Return places inside the range, round ones among them, that a schema could name."""
    low, high = column.low, column.high
    parts = column.on_grid(low + (high - low) * np.array([0.1, 0.25, 0.5, 0.77]))
    more = [0.0, 500.0, 14.0, 0.1, math.nextafter(0.3, 1.0)]
    found = {*parts.tolist(), *(more if column.step is None else more[:3])}
    return tuple(sorted(t for t in found if low < t < high))


def descents(column, thresholds=(), n_levels=4, seed=0):
    """Yield cells and the leaves of them, level by level, by counts that make many stand out."""
    rng, cells = np.random.default_rng(seed), public_cells(column, thresholds, 2000)
    yield cells
    for _ in range(n_levels):
        if not cells.are_fine:
            return
        counts = rng.exponential(1.0, len(cells.fine)) ** rng.integers(1, 9) - rng.random()
        cells = cells.leaves(counts, rng.choice([0.0, 0.1]), 2000)
        yield cells


def both_thresholds(column):
    return (), thresholds_of(column)


def place_of(edges, values):
    """Return the cell of each value: its left edge is in it, and the last holds both."""
    return np.searchsorted(edges[1:-1], values, side="right")


def counted(cells, values, std=0.0, rng=None):
    """Return the counts of finer cells, with normal noise."""
    edges = np.array(cells.fine_edges)
    exact = np.bincount(place_of(edges, values), minlength=len(edges) - 1)
    return exact + (rng.normal(0, std, len(exact)) if std else 0.0)


def found_by(column, values, std=0.0, n_levels=4, seed=0):
    """Return the leaves of rows."""
    rng, cells = np.random.default_rng(seed), public_cells(column, (), MOST_FINE)
    for _ in range(n_levels):
        cells = cells.leaves(counted(cells, values, std, rng), std, MOST_FINE)
        if not cells.are_fine:
            break
    return cells


# ------------------------------------------------------------------------- what holds of all


@EVERY_COLUMN
def test_cells_are_nested_in_the_same_bits(column):
    for thresholds in both_thresholds(column):
        for seed in range(3):
            for coarse, fine in pairwise(descents(column, thresholds, seed=seed)):
                assert set(coarse.edges) <= set(fine.edges) <= set(coarse.fine_edges)
                assert set(fine.edges) <= set(fine.fine_edges)


@EVERY_COLUMN
def test_a_point_is_in_its_cell_and_no_other_point_is(column):
    for thresholds in both_thresholds(column):
        for cells in descents(column, thresholds):
            for edges in (cells.edges, cells.fine_edges):
                points, known = cells.points(edges), cells.line.points
                own = [known[ends] for ends in pairwise(edges) if ends in known]
                assert list(points) == own == sorted(set(own))
                place = place_of(np.array(edges), own).tolist()
                assert place == [k for k, ends in enumerate(pairwise(edges)) if ends in known]
                assert not own or column.step is None


@EVERY_COLUMN
def test_there_are_no_more_cells_than_were_said(column):
    """For counts of either sign, which add up to hardly a row, too."""
    few = public_cells(column, thresholds_of(column), MOST_FINE)
    for most_fine in (0, 10, 100, 2000):
        cells = public_cells(column, thresholds_of(column), most_fine)
        assert cells.edges == few.edges
        n_whole = column.n_values if column.n_values and column.n_values <= N_VALUES else 0
        assert len(cells.starts) <= max(n_whole, 128)
        for _ in range(4):
            assert len(cells.fine) <= len(cells.starts) + most_fine
            signs = np.where(np.arange(len(cells.fine)) % 2, 1e6, -1e6)
            before, cells = cells, cells.leaves(signs, 0.0, most_fine)
            assert len(cells.starts) <= len(before.starts) + 2 * before.most_cut_out


# --------------------------------------------------------------------------- where cells begin


ROUND = [
    (Numeric(0, 1), [0.1, 0.7, 0.5, 0.01, 0.05]),
    (Numeric(0, 10), [0.1, 0.02, 3, 5, 7.5]),
    (Numeric(0, 5000), [1000, 20, 2, 800, 1400]),
    (Numeric(-1e6, 1e6), [1000, -1000, 1e5, -5e5, 30_000]),
    (Numeric(0, 2e6), [10, 100, 1000, 1e6, 400_000]),
]


def as_people_compute(values, dtype):
    """Return numbers as they come out of files and sums."""
    values = np.array(values)
    written = values.astype(dtype).astype(np.float64)
    return np.r_[written, values * (1 - 2.0**-52), values * (1 + 2.0**-52)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("column", "values"), ROUND, ids=lambda given: str(given)[:20])
def test_round_values_begin_cells(column, values, dtype):
    """In float32, too, and as sums that round; what is a little less is in another cell."""
    edges = np.array(public_cells(column, (), MOST_FINE).edges)
    own = place_of(edges, values)
    assert np.array_equal(place_of(edges, as_people_compute(values, dtype)), np.tile(own, 3))
    little = np.minimum(np.abs(values), (column.high - column.low) / 32) / 1000
    assert np.array_equal(place_of(edges, values - little), own - 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("column", "heap"),
    [
        *((Numeric(0, 1), 0.7), (Numeric(0, 1), 0.1), (Numeric(0, 1), 0.37)),
        *((Numeric(0, 5000), 1000.0), (Numeric(0, 2e5), 1e5 + 0.1)),
        *((Numeric(1e5, 1e5 + 1), 1e5 + 0.1), (Numeric(0, 2e6), 1234.0), (Numeric(-3, 7), -0.33)),
    ],
    ids=str,
)
def test_a_heap_is_never_halved(column, heap, dtype):
    """Two levels find it; its point is the number as people write it."""
    rng = np.random.default_rng(0)
    heaped = np.repeat(as_people_compute([heap], dtype), 1500)
    heaped = heaped if dtype == np.float64 else heaped[:1500]  # no more digits are alike there
    others = rng.uniform(column.low, column.high, 4000)
    leaves = found_by(column, np.r_[heaped, others], 5.0, n_levels=2)
    edges = np.array(leaves.edges)
    (own,) = set(place_of(edges, heaped))
    assert edges[own + 1] - edges[own] < 1e-3 * (column.high - column.low)
    if dtype == np.float64 and column.low < 1e5 and heap != 1e5 + 0.1 and heap != 1234:
        assert heap in leaves.points(leaves.edges)


# ------------------------------------------------------------------------------- what stands out


@pytest.mark.parametrize("column", [Numeric(0, 1), Numeric(0, 9999, step=1)], ids=str)
@pytest.mark.parametrize("n_rows", [0, 200, 10**5])
@pytest.mark.parametrize("pure", [False, True])
def test_noise_alone_gives_few_leaves(column, n_rows, pure):
    """One in ten tables has one: of 300, more than 48 have with a probability below 0.001."""
    rng, found = np.random.default_rng(0), 0
    cells = public_cells(column, (), MOST_FINE)
    width = np.diff(cells.fine_edges)
    even = n_rows * width / width.sum()
    draw, scale = (rng.laplace, 40 / math.sqrt(2)) if pure else (rng.normal, 40.0)
    for _ in range(300):
        counts = even + draw(0, scale, len(width))
        found += cells.leaves(counts, 40.0, MOST_FINE, pure=pure).edges != cells.edges
    assert found <= 48
