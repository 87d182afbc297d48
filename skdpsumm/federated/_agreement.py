"""What owners and curator agree on before any row is touched."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._sklearn import check_params
from ..schema._schema import TableSchema, as_schema, first_difference, read_toml
from ..sketches import HistogramSketcher, PrivateSketch, RACESketcher, RFFSketcher, SketchUnion
from ..sketches._private_sketch import packed
from ..summaries import Curator, Pool, PrivateMMDSummarizer, Propose, summary_sketcher
from ..summaries._mmd import Embedding
from ..summaries._parties import shares_of
from ..summaries._protocol import ProposeRows, Terms
from ..summaries._sketch_summarizer import prepared
from ._envelope import check_public

CURATOR = "curator"  # the one party that is no owner
_PROTOCOLS: dict[str, type[Any]] = {"propose": Propose, "pool": Pool}
_SKETCHERS = {"fourier": RFFSketcher, "histogram": HistogramSketcher, "race": RACESketcher}
# These parameters of a sketcher are agreed on once for all of them; `_PRIVATE` ones are not agreed
# on by kind either, but follow from the agreement or are for the owner alone to set.
_RELEASE = {"epsilon", "delta", "adjacency", "random_state", "denominator"}
_PRIVATE = {*_RELEASE, "schema", "ledger", "max_rows_per_group", "verbose"}
_SUMMARY = {"target", "n_owners", "rows_per_owner", "n_bins"}
# The table `rows` has these entries; all others of the summarizer are the curator's own affair.
_TERMS = {"n_select", "gamma", "n_components", "epsilon", "delta", "adjacency"}
_OF_PROTOCOL = {"n_target", "max_share_per_owner", "shares"}


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
        The column of the schema that goes with the rows as their label, and plays no part in the
        choice. It is not in sketches. None, as rows need no label.
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
    rows: Any = None
    sketch: Any = None

    def __post_init__(self):
        object.__setattr__(self, "schema", as_schema(self.schema))
        if self.schema.names is None:
            raise ValueError("schema must name its columns, as in [schema.columns.age].")
        _check_keys(self.keys, self.owners)
        if self.labels is not None and self.labels not in self.schema.names:
            raise ValueError(f"labels={self.labels!r} must be a column of the schema.")
        parts = [part for part in (self.rows, self.sketch) if part is not None]
        if not parts or not all(isinstance(part, Mapping) for part in parts):
            raise ValueError("An agreement needs a table `rows`, `sketch` or both.")
        # Whatever is wrong is told when the agreement is read, and not when owners have signed it.
        if self.rows is not None:
            self._shares  # noqa: B018
            self.features.require_bounds()
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
        _check_entries("The agreement", table, cls.__dataclass_fields__)
        if not {"owners", "keys"} <= set(table) or not isinstance(table.get("schema"), dict):
            raise ValueError(
                "The agreement must have owners, keys and schema: tables, or the path of a file."
            )
        return cls(**{**table, "schema": TableSchema.from_tables(table["schema"])})

    def content(self) -> dict[str, Any]:
        """Return all entries as plain values, columns by their names and in their order."""
        told = self.schema.to_dict()
        columns = {entry.pop("name"): entry for entry in told.pop("columns")}
        extra = self.schema.extra_columns
        schema = {"order": list(columns), "columns": columns, "extra_columns": extra, **told}
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**kept, "schema": schema}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `content` as JSON: what is signed off."""
        return hashlib.sha256(
            json.dumps(self.content(), sort_keys=True, allow_nan=False).encode()
        ).hexdigest()

    def difference(self, other: Agreement) -> str | None:
        """Return the first entry that differs, by name, or None."""
        return first_difference(self.content(), other.content())

    @property
    def positions(self) -> list[int]:
        """Positions of the columns by which rows are chosen, and of which sketches are made."""
        return [j for j, name in enumerate(self.schema.names) if name != self.labels]

    @cached_property
    def features(self) -> TableSchema:
        """The schema of the columns at `positions`: all but the label."""
        return self.schema.take(self.positions)

    @cached_property
    def _summarizer(self) -> PrivateMMDSummarizer:
        given = dict(self.rows)
        part, seed = given.pop("protocol", None), given.pop("random_state", None)
        _check_entries("rows", given, _TERMS | _OF_PROTOCOL)
        if "n_select" not in given:
            raise ValueError("rows must have n_select, the number of rows to choose.")
        if not isinstance(seed, int):
            raise ValueError("rows.random_state must be an int, with which owners check the map.")
        protocol = _made("rows.protocol", part, _PROTOCOLS)
        protocol.set_params(**{n: given.pop(n) for n in _OF_PROTOCOL & set(given)})
        return PrivateMMDSummarizer(self.features, protocol=protocol, random_state=seed, **given)

    @cached_property
    def terms(self) -> Terms:
        """The terms of the curator, its protocol among them."""
        return self._summarizer.terms()

    def curator(self, X_target: Any, **own: Any) -> Curator:
        """Return the curator, who alone has the target and a ledger."""
        return Curator(
            X_target, self.owners, self.terms, random_state=self.rows["random_state"], **own
        )

    @cached_property
    def _shares(self) -> dict[str, float]:
        return shares_of(self.owners, self.terms.protocol.shares)

    def rows_asked(self, owner: str) -> int:
        """Return how many rows an owner may be asked for, in one run."""
        return sum(self._rows_asked(owner).values())

    def _rows_asked(self, owner: str) -> dict[str, int]:
        return self.terms.protocol.rows_asked(self.terms.n_select, self._shares[owner])

    def question(self, owner: str, direction: Any, noise: Any) -> ProposeRows:
        """Return what an owner is asked for rows, with the noisy target where any is sent."""
        phi = self.embedding if self.terms.protocol.broadcasts_target() else None
        rows = self._rows_asked(owner)
        return ProposeRows(**rows, direction=direction, noise=noise, embedding=phi)

    @cached_property
    def embedding(self) -> Embedding:
        """The map that the curator will draw."""
        return self._summarizer.preview_embedding(self.features.n_columns)

    @cached_property
    def empty_sketch(self) -> PrivateSketch:
        """What a release of no rows at all would look like: its map, noise and guarantee."""
        pending = prepared(self.sketcher(), None)
        size = pending.feature_map.n_features + pending.counts_rows
        return pending.to_sketch(np.zeros(size), 0)

    @cached_property
    def bytes_of_sketch(self) -> int:
        """The most bytes that the file of a sketch has."""
        # Others differ in the digits of a few numbers.
        return len(packed(*self.empty_sketch._contents())) + 1024

    def sketcher(self, **own: Any) -> Any:
        """Return the sketcher that each owner runs at home.

        Parameters
        ----------
        **own
            `ledger` or `verbose`: for the owner alone to choose.
        """
        given = dict(self.sketch)
        parts = [_part(part, self.features, given) for part in given.pop("sketchers", [])]
        _check_entries("sketch", given, _RELEASE)
        if not parts:
            raise ValueError("sketch must have at least one entry in sketchers.")
        if not isinstance(given.get("random_state"), int):
            raise ValueError("sketch.random_state must be an int, so that sketches can be added.")
        common = {"schema": self.features, **given, **own}
        made = parts[0].set_params(**common) if len(parts) == 1 else SketchUnion(parts, **common)
        check_params(made)
        made.preview_map(self.features.n_columns, self.features.names)
        return made


