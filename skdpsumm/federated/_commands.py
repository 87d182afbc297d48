"""The parties' commands. Flower's own run underneath, with telemetry off and no code of others.

Flower sends the app of ``flwr run`` to every node, which installs and executes it, and executes it
at the SuperLink too: whoever can start a run can read every table, and the target. So both start
with a PATH that holds two commands only: Flower's executor, and one of ours in the place of
``flwr-clientapp`` or ``flwr-serverapp``, which neither installs nor loads what was sent but runs
the skdpsumm that is installed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from .._html import cut
from ._agreement import CURATOR, Agreement
from ._envelope import Keys
from ._files import locked, make_folder, write_file

_SCRIPT = """#!{python}
import sys
from skdpsumm.federated._commands import be_app
sys.exit(be_app("{app}"))
"""
# Runs a command of Flower's, which ends when the process does that has started it. Flower starts
# the process of an answer again if the first has not called within 30 s, and lets that one run on:
# on a busy machine each makes all others slower, until none is in time.
_CHILD = """
import runpy, sys
from flwr.supercore.app_utils import start_parent_process_monitor
from flwr.supercore.corestate import in_memory_corestate
start_parent_process_monitor(int(sys.argv[1]))
in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = int(sys.argv[2])
del sys.argv[:3]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CONNECTION = """[superlink]
default = "ours"
[superlink.ours]
address = "127.0.0.1:{port}"
root-certificates = "{root}"
"""
_CLIENTAPP = "flwr.supernode.runtime.run_clientapp"
_SERVERAPP = "flwr.superlink.runtime.run_serverapp"
# Flower's nodes end with these when they cannot connect, and when the SuperLink does not know them
# any more. After a kill, the SuperLink takes them for connected for a minute.
_LOST = {305 % 256, 1}
_NOT_YET = (
    "The SuperLink does not take this node yet; trying again. If this node was killed, it is taken "
    "within a minute. Otherwise end the other node that has this node.key, here or elsewhere; or "
    "ask the curator if the SuperLink runs, and if it knows this key."
)
_LOST_ANSWER = (
    "Run {run}: {ask!r} was granted with {rows} rows, and no answer is kept: it counts, and is "
    "not granted again."
)
_PAUSE_SECONDS = 10.0
# In which the process of an answer, or of a run, has to call Flower for the first time.
_CALL_SECONDS = 300


# ---- making what a party needs


def new(given: Namespace) -> int:
    """Make a folder for each party: keys, and files to fill in."""
    from ._gate import write_certificate

    for name in given.names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", Path(name).name):
            raise ValueError(
                f"{name!r} cannot name a party: use letters, digits, hyphens and underscores only."
            )
    for name in given.names:
        folder, keys = make_folder(name, new=True), Keys()
        public = keys.public
        if folder.name == CURATOR:
            write_certificate(folder, given.host or ["127.0.0.1"])
            write_file(folder / "curator.toml", _template("curator.toml"))
        else:
            public["node"] = _new_owner(folder, given)
        keys.save(folder / "keys.pem")
        lines = [f"{name} = {json.dumps(key)}" for name, key in public.items()]
        write_file(folder / "public.toml", "\n".join([f"[keys.{folder.name}]", *lines, ""]))
        print((folder / "public.toml").read_text(), end="")
    return 0


