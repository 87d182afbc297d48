"""What owners and curator agree on before any row is touched."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.utils import check_random_state

from .._sklearn import check_params, validate_parameter_constraints
from ..schema._files import read_toml
from ..schema._schema import TableSchema, as_schema, first_difference
from ..schema._vectorizer import n_vector
from ..sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion
from ..summaries import Curator, Pool, PrivateMMDSummarizer, Propose, summary_sketcher
from ..summaries._mmd import Embedding, made_gamma
from ..summaries._protocol import SHARED_CONSTRAINTS
from ..summaries._releases import Terms
from ._envelope import check_public

CURATOR = "curator"  # the one party that is no owner
LABEL_DTYPES = ("int64", "float64", "bool", "string")
_PROTOCOLS: dict[str, type[Any]] = {"propose": Propose, "pool": Pool}
_SKETCHERS: dict[str, type[Any]] = {
    "fourier": RFFSketcher,
    "histogram": HistogramSketcher,
    "race": RACESketcher,
}
# Parameters of a sketcher that all parties agree on; other ones are for the owner alone to set.
_RELEASE = ("epsilon", "delta", "adjacency", "random_state", "denominator")
_PRIVATE = {*_RELEASE, "schema", "ledger", "max_rows_per_group", "verbose"}
# What the agreement says of `Curator`; the rest is the curator's own affair.
_TERMS = ("n_select", "gamma", "n_components", "epsilon", "delta", "adjacency")
_OF_PROTOCOL = ("n_target", "max_share_per_owner", "shares")
_CURATOR = (*_TERMS, *_OF_PROTOCOL, "random_state")
_ROWS = {**SHARED_CONSTRAINTS, **PrivateMMDSummarizer._parameter_constraints}


@dataclass(frozen=True)
class Agreement:
    """The schema of the tables, the public map, and what will be asked: signed off by all.

    Read your own copy before you sign it off: each owner keeps one. The curator's must be equal to
    it, entry by entry, or the owner answers nothing and says which entry differs.

    Parameters
    ----------
    owners : list of str
        Their names.
    schema : TableSchema, or a mapping from name to what is known of a column
        Schema of all tables, those of the owners and the target. Columns are found by their names,
        and cells are read one by one, whatever dtypes a file has. It also fixes what rows travel
        as: numbers, and the positions of categories in their lists.
    keys : mapping from name to mapping
        The public keys of each owner and of "curator": ``sign`` and ``seal``, as the command `new`
        writes them, and of owners ``node``, by which Flower knows them. No message is opened that
        another key has signed.
    labels : str or None, default=None
        The column of labels that go with the rows; texts have 64 characters at most. None, as
        labels play no part in the choice.
    labels_dtype : {"int64", "float64", "bool", "string"}, default="int64"
        Type of the labels. The default serves numbered classes.
    rows : mapping or None, default=None
        What chooses rows. None asks for none, so that no row leaves unless all agree to it.
        Entries: ``protocol`` ("propose", "pool", or a mapping with such a ``kind`` and its
        ``parsimony`` and ``explore``), and parameters of `PrivateMMDSummarizer`: ``n_select``,
        ``gamma`` ("auto", the default, or a number), ``n_components``, ``epsilon``, ``delta``,
        ``adjacency``, ``n_target``, ``max_share_per_owner``, ``random_state`` (an int: the
        frequencies are public) and ``shares`` (a mapping from owner to a positive number; equal by
        default).
    sketch : mapping or None, default=None
        What each owner releases. None asks for no sketch, so that owners release none unless all
        agree to it. Entries: ``sketchers`` (a list of mappings with a ``kind``, "fourier",
        "histogram", "race" or "summary", and its parameters), ``epsilon``, ``delta``,
        ``adjacency``, ``random_state`` and ``denominator``.

    Raises
    ------
    ValueError
        For entries that are unknown, missing or wrong, by name.

    Examples
    --------
    >>> from skdpsumm.federated._agreement import Agreement
    >>> from skdpsumm.federated._envelope import Keys
    >>> keys = {name: Keys().public for name in ("curator", "north", "south")}
    >>> ours = Agreement(["north", "south"], {"age": (17, 90), "job": ["clerk", "farmer"]}, keys,
    ...                  rows={"protocol": "pool", "n_select": 10, "random_state": 0})
    >>> ours.rows_asked("north")
    80
    >>> theirs = Agreement(["north", "south"], {"age": (17, 80), "job": ["clerk", "farmer"]}, keys,
    ...                    rows=ours.rows)
    >>> ours.difference(theirs)
    'schema.columns.age.high: 90.0 here, 80.0 there'
    """

    owners: list[str]
    schema: Any
    keys: Mapping[str, Mapping[str, str]]
    labels: str | None = None
    labels_dtype: str = "int64"
    rows: Mapping[str, Any] | None = field(default=None)
    sketch: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self):
        _set(self, "owners", _names("owners", self.owners))
        _set(self, "schema", _named(as_schema(self.schema)))
        _check_keys(self.keys, self.owners)
        if self.labels_dtype not in LABEL_DTYPES or self.labels in self.schema.names:
            raise ValueError(
                "labels must not be a column of the schema, and labels_dtype must be one of "
                f"{LABEL_DTYPES}."
            )
        if self.rows is None and self.sketch is None:
            raise ValueError("An agreement needs a table `rows`, `sketch` or both.")
        if self.rows is not None:
            self.protocol()  # checks them
            self.shares()
            self.schema.require_bounds()
        if self.sketch is not None:
            self.sketcher()

    @classmethod
    def load(cls, path: str | os.PathLike) -> Agreement:
        """Read an agreement.toml.

        Parameters
        ----------
        path : path-like
            The file. Its entry `schema` may be the path of a file that `TableSchema.save` or a
            person wrote, which starts at its folder.
        """
        path = Path(path).expanduser()
        ours = read_toml(path)
        if isinstance(ours.get("schema"), str):
            ours["schema"] = read_toml(path.parent / ours["schema"])
        return cls.from_dict(ours)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Agreement:
        """Return the agreement that the tables of a TOML file describe."""
        unknown = set(table) - set(cls.__dataclass_fields__)
        lacking = {"owners", "schema", "keys"} - set(table)
        if unknown:
            raise ValueError(f"The agreement has unknown entries {sorted(unknown)}.")
        if lacking:
            raise ValueError(f"The agreement lacks {sorted(lacking)}; add them.")
        if not isinstance(table["schema"], dict):
            raise ValueError(
                "schema must be tables, such as [schema.columns.age], or the path of a schema's "
                "file."
            )
        return cls(**{**table, "schema": TableSchema.from_tables(table["schema"])})

    def to_json(self) -> str:
        """Return the agreement as text that depends on its content alone."""
        return json.dumps(self.content(), sort_keys=True, allow_nan=False)

    def content(self) -> dict[str, Any]:
        """Return all entries as plain values, columns by their names and in their order."""
        told = self.schema.to_dict()
        columns = {
            entry.pop("name"): {k: v for k, v in entry.items() if v is not None and v is not False}
            for entry in told.pop("columns")
        }
        extra = self.schema.extra_columns
        schema = {"order": list(columns), "columns": columns, "extra_columns": extra, **told}
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**kept, "schema": schema}

    @property
    def digest(self) -> str:
        """SHA-256 of `to_json`: what is signed off."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def difference(self, other: Agreement) -> str | None:
        """Return the first entry that differs, by name, or None."""
        return first_difference(self.content(), other.content())

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
        if unknown:
            raise ValueError(f"rows has unknown entries {sorted(unknown)}.")
        if "n_select" not in given:
            raise ValueError("rows must have n_select, the number of rows to choose.")
        if not isinstance(given.get("random_state"), int):
            raise ValueError("rows.random_state must be an int, with which owners check the map.")
        # Told when the agreement is read, and not when owners have signed it.
        validate_parameter_constraints(_ROWS, given, caller_name="Agreement")
        made = _made("rows.protocol", part, _PROTOCOLS)
        known = set(made.get_params()) & set(_OF_PROTOCOL)  # "pool" has no n_target
        return made.set_params(**{name: given[name] for name in known if name in given})

    def terms(self) -> Terms:
        """Return the terms of the curator."""
        given = {name: value for name, value in self._table("rows").items() if name in _TERMS}
        known = {"protocol": self.protocol(), "schema": self.schema}
        return PrivateMMDSummarizer(**{**given, **known}).terms()

    def curator(self, X_target: Any, **own: Any) -> Curator:
        """Return the curator, who alone has the target and a ledger."""
        seed = self._table("rows")["random_state"]
        return Curator(X_target, self.owners, self.terms(), random_state=seed, **own)

    @property
    def gamma(self) -> float:
        """Of the kernel by which rows are chosen."""
        return made_gamma(self._table("rows").get("gamma", "auto"), self.schema)

    def shares(self) -> dict[str, float]:
        """Return each owner's share of the rows; they sum to one."""
        given = self._table("rows").get("shares") or dict.fromkeys(self.owners, 1)
        named = isinstance(given, Mapping) and set(given) == set(self.owners)
        if not named or not all(
            isinstance(s, int | float) and 0 < s < math.inf for s in given.values()
        ):
            raise ValueError("rows.shares must have a positive number for each owner.")
        return {owner: share / sum(given.values()) for owner, share in given.items()}

    def rows_asked(self, owner: str) -> int:
        """Return how many rows an owner may be asked for, in one run."""
        return self.protocol().rows_asked(self._table("rows")["n_select"], self.shares()[owner])

    def embedding(self) -> Embedding:
        """Return the map that the curator will draw."""
        given = self._table("rows")
        return Embedding.draw(
            n_vector(self.schema),
            given.get("n_components", 1000),
            self.gamma,
            self.protocol().embedding_kind,
            check_random_state(given["random_state"]),
        )

    def sketcher(self, **own: Any) -> Any:
        """Return the sketcher that each owner runs at home.

        Parameters
        ----------
        **own
            `ledger` or `verbose`: for the owner alone to choose.
        """
        given = dict(self._table("sketch"))
        listed = given.pop("sketchers", [])
        parts = [_part(part, self.schema, given) for part in listed]
        unknown = set(given) - set(_RELEASE)
        if unknown:
            raise ValueError(f"sketch has unknown entries {sorted(unknown)}.")
        if not parts:
            raise ValueError("sketch must have at least one entry in sketchers.")
        if not isinstance(given.get("random_state"), int):
            raise ValueError("sketch.random_state must be an int, so that sketches can be added.")
        common = {"schema": self.schema, **given, **own}
        made = parts[0].set_params(**common) if len(parts) == 1 else SketchUnion(parts, **common)
        check_params(made)
        made.preview_map(self.schema.n_columns, self.schema.names)
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


