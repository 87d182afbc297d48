"""Tables in partitions: Dask's arrays and frames, known by what they can do, never imported here.

What travels to a worker is public, but for the key of secret coins; what comes back are sums, rows
that were asked for, or a `Fault`. Rows go from worker to worker where groups are brought together.
A task of ours never raises: Dask would log its arguments, and with them rows.

*Sums of phi* are integers from the workers, added once. Groups may lie in several partitions. Their
rows are brought together first: each partition is cut by a hash of the labels, and all pieces of a
cut make a table that holds every row of its groups, in the order of the collection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..features._feature_maps import FeatureMap, engine_signature
from ..schema._groups import Groups, spread
from ..schema._reading import Table, is_dask, validate_table
from ._private_sketch import Counted, sums_of

# Results that one task brings together: the reduction is a tree of this width.
_WIDTH = 32


@dataclass(frozen=True)
class Fault:
    """What is wrong with a partition, in words that hold no value of it."""

    kind: type[Exception]
    message: str


class WorkerError(RuntimeError):
    """What is wrong with a worker. The message holds no value, so that the caller is told it."""


@dataclass(frozen=True)
class PartitionSchema:
    """What is public of a table in partitions, and true of each: none changes it by its own rows.

    Parameters
    ----------
    caller : str
        The class that the messages name.
    n_columns : int
    labels : tuple or None
        Labels of the columns, of frames.
    schema : TableSchema or None
        As in `validate_table`.
    """

    caller: str
    n_columns: int
    labels: tuple[Any, ...] | None
    schema: Any

    @classmethod
    def of(
        cls, estimator: Any, X: Any, *, schema: Any = None, reset: bool = True
    ) -> PartitionSchema:
        """Check what is known of a Dask collection without computing anything.

        Raises
        ------
        ValueError
            As `validate_table` does, and where the number of columns is unknown.
        """
        example = _example(X)
        validate_table(estimator, example, schema=schema, reset=reset, ensure_min_samples=0)
        labels = tuple(example.columns) if hasattr(example, "columns") else None
        name = type(estimator).__name__
        return cls(name, estimator.n_features_in_, labels, schema)

    def check(self, rows: Any) -> NDArray:
        """Return a partition as `validate_table` would return it as a part of the whole table."""
        labels = tuple(rows.columns) if hasattr(rows, "columns") else None
        if labels == self.labels:
            reader = self._stand_in()
            options = {"schema": self.schema, "keep_float32": True, "ensure_min_samples": 0}
            if rows.shape[1] == self.n_columns:
                return validate_table(reader, rows, **options)
        raise ValueError(
            "A partition has different columns than the collection says. Make them alike, with "
            "map_partitions and the right `meta`."
        )

    def check_size(self, n_rows: int) -> None:
        """Raise what one process would raise for a table with so many rows, if that is none."""
        if n_rows == 0:
            validate_table(self._stand_in(), np.empty((0, self.n_columns)))

    def _stand_in(self) -> BaseEstimator:
        """Return what messages name in place of the estimator, which stays where it is."""
        return type(self.caller, (BaseEstimator,), {})()


def _example(X: Any) -> Any:
    """Return a table without rows that has the columns and dtypes of X."""
    if not hasattr(X, "shape") or not hasattr(X, "chunks"):
        return X._meta
    if len(X.shape) == 2 and not math.isfinite(X.shape[1]):
        raise ValueError(
            "The number of columns of X is unknown. Call X.compute_chunk_sizes() first, or give a "
            "Dask frame."
        )
    return np.empty((0, *X.shape[1:]), X.dtype)


def partitions(X: Any) -> list[Any]:
    """Return the partitions of X, each with all columns, as `dask.delayed.Delayed` s."""
    if not hasattr(X, "chunks"):
        return list(X.to_delayed())
    return X.rechunk({1: -1}).to_delayed().ravel().tolist()


def on_partitions(
    task: Callable[..., Any], parts: Sequence[Any], shared: Any, own: Sequence[Any] = ()
) -> list[Any]:
    """Return ``task(partition, shared)``, to be computed, for each partition.

    Parameters
    ----------
    task : callable
        A function of a module. What it raises becomes a `Fault`.
    parts : sequence of Delayed, or of lists of them
    shared : object
        Public; sent once to a worker, not once per task.
    own : sequence, default=()
        A further argument for each partition.
    """
    from dask import delayed

    # Nothing is pure: keys are random, not hashes of content, and no two computations are ever
    # taken for one.
    sent = delayed(shared, pure=False, traverse=False)
    run = delayed(_guarded, pure=False, traverse=False)
    extras = [(item,) for item in own] if len(own) else [()] * len(parts)
    return [run(task, part, sent, *extra) for part, extra in zip(parts, extras, strict=True)]


def compute(tasks: Sequence[Any]) -> list[Any]:
    """Compute tasks by whatever scheduler is set.

    Raises
    ------
    RuntimeError
        If Dask cannot. What was raised in the graph that made the partitions may hold values, so
        its kind alone is told.
    """
    import dask

    kind = None
    try:
        found = dask.compute(*tasks)
    except Exception as error:
        kind = type(error).__name__
    if kind is not None:
        raise RuntimeError(
            f"Dask could not compute the partitions of X ({kind}). Compute X by itself to see why: "
            "this message does not repeat what Dask said, which may hold private values."
        )
    return list(found)


def sound(found: Sequence[Any]) -> Sequence[Any]:
    """Return results of tasks, or raise the first `Fault` among them."""
    for result in found:
        if isinstance(result, Fault):
            raise result.kind(result.message)
    return found


def _guarded(task: Callable[..., Any], rows: Any, shared: Any, *own: Any) -> Any:
    """Run a task on a worker; it never raises. The first fault of pieces is the fault of all."""
    pieces = rows if isinstance(rows, list) else [rows]
    fault = next((piece for piece in pieces if isinstance(piece, Fault)), None)
    try:
        return task(rows, shared, *own) if fault is None else fault
    except Exception as error:
        kind = type(error)
        # Errors of validation hold no value either.
        if kind in (TypeError, ValueError, WorkerError):
            return Fault(RuntimeError if kind is WorkerError else kind, str(error))
        return Fault(
            RuntimeError,
            f"A worker failed on a partition: {kind.__name__}. Compute the partitions by "
            "themselves to see why.",
        )


@dataclass(frozen=True)
class _Plan:
    """All that a worker is told. Public, but for the key."""

    schema: PartitionSchema
    feature_map: FeatureMap
    silent: bool
    # A row must add the same bits whichever worker takes it; the engine decides the last ones.
    engine: str
    limit: Any = None
    key: bytes = field(default=b"", repr=False)
    n_cuts: int = 1


@dataclass(frozen=True, repr=False)
class _Part:
    """What a worker answers. Private: a repr would end up in a log."""

    sums: NDArray
    n_rows: int


@dataclass(frozen=True, repr=False)
class _Piece:
    """Rows of a partition whose groups belong together, and their labels. Private."""

    X: NDArray | Table
    labels: list[Any]


def sum_partitions(
    X: Any,
    schema: PartitionSchema,
    feature_map: FeatureMap,
    *,
    silent: bool,
    by_group: tuple[Any, Any, bytes] | None = None,
) -> tuple[NDArray, int]:
    """Return the sum of phi over all rows of a Dask collection, and their number.

    Integers are added exactly, so it is the sum of one process, bit for bit, whatever the
    partitions are, in whatever order they come and however often a worker dies. (With
    ``silent=True`` they are floats, and equal to rounding.)

    Parameters
    ----------
    by_group : tuple of (groups, limit, key), default=None
        A Dask series or array in the partitions of X, `max_rows_per_group`, and the secret key of
        the coins. The number of rows is then that of `Counted`.

    Raises
    ------
    ValueError, TypeError
        The first fault of a partition, as `validate_table` and `Columns.check` word it.
    RuntimeError
        If Dask fails, or a worker would not compute the same bits as this process.
    """
    parts = partitions(X)
    if by_group is None:
        plan = _Plan(schema, feature_map, silent, engine_signature())
        tasks = on_partitions(_sum, parts, plan)
    else:
        groups, limit, key = by_group
        # There are enough cuts for blocks to be small, and few enough for their square to be.
        n_cuts = min(len(parts), 64)
        plan = _Plan(schema, feature_map, silent, engine_signature(), limit, key, n_cuts)
        labels = _partitions_of(groups, len(parts))
        cuts = on_partitions(_cut, parts, plan, labels)
        pieces = [on_partitions(getitem, cuts, i) for i in range(n_cuts)]
        tasks = on_partitions(_join, pieces, plan)
    # Sums travel to one another and the total alone comes back: parts are exact sums of few rows.
    while len(tasks) > 1:
        tasks = on_partitions(
            _merge, [tasks[k : k + _WIDTH] for k in range(0, len(tasks), _WIDTH)], None
        )
    (total,) = sound(compute(tasks))
    schema.check_size(total.n_rows)
    return total.sums, total.n_rows


def _partitions_of(groups: Any, n_partitions: int) -> list[Any]:
    """Return the partitions of the labels, as many as X has."""
    found = []
    if is_dask(groups) and len(getattr(groups, "shape", (0,))) == 1:
        found = np.ravel(groups.to_delayed()).tolist()
    if len(found) != n_partitions:
        raise ValueError(
            "X is a Dask collection, so groups must be a Dask series or array in the same "
            "partitions, such as another column of the same frame: fit(frame[columns], "
            "groups=frame['person'])."
        )
    return found


def _checked(rows: Any, plan: _Plan) -> NDArray | Table:
    """Return the rows of a partition, checked."""
    if engine_signature() != plan.engine:
        raise WorkerError(
            "A worker uses another engine than the client: install the same skdpsumm and numba on "
            "both, and set SKDPSUMM_ENGINE to the same value, or to 'numpy'."
        )
    X = plan.schema.check(rows)
    # Here and not in the client, which never sees the rows.
    plan.feature_map.check_values(X)
    return X


def _sum(rows: Any, plan: _Plan) -> _Part:
    return _summed(_checked(rows, plan), plan)


def _summed(X: Any, plan: _Plan, groups: Groups | None = None) -> _Part:
    counted = Counted.of(len(X), plan.limit, groups, plan.key)
    sums = sums_of(plan.feature_map, X, counted, silent=plan.silent)
    return _Part(sums, counted.n_units)


def _cut(rows: Any, plan: _Plan, groups: Any) -> list[_Piece]:
    """Cut a partition by its groups."""
    X = _checked(rows, plan)
    found = Groups.read(groups, len(X))
    place = spread(found.labels, plan.n_cuts)[found.codes]
    wanted = [np.flatnonzero(place == i) for i in range(plan.n_cuts)]
    return [_Piece(X[at], [found.labels[code] for code in found.codes[at]]) for at in wanted]


def _join(pieces: list[_Piece], plan: _Plan) -> _Part:
    """Sum phi over groups, all rows of which are in these pieces."""
    X = _joined([piece.X for piece in pieces])
    groups = Groups(list(chain.from_iterable(piece.labels for piece in pieces)))
    return _summed(X, plan, groups)


def _joined(tables: Sequence[Any]) -> Any:
    """Return tables below one another; no dtype that they might share changes a cell."""
    if not isinstance(tables[0], Table):
        # Without a schema there may be float32 beside float64: the wider type holds both.
        floats = all(table.dtype.kind == "f" for table in tables)
        return np.concatenate(tables) if floats else _stacked(tables)
    columns = zip(*(table.columns for table in tables), strict=True)
    return Table([_stacked(column) for column in columns])


def _stacked(columns: Sequence[NDArray]) -> NDArray:
    alike = len({column.dtype for column in columns}) == 1
    return np.concatenate(columns if alike else [column.astype(object) for column in columns])


def _merge(parts: Sequence[_Part], _: None) -> _Part:
    sums = reduce(np.add, [part.sums for part in parts])
    return _Part(sums, sum(part.n_rows for part in parts))
