"""Labels that come with rows: sound at each owner's, and of one kind among all owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NO_LABELS = (
    "y must hold one label for each row: all words or all numbers, and none missing or infinite. "
    "Drop rows without a label, or give them a label of their own."
)


def read_label_column(y: Any) -> NDArray:
    """Return a copy of a column of labels.

    Raises
    ------
    ValueError
        If labels are missing, infinite, of several kinds, or neither words nor numbers. The message
        names no value.
    """
    labels = np.array(y, subok=False)
    if labels.dtype == object:
        labels = _without_objects(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise ValueError(_NO_LABELS)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(_NO_LABELS)
    return labels


def _without_objects(labels: NDArray) -> NDArray:
    cells = labels.tolist()
    if all(type(cell) is str for cell in cells):
        return labels.astype(str)
    if not all(isinstance(cell, bool | int | float | np.number | np.bool_) for cell in cells):
        raise ValueError(_NO_LABELS)
    return np.array(cells)


def common_labels(columns: Mapping[Any, list[NDArray | None]]) -> dict[Any, Any]:
    """Return each owner's labels in the kind that most owners sent, without owners of another kind.

    Whole numbers that came as floats are whole numbers to the others; what does not fit leaves its
    owner out, and no other.

    Parameters
    ----------
    columns : mapping from owner to list of (ndarray or None)
        The labels of each answer of each owner that sent rows.

    Returns
    -------
    dict from owner to list of (ndarray or None)
        Of the owners whose labels fit. None stands for answers without labels, where most owners
        sent none.
    """
    kinds = {owner: _kind(parts) for owner, parts in columns.items()}
    sound = Counter(kind for kind in kinds.values() if kind != "?")
    common = max(sound, key=lambda kind: sound[kind], default="?")
    if common == "":
        return {owner: parts for owner, parts in columns.items() if kinds[owner] == ""}
    fitted = {owner: [_fitted(part, common) for part in parts] for owner, parts in columns.items()}
    return {
        owner: parts for owner, parts in fitted.items() if all(part is not None for part in parts)
    }


def _kind(parts: list[NDArray | None]) -> str:
    """Return "" for no labels, "U", "b", "i" or "f"; "?" where answers differ in having any."""
    found = {"" if part is None else part.dtype.kind.replace("u", "i") for part in parts}
    if len(found) > 1 and found & {"", "U"}:
        return "?"
    return next(kind for kind in ("f", "i", "b", "U", "") if kind in found)


_DTYPES = {"b": np.bool_, "i": np.int64, "f": np.float64}


def _fitted(labels: NDArray | None, kind: str) -> NDArray | None:
    if labels is None or (labels.dtype.kind == "U") != (kind == "U") or kind == "?":
        return None
    if kind == "U":
        return labels
    cast: NDArray = labels.astype(_DTYPES[kind])
    return cast if np.array_equal(cast, labels) else None
