"""Messages of curator and owners on Flower's wire: named scalars and named arrays, no pickle."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..schema._schema import TableSchema
from ..sketches._file import read_npy
from ..summaries._mmd import Embedding
from ..summaries._protocol import Message, ProposeRows, Rows
from ._table import check_codes

_SCALARS, _ARRAYS = "scalars", "arrays"


def pack(content: Mapping[str, Any]) -> RecordDict:
    """Return a record of scalars (str, int, float, bool) and arrays; None is left out."""
    given = {name: value for name, value in content.items() if value is not None}
    arrays = {name: Array(v) for name, v in given.items() if isinstance(v, np.ndarray)}
    scalars = {name: v for name, v in given.items() if name not in arrays}
    return RecordDict({_SCALARS: ConfigRecord(scalars), _ARRAYS: ArrayRecord(arrays)})


def unpack(record: RecordDict) -> dict[str, Any]:
    """Return what `pack` was given; arrays are read without pickle.

    Raises
    ------
    ValueError
        For anything else, in words that name no value.
    """
    try:
        arrays = {n: read_npy(array.data) for n, array in record.array_records[_ARRAYS].items()}
        scalars = dict(record.config_records[_SCALARS].items())
    except Exception as error:  # whatever arrives
        raise ValueError("The message cannot be read.") from error
    sound = all(isinstance(value, str | int | float | bool) for value in scalars.values())
    if set(record) != {_SCALARS, _ARRAYS} or set(arrays) & set(scalars) or not sound:
        raise ValueError("The message cannot be read.")
    return {**scalars, **arrays}


def message_content(message: Message) -> dict[str, Any]:
    """Return a message of the curator as scalars and arrays by name."""
    kind = type(message).__name__
    if type(message) is not ProposeRows:
        raise ValueError(
            f"{kind} does not go over Flower, where a round takes seconds and owners keep no state "
            "between messages: use Propose or Pool."
        )
    names = [f.name for f in dataclasses.fields(message) if f.name != "embedding"]
    content = {"kind": kind} | {name: getattr(message, name) for name in names}
    if message.embedding is not None:
        content["embedding.frequencies"] = message.embedding.frequencies
        content["embedding.offsets"] = message.embedding.offsets
    return {name: value for name, value in content.items() if value is not None}


def message_of(content: Mapping[str, Any]) -> ProposeRows:
    """Return the message that `message_content` took apart.

    Raises
    ------
    ValueError
        If it is none, or has entries of other kinds.
    """
    given = dict(content)
    if given.pop("kind", None) != "ProposeRows":
        raise ValueError("The message is of an unknown kind.")
    frequencies = given.pop("embedding.frequencies", None)
    offsets = given.pop("embedding.offsets", None)
    counts = [given.get("n_herd"), given.get("n_uniform")]
    arrays = [a for a in (frequencies, offsets, given.get("direction")) if a is not None]
    if (
        not set(given) <= {"n_herd", "n_uniform", "direction", "noise", "reveal"}
        or not all(type(n) is int and n >= 0 for n in counts)
        or not _is_noise(given.get("noise"))
        or given.get("reveal") not in ("rows", "features")
        or not all(_is_real(array) for array in arrays)
    ):
        raise ValueError("The message has entries that do not belong there.")
    embedding = None if frequencies is None else Embedding(frequencies, offsets)
    return ProposeRows(embedding=embedding, **given)


def rows_content(rows: Rows) -> dict[str, Any]:
    """Return an owner's rows, as codes, as arrays by name."""
    return {"kind": "Rows", "indices": rows.indices, "X": rows.X, "y": rows.y}


def rows_of(
    content: Mapping[str, Any], schema: TableSchema, labels_dtype: str | None, most: float
) -> Rows:
    """Return the rows that `rows_content` took apart, as codes; `Curator` checks their indices.

    Raises
    ------
    ValueError
        If they have other entries or dtypes than agreed, are more than were asked for, or are no
        rows of the schema.
    """
    arrays = {name: value for name, value in content.items() if name != "kind"}
    wanted = {"indices", "X"} | ({"y"} if labels_dtype else set())
    if content.get("kind") != "Rows" or set(arrays) != wanted:
        raise ValueError("sent no rows, or not what belongs to them")
    if not all(isinstance(a, np.ndarray) for a in arrays.values()) or arrays["X"].dtype != "f8":
        raise ValueError("sent rows of another dtype than agreed")
    if arrays["X"].ndim != 2:
        raise ValueError("sent rows of another shape than agreed")
    if len(arrays["X"]) > most:  # before they are made vectors, which are longer
        raise ValueError("sent more rows than asked for")
    check_codes(schema, arrays["X"])
    if labels_dtype and not _label_fits(arrays["y"], labels_dtype):
        raise ValueError("sent labels of another dtype than agreed")
    if labels_dtype == "float64" and not np.isfinite(arrays["y"]).all():
        raise ValueError("sent labels that are not finite")
    return Rows(**arrays)


def describe(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as the logs show it: scalars, and shape, dtype and SHA-256 of each array.

    Parameters
    ----------
    message : Message or mapping
        Of the curator, as in `Curator.transcript`; or its content by name.

    Examples
    --------
    >>> from skdpsumm.federated._wire import describe
    >>> from skdpsumm.summaries._protocol import ProposeRows
    >>> describe(ProposeRows(n_herd=3, n_uniform=1))
    {'kind': 'ProposeRows', 'n_herd': 3, 'n_uniform': 1, 'reveal': 'rows'}
    """
    content = message_content(message) if isinstance(message, Message) else message
    entries = {n: _summary(v) if isinstance(v, np.ndarray) else v for n, v in content.items()}
    return dict(sorted((n, v) for n, v in entries.items() if v is not None))


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that `describe` shows."""
    return hashlib.sha256(json.dumps(describe(content), sort_keys=True).encode()).hexdigest()


def _summary(array: NDArray) -> dict[str, Any]:
    whole = np.ascontiguousarray(array)
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "sha256": hashlib.sha256(whole.tobytes()).hexdigest(),
    }


def _is_noise(noise: Any) -> bool:
    return noise is None or (type(noise) is float and 0 < noise < math.inf)


def _is_real(array: Any) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.float64
        and array.ndim in (1, 2)
        and bool(np.isfinite(array).all())
    )


def _label_fits(labels: NDArray, dtype: str) -> bool:
    return labels.dtype.kind == "U" if dtype == "string" else labels.dtype == np.dtype(dtype)
