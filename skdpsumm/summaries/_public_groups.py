"""What owners count, so that their sketches can be added: bins and groups from public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import Any

from .._sklearn import Interval, StrOptions, validate_parameter_constraints
from ..features._histogram import HistogramMap
from ..privacy import PrivacyGuarantee
from ..schema._columns import Column
from ..schema._schema import TableSchema, as_schema
from ..sketches import HistogramSketcher

# Rows that an owner is taken to have where you do not say it.
TYPICAL_ROWS_OF_OWNER = 1_000
# A group is counted if the noise of a cell is at most this part of the rows that it would have if
# all cells were alike. Of 0.05 to 1, 0.15 to 0.4 served both synthetic shifts of
# docs/summaries.md.
MAX_NOISE_OF_CELL = 0.2
# Coarser bins are worth it if this share of all pairs of columns is then counted. On 16 components
# of digits, pairs in 4 bins, of which 0.3 were counted, lost to single columns in 12 bins.
MIN_SHARE_OF_PAIRS = 0.4

COUNTED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_bins": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "rows_per_owner": [Interval(Integral, 1, None, closed="left")],
}


def summary_sketcher(
    schema: Any,
    target: Any = None,
    *,
    n_owners: int = 10,
    rows_per_owner: int = TYPICAL_ROWS_OF_OWNER,
    n_bins: int | str = "auto",
    **parameters: Any,
) -> HistogramSketcher:
    """Return the sketcher that each owner runs, so that all sketches can be added. No data.

    Bins and groups of columns follow from public numbers alone, so all parties make the same
    sketcher. Each owner calls its `fit`, with a ledger of its own, and releases `sketch_`. The sum
    of all sketches is what `SketchSummarizer.from_sketch` and `M2MClassifier.from_sketch` take.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        Public description of the columns, the label among them.
    target : str or int, default=None
        The column that models will predict: all others are counted with it. None counts the columns
        by themselves, where you have no such column.
    n_owners : int, default=10
        How many owners take part: their noise adds up. The default is a guess.
    rows_per_owner : int, default=1000
        About how many rows an owner has, from public knowledge. It decides what is counted, and no
        claim depends on it. The default is a guess.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries.
    **parameters
        Of `HistogramSketcher`: `epsilon`, `delta`, `adjacency`, `max_rows_per_group`, `ledger` and
        others.

    Returns
    -------
    HistogramSketcher

    Raises
    ------
    ValueError
        For a schema without bounds, a column that it does not have, and bad numbers.

    Examples
    --------
    >>> from skdpsumm.summaries import summary_sketcher
    >>> schema = {"age": (17, 90), "job": ["clerk", "farmer"], "ill": [0, 1]}
    >>> sketcher = summary_sketcher(schema, "ill", n_owners=2, epsilon=3.0)
    >>> sketcher.marginals
    [[0, 2], [1, 2], [0, 1, 2]]
    """
    given = {"n_owners": n_owners, "rows_per_owner": rows_per_owner, "n_bins": n_bins}
    constraints = {**COUNTED_CONSTRAINTS, "n_owners": COUNTED_CONSTRAINTS["rows_per_owner"]}
    validate_parameter_constraints(constraints, given, caller_name="summary_sketcher")
    table = as_schema(schema)
    table.require_bounds()
    label = None if target is None else table.index(target, "target")
    bins, groups = public_groups(
        table,
        label,
        int(n_owners),
        rows_per_owner=int(rows_per_owner),
        n_bins=None if isinstance(n_bins, str) else int(n_bins),
        **{name: parameters[name] for name in _BUDGET if name in parameters},
    )
    counted: dict[str, Any] = {"n_bins": list(bins), "marginals": [list(group) for group in groups]}
    return HistogramSketcher(table, **counted, **parameters)


# Parameters of `HistogramSketcher` that decide how much noise a cell has.
_BUDGET = ("epsilon", "delta", "adjacency", "max_rows_per_group")


def public_groups(
    table: TableSchema,
    label: int | None,
    n_owners: int,
    *,
    rows_per_owner: int = TYPICAL_ROWS_OF_OWNER,
    n_bins: int | None = None,
    **budget: Any,
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return bins of numeric columns, and what to count: from public numbers alone.

    Each column is counted with the label, or by itself where there is none. Pairs (with the label)
    are added, the smallest first, as long as the noise of a cell is below a fifth of the rows that
    it would have if all cells were alike. Each pair more makes the noise of all groups larger.
    Bins are the finest at which two fifths of all pairs are counted; where there are none such, the
    finest at which the columns themselves are, or else 4.

    Parameters
    ----------
    table : TableSchema
    label : int or None
    n_owners : int
    rows_per_owner : int, default=1000
    n_bins : int, default=None
        None chooses among 4, 6, 8 and 12.
    **budget
        Of each owner's release.

    Returns
    -------
    n_bins : tuple of int, one for each column
    groups : tuple of tuple of int
    """
    # The noise of a cell where one histogram has all the budget, in rows.
    alone = HistogramSketcher(table, n_bins=2, marginals=[[0]], **budget)
    unit = float(alone.preview_noise_std(table.n_columns, table.names)[0]) * math.sqrt(n_owners)
    rows = float(rows_per_owner * n_owners)
    power = 1.0 if budget.get("delta") == 0 else 0.5
    # The finest bins are tried first.
    tried = (12, 8, 6, 4) if n_bins is None else (n_bins,)
    designs = [_Design.of(table, label, bins, rows, unit, power) for bins in tried]
    with_pairs = [design for design in designs if design.share_of_pairs >= MIN_SHARE_OF_PAIRS]
    sound = [design for design in designs if design.columns_are_worth_it]
    best = (with_pairs or sound or designs[-1:])[0]
    return (best.n_bins,) * table.n_columns, best.groups


