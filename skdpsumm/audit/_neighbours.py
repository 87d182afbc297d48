"""Neighbouring data sets that an estimator finds hard to tell apart least well.

Beside parameters that the library shares, this is asked of an estimator:

- a sketcher, which releases the sum of phi(x) over rows with noise: ``preview_map(n_columns)``,
  phi, and ``preview_noise_std(n_columns)``, the standard deviation of the noise on each feature;
- a model of what a sketcher of its own releases, of X, or of (X, y) where it predicts y:
  ``preview_sketcher(n_features, y)``, the sketcher that `fit` would use, without a ledger;
- a kernel learner, which releases something of a minimiser: ``kernel_diag(X)``, k(x, x) of rows;
- a summarizer, whose target is released through an embedding: ``preview_embedding(n_features)``,
  `features` of which are phi of rows, or of the schema's vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import check_random_state

from ..schema._columns import Categorical, Column, Numeric
from ..schema._reading import rows_of
from ..schema._schema import TableSchema, as_schema, stack_columns
from ..schema._vectorizer import vectorize

SIDES = ("target", "owners")
N_CANDIDATES = 2_000

World = dict[str, Any]


def worst_case_neighbours(
    estimator: Any,
    *,
    n_samples: int = 20,
    n_features: int | None = None,
    side: str = "target",
    random_state: Any = 0,
) -> tuple[Any, Any]:
    """Return two neighbours whose exact releases lie as far apart as the claim allows for.

    Give them to `audit_epsilon`, to try to refute the claim. They are neighbours under the
    estimator's own adjacency.

    *Sketchers, unions of them and `M2MEstimator`.* Under add-remove the second table has one row
    more: the one with the largest phi, in L1 for Laplace noise and in L2 for Gaussian noise, each
    entry in units of its noise. Under replace-one its last row is replaced by the one whose phi is
    as far away as can be found. Both searches go over random rows of the schema, missing values
    among them, and over many scales where a column has no range. *`M2MClassifier` and
    `M2MRegressor`:* the same for the table (X, y).

    *Kernel learners.* All rows are the one with the largest phi, and two labels take turns, so
    that their pulls cancel. The neighbour has one row more, or the other label in its last row.
    Where `regularization` is at least ``4 R^2``, no margin comes near the kink. The minimisers of
    "hinge" and "huberized_hinge" (of a width up to 1/2) for two classes are then ``L R / Lambda``
    apart, or twice that. Those of other losses are closer.

    *`PrivateMMDSummarizer`.* With ``side="target"`` the targets are such tables, of rows far from
    those of the owner "observer". With ``side="owners"`` the owner "others" either has a row like
    the target's or does not. If it has, the row is taken; if not, one as far away as can be found
    is taken. Either way, the release is all that "observer" sees, `transcript_`.

    *Groups.* Where `max_rows_per_group` is set, each row is a group of its own. The row that is
    added or replaced becomes a group of twice as many rows as may count, all alike. So code that
    bounds the rows of a group in the wrong place is found to count more of them.

    Parameters
    ----------
    estimator : sketcher, M2M model, kernel learner or PrivateMMDSummarizer
        With an integer `random_state`, so that its map is the same at every fit.
    n_samples : int, default=20
        Number of rows of the first table, all alike. The default keeps the many fits of an audit
        quick. For ``side="owners"``, the number of rows of the target: with more rows it is surer
        that the row like it is taken.
    n_features : int, default=None
        Number of columns of X. None takes as many as the schema describes, or 1 where it does not
        say.
    side : {"target", "owners"}, default="target"
        Whose rows differ, for a `PrivateMMDSummarizer`; other estimators ignore it. The default is
        the side whose rows are released through an embedding.
    random_state : int, RandomState or None, default=0
        Seed of the search. The default finds the same pair each time, so that you can repeat an
        audit.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Columns are in the order of a schema with names. For a learner, `M2MClassifier` and
        `M2MRegressor` it is the pair (X, y). For `PrivateMMDSummarizer`, and wherever
        `max_rows_per_group` is set, it is a dict: the keyword arguments of `fit`.
    X_neighbour : ndarray of shape (n_samples + 1, n_features) or (n_samples, n_features)
        The neighbour, in the same form as X.

    Raises
    ------
    TypeError
        If the estimator is none of those. Build a pair by hand.
    ValueError
        If the estimator's map changes from fit to fit, or `side` is unknown. Also for `shares`,
        `target_is_owners` or groups of a summarizer, for which no pair is built.

    Examples
    --------
    >>> from skdpsumm import HistogramSketcher
    >>> from skdpsumm.audit import worst_case_neighbours
    >>> X, X_neighbour = worst_case_neighbours(HistogramSketcher(schema=(0, 1), random_state=0))
    >>> X.shape, X_neighbour.shape
    ((20, 1), (21, 1))
    """
    _check_estimator(estimator, side)
    rng = check_random_state(random_state)
    # A model may have left to its sketcher what is known of the columns of X.
    models = estimator, getattr(estimator, "release", None)
    given = [schema for model in models if (schema := getattr(model, "schema", None)) is not None]
    schema = as_schema(given[0]) if given else None
    if n_features is None:
        n_features = 1 if schema is None or schema.is_for_all else schema.n_columns
    known = (schema or TableSchema(Numeric())).for_table(n_features)
    if hasattr(estimator, "preview_embedding"):
        return _worlds(estimator, known, n_samples, side, rng)
    if hasattr(estimator, "kernel_diag"):
        return _in_groups(estimator, *_labelled_tables(estimator, known, n_samples, rng))
    labels = None
    if hasattr(estimator, "preview_sketcher"):
        predicts = is_classifier(estimator) or is_regressor(estimator)
        labels = _two_labels(estimator) if predicts else None
        sketcher = estimator.preview_sketcher(n_features, labels)
    else:
        sketcher = clone(estimator).set_params(ledger=None)
    n_columns = n_features + (labels is not None)
    tables = _tables(sketcher, n_samples, n_columns, rng)
    if labels is None:
        return _in_groups(sketcher, *tables)
    is_plain = schema is None or len(schema.numbers) == len(schema)
    kind = np.float64 if is_plain else object
    return _in_groups(sketcher, *((table[:, :-1].astype(kind), table[:, -1]) for table in tables))


def _check_estimator(estimator: Any, side: str) -> None:
    face = ("preview_map", "preview_sketcher", "kernel_diag", "preview_embedding")
    if not any(hasattr(estimator, method) for method in face):
        raise TypeError(
            f"No neighbours are known for {type(estimator).__name__}; give a sketcher, an M2M "
            "model, a kernel learner or a PrivateMMDSummarizer, or build a pair by hand."
        )
    inner = getattr(estimator, "release", None)
    seeds = [getattr(one, "random_state", None) for one in (estimator, inner)]
    if not any(isinstance(seed, int | np.integer) for seed in seeds):
        raise ValueError(
            f"random_state must be an int, got {seeds[0]!r}: the audit needs the "
            "same public map at every fit."
        )
    if not hasattr(estimator, "preview_embedding"):
        return
    if side not in SIDES:
        raise ValueError(f'side must be "target" or "owners", got {side!r}.')
    shares = getattr(estimator.protocol, "shares", None) or {"observer": 1, "others": 1}
    if (
        set(shares) != {"observer", "others"}
        or estimator.target_is_owners
        or estimator.max_rows_per_group is not None
    ):
        raise ValueError(
            "Set target_is_owners=False, max_rows_per_group=None, and shares to None, or to those "
            "of the owners of the audit, 'observer' and 'others'. Or build a pair by hand: costs "
            "of targets that are owners add up."
        )


def _tables(sketcher: Any, n_samples: int, n_columns: int, rng) -> tuple[NDArray, NDArray]:
    feature_map = sketcher.preview_map(n_columns)
    rows = candidate_rows(feature_map.schema, N_CANDIDATES, rng)
    features: Any = feature_map.matrix(rows)
    features = features.toarray() if sparse.issparse(features) else features
    std = sketcher.preview_noise_std(n_columns)  # which differs between the parts of a union
    features = features.astype(np.float64) / np.where(std > 0, std, 1.0)
    order = 1 if sketcher.delta == 0 else 2
    base, other = hard_pair(features, order, sketcher.adjacency)
    rows = feature_map.schema.with_dates(rows)
    return neighbouring_tables(rows[base], rows[other], n_samples, sketcher.adjacency)


def _in_groups(estimator: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return tables, or pairs (X, y), as arguments of a fit with groups where it asks for them.

    The row in which they differ becomes a group of many rows: that which comes, or both of those
    that are replaced by one another.
    """
    limit = estimator.max_rows_per_group
    if limit is None:
        return first, second
    parts, others = (data if isinstance(data, tuple) else (data,) for data in (first, second))
    n_copies = 2 * (1 if limit == "average" else limit)
    replaced = len(parts[0]) == len(others[0])
    one = _with_copies(parts, n_copies if replaced else 1)
    return one, _with_copies(others, n_copies)


