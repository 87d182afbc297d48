"""One question to many nodes: who answered in time, and what became of the others."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ._agreement import CURATOR, Agreement
from ._envelope import Keys, Letter, seal, unseal
from ._files import printable
from ._wire import Rooms, carried, decode, encode, uncarried

_LATE = "did not answer within {:g} s"
_NOT_TAKEN = (
    "did not open the question: their copy of the agreement is another one, or names other keys, "
    "or their skdpsumm is of another version. Compare digests with the command `agreement`. If "
    "these are equal, the owner's node failed, and its output says why"
)
_NO_NODE = "is not connected"
_TWO_NODES = "has two nodes that are connected under their name: they must end one"
_POLL_SECONDS = 0.5


@dataclass
class Round:
    """What one question to all brought.

    Parameters
    ----------
    kind : str
    answers : dict from owner to content
    faults : dict from owner to str
        Why there is no answer, in words that hold nothing of what the owner sent but, for
        refusals, the owner's own reason.
    seconds : float
    bytes_sent, bytes_received : int
        Of sealed messages, whose sizes are agreed; without TLS and Flower's own.
    """

    kind: str
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0


def find_nodes(
    grid: Grid, owners: Sequence[str], wait: float
) -> tuple[dict[str, int], dict[str, str]]:
    """Return each owner's node, waiting for all up to `wait` seconds, and who has none, and why.

    An owner is who holds the key that the curator registered under their name. Two nodes of one
    name are none.
    """
    deadline = time.monotonic() + wait
    while True:
        named: dict[str, list[int]] = {}
        for node in grid.get_nodes():
            named.setdefault(node.name, []).append(node.node_id)
        found = {owner: named[owner][0] for owner in owners if len(named.get(owner, [])) == 1}
        if len(found) == len(owners) or time.monotonic() >= deadline:
            others = [owner for owner in owners if owner not in found]
            return found, {o: _TWO_NODES if o in named else _NO_NODE for o in others}
        time.sleep(_POLL_SECONDS)


class Desk:
    """The curator's end of a run: puts questions under seal, and opens the answers.

    Parameters
    ----------
    agreement : Agreement
    keys : Keys
        The curator's.
    run : int
        Flower's id of the run.
    """

    def __init__(self, agreement: Agreement, keys: Keys, run: int):
        self._agreement, self._keys, self._run = agreement, keys, run
        self._counter = 0
        self._rooms = {owner: Rooms(agreement, owner) for owner in agreement.owners}

    def ask(
        self,
        grid: Grid,
        nodes: Mapping[str, int],
        kind: str,
        questions: Mapping[str, Any],
        timeout: float,
    ) -> Round:
        """Send each owner their question, and wait for the answers.

        Parameters
        ----------
        grid : Grid
        nodes : mapping from owner to node id
        kind : {"sign", "ask", "sketch"}
        questions : mapping from owner to content
        timeout : float
            Seconds, for all of them together.

        Returns
        -------
        Round
            With an answer or a fault for every owner asked.
        """
        start, outcome = time.monotonic(), Round(kind)
        sealed = {owner: self._seal(kind, owner, encode(q)) for owner, q in questions.items()}
        messages = [
            Message(
                carried(octets), dst_node_id=nodes[owner], message_type=f"query.{kind}", ttl=timeout
            )
            for owner, octets in sealed.items()
        ]
        outcome.bytes_sent = sum(map(len, sealed.values()))
        pending = dict(zip(questions, grid.push_messages(messages), strict=True))
        for owner in [owner for owner, identifier in pending.items() if identifier is None]:
            del pending[owner]
            outcome.faults[owner] = "could not be reached"
        deadline = time.monotonic() + timeout
        while True:
            # One by one: what one owner sends may be such that reading it fails.
            for owner in list(pending):
                self._collect(grid, owner, sealed[owner], pending, outcome)
            if not pending or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        self._counter += 1
        outcome.faults |= dict.fromkeys(pending, _LATE.format(timeout))
        outcome.seconds = time.monotonic() - start
        return outcome

    def _collect(
        self, grid: Grid, owner: str, question: bytes, pending: dict[str, str], outcome: Round
    ) -> None:
        """Take one owner's answer, if it is there."""
        try:
            replies = list(grid.pull_messages([pending[owner]]))
            if not replies:
                return
            octets = _octets(replies[0])
            outcome.bytes_received += len(octets)
            content = decode(self._unseal(outcome.kind, owner, question, octets))
            if not isinstance(content.get("kind"), str):  # an array has no one truth when compared
                raise ValueError("The answer is of no kind.")
        except httpx.HTTPError:
            raise  # the SuperLink's, not the owner's
        except _FlowerError as error:
            outcome.faults[owner] = str(error)
        except Exception:
            outcome.faults[owner] = "sent what cannot be read"
        else:
            if content.get("kind") == "Refusal":
                reason = printable(str(content.get("reason")))[:300] or "no reason given"
                outcome.faults[owner] = f"refused: {reason}"
            else:
                outcome.answers[owner] = content
        del pending[owner]

    def _seal(self, kind: str, owner: str, content: bytes) -> bytes:
        letter = Letter(self._agreement.digest, self._run, self._counter, kind, CURATOR, owner)
        room, receiver = self._rooms[owner].question(kind), self._agreement.keys[owner]
        return seal(letter, content, room, self._keys, receiver)

    def _unseal(self, kind: str, owner: str, question: bytes, octets: bytes) -> bytes:
        if not octets:
            raise _FlowerError(_NOT_TAKEN)
        digest = hashlib.sha256(question).hexdigest()
        place = self._agreement.digest, self._run, self._counter, kind
        letter = Letter(*place, sender=owner, receiver=CURATOR, question=digest)
        room, sender = self._rooms[owner].answer(kind), self._agreement.keys[owner]
        return unseal(letter, octets, room, self._keys, sender)


class _FlowerError(Exception):
    """Why there is no answer, though a message came back."""


def _octets(reply: Message) -> bytes:
    if reply.has_error():
        names = {code: name for name, code in vars(ErrorCode).items() if isinstance(code, int)}
        name = names.get(reply.error.code, "unknown")
        raise _FlowerError(f"did not answer (Flower says {name})")
    return uncarried(reply.content)
