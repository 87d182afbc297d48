"""The commands of a federation.

usage: python -m skdpsumm.federated COMMAND ...

  new NAME ... [--epsilon E] [--max-rows N] [--host H]
                                          make a party's folder: keys, and files to fill in
  agreement FILE [FILE]                   print the digest and what is asked, or the difference
  supernode OWNER.toml --superlink HOST:PORT --root-certificates FILE
                                          an owner's node; takes Flower's other options, too
  superlink CURATOR.toml [--host H] [--port P] [--ssl-certfile F --ssl-keyfile F]
                                          the curator's link, and the gate that owners call
  run CURATOR.toml                        start a run, and wait for its report
  flwr CURATOR.toml ...                   Flower's own commands: supernode list, list, stop, log
"""

from __future__ import annotations

import os
import sys

from . import _commands
from ._files import printable

_COMMANDS = ("new", "agreement", "supernode", "superlink", "run", "flwr")


def main(arguments: list[str] | None = None) -> int:
    """Run one command, of the command line where None, and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    os.umask(0o077)  # whatever Flower writes is for this user's eyes alone, too
    match arguments:
        case [name, _, *_] if name in _COMMANDS:
            try:
                return getattr(_commands, name)(arguments[1:])
            except (ValueError, OSError) as error:
                print(printable(f"{name}: {error}"), file=sys.stderr)
                return 2
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
