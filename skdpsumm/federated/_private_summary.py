"""The private summary over Flower: what an agreement's sketch of the kind "summary" counts.

Everything else is there: owners answer the question "sketch" once, at the price of one release on
their own ledger, and the curator adds the releases up. Bins and groups follow from the agreement,
so all parties make the same ones. The consumer draws and weighs at home::

    sketch = PrivateSketch.load("merged.sketch")
    model = M2MClassifier.from_sketch(sketch, target="income", X_target=rows)
    chosen = PrivateMMDSummarizer.from_sketch(sketch, 500, X_target=rows)
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from .._sklearn import Interval, StrOptions
from ..features._histogram import HistogramMap
from ..privacy import PrivacyLedger
from ..privacy._ledger import LedgerDataset
from ..schema._schema import SchemaLike, TableSchema
from ..sketches import HistogramSketcher
from ..summaries._sketches import public_groups


class SummarySketcher(HistogramSketcher):
    """Histograms of public groups of columns, as ``protocol="sketches"`` chooses them.

    Parameters
    ----------
    target : str or int
        The column that models will predict; it is one of the schema.
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. Required. Give the range of
        each numeric column and the values of each other column, because nothing is read off the
        data. Numbers outside go to the first or the last bin. Missing values have a bin. Give the
        step of whole numbers, as in ``Numeric(17, 90, step=1)``. Bins are then sets of values, and
        questions such as ``rows["age"] > 40`` mean the same to synthetic points.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise. The default is below 1 / n for tables of
        fewer than a million rows.
    n_owners : int, default=10
        How many owners there are: their noise adds up. Give the number that take part; 10 stands in
        for it.
    rows_per_owner : int, default=1000
        About how many rows an owner has, from public knowledge. 1000 is taken where nobody says it.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries, from public numbers alone.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    denominator : {"auto", "row_sums", "budget"} or float, default="auto"
        Where the number of rows comes from. With "row_sums" it is free: every histogram and every
        RACE array sums to it. A number between 0 and 1 is the part of the budget that buys a count
        (of epsilon under pure DP, of mu^2 under Gaussian noise). That is better at very small
        epsilon. "budget" is 0.02, as in the paper. Fourier features have nothing else. "auto" is
        "row_sums" where there are such sums, because it is free, and "budget" elsewhere.
    postprocess : bool, default=True
        Whether to move `sketch_.mean` to the set that every true mean lies in: the simplex for each
        histogram and RACE array, the unit disk for each (cos, sin) pair. The default is True
        because it lowers the error of each entry. It has no effect while the noise is small, and
        none on the answers of M2M.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies and hashes. None draws
        anew in each fit, as in scikit-learn. If several owners want to add their sketches, give all
        of them the same int.
    noise_seed : int or None, default=None
        Seed of the noise, for simulations only. None draws noise from the operating system, because
        noise that somebody can draw again protects nobody.
    ledger : PrivacyLedger or LedgerDataset, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    n_jobs : int or None, default=None
        Number of threads for the sum. The result does not depend on it, bit for bit. None is one
        thread, as in scikit-learn.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is 65,536 rows. It tells the number of
        rows, so it is off by default and for the curator alone. Dask has its own display.

    Attributes
    ----------
    feature_map_ : HistogramMap
        phi, public.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

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

    def __init__(
        self,
        target: str | int | None = None,
        *,
        schema: SchemaLike | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_owners: int = 10,
        rows_per_owner: int = 1000,
        n_bins: int | str = "auto",
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        denominator: str | float = "auto",
        postprocess: bool = True,
        random_state: int | np.random.RandomState | None = None,
        noise_seed: int | None = None,
        ledger: PrivacyLedger | LedgerDataset | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.target = target
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.n_owners = n_owners
        self.rows_per_owner = rows_per_owner
        self.n_bins = n_bins
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.denominator = denominator
        self.postprocess = postprocess
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose

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
