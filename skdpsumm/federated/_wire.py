"""Messages of curator and owners as bytes: named scalars and named arrays, no pickle."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from .._bounded import read_json
from ..schema._schema import TableSchema
from ..sketches import PrivateSketch
from ..sketches._file import read_npy
from ..summaries._mmd import Embedding
from ..summaries._protocol import Message, ProposeRows, Rows
from ._agreement import Agreement
from ._table import check_codes

# Characters of a label that is a text.
LONGEST_LABEL = 64
_SEALED = "sealed"
_BYTES_OF_HEAD_LENGTH = 8


# ---- bytes


def encode(content: Mapping[str, Any]) -> bytes:
    """Return scalars (str, int, float, bool) and arrays as bytes; None is left out."""
    scalars, arrays = {}, {}
    for name, value in content.items():
        if isinstance(value, np.ndarray):
            arrays[name] = _npy(value)
        elif value is not None:
            scalars[name] = value
    head = {"scalars": scalars, "arrays": {name: len(part) for name, part in arrays.items()}}
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(_BYTES_OF_HEAD_LENGTH, "big"), text, *arrays.values()])


def decode(octets: bytes) -> dict[str, Any]:
    """Return what `encode` was given; arrays are read without pickle.

    Raises
    ------
    ValueError
        For anything else, in words that name no value.
    """
    try:
        start = _BYTES_OF_HEAD_LENGTH + int.from_bytes(octets[:_BYTES_OF_HEAD_LENGTH], "big")
        # A head names some arrays, and has a reason of 300 characters, of 12 bytes at most.
        head = read_json(octets[_BYTES_OF_HEAD_LENGTH:start], most_bytes=4096)
        scalars, arrays = head["scalars"], {}
        for name, length in head["arrays"].items():
            arrays[name] = read_npy(octets[start : start + length])
            start += length
        sound = all(isinstance(value, str | int | float | bool) for value in scalars.values())
    except Exception as error:  # whatever arrives
        raise ValueError("The message cannot be read.") from error
    if start != len(octets) or set(arrays) & set(scalars) or not sound:
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


def _npy(array: NDArray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array, order="C"), allow_pickle=False)
    return stream.getvalue()


# ---- how long they may be


class Rooms:
    """The most bytes that each question and each answer may have, from the agreement alone.

    Messages are padded to it, and a message of another size is not looked at.

    Parameters
    ----------
    agreement : Agreement
    owner : str
        Who is asked.
    """

    def __init__(self, agreement: Agreement, owner: str):
        self._agreement, self._owner = agreement, owner

    def question(self, kind: str) -> int:
        """Return the bytes of the content of a question."""
        phi = kind == "ask" and self._agreement.protocol().broadcasts_target()
        return _rounded(self._bytes_of_phi if phi else 0)

    def answer(self, kind: str) -> int:
        """Return the bytes of the content of an answer."""
        if kind == "ask":
            return _rounded(self._agreement.rows_asked(self._owner) * self._bytes_of_row)
        return _rounded(self._bytes_of_sketch if kind == "sketch" else 0)

    @cached_property
    def _bytes_of_phi(self) -> int:
        phi = self._agreement.embedding()
        return 8 * (phi.n_features + phi.frequencies.size)

    @property
    def _bytes_of_row(self) -> int:
        texts = self._agreement.labels_dtype == "string"
        label = 4 * LONGEST_LABEL if texts else 8
        return 8 * (1 + self._agreement.schema.n_columns) + label

    @cached_property
    def _bytes_of_sketch(self) -> int:
        return size_of_sketch(empty_sketch(self._agreement))


def _rounded(size: int) -> int:
    """Return room for so many bytes, and for what stands around them."""
    return 4096 * (1 + (size + 2048) // 4096)


def empty_sketch(agreement: Agreement) -> PrivateSketch:
    """Return what a release of no rows at all would look like: its map, noise and guarantee."""
    sketcher, schema = agreement.sketcher(), agreement.schema
    pending = sketcher._prepare(sketcher.preview_map(schema.n_columns, schema.names))
    size = pending.feature_map.n_features + pending.counts_rows
    return pending.to_sketch(np.zeros(size), 0)


def size_of_sketch(empty: PrivateSketch) -> int:
    """Return the most bytes that a sketch's file has.

    Parameters
    ----------
    empty : PrivateSketch
        As `empty_sketch` returns it: others differ in the digits of a few numbers.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty.save(Path(folder) / "empty")
        return (Path(folder) / "empty").stat().st_size + 1024


# ---- contents


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
    counts = [given.get("n_herd"), given.get("n_uniform")]
    arrays = [a for a in (frequencies, given.get("direction")) if a is not None]
    if (
        not set(given) <= {"n_herd", "n_uniform", "direction", "noise"}
        or not all(type(n) is int and n >= 0 for n in counts)
        or not _is_noise(given.get("noise"))
        or not all(_is_real(array) for array in arrays)
    ):
        raise ValueError("The message has entries that do not belong there.")
    embedding = None if frequencies is None else Embedding(frequencies)
    return ProposeRows(embedding=embedding, **given)


def as_agreed(labels: NDArray, dtype: str) -> NDArray:
    """Return labels in the dtype of the agreement."""
    return labels if dtype == "string" else labels.astype(dtype)


def rows_content(rows: Rows) -> dict[str, Any]:
    """Return an owner's rows, as codes, as arrays by name."""
    y = rows.y
    if y is not None and y.dtype.kind == "U":
        # Numpy's type of texts tells the length of the longest: of these, and not of the table.
        y = np.array(y.tolist(), np.str_)
    return {"kind": "Rows", "indices": rows.indices, "X": rows.X, "y": y}


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
    if labels_dtype == "string" and not _is_text(arrays["y"]):
        raise ValueError("sent labels that are not text")
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
    {'kind': 'ProposeRows', 'n_herd': 3, 'n_uniform': 1}
    """
    content = message_content(message) if isinstance(message, Message) else message
    entries = {name: _summary(value) for name, value in content.items()}
    return dict(sorted((n, v) for n, v in entries.items() if v is not None))


def _summary(value: Any) -> Any:
    # Longer texts would fill a log.
    if isinstance(value, str) and len(value) > 1000:
        return {"characters": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    if not isinstance(value, np.ndarray):
        return value
    digest = hashlib.sha256(value.tobytes()).hexdigest()
    return {"shape": list(value.shape), "dtype": value.dtype.str, "sha256": digest}


def _is_noise(noise: Any) -> bool:
    return noise is None or (type(noise) is float and 0 < noise < math.inf)


def _is_real(array: Any) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.float64
        and array.ndim in (1, 2)
        and bool(np.isfinite(array).all())
    )


def _is_text(labels: NDArray) -> bool:
    """Return whether labels are text that files hold: numpy's may be beyond Unicode."""
    if not labels.dtype.isnative or not 0 < labels.dtype.itemsize <= 4 * LONGEST_LABEL:
        return False
    points = labels.ravel().view(np.uint32)  # Python would end in a SystemError
    return bool(np.all((points < 0xD800) | ((points > 0xDFFF) & (points <= 0x10FFFF))))


def _label_fits(labels: NDArray, dtype: str) -> bool:
    return labels.dtype.kind == "U" if dtype == "string" else labels.dtype == np.dtype(dtype)
