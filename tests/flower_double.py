"""Flower's grid without Flower's processes: messages go through its wire format and its app."""

import threading
import time
from types import SimpleNamespace

import skdpsumm.federated  # isort: skip  # noqa: F401  (before flwr, whose telemetry it turns off)
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.supercore.task_identity import TaskIdentity

from skdpsumm.federated._site import OwnerSite, owner_app
from skdpsumm.federated._wire import carried, uncarried


class GridDouble:
    """Owners answer at once, each with the app that runs at a SuperNode.

    Parameters
    ----------
    homes : dict from owner to path of their owner.toml
    odd : dict from owner to callable
        In the place of their app: takes the question's kind, and returns the content of an answer,
        which is sealed as the owner's own are, or its bytes, or an `flwr.app.Error`, or None for no
        answer, or NotImplemented for what the app would say.
    """

    def __init__(self, homes, odd=(), run_id=1):
        self.homes, self.odd, self.run_id = homes, dict(odd), run_id
        self.ids = {name: 100 + k for k, name in enumerate(homes)}
        self.replies = {}
        self.questions = []  # as whoever holds the SuperLink sees them
        self.answers = []
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
        self.questions.append((name, kind, uncarried(message.content)))
        reply = self._reply(name, kind, message)
        if reply is not None:
            self.replies[message.metadata.message_id] = reply
        return message.metadata.message_id

    def _reply(self, name, kind, message):
        if name in self.odd:
            content = self.odd[name](kind)
            if isinstance(content, dict):
                content = sealed_by(self.homes[name], kind, self.run_id, message, content)
            if isinstance(content, bytes):
                content = wired(carried(content))
            if content is not NotImplemented:
                return None if content is None else Message(content, reply_to=message)
        context = Context(self.run_id, 1, {"owner": str(self.homes[name])}, RecordDict(), {})
        reply = owner_app(message, context)
        reply.content = wired(reply.content)
        self.answers.append((name, kind, uncarried(reply.content)))
        return reply


def sealed_by(home, kind, run, question, content):
    """Return what an owner sends who says something else than their app would."""
    return OwnerSite.load(home)._sealed(kind, run, uncarried(question.content), content)


def wired(record):
    """Return a record as it comes out at the other end."""
    return recorddict_from_proto(recorddict_to_proto(record))


class Serving:
    """A server of uvicorn's in a thread, until it is stopped."""

    def __init__(self, server):
        self.server, self.thread = server, threading.Thread(target=server.run, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.started

    def stop(self):
        self.server.should_exit = True
        self.thread.join(2)  # it may wait for callers that have gone
