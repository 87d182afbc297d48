"""Tables in partitions: Dask's arrays and frames, known by what they can do, never imported here.

What travels to a worker is public, but for the key of secret coins; what comes back are sums, rows
that were asked for, or a `Fault`. Rows go from worker to worker where groups are brought together.
A task of ours never raises: Dask would log its arguments, and with them rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .schema._reading import check_columns, validate_table

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
        example = check_columns(estimator, X, schema=schema, reset=reset)
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


def cut_and_joined(
    cut: Callable[..., Any],
    join: Callable[..., Any],
    parts: Sequence[Any],
    shared: Any,
    own: Sequence[Any],
    n_cuts: int,
) -> list[Any]:
    """Return ``join(pieces, shared)``, to be computed, of the i-th piece of each partition.

    Parameters
    ----------
    cut, join : callable
        Functions of a module. ``cut(partition, shared, own)`` returns a list of `n_cuts` pieces.
    parts, shared, own :
        As in `on_partitions`.
    n_cuts : int
    """
    cuts = on_partitions(cut, parts, shared, own)
    pieces = [on_partitions(getitem, cuts, i) for i in range(n_cuts)]
    return on_partitions(join, pieces, shared)


def reduced(merge: Callable[..., Any], tasks: Sequence[Any]) -> Any:
    """Return one result for many, merged in order by a tree of tasks, to be computed.

    Parameters
    ----------
    merge : callable
        A function of a module. ``merge(results, None)`` returns one for several.
    tasks : sequence of Delayed
    """
    while len(tasks) > 1:
        groups = [list(tasks[k : k + _WIDTH]) for k in range(0, len(tasks), _WIDTH)]
        tasks = on_partitions(merge, groups, None)
    return tasks[0]


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
