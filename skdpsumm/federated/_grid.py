"""One question to many nodes: who answered in time, and what became of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ._wire import pack, unpack

_LATE = "did not answer within {:g} s"
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
        Of scalars and arrays; without TLS and Flower's own.
    """

    kind: str
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0


def find_nodes(grid: Grid, owners: Sequence[str], wait: float) -> dict[str, int]:
    """Return the node of each owner that is connected, waiting for all up to `wait` seconds.

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
            return found
        time.sleep(_POLL_SECONDS)


def ask(
    grid: Grid, nodes: Mapping[str, int], kind: str, questions: Mapping[str, Any], timeout: float
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
    messages = [
        Message(pack(content), dst_node_id=nodes[owner], message_type=f"query.{kind}", ttl=timeout)
        for owner, content in questions.items()
    ]
    outcome.bytes_sent = sum(_size(message.content) for message in messages)
    pending = dict(zip(questions, grid.push_messages(messages), strict=True))
    for owner in [owner for owner, identifier in pending.items() if identifier is None]:
        del pending[owner]
        outcome.faults[owner] = "could not be reached"
    deadline = time.monotonic() + timeout
    while True:
        # One by one: what one owner sends may be such that reading it fails.
        for owner in list(pending):
            _collect(grid, owner, pending, outcome)
        if not pending or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_SECONDS)
    outcome.faults |= dict.fromkeys(pending, _LATE.format(timeout))
    outcome.seconds = time.monotonic() - start
    return outcome


def _collect(grid: Grid, owner: str, pending: dict[str, str], outcome: Round) -> None:
    """Take one owner's answer, if it is there."""
    try:
        replies = list(grid.pull_messages([pending[owner]]))
        if not replies:
            return
        content = _content(replies[0])
    except httpx.HTTPError:
        raise  # the SuperLink's, not the owner's
    except _FlowerError as error:
        outcome.faults[owner] = str(error)
    except Exception:
        outcome.faults[owner] = "sent what cannot be read"
    else:
        outcome.bytes_received += _size(replies[0].content)
        if content.get("kind") == "Refusal":
            outcome.faults[owner] = f"refused: {_printable(content.get('reason'))}"
        else:
            outcome.answers[owner] = content
    del pending[owner]


class _FlowerError(Exception):
    """An answer that Flower gave in the owner's place."""


def _content(reply: Message) -> dict[str, Any]:
    if reply.has_error():
        names = {code: name for name, code in vars(ErrorCode).items() if isinstance(code, int)}
        name = names.get(reply.error.code, "unknown")
        raise _FlowerError(f"did not answer (Flower says {name})")
    return unpack(reply.content)


def _printable(reason: Any) -> str:
    text = "".join(c for c in str(reason) if c.isprintable())
    return text[:300] or "no reason given"


def _size(record: RecordDict) -> int:
    arrays = sum(len(a.data) for part in record.array_records.values() for a in part.values())
    texts = [str(item) for part in record.config_records.values() for item in part.items()]
    return arrays + sum(len(text.encode()) for text in texts)
