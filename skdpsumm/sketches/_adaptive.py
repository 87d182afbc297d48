"""A sketch that chooses what to count: histograms of the groups of columns that matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._computing import progress
from ..features._feature_maps import GRID, UnionMap, check_size
from ..features._histogram import HistogramMap
from ..privacy import PrivacyGuarantee, PrivacyLedger
from ..privacy._filter import StepBudget
from ..privacy._fit import columns_kept
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import TOO_LARGE
from ..schema._reading import Table, is_frame, some_rows
from ..schema._schema import SchemaLike, TableSchema, as_schema, schema_of
from ._private_sketch import (
    ROWS_PER_BATCH,
    Counted,
    PrivateSketch,
    check_fits,
    claim_for,
    released_sums,
    sums_of,
)
from ._sketchers import TableSketcher
from ._steps import (
    MOST_CELLS_OF_GROUP,
    Design,
    Part,
    Steps,
    Sums,
    base_share,
    check_noise,
    check_possible,
    expected_noise,
    first_map,
    largest_state,
    most_for_choices,
)


class AdaptiveSketcher(TableSketcher):
    """Histograms of the columns, and of the pairs of columns that tell most, chosen privately.

    `fit` finds bins of the numeric columns and counts each column in them. It then chooses pairs in
    four rounds: those that a graphical model of all counts so far explains worst. First come pairs
    that join columns which nothing counted joins yet; a column whose pairs would all drown in noise
    stays alone (`sketch_.lone_columns`). Bins, choices and counts are one release with one charge,
    which is fixed before the rows are read.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. Required. Give the range of
        each numeric column and the values of each other column, because nothing is read off the
        data. Give the step of whole numbers, as in ``Numeric(17, 90, step=1)``. A column with
        `edges` has these as its bins.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise and pure DP. Other values give Gaussian
        noise, which is far smaller for many histograms. Keep delta below 1 / n_samples: 1e-6 suits
        fewer than a million rows.
    target : str or int, default=None
        The column that models will predict. All others are counted together with it, and triples
        with it may be chosen. The default, None, treats all columns alike, because a sketch is for
        any question.
    workload : list of column groups, default=None
        Groups that you are sure to ask about, such as ``[["sex", "hours"]]``. They are always
        counted, and each takes as much of the budget as a chosen group. The default, None, leaves
        that part of the budget to what is chosen.
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
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is not used here, because nothing public
        is drawn.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is 65,536 rows. It tells the number of
        rows, so it is off by default and for the curator alone. Dask has its own display.

    Attributes
    ----------
    feature_map_ : UnionMap
        All histograms in the order in which they were chosen, a part for each step.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    The budget is mu^2 under Gaussian noise and epsilon under pure DP. 8 per cent of it find bins:
    up to 5 find where rows heap, on up to four levels, and the rest makes bins of that. 15 count
    each column (30 with a target; up to 35 and 80 if rows are few for the noise), and 5 pay for the
    choices. The rest counts what is chosen: about ``0.4 sqrt(n mu)`` groups, but at least 16, and
    at least one for each column. Where there are at most 1.4 times as many groups (1.1 with a
    target), all are counted and nothing is chosen. With ``epsilon=np.inf``, all are counted. A
    group has at most 131,072 cells.

    Two such sketches have different maps, so `+` refuses them. To combine owners, release one
    sketch of all rows, or give each owner a `HistogramSketcher` with the same list of groups.

    References
    ----------
    McKenna, Mullins, Sheldon and Miklau (2022), "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data".

    McKenna, Miklau and Sheldon (2021), "Winning the NIST contest: a scalable and general approach
    to differentially private synthetic data". Its MST joins columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import AdaptiveSketcher
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 3))
    >>> X[:, 1] = X[:, 0] ** 2
    >>> sketcher = AdaptiveSketcher((0, 1)).fit(X)
    >>> [sorted(part.groups) for part in sketcher.feature_map_.parts()]
    [[(0,), (1,), (2,)], [(0,), (1,), (2,)], [(0, 1), (0, 2), (1, 2)]]
    >>> round(sketcher.privacy_.epsilon(1e-6), 3)
    1.0

    See Also
    --------
    HistogramSketcher : Histograms of groups that you choose.
    M2MEstimator : Answers any question from a sketch.
    """

    _needs_schema = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TableSketcher._parameter_constraints,
        "target": "no_validation",  # `Design` says what is wrong
        "workload": [None, list, tuple],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        target: str | int | None = None,
        workload: Sequence[Any] | None = None,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.workload = workload
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the private sketch of X. This charges the ledger once.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
            One row per person (or other unit of protection), or several with `groups`. Partitions
            of Dask are counted where they are, in up to eight passes. Column groups are chosen in
            this process.
        y : ignored
        groups : array-like or series of shape (n_samples,), default=None
            Who each row belongs to, in words or numbers, none missing. Give it where
            `max_rows_per_group` is set, and nowhere else: hence None. For a Dask collection, give a
            Dask series or array in the same partitions.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are not valid. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.
        RuntimeError
            If Dask cannot compute the partitions. Nothing is charged if it fails in the first pass,
            which checks all cells.
        """
        with columns_kept(self):
            noise_seed, known = self._begin(groups), as_schema(self.schema)
            rows = self._rows(X, groups, known, noise_seed)
            design = self._design(schema_of(self))
            budget = self._budget(design, noise_seed)
            # Public facts that a step would fall over, when it is paid for.
            check_noise(design, budget)
            check_possible(design.schema)
            with progress(f"{type(self).__name__}.fit", self.verbose):
                first, n_units = rows(first_map(design))
                _check_room(n_units, design, budget)
                privacy = self._claim(budget.mechanism, noise_seed)
                check_fits(largest_state(design), {}, check_size(design.most_values), privacy)
                self._pay(claim_for(self.ledger, privacy, lambda: budget.cost_when_replaced))
                n_public = n_units if self.adjacency == "replace_one" else None
                steps = Steps(design, budget, n_public)
                parts = steps.run(first, lambda feature_map: rows(feature_map)[0])
            self._set_release(_sketch(parts, privacy, n_public), known)
        return self

    def preview_map(self, n_columns: int, names: Any = None) -> HistogramMap:
        """Return the public map of single columns in public cells. It needs no data and is free.

        `fit` finds what else it counts: see `feature_map_`.
        """
        return self._design(self._schema_for(n_columns, names)).singles

    def preview_noise_std(self, n_columns: int, names: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of the noise that counts of the base will have.

        It needs no data and is free. There is one entry for each feature of `preview_map`. Where
        rows are few for the noise, the base has a larger share of the budget, and less noise.
        """
        design = self._design(self._schema_for(n_columns, names))
        budget = self._budget(design)
        share = base_share(design, budget, np.inf)
        std = budget.std(share=share, **design.distances(design.map(design.base)))
        return np.full(self.preview_map(n_columns, names).n_features, std / GRID)

    def predict_error(self, n_samples: int, n_columns: int | None = None) -> dict:
        """Predict the standard error of shares of rows after `fit`. It needs no data and is free.

        Parameters
        ----------
        n_samples : int
            Number of rows (of groups, with `max_rows_per_group`). A rough public estimate will do.
        n_columns : int, default=None
            Number of columns of the table. You need it only where the schema is one range for all
            columns: hence None.

        Returns
        -------
        dict
            "column" is the standard error of a cell of one column, as a share of the rows. "pair"
            is that of a cell of a pair that is counted. Both are before all counts are brought
            together, which lowers them. "n_pairs" says how many pairs (and triples, with a target)
            are counted beside the base, and "n_candidates" out of how many.
        """
        self._check_parameters()
        known = as_schema(self.schema)
        if known.is_for_all and n_columns is None:
            raise ValueError(
                "n_columns is missing: the schema is one range for all columns. Give their number."
            )
        table = known.for_table(n_columns) if known.is_for_all else known
        design = self._design(table)
        rows = max(float(n_samples), 1.0)
        column, pair, n_pairs = expected_noise(design, self._budget(design), rows)
        n_candidates = len(design.candidates)
        return {
            "column": column / rows,
            "pair": pair / rows,
            "n_pairs": n_pairs,
            "n_candidates": n_candidates,
        }

    # ---- what is public

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._early_design()

    def _early_design(self) -> Design | None:
        """Return what is public of a release, None where the number of columns is not known yet."""
        known = as_schema(self.schema)
        return None if known.is_for_all else self._design(known)

    def _design(self, schema: TableSchema) -> Design:
        """Return what is public of a release, or raise ValueError for names of no column."""
        target = None if self.target is None else schema.index(self.target, "target")
        workload = tuple(self._group(schema, group) for group in self.workload or ())
        if len({frozenset(group) for group in workload}) < len(workload):
            raise ValueError(f"workload lists a group twice, {self.workload!r}; list it once.")
        design = Design(schema, target, workload, self.adjacency, self._limit)
        for group in workload:
            if design.most_cells(group) > MOST_CELLS_OF_GROUP:
                names = [schema.name(j) for j in group]
                raise ValueError(
                    f"workload lists {names}, which may have {design.most_cells(group):,} cells, "
                    f"and a group has at most {MOST_CELLS_OF_GROUP:,}. List fewer columns "
                    "together, or describe them with fewer categories or edges."
                )
        return design

    @staticmethod
    def _group(schema: TableSchema, given: Any) -> tuple[int, ...]:
        if not isinstance(given, list | tuple) or not given:
            raise ValueError(
                f"workload must list groups of columns, such as [['sex', 'hours']], got {given!r} "
                "among them."
            )
        group = tuple(schema.index(key, "workload") for key in given)
        if len(set(group)) < len(group):
            raise ValueError(f"workload lists a column twice in {given!r}; name it once.")
        return group

    def _budget(self, design: Design, noise_seed: int | None = None) -> StepBudget:
        return StepBudget(
            epsilon=self.epsilon,
            delta=self.delta,
            most_values=design.most_values,
            most_chosen=most_for_choices(design),
            noise_seed=noise_seed,
        )

    def _least_when_replaced(self) -> Mechanism:
        # What more values cost is in the slack, which is next to nothing.
        design = self._early_design()
        most_chosen = 0.0 if design is None else most_for_choices(design)
        least = StepBudget(
            epsilon=self.epsilon, delta=self.delta, most_values=1, most_chosen=most_chosen
        )
        return least.cost_when_replaced

    # ---- rows

    def _read(self, X: Any, known: TableSchema | None) -> tuple[int, Callable[..., NDArray]]:
        # The first row of a frame says what columns there are; the others are read later.
        first = self._validate(some_rows(X, slice(1)), known, reset=True)
        table: Any = X if is_frame(X) else first
        return len(table), _CodedRows(partial(self._coded, table, known))

    def _coded(
        self, X: Any, known: TableSchema | None, cells: HistogramMap, columns: Sequence[int]
    ) -> list[NDArray[Any]]:
        """Return the cells of some columns; of a frame no more than a block is read at once."""
        codes = [np.empty(len(X), np.min_scalar_type(cells.n_bins[j])) for j in columns]
        for rows in gen_batches(len(X), ROWS_PER_BATCH):
            part = some_rows(X, rows)
            block: Any = self._validate(part, known, reset=False) if is_frame(X) else X[rows]
            for j, own in zip(columns, codes, strict=True):
                own[rows] = cells.column_codes(block, j)
        return codes


class _CodedRows:
    """Private rows, as codes of cells, of which sums alone are asked.

    Parameters
    ----------
    coded : callable
        Returns the codes of some columns in the cells of a map.
    """

    def __init__(self, coded: Callable[[HistogramMap, Sequence[int]], list[NDArray]]):
        self._coded = coded
        self._codes: dict[int, NDArray] = {}
        self._cells: dict[int, HistogramMap] = {}

    def __call__(self, feature_map: HistogramMap, counted: Counted, *, silent: bool) -> Sums:
        """Return the sum of a map over what counts; see `sums_of`."""
        # All cells are read, and so checked, for the first map; cells that a map cuts, once more.
        seen = feature_map.seen_columns() if self._codes else range(feature_map.schema.n_columns)
        cells = {j: _cells_that_hold(self._cells.get(j), feature_map, j) for j in seen}
        cut = [j for j, found in cells.items() if found is None]
        self._codes |= zip(cut, self._coded(feature_map, cut) if cut else (), strict=True)
        self._cells |= dict.fromkeys(cut, feature_map)
        cells |= {j: _cells_that_hold(feature_map, feature_map, j) for j in cut}
        codes = Table([self._codes[j] for j in sorted(self._codes)])
        return sums_of(_MapOfCodes(feature_map, cells), codes, counted, silent=silent)


def _cells_that_hold(
    fine: HistogramMap | None, coarse: HistogramMap, j: int
) -> NDArray[np.int64] | None:
    """Return the cell that holds each cell of a column in another map, None where it cuts some."""
    if fine is None or coarse.schema.values(j) is not None:
        return None if fine is None else coarse.cell_of_codes(j)
    edges, own = fine.edges(j), coarse.edges(j)
    # Edges of bins are edges of finer cells, in the same bits.
    if not np.isin(own, edges).all():
        return None
    cells = np.searchsorted(own[1:-1], edges[:-1], side="right")
    return np.append(cells, coarse.n_bins[j] - 1) if coarse.schema.missing(j) else cells


class _MapOfCodes(HistogramMap):
    """The same histograms of rows that finer maps have coded: no cell is read twice."""

    def __init__(self, own: HistogramMap, cells: dict[int, Any]):
        vars(self).update(vars(own))
        self._cells = cells

    def column_codes(self, X: Any, j: int) -> NDArray[np.int64]:
        return self._cells[j].take(X[:, j])


def _check_room(n_units: int, design: Design, budget: StepBudget) -> None:
    """Raise ValueError for more rows than 64 bits can hold the sums of, noise included."""
    least = design.distances(design.map([(0,)]))["l2"]
    # Scores are sums of counts and of what a model expects.
    if not budget.is_silent and n_units * GRID > min(budget.room(l2=least), 2**60):
        raise ValueError(TOO_LARGE)


def _sketch(
    parts: Sequence[Part], privacy: PrivacyGuarantee, n_public: int | None
) -> PrivateSketch:
    """Return the release of all parts."""
    sums = np.concatenate([part.sums for part in parts])
    noise_std = np.concatenate([np.full(len(part.sums), part.std) for part in parts])
    counted = None if n_public is None else (float(n_public), 0.0)
    return released_sums(UnionMap([part.map for part in parts]), sums, noise_std, privacy, counted)
