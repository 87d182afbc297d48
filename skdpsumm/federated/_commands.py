"""The parties' commands. Flower's own run underneath, with telemetry off and no code of others.

Flower sends the app of ``flwr run`` to every node, which installs and executes it, and executes it
at the SuperLink too: whoever can start a run can read every table, and the target. So both start
with a PATH that holds two commands only: Flower's executor, and one of ours in the place of
``flwr-clientapp`` or ``flwr-serverapp``, which neither installs nor loads what was sent but runs
the skdpsumm that is installed.
"""

from __future__ import annotations

import argparse
import ipaddress
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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from ._agreement import CURATOR, Agreement
from ._envelope import Keys
from ._files import locked, make_folder, printable, write_file

_SCRIPT = """#!{python}
import sys
from skdpsumm.federated._commands import {app}
sys.exit({app}())
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
# What Flower asks of a project. Its text goes to all nodes and tells nothing; no code is in it.
_PROJECT = """
[project]
name = "skdpsumm-run"
version = "1.0.0"
description = "A run of skdpsumm"
license = "BSD-3-Clause"
dependencies = []
[tool.flwr.app]
publisher = "skdpsumm"
fab-include = ["README.md"]
[tool.flwr.app.components]
serverapp = "skdpsumm.federated.apps:curator"
clientapp = "skdpsumm.federated.apps:owner"
[tool.flwr.app.config]
ticket = "{ticket}"
"""
_APP = {"tool": {"flwr": {"app": {"components": {"serverapp": "skdpsumm.federated.apps"}}}}}
_CONNECTION = """[superlink]
default = "ours"
[superlink.ours]
address = "127.0.0.1:{port}"
root-certificates = "{root}"
"""
_OWNER = """# {name}'s own file: it never leaves this machine. Relative paths start at its folder.
name = "{name}"
table = "table.parquet"       # or a .csv
agreement = "agreement.toml"  # your copy, which you have read
keys = "keys.pem"
log = "log.jsonl"             # all that came, and all that left
grants = "grants"             # counts what was let go: keep it, and never put back an old copy
# Rows that may ever leave, over all runs. A run takes as many as it may ask for by the agreement.
max_rows = {max_rows}
# max_runs = 3                # that may ever take anything; without, what max_rows and ledger hold
"""
_CURATOR = """# The curator's own file. Relative paths start at its folder.
agreement = "agreement.toml"
keys = "keys.pem"
target = "target.parquet"     # rows to match, with the columns of the agreement
result = "result"
min_owners = 1                # with fewer, nothing is asked and nothing spent
# ledger = "ledger"           # a PrivacyLedger, charged for the target's mean
"""
_CLIENTAPP = "flwr.supernode.runtime.run_clientapp"
_SERVERAPP = "flwr.superlink.runtime.run_serverapp"
# What is replaced in Flower's modules, so that nothing that comes with a run is executed, and that
# slow machines have time.
_REPLACED = {
    _CLIENTAPP: ("install_from_fab", "install_app_dependencies", "get_load_client_app_fn"),
    _SERVERAPP: (
        *("install_from_fab", "install_app_dependencies", "get_fab_metadata", "get_project_dir"),
        *("get_project_config", "get_fused_config_from_dir", "run_"),
    ),
    "flwr.supercore.corestate.in_memory_corestate": ("HEARTBEAT_DEFAULT_INTERVAL",),
}
# Flower's nodes end with these when they cannot connect, and when the SuperLink does not know them
# any more. After a kill, the SuperLink takes them for connected for a minute.
_LOST = {305 % 256, 1}
_NOT_YET = (
    "The SuperLink does not take this node yet; trying again. If this node was killed, it is taken "
    "within a minute. Otherwise end the other node that has this node.key, here or elsewhere; or "
    "ask the curator if the SuperLink runs, and if it knows this key."
)
_LOST_ANSWER = (
    "Run {run}: {ask!r} was granted with {rows} rows, and the log has no answer: it counts, and is "
    "not granted again."
)
_PAUSE_SECONDS = 10.0
# In which the process of an answer, or of a run, has to call Flower for the first time.
_CALL_SECONDS = 300


# ---- making what a party needs


def new(arguments: Sequence[str]) -> int:
    """Make a folder for each party, with keys, and files to fill in."""
    parser = argparse.ArgumentParser(prog="new")
    parser.add_argument("names", nargs="+", help="of owners, or curator")
    parser.add_argument("--host", action="append", help="by which owners call the curator")
    parser.add_argument("--epsilon", type=float, help="the most that an owner's ledger lets go")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument(
        "--max-rows", type=int, default=0, help="that an owner lets go, in all runs"
    )
    given = parser.parse_args(arguments)
    for name in given.names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", Path(name).name):
            raise ValueError(
                f"{name!r} cannot name a party: use letters, digits, hyphens and underscores only."
            )
    for name in given.names:
        folder = make_folder(name, new=True)
        if folder.name == CURATOR:
            _new_curator(folder, given.host or ["127.0.0.1"])
        else:
            _new_owner(folder, given)
        print((folder / "public.toml").read_text(), end="")
    return 0


def _new_curator(folder: Path, hosts: Sequence[str]) -> None:
    from ._gate import write_certificate

    write_certificate(folder, hosts)
    write_file(folder / "curator.toml", _CURATOR)
    _write_keys(folder, {})


def _new_owner(folder: Path, given: argparse.Namespace) -> None:
    from ..privacy import PrivacyLedger
    from ._grants import Grants

    text = _OWNER.format(name=folder.name, max_rows=given.max_rows)
    Grants.make(folder / "grants")
    if given.epsilon is not None:
        PrivacyLedger(folder / "ledger", epsilon=given.epsilon, delta=given.delta)
        text += 'ledger = "ledger"             # charged before a sketch is made\n'
    write_file(folder / "owner.toml", text)
    _write_keys(folder, {"node": _new_node_key(folder / "node.key")})


def _write_keys(folder: Path, more: dict[str, str]) -> None:
    """Write the private keys, and the table of the agreement that has the public ones."""
    keys = Keys()
    keys.save(folder / "keys.pem")
    lines = [f"{name} = {json.dumps(key)}" for name, key in (keys.public | more).items()]
    write_file(folder / "public.toml", "\n".join([f"[keys.{folder.name}]", *lines, ""]))


def _new_node_key(path: Path) -> str:
    """Write the key by which Flower knows a node, and return the public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    write_file(path, key.private_bytes(*form, serialization.NoEncryption()))
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*ssh).decode()


