"""The curator's side: `Curator` and sketches, asked for over Flower's grid."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from flwr.serverapp import Grid
from numpy.typing import NDArray

from .._computing import one_blas_thread
from ..privacy import BudgetExceededError, PrivacyGuarantee, PrivacyLedger, simulation
from ..sketches import PrivateSketch
from ..summaries import Curator
from ..summaries._protocol import Rows
from ..summaries._public_groups import claim_of_sum
from ..summaries._releases import COSTS_NOTHING
from ._agreement import CURATOR, Agreement
from ._envelope import Keys
from ._files import (
    BYTES_OF_RECORDS,
    check_space,
    close_files,
    load_settings,
    make_folder,
    write_file,
)
from ._grid import Desk, Round, find_nodes
from ._owner_log import Refusal
from ._table import cells_of, check_table, read_table, to_arrow, vectors_of
from ._wire import (
    Rooms,
    as_agreed,
    describe,
    empty_sketch,
    message_content,
    rows_of,
    size_of_sketch,
)

GENERIC = "the curator's side failed; error.txt in the folder of the result says why"

# Puts questions of a kind to owners, by name, and returns the answers of those that gave one.
_Put = Callable[[str, Mapping[str, Any]], dict[str, dict[str, Any]]]


class RunEndedError(ValueError):
    """Why a run ended early, in words that may be told: they hold nothing of any row."""


@dataclass
class FederatedRun:
    """What a run over Flower brought. Holds the owners' rows.

    Parameters
    ----------
    agreement : Agreement
    curator : Curator or None
        Finished, with `chosen`, `y`, `privacy` and `transcript`, and `X` as vectors; None if no
        rows were chosen.
    codes : dict from (owner, index) to ndarray of shape (n_columns,)
        The rows received, as they came.
    sketches : dict from owner to PrivateSketch
        As released.
    left_out : dict from owner to str
        Who is not in the result, at which question, and why.
    rounds : list of Round
        With seconds and bytes.
    """

    agreement: Agreement
    curator: Curator | None = None
    codes: dict[tuple[str, int], NDArray] = field(default_factory=dict, repr=False)
    sketches: dict[str, PrivateSketch] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    @property
    def sketch(self) -> PrivateSketch | None:
        """The sum of all sketches."""
        return merge_sketches(self.sketches) if self.sketches else None

    @property
    def rows(self) -> pa.Table:
        """The chosen rows, in the order chosen, as the schema reads them, with their labels."""
        if self.curator is None:
            raise AttributeError("No rows were chosen, because the agreement has no table `rows`.")
        schema = self.agreement.schema
        codes = [self.codes[origin] for origin in self.curator.chosen]
        cells = cells_of(schema, np.reshape(codes, (len(codes), schema.n_columns)))
        columns = {
            name: to_arrow(column, cells[:, j])
            for j, (name, column) in enumerate(zip(schema.names, schema.columns, strict=True))
        }
        if self.curator.y is not None:
            columns[str(self.agreement.labels)] = pa.array(
                as_agreed(self.curator.y, self.agreement.labels_dtype)
            )
        return pa.table(columns)

    @property
    def active(self) -> list[str]:
        """The owners that are still taking part."""
        return [owner for owner in self.agreement.owners if owner not in self.left_out]

    def leave_out(self, kind: str, faults: Mapping[str, str]) -> None:
        """Note why owners are left out from a question on; the first reason stays."""
        for owner, fault in faults.items():
            self.left_out.setdefault(owner, f"{kind}: {fault}")

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
            "rounds": [
                {
                    "question": r.kind,
                    "seconds": round(r.seconds, 2),
                    "bytes_sent": r.bytes_sent,
                    "bytes_received": r.bytes_received,
                }
                for r in self.rounds
            ],
        }

    def save(self, folder: str | Path) -> None:
        """Write report.json, and the chosen rows and merged.sketch as far as there are any.

        summary.parquet has the rows with their labels, summary.npz whose each is, and which of
        theirs.
        """
        folder = make_folder(folder)
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
        close_files(folder)
        _write_report(folder, self.report())


def run_over_grid(
    agreement: Agreement,
    grid: Grid,
    curator: Curator | None = None,
    *,
    keys: Keys,
    run_id: int,
    timeout: float = 600.0,
    wait: float = 60.0,
    min_owners: int = 1,
) -> FederatedRun:
    """Have the agreement signed off, then ask for rows, sketches or both.

    Parameters
    ----------
    agreement : Agreement
    grid : Grid
        Of Flower.
    curator : Curator or None
        Not opened yet, made by ``agreement.curator(...)``. It is opened, and the ledger
        of the target charged, once `min_owners` have signed.
    keys : Keys
        The curator's.
    run_id : int
        Flower's.
    timeout : float, default=600.0
        Seconds to wait for the answers to each question. Who is later, crashes or sends rubbish is
        left out from then on.
    wait : float, default=60.0
        Seconds to wait for owners to connect.
    min_owners : int, default=1
        Fewer that sign off end the run, before anything is spent.

    Returns
    -------
    FederatedRun

    Raises
    ------
    RunEndedError
        If fewer than `min_owners` signed off, or none is left.
    """
    if curator is not None and curator.terms.max_rows_per_group is not None:
        raise ValueError(
            "Make the curator with max_rows_per_group=None, to protect single rows: over Flower, "
            "owners cannot protect groups, and would not answer with "
            f"max_rows_per_group={curator.terms.max_rows_per_group!r}."
        )
    if not min_owners >= 1:  # with none, the target would be charged and nobody asked
        raise RunEndedError(f"min_owners must be at least 1, got {min_owners}.")
    if not keys.are(agreement.keys[CURATOR]):
        raise RunEndedError("keys must be the curator's keys in the agreement.")
    run, desk = FederatedRun(agreement, curator), Desk(agreement, keys, run_id)
    nodes, missing = find_nodes(grid, agreement.owners, wait)
    run.leave_out("sign", missing)

    def put(kind: str, questions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        outcome = desk.ask(grid, nodes, kind, questions, timeout)
        run.rounds.append(outcome)
        run.leave_out(kind, outcome.faults)
        return outcome.answers

    _sign(run, put)
    if len(run.active) < min_owners:
        raise RunEndedError(
            f"{len(run.active)} of {len(agreement.owners)} owners signed off, fewer than "
            f"min_owners={min_owners}; nothing was spent. {run.left_out}"
        )
    if curator is not None:
        _choose_rows(run, curator, put)
    if agreement.sketch is not None:
        _gather_sketches(run, put)
    return run


def _sign(run: FederatedRun, put: _Put) -> None:
    for owner, content in put("sign", {owner: {} for owner in run.active}).items():
        wanted = {"kind": "SignOff", "owner": owner, "agreement": run.agreement.digest}
        if describe(content) != wanted:  # which holds no arrays, whose comparison has no one truth
            run.leave_out("sign", {owner: "signed something else off"})


def _choose_rows(run: FederatedRun, curator: Curator, put: _Put) -> None:
    """Carry messages as `run_protocol` does, but over the grid."""
    agreement = run.agreement
    labels = agreement.labels_dtype if agreement.labels else None
    with one_blas_thread():  # as in one process, so that the same rows are chosen
        messages = curator.open()
        while messages:
            questions = {
                owner: message_content(messages[owner]) for owner in run.active if owner in messages
            }
            sent: dict[str, Rows] = {}
            for owner, content in put("ask", questions).items():
                try:
                    most = messages[owner].most_rows()
                    sent[owner] = rows_of(content, agreement.schema, labels, most)
                except ValueError as error:
                    run.leave_out("ask", {owner: str(error)})
            if not sent:
                raise RunEndedError(f"No owner is left. {run.left_out}")
            vectors = {o: vectors_of(agreement.schema, rows.X) for o, rows in sent.items()}
            messages = curator.receive({o: replace(sent[o], X=X) for o, X in vectors.items()})
            run.leave_out("ask", curator.dropped_owners)
            for owner in set(sent) - set(curator.dropped_owners):  # whose indices are sound
                origins = [(owner, index) for index in sent[owner].indices.tolist()]
                run.codes |= dict(zip(origins, sent[owner].X, strict=True))


def _gather_sketches(run: FederatedRun, put: _Put) -> None:
    for owner, content in put("sketch", {owner: {} for owner in run.active}).items():
        try:
            run.sketches[owner] = sketch_of(content, run.agreement)
        except ValueError as error:
            run.leave_out("sketch", {owner: str(error)})


@dataclass(frozen=True, kw_only=True)
class CuratorSite:
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

    @classmethod
    def load(cls, path: str | os.PathLike) -> CuratorSite:
        """Read a curator's TOML file; relative paths in it start at its folder."""
        files = {"agreement", "keys", "result", "target", "ledger"}
        needed = {"agreement", "keys", "result"}
        return load_settings(Path(path).expanduser().absolute(), cls, needed, files)

    @property
    def tickets(self) -> Path:
        """The folder of the runs that this user has started, and nobody else can."""
        return self.result / "tickets"

    def check_space(self) -> None:
        """Raise OSError if the disk has no room for a result, before anything is spent for it."""
        ours = Agreement.load(self.agreement)
        rooms = [Rooms(ours, owner) for owner in ours.owners]
        size = 0 if ours.rows is None else sum(room.answer("ask") for room in rooms)
        size += 0 if ours.sketch is None else rooms[0].answer("sketch")  # their sum is no longer
        check_space(make_folder(self.result), size + BYTES_OF_RECORDS)

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
            make_folder(folder, new=True)  # no run is done twice
        except OSError:
            raise RuntimeError("Start the run with the curator's command `run`.") from None
        output = (folder / "output.txt").open("x")
        try:
            with output, redirect_stdout(output), redirect_stderr(output):
                self._run(grid, run_id).save(folder)
        except BaseException as error:
            write_file(folder / "error.txt", traceback.format_exc())
            close_files(folder)
            _write_report(folder, {"error": _told(error)})
            raise RuntimeError(GENERIC) from None

    def _run(self, grid: Grid, run_id: int) -> FederatedRun:
        agreement = Agreement.load(self.agreement)
        # A ledger that is too full is told here, before any owner is asked for anything.
        curator = None if agreement.rows is None else self._make_curator(agreement)
        return run_over_grid(
            agreement,
            grid,
            curator,
            keys=Keys.load(self.keys),
            run_id=run_id,
            timeout=self.timeout,
            wait=self.wait,
            min_owners=self.min_owners,
        )

    def _make_curator(self, agreement: Agreement) -> Curator:
        if self.target is None:
            raise RunEndedError(
                "Set `target`, the table to match: under the agreement, rows are chosen."
            )
        # Before the target is read.
        ledger = None if self.ledger is None else PrivacyLedger.open(self.ledger)
        try:
            check_table(self.target, agreement, labels=False)
        except Refusal as refusal:
            raise RunEndedError(f"The target does not fit the agreement: {refusal}.") from None
        codes, _ = read_table(self.target, agreement, labels=False)
        target = vectors_of(agreement.schema, codes)
        with nullcontext() if self.seed is None else simulation(self.seed):
            curator = agreement.curator(target, ledger=ledger)
        if ledger is not None and curator.cost != COSTS_NOTHING:
            ledger.check(PrivacyGuarantee(curator.cost, curator.terms.adjacency))
        return curator


