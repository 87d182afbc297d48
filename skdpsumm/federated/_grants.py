"""What an owner has signed and let go: the record that decides what is answered."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from ..privacy import PrivacyLedger, PureDP
from ._files import locked

GENERIC = "the owner's side failed; the owner's log, or the output of their node, says why"


class Refusal(ValueError):
    """Why a party does not answer, take an answer or go on, in words that others may read.

    Its text consists of what all have agreed on (names of columns, of parameters), and never of
    anything read off a table or a message. The texts of all other exceptions stay at home:
    others get `GENERIC` in their place.
    """


class Grants:
    """The grants of one owner, in a ledger's file: chained, locked, and on disk before an answer.

    Each run has one answer of each kind: its signature ("sign"), rows ("ask") and a sketch. Each is
    one entry, written before the answer is made. A crash in between leaves an entry without an
    answer, and the entry counts: what is granted is never granted twice.

    An entry of rows states the price of rows in the clear, an infinite epsilon, and the others 0: a
    sketch is charged to the owner's `ledger`. So the file is a `PrivacyLedger` with
    ``epsilon=np.inf``, and whatever damages it is told: entries that are changed, cut off, moved or
    missing, and a file that is emptied or gone. Digests are not signatures. Whoever can write the
    file can put back an old copy, or write all of it anew, and nothing here can tell.

    Parameters
    ----------
    path : path-like
        A file that `make` made.
    max_rows : int, default=0
        Rows that all runs together may take.
    max_runs : int or None, default=None
        Runs that may take anything. None allows all.

    Raises
    ------
    FileNotFoundError
        If it is gone: then nothing is granted.
    LedgerDamagedError
        If it is damaged, by this and by all methods.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdpsumm.federated._grants import Grants
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Grants.make(Path(folder) / "grants")
    ...     grants = Grants(Path(folder) / "grants", max_rows=100)
    ...     grants.grant(1, "sign", "ab12")
    ...     grants.grant(1, "ask", "ab12", 80)
    ...     grants.n_rows, grants.runs
    (80, {1})
    """

    def __init__(self, path: str | os.PathLike, max_rows: int = 0, max_runs: int | None = None):
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"There is no record of grants {path}, so nothing is granted. Put back the file "
                "that the command `new` made. A new one forgets what was let go."
            )
        self._ledger = PrivacyLedger.open(path)
        self._lock = f"{os.path.realpath(path)}.lock"
        self.max_rows, self.max_runs = max_rows, max_runs

    @staticmethod
    def make(path: str | os.PathLike) -> None:
        """Make a new record, for this user's eyes only."""
        PrivacyLedger(path, epsilon=math.inf)

    def entries(self) -> list[dict[str, Any]]:
        """Return what was granted, in order: `run`, `ask`, `agreement` (its digest) and `rows`."""
        return [json.loads(entry["label"]) for entry in self._ledger.entries()]

    @property
    def n_rows(self) -> int:
        """Rows that were let go so far."""
        return sum(entry["rows"] for entry in self.entries())

    @property
    def runs(self) -> set[int]:
        """Runs that had an answer with rows or a sketch. Signatures take nothing."""
        return {entry["run"] for entry in self.entries() if entry["ask"] != "sign"}

    def check_room(self, run: int, n_rows: int) -> None:
        """Raise Refusal, by name, if a run may not take `n_rows`, or is one too many."""
        if n_rows and self.n_rows + n_rows > self.max_rows:
            raise Refusal(f"max_rows: the owner does not let {n_rows} more rows go")
        if self.max_runs is not None and len(self.runs | {run}) > self.max_runs:
            raise Refusal("max_runs: the owner takes part in no more runs")

    def check_signed(self, run: int, agreement: str) -> None:
        """Raise Refusal unless this owner has signed this agreement off in this run."""
        signed = {"run": run, "ask": "sign", "agreement": agreement, "rows": 0}
        if signed not in self.entries():
            raise Refusal("sign: this owner has not signed the agreement off in this run")

    def grant(self, run: int, ask: str, agreement: str, n_rows: int = 0) -> None:
        """Write down that a run has its one answer of a kind, and may take rows along.

        Under a lock beside the file, which nodes may share: each counts what others have granted.

        Parameters
        ----------
        run : int
            Flower's id of the run.
        ask : {"sign", "ask", "sketch"}
        agreement : str
            Digest of the agreement that the owner has signed, or signs hereby.
        n_rows : int, default=0

        Raises
        ------
        Refusal
            If the run has had its answer, or there is no room for it.
        """
        with locked(self._lock):
            if any((entry["run"], entry["ask"]) == (run, ask) for entry in self.entries()):
                raise Refusal(
                    f"{ask!r} was asked before in this run, and has one answer a run. If none "
                    "came, it was lost after it was granted, and counts: start a new run"
                )
            self.check_room(run, n_rows)
            entry = {"run": run, "ask": ask, "agreement": agreement, "rows": n_rows}
            self._ledger.charge(PureDP(math.inf if n_rows else 0.0), label=json.dumps(entry))
