"""Validation of private tables: scikit-learn's, but neither messages nor dtypes tell on a row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, check_consistent_length
from sklearn.utils.validation import _check_n_features, validate_data

from ._cells import (
    CellError,
    Table,
    check_listed,
    exact_numbers,
    positions,
    read_labels,
    read_table,
)

# Messages of scikit-learn that hold no value of the table, by how they begin: further on, a value
# may stand in them that looks like anything.
_HARMLESS = re.compile(
    r"Input (\w+ )?(contains (NaN|infinity)|holds )|Complex data not supported"
    r"|float\(\) argument must be a string or a real number, not '\w+'"
    r"|Found array with \d+ (sample|feature)\(s\)"
    r"|X has \d+ features|The feature names should|Feature names are only"
    r"|Sparse data was|y cannot be None"
    r"|(This \w+ e|E)stimator.* requires y"
    r"|X is a \w+, which holds no rows yet|y holds words beside"
)
_RESHAPE = (
    "Expected 2D array, got another number of dimensions. Reshape your data either using "
    "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one sample."
)
# Those that print values of the table, or the number of its rows.
_REPLACED = {
    "Expected 2D": _RESHAPE,
    "inconsistent numbers": "X and y have different numbers of rows.",
    "1d array": "y should be a 1d array, with one value per row.",
}
# Not scikit-learn's advice, which is an imputer: fitted to the rows it makes each depend on all.
FILL_MISSING = (
    "Fill missing values with a public constant, or a category of its own (fillna('missing'), and "
    "that word in `categories`), or drop rows by a public rule; never fit an imputer to private "
    "rows, for that voids the guarantee."
)
NO_TIMES = (
    "Dates and times have no unit of their own, and one row can change that of a whole column. "
    "Convert them to numbers of a public unit, such as days: (t - datetime(2020, 1, 1)) / "
    "timedelta(days=1)."
)
_UNREADABLE = (
    "The table holds values that are not numbers, or cannot be read. Convert them to numbers."
)
# What is wrong with cells, and what to do.
_TOLD = {
    "complex": "Complex data not supported{where}; give real numbers.",
    "times": "Input {name} holds dates or times{where}. " + NO_TIMES,
    "words": (
        "Input {name} holds values that are not numbers{where}. Convert them, or leave the column "
        "out, or list its public values: in `categories` where the estimator has it, else in an "
        "encoder before it, OneHotEncoder(categories=[[...]]). (The message names no value, for "
        "the table is private.)"
    ),
    "objects": "float() argument must be a string or a real number, not {kind!r}{where}.",
    "missing": "Input {name} contains NaN{where}.\n" + FILL_MISSING,
    "infinite": (
        "Input {name} contains infinity or a value too large for dtype('float64'){where}."
    ),
}
_MOST_NAMED = 10


class Schema(BaseEstimator):
    """What `validate_table` writes the columns to, for those who are no estimators."""


def validate_table(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    mixed: bool = False,
    keep_float32: bool = False,
    y_numeric: bool = False,
    reset: bool = True,
    ensure_min_samples: int = 1,
) -> Any:
    """Check X (and y) as scikit-learn does, and return them read cell by cell (`_cells`).

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, or is asked for them (``reset=False``).
    X : array-like or frame of shape (n_samples, n_features)
    y : array-like, default="no_validation"
    mixed : bool, default=False
        Whether X may hold categories. Cells are then returned as they are, for `Columns` to check
        and to read: an array, or a `Table` of a frame's columns.
    keep_float32 : bool, default=False
        Whether a table of float32 stays one, for callers that work in float64 block by block.
    y_numeric : bool, default=False
        Whether y holds numbers; they become float64.
    reset : bool, default=True
    ensure_min_samples : int, default=1

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64 unless said otherwise, or Table
    y : ndarray of shape (n_samples,), if y was given

    Raises
    ------
    ValueError, TypeError
        As scikit-learn does, in words that name the columns at fault and no value of the table.
    """
    try:
        validate_data(estimator, X, y, reset=reset, skip_check_array=True, ensure_2d=False)
        table = _read(estimator, X, ensure_min_samples)
        checked = table if mixed else _as_floats(table, X, keep_float32)
        _check_n_features(estimator, table, reset=reset)
        if isinstance(y, str) and y == "no_validation":
            return checked
        target = _read_target(estimator, y, y_numeric)
        check_consistent_length(table, target)
        return checked, target
    except (TypeError, ValueError, OverflowError) as error:
        kind, message = _kind(error), _without_values(str(error))
    # Raised out here, for the error above may hold a value of the table.
    raise kind(message)


def _read(estimator: Any, X: Any, ensure_min_samples: int) -> NDArray | Table:
    """Return the cells of X, which are a table with enough rows and columns."""
    if sparse.issparse(X):
        check_array(X)  # which refuses it
    table = read_table(X)
    if table.ndim != 2:
        raise ValueError(_RESHAPE)
    n_rows, n_columns = table.shape
    # scikit-learn's words for the shape, which tell no number of rows that is large enough.
    shape = min(n_rows, ensure_min_samples), n_columns
    check_array(np.zeros(shape), ensure_min_samples=ensure_min_samples, estimator=estimator)
    return table


def _as_floats(table: NDArray | Table, X: Any, keep_float32: bool) -> NDArray:
    """Return the table as finite floats, contiguous row by row."""
    try:
        floats = _converted(table, keep_float32 and is_float32(table))
        with np.errstate(all="ignore"):  # sums of the check, which huge cells make overflow
            assert_all_finite(floats)
        return floats
    except ValueError:
        pass
    raise _table_error(table, X)


def _converted(table: NDArray | Table, float32: bool) -> NDArray:
    dtype = np.float32 if float32 else np.float64
    if not isinstance(table, Table):
        return np.ascontiguousarray(table if float32 else exact_numbers(table))
    floats = np.empty(table.shape, dtype)
    for j, column in enumerate(table.columns):
        floats[:, j] = column if float32 else exact_numbers(column)
    return floats


def is_float32(table: NDArray | Table) -> bool:
    """Whether all columns are float32."""
    columns = table.columns if isinstance(table, Table) else [table]
    return len(columns) > 0 and all(column.dtype == np.float32 for column in columns)


def _table_error(table: NDArray | Table, X: Any) -> Exception:
    """Return what to raise for a table that is not all finite numbers: its worst kind of fault."""
    faults = [_fault_of(table[:, j]) for j in range(table.shape[1])]
    worst = next(f for fault in _TOLD for f in faults if f is not None and f.fault == fault)
    at_fault = [j for j, f in enumerate(faults) if f is not None and f.fault == worst.fault]
    return cell_error(worst, "X", f" in {_listed(X, at_fault)}")


def _fault_of(column: NDArray) -> CellError | None:
    try:
        numbers = exact_numbers(column)
    except CellError as error:
        return error
    if np.isnan(numbers).any():
        return CellError("missing")
    return None if np.isfinite(numbers).all() else CellError("infinite")


def cell_error(error: CellError, name: str, where: str = "") -> Exception:
    """Return the error that tells what is wrong with the cells of X or y, and what to do."""
    kind = TypeError if error.fault == "objects" else ValueError
    return kind(_TOLD[error.fault].format(name=name, kind=error.kind, where=where))


def known_classes(y: NDArray, classes: Any) -> NDArray:
    """Return the classes, sorted: those that are listed, or else the labels in y.

    Raises
    ------
    ValueError
        For fewer than two, for a label that is not listed, and for labels that a container of y
        may confuse (`check_listed`).
    """
    listed = list(dict.fromkeys(y.tolist())) if classes is None else classes
    known = np.unique(np.array(check_listed("y" if classes is None else "classes", listed)))
    if len(known) < 2:
        raise ValueError(
            f"A classifier needs at least two classes, got {len(known)} class; list them all in "
            "`classes`."
        )
    if np.any(class_codes(y, known) < 0):
        raise ValueError(
            "y holds a label that is not in `classes`; list all labels there (0 to K - 1 where "
            "scikit-learn encodes them, as cross_val_predict does)."
        )
    return known


def class_codes(y: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Return the position of each label among the classes, -1 for what is none of them.

    Each label is looked up by itself: what numpy makes of words beside numbers hangs on all.
    """
    return positions(y, classes.tolist())


