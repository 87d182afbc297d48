"""The private summary over Flower: what an agreement's sketch of the kind "summary" counts.

Everything else is there: owners answer the question "sketch" once, at the price of one release on
their own ledger, and the curator adds the releases up. Bins and groups follow from the agreement,
so all parties make the same ones. The consumer draws and weighs at home::

    sketch = PrivateSketch.load("merged.sketch")
    model = M2MClassifier.from_sketch(sketch, target="income", X_target=rows)
    chosen = PrivateMMDSummarizer.from_sketch(sketch, 500, X_target=rows)
"""

from __future__ import annotations

from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

from .._docs import inherited_docs
from .._sklearn import Interval, StrOptions
from ..features._histogram import HistogramMap
from ..privacy._fit import estimator
from ..schema._schema import TableSchema
from ..sketches import HistogramSketcher
from ..summaries._sketches import public_groups


@inherited_docs
@estimator
class SummarySketcher(HistogramSketcher):
    """Histograms of public groups of columns, as ``protocol="sketches"`` chooses them.

    Parameters
    ----------
    target : str or int
        The column that models will predict; it is one of the schema.
    n_owners : int, default=10
        How many owners there are: their noise adds up. Give the number that take part; 10 stands in
        for it.
    rows_per_owner : int, default=1000
        About how many rows an owner has, from public knowledge. 1000 is taken where nobody says it.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries, from public numbers alone.
    {schema}
    {epsilon}
    delta : float, default=1e-6
        0 gives Laplace noise. The default is below 1 / n for tables of fewer than a million rows.
    {adjacency...verbose}

    Attributes
    ----------
    feature_map_ : HistogramMap
        phi, public.
    {sketch_...feature_names_in_}

    Examples
    --------
    >>> from skdpsumm.federated._agreement import Agreement
    >>> from skdpsumm.federated._envelope import Keys
    >>> keys = {name: Keys().public for name in ("curator", "north", "south")}
    >>> columns = {"age": (17, 90), "job": ["clerk", "farmer"], "ill": [0, 1]}
    >>> ours = Agreement(
    ...     ["north", "south"], columns, keys,
    ...     sketch={"sketchers": [{"kind": "summary", "target": "ill", "n_owners": 2}],
    ...             "epsilon": 3.0, "random_state": 0})
    >>> sketcher = ours.sketcher()
    >>> sketcher.preview_map(3, ["age", "job", "ill"]).groups
    ((0, 2), (1, 2), (0, 1, 2))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **HistogramSketcher._parameter_constraints,
        "target": [None, str, Integral],
        "n_owners": [Interval(Integral, 1, None, closed="left")],
        "rows_per_owner": [Interval(Integral, 1, None, closed="left")],
        "n_bins": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    target: Any = field(default=None, kw_only=False)
    n_owners: int = 10
    rows_per_owner: int = 1000
    n_bins: Any = "auto"

    def _draw_map(self, schema: TableSchema, rng: Any) -> HistogramMap:
        if self.target is None:
            raise ValueError(
                'target is missing: name the column that models will predict, { kind = "summary", '
                'target = "income" }.'
            )
        n_bins, groups = public_groups(
            schema,
            schema.index(self.target, "target"),
            int(self.n_owners),
            rows_per_owner=int(self.rows_per_owner),
            n_bins=None if isinstance(self.n_bins, str) else int(self.n_bins),
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            max_rows_per_group=self.max_rows_per_group,
        )
        return HistogramMap(schema, list(n_bins), list(groups))
