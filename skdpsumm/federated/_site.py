"""The owner's side: checks what comes, counts it, writes it down, and lets `DataOwner` answer."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._computing import one_blas_thread
from ..privacy import BudgetExceededError, PrivacyLedger
from ..privacy._noise import load_noise
from ..sketches import PrivateSketch
from ..summaries import DataOwner
from ..summaries._parties import read_label_column
from ..summaries._protocol import ProposeRows
from ._agreement import CURATOR, Agreement
from ._envelope import EnvelopeError, Keys, Letter, counter_of, seal, sealed_size, unseal
from ._files import (
    BYTES_OF_RECORDS,
    check_space,
    is_full,
    load_settings,
    locked,
    make_folder,
    write_file,
)
from ._grants import Grants
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
_DISK_FULL = "disk: the owner's disk is full, and they must make room; then start a new run"
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
    grants : path-like
        File that counts what was let go, as the command `new` makes it: `Grants`.
    max_rows : int, default=0
        Rows that may ever leave, over all runs. A run takes as many as the agreement lets it ask
        for, however few it asks for. 0 lets none go, so that rows leave only where the owner says
        so.
    max_runs : int or None, default=None
        Runs that may ever take rows or a sketch. None is as many as `max_rows` and `ledger` hold:
        each run is charged in full, so that no allowance is spent as many small questions.
    ledger : path-like or None, default=None
        An existing `PrivacyLedger`, charged before a sketch is made. None makes no sketch, so that
        no release goes uncounted.
    seed : int or None, default=None
        For simulations only: seed of the owner's coins, by which rows are proposed. None keeps them
        secret. Noise never has a seed, because it is paid for from a ledger in a file.

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
    grants: Path
    max_rows: int = 0
    max_runs: int | None = None
    ledger: Path | None = None
    seed: int | None = None

    def __post_init__(self):
        for name in ("max_rows", "max_runs"):
            value = getattr(self, name)
            if (type(value) is not int or value < 0) and (name, value) != ("max_runs", None):
                raise ValueError(f"{name} must be a whole number, at least 0, got {value!r}.")

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
        files = {"table", "agreement", "keys", "log", "grants", "ledger"}
        needed = {"name", *files} - {"ledger"}
        return load_settings(Path(path).expanduser().absolute(), cls, needed, files)

    def check(self) -> Agreement:
        """Return the agreement, if this owner and their keys are those that it names.

        Raises
        ------
        ValueError
            If not; and for an agreement, keys or grants that cannot be read.
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
        Grants(self.grants)
        return ours

    def lost(self) -> list[dict[str, Any]]:
        """Return the grants of which the log has no answer: a failure or a crash has lost it.

        They count. Nothing left for them, unless the log was begun anew since.
        """
        answered = OwnerLog(self.log).answered()
        granted = [e for e in Grants(self.grants).entries() if e["ask"] in _PARTS]
        return [e for e in granted if (e["run"], e["ask"]) not in answered]

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
        with locked(self._beside("lock")):  # a second copy waits for the answer to the first
            return self._answer(kind, run, octets)

    def _answer(self, kind: str, run: int, octets: bytes) -> bytes:
        digest, log = hashlib.sha256(octets).hexdigest(), OwnerLog(self.log)
        place = {"run": run, "ask": kind, "question": digest}
        # By its place, too: the same bytes in another run are another question, and refused.
        kept = self._beside("answers") / f"{self._agreed.digest[:16]}.{run}.{kind}.{digest}"
        refused = kept.with_name(f"{kept.name}.refused")
        for path, event in ((kept, "repeated"), (refused, "refused again")):
            if path.exists():
                log.add(event, **place)
                return path.read_bytes()
        try:
            content = self._opened(kind, run, octets)
        except EnvelopeError:
            log.add_stranger(run, len(octets))
            return NOT_TAKEN
        reply = self._reply(kind, run, content, log, place)
        sealed = self._sealed(kind, run, counter_of(octets), digest, reply)
        is_refusal = reply["kind"] == "Refusal"
        try:
            make_folder(kept.parent)
            write_file(refused if is_refusal else kept, sealed)
            if not is_refusal:
                log.add("sent", **place, content=describe(reply))
        except OSError as error:  # what is not on disk does not leave
            kept.unlink(missing_ok=True)
            reply = _refused(error, log, place)
            sealed = self._sealed(kind, run, counter_of(octets), digest, reply)
        return sealed

    def _beside(self, what: str) -> Path:
        return self.log.with_name(f"{self.log.name}.{what}")

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
        self, kind: str, run: int, content: dict[str, Any], log: OwnerLog, place: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the content of an answer, or a refusal that tells nothing."""
        try:
            log.add("received", **place, content=describe(content))
            if kind in _PARTS:
                Grants(self.grants).check_signed(run, self._agreed.digest)
            self._check_space(kind)
            reply = _ANSWERS[kind](self, run, content)
            if len(encode(reply)) > self._rooms.answer(kind):
                raise ValueError("The answer is longer than any that was agreed.")
        except BaseException as error:
            return _refused(error, log, place)
        return reply

    def _check_space(self, kind: str) -> None:
        """Raise OSError if the disk has no room for an answer, before anything is spent for it.

        Who signs has room for all that the agreement asks for: a sketch is written twice.
        """
        asked = [k for k, part in _PARTS.items() if getattr(self._agreed, part) is not None]
        kinds = asked if kind == "sign" else [kind]
        sizes = [(2 if k == "sketch" else 1) * sealed_size(self._rooms.answer(k)) for k in kinds]
        check_space(make_folder(self._beside("answers")), sum(sizes) + BYTES_OF_RECORDS)

    def _grant(self, run: int, ask: str, n_rows: int = 0) -> None:
        """Write down that a run has an answer, after all that may refuse it."""
        Grants(self.grants).grant(
            run,
            ask,
            self._agreed.digest,
            n_rows,
            max_rows=self.max_rows,
            max_runs=self.max_runs,
        )
        OwnerLog(self.log).add("granted", run=run, ask=ask, rows=n_rows)

    def _sign(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Sign the agreement off, if this owner can keep to all of it: nothing is charged before.

        The digest is not compared here: a question under another agreement is not even opened.
        """
        ours = self._agreed
        check_table(self.table, ours)
        asked = 0 if ours.rows is None else ours.rows_asked(self.name)
        Grants(self.grants).check_room(run, asked, self.max_rows, self.max_runs)
        if ours.sketch is not None:
            self._checked_ledger(ours)
        _, y = read_table(self.table, ours)  # whose errors are told here, too
        if y is not None:
            read_label_column(y)  # as the owner will
        if y is not None and y.dtype.kind == "U" and y.dtype.itemsize > 4 * LONGEST_LABEL:
            raise Refusal(f"labels: texts may have {LONGEST_LABEL} characters")
        self._grant(run, "sign")
        return {"kind": "SignOff", "owner": self.name, "agreement": ours.digest}

    def _checked_ledger(self, agreement: Agreement) -> PrivacyLedger:
        """Return the ledger; raise if it has no room for a sketch, or no noise can be drawn."""
        if self.ledger is None:
            raise Refusal(_NO_LEDGER)
        load_noise()
        ledger = PrivacyLedger.open(self.ledger)
        try:
            ledger.check(empty_sketch(agreement).privacy)
        except BudgetExceededError as error:
            raise Refusal(_TOO_FULL) from error
        return ledger

    def _ask(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Propose rows."""
        ours = self._agreed
        try:
            message = message_of(content)
        except ValueError as error:
            raise Refusal(str(error)) from error
        _check_question(message, ours, self.name)
        codes, y = read_table(self.table, ours)
        # A run is charged the rows that were agreed, so that small questions save nothing.
        self._grant(run, "ask", ours.rows_asked(self.name))
        with one_blas_thread():
            owner = DataOwner(vectors_of(ours.schema, codes), y, seed=self.seed)
            rows: Any = owner.answer(message)
        labels = None if rows.y is None else as_agreed(rows.y, ours.labels_dtype)
        return rows_content(replace(rows, X=codes[rows.indices], y=labels))

    def _sketch(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Release a sketch, whose noise is drawn here and whose price is charged here."""
        schema = self._agreed.schema
        ledger = self._checked_ledger(self._agreed)
        codes, _ = read_table(self.table, self._agreed, labels=False)
        cells = dict(zip(schema.names, cells_of(schema, codes).columns, strict=True))
        sketcher = self._agreed.sketcher(ledger=ledger)
        self._grant(run, "sketch")
        release: PrivateSketch = sketcher.fit(pd.DataFrame(cells)).sketch_
        # Where there is room: it has been charged.
        with tempfile.TemporaryDirectory(dir=self._beside("answers")) as folder:
            release.save(Path(folder) / "sketch")
            octets = (Path(folder) / "sketch").read_bytes()
        return {"kind": "Sketch", "file": np.frombuffer(octets, np.uint8)}


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "sign": OwnerSite._sign,
    "ask": OwnerSite._ask,
    "sketch": OwnerSite._sketch,
}


