"""An answer with its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray
from scipy.stats import norm

from ..._html import MOST_COLUMNS, MOST_ROWS, cut, html_table, more_of
from .._frames import chosen, distinct, labelled

# Of a step.
_ROUNDING = 1e-9
# Entries that are printed, as many as rows of a pandas frame.
_MOST_PRINTED = 60
# At which standard errors a pickle has the ends of intervals: those of the usual levels.
_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
_KEPT_Z = np.sort([0.0, 1.0, 2.0, 3.0, *norm.ppf(0.5 + np.array(_LEVELS) / 2), 4.0, 6.0])
_NO_SAMPLING = "no sampling error of rows is computed for this statistic. Use covers='table'."


@dataclass(frozen=True)
class _KeptEnds:
    """The ends of intervals as a pickle has them: at some z, and on lines between these."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, ends: Callable[[float], tuple[NDArray, NDArray]]) -> _KeptEnds:
        low, high = zip(*map(ends, _KEPT_Z.tolist()), strict=True)
        return cls(np.array(low), np.array(high))

    def __call__(self, z: float) -> tuple[NDArray, NDArray]:
        k = int(np.clip(np.searchsorted(_KEPT_Z, z), 1, len(_KEPT_Z) - 1))
        part = (z - _KEPT_Z[k - 1]) / (_KEPT_Z[k] - _KEPT_Z[k - 1])
        low, high = (end[k - 1] + part * (end[k] - end[k - 1]) for end in (self.low, self.high))
        return low, high


