"""One question to many nodes: who answered in time, and what became of the others."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ._agreement import CURATOR, Agreement
from ._envelope import Keys, Letter, seal, unseal
from ._files import printable
from ._wire import carried, decode, encode, room_of_answer, room_of_question, uncarried

_NOT_TAKEN = (
    "did not open the question: their copy of the agreement is another one, or names other keys, "
    "or their skdpsumm is of another version. Compare digests with the command `agreement`. If "
    "these are equal, the owner's node failed, and its output says why"
)
_TWO_NODES = "has two nodes that are connected under their name: they must end one"
_POLL_SECONDS = 0.5


class Fault(ValueError):
    """Why there is no answer, in words without anything of what the owner sent.

    For refusals, it is the owner's own reason.
    """


class Desk:
    """The curator's end of a run: puts questions under seal, and opens the answers.

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

    Attributes
    ----------
    left_out : dict from owner to str
        Who takes part no more, since which question, and why.
    rounds : list of dict
        The questions, and the seconds that they took.
    """

    def __init__(self, agreement: Agreement, keys: Keys, grid: Grid, run: int, timeout: float):
        self.agreement, self._keys, self._grid = agreement, keys, grid
        self._run, self._timeout = run, timeout
        self._nodes: dict[str, int] = {}
        self.left_out: dict[str, str] = {}
        self.rounds: list[dict[str, Any]] = []

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
            for node in self._grid.get_nodes():
                named.setdefault(node.name, []).append(node.node_id)
            self._nodes = {owner: named[owner][0] for owner in owners if len(named[owner]) == 1}
            if len(self._nodes) == len(owners) or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        missing = [owner for owner in owners if owner not in self._nodes]
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
            Takes an owner and the content of their answer. Returns what it says, or raises
            ValueError in words that hold nothing of it.
        """
        start, answers = time.monotonic(), {}
        sealed = {owner: self._sealed(kind, owner, content) for owner, content in questions.items()}
        messages = [
            Message(
                carried(octets),
                dst_node_id=self._nodes[owner],
                message_type=f"query.{kind}",
                ttl=self._timeout,
            )
            for owner, octets in sealed.items()
        ]
        pending = dict(zip(questions, self._grid.push_messages(messages), strict=True))
        while pending:
            is_late = time.monotonic() >= start + self._timeout
            # One by one: what one owner sends may be such that reading it fails.
            for owner, identifier in list(pending.items()):
                try:
                    content = self._collected(kind, owner, identifier, sealed[owner])
                    if content is None:
                        continue
                    answers[owner] = read(owner, content)
                except ValueError as error:
                    self.leave_out(kind, {owner: error})
                del pending[owner]
            if is_late:
                break
            time.sleep(_POLL_SECONDS * bool(pending))
        late = f"did not answer within {self._timeout:g} s"
        self.leave_out(kind, dict.fromkeys(pending, late))
        seconds = round(time.monotonic() - start, 2)
        self.rounds.append({"question": kind, "seconds": seconds})
        return answers

    def _collected(
        self, kind: str, owner: str, identifier: str | None, question: bytes
    ) -> dict[str, Any] | None:
        """Return the content of an answer, None if it is not there yet, or raise Fault."""
        if identifier is None:
            raise Fault("could not be reached")
        try:
            replies = list(self._grid.pull_messages([identifier]))
            content = self._opened(kind, owner, question, replies[0]) if replies else None
        except (httpx.HTTPError, Fault):
            raise  # the first is the SuperLink's, not the owner's
        except Exception:
            raise Fault("sent what cannot be read") from None
        if content is not None and content["kind"] == "Refusal":
            reason = printable(str(content.get("reason")))[:300] or "no reason given"
            raise Fault(f"refused: {reason}")
        return content

    def _letter(self, kind: str, sender: str, receiver: str, question: str = "") -> Letter:
        place = self.agreement.digest, self._run, len(self.rounds), kind
        return Letter(*place, sender, receiver, question)

    def _sealed(self, kind: str, owner: str, content: Mapping[str, Any]) -> bytes:
        room, receiver = room_of_question(self.agreement, kind), self.agreement.keys[owner]
        return seal(self._letter(kind, CURATOR, owner), encode(content), room, self._keys, receiver)

    def _opened(self, kind: str, owner: str, question: bytes, reply: Message) -> dict[str, Any]:
        if reply.has_error():
            names = {code: name for name, code in vars(ErrorCode).items() if isinstance(code, int)}
            name = names.get(reply.error.code, "unknown")
            raise Fault(f"did not answer (Flower says {name})")
        if not (octets := uncarried(reply.content)):
            raise Fault(_NOT_TAKEN)
        letter = self._letter(kind, owner, CURATOR, hashlib.sha256(question).hexdigest())
        room, sender = room_of_answer(self.agreement, kind, owner), self.agreement.keys[owner]
        content = decode(unseal(letter, octets, room, self._keys, sender))
        if not isinstance(content.get("kind"), str):  # an array has no one truth when compared
            raise ValueError("The answer is of no kind.")
        return content
