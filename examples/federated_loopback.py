"""The federated template with all parties on one machine: TLS, keys, and a process for each.

    python examples/federated_loopback.py                         # scikit-learn's digits
    python examples/federated_loopback.py --data mnist.npz        # keras's file of MNIST

Owners hold scikit-learn's digits, or MNIST's as in the paper. Prints the report, and whether the
chosen rows are those of the same protocol in one process. All seeds are fixed: a simulation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from skdpsumm import PublicVectorizer, TableSchema, simulation
from skdpsumm.federated.__main__ import main as command
from skdpsumm.federated._agreement import Agreement
from skdpsumm.federated._commands import command_path, free_port
from skdpsumm.federated._envelope import Keys
from skdpsumm.federated._wire import describe, question_content
from skdpsumm.summaries import DataOwner
from skdpsumm.summaries._parties import run_protocol

OWNERS = ["north", "south", "east", "west", "centre"]
CSV_OWNER = "centre"  # the others have Parquet
TEMPLATE = Path(__file__).parent / "federated" / "agreement.toml"
START_SECONDS = 180


class Loopback:
    """A SuperLink and SuperNodes on 127.0.0.1, in a folder of their own.

    Parameters
    ----------
    folder : Path
        Empty.
    tables : dict from owner to (X, y)
    target : ndarray
    replace : dict from str to str
        Lines of the template, by what they begin with.
    """

    def __init__(self, folder, tables, target, replace):
        self.folder, self.tables, self.target = Path(folder), tables, target
        columns = {f"px{j}": (0, 16) for j in range(target.shape[1])}
        self.schema = TableSchema({**columns, "digit": list(range(10))})
        self.curator = self.folder / "curator" / "curator.toml"
        self.port = free_port()
        self.processes = {}
        self.environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with contextlib.redirect_stdout(None):
            command(["new", str(self.folder / "curator")])
            command(["new", *(str(self.folder / o) for o in tables), "--epsilon", "2.5"])
        for k, owner in enumerate(tables):
            self._fill_in(owner, k)
        write_table(self.folder / "curator" / "target.parquet", self.target)
        self.set_curator(wait=30)
        self.agree(self._template(replace))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)

    def agree(self, text, owners=None):
        """Give each party a copy of an agreement, with the keys of all, or of some owners."""
        parties = ["curator", *(owners or self.tables)]
        keys = [(self.folder / party / "public.toml").read_text() for party in parties]
        for party in parties:
            (self.folder / party / "agreement.toml").write_text("\n".join([text, *keys]))
            self.schema.save(self.folder / party / "schema.toml")
        self.agreed = text

    def set_curator(self, **settings):
        """Write the curator's file."""
        given = {"seed": 7, **settings}
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
        files = {"agreement": "agreement.toml", "keys": "keys.pem", "result": "result"}
        files["target"] = "target.parquet"
        lines += [f'{name} = "{path}"' for name, path in files.items()]
        self.curator.write_text("\n".join(lines))

    def set_table(self, owner, name):
        """Have an owner read another file of their folder."""
        path = self.folder / owner / "owner.toml"
        path.write_text(re.sub('(?m)^table = "[^"]*"', f'table = "{name}"', path.read_text()))

    def start_superlink(self):
        """Start it, and wait until owners can call."""
        self.start("superlink", "superlink", self.curator, "--port", str(self.port))
        wait_until(lambda: "Owners call" in self.output("superlink"), "the SuperLink")

    def start_supernode(self, owner, name=None, port=None, root=None):
        """Start an owner's node, or that of somebody else in their name, or at another gate."""
        self.start(
            name or owner,
            *("supernode", self.folder / (name or owner) / "owner.toml"),
            *("--superlink", f"127.0.0.1:{port or self.port}"),
            *("--root-certificates", root or self.folder / "curator" / "server.pem"),
        )

    def run(self, **settings):
        """Start a run and return its id."""
        self.set_curator(**{"wait": 120, **settings})
        name = f"run {time.monotonic()}"
        self.start(name, "run", self.curator)
        found = wait_until(
            lambda: re.search(r"(?m)^Run (\d+)$", self.output(name)), "the start of a run"
        )
        return int(found[1])

    def finish(self, run, seconds):
        """Wait for a run to end, and return its report."""
        path = self.result(run) / "report.json"
        wait_until(path.exists, f"run {run}", seconds)
        return json.loads(path.read_text())

    def result(self, run):
        """Return the folder of a run's result."""
        return self.curator.parent / "result" / str(run)

    def flwr(self, *arguments):
        """Run one of Flower's own commands on the curator's link, and return what it printed."""
        command = [command_path("flwr"), *map(str, arguments)]
        home = {"FLWR_HOME": str(self.curator.parent / "flwr"), "FLWR_TELEMETRY_ENABLED": "0"}
        options = {"env": self.environment | home, "capture_output": True, "text": True}
        return subprocess.run(command, timeout=START_SECONDS, **options).stdout

    def start(self, name, *arguments):
        """Start one of our commands."""
        self._start(name, [sys.executable, "-m", "skdpsumm.federated", *map(str, arguments)])

    def start_flower(self, name, port, home):
        """Start a SuperLink of Flower's own, which runs whatever apps it is sent."""
        tls = {"ca-certfile": "server.pem", "certfile": "server.pem", "keyfile": "server.key"}
        options = [part for n, file in tls.items() for part in (f"--ssl-{n}", str(home / file))]
        options += ["--disable-runtime-dependency-installation", "--enable-supernode-auth"]
        scripts = Path(sys.executable).parent
        self._start(name, [str(scripts / name), "--port", str(port), *options], PATH=str(scripts))

    def _start(self, name, command, **environment):
        """Start a process in a group of its own, with its output in a file."""
        with (self.folder / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                env=self.environment | {"FLWR_HOME": str(self.folder / "flwr")} | environment,
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
        """Return the events of an owner's log."""
        path = self.folder / owner / "log.jsonl"
        return [json.loads(line) for line in path.open()] if path.exists() else []

    def chosen(self, run):
        """Return whose rows a run chose, and which, as `Curator.chosen`."""
        with np.load(self.result(run) / "summary.npz") as file:
            return list(zip(file["owner"].tolist(), file["index"].tolist(), strict=True))

    def keys(self, party):
        """Return a party's private keys."""
        return Keys.load(self.folder / party / "keys.pem")

    def output(self, name):
        """Return what a process has printed so far."""
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def in_process(self, without=(), **parameters):
        """Return the finished curator of the same protocol in one process."""
        agreement = Agreement.load(self.curator.parent / "agreement.toml")
        vectorizer = PublicVectorizer(agreement.features)
        owners = {
            owner: _Absent()
            if owner in without
            else DataOwner(vectorizer.fit_transform(X), y, seed=k)
            for k, (owner, (X, y)) in enumerate(self.tables.items())
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = vectorizer.fit_transform(self.target)
            with simulation(7):
                curator = agreement.curator(target, **parameters)
            return run_protocol(curator, owners)

    def _template(self, replace):
        lines = TEMPLATE.read_text().splitlines()
        for k, line in enumerate(lines):
            name = line.split(" =")[0]
            lines[k] = f"{name} = {replace[name]}" if name in replace else line
        return "\n".join(lines)

    def _fill_in(self, owner, k):
        """Write a table, and what `new` leaves to the owner."""
        home = self.folder / owner
        table = "table.csv" if owner == CSV_OWNER else "table.parquet"
        write_table(home / table, *self.tables[owner])
        text = (home / "owner.toml").read_text().replace("max_rows = 0", "max_rows = 1000")
        (home / "owner.toml").write_text(text.replace("table.parquet", table) + f"seed = {k}\n")


class _Absent:
    def answer(self, message):
        raise TimeoutError


def asked(log, run):
    """Return the questions for rows that reached an owner in a run, as their log has them."""
    return [
        entry["content"]
        for entry in log
        if (entry["event"], entry.get("ask"), entry.get("run")) == ("received", "ask", run)
    ]


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


MNIST = {"high": "1", "n_select": "200", "n_components": "1000"}


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
                asked(parties.log(owner), run)
                == [describe(question_content(m)) for m in curator.transcript[owner]]
                for owner in tables
            ]
            print("the logs equal the transcript:", all(same))


if __name__ == "__main__":
    main()
