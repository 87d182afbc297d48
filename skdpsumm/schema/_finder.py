"""A schema that is found privately: ranges, steps, and the categories that enough rows have.

*What is counted.* Each column is cut into cells: public ones for numbers (a scale of 1, 2, 5, 10,
20, ... of either sign, and beside it one for each coarsest step that numbers are on) and for dates
(years), and one for each value of a column of categories. A unit of protection is a row, or a group
of which k rows stay. It adds one to each cell that it has a row in, however many these rows are.
Missing cells, and cells that no column can read, are in no cell.

*Sensitivity.* A unit's rows are in at most k cells of each block of cells: a column has one, and
two if it holds numbers. With one unit more, at most k counts of a block move, by one each: k in L1,
sqrt(k) in L2. With one unit replaced these are 2 k and sqrt(2 k), for its cells may all be others.
Each column has an equal share of the budget, and steps have a part of that of their column.

*Values that nobody listed.* A value that fewer than f = 2 units have is never released, and gets no
noise: names of persons cost no time. All others get noise, and which these are is private. So one
is released only if its noisy count reaches

    T = f + h + s Phi^-1(1 - delta'),   delta' = tail / m,

with s the standard deviation of the noise on the lattice of step h, and m the number of values
whose counts one unit can move: k for each column of categories, twice that if a unit is replaced.
It moves each by one. So a value that fewer than f units have in one of two neighbours, f units have
in the other at most. The discrete Gaussian X on the lattice has P(X >= j h) <= P(N(0, s^2) >=
(j - 1) h) [1]_, so such a value comes out with a probability of at most delta'.

Now let D and D' be neighbours, and G be the mechanism that counts nothing but public cells and the
values that at least f units have in both: mu-GDP up to its slack, for the counts that differ are at
most those above, and all others have the same law. Let E be the event that some other value comes
out, of probability p under D and p' under D': p + p' <= tail. The noise of its counts is
independent of all other noise, so off E the law of the release, and of whatever is released after
it, is (1 - p) times that of G(D), and (1 - p') times that of G(D'). With x and y for the densities
of G(D) and exp(epsilon) G(D') it is (epsilon, delta_G(epsilon) + tail)-DP, because

    (1 - p) x - (1 - p') y <= (1 - p') (x - y) + p' x <= max(x - y, 0) + p' x.

Hence `NewValuesDP`, whose tail is that of the noise, plus `tail`. A ledger holds a large one only
as its first charge (`skdpsumm/privacy/_ledger.py`). Any other has a part of its reserve
(`_OF_RESERVE`): the threshold is then about 7.5 standard deviations, in place of 5.5.

*What follows is post-processing.* Ranges, steps and lists are made of noisy counts alone.

References
----------
.. [1] Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy",
       Proposition 25, on the tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from .._computing import warn_caller
from .._html import some_of
from .._sklearn import Interval
from ..privacy import NoiseWarning, PrivacyGuarantee, PrivacyLedger
from ..privacy._fit import FOUND, PrivateFit
from ..privacy._mechanisms import GaussianDP, Mechanism, NewValuesDP
from ..privacy._noise import MOST_LIFTED, RESERVE, TOO_LARGE, Block, IntegerNoise, derived_seed
from ._columns import MOST_LISTED, Categorical, Date, Numeric
from ._groups import Groups
from ._reading import (
    cell_fault,
    check_in_memory,
    exact_dates,
    number_of_word,
    plain_label,
    read_date,
    read_each,
    reads_as_number,
    validate_table,
)
from ._schema import TableSchema

T = TypeVar("T")
# The values of a block of cells, their noisy counts, and the deviation of the noise.
_Told: TypeAlias = tuple[list[Any], NDArray[np.float64], float]

NUMBER, CATEGORY, DATE = "number", "category", "date"
# Ends of cells of positive numbers, from zero on; those of negative ones mirror them. One cell more
# holds what is beyond the last, and zero has a cell of its own.
_ENDS = np.array(
    [0.0, *(float(f"{digit}e{power}") for power in range(-6, 15) for digit in (1, 2, 5)), 1e15]
)
N_SCALE_CELLS = 2 * len(_ENDS) + 1
# Cells of dates are these years, two centuries on each side of 2000, as far as registers reach. The
# first and the last have all that is beyond them.
_FIRST_YEAR, _LAST_YEAR = 1800, 2199
# Adjoining cells that are looked at together, at most: rows of a long tail are spread over them.
# With 3 or 24, examples/benchmarks/schema_finder.py has distances within 5 per cent of these.
_WIDEST_WINDOW = 12
# Expected number of windows of a column that seem to hold rows, by noise alone.
_FALSE_WINDOWS = 1e-3
# The end of a range that is closer to zero is moved there if it is at most this part of the other.
# With 0, 0.01 or 0.25, the same script has distances within 7 per cent of these.
_NEAR_ZERO = 1 / 20
# Steps that a column may have. Each is a multiple of the one before, so that the coarsest step
# which a number is on says all others.
_STEPS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
# A step is too coarse where more than this part of the rows is off it, by so many deviations of the
# noise on their number. With 2 or 5 deviations, the same script has distances within 3 per cent of
# these. No range has more steps than the last number: float64 divides it by one to a millionth.
_MOST_OFF_STEP, _STDS_OF_STEP, _MOST_ON_STEP = 0.02, 3.0, 1e9
# Part of delta that pays for new values. A quarter or a half would lower the threshold by 2 per
# cent, and cost a ledger 1 or 3 per cent of its mu: this costs half a per cent.
_OF_DELTA = 1 / 10
# Part of a ledger's reserve for tails that does, where it holds other charges already.
_OF_RESERVE = 1 / 16
# A value that fewer units have is never released.
_FEWEST_UNITS = 2
# Parts of the budget of a column that its blocks have: of numbers, the scale and the steps. With
# 1/2 or 3/4 for steps, the same script has distances a fifth larger, for more is clipped.
_PARTS = {NUMBER: (0.75, 0.25), CATEGORY: (1.0,), DATE: (1.0,)}
# What is said of columns of which noise hides everything.
_HIDDEN: dict[str, Numeric | Categorical] = {
    NUMBER: Numeric(0, 1, missing=True),
    CATEGORY: Categorical((), missing=True, other=True),
    DATE: Date("2000-01-01", "2000-12-31", missing=True),
}


class SchemaFinder(PrivateFit, BaseEstimator):
    """Find the public description of a private table: ranges of numbers and dates, and categories.

    Use it where nobody has written down what the columns hold. `fit` reads the raw table once, and
    `schema_` is public: give it to any estimator. A schema that you know costs nothing and is
    better, so write it by hand where you can.

    *Numbers* get a range whose ends are 0, or 1, 2 or 5 times a power of ten. It leaves out ends
    that hold so few rows that noise hides them: later estimators clip numbers to it. The step is
    the coarsest of 0.001, 0.01, 0.1, 0.5, 1, 5, 10, 50, 100 and 1000 that fits all but some two
    rows in a hundred, and those that noise hides. These are then rounded. A column with finer
    numbers has none.

    *Categories* are the values that enough rows have, in sorted order. All others become "other".
    How many rows are enough depends on the noise, and `min_count_` says it. A value that a single
    row has is never told.

    *Dates* get a range of whole years from 1800 to 2199, in days (`Date`).

    Each column may have missing cells. A word that reads as a number or a date counts as one. A
    cell that its column cannot read (another word among numbers, a number among dates, a date with
    a time zone, a list, a number beyond 2^53 among categories) counts as missing here.

    Parameters
    ----------
    kinds : mapping or list of {"number", "category", "date"}, default=None
        What each column holds, such as ``{"age": "number", "job": "category"}``, or a list with an
        entry for each column of an array. It is public and yours to say: nothing is read off the
        table, its dtypes included. Columns that a mapping does not name are dropped, here and by
        `schema_`. None, the default, takes all columns for numbers, as scikit-learn does.
    epsilon : float, default=0.1
        Total epsilon of one `fit` and of all that is made of it. The default is a tenth of what is
        usual for a release, because a schema is found for a release that comes after it. ``np.inf``
        adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise, and allows for no categories: a
        category that nobody listed cannot be released without a delta. Keep delta below
        1 / n_samples: 1e-6 suits fewer than a million rows.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", noise is sqrt(2) times (Laplace: twice) as large.
    max_rows_per_group : int or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins. Each group then counts once for each of
        its values, and the noise is sqrt(k) times (Laplace: k times) as large. None, the default,
        protects one row of X, which is enough where each person has one row. The value is public.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them. Let a fit that looks for categories be the first
        charge of its ledger: later ones need some 1.4 times as many rows of a category, and a
        ledger with the same delta holds 15 of them, however small their epsilon.

    Attributes
    ----------
    schema_ : TableSchema
        The schema that was found, public. The `description` of its columns says what it cost, and
        each guarantee that is made with it repeats that.
    min_count_ : float or None
        The noisy count from which a category is listed: of rows, or of groups. None where there are
        no columns of categories.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsumm import SchemaFinder
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({
    ...     "age": rng.integers(18, 90, 20_000),
    ...     "pay": rng.lognormal(10, 0.5, 20_000),
    ...     "job": rng.choice(["clerk", "farmer", "the only pilot"], 20_000, p=[0.7, 0.299, 0.001]),
    ... })
    >>> kinds = {"age": "number", "pay": "number", "job": "category"}
    >>> finder = SchemaFinder(kinds, epsilon=0.5).fit(rows)
    >>> finder.schema_["age"].bounds, finder.schema_["job"].categories
    ((10.0, 100.0), ('clerk', 'farmer', 'other'))
    >>> finder.schema_["age"].description
    'found privately: (0.5, 1e-6)-DP for one row, add or remove'

    See Also
    --------
    TableSchema : The same, written by hand.
    M2MEstimator : Answers questions about a table that a schema describes.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateFit._parameter_constraints,
        "kinds": "no_validation",  # `_asked` says what is wrong, and with which column
        "max_rows_per_group": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        kinds: Mapping[str, str] | Sequence[str] | None = None,
        *,
        epsilon: float = 0.1,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: int | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.kinds = kinds
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Find the schema of X. This charges the ledger once.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            One row per person (or other unit of protection), or several with `groups`.
        y : ignored
        groups : array-like or series of shape (n_samples,), default=None
            Who each row belongs to, in words or numbers, none missing. Give it where
            `max_rows_per_group` is set, and nowhere else: hence None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are not valid. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.
        """
        return self._private_fit(X, groups=groups)

    def expected_min_count(self) -> float | None:
        """Return the `min_count_` of a fit: how many rows a category needs to be listed.

        Call it before `fit`. It reads no data and costs nothing.

        Returns
        -------
        float or None
            A noisy count, of rows or of groups. None where there are no columns of categories.

        Raises
        ------
        ValueError
            For bad parameters.

        Examples
        --------
        >>> from skdpsumm import SchemaFinder
        >>> kinds = {"age": "number", "job": "category"}
        >>> [round(SchemaFinder(kinds, epsilon=e).expected_min_count()) for e in (0.1, 1)]
        [271, 33]
        """
        self._check_parameters()
        _, kinds = self._asked()
        return self._price(kinds)[2] if CATEGORY in kinds else None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if CATEGORY in self._asked()[1] and self.delta == 0 and self.epsilon != np.inf:
            raise ValueError(
                "delta=0 cannot release a category that nobody listed: one row could bring it, and "
                "its name alone would tell of that row. Set delta, such as 1e-6. Or leave such "
                "columns out of kinds, and list their categories by hand."
            )

    def _asked(self) -> tuple[TableSchema, list[str]]:
        """Return which columns are meant, as a schema that knows nothing else, and their kinds.

        Without kinds all columns hold numbers, however many they are: one kind stands for them.
        """
        given: Any = self.kinds
        if given is None:
            return TableSchema(Numeric()), [NUMBER]
        named = isinstance(given, Mapping)
        if not given or not (named or isinstance(given, list | tuple)):
            raise ValueError(
                "kinds must be a mapping from name to kind, such as {'age': 'number', 'job': "
                f"'category'}}, or a list with an entry for each column; got {given!r}."
            )
        kinds = dict(given if named else enumerate(given))
        for name, kind in kinds.items():
            if not isinstance(kind, str) or kind not in _HIDDEN:
                raise ValueError(
                    f"kinds says that column {name!r} is {kind!r}; write 'number', 'category' or "
                    "'date', and leave other columns out."
                )
        plain = dict.fromkeys(kinds, Numeric())
        if named:
            return TableSchema(plain, extra_columns="drop"), list(kinds.values())
        return TableSchema(list(plain.values())), list(kinds.values())

    def _ask_ledger(self) -> None:
        if self.ledger is not None:
            self._ask(self._price(self._asked()[1])[1])

    def _price(self, kinds: Sequence[str]) -> tuple[IntegerNoise, Mechanism, float]:
        """Return the noise of all counts, what a release costs, and the threshold of new values."""
        units = 2 if self.adjacency == "replace_one" else 1
        moved = units * self._rows_per_group  # counts of each block that one unit can move
        shares = [part / len(kinds) for kind in kinds for part in _PARTS[kind]]
        blocks = [Block(moved, float(moved), math.sqrt(moved), share) for share in shares]
        looks = CATEGORY in kinds and self.delta > 0 and self.epsilon != np.inf
        # A ledger holds a large tail only where nothing was charged before.
        is_first = self.ledger is None or getattr(self.ledger, "n_charges", 1) == 0
        tail = self.delta * (_OF_DELTA if is_first else _OF_RESERVE * RESERVE) * looks
        noise = IntegerNoise(blocks, epsilon=self.epsilon, delta=self.delta - tail)
        if not isinstance(noise.mechanism, GaussianDP) or not looks:
            return noise, noise.mechanism, 1.0
        # The noisy count of so few units reaches the bound so rarely, rounding included.
        rare = float(ndtri(tail / (moved * kinds.count(CATEGORY)))) * (1 + 1e-12)
        std = noise.std_of_block(shares.index(1 / len(kinds)))
        bound = _FEWEST_UNITS + 2.0**-noise.lift - std * rare
        log_ratio, own = noise.mechanism.slack
        return noise, NewValuesDP(noise.mechanism.mu, log_ratio, own + tail), bound

    def _draft(self, noise_seed: int | None, X: Any, *, groups: Any = None) -> _Draft:
        check_in_memory("X", X)
        asked, kinds = self._asked()
        table = validate_table(self, X, schema=asked)
        known = asked.for_table(self.n_features_in_, getattr(self, "feature_names_in_", None))
        columns = [table[:, j] for j in range(known.n_columns)]
        if any(cells.dtype.kind == "c" for cells in columns):
            raise ValueError("Complex data not supported; give real numbers.")
        kinds = kinds * len(columns) if asked.is_for_all else kinds
        noise, claim, bound = self._price(kinds)
        if len(table) * 2**noise.lift > MOST_LIFTED:
            raise ValueError(TOO_LARGE)
        rows = units = np.arange(len(table))
        if groups is not None:
            labels = Groups.read(groups, len(table))
            rows = labels.kept(self._rows_per_group, self._group_key(noise_seed))
            units = labels.codes[rows]
        given = "the kinds of the columns and the other parameters"
        privacy = self._guaranteed(claim, given, noise_seed)
        # Cells are read before the charge, for reading is what may fail.
        counts = [
            counted
            for cells, kind in zip(columns, kinds, strict=True)
            for counted in _counted(cells[rows], kind, units, min(bound, _FEWEST_UNITS))
        ]
        return _Draft(known, kinds, counts, noise, bound, privacy, noise_seed)

    def _publish(self, draft: _Draft) -> None:
        told = draft.told()
        columns = [draft.found(kind, [next(told) for _ in _PARTS[kind]]) for kind in draft.kinds]
        draft.hidden = [draft.known.name(j) for j, one in enumerate(columns) if one is None]
        # What a column is known by travels with it, into files and into what is made of it.
        how = f"{FOUND}: {draft.privacy.short}"
        found = [
            replace(one or _HIDDEN[kind], description=how)
            for one, kind in zip(columns, draft.kinds, strict=True)
        ]
        self.schema_, self.privacy_ = draft.known.with_columns(found), draft.privacy
        self.min_count_ = draft.bound if CATEGORY in draft.kinds else None

    def _warn_last(self, draft: _Draft) -> None:
        if draft.hidden:
            warn_caller(
                f"Describe {some_of(draft.hidden)} by hand, or raise epsilon: noise hides all that "
                "they hold, or nothing in them can be read. Numbers got the range (0, 1), dates "
                'the year 2000, and categories "other" alone.',
                NoiseWarning,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


@dataclass
class _Draft:
    """Exact counts of all blocks, by the values that they are of, and what their noise costs."""

    known: TableSchema
    kinds: Sequence[str]
    counts: list[tuple[list[Any], NDArray[np.int64]]]
    noise: IntegerNoise
    bound: float
    privacy: PrivacyGuarantee
    noise_seed: int | None
    hidden: list[str] = field(default_factory=list)

    def told(self) -> Iterator[_Told]:
        """Yield what noise leaves of each block."""
        for i, (values, counts) in enumerate(self.counts):
            noisy = np.empty(0)  # of a column that nobody has a value in
            if len(counts):
                noisy = self.noise.add_block(i, counts, derived_seed(self.noise_seed, 0))
            yield values, noisy, self.noise.std_of_block(i)

    def found(self, kind: str, blocks: Sequence[_Told]) -> Numeric | Categorical | None:
        """Return what the blocks of a column tell of it; None if noise hides all."""
        values, noisy, std = blocks[0]
        if kind == CATEGORY:
            return _found_categories(values, noisy, self.bound)
        run = _run_of_rows(noisy, std, pure=self.noise.kind == "laplace")
        if run is None:
            return None
        if kind == DATE:
            first, last = (_FIRST_YEAR + k for k in run)
            return Date(f"{first}-01-01", f"{last}-12-31", missing=True)
        return _found_range(*run, _found_step(*blocks[1][1:]))


# ---- reading: what a cell becomes is a matter of that cell alone


def _counted(
    cells: NDArray, kind: str, units: NDArray[np.int64], fewest: float
) -> Iterator[tuple[list[Any], NDArray[np.int64]]]:
    """Yield the cells of each block of a column, in an order of their own, and the units in each.

    Categories that fewer than `fewest` units have are left out.
    """
    if kind == CATEGORY:
        read = _read_each(cells, _value, None)
        found = {value for value in read if value is not None}
        values = sorted(found, key=lambda value: (isinstance(value, str), value))
        code = {value: k for k, value in enumerate(values)}
        codes = np.array([code.get(value, -1) for value in read], np.int64)
        counts = _units_in(codes, units, len(values))
        kept = np.flatnonzero(counts >= fewest)
        yield [values[i] for i in kept], counts[kept]
    elif kind == DATE:
        yield [], _units_in(_years(cells), units, _LAST_YEAR - _FIRST_YEAR + 1)
    else:
        numbers = _numbers(cells)
        yield [], _units_in(_places(numbers), units, N_SCALE_CELLS)
        yield [], _units_in(_coarsest_steps(numbers), units, len(_STEPS) + 1)


def _units_in(codes: NDArray[np.int64], units: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return how many units have a row in each of n cells, whose code is from 0 on."""
    there = codes >= 0
    # A unit counts once in a cell, however many rows it has there.
    pairs = np.unique(units[there] * max(n, 1) + codes[there])
    return np.bincount(pairs % max(n, 1), minlength=n).astype(np.int64)