def _told(error: BaseException) -> str:
    """Return the text of an error for the report; those of others may hold values of the target."""
    return str(error) if isinstance(error, RunEndedError | BudgetExceededError) else GENERIC


def _write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Write it last of all, and in one step: a report that is there is complete."""
    write_file(make_folder(folder) / "report.json", json.dumps(report, indent=2) + "\n")


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


def sketch_of(content: Mapping[str, Any], agreement: Agreement) -> PrivateSketch:
    """Return the sketch that an owner sent, if it is what was agreed.

    Raises
    ------
    ValueError
        If it is no sketch (`PrivateSketch.load` says what is none), is larger than what was
        agreed, or has another map, noise or guarantee.
    """
    octets, ours = content.get("file"), empty_sketch(agreement)
    if content.get("kind") != "Sketch" or not isinstance(octets, np.ndarray):
        raise ValueError("sent no sketch")
    if octets.nbytes > size_of_sketch(ours):
        raise ValueError("sent a sketch of another size than agreed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sketch"
        path.write_bytes(octets.tobytes())
        try:
            sketch = PrivateSketch.load(path)
        except ValueError as error:
            raise ValueError("sent no sketch") from error
    if not sketch.feature_map.same_as(ours.feature_map):
        raise ValueError("sent a sketch with another feature map than agreed")
    if _claim(sketch.privacy) != _claim(ours.privacy) or not _same_noise(sketch, ours):
        raise ValueError("sent a sketch with other noise than agreed")
    return sketch


def _claim(privacy: PrivacyGuarantee) -> dict[str, Any]:
    return {k: v for k, v in privacy.to_dict().items() if k != "simulated"}


def _same_noise(a: PrivateSketch, b: PrivateSketch) -> bool:
    return bool(
        a.postprocess == b.postprocess
        and a.n_from_sums == b.n_from_sums
        and np.allclose(a.noise_std, b.noise_std)
        and np.isclose(a.n_noise_std, b.n_noise_std)
    )
