"""What owners and curator agree on before any row is touched."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sklearn.utils import check_random_state
from sklearn.utils._param_validation import validate_parameter_constraints

from ..schema._schema import first_difference
from ..sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion
from ..summaries import Pool, Propose
from ..summaries._curator import CONSTRAINTS
from ..summaries._mmd import Embedding

DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
LABEL_DTYPES = ("int64", "float64", "bool", "string")
_PROTOCOLS: dict[str, type[Any]] = {"propose": Propose, "pool": Pool}
_SKETCHERS: dict[str, type[Any]] = {
    "fourier": RFFSketcher,
    "histogram": HistogramSketcher,
    "race": RACESketcher,
}
# Of the parameters of sketchers, those that are not for the owner alone to set.
_RELEASE = ("epsilon", "delta", "adjacency", "random_state", "denominator", "denominator_share")
_PRIVATE = {*_RELEASE, "bounds", "categories", "ledger", "n_jobs", "noise_seed", "steps", "verbose"}
# What the agreement says of `Curator`; the rest is the curator's own affair.
_CURATOR = (
    *("n_select", "gamma", "n_components", "epsilon", "delta"),
    *("adjacency", "n_target", "random_state"),
)
_RANGE = re.compile(r"^(.*)\{(\d+)\.\.(\d+)\}$")


@dataclass(frozen=True)
class Agreement:
    """The schema of the tables, the public map, and what will be asked: signed off by all.

    Each owner keeps a copy that they have read. The curator's must be equal to it, entry by entry,
    or the owner answers nothing and says which entry differs.

    Parameters
    ----------
    owners : list of str
        Names, as the curator registered them with the SuperLink.
    columns : list of str
        In the order of phi. ``"px{0..63}"`` stands for 64 names.
    dtypes : str or list of str, default="float64"
        Of each column, or of all: one of float32, float64, int8 to int64, uint8 to uint32. Rows
        travel as float32 if all columns are, and as float64 otherwise.
    labels : str or None, default=None
        The column of labels that go with the rows.
    labels_dtype : {"int64", "float64", "bool", "string"}, default="int64"
    rows : mapping or None, default=None
        What chooses rows: ``protocol`` ("propose", "pool", or a mapping with such a ``kind`` and
        its ``parsimony`` and ``explore``), and parameters of `Curator`: ``n_select``, ``gamma``,
        ``n_components``, ``epsilon``, ``delta``, ``adjacency``, ``n_target``, ``random_state`` (an
        int: the frequencies are public).
    sketch : mapping or None, default=None
        What each owner releases: ``sketchers`` (a list of mappings with a ``kind``, "fourier",
        "histogram" or "race", and its parameters), ``bounds`` (a pair, or one per column),
        ``steps`` (as in `RFFSketcher`), ``epsilon``, ``delta``, ``adjacency``, ``random_state``,
        ``denominator`` and ``denominator_share``.

    Raises
    ------
    ValueError
        For entries that are unknown, missing or no good, by name.

    Examples
    --------
    >>> from skdpsumm.federated._agreement import Agreement
    >>> ours = Agreement(["north", "south"], ["age", "income"],
    ...                  rows={"protocol": "pool", "n_select": 10, "random_state": 0})
    >>> ours.rows_per_owner
    20
    >>> theirs = Agreement(["north", "south"], ["income", "age"], rows=ours.rows)
    >>> ours.difference(theirs)
    "columns[0]: 'age' here, 'income' there"
    """

    owners: list[str]
    columns: list[str]
    dtypes: Any = "float64"
    labels: str | None = None
    labels_dtype: str = "int64"
    rows: Mapping[str, Any] | None = field(default=None)
    sketch: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self):
        _set(self, "owners", _names("owners", self.owners))
        _set(self, "columns", _names("columns", [n for c in self.columns for n in _expand(c)]))
        given = [self.dtypes] * len(self.columns) if isinstance(self.dtypes, str) else self.dtypes
        _set(self, "dtypes", list(given))
        if len(self.dtypes) != len(self.columns) or not set(self.dtypes) <= set(DTYPES):
            raise ValueError(f"dtypes must be one of {DTYPES}, for all columns or for each.")
        if self.labels_dtype not in LABEL_DTYPES or self.labels in self.columns:
            raise ValueError(
                f"labels must be no column of phi, and labels_dtype one of {LABEL_DTYPES}."
            )
        if self.rows is None and self.sketch is None:
            raise ValueError("An agreement needs `rows`, `sketch` or both: what will be asked.")
        if self.rows is not None:
            self.protocol()  # checks them
        if self.sketch is not None:
            self.sketcher()

    @classmethod
    def load(cls, path: str | os.PathLike) -> Agreement:
        """Read the table ``tool.skdpsumm.agreement`` of a pyproject.toml.

        Parameters
        ----------
        path : path-like
            The file, or its folder.
        """
        path = Path(path).expanduser()
        text = (path / "pyproject.toml" if path.is_dir() else path).read_text()
        ours = tomllib.loads(text).get("tool", {}).get("skdpsumm", {})
        return cls.from_dict(ours.get("agreement"))

    @classmethod
    def from_dict(cls, table: Any) -> Agreement:
        """Return the agreement that `to_json` wrote, as json.loads reads it."""
        if not isinstance(table, dict):
            raise ValueError("There is no table [tool.skdpsumm.agreement].")
        unknown = set(table) - set(cls.__dataclass_fields__)
        if unknown or not {"owners", "columns"} <= set(table):
            raise ValueError(
                f"The agreement has unknown entries {sorted(unknown)}, or lacks owners or columns."
            )
        return cls(**table)

    def to_json(self) -> str:
        """Return the agreement as text that depends on its content alone."""
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of `to_json`: what is signed off."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def difference(self, other: Agreement) -> str | None:
        """Return the first entry that differs, by name, or None."""
        return first_difference(asdict(self), asdict(other))

    @property
    def dtype(self) -> str:
        """Of the table of all columns."""
        return "float32" if set(self.dtypes) == {"float32"} else "float64"

    def protocol(self) -> Propose:
        """Return the protocol that chooses rows."""
        given = dict(self._table("rows"))
        part = given.pop("protocol", None)
        for name in {"parsimony", "explore"} & set(given):
            raise ValueError(
                f"rows.{name} is a parameter of the protocol: write it as "
                f'protocol = {{ kind = "propose", {name} = {given[name]} }}.'
            )
        unknown = set(given) - set(_CURATOR)
        if unknown or "n_select" not in given:
            raise ValueError(f"rows lacks n_select, or has unknown entries {sorted(unknown)}.")
        if not isinstance(given.get("random_state"), int):
            raise ValueError("rows.random_state must be an int: owners check the map with it.")
        # Told when the agreement is read, and not when owners have signed it.
        validate_parameter_constraints(CONSTRAINTS, given, caller_name="Agreement")
        return _made("rows.protocol", part, _PROTOCOLS)

    def curator_parameters(self) -> dict[str, Any]:
        """Return what `Curator` is to be made with, its target and own affairs left out."""
        return {"owners": self.owners, **self._table("rows"), "protocol": self.protocol()}

    @property
    def rows_per_owner(self) -> int:
        """How many rows each owner may be asked for."""
        return self.protocol().rows_asked(self._table("rows")["n_select"], 1 / len(self.owners))

    def embedding(self) -> Embedding:
        """Return the map that the curator will draw."""
        given = self._table("rows")
        return Embedding.draw(
            len(self.columns),
            given.get("n_components", 1000),
            given.get("gamma", 1.0),
            self.protocol().embedding_kind,
            check_random_state(given["random_state"]),
        )

    def sketcher(self, **own: Any) -> Any:
        """Return the sketcher that each owner runs at home.

        Parameters
        ----------
        **own
            `ledger`, `noise_seed`, `n_jobs` or `verbose`: for the owner alone to choose.
        """
        given = dict(self._table("sketch"))
        parts = [
            _made("sketch.sketchers", part, _SKETCHERS, _PRIVATE)
            for part in given.pop("sketchers", [])
        ]
        known = {key: given.pop(key, None) for key in ("bounds", "steps")}
        unknown = set(given) - set(_RELEASE)
        if not parts or unknown:
            raise ValueError(f"sketch needs sketchers; unknown entries: {sorted(unknown)}.")
        if not isinstance(given.get("random_state"), int):
            raise ValueError("sketch.random_state must be an int: maps must be equal to be added.")
        common = {**known, **given, **own}
        made = parts[0].set_params(**common) if len(parts) == 1 else SketchUnion(parts, **common)
        made._validate_params()
        made.preview_map(len(self.columns), self.columns)
        return made

    def _table(self, name: str) -> Mapping[str, Any]:
        table = getattr(self, name)
        if not isinstance(table, Mapping):
            raise ValueError(f"The agreement has no table `{name}`.")
        return table


def _set(agreement: Agreement, name: str, value: Any) -> None:
    object.__setattr__(agreement, name, value)


def _names(parameter: str, names: Any) -> list[str]:
    names = list(names)
    if not names or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"{parameter} must be a list of names.")
    if len(set(names)) < len(names):
        raise ValueError(f"{parameter} has a name twice.")
    return names


def _expand(name: str) -> list[str]:
    found = _RANGE.match(name)
    if found is None:
        return [name]
    stem, first, last = found.groups()
    return [f"{stem}{j}" for j in range(int(first), int(last) + 1)]


def _made(
    entry: str, part: Any, kinds: Mapping[str, type[Any]], barred: Collection[str] = ()
) -> Any:
    """Return what a table with a `kind` describes; a name alone stands for the defaults."""
    given = {"kind": part} if isinstance(part, str) else dict(part or {})
    kind = kinds.get(given.pop("kind", None))
    if kind is None:
        raise ValueError(f"{entry} needs a kind: one of {sorted(kinds)}.")
    made = kind()
    unknown = set(given) - (set(made.get_params()) - set(barred))
    if unknown:
        raise ValueError(f"{entry} has unknown entries {sorted(unknown)}.")
    made.set_params(**given)._validate_params()
    return made
