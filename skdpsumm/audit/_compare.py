"""A release beside the truth: how far off it is, on a budget of its own.

The release is public, so its cells, its counts r of them, its means and a model are fixed, and all
figures are sums over the rows of the table. With g = 2^15 grid units to a row, these are

- of each column, and of each pair of columns, S = sum_i |g c_i - rint(g r_i)|: c_i rows of the
  table are in cell i, and each row is in one. A total variation is S / (2 g n), n the number of
  rows that *the release* tells;
- of each column of numbers, D = sum over the rows that have a value of rint(g u) - m: u in [0, 1]
  is the value on its range, and m in [0, g] the mean of the release on the same grid. D / (g n') is
  how far the means are apart, n' again that of the release;
- of a model that is trained from the release, a histogram of its scores for each of two classes.
  The divisors of an AUC are sums of these noisy counts.

*Sensitivity.* A row more or less moves one c_i by one, so each S by at most g: the reverse triangle
inequality. A row that is replaced moves two, so each S by at most 2 g. D moves by max(m, g - m) or,
replaced, by g, for two values are at most g apart, and a missing one is m. One cell of the
histograms moves by one, or two do. A group of which k rows stay moves k times as much, of
histograms k in L1, and k in L2 too, where all rows are in one cell. So with s = k, under
replace-one 2 k, the vectors of d columns and of p pairs have L1 s g d and s g p, L2 s g sqrt(d) and
s g sqrt(p); the histograms have s and k, under replace-one sqrt(2) k; and means have the sum and
the root of the sum of squares of what each moves by. Each of these blocks has an equal share of the
budget. With Gaussian noise, the average of all columns is as well known as if it were released
alone: its noise is sqrt(d) times smaller than that of each, which is sqrt(d) times larger.

*What follows is post-processing.*
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._computing import Codes, Floats, warn_caller
from .._html import html_table, open_axes
from .._sklearn import Interval
from ..features._feature_maps import AVERAGE, GRID
from ..features._row_alone import map_rows
from ..moments import M2MClassifier, M2MEstimator
from ..moments.plausible._rows import Axis
from ..privacy import PrivacyGuarantee, PrivacyLeakWarning, PrivacyLedger
from ..privacy._fit import PrivateFit
from ..privacy._noise import MOST_LIFTED, TOO_LARGE, Block, IntegerNoise
from ..schema._columns import read_cells
from ..schema._groups import Groups
from ..schema._reading import ReadRows, check_in_memory, validate_table
from ..schema._schema import TableSchema, stack_columns
from ..sketches._private_sketch import stated_limit

Entry = tuple[str, str, float, float]

# Bins of scores, with about as many rows of the release in each: tests/test_compare.py holds an AUC
# to 0.005 of that of all thresholds.
_N_SCORE_BINS = 32
# Rows of the release whose scores say where these bins begin: each has some 30.
_N_SCORED = 1000
# What an average is of, and the heads of the table of all figures.
_ALL, _HEADS = "all", ("score", "columns", "value", "std error")


@dataclass(frozen=True, repr=False)
class Comparison:
    """How far a release is from a table, with the error that noise makes of each figure.

    Attributes
    ----------
    entries : tuple of (str, str, float, float)
        Score, columns, value and standard error: averages first. "TVComplement" and
        "ContingencySimilarity" are 1 minus a total variation, as in SDMetrics: 1 is perfect, 0 the
        worst. "MeanDifference" is the mean of the release minus that of the table, in the column's
        unit. "AUC" is that of a model from the release on the table.
    privacy_ : PrivacyGuarantee
        What the comparison promises about the table.
    """

    entries: tuple[Entry, ...]
    privacy_: PrivacyGuarantee

    def to_frame(self) -> Any:
        """Return all figures as a ``pandas.DataFrame``: score, columns, value, std error."""
        import pandas as pd

        return pd.DataFrame(self.entries, columns=_HEADS)

    def plot(self, ax: Any = None) -> Any:
        """Draw the scores of columns, the averages and the AUC, with bars of two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.

        Returns
        -------
        matplotlib Axes
        """
        shown = [
            (f"{score}, {columns}", value, 2 * std)
            for score, columns, value, std in self.entries
            if score in ("TVComplement", "AUC") or columns == _ALL
        ]
        names, values, reach = zip(*shown, strict=True)
        ax = open_axes(ax, "Comparison.plot", (5.6, 1.2 + 0.3 * len(shown)))
        ax.errorbar(values, range(len(shown)), xerr=reach, fmt="ok", ms=4, capsize=3)
        ax.set_yticks(range(len(shown)), names)
        ax.set(ylim=(len(shown) - 0.5, -0.5), xlabel="score, with two standard errors")
        return ax

    def _repr_html_(self) -> str:
        rows = [(*names, f"{value:.4g}", f"{std:.2g}") for *names, value, std in self.entries]
        return html_table(self.privacy_.badge, _HEADS, rows, len(rows))

    def __repr__(self) -> str:
        told = [entry for entry in self.entries if entry[1] == _ALL or entry[0] == "AUC"]
        lines = ["  {}, {}: {:.4g} +- {:.2g}".format(*entry) for entry in told]
        return "\n".join([f"<Comparison, {self.privacy_.short}", *lines]) + ">"


def compare(
    table: Any,
    release: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    adjacency: str = "add_remove",
    max_rows_per_group: int | None = None,
    groups: Any = None,
    bins: Any = 10,
    target: int | str | None = None,
    ledger: PrivacyLedger | None = None,
) -> Comparison:
    """Say how good a release is: hold it beside the private table, on a budget of its own.

    The comparison is a release of the table, too, and costs `epsilon` more: give it the ledger that
    counts the first release. *If you choose among releases by it, that is a search:* each
    comparison is charged, and the promise of the release that you keep is that of all of them
    together.

    It tells total variations, as SDMetrics' scores, of each column (`TVComplement`) and of each
    pair of columns (`ContingencySimilarity`), how far means are apart, and, with a `target`, the
    AUC of a model from the release. Missing values are a category of their own. Each figure comes
    with the standard error of its noise.

    Parameters
    ----------
    table : array-like or frame of shape (n_samples, n_features)
        The private rows that the release describes. Columns that it does not name are left out.
    release : fitted sketcher or M2M estimator, or PrivateSketch
        It is taken as public. So never give it one that was made without noise.
    epsilon : float
        Total epsilon of the comparison. It has no default, because only you know what is left of
        your budget. ``np.inf`` says that the table is public, adds no noise, and warns.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise, with which averages of d figures are
        sqrt(d) times less well known.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
    max_rows_per_group : int or None, default=None
        Set it if a person may have several rows, and give the `groups`. An int k keeps at most k
        rows of each group, chosen by secret coins. None protects one row, which is enough where
        each person has one. Give the value of the release, or 1 if that is "average". Otherwise the
        two would count different rows.
    groups : array-like or series of shape (n_samples,), default=None
        Who each row belongs to. Give it where `max_rows_per_group` is set, and nowhere else.
    bins : int, array-like of edges, or mapping, default=10
        Bins of numbers, as in `M2MEstimator.table`: 10 equal ones of each range by default, as
        SDMetrics has. They follow from public facts alone, so that releases compare. None takes
        those of the release.
    target : int or str, default=None
        A column of two classes, which an `M2MClassifier` predicts that is trained from the release.
        Rows that differ are scored one by one, some two thousand a second, so that no row moves the
        score of another. None asks for no AUC.
    ledger : PrivacyLedger, default=None
        Where the comparison is charged, once. None counts nothing, as only you know the cap.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If parameters, the release or the table are not valid. Nothing is charged.
    BudgetExceededError
        If the ledger cannot hold epsilon and delta. Nothing is charged.

    Warns
    -----
    PrivacyLeakWarning
        If epsilon is infinite.

    See Also
    --------
    M2MEstimator.score : The same without noise, for public rows.
    audit_epsilon : Attacks what a release promises.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsumm import AdaptiveSketcher, Numeric, PrivacyLedger, compare
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(18, 91, 20_000)})
    >>> people["job"] = np.where(people["age"] > 66, "retired", "clerk")
    >>> schema = {"age": Numeric(18, 90, step=1), "job": ["clerk", "retired"]}
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    >>> sketcher = AdaptiveSketcher(schema, epsilon=0.8, ledger=ledger).fit(people)
    >>> found = compare(people, sketcher, epsilon=0.2, ledger=ledger)
    >>> found.to_frame()[["score", "columns"]].head(3)
                       score   columns
    0           TVComplement       all
    1  ContingencySimilarity       all
    2           TVComplement       age
    >>> bool(found.entries[0][2] > 0.95)
    True
    """
    comparer = _Comparer(
        release,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        max_rows_per_group=max_rows_per_group,
        bins=bins,
        target=target,
        ledger=ledger,
    )
    found: Comparison = comparer._private_fit(table, groups=groups).comparison_
    return found


@dataclass
class _Block:
    """Exact integers that are released together, what moves them, and what they tell.

    A figure is ``offset + scale`` times an integer.
    """

    values: Codes
    l1: float
    l2: float
    names: list[str]
    offset: float = 0.0
    scale: Floats | float = 1.0


@dataclass
class _Draft:
    """All exact sums by their scores, the noise that is added to them, and what that costs."""

    blocks: dict[str, _Block]
    noise: IntegerNoise
    privacy: PrivacyGuarantee
    noise_seed: int | None


class _Comparer(PrivateFit, BaseEstimator):
    """What `compare` does: a private fit, with the order of all steps that these have."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateFit._parameter_constraints,
        "max_rows_per_group": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        release: Any,
        *,
        epsilon: float,
        delta: float,
        adjacency: str,
        max_rows_per_group: int | None,
        bins: Any,
        target: int | str | None,
        ledger: PrivacyLedger | None,
    ):
        self.release = release
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.bins = bins
        self.target = target
        self.ledger = ledger

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._m2m = _answering(self.release)
        self._known: TableSchema = self._m2m.schema_
        self._axes: list[Axis] = self._m2m._axes(list(range(len(self._known))), self.bins)
        self._n_rows = max(float(self._m2m.sketch_.n_samples), 1.0)
        counted = stated_limit(self._m2m.sketch_.privacy)
        counted = 1 if counted == AVERAGE else counted
        if counted != self.max_rows_per_group:
            raise ValueError(
                f"max_rows_per_group={self.max_rows_per_group!r} keeps other rows than "
                f"the release counted; set max_rows_per_group={counted!r}, as it has."
            )

    def _warn_first(self) -> None:
        if self.epsilon == np.inf:
            warn_caller(
                "epsilon=np.inf adds no noise: the comparison tells exact sums of the table. Do "
                "so with a public table alone; else give an epsilon, and a ledger that counts it.",
                PrivacyLeakWarning,
            )

    def _draft(self, noise_seed: int | None, X: Any, *, groups: Any = None) -> _Draft:
        scorer = None if self.target is None else _Scorer(self._m2m, self.target)
        values = self._read(X, groups, noise_seed)
        blocks = {
            "TVComplement": self._distances(values, 1),
            "ContingencySimilarity": self._distances(values, 2),
            "MeanDifference": self._means(values),
        }
        blocks = {score: block for score, block in blocks.items() if block.names}
        if scorer is not None:
            k, replaced = self._rows_per_group, self.adjacency == "replace_one"
            l1, l2 = (2 * k, math.sqrt(2) * k) if replaced else (k, k)
            blocks["AUC"] = _Block(scorer.counts(values), l1, l2, [self._known.name(scorer.at)])
        noise = IntegerNoise(
            [Block(len(b.values), b.l1, b.l2, 1 / len(blocks)) for b in blocks.values()],
            epsilon=self.epsilon,
            delta=self.delta,
        )
        if GRID * self._n_rows * 2.0**noise.lift > MOST_LIFTED:  # which is public
            raise ValueError(TOO_LARGE)
        for block in blocks.values():  # as 64 bits hold them; clipping moves no two farther apart
            most = MOST_LIFTED >> noise.lift
            block.values = np.clip(block.values, -most, most)
        given = "the release and the other parameters"
        privacy = self._guaranteed(noise.mechanism, given, noise_seed)
        return _Draft(blocks, noise, privacy, noise_seed)

    def _read(self, X: Any, groups: Any, noise_seed: int | None) -> list[NDArray]:
        """Return the columns of the rows that count, each cell as the schema reads it."""
        check_in_memory("table", X)
        known = self._known.dropping_others()
        table = validate_table(self, X, schema=known)
        rows = np.arange(len(table))
        if groups is not None:
            labels = Groups.read(groups, len(table))
            rows = labels.kept(self._rows_per_group, self._group_key(noise_seed))
        read = [known.read(table, j)[rows] for j in range(len(known))]
        # Zero has one sign, for rows are told apart by their values.
        return [
            one + 0.0 if j in known.numeric else known.decode(j, one) for j, one in enumerate(read)
        ]

    def _distances(self, values: list[NDArray], size: int) -> _Block:
        """Return the distances of all groups of so many columns, in units of the grid."""
        groups = list(combinations(range(len(values)), size))
        found = np.array([self._distance(group, values) for group in groups], np.int64)
        moved = GRID * self._rows_per_group * (2 if self.adjacency == "replace_one" else 1)
        return _Block(
            found,
            float(moved * len(groups)),
            moved * math.sqrt(len(groups)),
            [", ".join(map(self._known.name, group)) for group in groups],
            1.0,
            -1 / (2 * GRID * self._n_rows),
        )

    def _distance(self, group: tuple[int, ...], values: list[NDArray]) -> int:
        """Return the sum over cells of how far counts are from those of the release."""
        rows = self._m2m._plausible.rows(group, "model")
        n_cells = math.prod(len(self._axes[j]) + 1 for j in group)
        cells = self._cells(group, [rows.column(j)[0] for j in group])
        mass = np.bincount(cells, np.maximum(rows.weights[0], 0.0), n_cells)
        wanted = np.rint(mass * (GRID * self._n_rows / max(mass.sum(), 1.0)))
        own = np.bincount(self._cells(group, [values[j] for j in group]), minlength=n_cells)
        return int(np.abs(GRID * own - wanted.astype(np.int64)).sum())

    def _cells(self, group: tuple[int, ...], values: list[NDArray]) -> Codes:
        """Return the cell of each row; values that are missing, or in no bin, have one, too."""
        axes = [self._axes[j] for j in group]
        codes = [axis.codes(column) for axis, column in zip(axes, values, strict=True)]
        # The last of each axis, at -1, is that of values in no bin.
        sizes = tuple(len(axis) + 1 for axis in axes)
        return np.ravel_multi_index(codes, sizes, mode="wrap")

    def _means(self, values: list[NDArray]) -> _Block:
        """Return how far sums of numbers are from the release's mean of as many rows."""
        sums, moved, scales = [], [], []
        for j in self._known.numeric:
            low, high = self._known.columns[j].bounds
            rows = self._m2m._plausible.rows((j,), "model")
            there = ~np.isnan(rows.numbers(j)[0])
            numbers, weights = rows.numbers(j)[0][there], np.maximum(rows.weights[0][there], 0.0)
            mean = (weights @ numbers) / max(weights.sum(), 1.0)
            centre = int(np.clip(np.rint(GRID * (mean - low) / (high - low)), 0, GRID))
            units = np.rint(GRID * (values[j] - low) / (high - low))
            sums.append(int(units[~np.isnan(units)].sum()) - centre * int((~np.isnan(units)).sum()))
            moved.append(GRID if self.adjacency == "replace_one" else max(centre, GRID - centre))
            scales.append(-(high - low) / (GRID * max(weights.sum(), 1.0)))
        l1, l2 = sum(moved), math.hypot(*moved)
        k, names = self._rows_per_group, [self._known.name(j) for j in self._known.numeric]
        return _Block(np.array(sums, np.int64), k * l1, k * l2, names, 0.0, np.array(scales))

    def _publish(self, draft: _Draft) -> None:
        averages, entries = [], []
        for k, (score, block) in enumerate(draft.blocks.items()):
            noisy = draft.noise.add_block(k, block.values, draft.noise_seed)
            std = draft.noise.std_of_block(k)
            if score == "AUC":
                entries.append((score, block.names[0], *_auc(noisy.reshape(2, -1), std)))
                continue
            values = block.offset + block.scale * noisy
            errors = np.broadcast_to(np.abs(block.scale) * std, values.shape)
            if score != "MeanDifference":
                average = float(np.clip(values.mean(), 0.0, 1.0))
                averages.append((score, _ALL, average, errors[0] / math.sqrt(len(values))))
                values = np.clip(values, 0.0, 1.0)
            told = zip(block.names, values.tolist(), errors.tolist(), strict=True)
            entries += [(score, *one) for one in told]
        self.comparison_ = Comparison((*averages, *entries), draft.privacy)


