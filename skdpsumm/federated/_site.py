"""The owner's side: checks what comes, counts it, writes it down, and lets `DataOwner` answer.

`owner_app` is what a run starts at every SuperNode.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from .._computing import one_blas_thread
from ..privacy import BudgetExceededError, PrivacyLedger
from ..privacy._noise import load_noise
from ..sketches._private_sketch import PrivateSketch, packed
from ..summaries import DataOwner
from . import _files, _wire
from ._agreement import CURATOR, Agreement
from ._envelope import EnvelopeError, Keys, Letter, counter_of, seal, sealed_size, unseal
from ._files import GENERIC, Grants, Refusal

# What a message is answered with that the curator has not signed: nothing, whatever it is.
NOT_TAKEN = b""
_DISK_FULL = "disk: the owner's disk is full, and they must make room; then start a new run"


@dataclass(frozen=True, kw_only=True)
class OwnerSite(_files.Settings):
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
        File that records all that came and went, for people to read.
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

    def check(self) -> Agreement:
        """Return the agreement, if this owner and their keys are those that it names.

        Raises
        ------
        ValueError
            If not; and for an agreement, keys or grants that cannot be read.
        """
        ours = self._agreed
        keys = Keys.load(self.keys)
        if self.name not in ours.owners or not keys.are(ours.keys[self.name]):
            raise ValueError(
                f"The keys of {self.name!r} in the agreement are not those of {self.keys.name}, or "
                "it has no such owner: correct one of the two."
            )
        self._grants  # noqa: B018 (raises if they cannot be read)
        return ours

    def lost(self) -> list[dict[str, Any]]:
        """Return the grants without an answer that is kept: a failure or a crash has lost it.

        They count, and nothing left for them.
        """
        names = [path.name.split(".") for path in self._answers.glob("*")]
        kept = [tuple(parts[1:3]) for parts in names if len(parts) == 4]
        entries = self._grants.entries()
        return [e for e in entries if e["ask"] != "sign" and (str(e["run"]), e["ask"]) not in kept]

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
        # A second copy waits for the answer to the first.
        with _files.locked(self.log.with_name(f"{self.log.name}.lock")):
            return self._answer(kind, run, octets)

    def _answer(self, kind: str, run: int, octets: bytes) -> bytes:
        digest = hashlib.sha256(octets).hexdigest()
        place = {"run": run, "ask": kind, "question": digest}
        # By its place, too: the same bytes in another run are another question, and refused.
        kept = self._answers / f"{self._agreed.digest[:16]}.{run}.{kind}.{digest}"
        refused = kept.with_name(f"{kept.name}.refused")
        for path in (kept, refused):
            if path.exists():
                _files.note(self.log, "repeated", **place)
                return path.read_bytes()
        try:
            content = self._opened(kind, run, octets)
        except EnvelopeError:
            _files.note(self.log, "stranger", run=run, bytes=len(octets))
            return NOT_TAKEN
        reply = self._reply(kind, run, content, place)
        sealed = self._sealed(kind, run, octets, reply)
        is_refusal = reply["kind"] == "Refusal"
        try:
            _files.make_folder(self._answers)
            _files.write_file(refused if is_refusal else kept, sealed)
            if not is_refusal:
                _files.note(self.log, "sent", **place, content=_wire.describe(reply))
        except OSError as error:  # what is not on disk does not leave
            kept.unlink(missing_ok=True)
            sealed = self._sealed(kind, run, octets, self._refused(error, place))
        return sealed

    @property
    def _answers(self) -> Path:
        return self.log.with_name(f"{self.log.name}.answers")

    @cached_property
    def _agreed(self) -> Agreement:
        return Agreement.load(self.agreement)

    @property
    def _grants(self) -> Grants:
        return Grants(self.grants, self.max_rows, self.max_runs)

    def _opened(self, kind: str, run: int, octets: bytes) -> dict[str, Any]:
        """Return a question of the curator, or raise EnvelopeError."""
        ours = self._agreed
        if kind not in ["sign", *self._asked]:
            raise EnvelopeError("Nobody asks this under the agreement.")
        letter = Letter(ours.digest, run, counter_of(octets), kind, CURATOR, self.name)
        room, keys = _wire.room_of_question(ours, kind), Keys.load(self.keys)
        return _wire.decode(unseal(letter, octets, room, keys, ours.keys[CURATOR]))

    def _sealed(self, kind: str, run: int, question: bytes, reply: dict[str, Any]) -> bytes:
        ours, digest = self._agreed, hashlib.sha256(question).hexdigest()
        letter = Letter(ours.digest, run, counter_of(question), kind, self.name, CURATOR, digest)
        room, keys = self._room(kind), Keys.load(self.keys)
        return seal(letter, _wire.encode(reply), room, keys, ours.keys[CURATOR])

    def _room(self, kind: str) -> int:
        return _wire.room_of_answer(self._agreed, kind, self.name)

    def _reply(
        self, kind: str, run: int, content: dict[str, Any], place: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the content of an answer, or a refusal that tells nothing."""
        try:
            _files.note(self.log, "received", **place, content=_wire.describe(content))
            if kind != "sign":
                self._grants.check_signed(run, self._agreed.digest)
            self._check_space(kind)
            reply: dict[str, Any] = getattr(self, f"_{kind}")(run, content)
            if len(_wire.encode(reply)) > self._room(kind):
                raise ValueError("The answer is longer than any that was agreed.")
        except BaseException as error:
            return self._refused(error, place)
        return reply

    def _refused(self, error: BaseException, place: dict[str, Any]) -> dict[str, Any]:
        """Return a refusal, and write down what the curator is not told, or print it at home."""
        reason = _DISK_FULL if _files.is_full(error) else GENERIC
        # The text of any other error may hold values of the table: it stays here.
        reason = str(error) if isinstance(error, Refusal) else reason
        detail = "".join(traceback.format_exception(error))
        try:
            _files.note(self.log, "refused", **place, reason=reason, detail=detail)
        except OSError as unwritten:
            print(f"{reason}\n{detail}\n{self.log}: {unwritten}", file=sys.stderr, flush=True)
        # Names of columns may be longer than the room for an answer.
        return {"kind": "Refusal", "reason": reason[:300]}

    @property
    def _asked(self) -> list[str]:
        """The questions, beside that for a signature, that are asked under the agreement."""
        parts = {"ask": self._agreed.rows, "sketch": self._agreed.sketch}
        return [kind for kind, part in parts.items() if part is not None]

    def _check_space(self, kind: str) -> None:
        """Raise OSError if the disk has no room for an answer, before anything is spent for it.

        Who signs has room for all that the agreement asks for.
        """
        kinds = self._asked if kind == "sign" else [kind]
        sizes = [sealed_size(self._room(k)) for k in kinds]
        _files.check_space(_files.make_folder(self._answers), sum(sizes) + _files.BYTES_OF_RECORDS)

    def _grant(self, run: int, ask: str, n_rows: int = 0) -> None:
        """Write down that a run has an answer, after all that may refuse it."""
        self._grants.grant(run, ask, self._agreed.digest, n_rows)
        _files.note(self.log, "granted", run=run, ask=ask, rows=n_rows)

    def _sign(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Sign the agreement off, if this owner can keep to all of it: nothing is charged before.

        The digest is not compared here: a question under another agreement is not even opened.
        """
        ours = self._agreed
        _wire.check_table(self.table, ours.schema)
        self._grants.check_room(run, 0 if ours.rows is None else ours.rows_asked(self.name))
        if ours.sketch is not None:
            self._checked_ledger()
        _wire.read_table(self.table, ours.schema)  # whose errors are told here, too
        self._grant(run, "sign")
        return {"kind": "SignOff", "owner": self.name, "agreement": ours.digest}

    def _checked_ledger(self) -> PrivacyLedger:
        """Return the ledger; raise if it has no room for a sketch, or no noise can be drawn."""
        if self.ledger is None:
            raise Refusal("ledger: the owner has none, and no sketch is made without")
        load_noise()
        ledger = PrivacyLedger.open(self.ledger)
        try:
            ledger.check(self._agreed.empty_sketch.privacy)
        except BudgetExceededError as error:
            raise Refusal("ledger: the owner's budget cannot hold this release") from error
        return ledger

    def _ask(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Propose rows."""
        ours = self._agreed
        message = _wire.message_of(ours, self.name, content)
        codes = _wire.read_table(self.table, ours.schema)
        # A run is charged the rows that were agreed, so that small questions save nothing.
        self._grant(run, "ask", ours.rows_asked(self.name))
        with one_blas_thread():
            owner = DataOwner(
                _wire.vectors_of(ours.features, codes[:, ours.positions]), seed=self.seed
            )
            rows: Any = owner.answer(message)
        return {"kind": "Rows", "indices": rows.indices, "X": codes[rows.indices]}

    def _sketch(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Release a sketch, whose noise is drawn here and whose price is charged here."""
        ledger, features = self._checked_ledger(), self._agreed.features
        frame = pd.DataFrame(_wire.cells_of(features, _wire.read_table(self.table, features)))
        sketcher = self._agreed.sketcher(ledger=ledger)
        self._grant(run, "sketch")
        release: PrivateSketch = sketcher.fit(frame).sketch_
        return {"kind": "Sketch", "file": np.frombuffer(packed(*release._contents()), np.uint8)}


owner_app = ClientApp()


def _answer(kind: str, message: Message, context: Context) -> Message:
    try:
        site = OwnerSite.load(str(context.node_config["owner"]))
        reply = site.answer(kind, message.metadata.run_id, _wire.uncarried(message.content))
    except BaseException:
        traceback.print_exc()  # at home; Flower would send the text of the error to the curator
        reply = NOT_TAKEN
    return Message(_wire.carried(reply), reply_to=message)


# To sign the agreement off, to propose rows, to release a private sketch; or to refuse.
for kind in ("sign", "ask", "sketch"):
    owner_app.query(kind)(partial(_answer, kind))