def _read_target(estimator: Any, y: Any, y_numeric: bool) -> NDArray:
    if y is None:
        return validate_data(Schema(), y=y, estimator=estimator)
    column, fault = read_labels(y), None
    if y_numeric:
        try:
            column = exact_numbers(column)
        except CellError as error:
            fault = error
    if fault is not None:
        raise cell_error(fault, "y")
    checked = validate_data(Schema(), y=column, estimator=estimator)
    return checked if y_numeric else _of_one_kind(checked)


def _of_one_kind(labels: NDArray) -> NDArray:
    """Return labels as numpy holds them, once they are known to be all words or all numbers."""
    if labels.dtype.kind != "O":
        return labels
    cells = labels.tolist()
    if len({isinstance(cell, str) for cell in cells}) > 1:
        raise ValueError("y holds words beside other labels; give labels of one kind.")
    return np.array(cells)


def _kind(error: Exception) -> type[Exception]:
    return TypeError if isinstance(error, TypeError) else ValueError


def _without_values(message: str) -> str:
    if _HARMLESS.match(message):
        return message
    replacements = (new for part, new in _REPLACED.items() if part in message)
    return next(replacements, _UNREADABLE)


def _listed(X: Any, which: list[int]) -> str:
    names = list(getattr(X, "columns", ()))
    known = len(names) > 0 and all(isinstance(name, str) for name in names)
    told = [repr(names[j] if known else f"x{j}") for j in which[:_MOST_NAMED]]
    more = " and others" if len(which) > _MOST_NAMED else ""
    return f"column{'s' if len(which) > 1 else ''} {', '.join(told)}{more}"
