"""What ``flwr run`` starts: `curator` where the SuperLink is, `owner` at every SuperNode."""

from __future__ import annotations

from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ._curator import run_app
from ._owner_log import GENERIC
from ._site import OwnerSite
from ._wire import pack, unpack

owner = ClientApp()
curator = ServerApp()


def _answer(kind: str, message: Message, context: Context) -> Message:
    try:
        site = OwnerSite.load(str(context.node_config["owner"]))
        reply = pack(site.answer(kind, message.metadata.run_id, _content(message)))
    except BaseException:
        # Flower would send the text of the error to the curator.
        reply = pack({"kind": "Refusal", "reason": GENERIC})
    return Message(reply, reply_to=message)


def _content(message: Message) -> dict[str, Any]:
    try:
        return unpack(message.content)
    except ValueError:
        return {}  # is logged, and refused for what it lacks


@owner.query("sign")
def sign(message: Message, context: Context) -> Message:
    """Sign the agreement off, or refuse."""
    return _answer("sign", message, context)


@owner.query("ask")
def ask(message: Message, context: Context) -> Message:
    """Propose rows, or refuse."""
    return _answer("ask", message, context)


@owner.query("sketch")
def sketch(message: Message, context: Context) -> Message:
    """Release a private sketch, or refuse."""
    return _answer("sketch", message, context)


@curator.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one run out, and write its result."""
    run_app(grid, context)