def _new_owner(folder: Path, given: Namespace) -> str:
    from ..privacy import PrivacyLedger
    from ._files import Grants

    text = _template("owner.toml").format(name=folder.name, max_rows=given.max_rows)
    Grants.make(folder / "grants")
    if given.epsilon is not None:
        PrivacyLedger(folder / "ledger", epsilon=given.epsilon, delta=given.delta)
        text += 'ledger = "ledger"             # charged before a sketch is made\n'
    write_file(folder / "owner.toml", text)
    return new_node_key(folder / "node.key")


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def new_node_key(path: Path) -> str:
    """Write the key by which Flower knows a node, and return the public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    write_file(path, key.private_bytes(*form, serialization.NoEncryption()))
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(*public).decode()


def agreement(given: Namespace) -> int:
    """Print the digest of an agreement, and what it says; or in what it differs from another."""
    ours = Agreement.load(given.file)
    print(f"sha256 {ours.digest}")
    if given.other is not None:
        difference = ours.difference(Agreement.load(given.other))
        print(cut(difference or "is equal"))
        return int(difference is not None)
    for owner in [] if ours.rows is None else ours.owners:  # who need so many max_rows
        print(cut(f"{owner} is asked for {ours.rows_asked(owner)} rows a run"))
    print(json.dumps(ours.content()))
    return 0


# ---- owners


def supernode(given: Namespace) -> int:
    """Run an owner's node: Flower's own, with the owner app of this installation."""
    from ._site import OwnerSite

    check_flower()
    site = OwnerSite.load(given.owner)
    print(f"{site.name}: agreement sha256 {site.check().digest}", flush=True)
    for entry in site.lost():
        print(cut(_LOST_ANSWER.format(**entry)), flush=True)
    own = [
        *("--node-config", f"owner={json.dumps(str(given.owner.absolute()))}"),
        *("--auth-supernode-private-key", str(site.keys.with_name("node.key"))),
        # A node's own port is for its own processes.
        *("--host", "127.0.0.1", "--port", str(free_port())),
    ]
    with ExitStack() as held:
        try:
            held.enter_context(locked(site.log.with_name(f"{site.log.name}.node"), wait=False))
        except BlockingIOError:
            raise ValueError(f"A node of {site.name!r} runs here already: end it first.") from None
        own_poll = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2"}
        environment = held.enter_context(_environment("flwr-clientapp", **own_poll))
        # The last ones win.
        return _keep([*_child("flower-supernode"), *given.rest, *own], environment)


def _keep(command: list[str], environment: dict[str, str]) -> int:
    """Run a node, and start it again when it has lost the SuperLink."""
    while True:
        with _running(command, environment) as child:
            status = child.wait()
        if status >= 0 and status not in _LOST:
            return status
        print(_NOT_YET, flush=True)
        time.sleep(_PAUSE_SECONDS)


# ---- the curator


def superlink(given: Namespace) -> int:
    """Run the curator's link on loopback, and before it the gate, which owners call."""
    from . import _gate
    from ._curator import CURATOR_FILE, CuratorSite

    check_flower()
    agreement = Agreement.load(CuratorSite.load(given.curator).agreement)
    if any("node" not in agreement.keys[owner] for owner in agreement.owners):
        raise ValueError("Add `node` to the keys of each owner in the agreement.")
    home = given.curator.absolute().parent
    inner = make_folder(home / "flwr")
    _gate.write_certificate(inner, ["127.0.0.1"], days=3650)
    root, key, port = inner / "server.pem", inner / "server.key", free_port()
    write_file(inner / "config.toml", CONNECTION.format(port=port, root=root))
    command = [
        *_child("flower-superlink"),
        *("--host", "127.0.0.1", "--port", str(port), "--enable-supernode-auth"),
        *("--ssl-ca-certfile", str(root), "--ssl-certfile", str(root), "--ssl-keyfile", str(key)),
        "--disable-runtime-dependency-installation",
    ]
    gate = _gate.serve(f"https://127.0.0.1:{port}", root, given.host, given.port, home)
    own = {"FLWR_HOME": str(inner), CURATOR_FILE: str(given.curator.absolute())}
    with (
        _environment("flwr-serverapp", **own) as environment,
        _running(command, environment) as child,
    ):
        threading.Thread(target=_end_with, args=(child, gate), daemon=True).start()
        _wait_for(inner, child)
        register(agreement, inner)
        print(f"agreement sha256 {agreement.digest}", flush=True)
        print(f"Owners call {given.host}:{given.port}.", flush=True)
        gate.run()
    return child.returncode


def _end_with(child: subprocess.Popen, gate: Any) -> None:
    child.wait()
    gate.should_exit = True


def _wait_for(home: Path, child: subprocess.Popen | None = None) -> None:
    """Wait until Flower listens where the curator's connection says."""
    deadline, connection = time.monotonic() + 180.0, home / "config.toml"
    while (child is None or child.poll() is None) and time.monotonic() < deadline:
        text = connection.read_text() if connection.exists() else ""
        with socket.socket() as caller:
            for port in re.findall(r"127\.0\.0\.1:(\d+)", text):
                if caller.connect_ex(("127.0.0.1", int(port))) == 0:
                    return
        time.sleep(0.1)
    raise ConnectionError("Flower's SuperLink does not run, or did not start: read its output.")


def register(agreement: Agreement, home: Path) -> None:
    """Tell the SuperLink, which remembers nothing from before, whose key is whose."""
    from flwr.proto.control_pb2 import RegisterNodeRequest

    with _control(home) as client:
        for owner in agreement.owners:
            key = agreement.keys[owner]["node"].encode()
            client.RegisterNode(RegisterNodeRequest(public_key=key, name=owner))


@contextmanager
def _control(home: Path) -> Iterator[Any]:
    """Yield a client of the control of the curator's SuperLink."""
    from flwr.cli.flower_config import read_superlink_connection
    from flwr.cli.utils import init_http_client_from_connection

    os.environ["FLWR_HOME"] = str(home)
    client = init_http_client_from_connection(read_superlink_connection())
    try:
        yield client
    finally:
        client.close()


def run(given: Namespace) -> int:
    """Start a run, and wait for its report: 0 is returned if there is a result."""
    from ._curator import CuratorSite

    site, home = CuratorSite.load(given.curator), given.curator.absolute().parent / "flwr"
    site.check_space()
    _wait_for(home)
    # What names a run that this user has started: Flower takes runs from all who reach its port.
    ticket = secrets.token_hex(16)
    stub = make_folder(site.tickets) / sha256(ticket.encode()).hexdigest()
    write_file(stub, "")
    try:
        run_id = start_run(home, ticket)
    except Exception as error:
        stub.unlink()  # or whoever has learned of it could start a run with it
        raise ConnectionError(f"Flower started no run: {error!r}") from error
    report = site.result / str(run_id) / "report.json"
    print(f"Run {run_id}", flush=True)
    while not report.exists():
        time.sleep(0.5)
    print(report.read_text(), end="")
    return int("error" in json.loads(report.read_text()))


