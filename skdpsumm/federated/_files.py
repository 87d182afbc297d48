"""Files of one party: nobody else on the machine can read them (0600, in folders of 0700)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..schema._files import read_toml


def make_folder(path: str | os.PathLike, *, new: bool = False) -> Path:
    """Make a folder and those above it; raise FileExistsError if it has to be `new`."""
    path = Path(path)
    for folder in [p for p in reversed(path.parents) if not p.exists()]:
        folder.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=not new)
    return path


def write_file(path: str | os.PathLike, content: bytes | str) -> None:
    """Write a file in one step: whoever finds it finds all of it."""
    path = Path(path)
    # By chance, and not by process: what a killed one has left stands in nobody's way.
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def printable(text: str) -> str:
    """Return a text of others for a terminal: what would steer it is taken out."""
    return "".join(c for c in text if c.isprintable())


def close_files(folder: Path) -> None:
    """Take from others what a library has let them read."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def load_settings(path: Path, cls: Any, needed: Collection[str], files: Collection[str]) -> Any:
    """Return a dataclass that a TOML file describes; relative paths in it start at its folder.

    Parameters
    ----------
    path : Path
    cls : type
    needed, files : collection of str
        Entries that must be there, and entries that are paths.
    """
    given = read_toml(path)
    if not set(needed) <= set(given) <= set(cls.__dataclass_fields__):
        optional = sorted(set(cls.__dataclass_fields__) - set(needed))
        raise ValueError(
            f"{path.name} must have {sorted(needed)}, and may have {optional}; it has "
            f"{sorted(given)}."
        )
    for key in set(files) & set(given):
        given[key] = path.parent / Path(given[key]).expanduser()
    return cls(**given)
