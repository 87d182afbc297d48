"""Functions of rows that users write: on which columns they depend, and what they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import compress
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._computing import Floats
from .._numbers import FEWEST_POINTS, MOST_TABLE_CELLS, N_POINTS, Group
from ..inferring._table_model import TableModel
from ..plausible._rows import NamedRows, Rows, check_each_row, values_at
from ._warnings import warn_of_constants


class AskedFunction:
    """A function of rows, of which each row has one number or several.

    Parameters
    ----------
    function : callable
    plausible : PlausibleTables or PlausiblePoints
    is_condition : bool, default=False
        Whether only numbers from 0 to 1 are a mean's.

    Attributes
    ----------
    shape : tuple of int
        () for one number, (k,) for several.
    parts : list of (ndarray of int, tuple of int)
        Outputs, and the columns that these depend on.

    Raises
    ------
    ValueError
        If a row's value changes with the other rows, or is no finite number.
    """

    def __init__(
        self, function: Callable[[Any], ArrayLike], plausible: Any, *, is_condition: bool = False
    ):
        self._plausible = plausible
        self.function = partial(_truths, function) if is_condition else function
        few = plausible.some_rows(256)
        found = check_each_row(self.function, few)
        self.shape: tuple[int, ...] = found.shape[1:]
        self.n_outputs = prod(self.shape)
        self.is_condition = found.dtype == bool
        self.parts = self._parts(tuple(sorted(few.taken)))

    @property
    def columns(self) -> Group:
        """All columns that some output depends on."""
        return tuple(sorted({j for _, columns in self.parts for j in columns}))

    def at(self, rows: Rows, outputs: Sequence[int] | NDArray | slice = slice(None)) -> Floats:
        """Return values at rows of each table, shape (1 or 1 + B, n, k)."""
        return rows.ask(lambda one: values_at(self.function, one)[:, outputs])

    def _parts(self, taken: Group) -> list[tuple[NDArray, Group]]:
        outputs, model = np.arange(self.n_outputs), self._plausible.model
        if model is None or not taken:
            return [(outputs, taken or (0,))]
        # A column that was asked for by itself matters, though only rare values of it may.
        few = len(taken) <= 3 and model.n_units(taken) <= N_POINTS
        if few and len(taken) < model.schema.n_columns:
            return [(outputs, taken)]
        return _depends(self.function, model, taken)

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Between what two numbers the values of each output lie, at rows of all kinds."""
        low, high = np.full((2, self.n_outputs), [[np.inf], [-np.inf]])
        anywhere = values_at(self.function, self._plausible.rows_anywhere(N_POINTS))
        for outputs, columns in self.parts:
            seen = self.at(self._plausible.rows(columns, "model"), outputs)[0]
            both = np.concatenate([seen, anywhere[:, outputs]])
            low[outputs], high[outputs] = np.nanmin(both, axis=0), np.nanmax(both, axis=0)
        return low, high

    def constants(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which outputs of a condition may never change, and which never do; and warn.

        It is certain where the columns have few values, so that all rows could be asked that the
        schema allows.
        """
        low, high = self.extremes
        constant = (low == high) & np.isin(low, (0, 1))
        certain = np.zeros(self.n_outputs, np.bool_)
        for outputs, columns in self.parts:
            if not constant[outputs].any():
                continue
            rows = self._plausible.all_rows(columns, most=MOST_TABLE_CELLS)
            if rows is not None:
                values = values_at(self.function, rows)[:, outputs]
                certain[outputs] = constant[outputs] & np.all(values == values[:1], axis=0)
        unseen = constant & ~certain
        warn_of_constants(low, unseen, certain)
        return unseen, certain


def _truths(query: Callable[[Any], ArrayLike], rows: Any) -> NDArray:
    """Return what a condition says of rows; raise where it is none."""
    found = np.asarray(query(rows))
    if found.dtype != bool and not np.all((found >= 0) & (found <= 1)):
        raise ValueError(
            "count takes a condition, such as rows['age'] > 40, and this query returns "
            "other numbers than 0 to 1. For the mean of a number, use `estimate`."
        )
    return found


def _depends(
    function: Callable, model: TableModel, columns: Group
) -> list[tuple[NDArray[np.int64], Group]]:
    """Return the outputs of a function, and the columns that these depend on.

    It is asked of rows from anywhere, and of these with other values of one column. An output that
    hardly any of them change is asked of those few again and again; of none, it may depend on all.
    """
    rng = np.random.default_rng(0)
    known = {j: model.cells[j].anywhere(N_POINTS, rng) for j in range(model.schema.n_columns)}

    def at(values: dict[int, NDArray]) -> Floats:
        return values_at(function, NamedRows(model.schema, N_POINTS, values.__getitem__))

    def with_others(rows: NDArray | slice) -> tuple[Floats, NDArray[np.bool_]]:
        own = {j: values[rows] for j, values in known.items()}
        base, changed = at(own), []
        for j in columns:
            other = at(own | {j: model.cells[j].anywhere(N_POINTS, rng)})
            changed.append(~np.all((base == other) | (np.isnan(base) & np.isnan(other)), axis=0))
        return base, np.column_stack(changed)

    base, changed = with_others(slice(None))
    known_values = np.nan_to_num(base)
    unusual = known_values != np.median(known_values, axis=0)
    for k in np.flatnonzero(np.count_nonzero(unusual, axis=0) < FEWEST_POINTS).tolist():
        rows = np.flatnonzero(unusual[:, k])
        changed[k] = with_others(np.resize(rows, N_POINTS))[1][k] if len(rows) else True
    found = dict[Group, list[int]]()
    for k, of in enumerate(changed):
        group = tuple(compress(columns, of)) or columns[:1]
        found.setdefault(group, []).append(k)
    return [(np.array(which), group) for group, which in found.items()]