class Estimate(NDArrayOperatorsMixin):
    """An answer that knows its error: a statistic from a private sketch, usable as an array.

    `M2MEstimator` makes these; you rarely make one yourself. Read the answer from `value`, its
    error from `std_error`, and a confidence interval from `interval`.

    Parameters
    ----------
    value : ndarray of any shape
        The answer.
    noise_std_error : callable returning an ndarray of the same shape
        Standard deviation that the privacy noise gives to `value`. It is called when you first ask.
    std_error : callable returning an ndarray of the same shape, default=None
        Standard deviation of the whole error of `value`: of the noise, and of all that the release
        does not tell. None takes it from `ends`, or from the noise where there are no ends, as for
        an answer that only noise makes wrong.
    ends : callable, default=None
        Takes a normal quantile and returns two ndarrays of the same shape: the lower and the upper
        ends between which the statistic of the table lies at that level. None makes them from
        `std_error`, as suits an interval that is symmetric.
    sampling : callable returning an ndarray of the same shape, or str, default=None
        Standard deviation that the choice of the rows gives to the statistic, if they are a sample
        of a population; or the reason why it is not known. By default it is not known.
    possible : pair of float or ndarray, default=(-inf, inf)
        Least and largest value that the statistic can have; by default it has no limits. `value` is
        moved inside and keeps its error: a share that noise made negative is not certain to be 0.
    labels : sequence of sequences of str, default=()
        Names along each axis, for tables. Empty, as a single number has none.
    frame : {"pandas", "polars", "pyarrow", "auto", None}, default=None
        The library of the frames that `value`, `std_error` and `interval` are: that of the input,
        where it was a frame. None gives arrays, as scikit-learn does for arrays. "auto" is for
        answers from a sketch, which knows only the names of the columns. It takes what
        ``sklearn.set_config(transform_output=...)`` says, else pandas where it is installed, else
        an array.
    step : float, default=None
        Distance between the values that the answer can have, where they are on a grid. None is for
        answers that can have any value.
    units : sequence of str or None, default=()
        Unit of each entry of a one-dimensional array, to be printed. Empty, as most have none.
    axes : sequence of str, default=()
        What each axis of a table stands for. Empty, as only tables, and answers for each group of
        rows, have such axes.

    Notes
    -----
    Labels are the index of what comes in pandas. Frames of polars and pyarrow have no index. There
    the labels are the first column, which has the name of the axis, such as "sex" for ``by="sex"``.
    Without such a name it is "name", or "row" for a matrix. Where two columns would share a name,
    that of the labels gets an underscore.
    ``answer[...]`` is the same answer without names, so that all that it gives is arrays.

    A number after ``+-`` or ``±`` is one `std_error`, here and in pictures. A bar or a band in a
    picture is `interval` at its level, 0.95 unless you ask for another.

    Operations on an `Estimate` give plain arrays, because the error of a combination depends on
    correlations. Ask `M2MEstimator.estimate` for the combination instead. Comparisons do, too:
    ``answer > 3`` compares the value alone, noise and all. To allow for the noise, compare an end
    of `interval`. An `Estimate` by itself is neither true nor false.

    You can format one number, ``f"{answer:.2f}"``, and round any answer: ``round(answer, 2)`` is
    its value, rounded.

    A pickle of it has all errors, without the release: its intervals are exact at levels of 0.5,
    0.8, 0.9, 0.95, 0.98, 0.99 and 0.999, and nearly so between them.

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
       value  std error
    a      1        0.1
    b      2        0.2

    Noise is one part of the error. The rest is what the release does not tell:

    >>> rough = Estimate(3.0, lambda: 0.3, std_error=lambda: 0.5)
    >>> rough
    3 +- 0.5 (std error)
    >>> float(rough.noise_std_error)
    0.3

    A median of whole years is a whole number. Its error is 0 where the noise moves it to no other
    value. The ends of its interval are whole numbers, too:

    >>> Estimate(40.0, lambda: 0.0, step=1)
    40 +- 0 (std error; on a grid of step 1)
    >>> Estimate(40.0, lambda: 0.1, step=1).interval(0.95)
    array([39., 41.])
    """

    def __init__(
        self,
        value: NDArray,
        noise_std_error: Callable[[], NDArray],
        *,
        std_error: Callable[[], NDArray] | None = None,
        ends: Callable[[float], tuple[NDArray, NDArray]] | None = None,
        sampling: Callable[[], NDArray] | str | None = None,
        possible: tuple[Any, Any] = (-np.inf, np.inf),
        labels: Sequence[Sequence[str]] = (),
        frame: str | None = None,
        step: float | None = None,
        units: Sequence[str | None] = (),
        axes: Sequence[str] = (),
    ):
        self._value = np.asarray(np.clip(np.asarray(value, dtype=np.float64), *possible))
        self._possible = tuple(np.broadcast_to(end, self._value.shape) for end in possible)
        self._ends = ends
        self._noise_std_error: Any = noise_std_error
        self._std_error: Any = std_error
        self._sampling: Any = _NO_SAMPLING if sampling is None else sampling
        self.labels = tuple(tuple(names) for names in labels)
        self.frame = frame
        self.step = step
        self.units = tuple(units)
        self.axes = tuple(axes)

    @property
    def value(self) -> Any:
        """The answer: an array, or a Series or DataFrame where the columns have names (`frame`).

        ``numpy.asarray(estimate)`` is always an array.
        """
        return self._framed(self._value, "value")

    def _library(self) -> str | None:
        """Return the library of frames, None where the answer is an array."""
        is_frame = self._value.ndim in (1, 2) and self._is_named()
        return chosen(self.frame) if is_frame else None

    def _framed(self, numbers: NDArray, of: str) -> Any:
        """Return a number for each entry in the library of the answer, with its labels."""
        library = self._library()
        if library is None:
            return numbers.copy()
        names, *heads = self.labels
        if library == "pandas":
            import pandas as pd

            if not heads:
                return pd.Series(numbers, index=list(names))
            return pd.DataFrame(numbers, index=list(names), columns=list(*heads))
        columns = numbers.reshape(len(names), -1).T
        return labelled({self._axes()[0]: names}, heads[0] if heads else [of], columns, library)

    def _axes(self) -> tuple[str, ...]:
        """Return what the columns of labels are called."""
        return self.axes or (("name",) if len(self.shape) == 1 else ("row", "column"))

    def _labels_of_entries(self) -> dict[str, list[str]]:
        """Return the labels of each entry, those of an axis together."""
        where = np.indices(self.shape).reshape(len(self.shape), -1)
        each = zip(distinct(self._axes()), self.labels, where, strict=True)
        return {axis: [names[i] for i in at] for axis, names, at in each}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self._value.shape

    @property
    def std_error(self) -> Any:
        """Standard deviation of the whole error, on which ``interval(covers="table")`` is based.

        It includes the noise, what the release does not tell about how columns go together, and
        where in their bins rows may lie. Where an interval reaches farther to one side than to the
        other, it is half the width of the interval at one standard error. It is at most half of the
        range in which the answer is known to lie, such as 0.5 for a share. It comes as `value`
        does: in an array, or in the same kind of frame.
        """
        return self._framed(self._shown_error, "std_error")

    @property
    def _shown_error(self) -> NDArray[np.float64]:
        return self._at_most_half(self._whole_error)

    @property
    def _whole_error(self) -> NDArray[np.float64]:
        if self._std_error is None:
            self._std_error = self._half_width
        if callable(self._std_error):
            self._std_error = self._without_rounding(self._std_error())
        return self._std_error.reshape(self.shape)

    def _half_width(self) -> NDArray[np.float64]:
        if self._ends is None:
            return self._noise_error
        low, high = self._ends(1.0)
        return np.maximum((high - low) / 2, self._noise_error)

    def _at_most_half(self, error: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an error, at most half of what is possible: no value there has a larger one.

        That is of what is shown. Intervals are made from the whole error and then cut: made from
        this one, they would miss too much.
        """
        least, largest = self._possible
        half = (largest - least) / 2
        return np.where(np.isnan(self._value), half, np.minimum(error, half))

    @property
    def noise_std_error(self) -> Any:
        """Standard deviation that the privacy noise gives to the answer.

        On a grid it can be 0, where the noise moves the answer to no other value. It is at most
        half of the range in which the answer is known to lie. It comes as `value` does.
        """
        return self._framed(self._at_most_half(self._noise_error), "noise_std_error")

    @property
    def _noise_error(self) -> NDArray[np.float64]:
        if callable(self._noise_std_error):
            self._noise_std_error = self._without_rounding(self._noise_std_error())
        return self._noise_std_error.reshape(self.shape)

    def _without_rounding(self, error: Any) -> NDArray[np.float64]:
        error = np.array(error, dtype=np.float64)
        if self.step is not None:  # the mean of equal values leaves a rounding error
            error[error < _ROUNDING * self.step] = 0.0
        return error

    def interval(self, level: float = 0.95, *, covers: str = "table") -> Any:
        """Return the ends of a confidence interval, lower and upper.

        Parameters
        ----------
        level : float, default=0.95
            Probability that the interval holds what it covers. The default is the usual one.
        covers : {"table", "noise", "population"}, default="table"
            What the interval is for. "table", the default as it needs no assumption about a
            population, covers the statistic of the table that was sketched. It allows for the
            noise, for how columns go together where the release does not tell, and for where in
            their bins rows lie.
            "noise" covers the mean of the answer over the noise of the release, which may be far
            from the truth.
            "population" covers the statistic of the population, if the rows of the table, or the
            groups that are protected, are a random sample of it. It adds the sampling error to
            "table". For groups it takes the largest that they can have, as if the rows of each
            group were alike.

        Returns
        -------
        ndarray of shape ``(*shape, 2)`` or DataFrame
            A frame where `value` is one. It has a row for each entry, with the columns "low" and
            "high". The labels of an entry are its index in pandas, and the first columns elsewhere.

        Notes
        -----
        An interval is the value plus and minus a normal quantile times `std_error`
        (`noise_std_error` for "noise"), before that is cut to half of what is possible. On a grid,
        its ends move outwards to the next values. It is wider where the release does not tell where
        the rows that decide lie, as for a threshold inside a bin in which rows may be crowded. All
        are cut to what is possible: a share lies between 0 and 1. Where the value is NaN, as the
        mean of a category of which the release shows no rows, the interval is all that is possible.

        Raises
        ------
        ValueError
            If the level is outside (0, 1), or the sampling error is not known for "population".
        """
        ends, library = self._interval(level, covers), self._library()
        if library is None:
            return ends
        both = ends.reshape(-1, 2).T
        if library != "pandas":
            return labelled(self._labels_of_entries(), ["low", "high"], both, library)
        import pandas as pd

        index = pd.Index(list(self.labels[0]))
        if len(self.shape) == 2:
            index = pd.MultiIndex.from_product(self.labels, names=self.axes or None)
        return pd.DataFrame(both.T, index=index, columns=["low", "high"])

    def _interval(self, level: float, covers: str) -> NDArray[np.float64]:
        """Return both ends of all entries, shape ``(*shape, 2)``."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        if covers not in ("table", "noise", "population"):
            raise ValueError(f"covers must be 'table', 'noise' or 'population', got {covers!r}.")
        z = float(norm.ppf(0.5 + level / 2))
        below = above = z * self._noise_error
        if covers != "noise":
            below, above = self._reach(z)
        if covers == "population":
            more = z * self._sampling_error()
            below, above = np.hypot(below, more), np.hypot(above, more)
        if self.step is not None:
            below, above = (
                self.step * np.ceil(reach / self.step - _ROUNDING) for reach in (below, above)
            )
        sides = zip((self._value - below, self._value + above), self._possible, strict=True)
        ends = [np.where(np.isnan(end), most, end) for end, most in sides]
        return np.stack([np.clip(end, *self._possible) for end in ends], axis=-1)

    def _reach(self, z: float) -> tuple[NDArray, NDArray]:
        """Return how far below and above the value the table's own may lie."""
        if self._ends is None:
            return z * self._whole_error, z * self._whole_error
        low, high = self._ends(z)
        least = z * self._noise_error
        return np.maximum(self._value - low, least), np.maximum(high - self._value, least)

    def _open_share(self) -> NDArray[np.float64]:
        """Return how much of what is possible the 95% interval holds, 0 where that is unlimited."""
        least, largest = self._possible
        width = np.diff(self._interval(0.95, "table"), axis=-1)[..., 0]
        known = np.isfinite(least) & np.isfinite(largest) & (least < largest)
        share = np.divide(width, largest - least, out=np.zeros(self.shape), where=known)
        return np.where(known & np.isnan(share), 1.0, share)

    def _sampling_error(self) -> NDArray[np.float64]:
        if isinstance(self._sampling, str):
            raise ValueError(f"covers='population' is not known here: {self._sampling}")
        if callable(self._sampling):
            self._sampling = np.asarray(self._sampling(), dtype=np.float64)
        return self._sampling.reshape(self.shape)

    def to_frame(self, level: float | None = None, *, covers: str = "table") -> Any:
        """Return a data frame with one row per entry: its value and its standard error.

        Parameters
        ----------
        level : float, default=None
            Add the ends of `interval` at this level. None adds none, as the standard error often
            suffices.
        covers : {"table", "noise", "population"}, default="table"
            What the ends are for, with the same default as in `interval`.

        Returns
        -------
        DataFrame
            Columns "value" and "std_error", and "low" and "high" if you give a level. Each of
            `axes` is a column. Without axes, names are the index in pandas, and a column "name"
            elsewhere. The frame is of the library of `value`, or of pandas where that is an array.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import Estimate
        >>> answer = Estimate(np.array([5.0, 7.0]), lambda: np.array([0.1, 0.2]), frame="pandas")
        >>> answer.to_frame(0.95).round(2)
           value  std_error   low  high
        0    5.0        0.1  4.80  5.20
        1    7.0        0.2  6.61  7.39
        """
        columns = {"value": self._value.ravel(), "std_error": self._shown_error.ravel()}
        if level is not None:
            low, high = self._interval(level, covers).reshape(-1, 2).T
            columns |= {"low": low, "high": high}
        library = chosen(self.frame) or "pandas"
        if library == "pandas" and not self.axes:
            import pandas as pd

            return pd.DataFrame(columns, index=pd.Index(self._names()))
        labels = self._labels_of_entries() if self.axes else {"name": self._names()}
        return labelled(labels, list(columns), list(columns.values()), library)

    def __getstate__(self) -> dict[str, Any]:
        """Return all that is known of the answer, without the release that it came from."""
        sampling = self._sampling if isinstance(self._sampling, str) else self._sampling_error()
        ends = None if self._ends is None else _KeptEnds.of(self._ends)
        known = {"_sampling": sampling, "_ends": ends}
        errors = {"_noise_std_error": self._noise_error, "_std_error": self._whole_error}
        return self.__dict__ | errors | known

    def __array__(self, dtype=None, copy=None):
        return np.array(self._value, dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "at" or any(isinstance(out, Estimate) for out in kwargs.get("out", ())):
            raise TypeError(
                "Write a = a + b in place of a += b: an Estimate keeps its value, and arithmetic "
                "gives an array, without errors."
            )
        plain = [i._value if isinstance(i, Estimate) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, key) -> Estimate:
        key = self._places(key)

        def part(of: Callable[[], NDArray]) -> Callable[[], NDArray]:
            return lambda: of()[key]

        def ends(z: float) -> tuple[NDArray, NDArray]:
            low, high = self._ends(z)  # type: ignore[misc]
            return low[key], high[key]

        least, largest = self._possible
        known = isinstance(self._sampling, str)
        return Estimate(
            self._value[key],
            part(lambda: self._noise_error),
            std_error=part(lambda: self._whole_error),
            ends=None if self._ends is None else ends,
            sampling=self._sampling if known else part(self._sampling_error),
            possible=(least[key], largest[key]),
            step=self.step,
        )

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return self._number()

    def __format__(self, spec: str) -> str:
        return format(self._number(), spec) if spec else str(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        """Return the value, rounded: a number, or an array or frame as `value` is."""
        if not self.shape:
            return round(self._number(), ndigits)
        return self._framed(np.round(self._value, ndigits or 0), "value")

    def __bool__(self) -> bool:
        raise TypeError(
            "An Estimate is neither true nor false, as it holds noise. Compare its value, such as "
            "answer.value > 3, or, to allow for the noise, an end of its interval, such as "
            "answer.interval()[0] > 3 for one number."
        )

    def _number(self) -> float:
        """Return the only number of this answer, or raise TypeError."""
        if self._value.size != 1:
            raise TypeError(
                f"This Estimate holds {self._value.size} numbers, shape {self.shape}: take one, "
                "such as answer[0] or answer['age'], or round them all, round(answer, 2)."
            )
        return float(self._value.item())

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
                raise KeyError(f"{k!r} is not an entry of this estimate, which has {known}.")
        return tuple(
            labels[axis].index(k) if isinstance(k, str) else k for axis, k in enumerate(keys)
        )

    def _names(self, most: int | None = None) -> list[str]:
        """Return the names of the entries, or of the first of them."""
        places = range(self._value.size)[:most]
        if self._is_named():
            grid = zip(*np.unravel_index(places, self.shape), strict=True) if self.shape else [()]
            return [
                ", ".join(names[i] for names, i in zip(self.labels, where, strict=True))
                for where in grid
            ]
        return [str(i) for i in places]

    def _heads(self, most: int) -> list[str]:
        """Return the names of the first entries as they are printed."""
        names = self._names(most)
        units = self.units if len(self.units) == self._value.size else [None] * len(names)
        return [with_unit(*pair) for pair in zip(names, units[:most], strict=True)]

    def _note(self) -> str:
        """Return why an error may be 0, empty if none is."""
        on_grid = self.step is not None and not self._shown_error.all()
        return f"on a grid of step {self.step:g}" if on_grid else ""

    def __repr__(self) -> str:
        note = self._note()
        if not self.shape:
            told = f"std error; {note}" if note else "std error"
            value, error = _written_pair(self._value, self._shown_error)
            return f"{value} +- {error} ({told})"
        lines = _align([("", "value", "std error"), *self._rows(_MOST_PRINTED)])
        lines += more_of(range(self._value.size), _MOST_PRINTED)
        return "\n".join([*lines, f"({note})"] if note else lines)

    def _rows(self, most: int) -> list[tuple[str, str, str]]:
        """Return the names of the first entries, their values and their errors, as printed."""
        names = map(cut, self._heads(most))
        numbers = self._value.ravel()[:most], self._shown_error.ravel()[:most]
        return [(name, *_written_pair(*pair)) for name, *pair in zip(names, *numbers, strict=True)]

    def _repr_html_(self) -> str:
        if not (self._is_named() and len(self.shape) == 2):
            rows = self._rows(MOST_ROWS)
            return html_table(self._note(), ("", "value", "std error"), rows, self._value.size)
        names, heads = self.labels
        shown = np.s_[:MOST_ROWS, :MOST_COLUMNS]  # beside the names: a column more, which is told
        numbers = zip(self._value[shown], self._shown_error[shown], strict=True)
        lines = (
            [name, *(" ± ".join(_written_pair(*pair)) for pair in zip(*pairs, strict=True))]
            for name, pairs in zip(names, numbers, strict=False)
        )
        return html_table("value ± std error", ["", *heads[:MOST_COLUMNS]], lines, len(names))


def with_unit(name: str, unit: str | None) -> str:
    """Return a label: the name, and the unit in brackets where there is one."""
    return name if not unit else f"{name} ({unit})"


def _written_pair(value: Any, error: Any) -> tuple[str, str]:
    return _written(value, 5), _written(error, 2)


def _written(number: float, digits: int) -> str:
    """Return a number to so many digits; below ten millions 390 is read sooner than 3.9e+02."""
    text = f"{number:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(number) < 1e7 else text


def _align(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