def _read_each(cells: NDArray, read: Callable[[Any], T], unread: T) -> list[T]:
    """Return what is read of each cell, `unread` for one that cannot be."""
    if cells.dtype.kind in "mM":  # of which numpy may make integers
        return [unread] * len(cells)

    def read_or_not(cell: Any) -> T:
        with suppress(Exception):  # a cell may be any object, and may raise anything
            return read(cell)
        return unread

    return read_each(cells.tolist(), read_or_not)


def _value(cell: Any) -> Any:
    """Return a category as Python's word or number, one form for each value; None for no value."""
    value = plain_label(number_of_word(cell) if isinstance(cell, str) else cell)
    if isinstance(value, str):
        value.encode()  # raises for half a pair of surrogates, which no file holds
        return value
    # No list holds fractions; float64, to which some containers convert, rounds larger numbers.
    return value if isinstance(value, int | float) and abs(value) < 2**53 else None


def _number(cell: Any) -> float:
    """Return the float64 that is closest to a cell, NaN where it reads as no number."""
    cell = number_of_word(cell) if isinstance(cell, str) else cell
    if type(cell) not in (float, int) and cell_fault(cell):
        return math.nan
    return float(cell)


def _numbers(cells: NDArray) -> NDArray[np.float64]:
    """Return cells as numbers, NaN for those that are missing, or none, or infinite."""
    if cells.dtype.kind in "biuf":  # as each by itself
        numbers = cells.astype(np.float64)
    else:
        numbers = np.array(_read_each(cells, _number, math.nan), np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _places(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of the scale that each number is in, -1 for none."""
    # Magnitude m is in (ends[m - 1], ends[m]]: upper ends of ranges are more often round numbers
    # that occur than lower ones are, but for zero.
    m = np.searchsorted(_ENDS, np.abs(numbers), side="left")
    place = np.where(numbers < 0, -m, m) + len(_ENDS)
    return np.where(np.isnan(numbers), -1, place)


def _coarsest_steps(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many of the steps, the last of which it is on, each number has; -1 for none.

    Zero is on all steps, so it tells nothing.
    """
    found = np.where((numbers == 0) | np.isnan(numbers), -1, 0)
    with np.errstate(over="ignore"):
        for k, step in enumerate(_STEPS):
            # Dividing a whole number gives the float that a decimal is written as.
            whole, parts = max(step, 1.0), max(round(1 / step), 1)
            near = np.rint(numbers * parts / whole) * whole / parts
            found[(near == numbers) & (found >= 0)] = k + 1
    return found


def _years(cells: NDArray) -> NDArray[np.int64]:
    """Return the cell of each date, -1 for none: its year."""
    if cells.dtype.kind == "M":
        years = exact_dates(cells, "Y", None)
    else:
        one_by_one = _read_each(cells, lambda cell: read_date(cell, None).astype("M8[Y]"), None)
        years = np.array(one_by_one, "M8[Y]")
    numbers = np.clip(years.astype(np.int64) + 1970, _FIRST_YEAR, _LAST_YEAR) - _FIRST_YEAR
    return np.where(np.isnat(years), -1, numbers)


# ---- what follows from noisy counts alone


def _found_categories(values: list[Any], noisy: NDArray, bound: float) -> Categorical | None:
    """Return the values whose noisy count reaches the bound, in the order of their own."""
    listed = np.flatnonzero(noisy >= bound)
    heaviest = listed[np.argsort(-noisy[listed], kind="stable")[: MOST_LISTED - 1]]
    found = [values[i] for i in np.sort(heaviest)]
    if len({isinstance(value, str) for value in found}) > 1:
        # A table that holds both as words could not tell such a word from a number.
        found = [v for v in found if not (isinstance(v, str) and reads_as_number(v))]
    return Categorical(tuple(found), missing=True, other=True) if found else None


def _found_range(first: int, last: int, step: float | None) -> Numeric:
    """Return the range of a run of cells, with some length, and its ends on the step if it can."""
    ends = np.concatenate([-_ENDS[-1:], -_ENDS[::-1], _ENDS, _ENDS[-1:]])
    low, high = float(ends[first]), float(ends[last + 1])
    if low == high or 0 < low <= high * _NEAR_ZERO:
        low = min(low, 0.0)
    if low == high or low * _NEAR_ZERO <= high < 0:
        high = max(high, 0.0) if low < 0 else high or 1.0
    if step is None or max(-low, high) > _MOST_ON_STEP * step:
        return Numeric(low + 0.0, high + 0.0, missing=True)  # no -0.0
    # Ends closer to zero than a step are moved out to one; all others are multiples of it.
    low = low if abs(low) >= step else -step if low < 0 else 0.0
    high = high if abs(high) >= step else step if high > 0 else 0.0
    return Numeric(low, high, step=step, missing=True)


def _found_step(on_steps: NDArray, std: float) -> float | None:
    """Return the finest step that rows are seen to need; None if they need finer ones, or hide.

    They do where noise could hide as many rows off a step as are on it.
    """
    spread = _STDS_OF_STEP * std * np.sqrt(np.arange(1, len(on_steps) + 1))
    most_off = _MOST_OFF_STEP * on_steps.sum() + spread
    # Rows on each step or a finer one: those that the next coarser one would round.
    seen = np.cumsum(on_steps) > most_off
    finest = int(np.argmax(seen))
    is_sure = seen[finest] and 2 * most_off[finest] < on_steps.sum()
    return _STEPS[finest - 1] if is_sure and finest else None


def _run_of_rows(counts: NDArray, std: float, *, pure: bool) -> tuple[int, int] | None:
    """Return the first and the last cell of those that hold rows; None if noise hides all.

    A window of w cells holds rows if it has so many standard deviations more than none that noise
    alone rarely has them: Laplace's, if it is `pure`. It counts if it holds no smaller such window.
    """
    p = _FALSE_WINDOWS / (_WIDEST_WINDOW * len(counts))
    least = std * (-math.log(2 * p) / math.sqrt(2) if pure else -float(ndtri(p)))
    found: list[tuple[int, int]] = []
    for width in range(1, _WIDEST_WINDOW + 1):
        sums = np.convolve(counts, np.ones(width), "valid")
        for start in np.flatnonzero(sums > least * math.sqrt(width)).tolist():
            end = start + width - 1
            if not any(start <= a and b <= end for a, b in found):
                found.append((start, end))
    return (min(a for a, _ in found), max(b for _, b in found)) if found else None
