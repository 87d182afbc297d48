"""From a table to vectors of norm at most one, by what is public of its columns alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .._docs import DocLinkMixin
from ._columns import Categorical, Column, Numeric
from ._reading import Table, validate_table
from ._schema import TableSchema, allowed, as_schema, schema_of, stack_columns

# Vectors are at most one long after rounding, too.
_ROUNDED_DOWN = 1 - 2.0**-40


class PublicVectorizer(DocLinkMixin, TransformerMixin, BaseEstimator):
    """Make vectors of norm at most one of a table, reading nothing off the data.

    Numbers go from their public range to [-1, 1], categories to indicators, and a missing number
    to 0 and an indicator of its own. Where all columns are numbers a constant stands beside them,
    which linear models need for an intercept (indicators add up to one). All is then divided by
    the square root of the number of columns, so that no vector is longer than one: learners keep
    ``norm_bound=1``. Unlike `StandardScaler` or `OneHotEncoder`, which make everything after them
    depend on all rows and so void a privacy claim, this is a map of each row alone.

    Private estimators that take a `schema` do so inside; this is for pipelines.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        Public; with the range of every numeric column.

    Attributes
    ----------
    schema_ : TableSchema
        That of the columns of X that are used, in their order.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsumm import PublicVectorizer
    >>> X = pd.DataFrame({"age": [20, 40], "job": ["clerk", "farmer"]})
    >>> vectorizer = PublicVectorizer({"age": (20, 60), "job": ["clerk", "farmer"]})
    >>> vectorizer.fit_transform(X).round(3)
    array([[-0.707,  0.707,  0.   ],
           [ 0.   ,  0.   ,  0.707]])
    >>> vectorizer.get_feature_names_out()
    array(['age', 'job_clerk', 'job_farmer'], dtype=object)
    """

    def __init__(self, schema):
        self.schema = schema

    def fit(self, X, y=None):
        """Check that the schema describes the columns of X; nothing is learnt.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For columns that are missing or not described, and cells that their column does not
            take.
        """
        X = self._validate(X, reset=True)
        schema = schema_of(self)
        schema.require_bounds()
        schema.check(X)
        self.schema_ = schema
        return self

    def transform(self, X):
        """Return the vectors of the rows of X.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), of rows with norm at most one
        """
        check_is_fitted(self)
        return vectorize(self.schema_, self._validate(X, reset=False))

    def inverse_transform(self, X):
        """Return the table that vectors stand for: numbers in their units, categories, NaN or None.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)

        Returns
        -------
        ndarray of shape (n_samples, n_columns)
            Of objects where a column holds words.
        """
        check_is_fitted(self)
        return unvectorize(self.schema_, np.asarray(X, np.float64))

    def get_feature_names_out(self, input_features=None):
        """Return the names of the entries of the vectors.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, where X had none.

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        given = _check_feature_names_in(self, input_features)
        schema = self.schema_
        names = schema.names or given[as_schema(self.schema).positions(self.n_features_in_)]
        parts = [_names(str(n), c) for n, c in zip(names, schema.columns, strict=True)]
        parts.append(["constant"] * _n_constant(schema))
        return np.array(_unique([name for part in parts for name in part]), dtype=object)

    def _validate(self, X: Any, *, reset: bool) -> Any:
        if self.schema is None:
            raise ValueError(
                "schema is missing: give the public description of the columns, such as (0, 1) or "
                "{'age': (17, 90), 'job': ['clerk', 'farmer']}."
            )
        return validate_table(self, X, schema=as_schema(self.schema), reset=reset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        return tags


def n_vector(schema: TableSchema) -> int:
    """Return the length of the vectors of a schema of a table."""
    return sum(column.n_encoded for column in schema.columns) + _n_constant(schema)


def _n_constant(schema: TableSchema) -> int:
    return int(schema.is_numeric)


def _scale(schema: TableSchema) -> float:
    return _ROUNDED_DOWN / float(np.sqrt(schema.n_columns + _n_constant(schema)))


def vectorize(
    schema: TableSchema, X: NDArray | Table, *, lowest: float = -1.0
) -> NDArray[np.float64]:
    """Return the vector of each row, of norm at most one; each a function of that row alone.

    Numbers go to the interval from `lowest`, -1 or 0, to 1.
    """
    start, scale = 0, _scale(schema)
    out = np.full((X.shape[0], n_vector(schema)), scale)  # which leaves the constant
    for j, column in enumerate(schema.columns):
        end = start + column.n_encoded
        out[:, start:end] = _block(column, schema.read(X, j), lowest) * scale
        start = end
    return out


def _block(column: Column, values: NDArray, lowest: float) -> NDArray[np.float64]:
    """Return the entries of one column, a block of norm at most one."""
    if isinstance(column, Categorical):
        return np.eye(column.n_codes)[values]
    assert isinstance(column, Numeric)
    low, high = column.bounds  # type: ignore[misc]
    scaled = np.clip((values - low) / (high - low) * (1 - lowest) + lowest, lowest, 1)
    if not column.missing:
        return scaled[:, None]
    absent = np.isnan(values)
    return np.column_stack([np.where(absent, 0.0, scaled), absent])


def unvectorize(schema: TableSchema, vectors: NDArray[np.float64]) -> NDArray:
    """Return the table that vectors stand for."""
    start, scale, parts = 0, _scale(schema), []
    for column in schema.columns:
        block = vectors[:, start : start + column.n_encoded] / scale
        start += column.n_encoded
        parts.append(_from_block(column, block))
    return stack_columns(parts)


def _from_block(column: Column, block: NDArray[np.float64]) -> NDArray:
    if isinstance(column, Categorical):
        return column.decode(block.argmax(axis=1))
    assert isinstance(column, Numeric)
    low, high = column.bounds  # type: ignore[misc]
    values = column.on_grid(low + (np.clip(block[:, 0], -1, 1) + 1) / 2 * (high - low))
    return np.where(block[:, 1] > 0.5, np.nan, values) if column.missing else values


def _names(name: str, column: Column) -> list[str]:
    if isinstance(column, Categorical):
        values = [*column.categories, *(["missing"] * column.missing)]
        return [f"{name}_{value}" for value in values]
    return [name, f"{name}_missing"] if column.missing else [name]


def _unique(names: list[str]) -> list[str]:
    """Return names that differ: those that are there already get underscores."""
    known: dict[str, None] = {}
    for name in names:
        while name in known:
            name += "_"
        known[name] = None
    return list(known)