def start_run(home: Path, ticket: str) -> int:
    """Have the curator's SuperLink start a run, and return its id."""
    from flwr.cli.build import build_fab_from_files
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab

    files = {"pyproject.toml": _template("run.toml").encode(), "README.md": b"A run of skdpsumm.\n"}
    fab, _ = build_fab_from_files(files)
    request = StartRunRequest(
        fab=fab_to_proto(Fab(sha256(fab).hexdigest(), fab, {})),
        override_config=user_config_to_proto({"ticket": ticket}),
    )
    with _control(home) as client:
        started = client.StartRun(request)
    if not started.HasField("run_id"):
        raise RuntimeError(started.note)
    return int(started.run_id)


# ---- Flower


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """Yield a process that is told to end when this one is."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    child = subprocess.Popen(command, env=environment)
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


@contextmanager
def _environment(name: str, **own: str) -> Iterator[dict[str, str]]:
    """Yield an environment in which Flower opens no port but the one that it is given.

    Its PATH has Flower's executor and one app of ours: nothing else can be started.
    """
    with tempfile.TemporaryDirectory(prefix="skdpsumm-") as folder:
        script = Path(folder) / name
        script.write_text(_SCRIPT.format(python=sys.executable, app=name.replace("-", "_")))
        script.chmod(0o700)
        (Path(folder) / "flower-superexec").symlink_to(command_path("flower-superexec"))
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FLWR_INTERNAL_")}
        yield kept | own | {"PATH": folder}


def _replacements() -> dict[str, dict[str, Any]]:
    """Return what stands in Flower's modules so that nothing that comes with a run is executed."""
    from ._curator import curator_app
    from ._site import owner_app

    def run(grid: Any, context: Any, **_: Any) -> Any:
        curator_app(grid=grid, context=context)
        return context

    installers = ("install_from_fab", "install_app_dependencies")
    no_installers = dict.fromkeys(installers, lambda *_, **__: None)
    return {
        _CLIENTAPP: {**no_installers, "get_load_client_app_fn": lambda **_: lambda *_: owner_app},
        _SERVERAPP: {
            **no_installers,
            "get_fab_metadata": lambda _: ("", ""),
            "get_project_dir": lambda *_: Path(),
            "get_project_config": lambda _: tomllib.loads(_template("run.toml")),
            "get_fused_config_from_dir": lambda _, given: dict(given),
            "run_": run,
        },
    }


def be_app(name: str) -> None:
    """Be Flower's ``flwr-clientapp`` or ``flwr-serverapp``, with the apps of this installation."""
    check_flower()  # the names are Flower's own and may move
    for module, replaced in _replacements().items():
        vars(import_module(module)).update(replaced)
    part = import_module(f"flwr.{'supernode' if name == 'flwr_clientapp' else 'superlink'}.cli")
    getattr(part, name)()


def check_flower() -> None:
    """Refuse to run under a Flower whose way to start apps is not the one known here."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType

    commands = {TaskType.CLIENT_APP: "flwr-clientapp", TaskType.SERVER_APP: "flwr-serverapp"}
    same = all(TASK_TYPE_TO_COMMAND.get(kind) == name for kind, name in commands.items())
    # `_CHILD` gives slow machines more time by a name of its own.
    names = {m: list(replaced) for m, replaced in _replacements().items()}
    names["flwr.supercore.corestate.in_memory_corestate"] = ["HEARTBEAT_DEFAULT_INTERVAL"]
    if not same or not all(hasattr(import_module(m), n) for m, some in names.items() for n in some):
        raise RuntimeError(
            "This version of Flower starts apps in another way than the one that skdpsumm knows, "
            "and might execute what others send. Install flwr 1.41 or 1.42, or a newer skdpsumm."
        )


def free_port() -> int:
    """Return a port of this machine that nobody listens to just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _child(name: str) -> list[str]:
    own = [str(os.getpid()), str(_CALL_SECONDS)]
    return [sys.executable, "-c", _CHILD, *own, command_path(name)]


def command_path(name: str) -> str:
    """Return where one of Flower's commands is."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which(name, path=scripts) or shutil.which(name) or name


# The commands, with the arguments of each as argparse takes them.
COMMANDS: dict[Any, dict[str, dict[str, Any]]] = {
    new: {
        "names": {"nargs": "+", "help": "of owners, or curator"},
        "--host": {"action": "append", "help": "by which owners call the curator"},
        "--epsilon": {"type": float, "help": "the most that an owner's ledger lets go"},
        "--delta": {"type": float, "default": 1e-5},
        "--max-rows": {"type": int, "default": 0, "help": "that an owner lets go, in all runs"},
    },
    agreement: {"file": {"type": Path}, "other": {"type": Path, "nargs": "?"}},
    supernode: {"owner": {"type": Path, "help": "its file; Flower's own options may follow"}},
    superlink: {
        "curator": {"type": Path},
        "--host": {"default": "127.0.0.1", "help": "by which owners call the gate"},
        "--port": {"type": int, "default": 8000},
    },
    run: {"curator": {"type": Path}},
}
