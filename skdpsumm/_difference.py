"""In what two public descriptions differ, in words."""

from __future__ import annotations

from typing import Any


def first_difference(here: Any, there: Any, path: str = "") -> str | None:
    """Return the first entry in which two nested descriptions differ, by name, or None."""
    if isinstance(here, dict) and isinstance(there, dict):
        keys = [(f"{path}.{k}" if path else k, k) for k in sorted({*here, *there})]
        pairs = [(name, here.get(k), there.get(k)) for name, k in keys]
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = [(f"{path}[{j}]", *p) for j, p in enumerate(zip(here, there, strict=True))]
    else:
        same = type(here) is type(there) and here == there
        return None if same else f"{path}: {_short(here)} here, {_short(there)} there"
    return next((d for d in (first_difference(h, t, name) for name, h, t in pairs) if d), None)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries"
    return "nothing" if value is None else repr(value)[:80]