# scikit-learn's messages name the class, and users know the function.
_Comparer.__name__ = compare.__name__


class _Scorer:
    """A model of a column of two classes, from the release, and public bins of its scores."""

    def __init__(self, m2m: M2MEstimator, target: int | str):
        known = m2m.schema_
        self.at = known.index(target, "target")
        self._name, self._column = known.name(self.at), known.columns[self.at]
        if self.at in known.numeric:
            raise ValueError(f"target={target!r} holds numbers; an AUC is one of two categories.")
        self._model = _model_of(m2m, self.at)
        classes = self._model.classes_.tolist()
        if len(classes) != 2:
            raise ValueError(f"target={target!r} must have two classes, not {len(classes)}.")
        self._two = read_cells(self._column, np.array(classes, object), "classes_")
        drawn = m2m._drawn(_N_SCORED, np.random.RandomState(0))
        public = self.transform(self._model._encoded(np.delete(drawn, self.at, axis=1)))
        inner = np.linspace(0, 1, _N_SCORE_BINS + 1)[1:-1]
        self._edges = np.unique(np.quantile(public, inner))

    def transform(self, X: NDArray) -> Floats:
        """Return the score of each row, as scikit-learn's AUC takes it."""
        scores: Floats = self._model.decision_function(ReadRows(X))
        return scores

    def counts(self, values: list[NDArray]) -> Codes:
        """Return how many rows of each class have their score in each bin, the lower class first.

        Rows of another class are in none.
        """
        inputs = stack_columns([one for j, one in enumerate(values) if j != self.at])
        seen: dict[tuple[Any, ...], int] = {}  # equal rows have one score
        which = [seen.setdefault(row, len(seen)) for row in map(tuple, inputs.tolist())]
        _, first = np.unique(which, return_index=True)
        rows = self._model._encoded(inputs[first])
        scores, taken = (part[which] for part in map_rows([self], rows, 1))
        codes, n = read_cells(self._column, values[self.at], self._name), len(self._edges) + 1
        bins = np.searchsorted(self._edges, scores[:, 0], side="right")
        found = [np.bincount(bins[taken & (codes == one)], minlength=n) for one in self._two]
        return np.concatenate(found)


