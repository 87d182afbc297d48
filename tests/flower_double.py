"""Flower's grid without Flower's processes: messages go through its wire format and its app."""

from types import SimpleNamespace

import skdpsumm.federated  # isort: skip  # noqa: F401  (before flwr, whose telemetry it turns off)
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.supercore.task_identity import TaskIdentity

from skdpsumm.federated import apps


class GridDouble:
    """Owners answer at once, each with the app that runs at a SuperNode.

    Parameters
    ----------
    homes : dict from owner to path of their owner.toml
    odd : dict from owner to callable
        In the place of their app: takes the question's kind, and returns a reply's content, or an
        `flwr.app.Error`, or None for no answer.
    """

    def __init__(self, homes, odd=(), run_id=1):
        self.homes, self.odd, self.run_id = homes, dict(odd), run_id
        self.ids = {name: 100 + k for k, name in enumerate(homes)}
        self.replies = {}
        self.asked = []
        # What every process of Flower knows of itself.
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = run_id, 1, 1

    def get_nodes(self):
        return [SimpleNamespace(name=n, node_id=i) for n, i in self.ids.items()]

    def push_messages(self, messages):
        names = {i: n for n, i in self.ids.items()}
        return [self._push(names[m.metadata.dst_node_id], m) for m in messages]

    def pull_messages(self, message_ids):
        return [self.replies.pop(i) for i in message_ids if i in self.replies]

    def _push(self, name, message):
        kind = message.metadata.message_type.removeprefix("query.")
        self.asked.append((name, kind))
        message.metadata.__dict__["_message_id"] = f"{name}-{kind}-{len(self.asked)}"
        message.metadata.__dict__["_run_id"] = self.run_id
        message.content = wired(message.content)
        reply = self._reply(name, kind, message)
        if reply is not None:
            self.replies[message.metadata.message_id] = reply
        return message.metadata.message_id

    def _reply(self, name, kind, message):
        if name in self.odd:
            content = self.odd[name](kind)
            if content is not NotImplemented:
                return None if content is None else Message(content, reply_to=message)
        context = Context(self.run_id, 1, {"owner": str(self.homes[name])}, RecordDict(), {})
        reply = apps.owner(message, context)
        reply.content = wired(reply.content)
        return reply


def wired(record):
    """Return a record as it comes out at the other end."""
    return recorddict_from_proto(recorddict_to_proto(record))
