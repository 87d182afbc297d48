"""Public rows, shaped like the private ones: candidates are tried on them, maps fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _get_column_indices

from ..features import Columns


@dataclass(frozen=True)
class Listed:
    """The values that are publicly listed of one column.

    Attributes
    ----------
    column : int
    values : list
    strict : bool
        Whether what is not listed is refused.
    """

    column: int
    values: list[Any]
    strict: bool


@dataclass(frozen=True)
class PublicRows:
    """Rows that learn nothing from the private ones.

    Attributes
    ----------
    X : array or frame of shape (m, d)
    y : ndarray of shape (m,)
    X_public : array-like or None
        What the user gave for `fit`.
    """

    X: Any
    y: NDArray
    X_public: Any = None

    @classmethod
    def like(
        cls, X: Any, d: int, classes: Any, X_public: Any, listed: tuple[Listed, ...] = ()
    ) -> PublicRows:
        """Return rows uniform in [0, 1], or of listed values; a frame where X is one."""
        rng = np.random.default_rng(0)
        m = 20 if classes is None else max(20, 3 * len(classes))
        m = max([m, *(len(one.values) for one in listed)])
        values: Any = rng.random((m, d))
        if listed:
            values = values.astype(object)
        for one in listed:
            values[:, one.column] = np.resize(np.array([*one.values], dtype=object), m)
        if hasattr(X, "columns"):
            values = _frame(X, values, {one.column for one in listed})
        y = rng.random(m) if classes is None else np.resize(np.asarray(classes), m)
        return cls(values, y, X_public)

    def through(self, steps: Any) -> PublicRows:
        """Return what fitted steps make of them."""
        points = self.X_public
        points = None if points is None else steps.transform(points)
        return PublicRows(steps.transform(self.X), self.y, points)


def _frame(X: Any, values: NDArray, listed: set[int]) -> Any:
    columns = {
        name: values[:, j] if j in listed else values[:, j].astype(np.float64)
        for j, name in enumerate(X.columns)
    }
    frame = type(X)(columns)
    # Steps may choose columns by dtype. The categories of X's own could be those of its rows.
    for name in X.columns:
        if X[name].dtype == "category":
            frame[name] = frame[name].astype("category")
    return frame


def listed_values(estimator: Any, X: Any, n_columns: int) -> tuple[Listed, ...]:
    """Return what the first step of an estimator lists of the columns of X.

    That is `categories` of an encoder, which may be in a `ColumnTransformer`.

    Raises
    ------
    ValueError
        For an encoder that would take its categories from the rows.
    """
    step = _first_step(estimator)
    if not isinstance(step, ColumnTransformer):
        return tuple(_listed_by(step, list(range(n_columns))))
    schema = _safe_indexing(X, slice(0, 0))
    return tuple(
        one
        for _, inner, chosen in step.transformers
        for one in _listed_by(_first_step(inner), _positions(schema, chosen))
    )


def lists_values(estimator: Any) -> bool:
    """Return whether an estimator may list values of columns, so that an array can hold them."""
    return isinstance(_first_step(estimator), ColumnTransformer | OneHotEncoder | OrdinalEncoder)


def _first_step(step: Any) -> Any:
    while isinstance(step, Pipeline):
        # Steps that do nothing leave the columns to the next one.
        doing = [s for _, s in step.steps if s is not None and not isinstance(s, str)]
        step = doing[0] if doing else None
    return step


def _positions(schema: Any, chosen: Any) -> list[int]:
    """Return the positions of columns, chosen as a ColumnTransformer does: never by a row."""
    chosen = chosen(schema) if callable(chosen) else chosen
    return [int(j) for j in _get_column_indices(schema, chosen)]


def _listed_by(step: Any, positions: list[int]) -> Iterator[Listed]:
    if not isinstance(step, OneHotEncoder | OrdinalEncoder):
        return
    if isinstance(step.categories, str):
        raise ValueError(
            f"{type(step).__name__} has categories={step.categories!r}, which would be read off "
            "the private rows; list the public values of its columns: categories=[[...], ...]."
        )
    strict = step.handle_unknown == "error"
    for j, values in zip(positions, step.categories, strict=False):  # it complains itself
        yield Listed(j, np.asarray(values, dtype=object).tolist(), strict)


def check_rows(X: NDArray, columns: Columns, listed: tuple[Listed, ...]) -> None:
    """Raise ValueError, naming a column and no value, for what is not listed and no number."""
    known = {one.column: one for one in listed}
    values = [known[j].values if j in known else None for j in range(columns.n_columns)]
    columns = replace(columns, categories=tuple(v if v is None else tuple(v) for v in values))
    for j in range(columns.n_columns):
        if j not in known:
            columns.number(X, j)
        elif known[j].strict:
            columns.code(X, j)
