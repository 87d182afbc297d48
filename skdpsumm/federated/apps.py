"""What a run starts: `curator` where the SuperLink is, `owner` at every SuperNode."""

from __future__ import annotations

import os
import traceback
from functools import partial

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ._curator import CuratorSite
from ._site import NOT_TAKEN, OwnerSite
from ._wire import carried, uncarried

# Names the curator's file to the app: nothing that comes with a run does.
CURATOR_FILE = "SKDPSUMM_CURATOR"

owner = ClientApp()
curator = ServerApp()


def _answer(kind: str, message: Message, context: Context) -> Message:
    try:
        site = OwnerSite.load(str(context.node_config["owner"]))
        reply = site.answer(kind, message.metadata.run_id, uncarried(message.content))
    except BaseException:
        traceback.print_exc()  # at home; Flower would send the text of the error to the curator
        reply = NOT_TAKEN
    return Message(carried(reply), reply_to=message)


# To sign the agreement off, to propose rows, to release a private sketch; or to refuse.
for kind in ("sign", "ask", "sketch"):
    owner.query(kind)(partial(_answer, kind))


@curator.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one run out, and write its result."""
    site = CuratorSite.load(os.environ[CURATOR_FILE])
    site.run(grid, context.run_id, str(context.run_config.get("ticket")))
