"""Warnings of answers that may be off by more than their error bars say.

All of them look at the release alone, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._computing import warn_caller
from ...sketches._private_sketch import PrivateSketch
from ._estimate import Estimate


class AnswerWarning(UserWarning):
    """An answer may be off by more than its error bar says; the message says why.

    Parameters
    ----------
    message : str, default=""
        Why, and what to do.
    entries : array-like of int, default=None
        See the attribute.

    Attributes
    ----------
    entries : list of int or None
        Positions in the flattened answer that the warning is about, in increasing order. None is
        for all of the answer, and for warnings about a whole release or model.

    Examples
    --------
    Leave out what you should not rely on:

    >>> import warnings
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsumm import AnswerWarning, HistogramSketcher, M2MEstimator, Numeric, simulation
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(18, 91, 5000), "job": ["clerk"] * 5000})
    >>> people.loc[0, "job"] = "pilot"
    >>> schema = {"age": Numeric(18, 90, step=1), "job": ["clerk", "pilot"]}
    >>> sketcher = HistogramSketcher(schema=schema, marginals=2)
    >>> with simulation(0):  # an example
    ...     m2m = M2MEstimator(release=sketcher, random_state=0).fit(people)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", AnswerWarning)
    ...     answer = m2m.mean("age", by="job")
    >>> caught[0].message.entries
    [1]
    >>> values = np.array(answer)
    >>> values.ravel()[caught[0].message.entries] = np.nan
    >>> values.round()
    array([54., nan])
    """

    __module__ = "skdpsumm.moments"  # from which users import it

    def __init__(self, message: str = "", entries: ArrayLike | None = None):
        super().__init__(message)
        self.entries = None if entries is None else np.asarray(entries, np.int64).tolist()


def warn_of_the_drowned(sketch: PrivateSketch, then: str) -> None:
    """Warn of a sketch that is noise alone, and say what it is then good for."""
    if sketch.is_drowned:
        warn_caller(
            "Use a larger epsilon, more rows or fewer columns: the noise drowns the sketch, which "
            f"cannot tell the number of rows from zero, and {then}.",
            AnswerWarning,
        )


def warn_of_the_lone(sketch: PrivateSketch, columns: Iterable[int], then: str) -> None:
    """Warn of those among some columns that the sketch counts with no other.

    Parameters
    ----------
    sketch : PrivateSketch
    columns : iterable of int
        Those that matter.
    then : str
        What follows.
    """
    lone = sorted(set(sketch.lone_columns).intersection(columns))
    if lone and not sketch.is_drowned:
        names = first_of([repr(sketch.schema.name(j)) for j in lone])
        warn_caller(
            "When you sketch again, name the column as `target` or in `workload` (`marginals` of a "
            "HistogramSketcher), use a larger epsilon, or describe it with fewer categories. The "
            f"sketch counts none of these with another column: {names}. {then}",
            AnswerWarning,
        )


def warn_of_constants(
    truths: NDArray, unseen: NDArray[np.bool_], certain: NDArray[np.bool_]
) -> None:
    """Warn of conditions that hold at all rows that were asked, or at none of them.

    It touches nothing private.

    Parameters
    ----------
    truths : ndarray of shape (k,)
        What they are.
    unseen : ndarray of bool, shape (k,)
        Those of which not all rows were asked that the schema allows.
    certain : ndarray of bool, shape (k,)
        Those of which all were.
    """
    for which, then in ((certain, _CERTAIN), (unseen, _UNSEEN)):
        outputs = np.flatnonzero(which)
        if len(outputs):
            named = "" if len(truths) == 1 else f" (outputs {outputs.tolist()})"
            held = sorted({"everywhere" if truths[k] else "nowhere" for k in outputs})
            message = (
                "Check the spelling of categories and the range of thresholds: the question holds "
                f"{' or '.join(held)} among the rows of the release{named}. {then}"
            )
            warn_caller(AnswerWarning(message, outputs))


_CERTAIN = "The schema allows no other rows."
_UNSEEN = (
    "If they are right, the sketch shows no such rows, or no others, and `interval` reaches from "
    "none to all of them."
)


def warn_of_the_wide(
    sketch: PrivateSketch, found: Estimate, spread: NDArray[np.float64] | float = np.inf
) -> None:
    """Warn of 95% intervals that hold more than half of what is possible, or of a drowned sketch.

    Parameters
    ----------
    sketch : PrivateSketch
    found : Estimate
    spread : ndarray or float, default=np.inf
        How wide intervals may be besides: of a mean, two standard deviations of the column.
    """
    spread = np.broadcast_to(spread, found.shape).ravel()
    width = np.diff(found._interval(0.95, "table"), axis=-1).ravel()
    is_open, is_spread = found._part_of_possible(width) > 0.5, width > spread
    wide = np.flatnonzero(is_open | is_spread)
    if len(wide):
        names = _entries(found)
        about = list(dict.fromkeys(names[k] for k in wide))
        limit = "half of what is possible"
        limit += ", or than two standard deviations of the column" * bool(is_spread.any())
        message = (
            f"Do not rely on {first_of(about)}: an interval is wider than {limit}. When you "
            "sketch again, use a larger epsilon or fewer columns, count columns together that you "
            "ask together (`workload` or `marginals`), and give `step` or `edges` in the schema."
        )
        warn_caller(AnswerWarning(message, wide))
    else:  # noise may drown what tells how wide an interval is, too
        warn_of_the_drowned(sketch, "this answer tells next to nothing")


def warn_of_the_clipped(
    plausible: Any, found: Estimate, which: Sequence[int], slope: float
) -> None:
    """Warn of columns of which many rows lie at an end of the range, as clipped values do.

    They matter if the answer lies there, or would move by more than its error without the clipping.
    Of 0, where many columns end by nature, it says nothing.

    Parameters
    ----------
    plausible : PlausibleTables or PlausiblePoints
    found : Estimate
        Its last axis, if it has several, is that of the columns.
    which : sequence of int
    slope : float
        By how much the answer moves where the mean of the column moves by 1.
    """
    if plausible.model is None:
        return
    both = (found._value, found._shown_error())
    values, errors = (np.reshape(one, (-1, len(which))).T for one in both)
    for j, value, error in zip(which, values, errors, strict=True):
        places, column = plausible.tables_of("table").places(j), plausible.schema.columns[j]
        if not places.at_ends.any():
            continue
        cells = places.column
        new_piece = np.diff(cells.piece_of_atom[: cells.n_present], prepend=-1) > 0
        cuts = cells.edges[:-1][new_piece]
        is_there = [np.any(value <= cuts[1]), np.any(value >= cuts[-1])]
        moved = slope * places.at_ends * places.beyond
        matters = (places.at_ends > 0) & (np.array(is_there) | (moved > error.min()))
        for k in np.flatnonzero(matters & (np.array(column.bounds) != 0)).tolist():
            warn_caller(
                f"Give {plausible.schema.name(j)!r} a wider range when you sketch again: "
                f"{places.at_ends[k]:.1%} of its values lie at the end of it, "
                f"{column.label(column.bounds[k])}. What is beyond is clipped, and the interval "
                "does not cover it.",
                AnswerWarning,
            )


def _entries(found: Estimate) -> list[str]:
    """Return what each entry is called; a matrix has each pair twice."""
    if found.axes:
        named = found._labels_of_entries()
        return [
            " and ".join(f"{axis} = {label}" for axis, label in zip(named, labels, strict=True))
            for labels in zip(*named.values(), strict=True)
        ]
    if found._is_named():
        return [" with ".join(sorted({*labels})) for labels in product(*found.labels)]
    return [f"output {k}" for k in range(found._value.size)] if found.shape else ["this answer"]


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" (and {more} more)" if more > 0 else "")
