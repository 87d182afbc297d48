"""The curator's side: `Curator` and sketches, asked for over Flower's grid.

`curator_app` is what a run starts where the SuperLink is.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from flwr.app import Context, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from .._computing import one_blas_thread
from .._html import cut
from ..privacy import BudgetExceededError, PrivacyGuarantee, PrivacyLedger, simulation
from ..sketches._private_sketch import PrivateSketch, read_octets
from ..summaries import Curator
from ..summaries._protocol import COSTS_NOTHING
from ..summaries._sketch_summarizer import claim_of_sum
from . import _files, _wire
from ._agreement import CURATOR, Agreement
from ._envelope import Keys, Letter, seal, unseal
from ._files import Refusal

# Names the curator's file to the app: nothing that comes with a run does.
CURATOR_FILE = "SKDPSUMM_CURATOR"
GENERIC = "the curator's side failed; error.txt in the folder of the result says why"
_NOT_TAKEN = (
    "did not open the question: their copy of the agreement is another one, or names other keys, "
    "or their skdpsumm is of another version. Compare digests with the command `agreement`. If "
    "these are equal, the owner's node failed, and its output says why"
)
_TWO_NODES = "has two nodes that are connected under their name: they must end one"
_POLL_SECONDS = 0.5


@dataclass(repr=False)
class FederatedRun:
    """A run over Flower: puts questions under seal, opens the answers, and has what they brought.

    Holds the owners' rows.

    Parameters
    ----------
    agreement : Agreement
    keys : Keys
        The curator's.
    grid : Grid
        Of Flower.
    run : int
        Flower's id of the run.
    timeout : float
        Seconds to wait for the answers to each question, for all of them together.
    curator : Curator or None, default=None
        Not opened yet, made by ``agreement.curator(...)``. None chooses no rows.

    Attributes
    ----------
    nodes : dict from owner to int
        Flower's ids of those that are connected.
    codes : dict from (owner, index) to ndarray of shape (n_columns,)
        The rows received, as they came.
    sketches : dict from owner to PrivateSketch
        As released.
    left_out : dict from owner to str
        Who takes part no more, since which question, and why.
    rounds : list of dict
        The questions, and the seconds that they took.
    """

    agreement: Agreement
    keys: Keys
    grid: Grid
    run: int
    timeout: float
    curator: Curator | None = None
    nodes: dict[str, int] = field(default_factory=dict)
    codes: dict[tuple[str, int], NDArray] = field(default_factory=dict)
    sketches: dict[str, PrivateSketch] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def sketch(self) -> PrivateSketch | None:
        """The sum of all sketches."""
        return merge_sketches(self.sketches) if self.sketches else None

    @property
    def rows(self) -> pa.Table:
        """The chosen rows, in the order chosen, as the schema reads them, with their labels."""
        chosen: Any = self.curator
        codes = [self.codes[origin] for origin in chosen.chosen]
        n_columns = self.agreement.schema.n_columns
        return _wire.to_arrow(self.agreement.schema, np.reshape(codes, (len(codes), n_columns)))

    def carry_out(self, wait: float = 60.0, min_owners: int = 1) -> FederatedRun:
        """Have the agreement signed off, ask for rows, sketches or both, and return the run.

        The curator is opened, and the ledger of the target charged, once enough have signed.

        Parameters
        ----------
        wait : float, default=60.0
            Seconds to wait for owners to connect.
        min_owners : int, default=1
            Fewer that sign off end the run, before anything is spent.

        Raises
        ------
        Refusal
            If fewer than `min_owners` signed off, or none is left.
        """
        if not min_owners >= 1:  # with none, the target would be charged and nobody asked
            raise Refusal(f"min_owners must be at least 1, got {min_owners}.")
        self.find_nodes(wait)
        signed = self.ask("sign", self._to_all(), self._read_signature)
        if len(signed) < min_owners:
            raise Refusal(
                f"{len(signed)} of {len(self.agreement.owners)} owners signed off, fewer than "
                f"min_owners={min_owners}; nothing was spent. {self.left_out}"
            )
        if self.curator is not None:
            self._choose_rows(self.curator)
        if self.agreement.sketch is not None:
            read = partial(sketch_of, self.agreement)
            self.sketches = self.ask("sketch", self._to_all(), read)
        return self

    def _to_all(self) -> dict[str, dict[str, Any]]:
        return {owner: {} for owner in self.active}

    def _read_signature(self, owner: str, content: dict[str, Any]) -> None:
        wanted = {"kind": "SignOff", "owner": owner, "agreement": self.agreement.digest}
        # A description holds no arrays, whose comparison has no one truth.
        if _wire.describe(content) != wanted:
            raise Refusal("signed something else off")

    def _choose_rows(self, curator: Curator) -> None:
        """Carry messages as `run_protocol` does, but over the grid: owners are asked once."""
        ours = self.agreement
        with one_blas_thread():  # as in one process, so that the same rows are chosen
            messages = curator.open()
            questions = {owner: _wire.question_content(messages[owner]) for owner in self.active}
            sent = self.ask("ask", questions, partial(_wire.rows_of, ours))
            if not sent:
                raise Refusal(f"No owner is left. {self.left_out}")
            pairs = [(o, rows, rows.X[:, ours.positions]) for o, rows in sent.items()]
            curator.receive(
                {o: replace(r, X=_wire.vectors_of(ours.features, X)) for o, r, X in pairs}
            )
        self.leave_out("ask", curator.dropped_owners)
        for owner in set(sent) - set(curator.dropped_owners):  # whose indices are sound
            origins = [(owner, index) for index in sent[owner].indices.tolist()]
            self.codes |= dict(zip(origins, sent[owner].X, strict=True))

    def report(self) -> dict[str, Any]:
        """Return what may be told of the run, as json.dumps takes it: no number of any rows."""
        privacy = {} if self.curator is None else {"rows": repr(self.curator.privacy)}
        if self.sketch is not None:
            privacy["sketch"] = repr(self.sketch.privacy)
        return {
            "agreement": self.agreement.digest,
            "left_out": self.left_out,
            "sketches_of": list(self.sketches),
            "privacy": privacy,
            "rounds": self.rounds,
        }

    def save(self, folder: str | Path) -> None:
        """Write report.json, and the chosen rows and merged.sketch as far as there are any.

        summary.parquet has the rows with their labels, summary.npz whose each is, and which of
        theirs.
        """
        folder = _files.make_folder(folder)
        if self.curator is not None:
            chosen = self.curator.chosen  # may be none
            np.savez_compressed(
                folder / "summary.npz",
                owner=np.array([owner for owner, _ in chosen], np.str_),
                index=np.array([index for _, index in chosen], np.int64),
            )
            pyarrow.parquet.write_table(self.rows, folder / "summary.parquet")
        if self.sketch is not None:
            self.sketch.save(folder / "merged.sketch")
        # It is the last of all: a report that is there is complete.
        _files.write_file(folder / "report.json", json.dumps(self.report(), indent=2) + "\n")

    # ---- one question to many nodes

    @property
    def active(self) -> list[str]:
        """The owners that are still taking part."""
        return [owner for owner in self.agreement.owners if owner not in self.left_out]

    def leave_out(self, kind: str, faults: Mapping[str, Any]) -> None:
        """Note why owners are left out from a question on; the first reason stays."""
        for owner, fault in faults.items():
            self.left_out.setdefault(owner, f"{kind}: {fault}")

    def find_nodes(self, wait: float) -> None:
        """Find each owner's node, waiting for all up to `wait` seconds.

        An owner is who holds the key that the curator registered under their name. Two nodes of
        one name are none.
        """
        deadline, owners = time.monotonic() + wait, self.agreement.owners
        while True:
            named: dict[str, list[int]] = {owner: [] for owner in owners}
            for node in self.grid.get_nodes():
                named.setdefault(node.name, []).append(node.node_id)
            self.nodes = {owner: named[owner][0] for owner in owners if len(named[owner]) == 1}
            if len(self.nodes) == len(owners) or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        missing = [owner for owner in owners if owner not in self.nodes]
        faults = {o: _TWO_NODES if named[o] else "is not connected" for o in missing}
        self.leave_out("sign", faults)

    def ask(
        self,
        kind: str,
        questions: Mapping[str, Mapping[str, Any]],
        read: Callable[[str, dict[str, Any]], Any],
    ) -> dict[str, Any]:
        """Send owners their questions, and return the answers of those that gave a sound one.

        All others are left out.

        Parameters
        ----------
        kind : {"sign", "ask", "sketch"}
        questions : mapping from owner to content
        read : callable
            Takes an owner and the content of their answer. Returns what it says, or raises Refusal.
        """
        start, answers = time.monotonic(), {}
        sealed = {owner: self._sealed(kind, owner, content) for owner, content in questions.items()}
        messages = [
            Message(_wire.carried(octets), self.nodes[owner], f"query.{kind}", ttl=self.timeout)
            for owner, octets in sealed.items()
        ]
        pending = dict(zip(questions, self.grid.push_messages(messages), strict=True))
        while pending:
            is_late = time.monotonic() >= start + self.timeout
            # One by one: what one owner sends may be such that reading it fails.
            for owner, identifier in list(pending.items()):
                try:
                    reply = self._reply(identifier)
                    if reply is None:
                        continue
                    answers[owner] = read(owner, self._opened(kind, owner, sealed[owner], reply))
                except Refusal as refusal:
                    self.leave_out(kind, {owner: refusal})
                except Exception as error:  # whose text may hold what was sent
                    what = f"sent what cannot be read ({type(error).__name__})"
                    self.leave_out(kind, {owner: what})
                del pending[owner]
            if is_late:
                break
            time.sleep(_POLL_SECONDS * bool(pending))
        late = f"did not answer within {self.timeout:g} s"
        self.leave_out(kind, dict.fromkeys(pending, late))
        seconds = round(time.monotonic() - start, 2)
        self.rounds.append({"question": kind, "seconds": seconds})
        return answers

    def _reply(self, identifier: str | None) -> Message | None:
        """Return what came back for a question, None if it is not there yet."""
        if identifier is None:
            raise Refusal("could not be reached")
        return next(iter(self.grid.pull_messages([identifier])), None)

    def _letter(self, kind: str, sender: str, receiver: str, question: str = "") -> Letter:
        place = self.agreement.digest, self.run, len(self.rounds), kind
        return Letter(*place, sender, receiver, question)

    def _sealed(self, kind: str, owner: str, content: Mapping[str, Any]) -> bytes:
        room, receiver = _wire.room_of_question(self.agreement, kind), self.agreement.keys[owner]
        return seal(
            self._letter(kind, CURATOR, owner), _wire.encode(content), room, self.keys, receiver
        )

    def _opened(self, kind: str, owner: str, question: bytes, reply: Message) -> dict[str, Any]:
        if reply.has_error():
            names = {code: name for name, code in vars(ErrorCode).items() if isinstance(code, int)}
            name = names.get(reply.error.code, "unknown")
            raise Refusal(f"did not answer (Flower says {name})")
        if not (octets := _wire.uncarried(reply.content)):
            raise Refusal(_NOT_TAKEN)
        letter = self._letter(kind, owner, CURATOR, hashlib.sha256(question).hexdigest())
        room, sender = _wire.room_of_answer(self.agreement, kind, owner), self.agreement.keys[owner]
        content = _wire.decode(unseal(letter, octets, room, self.keys, sender))
        if not isinstance(content["kind"], str):  # an array has no one truth when compared
            raise TypeError("The answer is of no kind.")
        if content["kind"] == "Refusal":
            reason = cut(str(content.get("reason")))[:300] or "no reason given"
            raise Refusal(f"refused: {reason}")
        return content


@dataclass(frozen=True, kw_only=True)
class CuratorSite(_files.Settings):
    """What the curator has on the machine of the SuperLink. Holds private data.

    Parameters
    ----------
    agreement : path-like
    keys : path-like
        The curator's private keys, as the command `new` writes them.
    result : path-like
        A folder, in which each run has its own.
    target : path-like or None, default=None
        A table with the columns of the agreement. Needed where rows are chosen; None, as sketches
        need no target.
    ledger : path-like or None, default=None
        An existing `PrivacyLedger`, charged for the mean of the target. None charges nothing, since
        only you know what total to allow.
    timeout, wait : float, default=600.0, 60.0
        Seconds to wait for the answers to each question, and for owners to connect. An answer takes
        longer, since owners compute in that time.
    min_owners : int, default=1
        With fewer that sign off, nothing is asked and nothing spent. Raise it where a result
        without some owners is of no use; 1 asks whoever signed off.
    seed : int or None, default=None
        Of a `simulation`. None draws noise from the operating system, for whoever knows the seed
        can take the noise off.
    """

    holds_private_data = True

    agreement: Path
    keys: Path
    result: Path
    target: Path | None = None
    ledger: Path | None = None
    timeout: float = 600.0
    wait: float = 60.0
    min_owners: int = 1
    seed: int | None = None

    @property
    def tickets(self) -> Path:
        """The folder of the runs that this user has started, and nobody else can."""
        return self.result / "tickets"

    def check_space(self) -> None:
        """Raise OSError if the disk has no room for a result, before anything is spent for it."""
        ours = Agreement.load(self.agreement)
        size = 0 if ours.sketch is None else ours.bytes_of_sketch  # a sum of sketches is no longer
        if ours.rows is not None:
            size += sum(_wire.room_of_answer(ours, "ask", owner) for owner in ours.owners)
        _files.check_space(_files.make_folder(self.result), size + _files.BYTES_OF_RECORDS)

    def run(self, grid: Grid, run_id: int, ticket: str) -> None:
        """Carry a run out, and save its result, of which the logs of Flower are told nothing.

        Raises
        ------
        RuntimeError
            If it failed; error.txt in the folder of the result says why.
        """
        folder = self.result / str(run_id)
        try:
            (self.tickets / hashlib.sha256(ticket.encode()).hexdigest()).unlink()
            _files.make_folder(folder, new=True)  # no run is done twice
        except OSError:
            raise RuntimeError("Start the run with the curator's command `run`.") from None
        path = folder / "output.txt"
        try:
            with path.open("x") as out, redirect_stdout(out), redirect_stderr(out):
                self._run(grid, run_id).save(folder)
        except BaseException as error:
            _files.write_file(folder / "error.txt", traceback.format_exc())
            # The texts of other errors may hold values of the target.
            is_told = isinstance(error, Refusal | BudgetExceededError)
            report = {"error": str(error) if is_told else GENERIC}
            _files.write_file(folder / "report.json", json.dumps(report))
            raise RuntimeError(GENERIC) from None

    def _run(self, grid: Grid, run_id: int) -> FederatedRun:
        agreement = Agreement.load(self.agreement)
        # A ledger that is too full is told here, before any owner is asked for anything.
        curator = None if agreement.rows is None else self._make_curator(agreement)
        place = agreement, Keys.load(self.keys), grid, run_id, self.timeout
        return FederatedRun(*place, curator=curator).carry_out(self.wait, self.min_owners)

    def _make_curator(self, agreement: Agreement) -> Curator:
        if self.target is None:
            raise Refusal("Set `target`, the table to match, in the curator's file.")
        # Before the target is read.
        ledger = None if self.ledger is None else PrivacyLedger.open(self.ledger)
        try:
            _wire.check_table(self.target, agreement.features, agreement.schema.names)
        except Refusal as refusal:
            raise Refusal(f"The target does not fit the agreement: {refusal}.") from None
        target = _wire.vectors_of(
            agreement.features, _wire.read_table(self.target, agreement.features)
        )
        with nullcontext() if self.seed is None else simulation(self.seed):
            curator = agreement.curator(target, ledger=ledger)
        if ledger is not None and curator.cost != COSTS_NOTHING:
            ledger.check(PrivacyGuarantee(curator.cost, curator.terms.adjacency))
        return curator


def merge_sketches(sketches: Mapping[str, PrivateSketch]) -> PrivateSketch:
    """Return the sketch of all owners' rows together.

    Parameters
    ----------
    sketches : mapping from owner to PrivateSketch
        Of disjoint tables: each row is one owner's. So the guarantee is that of one owner's
        release, and the noise is that of all.

    Returns
    -------
    PrivateSketch
    """
    merged = reduce(add, sketches.values())
    return replace(merged, privacy=claim_of_sum(merged.privacy))


def sketch_of(agreement: Agreement, _: str, content: Mapping[str, Any]) -> PrivateSketch:
    """Return the sketch that an owner sent, if it is what was agreed.

    Raises
    ------
    Refusal
        If it is no sketch (`PrivateSketch.load` says what is none), is larger than what was
        agreed, or has another map, noise or guarantee.
    """
    octets, ours = content.get("file"), agreement.empty_sketch
    if content["kind"] != "Sketch" or not isinstance(octets, np.ndarray):
        raise Refusal("sent no sketch")
    if octets.nbytes > agreement.bytes_of_sketch:
        raise Refusal("sent a sketch of another size than agreed")
    most = octets.nbytes
    try:
        sketch = read_octets(octets.tobytes(), "The answer", most)
    except ValueError as error:
        raise Refusal("sent no sketch") from error
    if sketch.feature_map.difference(ours.feature_map) is not None:
        raise Refusal("sent a sketch with another feature map than agreed")
    levels: Any = [(*one.noise_std, one.n_noise_std) for one in (sketch, ours)]
    if _claim(sketch) != _claim(ours) or not np.allclose(*levels):
        raise Refusal("sent a sketch with other noise than agreed")
    return sketch


def _claim(sketch: PrivateSketch) -> dict[str, Any]:
    """Return what a sketch says of itself and of its noise, whether it is simulated or not."""
    claim = {k: v for k, v in sketch.privacy.to_dict().items() if k != "simulated"}
    return claim | {"postprocess": sketch.postprocess, "n_from_sums": sketch.n_from_sums}


curator_app = ServerApp()


@curator_app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one run out, and write its result."""
    site = CuratorSite.load(os.environ[CURATOR_FILE])
    site.run(grid, context.run_id, str(context.run_config.get("ticket")))
