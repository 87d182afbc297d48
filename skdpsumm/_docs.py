"""Docstrings of parameters that several classes share, and links to the pages of classes."""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, ClassVar, TypeVar

T = TypeVar("T", bound=type)

_ENTRY = re.compile(r"(?m)^(\w+)(?:, \w+)* : .*\n(?: .*\n|\n(?= ))*")
_NOTES = re.compile(r"(?ms)^Notes\n-----\n(.*?\n)(?=\n\w+\n---|\Z)")


def inherited_docs(cls: T) -> T:
    """Put what base classes say of parameters where a docstring names them.

    A line ``{epsilon}`` stands for the entry of that name, ``{epsilon...ledger}`` for all from the
    one to the other, ``{notes}`` for the section Notes. The closest base counts. ``{default}`` in
    an entry is the default of the class that is documented.
    """
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        if base.__module__.startswith("skdpsumm."):
            # Python drops docstrings where it is asked to (-OO).
            text = inspect.cleandoc(base.__doc__ or "") + "\n"
            found = {entry[1]: entry[0] for entry in _ENTRY.finditer(text)}
            if notes := _NOTES.search(text):
                found["notes"] = notes[1]
            # In the order of the closest base that speaks of them.
            entries = {name: entries[name] for name in entries if name not in found} | found
    names, parameters = list(entries), getattr(cls, "__dataclass_fields__", {})

    def text_of(name: str) -> str:
        default: Any = getattr(parameters.get(name), "default", None)
        return entries[name].replace("{default}", f'"{default}"')

    def fill(found: re.Match[str]) -> str:
        first, last = names.index(found[1]), names.index(found[2] or found[1])
        return "".join(map(text_of, names[first : last + 1]))

    own = inspect.cleandoc(cls.__doc__ or "") + "\n"
    cls.__doc__ = re.sub(r"(?m)^\{(\w+)(?:\.\.\.(\w+))?\}\n", fill, own).rstrip("\n")
    return cls


class ListedMixin:
    """Attributes that can be listed whatever the parameters are; goes before `BaseEstimator`.

    scikit-learn 1.9 asks for every attribute that `dir` lists, to leave out methods that are not
    available. One that raises anything but AttributeError would end completion, and the
    representation in a notebook, though parameters are only checked in `fit`.
    """

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if _is_there(self, name)]


def _is_there(listed: Any, name: str) -> bool:
    try:
        getattr(listed, name)
    except Exception:  # of a parameter that is wrong, say, which `fit` tells
        return False
    return True


class DocLinkMixin(ListedMixin):
    """A link to the page of the class in HTML representations; goes before `BaseEstimator`."""

    _doc_link_module: ClassVar[str] = "skdpsumm"

    @property
    def _doc_link_template(self) -> str:
        root = docs_address()
        return f"{root}/generated/{{estimator_module}}.{{estimator_name}}.html" if root else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # Estimators are public in the package above their room: skdpsumm.moments, not .asking.
        package = ".".join(type(self).__module__.split(".")[:2])
        return {"estimator_module": package, "estimator_name": type(self).__name__}


@lru_cache
def docs_address() -> str:
    """Return the address of the documentation by the package's metadata, "" where none is given."""
    try:
        entries = metadata("skdpsumm").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its sources
        return ""
    urls = dict(entry.split(", ", 1) for entry in entries)
    return urls.get("Documentation", "").rstrip("/")
