"""Flower's commands, with its telemetry off, and with no code of others on an owner's machine.

Flower sends the app of ``flwr run`` to every SuperNode, which installs and executes it: whoever
can start a run can read every table. `supernode` starts Flower's SuperNode with a PATH that holds
two commands only: Flower's executor, and, in the place of Flower's ``flwr-clientapp``, one that
neither installs nor loads what was sent but runs the owner's own skdpsumm.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SCRIPT = """#!{python}
import sys
from skdpsumm.federated._commands import clientapp
sys.exit(clientapp())
"""


def supernode(arguments: Sequence[str], environment: dict[str, str] | None = None) -> int:
    """Run ``flower-supernode`` with the owner app of this installation.

    Parameters
    ----------
    arguments : sequence of str
        Flower's own; ``--node-config 'owner="owner.toml"'`` names the owner's file.
    environment : dict, default=None
        None is this process's.

    Returns
    -------
    int
        The exit status.
    """
    _check_flower()
    environment = dict(os.environ if environment is None else environment)
    with tempfile.TemporaryDirectory(prefix="skdpsumm-owner-") as folder:
        script = Path(folder) / "flwr-clientapp"
        script.write_text(_SCRIPT.format(python=sys.executable))
        script.chmod(0o700)
        # Whatever else Flower may want to start is not there.
        (Path(folder) / "flower-superexec").symlink_to(_command("flower-superexec"))
        environment["PATH"] = folder
        environment.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")
        return _run([_command("flower-supernode"), *arguments], environment)


def clientapp() -> None:
    """Be Flower's ``flwr-clientapp``, but with the app of this installation."""
    _check_flower()
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp

    from .apps import owner

    # Both names are Flower's own and may move: `_check_flower` sees to it that they are there.
    run_clientapp.install_from_fab = lambda *_, **__: None  # type: ignore[assignment]
    run_clientapp.get_load_client_app_fn = lambda **_: lambda *_: owner
    run_clientapp.install_app_dependencies = _refuse  # type: ignore[assignment]
    flwr_clientapp()


def flower(command: str, arguments: Sequence[str]) -> int:
    """Run another command of Flower with telemetry and the search for updates off."""
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([_scripts(), environment.get("PATH", "")])
    return _run([_command(command), *arguments], environment)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run in a child, which gets the signals that this process gets, and wait for it."""
    import signal
    import subprocess

    child = subprocess.Popen(command, env=environment)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    return child.wait()


def _check_flower() -> None:
    """Refuse to run under a Flower whose way to start apps is not the one known here."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
    from flwr.supernode.runtime import run_clientapp

    names = ("install_from_fab", "get_load_client_app_fn", "install_app_dependencies")
    same = TASK_TYPE_TO_COMMAND.get(TaskType.CLIENT_APP) == "flwr-clientapp"
    if not same or not all(hasattr(run_clientapp, name) for name in names):
        raise RuntimeError(
            "This version of Flower starts apps in another way than the one that skdpsumm knows, "
            "and might execute what the curator sends. Install flwr 1.41, or a newer skdpsumm."
        )


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError("Nothing is installed on an owner's machine during a run.")


def _scripts() -> str:
    return sysconfig.get_path("scripts")


def _command(name: str) -> str:
    found = shutil.which(name, path=_scripts()) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f'{name} was not found; pip install "skdpsumm[flower]".')
    return found