@dataclass(frozen=True)
class _Design:
    """What so many bins allow."""

    n_bins: int
    groups: tuple[tuple[int, ...], ...]
    share_of_pairs: float  # that are counted
    columns_are_worth_it: bool

    @classmethod
    def of(
        cls,
        table: TableSchema,
        label: int | None,
        bins: int,
        rows: float,
        unit: float,
        power: float,
    ) -> _Design:
        every = range(table.n_columns)
        sizes = HistogramMap(table, [bins] * table.n_columns, [(j,) for j in every]).n_bins
        inputs = [j for j in every if j != label]
        own = () if label is None else (label,)

        def cells(group: tuple[int, ...]) -> int:
            return math.prod(sizes[j] for j in group)

        def is_worth(group: tuple[int, ...], n_groups: int) -> bool:
            return unit * n_groups**power <= MAX_NOISE_OF_CELL * rows / cells(group)

        singles = [(j, *own) for j in inputs]
        pairs = sorted(((*pair, *own) for pair in combinations(inputs, 2)), key=cells)
        carried = 0
        for pair in pairs:
            too_large = cells(pair) > 2**17
            if too_large or not is_worth(pair, len(singles) + carried + 1):
                break
            carried += 1
        worth = all(is_worth(group, len(singles)) for group in singles)
        share = carried / len(pairs) if pairs else 1.0
        return cls(bins, (*singles, *pairs[:carried]), share, worth)


def with_label(schema: TableSchema, label: Column) -> TableSchema:
    """Return the schema of the table of X and y: the label is its last column, "target"."""
    if schema.names is None:
        return TableSchema([*schema.columns, label]).ruling_out(schema.impossible)
    name = "target"
    while name in schema.names:
        name += "_"
    named = dict(zip(schema.names, schema.columns, strict=True))
    return TableSchema({**named, name: label}).ruling_out(schema.impossible)


def claim_of_sum(own: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return what is claimed of the rows of each owner, from what their releases claim, added."""
    one = own.unit.removeprefix("one ")
    facts = [
        own.given.split("; ")[0],
        "the names of the owners, and which of them answer and when",
        f"no {one} is in two of the tables that were added",
        *own.given.split("; ")[1:],
    ]
    given = "; ".join(dict.fromkeys(facts))
    return replace(own, protects="the rows of each owner", given=given, counted=True)
