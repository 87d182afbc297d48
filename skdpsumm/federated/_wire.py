"""Messages of curator and owners as bytes: named scalars and named arrays, no pickle."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from .._bounded import read_json
from ..sketches._private_sketch import arrays_of, checked, packed
from ..summaries._protocol import ProposeRows, Rows
from ._agreement import Agreement
from ._files import Refusal
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
    return _rounded(8 * agreement.embedding.n_features)


def room_of_answer(agreement: Agreement, kind: str, owner: str) -> int:
    """Return the bytes that the content of an owner's answer is padded to."""
    if kind == "ask":
        return _rounded(agreement.rows_asked(owner) * 8 * (1 + agreement.schema.n_columns))
    return _rounded(agreement.bytes_of_sketch if kind == "sketch" else 0)


def _rounded(size: int) -> int:
    """Return room for so many bytes, and for what stands around them."""
    return 4096 * (1 + (size + 2048) // 4096)


# ---- contents


def question_content(message: Any) -> dict[str, Any]:
    """Return what a message says that was not agreed: the noisy target.

    What is agreed is not sent. A sum over the public map comes along, in which each number counts
    in its own way, so that an owner who draws another one says so.
    """
    content = {"direction": message.direction, "noise": message.noise}
    if message.embedding is not None:
        drawn = message.embedding.frequencies.ravel()
        content["map"] = float(np.arange(1, len(drawn) + 1) @ drawn)
    return {name: value for name, value in content.items() if value is not None}


def message_of(agreement: Agreement, owner: str, content: Mapping[str, Any]) -> ProposeRows:
    """Return the message of which the curator has sent `question_content`.

    Raises
    ------
    Refusal
        If it has other entries than agreed, or these are of other kinds.
    """
    direction, noise = content.get("direction"), content.get("noise")
    message = agreement.question(owner, direction, noise)
    if message.embedding is None:
        if content:
            raise Refusal("protocol: 'pool' sends neither a direction nor a map")
        return message
    if not {"direction", "map"} <= set(content) <= {"direction", "map", "noise"}:
        raise Refusal("protocol: 'propose' sends a direction, its noise and a map")
    here, there = question_content(message)["map"], content["map"]
    # Other platforms may round the last bits otherwise.
    if not (isinstance(there, float) and math.isclose(here, there, rel_tol=1e-6)):
        raise Refusal("feature map: the frequencies are not those of the agreed random_state")
    if not isinstance(direction, np.ndarray) or direction.dtype != np.float64:
        raise Refusal("feature map: the direction is of another dtype")
    if direction.shape != (message.embedding.n_features,) or not np.isfinite(direction).all():
        raise Refusal("feature map: the direction has another length, or is not finite")
    if noise is not None and not (isinstance(noise, float) and 0 < noise < math.inf):
        raise Refusal("noise: it must be a positive number")
    return message


def rows_of(agreement: Agreement, owner: str, content: Mapping[str, Any]) -> Rows:
    """Return the rows that an owner sent, as codes; `Curator` checks their indices.

    Raises
    ------
    Refusal
        If they have other entries or dtypes than agreed, are more than were asked for, or are no
        rows of the schema.
    """
    if content["kind"] != "Rows" or set(content) != {"kind", "indices", "X"}:
        raise Refusal("sent no rows, or not what belongs to them")
    indices, X = content["indices"], content["X"]
    if not isinstance(indices, np.ndarray) or not isinstance(X, np.ndarray) or X.dtype != "f8":
        raise Refusal("sent rows of another dtype than agreed")
    if X.ndim != 2:
        raise Refusal("sent rows of another shape than agreed")
    if len(X) > agreement.rows_asked(owner):  # before they are made vectors, which are longer
        raise Refusal("sent more rows than asked for")
    check_codes(agreement.schema, X)
    return Rows(indices, X)


def describe(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as the logs show it: scalars, and shape, dtype and SHA-256 of each array.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm.federated._wire import describe
    >>> describe({"noise": 0.5, "direction": np.ones(3)})["direction"]["shape"]
    [3]
    """
    return {name: _summary(content[name]) for name in sorted(content)}


def _summary(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    digest = hashlib.sha256(value.tobytes()).hexdigest()
    return {"shape": list(value.shape), "dtype": value.dtype.str, "sha256": digest}
