"""What ``flwr run`` starts: `curator` where the SuperLink is, `owner` at every SuperNode."""

from __future__ import annotations

from functools import partial
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


# To sign the agreement off, to propose rows, to release a private sketch; or to refuse.
for kind in ("sign", "ask", "sketch"):
    owner.query(kind)(partial(_answer, kind))


@curator.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one run out, and write its result."""
    run_app(grid, context)