def agreement(arguments: Sequence[str]) -> int:
    """Print the digest of an agreement, and what it says; or in what two of them differ."""
    ours, *others = [Agreement.load(path) for path in arguments]
    print(f"sha256 {ours.digest}")
    for other in others:
        print(printable(ours.difference(other) or "is equal"))
    if not others:
        for owner in [] if ours.rows is None else ours.owners:  # who need so many max_rows
            print(printable(f"{owner} is asked for {ours.rows_asked(owner)} rows a run"))
        print(ours.to_json())
    return int(any(ours.digest != other.digest for other in others))


# ---- owners


def supernode(arguments: Sequence[str], environment: dict[str, str] | None = None) -> int:
    """Run ``flower-supernode`` with the owner app of this installation.

    Parameters
    ----------
    arguments : sequence of str
        The owner's file, and Flower's own, ``--superlink`` and ``--root-certificates`` among them.
    environment : dict, default=None
        None is this process's.

    Returns
    -------
    int
        The exit status.
    """
    from ._site import OwnerSite

    _check_flower()
    parser = argparse.ArgumentParser(prog="supernode", allow_abbrev=False)
    parser.add_argument("owner", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    given, rest = parser.parse_known_args(arguments)
    _check_loopback(given.host, "A node's own port is for its own processes.")
    site = OwnerSite.load(given.owner)
    print(f"{site.name}: agreement sha256 {site.check().digest}", flush=True)
    for entry in site.lost():
        print(printable(_LOST_ANSWER.format(**entry)), flush=True)
    own = [
        *("--node-config", f"owner={json.dumps(str(given.owner.absolute()))}"),
        *("--auth-supernode-private-key", str(site.keys.with_name("node.key"))),
        *("--host", given.host, "--port", str(given.port or free_port())),
    ]
    with _only_node(site), _path_of("flwr-clientapp", "clientapp") as path:
        environment = _environment(environment) | {"PATH": path}
        environment.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")
        return _keep([*_child("flower-supernode"), *own, *rest], environment)


@contextmanager
def _only_node(site: Any) -> Any:
    """Hold an owner's folder for this node, or raise ValueError if another one does."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(site.log.with_name(f"{site.log.name}.node"), wait=False))
        except BlockingIOError:
            raise ValueError(
                f"A node of {site.name!r} runs here already: end it first. Two nodes with one key "
                "cannot take part."
            ) from None
        yield


def _keep(command: list[str], environment: dict[str, str]) -> int:
    """Run a node, and start it again when it has lost the SuperLink."""
    runner = _Runner()
    lost = None
    while True:
        start = time.monotonic()
        status = runner.run(command, environment)
        # A node that ran for longer had been taken.
        if time.monotonic() - start > 60.0:
            lost = None
        lost = time.monotonic() if lost is None else lost
        crashed = status < 0 or status in _LOST
        # Flower is waited for five minutes.
        if runner.stopped or not crashed or time.monotonic() - lost > 300.0:
            return status
        print(_NOT_YET, flush=True)
        runner.pause(_PAUSE_SECONDS)


class _Runner:
    """Runs children, which get the signals that this process gets."""

    def __init__(self) -> None:
        self._child: subprocess.Popen | None = None
        self._stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)

    @property
    def stopped(self) -> bool:
        """Whether this process was told to end."""
        return self._stop.is_set()

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        self._child = subprocess.Popen(command, env=environment)
        return self._child.wait()

    def pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _pass_on(self, number: int, _: Any) -> None:
        self._stop.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def clientapp() -> None:
    """Be Flower's ``flwr-clientapp``, but with the app of this installation."""
    _check_flower()
    from flwr.supernode.cli import flwr_clientapp

    from .apps import owner

    runtime: Any = import_module(_CLIENTAPP)
    # Names are Flower's own and may move: `_check_flower` sees to it that they are there.
    runtime.install_from_fab = lambda *_, **__: None
    runtime.install_app_dependencies = _refuse
    runtime.get_load_client_app_fn = lambda **_: lambda *_: owner
    flwr_clientapp()


# ---- the curator


def superlink(arguments: Sequence[str]) -> int:
    """Run ``flower-superlink`` on loopback, and before it the gate, which owners call.

    Parameters
    ----------
    arguments : sequence of str
        The curator's file; ``--host`` and ``--port`` of the gate; ``--ssl-certfile`` and
        ``--ssl-keyfile``, by default server.pem and server.key beside the curator's file.
    """
    from . import _gate
    from ._curator import CuratorSite
    from .apps import CURATOR_FILE

    _check_flower()
    parser = argparse.ArgumentParser(prog="superlink", allow_abbrev=False)
    parser.add_argument("curator", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--ssl-certfile", type=Path)
    parser.add_argument("--ssl-keyfile", type=Path)
    given = parser.parse_args(arguments)
    agreement = Agreement.load(CuratorSite.load(given.curator).agreement)
    if any("node" not in agreement.keys[owner] for owner in agreement.owners):
        raise ValueError("Add `node` to the keys of each owner in the agreement.")
    home = given.curator.absolute().parent
    inner = make_folder(home / "flwr")
    _gate.write_certificate(inner, ["127.0.0.1"], days=3650)
    root, key, port = inner / "server.pem", inner / "server.key", free_port()
    write_file(inner / "config.toml", _CONNECTION.format(port=port, root=root))
    command = [
        *_child("flower-superlink"),
        *("--host", "127.0.0.1", "--port", str(port), "--enable-supernode-auth"),
        *("--ssl-ca-certfile", str(root), "--ssl-certfile", str(root), "--ssl-keyfile", str(key)),
        "--disable-runtime-dependency-installation",
    ]
    gate = _gate.serve(
        f"https://127.0.0.1:{port}",
        root,
        given.host,
        given.port,
        str(given.ssl_certfile or home / "server.pem"),
        str(given.ssl_keyfile or home / "server.key"),
    )
    with _path_of("flwr-serverapp", "serverapp") as path:
        environment = _environment(None) | {
            "PATH": path,
            "FLWR_HOME": str(inner),
            CURATOR_FILE: str(given.curator.absolute()),
        }
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # past what has to end with this
        child = subprocess.Popen(command, env=environment)
        threading.Thread(target=_end_with, args=(child, gate), daemon=True).start()
        try:
            _wait_for(inner / "config.toml", child)
            _register(agreement, inner)
            print(f"agreement sha256 {agreement.digest}", flush=True)
            print(f"Owners call {given.host}:{given.port}.", flush=True)
            gate.run()
        finally:
            child.terminate()
            child.wait()
    return child.returncode


def _end_with(child: subprocess.Popen, gate: Any) -> None:
    child.wait()
    gate.should_exit = True


def _wait_for(connection: Path, child: subprocess.Popen | None = None) -> None:
    """Wait until Flower listens where the curator's connection says."""
    deadline = time.monotonic() + 180.0
    while (child is None or child.poll() is None) and time.monotonic() < deadline:
        text = connection.read_text() if connection.exists() else ""
        with socket.socket() as caller:
            for port in re.findall(r"127\.0\.0\.1:(\d+)", text):
                if caller.connect_ex(("127.0.0.1", int(port))) == 0:
                    return
        time.sleep(0.1)
    raise ConnectionError("Flower's SuperLink does not run, or did not start: read its output.")


def _register(agreement: Agreement, home: Path) -> None:
    """Tell the SuperLink, which remembers nothing from before, whose key is whose."""
    from flwr.cli.supernode.register import try_load_public_key
    from flwr.proto.control_pb2 import RegisterNodeRequest

    with _control(home) as client:
        for owner in agreement.owners:
            path = home / "node.pub"
            write_file(path, agreement.keys[owner]["node"])
            key = try_load_public_key(path)
            client.RegisterNode(RegisterNodeRequest(public_key=key, name=owner))


@contextmanager
def _control(home: Path) -> Any:
    """Yield a client of the control of the curator's SuperLink."""
    from flwr.cli.flower_config import read_superlink_connection
    from flwr.cli.utils import init_http_client_from_connection

    os.environ["FLWR_HOME"] = str(home)
    client = init_http_client_from_connection(read_superlink_connection())
    try:
        yield client
    finally:
        client.close()


def _nodes(client: Any) -> list[Any]:
    from flwr.proto.control_pb2 import ListNodesRequest

    return [
        n for n in client.ListNodes(ListNodesRequest()).nodes_info if n.status != "unregistered"
    ]


def serverapp() -> None:
    """Be Flower's ``flwr-serverapp``, but with the app of this installation."""
    _check_flower()
    from flwr.superlink.cli import flwr_serverapp

    from .apps import curator

    def run(grid: Any, context: Any, **_: Any) -> Any:
        curator(grid=grid, context=context)
        return context

    runtime: Any = import_module(_SERVERAPP)
    # Names are Flower's own and may move: `_check_flower` sees to it that they are there.
    runtime.install_from_fab = lambda *_, **__: None
    runtime.install_app_dependencies = _refuse
    runtime.get_fab_metadata = lambda _: ("", "")
    runtime.get_project_dir = lambda *_: Path()
    runtime.get_project_config = lambda _: _APP
    runtime.get_fused_config_from_dir = lambda _, given: dict(given)
    runtime.run_ = run
    flwr_serverapp()


def run(arguments: Sequence[str]) -> int:
    """Start a run, and wait for its report.

    Parameters
    ----------
    arguments : sequence of str
        The curator's file.

    Returns
    -------
    int
        0 if there is a result.
    """
    from ._curator import CuratorSite

    (path,) = map(Path, arguments)
    site, ticket = CuratorSite.load(path), secrets.token_hex(16)
    site.check_space()
    _wait_for(path.absolute().parent / "flwr" / "config.toml")
    # What names a run that this user has started: Flower takes runs from all who reach its port.
    stub = make_folder(site.tickets) / sha256(ticket.encode()).hexdigest()
    write_file(stub, "")
    with tempfile.TemporaryDirectory() as folder:
        project, config = make_folder(Path(folder, "run")), Path(folder, "ticket.toml")
        (project / "pyproject.toml").write_text(_PROJECT.format(ticket=""))
        (project / "README.md").write_text("A run of skdpsumm.\n")
        write_file(config, f'ticket = "{ticket}"\n')  # all users can read arguments
        arguments = ["run", str(project), "ours", "--format", "json", "-c", str(config)]
        done = _flwr(path, arguments, stdout=subprocess.PIPE)
    started = {} if done.returncode else json.loads(done.stdout)
    if not started.get("success"):
        stub.unlink(missing_ok=True)  # or whoever has learned of it could start a run with it
        print(done.stdout.decode(), file=sys.stderr)
        return 1
    report = site.result / str(started["run-id"]) / "report.json"
    print(f"Run {started['run-id']}", flush=True)
    while not report.exists():
        time.sleep(0.5)
    print(report.read_text(), end="")
    return int("error" in json.loads(report.read_text()))


def flwr(arguments: Sequence[str]) -> int:
    """Run another command of ``flwr`` on the curator's SuperLink.

    Parameters
    ----------
    arguments : sequence of str
        The curator's file, and what ``flwr`` takes. ``supernode list`` has the owners' names, which
        Flower's own leaves out.
    """
    path, *rest = arguments
    if rest[:2] in (["supernode", "list"], ["supernode", "ls"]):
        with _control(Path(path).absolute().parent / "flwr") as client:
            for node in sorted(_nodes(client), key=lambda node: node.name):
                print(f"{node.name}\t{node.status}\t{node.node_id}")
        return 0
    return _flwr(Path(path), rest).returncode


def _flwr(curator: Path, arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    home = {"FLWR_HOME": str(curator.absolute().parent / "flwr")}
    return subprocess.run([_command("flwr"), *arguments], env=_environment(None) | home, **options)


# ---- Flower


@contextmanager
def _path_of(name: str, app: str) -> Any:
    """Yield a PATH with Flower's executor and one app of ours: nothing else can be started."""
    with tempfile.TemporaryDirectory(prefix="skdpsumm-") as folder:
        script = Path(folder) / name
        script.write_text(_SCRIPT.format(python=sys.executable, app=app))
        script.chmod(0o700)
        (Path(folder) / "flower-superexec").symlink_to(_command("flower-superexec"))
        yield folder


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return an environment in which Flower opens no port but the one that it is given."""
    given = os.environ if given is None else given
    return {name: value for name, value in given.items() if not name.startswith("FLWR_INTERNAL_")}


def _check_loopback(host: str, why: str) -> None:
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        raise ValueError(f"--host {host} is refused: {why} Leave it at 127.0.0.1.")


def _check_flower() -> None:
    """Refuse to run under a Flower whose way to start apps is not the one known here."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType

    commands = {TaskType.CLIENT_APP: "flwr-clientapp", TaskType.SERVER_APP: "flwr-serverapp"}
    same = all(TASK_TYPE_TO_COMMAND.get(kind) == name for kind, name in commands.items())
    names = {module: import_module(module) for module in _REPLACED}
    if not same or not all(hasattr(names[m], n) for m, some in _REPLACED.items() for n in some):
        raise RuntimeError(
            "This version of Flower starts apps in another way than the one that skdpsumm knows, "
            "and might execute what others send. Install flwr 1.41 or 1.42, or a newer skdpsumm."
        )


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError("Nothing is installed during a run.")


def free_port() -> int:
    """Return a port of this machine that nobody listens to just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _child(name: str) -> list[str]:
    own = [str(os.getpid()), str(_CALL_SECONDS)]
    return [sys.executable, "-c", _CHILD, *own, _command(name)]


def _command(name: str) -> str:
    scripts = sysconfig.get_path("scripts")
    found = shutil.which(name, path=scripts) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f'{name} was not found; pip install "skdpsumm[flower]".')
    return found
