"""The owner's side: checks what comes, counts it, writes it down, and lets `DataOwner` answer."""

from __future__ import annotations

import json
import os
import tomllib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._computing import one_blas_thread
from ..privacy import BudgetExceededError, PrivacyLedger
from ..schema._schema import first_difference
from ..sketches import PrivateSketch
from ..summaries import DataOwner
from ..summaries._protocol import ProposeRows
from ._agreement import Agreement
from ._owner_log import GENERIC, OwnerLog, Refusal
from ._table import cells_of, check_table, read_table, vectors_of
from ._wire import describe, digest, message_of, rows_content

_NO_LEDGER = "ledger: the owner has none, and no sketch is made without"


@dataclass(frozen=True, kw_only=True)
class OwnerSite:
    """What one owner has at home. Holds private data.

    Parameters
    ----------
    name : str
        As the curator registered it.
    table : path-like
        A Parquet or CSV file.
    agreement : path-like
        The owner's own copy of the pyproject.toml, which they have read.
    log : path-like
        Of all that came and went: `OwnerLog`.
    max_rows : int, default=0
        Rows that may ever leave, over all runs. 0 lets none go.
    ledger : path-like or None, default=None
        An existing `PrivacyLedger`, charged before a sketch is made; without one, none is.
    seed : int or None, default=None
        For simulations only: of the owner's coins and noise, which are secret otherwise.

    Examples
    --------
    A site answers ``kind`` and content with content::

        site = OwnerSite.load("owner.toml")
        site.answer("sign", run, {"agreement": agreement.to_json()})
    """

    holds_private_data = True

    name: str
    table: Path
    agreement: Path
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
        path = Path(path).expanduser().absolute()
        given = tomllib.loads(path.read_text())
        needed = {"name", "table", "agreement", "log"}
        if not needed <= set(given) <= set(cls.__dataclass_fields__):
            raise ValueError(
                f"{path.name} must have {sorted(needed)}, and may have max_rows, ledger and seed; "
                f"it has {sorted(given)}."
            )
        for key in {"table", "agreement", "log", "ledger"} & set(given):
            given[key] = path.parent / Path(given[key]).expanduser()
        return cls(**given)

    def answer(self, kind: str, run: int, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return what goes back for a question: an answer, or a refusal that tells nothing.

        Parameters
        ----------
        kind : {"sign", "ask", "sketch"}
        run : int
            Flower's id of the run.
        content : mapping
            Scalars and arrays by name.

        Returns
        -------
        dict
            Scalars and arrays by name.
        """
        log = OwnerLog(self.log)
        question = digest({"kind": kind, **content})
        log.add("received", run=run, ask=kind, question=question, content=describe(content))
        try:
            reply = _ANSWERS[kind](self, run, dict(content))
        except Refusal as refusal:
            reason, detail = str(refusal), refusal.detail
        except BaseException:
            # The text of any other error may hold values of the table: it stays here.
            reason, detail = GENERIC, traceback.format_exc()
        else:
            log.add("sent", run=run, question=question, content=describe(reply))
            return reply
        log.add("refused", run=run, question=question, reason=reason, detail=detail)
        return {"kind": "Refusal", "reason": reason}

    def _sign(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Sign the agreement off, if it is the owner's own copy, and the table fits it."""
        try:
            theirs = json.loads(content["agreement"])
        except Exception as error:
            raise Refusal("the agreement cannot be read") from error
        ours = Agreement.load(self.agreement)
        # Compared as it is: to make what a stranger describes may take any memory.
        difference = first_difference(json.loads(ours.to_json()), theirs)
        if difference is not None:
            entry = difference.split(": ")[0]
            raise Refusal(f"the agreement differs from the owner's copy in {entry}", difference)
        self._check(ours)
        if ours.sketch is not None and self.ledger is None:
            raise Refusal(_NO_LEDGER)
        return {"kind": "SignOff", "owner": self.name, "agreement": ours.digest}

    def _ask(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Propose rows."""
        ours = self._signed(content, "rows")
        try:
            message = message_of(content)
        except ValueError as error:
            raise Refusal(str(error)) from error
        _check_question(message, ours)
        OwnerLog(self.log).grant(run, "ask", int(message.most_rows()), self.max_rows)
        codes, y = read_table(self.table, ours)
        with one_blas_thread():
            owner = DataOwner(vectors_of(ours.schema, codes), y, seed=self.seed)
            rows: Any = owner.answer(message)
        return rows_content(replace(rows, X=codes[rows.indices]))

    def _sketch(self, run: int, content: dict[str, Any]) -> dict[str, Any]:
        """Release a sketch, whose noise is drawn here and whose price is charged here."""
        ours = self._signed(content, "sketch")
        if self.ledger is None:
            raise Refusal(_NO_LEDGER)
        folder = self.log.with_name(self.log.name + ".releases")
        path = folder / f"{run}.sketch"
        if not path.exists():  # what was paid for once is sent again, should it get lost
            OwnerLog(self.log).grant(run, "sketch", 0, 0)
            release = self._release(ours, self.ledger)
            folder.mkdir(exist_ok=True)
            release.save(path)
        return {"kind": "Sketch", "file": np.frombuffer(path.read_bytes(), np.uint8)}

    def _release(self, agreement: Agreement, path: Path) -> PrivateSketch:
        ledger = PrivacyLedger.open(path)
        sketcher = agreement.sketcher(ledger=ledger, noise_seed=self.seed)
        codes, _ = read_table(self.table, agreement, labels=False)
        schema = agreement.schema
        cells = cells_of(schema, codes).columns
        try:
            return sketcher.fit(pd.DataFrame(dict(zip(schema.names, cells, strict=True)))).sketch_
        except BudgetExceededError as error:
            raise Refusal("ledger: the owner's budget cannot hold this release") from error

    def _signed(self, content: dict[str, Any], part: str) -> Agreement:
        """Return the owner's copy of the agreement, if the question is asked under it."""
        ours = Agreement.load(self.agreement)
        if content.pop("agreement", None) != ours.digest:
            raise Refusal("the question is asked under another agreement than the owner's copy")
        if getattr(ours, part) is None:
            raise Refusal(f"{part}: the agreement has no such part")
        self._check(ours)
        return ours

    def _check(self, agreement: Agreement) -> None:
        if self.name not in agreement.owners:
            raise Refusal("owners: the agreement does not name this owner")
        check_table(self.table, agreement)


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "sign": OwnerSite._sign,
    "ask": OwnerSite._ask,
    "sketch": OwnerSite._sketch,
}


def _check_question(message: ProposeRows, agreement: Agreement) -> None:
    """Raise Refusal, by name, if a question goes beyond the agreement."""
    if message.most_rows() > agreement.rows_per_owner:
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
