"""Asks another owner for the rows nearest to a point, in every way that an insider has.

They hold the agreement, their own keys, the SuperLink, and sealed questions of earlier runs.
"""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

app = ServerApp()
spy = ClientApp()


@spy.query()
def look(message, context):
    """Would send a table as it is, if the owner's node ran it."""
    table = (Path(context.node_config["owner"]).parent / "table.parquet").read_bytes()
    return Message(RecordDict({"rows": ConfigRecord({"table": table})}), reply_to=message)


def questions(context):
    """Yield the kind and the content of each try."""
    from skdpsumm.federated._agreement import Agreement
    from skdpsumm.federated._envelope import Keys, Letter, seal
    from skdpsumm.federated._wire import carried, encode, question_content, room_of_question

    home = Path(context.run_config["home"])
    ours, keys = Agreement.load(home / "agreement.toml"), Keys.load(home / "keys.pem")
    phi = ours.embedding
    direction = 1e6 * phi.features(np.ones((1, phi.n_columns)))[0].astype(float)
    plan = question_content(ours.question("north", direction, 0.01))
    # As it worked before: in the clear, under the digest that all owners know.
    scalars = ConfigRecord({k: v for k, v in plan.items() if not isinstance(v, np.ndarray)})
    scalars["agreement"] = ours.digest
    arrays = {name: v for name, v in plan.items() if isinstance(v, np.ndarray)}
    record = RecordDict({"scalars": scalars, "arrays": ArrayRecord()})
    for name, array in arrays.items():
        record["arrays"][name] = carried(array.tobytes())["sealed"]["sealed"]
    yield "ask", record
    # Sealed for the north, and signed by an owner who says that they are the curator.
    for sender in ("curator", "east"):
        letter = Letter(ours.digest, context.run_id, 0, "ask", sender, "north")
        room = room_of_question(ours, "ask")
        yield "ask", carried(seal(letter, encode(plan), room, keys, ours.keys["north"]))
    # A question that the curator asked in another run.
    yield "ask", carried(Path(context.run_config["captured"]).read_bytes())
    # A flood: an agreement of five million columns, and more than a log should take.
    columns = json.dumps({"columns": ["x{0..5000000}"]})
    yield "sign", RecordDict({"scalars": ConfigRecord({"agreement": columns})})
    yield "sign", carried(bytes(20_000_000))


@app.main()
def main(grid, context):
    deadline = time.monotonic() + 60
    while not (nodes := list(grid.get_nodes())) and time.monotonic() < deadline:
        time.sleep(0.5)
    messages = [
        Message(content, dst_node_id=nodes[0].node_id, message_type=f"query.{kind}", ttl=200)
        for kind, content in questions(context)
    ]
    got = [told(reply) for reply in grid.send_and_receive(messages, timeout=200)]
    Path(context.run_config["evidence"]).write_text(json.dumps(got))


def told(reply):
    """Return what an answer holds: how many bytes, and any words."""
    kind = reply.metadata.message_type
    if not reply.has_content():
        return kind, 0, str(reply.error)
    arrays = reply.content.array_records.values()
    words = {name: str(part) for name, part in reply.content.config_records.items()}
    return kind, sum(len(array.data) for part in arrays for array in part.values()), words