def _check_entries(entry: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    if not set(given) <= set(known):
        raise ValueError(f"{entry} has unknown entries {sorted(set(given) - set(known))}.")


def _check_keys(keys: Any, owners: list[str]) -> None:
    if not isinstance(owners, list) or not all(isinstance(n, str) and n for n in owners):
        raise ValueError("owners must be a list of names.")
    if not owners or len({CURATOR, *owners}) <= len(owners):
        raise ValueError("owners must be all different, and none of them is named curator.")
    if not isinstance(keys, Mapping) or set(keys) != {CURATOR, *owners}:
        raise ValueError("keys must have a table for the curator and each owner, and no others.")
    for name, public in keys.items():
        try:
            _check_entries("the table", public, {"sign", "seal", "node"})
            check_public(public)
        except ValueError as error:
            raise ValueError(f"keys.{name}: {error}") from None
    if len({public["sign"] for public in keys.values()}) < len(keys):
        raise ValueError("keys: two parties have the same key.")


def _part(part: Any, schema: TableSchema, release: Mapping[str, Any]) -> Any:
    """Return one of the sketchers, as its table describes it."""
    if not (isinstance(part, Mapping) and part.get("kind") == "summary"):
        return _made("sketch.sketchers", part, _SKETCHERS, _PRIVATE)
    given = {name: value for name, value in part.items() if name != "kind"}
    _check_entries("sketch.sketchers", given, _SUMMARY)
    if given.get("target") is None:
        raise ValueError("target is missing: name the column that models will predict.")
    budget = {name: release[name] for name in ("epsilon", "delta", "adjacency") if name in release}
    return summary_sketcher(schema, **given, **budget)


def _made(
    entry: str, part: Any, kinds: Mapping[str, type[Any]], barred: Collection[str] = _OF_PROTOCOL
) -> Any:
    """Return what a table with a `kind` describes; a name alone stands for the defaults."""
    given = {"kind": part} if isinstance(part, str) else dict(part or {})
    kind = kinds.get(given.pop("kind", None))
    if kind is None:
        raise ValueError(f"{entry} needs a kind: one of {sorted(kinds)}.")
    made = kind()
    _check_entries(entry, given, set(made.get_params()) - set(barred))
    check_params(made.set_params(**given))
    return made
