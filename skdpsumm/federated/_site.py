"""The owner's side: checks what comes, counts it, writes it down, and lets `DataOwner` answer."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._computing import one_blas_thread
from ..privacy import BudgetExceededError, PrivacyLedger
from ..sketches import PrivateSketch
from ..summaries import DataOwner
from ..summaries._parties import read_label_column
from ..summaries._protocol import ProposeRows
from ._agreement import CURATOR, Agreement
from ._envelope import EnvelopeError, Keys, Letter, counter_of, seal, unseal
from ._files import load_settings, make_folder, write_file
from ._owner_log import GENERIC, OwnerLog, Refusal
from ._table import cells_of, check_table, read_table, vectors_of
from ._wire import (
    LONGEST_LABEL,
    Rooms,
    as_agreed,
    decode,
    describe,
    empty_sketch,
    encode,
    message_of,
    rows_content,
)

# What a message is answered with that the curator has not signed: nothing, whatever it is.
NOT_TAKEN = b""
_NO_LEDGER = "ledger: the owner has none, and no sketch is made without"
_TOO_FULL = "ledger: the owner's budget cannot hold this release"
# Names of columns may be longer than the room for an answer.
_LONGEST_REASON = 300
# Which part of the agreement a question belongs to.
_PARTS = {"ask": "rows", "sketch": "sketch"}


@dataclass(frozen=True, kw_only=True)
class OwnerSite:
    """What one owner has at home. Holds private data.

    Parameters
    ----------
    name : str
        The owner's name in the agreement.
    table : path-like
        A Parquet or CSV file.
    agreement : path-like
        The owner's own copy, which they have read.
    keys : path-like
        The owner's private keys, as the command `new` writes them.
    log : path-like
        File that records all that came and went: `OwnerLog`.
    max_rows : int, default=0
        Rows that may ever leave, over all runs. 0 lets none go, so that rows leave only where the
        owner says so.
    ledger : path-like or None, default=None
        An existing `PrivacyLedger`, charged before a sketch is made. None makes no sketch, so that
        no release goes uncounted.
    seed : int or None, default=None
        For simulations only: seed of the owner's coins and noise. None keeps them secret.

    Examples
    --------
    A site answers bytes with bytes::

        site = OwnerSite.load("owner.toml")
        site.answer("sign", run, octets)
    """

    holds_private_data = True

    name: str
    table: Path
    agreement: Path
    keys: Path
    log: Path
    max_rows: int = 0
    ledger: Path | None = None
    seed: int | None = None

    @classmethod
    def load(cls, path: str | os.PathLike) -> OwnerSite:
        """Read an owner's TOML file; relative paths in it start at its folder.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        ValueError
            For entries that are unknown or missing.
        """
        files = {"table", "agreement", "keys", "log", "ledger"}
        needed = {"name", *files} - {"ledger"}
        return load_settings(Path(path).expanduser().absolute(), cls, needed, files)

    def check(self) -> Agreement:
        """Return the agreement, if this owner and their keys are those that it names.

        Raises
        ------
        ValueError
            If not; and for an agreement or keys that cannot be read.
        """
        ours = self._agreed
        if self.name not in ours.owners:
            raise ValueError(
                f"name={self.name!r} is not an owner in the agreement, which has {ours.owners}."
            )
        if not Keys.load(self.keys).are(ours.keys[self.name]):
            raise ValueError(
                f"The keys of {self.name!r} in the agreement are not those of {self.keys.name}: "
                "correct one of the two."
            )
        return ours

    def answer(self, kind: str, run: int, octets: bytes) -> bytes:
        """Return what goes back for a question: sealed, and of the same length whatever it says.

        The same question has the same answer, which is kept. What the curator has not signed under
        this owner's copy of the agreement, for this run and this owner, gets `NOT_TAKEN`.

        Parameters
        ----------
        kind : {"sign", "ask", "sketch"}
        run : int
            Flower's id of the run.
        octets : bytes
            A sealed message.

        Returns
        -------
        bytes
        """
        with self._alone():  # a second copy of a question waits for the answer to the first
            folder = self.log.with_name(self.log.name + ".answers")
            digest = hashlib.sha256(octets).hexdigest()
            # By its place, too: the same bytes in another run are another question, and refused.
            kept = folder / f"{self._agreed.digest[:16]}.{run}.{kind}.{digest}"
            if kept.exists():
                OwnerLog(self.log).add("repeated", run=run, question=digest)
                return kept.read_bytes()
            try:
                content = self._opened(kind, run, octets)
            except EnvelopeError:
                OwnerLog(self.log).add_stranger(run, len(octets))
                return NOT_TAKEN
            reply = self._reply(kind, run, counter_of(octets), digest, content)
            sealed = self._sealed(kind, run, counter_of(octets), digest, reply)
            make_folder(folder)
            write_file(kept, sealed)
            return sealed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        handle = os.open(self.log.with_name(self.log.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(handle) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @cached_property
    def _agreed(self) -> Agreement:
        return Agreement.load(self.agreement)

    @cached_property
    def _rooms(self) -> Rooms:
        return Rooms(self._agreed, self.name)

    def _opened(self, kind: str, run: int, octets: bytes) -> dict[str, Any]:
        """Return a question of the curator, or raise EnvelopeError."""
        ours = self._agreed
        if kind not in _ANSWERS or (kind != "sign" and getattr(ours, _PARTS[kind]) is None):
            raise EnvelopeError("Nobody asks this under the agreement.")
        letter = Letter(ours.digest, run, counter_of(octets), kind, CURATOR, self.name)
        room, keys = self._rooms.question(kind), Keys.load(self.keys)
        return decode(unseal(letter, octets, room, keys, ours.keys[CURATOR]))

    def _sealed(
        self, kind: str, run: int, counter: int, digest: str, reply: dict[str, Any]
    ) -> bytes:
        ours = self._agreed
        letter = Letter(ours.digest, run, counter, kind, self.name, CURATOR, digest)
        room, keys = self._rooms.answer(kind), Keys.load(self.keys)
        return seal(letter, encode(reply), room, keys, ours.keys[CURATOR])

    def _reply(
        self, kind: str, run: int, counter: int, digest: str, content: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the content of an answer, or a refusal that tells nothing."""
        log = OwnerLog(self.log)
        try:
            log.add_question(run, counter, ask=kind, question=digest, content=describe(content))
            reply = _ANSWERS[kind](self, run, content)
            if len(encode(reply)) > self._rooms.answer(kind):
                raise ValueError("The answer is longer than any that was agreed.")
        except Refusal as refusal:
            reason, detail = str(refusal), refusal.detail
        except BaseException:
            # The text of any other error may hold values of the table: it stays here.
            reason, detail = GENERIC, traceback.format_exc()
        else:
            log.add("sent", run=run, question=digest, content=describe(reply))
            return reply
        log.add("refused", run=run, question=digest, reason=reason, detail=detail)
        return {"kind": "Refusal", "reason": reason[:_LONGEST_REASON]}

    def _sign(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Sign the agreement off, if this owner can keep to all of it: nothing is charged before.

        The digest is not compared here: a question under another agreement is not even opened.
        """
        ours = self._agreed
        check_table(self.table, ours)
        if ours.rows is not None:
            self._check_rows(ours)
        if ours.sketch is not None:
            self._check_ledger(ours)
        _, y = read_table(self.table, ours)  # whose errors are told here, too
        if y is not None:
            read_label_column(y)  # as the owner will
        if y is not None and y.dtype.kind == "U" and y.dtype.itemsize > 4 * LONGEST_LABEL:
            raise Refusal(f"labels: texts may have {LONGEST_LABEL} characters")
        return {"kind": "SignOff", "owner": self.name, "agreement": ours.digest}

    def _check_rows(self, agreement: Agreement) -> None:
        asked = agreement.rows_asked(self.name)
        if OwnerLog(self.log).rows_granted() + asked > self.max_rows:
            raise Refusal(f"max_rows: the owner does not let {asked} more rows go")

    def _check_ledger(self, agreement: Agreement) -> None:
        if self.ledger is None:
            raise Refusal(_NO_LEDGER)
        try:
            PrivacyLedger.open(self.ledger).check(empty_sketch(agreement).privacy)
        except BudgetExceededError as error:
            raise Refusal(_TOO_FULL) from error

    def _ask(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Propose rows."""
        ours = self._agreed
        try:
            message = message_of(content)
        except ValueError as error:
            raise Refusal(str(error)) from error
        _check_question(message, ours, self.name)
        OwnerLog(self.log).grant(run, "ask", int(message.most_rows()), self.max_rows)
        codes, y = read_table(self.table, ours)
        with one_blas_thread():
            owner = DataOwner(vectors_of(ours.schema, codes), y, seed=self.seed)
            rows: Any = owner.answer(message)
        labels = None if rows.y is None else as_agreed(rows.y, ours.labels_dtype)
        return rows_content(replace(rows, X=codes[rows.indices], y=labels))

    def _sketch(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Release a sketch, whose noise is drawn here and whose price is charged here."""
        if self.ledger is None:
            raise Refusal(_NO_LEDGER)
        OwnerLog(self.log).grant(run, "sketch", 0, 0)
        release = self._release(self._agreed, self.ledger)
        with tempfile.TemporaryDirectory() as folder:
            release.save(Path(folder) / "sketch")
            octets = (Path(folder) / "sketch").read_bytes()
        return {"kind": "Sketch", "file": np.frombuffer(octets, np.uint8)}

    def _release(self, agreement: Agreement, path: Path) -> PrivateSketch:
        ledger = PrivacyLedger.open(path)
        sketcher = agreement.sketcher(ledger=ledger, noise_seed=self.seed)
        codes, _ = read_table(self.table, agreement, labels=False)
        schema = agreement.schema
        cells = cells_of(schema, codes).columns
        try:
            return sketcher.fit(pd.DataFrame(dict(zip(schema.names, cells, strict=True)))).sketch_
        except BudgetExceededError as error:
            raise Refusal(_TOO_FULL) from error


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "sign": OwnerSite._sign,
    "ask": OwnerSite._ask,
    "sketch": OwnerSite._sketch,
}


def _check_question(message: ProposeRows, agreement: Agreement, owner: str) -> None:
    """Raise Refusal, by name, if a question goes beyond the agreement."""
    if message.most_rows() > agreement.rows_asked(owner):
        raise Refusal("n_select: more rows are asked for than agreed")
    if message.reveal != "rows":
        raise Refusal("reveal: rows are agreed, and nothing else")
    herds = agreement.protocol().broadcasts_target()
    if (message.direction is not None or message.embedding is not None) and not herds:
        raise Refusal("protocol: 'pool' sends neither a direction nor a map")
    if not herds:
        return
    if message.direction is None or message.embedding is None:
        raise Refusal("protocol: 'propose' sends a direction and a map")
    ours, theirs = agreement.embedding(), message.embedding
    # Other platforms may round the last bit otherwise.
    if (
        theirs.offsets is not None
        or ours.frequencies.shape != theirs.frequencies.shape
        or not np.allclose(ours.frequencies, theirs.frequencies, rtol=1e-9, atol=0)
    ):
        raise Refusal("feature map: the frequencies are not those of the agreed random_state")
    if message.direction.shape != (ours.n_features,):
        raise Refusal("feature map: the direction has another length")
