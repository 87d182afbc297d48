"""Messages of curator and owners as bytes: named scalars and named arrays, no pickle."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from .._bounded import read_json
from ..schema._schema import TableSchema
from ..sketches._file import arrays_of, checked, packed
from ..summaries._mmd import Embedding
from ..summaries._protocol import Message, ProposeRows, Rows
from ._agreement import Agreement
from ._table import check_codes

_SEALED = "sealed"


# ---- bytes


def encode(content: Mapping[str, Any]) -> bytes:
    """Return scalars (str, int, float, bool) and arrays as a sketch's file; None is left out."""
    arrays = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
    return packed({k: v for k, v in content.items() if v is not None and k not in arrays}, arrays)


def decode(octets: bytes) -> dict[str, Any]:
    """Return what `encode` was given; arrays are read without pickle.

    Raises
    ------
    ValueError
        For anything else, in words that name no value.
    """
    try:
        text, _, rest = checked(octets, len(octets)).partition(b"\n")
        # A head names some arrays, and has a reason of 300 characters, of 12 bytes at most.
        scalars = read_json(text, most_bytes=4096)
        arrays = arrays_of(scalars.pop("arrays"), rest)
        sound = all(isinstance(value, str | int | float | bool) for value in scalars.values())
        sound &= all(isinstance(name, str) for name in arrays)  # as those of scalars are
    except Exception as error:  # whatever arrives
        raise ValueError("The message cannot be read.") from error
    if set(arrays) & set(scalars) or not sound:
        raise ValueError("The message cannot be read.")
    return {**scalars, **arrays}


def carried(octets: bytes) -> RecordDict:
    """Return a sealed message as Flower carries it: an array of bytes, which it sends in pieces."""
    sealed = Array("uint8", (len(octets),), "numpy.ndarray", octets)
    return RecordDict({_SEALED: ArrayRecord({_SEALED: sealed})})


def uncarried(record: RecordDict) -> bytes:
    """Return what `carried` was given, or nothing where a record is another."""
    try:
        return record.array_records[_SEALED][_SEALED].data
    except Exception:  # whatever arrives
        return b""


# ---- how long they may be


def room_of_question(agreement: Agreement, kind: str) -> int:
    """Return the bytes that the content of a question is padded to; other sizes are refused."""
    if kind != "ask" or not agreement.terms.protocol.broadcasts_target():
        return _rounded(0)
    phi = agreement.embedding
    return _rounded(8 * (phi.n_features + phi.frequencies.size))


def room_of_answer(agreement: Agreement, kind: str, owner: str) -> int:
    """Return the bytes that the content of an owner's answer is padded to."""
    if kind == "ask":
        return _rounded(agreement.rows_asked(owner) * 8 * (1 + agreement.schema.n_columns))
    return _rounded(agreement.bytes_of_sketch if kind == "sketch" else 0)


def _rounded(size: int) -> int:
    """Return room for so many bytes, and for what stands around them."""
    return 4096 * (1 + (size + 2048) // 4096)


# ---- contents


def message_content(message: Message) -> dict[str, Any]:
    """Return a message of the curator as scalars and arrays by name."""
    content = {f.name: getattr(message, f.name) for f in dataclasses.fields(message)}
    if (embedding := content.pop("embedding")) is not None:
        content["embedding.frequencies"] = embedding.frequencies
    content["kind"] = type(message).__name__
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
    if not all(name in _IS_SOUND and _IS_SOUND[name](value) for name, value in given.items()):
        raise ValueError("The message has entries that do not belong there.")
    if not {"n_herd", "n_uniform"} <= set(given):
        raise ValueError("The message does not say how many rows it asks for.")
    frequencies = given.pop("embedding.frequencies", None)
    embedding = None if frequencies is None else Embedding(frequencies)
    return ProposeRows(embedding=embedding, **given)


def rows_of(
    schema: TableSchema, most: Mapping[str, float], owner: str, content: Mapping[str, Any]
) -> Rows:
    """Return the rows that an owner sent, as codes; `Curator` checks their indices.

    Raises
    ------
    ValueError
        If they have other entries or dtypes than agreed, are more than were asked for, or are no
        rows of the schema.
    """
    if content["kind"] != "Rows" or set(content) != {"kind", "indices", "X"}:
        raise ValueError("sent no rows, or not what belongs to them")
    indices, X = content["indices"], content["X"]
    if not isinstance(indices, np.ndarray) or not isinstance(X, np.ndarray) or X.dtype != "f8":
        raise ValueError("sent rows of another dtype than agreed")
    if X.ndim != 2:
        raise ValueError("sent rows of another shape than agreed")
    if len(X) > most[owner]:  # before they are made vectors, which are longer
        raise ValueError("sent more rows than asked for")
    check_codes(schema, X)
    return Rows(indices, X)


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
    {'kind': 'ProposeRows', 'n_herd': 3, 'n_uniform': 1}
    """
    content = message_content(message) if isinstance(message, Message) else message
    return {name: _summary(content[name]) for name in sorted(content) if content[name] is not None}


def _summary(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    digest = hashlib.sha256(value.tobytes()).hexdigest()
    return {"shape": list(value.shape), "dtype": value.dtype.str, "sha256": digest}


def _is_real(array: Any) -> bool:
    # An empty one may state a length of a billion in a few bytes.
    is_float = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.size > 0
    return is_float and bool(np.isfinite(array).all())


# What the entries of a question must be. Their shapes are compared with those agreed.
_IS_SOUND: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("n_herd", "n_uniform"), lambda n: type(n) is int and n >= 0),
    "noise": lambda noise: type(noise) is float and 0 < noise < math.inf,
    **dict.fromkeys(("direction", "embedding.frequencies"), _is_real),
}