def _check_keys(keys: Any, owners: list[str]) -> None:
    if CURATOR in owners or not isinstance(keys, Mapping) or set(keys) != {CURATOR, *owners}:
        raise ValueError(
            "keys must have a table for the curator, [keys.curator], and for each owner, and no "
            "others. No owner can be named curator."
        )
    for name, public in keys.items():
        if not set(public) <= {"sign", "seal", "node"}:
            raise ValueError(f"keys.{name} has unknown entries {sorted(public)}.")
        try:
            check_public(public)
        except ValueError as error:
            raise ValueError(f"keys.{name}: {error}") from None
    if len({public["sign"] for public in keys.values()}) < len(keys):
        raise ValueError("keys: two parties have the same key.")


def _named(schema: TableSchema | None) -> TableSchema:
    if schema is None or schema.names is None:
        raise ValueError(
            "schema must name its columns, as the tables of all owners do: "
            "[schema.columns.age], or a mapping from name to column."
        )
    return schema


def _part(part: Any, schema: TableSchema, release: Mapping[str, Any]) -> Any:
    """Return one of the sketchers, as its table describes it."""
    if not (isinstance(part, Mapping) and part.get("kind") == "summary"):
        return _made("sketch.sketchers", part, _SKETCHERS, _PRIVATE)
    given = {name: value for name, value in part.items() if name != "kind"}
    unknown = set(given) - {"target", "n_owners", "rows_per_owner", "n_bins"}
    if unknown:
        raise ValueError(f"sketch.sketchers has unknown entries {sorted(unknown)}.")
    if given.get("target") is None:
        raise ValueError(
            'target is missing: name the column that models will predict, { kind = "summary", '
            'target = "income" }.'
        )
    budget = {name: release[name] for name in ("epsilon", "delta", "adjacency") if name in release}
    return summary_sketcher(schema, **given, **budget)


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
    check_params(made.set_params(**given))
    return made
