"""Frames that go out: in the library of the table that came in, and with its labels.

Frames of pandas have an index, which holds the labels of the rows. Those of polars and pyarrow have
none, so there the labels are the first columns.
"""

# No narwhals here: it builds a frame from a dict, which takes two lines of ours, and it has no
# index, which is all that differs between the libraries.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn import get_config


def chosen(frame: str | None) -> str | None:
    """Return the library of frames, where "auto" is what scikit-learn is told; None for arrays."""
    if frame != "auto":
        return frame
    told = get_config()["transform_output"]
    if told != "default":
        return told
    return None if find_spec("pandas") is None else "pandas"


def frame_of(columns: Mapping[str, Any], library: str) -> Any:
    """Return a frame of these columns."""
    module = import_module(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def labelled(
    labels: Mapping[str, Sequence[str]],
    heads: Sequence[str],
    values: Any,
    library: str,
    index: Sequence[str | None] | None = None,
) -> Any:
    """Return a frame: the labels first, then each column of values by its head.

    In pandas, labels are the index where their names in it are given.
    """
    names = distinct([*labels, *heads], last=len(heads))
    frame = frame_of(dict(zip(names, [*labels.values(), *values], strict=True)), library)
    if library == "pandas" and index is not None:
        frame = frame.set_index(names[: len(labels)]).rename_axis(index)
        frame.columns = list(heads)
    return frame


def distinct(names: Sequence[str], last: int = 0) -> list[str]:
    """Return names that differ; repeated ones get underscores, and the `last` ones come first."""
    first = len(names) - last
    taken: set[str] = set()
    found = list(names)
    for k in [*range(first, len(names)), *range(first)]:
        while found[k] in taken:
            found[k] += "_"
        taken.add(found[k])
    return found
