"""The federated template with all parties on one machine: TLS, keys, and a process for each.

    python examples/federated_loopback.py                         # scikit-learn's digits
    python examples/federated_loopback.py --data mnist.npz        # keras's file of MNIST

Owners hold scikit-learn's digits, or MNIST's as in the paper. Prints the report, and whether the
chosen rows are those of the same protocol in one process. All seeds are fixed: a simulation.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from skdpsumm import PrivacyLedger, PublicVectorizer
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._owner_log import OwnerLog
from skdpsumm.federated._wire import describe
from skdpsumm.summaries import Curator, DataOwner
from skdpsumm.summaries._owners import run_protocol

OWNERS = ["north", "south", "east", "west", "centre"]
CSV_OWNER = "centre"  # the others have Parquet
TEMPLATE = Path(__file__).parent / "federated" / "pyproject.toml"
START_SECONDS = 60
# As `flwr supernode register <file> here --name <owner>` for each, but flwr is imported once.
_REGISTER = """
import os, sys
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
from pathlib import Path
from flwr.cli.app import app
for path in sys.argv[1:]:
    command = ["supernode", "register", path, "here", "--name", Path(path).stem]
    app(command, standalone_mode=False)
"""


class Loopback:
    """A SuperLink and SuperNodes on 127.0.0.1, in a folder of their own.

    Parameters
    ----------
    folder : Path
        Empty.
    tables : dict from owner to (X, y)
    target : ndarray
    replace : dict from str to str
        Lines of the template's pyproject.toml, by what they begin with.
    """

    def __init__(self, folder, tables, target, replace):
        self.folder, self.tables, self.target = Path(folder), tables, target
        self.project = self.folder / "project"
        self.port = free_port()
        self.processes = {}
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.folder / "flwr"),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._write_project(replace)
        write_certificates(self.folder)
        for k, owner in enumerate(tables):
            self._write_owner(owner, k)
        self.agree()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)

    def agree(self):
        """Give each owner a copy of the curator's pyproject.toml."""
        for owner in self.tables:
            copy = self.folder / owner / "pyproject.toml"
            copy.write_text((self.project / "pyproject.toml").read_text())

    def start_superlink(self):
        """Start it with TLS and the authentication of nodes, and register all owners' keys."""
        at = self.folder
        self.start(
            "superlink",
            *("superlink", "--host", "127.0.0.1", "--port", str(self.port)),
            *("--ssl-ca-certfile", at / "ca.pem", "--ssl-certfile", at / "server.pem"),
            *("--ssl-keyfile", at / "server.key", "--enable-supernode-auth"),
            "--disable-runtime-dependency-installation",
        )
        wait_until(lambda: is_open(self.port), "the SuperLink")
        (at / "flwr").mkdir(exist_ok=True)
        (at / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{at / "ca.pem"}"\n'
        )
        names = [str(at / f"{owner}.pub") for owner in self.tables]
        self._call("-c", _REGISTER, *names)

    def start_supernode(self, owner, key=None):
        """Start an owner's node, with its key or another."""
        self.start(
            owner,
            *("supernode", "--superlink", f"127.0.0.1:{self.port}"),
            *("--root-certificates", self.folder / "ca.pem", "--port", str(free_port())),
            *("--auth-supernode-private-key", self.folder / f"{key or owner}.key"),
            *("--node-config", f'owner="{self.folder / owner / "owner.toml"}"'),
        )

    def run(self, **config):
        """Start a run and return its id."""
        given = [item for k, v in config.items() for item in ("-c", f"{k}={json.dumps(v)}")]
        printed = self.flwr("run", self.project, "here", *given)
        return int(printed.split("started run ")[1].split()[0])

    def finish(self, run, seconds):
        """Wait for a run to end, and return its report."""
        path = self.folder / "result" / str(run) / "report.json"
        wait_until(path.exists, f"run {run}", seconds)
        return json.loads(path.read_text())

    def flwr(self, *arguments):
        """Run one of Flower's commands, and return what it printed."""
        return self._call("-m", "skdpsumm.federated", "flwr", *arguments)

    def _call(self, *arguments):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{arguments} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, name, *arguments):
        """Start a process in a group of its own, with its output in a file."""
        command = [sys.executable, "-m", "skdpsumm.federated", *map(str, arguments)]
        with (self.folder / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name):
        """End a process and all that it started, by the id of their group."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def log(self, owner):
        """Return the owner's log."""
        return OwnerLog(self.folder / owner / "log.jsonl")

    def chosen(self, run):
        """Return whose rows a run chose, and which, as `Curator.chosen`."""
        with np.load(self.folder / "result" / str(run) / "summary.npz") as file:
            return list(zip(file["owner"].tolist(), file["index"].tolist(), strict=True))

    def output(self, name):
        """Return what a process has printed so far."""
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def in_process(self, without=(), **parameters):
        """Return the finished curator of the same protocol in one process."""
        agreement = Agreement.load(self.project)
        vectorizer = PublicVectorizer(agreement.schema)
        owners = {
            owner: _Absent()
            if owner in without
            else DataOwner(vectorizer.fit_transform(X), y, seed=k)
            for k, (owner, (X, y)) in enumerate(self.tables.items())
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            curator = Curator(
                vectorizer.fit_transform(self.target),
                noise_seed=7,
                **{**agreement.curator_parameters(), **parameters},
            )
            return run_protocol(curator, owners)

    def _write_project(self, replace):
        self.project.mkdir(parents=True)
        own = {
            "project": f'"{self.project}"',
            "target": f'"{self.folder / "target.parquet"}"',
            "result": f'"{self.folder / "result"}"',
            "wait": "30",
            **replace,
        }
        lines = TEMPLATE.read_text().splitlines()
        for k, line in enumerate(lines):
            name = line.split(" =")[0]
            lines[k] = f"{name} = {own[name]}" if name in own else line
            lines[k] = lines[k].replace("px{0..63}", f"px{{0..{self.target.shape[1] - 1}}}")
        place = lines.index("[tool.flwr.app.config]") + 1
        text = "\n".join([*lines[:place], "noise-seed = 7", *lines[place:]])
        (self.project / "pyproject.toml").write_text(text)
        (self.project / "HOWTO.md").write_text("A run on one machine.\n")
        write_table(self.folder / "target.parquet", self.target)

    def _write_owner(self, owner, k):
        home = self.folder / owner
        home.mkdir()
        table = "table.csv" if owner == CSV_OWNER else "table.parquet"
        write_table(home / table, *self.tables[owner])
        (home / "owner.toml").write_text(
            f'name = "{owner}"\ntable = "{table}"\nagreement = "pyproject.toml"\n'
            f'log = "log.jsonl"\nledger = "ledger"\nmax_rows = 1000\nseed = {k}\n'
        )
        PrivacyLedger(home / "ledger", epsilon=2.5, delta=1e-5)
        write_key(self.folder / f"{owner}.key", self.folder / f"{owner}.pub")


class _Absent:
    def answer(self, message):
        raise TimeoutError


def free_port():
    """Return a port that nobody listens to just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_open(port):
    """Return whether somebody listens."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds, what, seconds=START_SECONDS, pause=0.1):
    """Return what `holds` returns once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := holds():
            return result
        time.sleep(pause)
    raise TimeoutError(f"{what} was not ready within {seconds} s")


def write_table(path, X, y=None):
    """Write px0, px1, ... and, where there are labels, digit, as the file's name says."""
    columns = {f"px{j}": X[:, j] for j in range(X.shape[1])}
    labels = {} if y is None else {"digit": y}
    write = pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table
    write(pa.table({**columns, **labels}), path)


def write_key(private, public):
    """Write a SuperNode's pair of keys, as ``ssh-keygen -t ecdsa -b 384`` does."""
    key = ec.generate_private_key(ec.SECP384R1())
    private.write_bytes(_pem(key, serialization.PrivateFormat.OpenSSH))
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    public.write_bytes(key.public_key().public_bytes(*form))


def write_certificates(folder):
    """Write ca.pem, and server.pem and server.key for 127.0.0.1."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("skdpsumm test CA", ca_key, None, ca_key)
    server = _certificate("127.0.0.1", key, authority, ca_key)
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    pkcs8 = serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "server.key").write_bytes(_pem(key, pkcs8))


def _pem(key, form):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _certificate(name, key, issuer, issuer_key):
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def digits_tables():
    """Return scikit-learn's digits, dealt to five owners, and a target of threes and eights."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wanted = rng.permutation(np.flatnonzero(np.isin(y, (3, 8))))[:100]
    rest = rng.permutation(np.setdiff1d(np.arange(len(X)), wanted))
    parts = np.array_split(rest, len(OWNERS))
    return {o: (X[p], y[p].astype(np.int64)) for o, p in zip(OWNERS, parts, strict=True)}, X[wanted]


def mnist_tables(path):
    """Return MNIST's owners: each has two of the ten digits; the target is of test images."""
    file = np.load(path)
    X, y = file["x_train"].reshape(-1, 784) / 255.0, file["y_train"].astype(np.int64)
    tables = {o: np.isin(y, (2 * k, 2 * k + 1)) for k, o in enumerate(OWNERS)}
    wanted = np.flatnonzero(np.isin(file["y_test"], (3, 8)))[:500]
    target = file["x_test"][wanted].reshape(-1, 784) / 255.0
    return {o: (X[rows], y[rows]) for o, rows in tables.items()}, target


MNIST = {
    "high": "1",
    "n_select": "200",
    "n_components": "1000",
}


def main():
    """Run the template once, and compare."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="keras's mnist.npz; digits without")
    parser.add_argument("--keep", help="an empty folder to work in, to look at afterwards")
    given = parser.parse_args()
    tables, target = mnist_tables(given.data) if given.data else digits_tables()
    with tempfile.TemporaryDirectory() as box:
        folder = Path(given.keep or box)
        folder.mkdir(exist_ok=True)
        with Loopback(folder, tables, target, MNIST if given.data else {}) as parties:
            start = time.monotonic()
            parties.start_superlink()
            for owner in tables:
                parties.start_supernode(owner)
            print(f"started in {time.monotonic() - start:.1f} s")
            start = time.monotonic()
            run = parties.run()
            report = parties.finish(run, 900)
            print(f"finished after {time.monotonic() - start:.1f} s")
            print(json.dumps(report, indent=2))
            start = time.monotonic()
            curator = parties.in_process()
            print(f"in one process: {time.monotonic() - start:.2f} s")
            print("the same rows were chosen:", parties.chosen(run) == curator.chosen)
            same = [
                parties.log(owner).received("ask", run)
                == [describe(message) for message in curator.transcript[owner]]
                for owner in tables
            ]
            print("the logs equal the transcript:", all(same))


if __name__ == "__main__":
    main()
