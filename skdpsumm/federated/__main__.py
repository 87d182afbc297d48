"""The commands of a federation: ``python -m skdpsumm.federated``, and docs/federated.md."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser

from .._html import cut
from ._commands import COMMANDS, supernode


def main(arguments: list[str] | None = None) -> int:
    """Run one command, of the command line where None, and return its exit status."""
    os.umask(0o077)  # whatever Flower writes is for this user's eyes alone, too
    parser = ArgumentParser(prog="python -m skdpsumm.federated", allow_abbrev=False)
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command, options in COMMANDS.items():
        part = parsers.add_parser(command.__name__, help=command.__doc__, allow_abbrev=False)
        for name, how in options.items():
            part.add_argument(name, **how)
        part.set_defaults(command=command)
    given, rest = parser.parse_known_args(arguments)
    given.rest = rest
    if rest and given.command is not supernode:  # whose others are Flower's
        parser.error(f"unknown arguments {rest}")
    try:
        return given.command(given)
    except (ValueError, OSError) as error:
        print(cut(f"{given.command.__name__}: {error}"), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
