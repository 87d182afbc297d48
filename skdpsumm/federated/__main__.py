"""Owners' nodes, the curator's link, and the agreement.

usage: python -m skdpsumm.federated COMMAND ...

  agreement PATH   print the digest of the agreement in a pyproject.toml, and what it asks for
  supernode ...    an owner's node: flower-supernode, with the app of this installation only
  superlink ...    the curator's link: flower-superlink
  flwr ...         flwr: register a node, start a run

The last three take the options of Flower's commands, and run them with telemetry off.
"""

from __future__ import annotations

import sys

from ._agreement import Agreement
from ._commands import flower, supernode


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    match arguments:
        case ["agreement", path]:
            ours = Agreement.load(path)
            print(f"sha256 {ours.digest}\n{ours.to_json()}")
            return 0
        case ["supernode", *rest]:
            return supernode(rest)
        case ["superlink", *rest]:
            return flower("flower-superlink", rest)
        case ["flwr", *rest]:
            return flower("flwr", rest)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
