"""An answer with its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn import get_config

_BIAS_NOTE = "bias_bound bounds the rest"
# Of a step.
_ROUNDING = 1e-9


class Estimate(NDArrayOperatorsMixin):
    """A statistic computed from a private sketch, which behaves as an array.

    Parameters
    ----------
    value : ndarray of any shape
    std_error : callable returning an ndarray of the same shape
        Standard deviation that the privacy noise gives to `value`; evaluated when first asked.
    bias_bound : callable returning an ndarray of the same shape, default=None
        Largest error that does not come from noise, where a bound is known.
    ends : callable, default=None
        Takes a normal quantile and returns the lower and the upper ends, two ndarrays of the same
        shape, between which the statistic of the data lies at that level, where these are known.
    possible : pair of float or ndarray, default=(-inf, inf)
        Least and largest value that the statistic can have. `value` is moved there, and keeps its
        error: a share that noise made negative has not become certain.
    labels : sequence of sequences of str, default=()
        Names along each axis, for tables.
    frame : {"pandas", "polars", "auto", None}, default=None
        The library whose Series or DataFrame `value` is: that of the input, where this was a
        frame. "auto", where only the names of the columns are known, as from a sketch: what
        ``sklearn.set_config(transform_output=...)`` says, else pandas where it is installed, else
        an array.
    step : float, default=None
        Distance of the values that the answer can have, where they are on a grid.
    units : sequence of str or None, default=()
        Of each entry of an array of one dimension, to be printed.

    Notes
    -----
    An error that is written, after ``+-`` or ``±``, is one standard error of the noise, here and
    in pictures; a bar or a band that is drawn is `interval` at its level, 0.95 unless another is
    asked for.

    Operations on an `Estimate` give plain arrays: the error of a combination depends on
    correlations. Ask `M2MEstimator.estimate` for the combination instead.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import Estimate
    >>> answer = Estimate(np.array([1.0, 2.0]), lambda: np.array([0.1, 0.2]), labels=[["a", "b"]])
    >>> answer.interval(0.95).round(2)
    array([[0.8 , 1.2 ],
           [1.61, 2.39]])
    >>> answer + 1
    array([2., 3.])
    >>> answer
       value  noise std error
    a      1              0.1
    b      2              0.2

    Where a bound on the rest of the error is known, it is named; it takes longer to compute, so
    it is not shown unasked:

    >>> bounded = Estimate(3.0, lambda: 0.5, bias_bound=lambda: 0.2)
    >>> bounded
    3 +- 0.5 (noise std error; bias_bound bounds the rest)
    >>> float(bounded.bias_bound)
    0.2

    A median of whole years is a whole number. Its error is 0 where noise moved it in no simulated
    release; the ends of its interval are whole, too:

    >>> Estimate(40.0, lambda: 0.0, step=1)
    40 +- 0 (noise std error; on a grid of step 1)
    >>> Estimate(40.0, lambda: 0.1, step=1).interval(0.95)
    array([39., 41.])
    """

    def __init__(
        self,
        value: NDArray,
        std_error: Callable[[], NDArray],
        *,
        bias_bound: Callable[[], NDArray] | None = None,
        ends: Callable[[float], tuple[NDArray, NDArray]] | None = None,
        possible: tuple[Any, Any] = (-np.inf, np.inf),
        labels: Sequence[Sequence[str]] = (),
        frame: str | None = None,
        step: float | None = None,
        units: Sequence[str | None] = (),
    ):
        self._value = np.asarray(np.clip(np.asarray(value, dtype=np.float64), *possible))
        self._possible = tuple(np.broadcast_to(end, self._value.shape) for end in possible)
        self._ends = ends
        self._std_error: Any = std_error
        self._bias_bound: Any = bias_bound
        self.labels = tuple(tuple(names) for names in labels)
        self.frame = frame
        self.step = step
        self.units = tuple(units)

    @property
    def value(self) -> Any:
        """The answer: an array, or a Series or DataFrame where the columns have names (`frame`).

        ``numpy.asarray(estimate)`` is always an array.
        """
        library = self._library()
        if library is None or self._value.ndim not in (1, 2) or not self.labels:
            return self._value
        return _as_frame(self._value, self.labels, library)

    def _library(self) -> str | None:
        """Return the library of frames, None for arrays."""
        if self.frame != "auto":
            return self.frame
        chosen = get_config()["transform_output"]
        if chosen != "default":
            return chosen
        return None if find_spec("pandas") is None else "pandas"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self._value.shape

    @property
    def noise_std_error(self) -> NDArray[np.float64]:
        """Standard deviation that the privacy noise gives to the answer.

        Exact (to first order in the noise of the number of rows) where the answer is linear in
        the release, simulated otherwise. On a grid it can be 0: then no simulated release, of 100,
        gave another value.
        """
        if callable(self._std_error):
            self._std_error = np.array(self._std_error(), dtype=np.float64)
            if self.step is not None:  # else the mean of equal values leaves a rounding error
                self._std_error[self._std_error < _ROUNDING * self.step] = 0.0
        return self._std_error.reshape(self.shape)

    @property
    def bias_bound(self) -> NDArray[np.float64] | None:
        """Largest error of approximation met on the synthetic points; None where unknown.

        It bounds the bias for data that lie where the synthetic points do, however they are
        distributed there.
        """
        if callable(self._bias_bound):
            self._bias_bound = np.asarray(self._bias_bound(), dtype=np.float64)
        return None if self._bias_bound is None else self._bias_bound.reshape(self.shape)

    def interval(self, level: float = 0.95, *, covers: str = "data") -> NDArray[np.float64]:
        """Return lower and upper ends, shape ``(*shape, 2)``.

        Parameters
        ----------
        level : float, default=0.95
            Probability, over the privacy noise, that the interval holds what it covers.
        covers : {"data", "noise", "noise+bias"}, default="data"
            "data": the statistic of the data, wherever in their bins the rows lie. Of a threshold
            inside a bin, or at a value where rows may be crowded, the release tells no more than
            the bin's count, and the interval is as wide as that. Where the sketch explains too
            little of a question (`AnswerWarning`), it is wider by `bias_bound`. Of variances,
            covariances and correlations this is not known, and "data" is "noise".
            "noise": the mean of the answer over the noise of the release. It says nothing of what
            the noise-free answer would be where noise is so large that shrinkage to the prior
            moves this mean (the more, the smaller epsilon times the number of rows), nor of the
            error of approximation, which can be larger where the data are unlike the prior.
            "noise+bias": the statistic of the data, however columns go together; wider by
            `bias_bound` whatever the question, and often very wide.

        Notes
        -----
        That of "noise" is the value plus and minus a normal quantile times `noise_std_error`; on a
        grid, outwards to its next values. The others hold it. All are cut to what is possible: a
        share lies between 0 and 1.

        Raises
        ------
        ValueError
            For a level outside (0, 1), or "noise+bias" where no bound is known.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        if covers not in ("data", "noise", "noise+bias"):
            raise ValueError(f"covers must be 'data', 'noise' or 'noise+bias', got {covers!r}.")
        z = norm.ppf(0.5 + level / 2)
        half = z * self.noise_std_error
        if covers == "noise+bias":
            if self.bias_bound is None:
                raise ValueError(
                    "No bound on the bias is known for this answer; use covers='data'."
                )
            half = half + self.bias_bound
        if self.step is not None:
            half = self.step * np.ceil(half / self.step - _ROUNDING)
        low, high = self._value - half, self._value + half
        if covers != "noise" and self._ends is not None:
            farther = self._ends(z)
            low, high = np.minimum(low, farther[0]), np.maximum(high, farther[1])
        least, largest = self._possible
        return np.stack([np.clip(low, least, largest), np.clip(high, least, largest)], axis=-1)

    def to_frame(self) -> Any:
        """Return a data frame: one row per entry, with value and noise standard error.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            polars, with the names as a column "name", where `value` would be of polars.
        """
        columns = {"value": self._value.ravel(), "noise_std_error": self.noise_std_error.ravel()}
        if self._library() == "polars":
            import polars as pl

            return pl.DataFrame({"name": self._names()} | columns)
        import pandas as pd

        return pd.DataFrame(columns, index=pd.Index(self._names()))

    def __array__(self, dtype=None, copy=None):
        return np.array(self._value, dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [i._value if isinstance(i, Estimate) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, key) -> Estimate:
        key = self._places(key)

        def bias_bound() -> NDArray:
            return np.asarray(self.bias_bound)[key]

        def ends(z: float) -> tuple[NDArray, NDArray]:
            low, high = self._ends(z)  # type: ignore[misc]
            return low[key], high[key]

        least, largest = self._possible
        return Estimate(
            self._value[key],
            lambda: self.noise_std_error[key],
            bias_bound=None if self._bias_bound is None else bias_bound,
            ends=None if self._ends is None else ends,
            possible=(least[key], largest[key]),
            step=self.step,
        )

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self._value)

    def _is_named(self) -> bool:
        return bool(self.labels) and tuple(map(len, self.labels)) == self.shape

    def _places(self, key: Any) -> Any:
        """Return an index with the names in it, which stand for one entry each, replaced."""
        keys = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(k, str) for k in keys):
            return key
        labels = self.labels if self._is_named() else ()
        for axis, k in enumerate(keys):
            if isinstance(k, str) and (axis >= len(labels) or k not in labels[axis]):
                known = ", ".join(map(repr, labels[axis])) if axis < len(labels) else "no names"
                raise KeyError(f"{k!r} is no entry of this estimate, which has {known}.")
        return tuple(
            labels[axis].index(k) if isinstance(k, str) else k for axis, k in enumerate(keys)
        )

    def _names(self) -> list[str]:
        if self._is_named():
            grid = np.indices(self.shape).reshape(len(self.shape), -1).T
            return [
                ", ".join(names[i] for names, i in zip(self.labels, where, strict=True))
                for where in grid
            ]
        return [str(i) for i in range(self._value.size)]

    def _heads(self) -> list[str]:
        """Return the names of the entries as they are printed."""
        names = self._names()
        units = self.units if len(self.units) == len(names) else [None] * len(names)
        return [with_unit(*pair) for pair in zip(names, units, strict=True)]

    def _notes(self) -> str:
        """Return what the error does not hold, and why it may be 0, each behind a semicolon."""
        notes = "" if self._bias_bound is None else f"; {_BIAS_NOTE}"
        if self.step is not None and not self.noise_std_error.all():
            notes += f"; on a grid of step {self.step:g}"
        return notes

    def _caption(self) -> str:
        """Return the notes as a line below a table, empty if there are none."""
        notes = self._notes()
        return f"error of noise alone{notes}" if notes else ""

    def __repr__(self) -> str:
        if not self.shape:
            error = float(self.noise_std_error)
            return f"{float(self):.5g} +- {error:.2g} (noise std error{self._notes()})"
        rows = [(name, *cell) for name, cell in zip(self._heads(), self._cells(), strict=True)]
        lines = _align([("", "value", "noise std error"), *rows])
        below = self._caption()
        return "\n".join([*lines, f"({below})"] if below else lines)

    def _cells(self) -> list[tuple[str, str]]:
        """Return each value and its error, as they are written."""
        pairs = zip(self._value.ravel(), self.noise_std_error.ravel(), strict=True)
        return [(f"{value:.5g}", f"{error:.2g}") for value, error in pairs]

    def _repr_html_(self) -> str:
        cells = self._cells()
        if self._is_named() and len(self.shape) == 2:
            heads, names = self.labels[1], self.labels[0]
            both = [" ± ".join(cell) for cell in cells]
            rows = [both[i : i + len(heads)] for i in range(0, len(both), len(heads))]
            return _html_table(["", *heads], names, rows, "value ± noise std error")
        return _html_table(["", "value", "noise std error"], self._heads(), cells, self._caption())


def with_unit(name: str, unit: str | None) -> str:
    """Return a label: the name, and the unit in brackets where there is one."""
    return name if not unit else f"{name} ({unit})"


def _html_table(
    heads: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]], caption: str = ""
) -> str:
    """Return a table; names may be anything, such as a category of the data's schema."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for name, row in zip(names, rows, strict=True)
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _align(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]


def _as_frame(value: NDArray, labels: tuple[tuple[str, ...], ...], library: str) -> Any:
    if library == "pandas":
        import pandas as pd

        if value.ndim == 1:
            return pd.Series(value, index=list(labels[0]))
        return pd.DataFrame(value, index=list(labels[0]), columns=list(labels[1]))
    import polars as pl

    if value.ndim == 1:
        return pl.DataFrame({name: [v] for name, v in zip(labels[0], value, strict=True)})
    return pl.DataFrame(value, schema=list(labels[1]))