def _refused(error: BaseException, log: OwnerLog, place: dict[str, Any]) -> dict[str, Any]:
    """Return a refusal, and write down what the curator is not told, or print it at home."""
    if isinstance(error, Refusal):
        reason, detail = str(error), error.detail
    else:
        # The text of any other error may hold values of the table: it stays here.
        reason = _DISK_FULL if is_full(error) else GENERIC
        detail = "".join(traceback.format_exception(error))
    try:
        log.add("refused", **place, reason=reason, detail=detail)
    except OSError as unwritten:
        print(f"{reason}\n{detail}\n{log.path}: {unwritten}", file=sys.stderr, flush=True)
    # Names of columns may be longer than the room for an answer.
    return {"kind": "Refusal", "reason": reason[:300]}


def _check_question(message: ProposeRows, agreement: Agreement, owner: str) -> None:
    """Raise Refusal, by name, if a question goes beyond the agreement."""
    if message.most_rows() > agreement.rows_asked(owner):
        raise Refusal("n_select: more rows are asked for than agreed")
    herds = agreement.protocol().broadcasts_target()
    if (message.direction is not None or message.embedding is not None) and not herds:
        raise Refusal("protocol: 'pool' sends neither a direction nor a map")
    if not herds:
        return
    if message.direction is None or message.embedding is None:
        raise Refusal("protocol: 'propose' sends a direction and a map")
    ours, theirs = agreement.embedding(), message.embedding
    # Other platforms may round the last bit otherwise.
    if ours.frequencies.shape != theirs.frequencies.shape or not np.allclose(
        ours.frequencies, theirs.frequencies, rtol=1e-9, atol=0
    ):
        raise Refusal("feature map: the frequencies are not those of the agreed random_state")
    if message.direction.shape != (ours.n_features,):
        raise Refusal("feature map: the direction has another length")