def _model_of(m2m: M2MEstimator, at: int) -> Any:
    """Return a model of a column, which is as public as the release."""
    return M2MClassifier.from_sketch(m2m.sketch_, target=at, schema=m2m.schema_, random_state=0)


def _auc(counts: Floats, std: float) -> tuple[float, float]:
    """Return the area under the curve of noisy counts, and its standard error to first order.

    Parameters
    ----------
    counts : ndarray of shape (2, n_bins)
        Rows of the two classes in bins of rising scores.
    std : float
        Of the noise of each.
    """
    sizes = np.maximum(counts.sum(axis=1), 1.0)
    shares = counts / sizes[:, None]
    # These shares of the other class lie on the right side of each bin: below it for the upper
    # class, above it for the lower one. Ties count half.
    below, above = np.cumsum(shares[0]) - shares[0] / 2, np.cumsum(shares[1][::-1])[::-1]
    area = float(shares[1] @ below)
    slopes = np.array([above - shares[1] / 2 - area, below - area]) / sizes[:, None]
    return float(np.clip(area, 0.0, 1.0)), std * float(np.linalg.norm(slopes))


def _answering(release: Any) -> M2MEstimator:
    """Return what tells the cells and means of a release."""
    if isinstance(release, M2MEstimator):
        check_is_fitted(release, "sketch_")
        if release._conditions:
            raise ValueError("release is about some rows, where(...): give the whole release.")
        return release
    return M2MEstimator.from_sketch(getattr(release, "sketch_", release), random_state=0)
