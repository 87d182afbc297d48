"""The curator's side: `Curator` and sketches, asked for over Flower's grid."""

from __future__ import annotations

import hashlib
import json
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
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
from ..privacy import BudgetExceededError, PrivacyLedger, simulation
from ..sketches import PrivateSketch
from ..summaries import Curator
from ..summaries._public_groups import claim_of_sum
from ..summaries._releases import COSTS_NOTHING
from ._agreement import CURATOR, Agreement
from ._envelope import Keys
from ._files import BYTES_OF_RECORDS, Settings, check_space, make_folder, write_file
from ._grid import Desk
from ._owner_log import Refusal
from ._table import check_table, read_table, to_arrow, vectors_of
from ._wire import describe, message_content, room_of_answer, rows_of

GENERIC = "the curator's side failed; error.txt in the folder of the result says why"


class RunEndedError(ValueError):
    """Why a run ended early, in words that may be told: they hold nothing of any row."""


class FederatedRun(Desk):
    """A run over Flower, and what it brought. Holds the owners' rows.

    Parameters
    ----------
    agreement, grid, keys, run, timeout : see `Desk`
    curator : Curator or None, default=None
        Not opened yet, made by ``agreement.curator(...)``. None chooses no rows.

    Attributes
    ----------
    codes : dict from (owner, index) to ndarray of shape (n_columns,)
        The rows received, as they came.
    sketches : dict from owner to PrivateSketch
        As released.
    """

    def __init__(self, *place: Any, curator: Curator | None = None):
        super().__init__(*place)
        self.curator = curator
        self.codes: dict[tuple[str, int], NDArray] = {}
        self.sketches: dict[str, PrivateSketch] = {}

    @property
    def sketch(self) -> PrivateSketch | None:
        """The sum of all sketches."""
        return merge_sketches(self.sketches) if self.sketches else None

    @property
    def rows(self) -> pa.Table:
        """The chosen rows, in the order chosen, as the schema reads them, with their labels."""
        codes = [self.codes[origin] for origin in self.curator.chosen]
        n_columns = self.agreement.schema.n_columns
        return to_arrow(self.agreement.schema, np.reshape(codes, (len(codes), n_columns)))

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
        RunEndedError
            If fewer than `min_owners` signed off, or none is left.
        """
        curator = self.curator
        if curator is not None and curator.terms.max_rows_per_group is not None:
            raise ValueError(
                "Make the curator with max_rows_per_group=None, to protect single rows: over "
                "Flower, owners cannot protect groups, and would not answer with "
                f"max_rows_per_group={curator.terms.max_rows_per_group!r}."
            )
        if not min_owners >= 1:  # with none, the target would be charged and nobody asked
            raise RunEndedError(f"min_owners must be at least 1, got {min_owners}.")
        if not self._keys.are(self.agreement.keys[CURATOR]):
            raise RunEndedError("keys must be the curator's keys in the agreement.")
        self.find_nodes(wait)
        signed = self.ask("sign", self._to_all(), self._read_signature)
        if len(signed) < min_owners:
            raise RunEndedError(
                f"{len(signed)} of {len(self.agreement.owners)} owners signed off, fewer than "
                f"min_owners={min_owners}; nothing was spent. {self.left_out}"
            )
        if curator is not None:
            self._choose_rows(curator)
        if self.agreement.sketch is not None:
            self.sketches = self.ask("sketch", self._to_all(), self._read_sketch)
        return self

    def _to_all(self) -> dict[str, dict[str, Any]]:
        return {owner: {} for owner in self.active}

    def _read_signature(self, owner: str, content: dict[str, Any]) -> None:
        wanted = {"kind": "SignOff", "owner": owner, "agreement": self.agreement.digest}
        if describe(content) != wanted:  # which holds no arrays, whose comparison has no one truth
            raise ValueError("signed something else off")

    def _read_sketch(self, _: str, content: dict[str, Any]) -> PrivateSketch:
        return sketch_of(content, self.agreement)

    def _choose_rows(self, curator: Curator) -> None:
        """Carry messages as `run_protocol` does, but over the grid."""
        ours = self.agreement
        with one_blas_thread():  # as in one process, so that the same rows are chosen
            messages = curator.open()
            while messages:
                asked = {o: message for o, message in messages.items() if o in self.active}
                sent = self.ask(
                    "ask",
                    {owner: message_content(message) for owner, message in asked.items()},
                    lambda o, content: rows_of(content, ours.schema, asked[o].most_rows()),  # noqa: B023
                )
                if not sent:
                    raise RunEndedError(f"No owner is left. {self.left_out}")
                vectors = {
                    o: vectors_of(ours.features, r.X[:, ours.positions]) for o, r in sent.items()
                }
                messages = curator.receive({o: replace(sent[o], X=X) for o, X in vectors.items()})
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
        _write_report(folder, self.report())


@dataclass(frozen=True, kw_only=True)
class CuratorSite(Settings):
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
            size += sum(room_of_answer(ours, "ask", owner) for owner in ours.owners)
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
            # The texts of other errors may hold values of the target.
            is_told = isinstance(error, RunEndedError | BudgetExceededError)
            _write_report(folder, {"error": str(error) if is_told else GENERIC})
            raise RuntimeError(GENERIC) from None

    def _run(self, grid: Grid, run_id: int) -> FederatedRun:
        agreement = Agreement.load(self.agreement)
        # A ledger that is too full is told here, before any owner is asked for anything.
        curator = None if agreement.rows is None else self._make_curator(agreement)
        place = agreement, Keys.load(self.keys), grid, run_id, self.timeout
        return FederatedRun(*place, curator=curator).carry_out(self.wait, self.min_owners)

    def _make_curator(self, agreement: Agreement) -> Curator:
        if self.target is None:
            raise RunEndedError(
                "Set `target`, the table to match: under the agreement, rows are chosen."
            )
        # Before the target is read.
        ledger = None if self.ledger is None else PrivacyLedger.open(self.ledger)
        try:
            check_table(self.target, agreement.features, agreement.schema.names)
        except Refusal as refusal:
            raise RunEndedError(f"The target does not fit the agreement: {refusal}.") from None
        target = vectors_of(agreement.features, read_table(self.target, agreement.features))
        with nullcontext() if self.seed is None else simulation(self.seed):
            curator = agreement.curator(target, ledger=ledger)
        if ledger is not None and curator.cost != COSTS_NOTHING:
            ledger.check(curator.cost, adjacency=curator.terms.adjacency)
        return curator


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
    octets, ours = content.get("file"), agreement.empty_sketch
    if content["kind"] != "Sketch" or not isinstance(octets, np.ndarray):
        raise ValueError("sent no sketch")
    if octets.nbytes > agreement.bytes_of_sketch:
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
    noise = sketch.noise_std, sketch.n_noise_std
    if _claim(sketch) != _claim(ours) or not all(
        map(np.allclose, noise, (ours.noise_std, ours.n_noise_std))
    ):
        raise ValueError("sent a sketch with other noise than agreed")
    return sketch


def _claim(sketch: PrivateSketch) -> dict[str, Any]:
    """Return what a sketch says of itself and of its noise, whether it is simulated or not."""
    claim = {k: v for k, v in sketch.privacy.to_dict().items() if k != "simulated"}
    return claim | {"postprocess": sketch.postprocess, "n_from_sums": sketch.n_from_sums}