def _with_copies(parts: tuple[Any, ...], n_copies: int) -> dict[str, Any]:
    """Return arguments of a fit in which the last row is a group of so many equal rows."""
    n_rows = len(parts[0])
    rows = np.append(np.arange(n_rows - 1), np.full(n_copies, n_rows - 1))
    copied = (rows_of(part, rows) for part in parts)
    return {**dict(zip("Xy", copied, strict=False)), "groups": rows}


# ---- kernel learners: labels take turns, and one pull is left over


def _labelled_tables(learner: Any, known: TableSchema, n_samples: int, rng) -> tuple[Any, Any]:
    """Return two neighbours (X, y) for a learner; see `worst_case_neighbours`."""
    # The kernel is evaluated between all of them.
    rows = known.with_dates(candidate_rows(known, 500, rng))
    row, labels = rows[np.argmax(learner.kernel_diag(rows))], _two_labels(learner)
    turns = np.arange(n_samples + 1) % 2
    X, y = np.repeat(row[None], n_samples + 1, axis=0), labels[turns]
    data = X[:-1], y[:-1]
    if learner.adjacency == "add_remove":
        return data, (X, y)
    return data, (X[:-1], labels[np.append(turns[:-2], 1 - turns[-2])])


def _two_labels(model: Any) -> NDArray:
    """Return two classes, or the ends of the bounds of y."""
    if not is_classifier(model):
        return np.asarray(model.y_bounds, dtype=np.float64)
    return np.array([0, 1]) if model.classes is None else np.unique(model.classes)[:2]


