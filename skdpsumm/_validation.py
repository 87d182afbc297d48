"""Validation of private tables: scikit-learn's, but neither messages nor dtypes tell on a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.validation import check_array, validate_data

# Messages of scikit-learn that hold no value of the table, by how they begin: further on, a value
# may stand in them that looks like anything.
_HARMLESS = re.compile(
    r"Input (\w+ )?contains (NaN|infinity)"
    r"|Found array with \d+ (sample|feature)\(s\)"
    r"|X has \d+ features|The feature names should|Feature names are only"
    r"|Sparse data was|y cannot be None"
    r"|(This \w+ e|E)stimator.* requires y"
    r"|(float|int|complex)\(\) argument must be"
)
_RESHAPE = (
    "Expected 2D array, got another number of dimensions. Reshape your data either using "
    "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one sample."
)
# Those that print values of the table, or the number of its rows.
_REPLACED = {
    "Expected 2D": _RESHAPE,
    "Found array with dim": _RESHAPE,
    "Complex data": "Complex data not supported; give real numbers.",
    "inconsistent numbers": "X and y have different numbers of rows.",
    "1d array": "y should be a 1d array, with one value per row.",
    "value of NA is ambiguous": "Input X contains NaN",
}
# Not scikit-learn's advice, which is an imputer: fitted to the rows it makes each depend on all.
FILL_MISSING = (
    "Fill missing values with a public constant, or a category of its own (fillna('missing'), and "
    "that word in `categories`), or drop rows by a public rule; never fit an imputer to private "
    "rows, for that voids the guarantee."
)
_NO_NUMBERS = (
    "The table holds values that are not numbers, or cannot be read{where}. Convert them, or leave "
    "the column out, or list its public values: in `categories` where the estimator has it, else "
    "in an encoder before it, OneHotEncoder(categories=[[...]]). (The message names no value, for "
    "the table is private.)"
)
# Of a table of mixed columns scikit-learn does not say that it is X.
_MISSING = re.compile(
    r"Input ((?P<of>\w+) )?contains (?P<fault>NaN|infinity or a value too large for dtype\(\S+\))"
)
_MOST_NAMED = 10


_SCHEMA = ("n_features_in_", "feature_names_in_")


@contextmanager
def schema_kept(estimator: Any) -> Iterator[None]:
    """Let a fit that fails leave the columns of the fit before it, or none."""
    before = {name: vars(estimator)[name] for name in _SCHEMA if name in vars(estimator)}
    try:
        yield
    except BaseException:
        for name in _SCHEMA:
            vars(estimator).pop(name, None)
        vars(estimator).update(before)
        raise


def is_missing(value: Any) -> bool:
    """Whether an entry of a table stands for none."""
    return value is None or is_scalar_nan(value) or is_pandas_na(value)


class Schema(BaseEstimator):
    """What `validate_table` writes the columns to, for those who are no estimators."""


def validate_table(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    mixed: bool = False,
    float32: bool | None = None,
    **options: Any,
) -> Any:
    """Check X (and y) as scikit-learn does and return them as arrays.

    A row's contribution may depend on that row alone, but the common dtype of several columns can
    hang on one value of one row (an int16 column becomes int32), and with it the last digits of
    all rows. So X is float32 only where all of it was float32 on purpose, and float64 otherwise.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, or is asked for them (``reset=False``).
    X : array-like or frame of shape (n_samples, n_features)
    y : array-like, default="no_validation"
    mixed : bool, default=False
        Whether X may hold categories: numbers are then left as they are, but for floats.
    float32 : bool, default=None
        Whether all of it is float32 on purpose; None looks at X. A partition is told, for its own
        dtypes may differ from those of the table.
    **options
        For `sklearn.utils.validation.validate_data`.

    Raises
    ------
    ValueError, TypeError
        As scikit-learn does, in words that name the columns at fault and no value of the table.
    """
    float32 = is_float32(X) if float32 is None else float32
    dtype = np.float32 if float32 else None if mixed else np.float64
    try:
        checked = validate_data(estimator, X, y, dtype=dtype, order="C", **options)
        if options.get("y_numeric"):
            checked = checked[0], checked[1].astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind, message = _kind(error), _without_values(str(error))
    else:
        return _floats_alike(checked, float32)
    # Raised out here, for the error above may hold a value of the table.
    raise kind(_naming_columns(message, X, dtype))


def is_float32(X: Any) -> bool:
    """Whether all of X is float32."""
    dtypes = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", ()))
    return len(dtypes) > 0 and all(str(dtype).lower() == "float32" for dtype in dtypes)


def _floats_alike(checked: Any, float32: bool) -> Any:
    X, *rest = checked if isinstance(checked, tuple) else (checked,)
    if not float32 and _has_other_floats(X):
        X = X.astype(np.float64)
    return (X, *rest) if rest else X


def _has_other_floats(X: NDArray) -> bool:
    return X.dtype.kind == "f" and X.dtype != np.float64


def _kind(error: Exception) -> type[Exception]:
    return TypeError if isinstance(error, TypeError) else ValueError


def _without_values(message: str) -> str:
    if _HARMLESS.match(message):
        return message
    replacements = (new for part, new in _REPLACED.items() if part in message)
    return next(replacements, _NO_NUMBERS)


def _naming_columns(message: str, X: Any, dtype: Any) -> str:
    """Return a message about the values of X with the columns that it is about, if any."""
    missing = _MISSING.match(message)
    if missing:
        fault = missing["fault"]
        found = "" if missing["of"] == "y" else _failing(X, dtype, fault)
        told = f"{missing.group()}{found and f' in {found}'}."
        return f"{told}\n{FILL_MISSING}" if fault == "NaN" else told
    if message is not _NO_NUMBERS:
        return message
    # The dtypes of a frame are public. An array has one for all, so its values are looked at.
    found = _of_no_numbers(X) if hasattr(X, "columns") else _failing(X, dtype)
    return message.format(where=f": {found}" if found else "")


def _of_no_numbers(X: Any) -> str:
    dtypes = enumerate(getattr(X, "dtypes", ()))
    return _listed(X, [j for j, dtype in dtypes if not _is_numeric(dtype)])


def _is_numeric(dtype: Any) -> bool:
    """Whether a dtype of pandas or polars is one of numbers."""
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_numeric() or str(dtype) == "Boolean")
    return getattr(dtype, "kind", "O") in "biuf"


def _failing(X: Any, dtype: Any, fault: str = "") -> str:
    """Return the columns of X that are refused by themselves, for that fault if one is given."""
    try:
        table = X if hasattr(X, "columns") else np.asarray(X)
    except ValueError:  # rows of different lengths
        return ""
    n_columns = table.shape[1] if len(table.shape) == 2 else 0
    return _listed(table, [j for j in range(n_columns) if _refused(table, j, dtype, fault)])


def _refused(X: Any, j: int, dtype: Any, fault: str) -> bool:
    try:
        check_array(_safe_indexing(X, [j], axis=1), dtype=dtype, input_name="X")
    except Exception as error:  # whatever values do
        missing = _MISSING.match(_without_values(str(error)))
        return not fault or bool(missing and missing["fault"] == fault)
    return False


def _listed(X: Any, which: list[int]) -> str:
    if not which:
        return ""
    names = list(getattr(X, "columns", ()))
    known = len(names) > 0 and all(isinstance(name, str) for name in names)
    told = [repr(names[j] if known else f"x{j}") for j in which[:_MOST_NAMED]]
    more = " and others" if len(which) > _MOST_NAMED else ""
    return f"column{'s' if len(which) > 1 else ''} {', '.join(told)}{more}"
