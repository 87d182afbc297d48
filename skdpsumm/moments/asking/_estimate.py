"""An answer with its error, what it warns of, and the frames in which it goes out.

Frames are in the library of the table that came in. Those of pandas have an index, which holds
the labels of the rows. Others have none, so there the labels are the first columns. There is no
narwhals here: it builds a frame from a dict, which takes two lines of ours, and it has no index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice, product, repeat
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit
from sklearn import get_config

from ..._computing import TINY, Floats, warn_caller
from ..._html import MOST_COLUMNS_SHOWN, MOST_ROWS_SHOWN, cut, html_table, more_of, some_of
from ...schema._columns import Date, Numeric
from ...schema._schema import TableSchema, stack_columns
from ...sketches._private_sketch import PrivateSketch
from .._numbers import REACH_OF_ANSWER, ROUNDING

# What an interval may cover, and what its parts are called.
_COVERS = ("table", "noise", "population")
_PARTS = ("noise", "uncounted", "places", "sampling")
_PICKLED = "Ask for the interval before you pickle: same_rows=True asks the releases again."


class Estimate(NDArrayOperatorsMixin):
    """An answer that knows its error: a statistic from a private sketch, usable as an array.

    `M2MEstimator` makes these; you rarely make one yourself. Read the answer from `value`, its
    error from `std_error`, and a confidence interval from `interval`.

    An answer is asked of the release's model, and of B plausible tables, from which the release may
    have come as well. Its interval is where the answers of these lie. Answers of one release are
    joint: ``a - b``, ``a / b`` and ``np.log(a)`` are asked of the same tables, so they have the
    right error. So have answers of two releases: a sum of sketches shares the noise of its parts,
    and other releases share none. For a population, say whether both are of the `same_rows`.

    Parameters
    ----------
    tables : ndarray of shape (1 + B, ...), or callable
        The statistic of the model, then of each plausible table. A callable takes what differs
        between the tables ("table", "noise", "population", "uncounted" or "places") and returns
        that array. An array stands for all of these.
    value : ndarray, default=None
        The answer. None takes that of the model, moved to within 0.7 standard errors (of the noise)
        of the middle of the tables: if they are farther away, the model is biased, because it has
        no negative counts.
    possible : pair of float or ndarray, default=(-inf, inf)
        Least and largest value that the statistic can have; by default it has no limits. `value`
        and the ends of intervals are moved inside. Errors are not: a share that noise made negative
        is not certain to be 0.
    labels : sequence of sequences of str, default=()
        Names along each axis, for tables. Empty, as a single number has none.
    frame : {"pandas", "polars", "pyarrow", "auto", None}, default=None
        The library of the frames that `value`, `std_error` and `interval` are: that of the input,
        where it was a frame. None gives arrays, as scikit-learn does for arrays. "auto" is for
        answers from a sketch, which knows only the names of the columns. It takes what
        ``sklearn.set_config(transform_output=...)`` says, else pandas where it is installed, else
        an array.
    step : float, default=None
        Distance between the values that the truth can have, where they are on a grid, such as 1 for
        a number of rows. None is for answers that can have any value. Dates have step 1.
    units : sequence of str or None, default=()
        Unit of each entry of a one-dimensional array, to be printed. Empty, as most have none.
    axes : sequence of str, default=()
        What each axis of a table stands for. Empty, as only tables, and answers for each group of
        rows, have such axes.
    refused : str, default=None
        Why there is no interval for a population. None, where there is one.
    dates : Date, default=None
        The column of which the answers are dates; their numbers are steps since its `low`. `value`
        and the ends of intervals are then dates, rounded to steps. Errors are numbers of steps, and
        so are ``float(answer)`` and differences of answers. None, as most answers are numbers.
    release : PlausibleTables or PlausiblePoints, default=None
        What draws the tables of the release that was asked. None, if you made the answer.

    Notes
    -----
    Labels are the index of what comes in pandas. Frames of polars and pyarrow have no index. There
    the labels are the first column, which has the name of the axis, such as "sex" for ``by="sex"``.
    Without such a name it is "name", or "row" for a matrix. Where two columns would share a name,
    that of the labels gets an underscore.
    ``answer[...]`` is the same answer without names, so that all that it gives is arrays.

    A number after ``+-`` or ``±`` is one `std_error`, here and in pictures. A bar or a band in a
    picture is `interval` at its level, 0.95 unless you ask for another.

    Comparisons give plain arrays: ``answer > 3`` compares the value alone, noise and all. To allow
    for the noise, compare an end of `interval`. An `Estimate` by itself is neither true nor false.
    For a plain array, take ``np.asarray(answer)``.

    You can format one number, ``f"{answer:.2f}"``, and round any answer: ``round(answer, 2)`` is
    its value, rounded.

    A pickle keeps the answers of all tables, and not the release: ``same_rows=True`` needs that.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import Estimate
    >>> rng = np.random.default_rng(4)
    >>> noise = rng.normal(size=(100, 2)) * [0.1, 0.2]
    >>> answer = Estimate(np.vstack([[1.0, 2.0], [1.0, 2.0] + noise]), labels=[["a", "b"]])
    >>> answer.interval(0.95).round(1)
    array([[0.8, 1.2],
           [1.6, 2.4]])
    >>> answer["b"] - answer["a"]
    1 +- 0.22 (std error)
    """

    def __init__(
        self,
        tables: ArrayLike | Callable[[str], Floats],
        *,
        value: ArrayLike | None = None,
        possible: tuple[Any, Any] = (-np.inf, np.inf),
        labels: Sequence[Sequence[str]] = (),
        frame: str | None = None,
        step: float | None = None,
        units: Sequence[str | None] = (),
        axes: Sequence[str] = (),
        refused: str | None = None,
        dates: Date | None = None,
        release: Any = None,
    ):
        if not callable(tables):
            given = np.asarray(tables, np.float64)
            if given.ndim < 1 or len(given) < 3:
                raise ValueError(
                    "tables must hold the statistic of the model, then of two or more plausible "
                    f"tables along its first axis; got shape {given.shape}."
                )
        self._ask: Any = tables if callable(tables) else lambda covers: given
        # The releases that were asked, by what they draw and whose noise is in them.
        self._releases: dict[tuple[str, frozenset[str]], Any] = {}
        if release is not None:
            self._ask = partial(_with_people, self._ask)
            keys = frozenset(key for key, _ in release.sketch.releases)
            self._releases[release.draws, keys] = release
        self._tables: dict[Any, Floats] = {}
        found = near_the_middle(self._asked("noise")) if value is None else value
        self._value = np.asarray(np.clip(np.asarray(found, np.float64), *possible))
        self._possible = tuple(np.broadcast_to(end, self._value.shape) for end in possible)
        self.labels = tuple(tuple(names) for names in labels)
        self.units, self.axes = tuple(units), tuple(axes)
        self.frame, self._refused, self.dates = frame, refused, dates
        self.step = step if dates is None else 1.0

    def tables(self, covers: str = "table", *, same_rows: bool | None = None) -> Floats:
        """Return the statistic of each plausible table, shape (B, ...).

        Nothing in them is moved to what is possible. Tables of all answers of a release go
        together: the k-th ones are of the same table.

        Parameters
        ----------
        covers : {"table", "noise", "population"}, default="table"
            What they differ in, as in `interval`.
        same_rows : bool, default=None
            As in `interval`.
        """
        return self._asked(self._drawn_for(covers, same_rows))[1:]

    def _drawn_for(self, covers: str, same_rows: bool | None) -> Any:
        """Return what to ask: a population's people are of each release, or all are of one."""
        if covers != "population" or len(self._releases) < 2:
            return covers
        keys = {own for _, own in self._releases}
        if len(keys) > 1:  # else all are of one release, in copies
            if len(frozenset.union(*keys)) < sum(map(len, keys)):
                raise ValueError(
                    "One of these releases is a part of another, so they share some rows. Ask the "
                    "parts that were added one by one, or take covers='table'."
                )
            if same_rows is None:
                raise ValueError(
                    "These answers are of several releases. Say same_rows=True if all are of the "
                    "same rows, so that they share the sampling error, or same_rows=False if no "
                    "row is in two of them."
                )
            if not same_rows:
                return covers
        releases = list(self._releases.values())
        if None in releases:
            raise ValueError(_PICKLED)
        if any(one.schema != releases[0].schema for one in releases):
            raise ValueError(
                "These releases are of tables with other columns, so nobody knows the sampling "
                "error that they share. Take covers='table'."
            )
        return min(releases, key=lambda one: one.sketch.key)  # a - b and b - a ask the same one

    def _asked(self, covers: Any) -> Floats:
        if covers not in self._tables:  # two threads that ask at once get the same
            if self._ask is None:
                raise ValueError(_PICKLED)
            self._tables[covers] = np.asarray(self._ask(covers), np.float64)
        return self._tables[covers]

    @property
    def value(self) -> Any:
        """The answer: an array, or a Series or DataFrame where the columns have names (`frame`).

        ``numpy.asarray(estimate)`` is always an array.
        """
        return self._framed(self._told(self._value), "value")

    def _told(self, numbers: Floats) -> NDArray:
        """Return answers as they are told: as dates where they are dates."""
        return numbers if self.dates is None else self.dates.decode(numbers)

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
        known, columns = heads[0] if heads else [of], numbers.reshape(len(names), -1).T
        frame = labelled({self._axes()[0]: names}, known, columns, library, [None])
        return frame[of].rename(None) if library == "pandas" and not heads else frame

    def _axes(self) -> tuple[str, ...]:
        """Return what the columns of labels are called."""
        return self.axes or (("name",) if len(self.shape) == 1 else ("row", "column"))

    def _labels_of_entries(self) -> dict[str, list[str]]:
        """Return the labels of each entry, those of an axis together."""
        each = np.array(list(product(*self.labels)), object).reshape(-1, len(self.shape))
        return dict(zip(distinct(self._axes()), each.T.tolist(), strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self._value.shape

    @property
    def std_error(self) -> Any:
        """Standard deviation of the whole error, on which ``interval(covers="table")`` is based.

        It includes the noise, what the release does not tell about how columns go together, and
        where in their bins rows may lie. It is at most half of the range in which the answer is
        known to lie, such as 0.5 for a share. It comes as `value` does: in an array, or in the same
        kind of frame.
        """
        return self._framed(self._shown_error(), "std_error")

    def _shown_error(self, covers: str = "table") -> Floats:
        """Return an error, at most half of what is possible: no value there has a larger one."""
        least, largest = self._possible
        half, error = (largest - least) / 2, self._error(covers)
        return np.where(np.isnan(self._value) | np.isnan(error), half, np.minimum(error, half))

    def _error(self, covers: str) -> Floats:
        """Return the standard deviation over the tables, 0 where it is a rounding error."""
        error = spread_of(self.tables(covers))
        return error if self.step is None else np.where(error < ROUNDING * self.step, 0.0, error)

    @property
    def noise_std_error(self) -> Any:
        """Standard deviation that the privacy noise gives to the answer.

        On a grid it can be 0, where the noise moves the answer to no other value. It is at most
        half of the range in which the answer is known to lie. It comes as `value` does.
        """
        return self._framed(self._shown_error("noise"), "noise_std_error")

    def parts(self) -> str:
        """Return one line that says what the interval is made of.

        The parts are the standard deviations of the noise, of how columns go together that nobody
        counted together, and of where in their bins rows lie; and of which rows a population
        happened to have, which ``interval(covers="population")`` adds to answers of one release.
        They are the largest of all entries.
        """
        # The last part, sampling, is known of answers of one release.
        names = _PARTS if self._refused is None and len(self._releases) < 2 else _PARTS[:-1]
        return ", ".join(f"{name} {np.max(self._error(name)):.2g}" for name in names)

    def interval(
        self,
        level: float = 0.95,
        *,
        covers: str = "table",
        simultaneous: bool = False,
        same_rows: bool | None = None,
    ) -> Any:
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
        simultaneous : bool, default=False
            Whether all entries are held at once with this probability. The default is the usual
            interval of one number.
        same_rows : bool, default=None
            For "population", of an answer from several releases, such as a difference: whether all
            are of the same rows, so that they share the sampling error. False is for tables that
            have no row in common. None is for one release, its copies and its file.

        Returns
        -------
        ndarray of shape ``(*shape, 2)`` or DataFrame
            A frame where `value` is one. It has a row for each entry, with the columns "low" and
            "high". The labels of an entry are its index in pandas, and the first columns elsewhere.

        Notes
        -----
        An end is a quantile of what the B plausible tables answer, the k-th of them for the level
        ``k / (B + 1)``: a truth that is like these tables lies between two such ends with just that
        probability. Where both ends are about those of a Gaussian, or beyond the last of the
        tables, it is the mean plus and minus a quantile of Student's t times the standard
        deviation, whose length varies less. Beyond the last of the tables it is at least as far as
        the tables reach. A table without an answer, such as 0 / 0, may have any. On a grid, ends
        move outwards to the next values. All are cut to what is possible: a share lies between 0
        and 1. Where the value is NaN, as the mean of a category of which the release shows no rows,
        the interval is all that is possible.

        Raises
        ------
        ValueError
            If the level is outside (0, 1), or the sampling error is not known for "population".
        """
        ends = self._told(self._interval(level, covers, same_rows, simultaneous))
        library = self._library()
        if library is None:
            return ends
        index = self.axes if len(self.axes) == len(self.shape) == 2 else [None] * len(self.shape)
        both = ends.reshape(-1, 2).T
        return labelled(self._labels_of_entries(), ["low", "high"], both, library, index)

    def _interval(
        self, level: float, covers: str, same_rows: bool | None = None, simultaneous: bool = False
    ) -> Floats:
        """Return both ends of all entries, shape ``(*shape, 2)``."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
        if covers not in _COVERS:
            raise ValueError(f"covers must be 'table', 'noise' or 'population', got {covers!r}.")
        if covers == "population" and self._refused is not None:
            raise ValueError(f"covers='population' is not known here: {self._refused}")
        drawn = self.tables(covers, same_rows=same_rows)
        low, high = band_of(drawn, level) if simultaneous else ends_of(drawn, level)
        low, high = np.minimum(low, self._value), np.maximum(high, self._value)
        if self.step is not None:
            low = self.step * np.floor(low / self.step + ROUNDING)
            high = self.step * np.ceil(high / self.step - ROUNDING)
        possible = np.stack(self._possible, axis=-1)
        ends = np.where(np.isnan(self._value)[..., None], possible, np.stack([low, high], axis=-1))
        return np.clip(ends, possible[..., :1], possible[..., 1:])

    def to_frame(
        self, level: float | None = None, *, covers: str = "table", same_rows: bool | None = None
    ) -> Any:
        """Return a data frame with one row per entry: its value and its standard error.

        Parameters
        ----------
        level : float, default=None
            Add the ends of `interval` at this level. None adds none, as the standard error often
            suffices.
        covers : {"table", "noise", "population"}, default="table"
            What the ends are for, with the same default as in `interval`.
        same_rows : bool, default=None
            As in `interval`.

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
        >>> noise = np.random.default_rng(0).normal(size=(100, 2)) * [0.1, 0.2]
        >>> answer = Estimate(np.vstack([[5.0, 7.0], [5.0, 7.0] + noise]), frame="pandas")
        >>> answer.to_frame(0.95).round(1)
           value  std_error  low  high
        0    5.0        0.1  4.8   5.2
        1    7.0        0.2  6.6   7.4
        """
        told = self._told(self._value).ravel()
        columns: dict[str, NDArray] = {"value": told, "std_error": self._shown_error().ravel()}
        if level is not None:
            ends = self._told(self._interval(level, covers, same_rows))
            columns |= dict(zip(("low", "high"), ends.reshape(-1, 2).T, strict=True))
        library = chosen(self.frame) or "pandas"
        labels = self._labels_of_entries() if self.axes else {"name": self._names()}
        index = None if self.axes else [None]
        return labelled(labels, list(columns), list(columns.values()), library, index)

    def __getstate__(self) -> dict[str, Any]:
        """Return all that is known of the answer, without the release that it came from."""
        kept = {*_COVERS, *_PARTS} - {"population" if self._refused else ""}
        told = {"_ask": None, "_releases": dict.fromkeys(self._releases)}
        return self.__dict__ | told | {"_tables": {one: self._asked(one) for one in kept}}

    def __array__(self, dtype=None, copy=None):
        return np.array(self._told(self._value), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(isinstance(out, Estimate) for out in kwargs.get("out", ())) or method == "at":
            raise TypeError("Write a = a + b in place of a += b: an Estimate keeps its value.")

        def of(*given: Any) -> Any:
            with np.errstate(invalid="ignore", divide="ignore"):
                return getattr(ufunc, method)(*given, **kwargs)

        value = of(*(one._value if isinstance(one, Estimate) else one for one in inputs))
        is_plain = kwargs.get("out") or ufunc.nout > 1 or value.dtype == np.bool_
        return value if is_plain else self._combined(of, inputs, value)

    def _combined(self, of: Callable, inputs: Sequence[Any], value: Floats) -> Estimate:
        """Return a function of several answers, asked of each of their tables."""
        several = [one for one in inputs if isinstance(one, Estimate)]

        def ask(covers: Any) -> Floats:
            given = [x._asked(covers) if isinstance(x, Estimate) else repeat(x) for x in inputs]
            sizes = {len(tables) for tables in given if isinstance(tables, np.ndarray)}
            if len(sizes) > 1:
                raise ValueError(f"These answers are of different numbers of tables: {sizes}.")
            return np.array([of(*table) for table in zip(*given, strict=False)])

        refused = next((one._refused for one in several if one._refused is not None), None)
        named = [one for one in several if one.shape == value.shape and one._is_named()]
        names = {name: getattr(named[0], name) for name in ("labels", "frame", "axes") if named}
        found = Estimate(ask, value=value, refused=refused, **names)
        for one in several:
            found._releases |= one._releases
        return found

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, key: Any) -> Estimate:
        key = self._places(key)
        how: Any = {"step": self.step, "refused": self._refused, "dates": self.dates}
        how |= {"value": self._value[key], "possible": tuple(end[key] for end in self._possible)}
        found = Estimate(lambda covers: self._asked(covers)[:, *key], **how)
        found._releases = self._releases
        return found

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        """Return the value, rounded: a number, or an array or frame as `value` is."""
        if not self.shape:
            return round(float(self), ndigits)
        return self._framed(self._told(np.round(self._value, ndigits or 0)), "value")

    def __bool__(self) -> bool:
        raise TypeError(
            "An Estimate is neither true nor false, as it holds noise. Compare its value, such as "
            "answer.value > 3, or, to allow for the noise, an end of its interval, such as "
            "answer.interval()[0] > 3 for one number."
        )

    def __float__(self) -> float:
        """Return the only number of this answer, or raise TypeError."""
        if self._value.size != 1:
            raise TypeError(
                f"This Estimate holds {self._value.size} numbers, shape {self.shape}: take one, "
                "such as answer[0] or answer['age'], or round them all, round(answer, 2)."
            )
        return float(self._value.item())

    def _is_named(self) -> bool:
        return bool(self.labels) and tuple(map(len, self.labels)) == self.shape

    def _places(self, key: Any) -> tuple[Any, ...]:
        """Return an index with the names in it, which stand for one entry each, replaced."""
        keys = key if isinstance(key, tuple) else (key,)
        labels = self.labels if self._is_named() else ()
        for axis, k in enumerate(keys):
            if isinstance(k, str) and (axis >= len(labels) or k not in labels[axis]):
                known = ", ".join(map(repr, labels[axis])) if axis < len(labels) else "no names"
                raise KeyError(f"{k!r} is not an entry of this estimate, which has {known}.")
        return tuple(labels[a].index(k) if isinstance(k, str) else k for a, k in enumerate(keys))

    def _names(self, most: int | None = None) -> list[str]:
        """Return the names of the entries, or of the first of them."""
        if self._is_named():
            return [", ".join(names) for names in islice(product(*self.labels), most)]
        return [str(i) for i in range(self._value.size)[:most]]

    def _note(self) -> str:
        """Return why an error may be 0, empty if none is."""
        if self.step is None or self._shown_error().all():
            return ""
        steps = (self._value - self._value.flat[0]) / self.step  # of a count, noise is on no grid
        is_on_grid = np.allclose(steps, np.rint(steps), atol=ROUNDING, equal_nan=True)
        return f"on a grid of step {self.step:g}" if is_on_grid else ""

    def __repr__(self) -> str:
        note = self._note()
        if not self.shape:
            told = f"std error; {note}" if note else "std error"
            value, error = self._written(self._value, self._shown_error())
            return f"{value} +- {error} ({told})"
        most = 60  # entries, as many as rows of a pandas frame
        rows = [("", "value", "std error"), *self._rows(most)]
        a, b, c = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{name:<{a}}  {value:>{b}}  {error:>{c}}" for name, value, error in rows]
        lines += more_of(range(self._value.size), most)
        return "\n".join([*lines, f"({note})"] if note else lines)

    def _rows(self, most: int) -> list[tuple[str, str, str]]:
        """Return the names of the first entries, their values and their errors, as printed."""
        size = self._value.size
        units = self.units if len(self.units) == size else [None] * size
        numbers = self._value.flat, self._shown_error().flat
        each = zip(self._names(most), units, *numbers, strict=False)
        return [(cut(with_unit(name, unit)), *self._written(*pair)) for name, unit, *pair in each]

    def _written(self, value: Any, error: Any) -> tuple[str, str]:
        """Return a value and its error as they are printed."""
        if self.dates is None:
            return _written(value, 5), _written(error, 2)
        return self.dates.label(value), f"{_written(error, 2)} {self.dates.step}s"

    def _repr_html_(self) -> str:
        if not (self._is_named() and len(self.shape) == 2):
            rows = self._rows(MOST_ROWS_SHOWN)
            return html_table(self._note(), ("", "value", "std error"), rows, self._value.size)
        names, heads = self.labels
        # The names are a column more, so `html_table` sees that some are not shown.
        shown = np.s_[:MOST_ROWS_SHOWN, :MOST_COLUMNS_SHOWN]
        numbers = zip(self._value[shown], self._shown_error()[shown], strict=True)
        lines = (
            [name, *(" ± ".join(self._written(*pair)) for pair in zip(*pairs, strict=True))]
            for name, pairs in zip(names, numbers, strict=False)
        )
        return html_table("value ± std error", ["", *heads[:MOST_COLUMNS_SHOWN]], lines, len(names))


def _with_people(ask: Callable[[Any], Floats], covers: Any) -> Floats:
    """Return answers of a release; those of its tables with people that another release has drawn.

    These stand for the people of all releases of the same rows, so where the same is asked of two
    of them, their sampling error cancels.
    """
    if isinstance(covers, str):
        return ask(covers)
    found, people = ask("table"), ask(covers)[1:]
    with np.errstate(invalid="ignore"):
        return np.concatenate([found[:1], found[1:] + people - people.mean(axis=0)])


def _quantiles(drawn: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the quantiles of answers at both tails.

    A table that has no answer, such as 0 / 0, may have any: it is below the lower quantile, and
    above the upper one. What lies between a number and infinity is infinite.
    """
    gone = np.isnan(drawn)
    with np.errstate(invalid="ignore"):
        filled = [np.where(gone, end, drawn) for end in (-np.inf, np.inf)][: 1 + gone.any()]
        found = [np.quantile(own, [tail, 1 - tail], axis=0, method="weibull") for own in filled]
    low, high = found[0][0], found[-1][1]
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _moments(drawn: Floats) -> tuple[Floats, Floats]:
    """Return the means of answers and their standard deviations, NaN where one is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return drawn.mean(axis=0), np.std(drawn, axis=0, ddof=1)


def near_the_middle(tables: Floats) -> Floats:
    """Return the model's answer, the first one, moved towards the middle of plausible tables'."""
    own, drawn = tables[0], tables[1:]
    low, high = _quantiles(drawn, 0.5)
    reach = REACH_OF_ANSWER * spread_of(drawn)
    near = np.fmin(np.fmax(own, low - reach), high + reach)
    return np.where(np.isnan(own), own, near)


def likeliest(ask: Callable[[str], Floats]) -> Floats:
    """Return the answer of the model's many rows, moved as that of the few beside noisy tables."""
    noisy, own = ask("noise"), ask("model")[0]
    near = near_the_middle(noisy)
    with np.errstate(invalid="ignore"):
        found = own + (near - noisy[0])
    return np.where(np.isfinite(found), found, near)


def spread_of(drawn: Floats) -> Floats:
    """Return the standard deviation of answers, which single wild ones do not make larger.

    Of a ratio, a table may say anything: the distance of the 2.5 and 97.5 % quantiles is the most.
    """
    low, high = _quantiles(drawn, 0.025)
    with np.errstate(invalid="ignore"):
        return np.fmin(_moments(drawn)[1], high - low)


def ends_of(drawn: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends between which a truth like the drawn answers lies with a probability."""
    n, tail = len(drawn), (1 - level) / 2
    low, high = _quantiles(drawn, tail)
    middle, spread = _moments(drawn)
    # The truth is one more of them, and the mean is off, too.
    reach = stdtrit(n - 1, 1 - tail) * math.sqrt(1 + 1 / n) * spread
    if tail < 1 / (n + 1):  # farther out than the last of the tables
        return np.fmin(low, middle - reach), np.fmax(high, middle + reach)
    # Ends that may be a Gaussian's are: this is how far off, with such a probability and relative
    # to the end, the quantile of n draws of a Gaussian is (1.27 for 95 %).
    unsure = 1 + math.sqrt(2 * math.pi * tail * (1 - tail) / n) * math.exp(ndtri(tail) ** 2 / 2)
    with np.errstate(invalid="ignore"):
        even = np.maximum(high - middle, middle - low) < unsure * reach
        even &= np.minimum(high - middle, middle - low) > reach / unsure
    return np.where(even, middle - reach, low), np.where(even, middle + reach, high)


def band_of(drawn: Floats, level: float) -> tuple[Floats, Floats]:
    """Return ends that hold all entries of a truth like the drawn answers with a probability.

    As many standard deviations around the means as the largest of a table's own is, at a quantile.
    Mean and deviation are those of all other tables then, as the drawn ones are other than the
    truth. No number is more than ``(n - 1) / sqrt(n)`` standard deviations from the mean of n: a
    table that is farther from the others counts as so far. Beyond the last of the tables, ends are
    at least those of single entries that miss so rarely that all together miss no more often.

    An entry without an answer in some table may be anything.
    """
    n, known = len(drawn), np.isfinite(drawn).all(axis=0)
    middle, spread = _moments(np.where(known, drawn, 0.0))
    units = np.divide(drawn - middle, spread, out=np.zeros_like(drawn), where=spread > 0)
    others = np.sqrt(np.maximum(((n - 1) - units**2 * n / (n - 1)) / (n - 2), TINY))
    off = np.minimum(np.abs(units) * n / (n - 1) / others, (n - 1) / math.sqrt(n))
    reach = spread * np.quantile(off.reshape(n, -1).max(axis=1), level, method="weibull")
    low, high = middle - reach, middle + reach
    if 1 - level < 1 / (n + 1):
        wide = ends_of(drawn, 1 - (1 - level) / spread.size)
        low, high = np.fmin(low, wide[0]), np.fmax(high, wide[1])
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def with_unit(name: str, unit: str | None) -> str:
    """Return a label: the name, and the unit in brackets where there is one."""
    return name if not unit else f"{name} ({unit})"


def _written(number: float, digits: int) -> str:
    """Return a number to so many digits; below ten millions 390 is read sooner than 3.9e+02."""
    text = f"{number:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(number) < 1e7 else text


class AnswerWarning(UserWarning):
    """An answer may be off by more than its error bar says; the message says why.

    Parameters
    ----------
    message : str, default=""
        Why, and what to do.
    entries : array-like of int, default=None
        See the attribute.

    Attributes
    ----------
    entries : list of int or None
        Positions in the flattened answer that the warning is about, in increasing order. None is
        for all of the answer, and for warnings about a whole release or model.

    Examples
    --------
    Leave out what you should not rely on:

    >>> import warnings
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsumm import AnswerWarning, HistogramSketcher, M2MEstimator, Numeric, simulation
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(18, 91, 5000), "job": ["clerk"] * 5000})
    >>> people.loc[0, "job"] = "pilot"
    >>> schema = {"age": Numeric(18, 90, step=1), "job": ["clerk", "pilot"]}
    >>> sketcher = HistogramSketcher(schema=schema, marginals=2)
    >>> with simulation(0):  # an example
    ...     m2m = M2MEstimator(release=sketcher, random_state=0).fit(people)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", AnswerWarning)
    ...     answer = m2m.mean("age", by="job")
    >>> caught[0].message.entries
    [1]
    >>> values = np.array(answer)
    >>> values.ravel()[caught[0].message.entries] = np.nan
    >>> values.round()
    array([54., nan])
    """

    __module__ = "skdpsumm.moments"  # from which users import it

    def __init__(self, message: str = "", entries: ArrayLike | None = None):
        super().__init__(message)
        self.entries = None if entries is None else np.asarray(entries, np.int64).tolist()


def warn_of_the_drowned(then: str) -> None:
    """Warn of a sketch that is noise alone, and say what it is then good for."""
    warn_caller(
        "Use a larger epsilon, more rows or fewer columns: the noise drowns the sketch, which "
        f"cannot tell the number of rows from zero, and {then}.",
        AnswerWarning,
    )


def warn_of_the_lone(sketch: PrivateSketch, columns: Iterable[int], then: str) -> None:
    """Warn of those among some columns that the sketch counts with no other.

    Parameters
    ----------
    sketch : PrivateSketch
    columns : iterable of int
        Those that matter.
    then : str
        What follows.
    """
    lone = sorted(set(sketch.lone_columns).intersection(columns))
    if lone and not sketch.is_drowned:
        names = some_of([sketch.schema.name(j) for j in lone])
        warn_caller(
            "When you sketch again, name the column as `target` or in `workload` (`marginals` of a "
            "HistogramSketcher), use a larger epsilon, or describe it with fewer categories. The "
            f"sketch counts none of these with another column: {names}. {then}",
            AnswerWarning,
        )


def warn_of_the_wide(
    sketch: PrivateSketch, found: Estimate, spread: NDArray[np.float64] | float = np.inf
) -> None:
    """Warn of 95% intervals that hold more than half of what is possible, or of a drowned sketch.

    Parameters
    ----------
    sketch : PrivateSketch
    found : Estimate
    spread : ndarray or float, default=np.inf
        How wide intervals may be besides: of a mean, two standard deviations of the column.
    """
    spread = np.broadcast_to(spread, found.shape).ravel()
    width = np.diff(found._interval(0.95, "table"), axis=-1).ravel()
    possible = np.ravel(found._possible[1] - found._possible[0])
    is_open = (possible > 0) & np.isfinite(possible) & ~(width <= possible / 2)  # NaN is open
    is_spread = width > spread
    wide = np.flatnonzero(is_open | is_spread)
    if len(wide):
        names = _entries(found)
        about = list(dict.fromkeys(names[k] for k in wide))
        limit = "half of what is possible"
        limit += ", or than two standard deviations of the column" * bool(is_spread.any())
        message = (
            f"Do not rely on {some_of(about, str, 3)}: an interval is wider than {limit}. When you "
            "sketch again, use a larger epsilon or fewer columns, count columns together that you "
            "ask together (`workload` or `marginals`), and give `step` or `edges` in the schema."
        )
        warn_caller(AnswerWarning(message, wide))
    elif sketch.is_drowned:  # and with it what tells how wide an interval is
        warn_of_the_drowned("this answer tells next to nothing")


def warn_of_the_clipped(
    plausible: Any, found: Estimate, which: Sequence[int], slope: float
) -> None:
    """Warn of columns of which many rows lie at an end of the range, as clipped values do.

    They matter if the answer lies there, or would move by more than its error without the clipping.
    Of 0, where many columns end by nature, it says nothing.

    Parameters
    ----------
    plausible : PlausibleTables or PlausiblePoints
    found : Estimate
        Its last axis, if it has several, is that of the columns.
    which : sequence of int
    slope : float
        By how much the answer moves where the mean of the column moves by 1.
    """
    if plausible.model is None:
        return
    both = (found._value, found._shown_error())
    values, errors = (np.reshape(one, (-1, len(which))).T for one in both)
    for j, value, error in zip(which, values, errors, strict=True):
        places, column = plausible.tables_of("table").places(j), plausible.schema.columns[j]
        is_there = [np.any(value <= places.cuts[:2][-1]), np.any(value >= places.cuts[-1])]
        moved = slope * places.at_ends * places.beyond
        matters = (places.at_ends > 0) & (np.array(is_there) | (moved > error.min()))
        for k in np.flatnonzero(matters & (np.array(column.bounds) != 0)).tolist():
            warn_caller(
                f"Give {plausible.schema.name(j)!r} a wider range when you sketch again: "
                f"{places.at_ends[k]:.1%} of its values lie at the end of it, "
                f"{column.label(column.bounds[k])}. What is beyond is clipped, and the interval "
                "does not cover it.",
                AnswerWarning,
            )


def _entries(found: Estimate) -> list[str]:
    """Return what each entry is called; a matrix has each pair twice."""
    if found.axes:
        each = (zip(distinct(found.axes), own, strict=True) for own in product(*found.labels))
        return [" and ".join(map(" = ".join, pairs)) for pairs in each]
    if found._is_named():
        return [" with ".join(sorted({*labels})) for labels in product(*found.labels)]
    return [f"output {k}" for k in range(found._value.size)] if found.shape else ["this answer"]


def chosen(frame: str | None) -> str | None:
    """Return the library of frames, where "auto" is what scikit-learn is told; None for arrays."""
    if frame != "auto":
        return frame
    told = get_config()["transform_output"]
    if told != "default":
        return told
    return None if find_spec("pandas") is None else "pandas"


def frame_of(columns: Mapping[str, Any], library: str) -> Any:
    """Return a frame of these columns."""
    module = import_module(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def labelled(
    labels: Mapping[str, Sequence[str]],
    heads: Sequence[str],
    values: Any,
    library: str,
    index: Sequence[str | None] | None = None,
) -> Any:
    """Return a frame: the labels first, then each column of values by its head.

    In pandas, labels are the index where their names in it are given.
    """
    names = distinct([*labels, *heads], last=len(heads))
    frame = frame_of(dict(zip(names, [*labels.values(), *values], strict=True)), library)
    if library == "pandas" and index is not None:
        frame = frame.set_index(names[: len(labels)]).rename_axis(index)
        frame.columns = list(heads)
    return frame


def distinct(names: Sequence[str], last: int = 0) -> list[str]:
    """Return names that differ; repeated ones get underscores, and the `last` ones come first."""
    first = len(names) - last
    taken: set[str] = set()
    found = list(names)
    for k in [*range(first, len(names)), *range(first)]:
        while found[k] in taken:
            found[k] += "_"
        taken.add(found[k])
    return found


def framed(
    cells: Sequence[NDArray | None],
    schema: TableSchema,
    frame: str | None,
    badge: str,
    base: Any = None,
) -> Any:
    """Return columns as a table: whole numbers, numbers and categories, as the schema says.

    Parameters
    ----------
    cells : sequence of ndarray of shape (n,) or None
        None stands for a column of `base`.
    schema : TableSchema
    frame : {"pandas", "polars", "pyarrow", "auto", None}
        As in `Estimate`. None, or a schema without names: an array.
    badge : str
        What protects the rows, which is told in ``attrs`` of a pandas frame.
    base : frame, default=None
        A frame that has some of the columns already. None, where all are made.
    """
    library = chosen(frame)
    if library is None or schema.names is None:
        return schema.with_dates(stack_columns([own for own in cells if own is not None]))
    named = enumerate(zip(schema.names, cells, strict=True))
    made = {name: _typed(own, schema, j) for j, (name, own) in named if own is not None}
    if library == "pandas" and base is not None:  # a new index takes longer than the columns
        return base.assign(**made)
    # Each library has its own mark of a missing value.
    if library == "pyarrow":
        import pyarrow as pa

        made = {name: pa.array(column, from_pandas=True) for name, column in made.items()}
    every = {name: made[name] if name in made else base[name] for name in schema.names}
    table = frame_of(every, library)
    if library == "polars":
        table = table.fill_nan(None)
    if library == "pandas":
        table.attrs["privacy"] = badge  # text, which every format of files can hold
    return table


def _typed(cells: NDArray, schema: TableSchema, j: int) -> Any:
    """Return a column as whole numbers, floats, dates, or a list of categories."""
    column = schema.columns[j]
    if not isinstance(column, Numeric):
        # Categories come back as they were given: 1 for 1.0, and None for None or NaN.
        given = dict(zip(column.categories, of_one_kind(column.categories), strict=True))
        return [given.get(cell) for cell in cells.tolist()]
    numbers = cells.astype(np.float64)
    if isinstance(column, Date):
        return column.decode(numbers)
    assert column.bounds is not None  # nothing is answered without
    low, high = column.bounds
    whole = column.step is not None and float(column.step).is_integer() and float(low).is_integer()
    # Floats hold all whole numbers up to 2**53.
    if whole and not column.missing and max(abs(low), abs(high)) <= 2**53:
        return np.rint(numbers).astype(np.int64)
    return numbers


def of_one_kind(categories: Sequence[Any]) -> list[Any]:
    """Return categories as a column of any frame can hold them.

    Words beside others make words of these, and numbers make numbers of truth values. So the rows
    that are drawn do not decide a column's type.
    """
    kinds = {type(value) for value in categories}
    if len(kinds) == 1:
        return list(categories)
    kind = str if str in kinds else float if float in kinds else int
    return [kind(value) for value in categories]