# ---- summaries: another target, or other rows of an owner


def _worlds(
    summarizer: Any, known: TableSchema, n_samples: int, side: str, rng
) -> tuple[World, World]:
    """Return two neighbours, as keyword arguments of `fit`; see `worst_case_neighbours`."""
    rows = candidate_rows(known, N_CANDIDATES, rng)
    if summarizer.schema is None:
        points = rows = rows / np.sqrt(summarizer.gamma)
    else:
        points, rows = vectorize(known, rows), known.with_dates(rows)
    embedding, adjacency = summarizer.preview_embedding(known.n_columns), summarizer.adjacency
    order = 1 if summarizer.delta == 0 else 2
    # What a row of an owner displaces is another: sums move as where a row is replaced.
    pulled = "replace_one" if side == "owners" else adjacency
    pair = hard_pair(embedding.features(points).astype(np.float64), order, pulled)
    far, near = (rows[k] for k in pair)
    n_held = summarizer.n_select
    n_moved, n_kept = (n_samples, n_held) if side == "target" else (n_held, n_samples)
    kept = np.repeat(near[None], n_kept, axis=0)

    def world(moved: NDArray) -> World:
        """Return the arguments of `fit`; the observer holds what the target has no use for."""
        target, others = (moved, kept) if side == "target" else (kept, moved)
        return {
            "X": np.vstack([np.repeat(far[None], n_held, axis=0), others]),
            "X_target": target,
            "owners": np.repeat(["observer", "others"], [n_held, len(others)]),
        }

    first, second = neighbouring_tables(far, near, n_moved, adjacency)
    return world(first), world(second)


# ---- rows whose phi moves a sum as far as its sensitivity allows for


def candidate_rows(schema: TableSchema, n_rows: int, rng) -> NDArray:
    """Draw rows that the schema of a table allows for, in its order.

    They are spread over ranges and categories, their ends and missing cells among them; columns
    without a range go from near zero to far away. Dates are steps, as they are read.
    """
    scales = 10.0 ** rng.uniform(-2, 3, size=n_rows)
    return stack_columns([_cells(column, scales, rng) for column in schema.columns])


def _cells(column: Column, scales: NDArray, rng) -> NDArray:
    n_rows = len(scales)
    if isinstance(column, Categorical):
        return column.sample(rng.uniform(size=n_rows))
    assert isinstance(column, Numeric)
    if column.bounds is None:
        cells = scales * rng.normal(size=n_rows)
        return np.where(rng.uniform(size=n_rows) < 0.1, np.nan, cells) if column.missing else cells
    cells, kind = column.sample(rng.uniform(size=n_rows)), rng.randint(4, size=n_rows)
    ends = np.select([kind == 0, kind == 1], column.bounds, cells)
    return np.where(np.isnan(cells), cells, ends)


def hard_pair(features: NDArray, order: int, adjacency: str) -> tuple[int, int]:
    """Return a row to fill tables with, and one to add to them or to put in its place.

    Parameters
    ----------
    features : ndarray of shape (n, m)
        phi of the candidates, in units of the noise.
    order : int
        1 for Laplace noise, 2 for Gaussian noise.
    adjacency : {"add_remove", "replace_one"}
    """
    if adjacency == "replace_one":
        return _farthest(features, order)
    extra = int(np.argmax(np.linalg.norm(features, ord=order, axis=1)))
    return int(np.argmin(features @ features[extra])), extra


def neighbouring_tables(
    base: NDArray, other: NDArray, n_samples: int, adjacency: str
) -> tuple[NDArray, NDArray]:
    """Return `n_samples` rows like `base`, and those with `other` added or put last instead."""
    X = np.repeat(base[None], n_samples, axis=0)
    kept = X if adjacency == "add_remove" else X[:-1]
    return X, np.vstack([kept, other[None]])


def _farthest(features: NDArray, order: int) -> tuple[int, int]:
    """Walk to a pair of rows far apart: from a row to its farthest, until nothing is gained."""
    first, second, reached = 0, 0, -1.0
    while True:
        distances = np.linalg.norm(features - features[first], ord=order, axis=1)
        second = int(np.argmax(distances))
        if distances[second] <= reached + 1e-12:
            return first, second
        first, reached = second, float(distances[second])
