"""The statistics that every moment estimator answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, partial, reduce
from itertools import combinations_with_replacement, compress
from math import ceil, prod
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from ..._computing import Floats, warn_caller
from ..._html import MOST_ROWS_SHOWN, some_of
from ...schema._columns import Date
from ...schema._schema import TableSchema
from ...sketches._private_sketch import PrivateSketch
from ...sketches._rounding import whole_rows
from .._numbers import FEWEST_POINTS, MOST_TABLE_CELLS, N_POINTS, N_TABLES, Group
from ..inferring._table_model import TableModel
from ..plausible._rows import (
    Axis,
    NamedRows,
    Rows,
    binned_axis,
    check_each_row,
    correlations,
    covariance,
    model_axis,
    nearest_possible,
    positive_weights,
    ratio,
    values_at,
)
from ._estimate import (
    AnswerWarning,
    Estimate,
    chosen,
    frame_of,
    framed,
    likeliest,
    near_the_middle,
    of_one_kind,
    warn_of_the_clipped,
    warn_of_the_lone,
    warn_of_the_wide,
)

# The column of a survey weight.
Weight = int | str | None

_NO_DESIGN = "survey_weight says how rows count, and not how they were chosen. Use covers='table'."
_QUARTILES = ("25 %", "median", "75 %")
_DESCRIBED = ("column", "missing", "mean", "std error", *_QUARTILES, "most frequent", "share")


class StatisticsMixin:
    """Named statistics: each a plain statistic of weighted rows, asked of all plausible tables."""

    schema_: TableSchema
    sketch_: PrivateSketch
    _plausible: Any
    _frame: str | None
    _conditions: tuple[AskedFunction, ...] = ()
    where: Callable[..., Any]

    @property
    def _asked(self) -> TableSchema:
        """What is public about the columns of the release."""
        check_is_fitted(self, "schema_")
        return self.schema_

    def _told(
        self,
        axes: Sequence[Axis] = (),
        survey_weight: Weight = None,
        beside: Sequence[int] = (),
        asked: AskedFunction | None = None,
    ) -> Callable[[Sequence[int], str], Rows]:
        """Return how to ask this release for rows, those that meet all conditions of `where`.

        What is asked of it stays an answer of this release when the estimator is fitted again. Rows
        count by their survey weight, if there is one; `beside` are the columns it goes with. Where
        few rows meet a condition, that which is `asked` included, more are drawn.
        """
        plausible, conditions = self._plausible, self._conditions
        rare = [*conditions, asked] if asked is not None and asked.is_condition else conditions
        by = [axis.column for axis in axes]
        own = [] if survey_weight is None else [self._survey_weight(survey_weight, [*beside, *by])]
        needed = {*by, *own, *(j for one in conditions for j in one.columns)}

        def meets(rows: Rows) -> NDArray[np.bool_]:
            return reduce(np.multiply, [one.at(rows)[0] for one in rare]) > 0

        def rows_of(columns: Sequence[int], covers: str) -> Rows:
            every = tuple(sorted({*columns, *needed}))
            rows = plausible.rows(every, covers, meets if rare else None)
            for condition in conditions:
                rows = rows.where(condition.at(rows)[..., 0])
            for j in own:
                rows = rows.where(rows.numbers(j))
            return rows.grouped(axes)

        return rows_of

    def _survey_weight(self, column: int | str, beside: Sequence[int]) -> int:
        """Return the column of a survey weight; warn where it was not counted with others."""
        j = self._column(column, "survey_weight")
        name, bound = self._asked.name(j), self._bound(j)
        self._dates([j], refused=True)
        if bound[0] < 0:
            raise ValueError(
                f"survey_weight must not be negative, and the range of column {name!r} is {bound}."
            )
        model = self._plausible.model
        apart = [k for k in beside if k != j and not (model and model.counts_together((j, k)))]
        if apart:
            others = some_of(self._names(apart))
            warn_caller(
                f"When you sketch again, name {name!r} with {others} in `workload`: "
                "the release counts survey_weight in no group with them, so the answer takes the "
                "weight to be alike there.",
                AnswerWarning,
            )
        return j

    def _most_rows(self, survey_weight: Weight = None) -> float:
        """Return how many rows are possible: three standard errors above the release's number."""
        most = float(ceil(self._plausible.n_rows + 3 * self.sketch_.n_noise_std))
        if survey_weight is None:
            return most
        return most * self._bound(self._column(survey_weight, "survey_weight"))[1]

    def _step_of_counts(self, are_counts: bool) -> float | None:
        """Return 1, the step of numbers of rows; None for what may be a part of a row."""
        return 1.0 if are_counts and not self.sketch_.counts_groups else None

    def _answer(
        self,
        ask: Callable[[str], Floats],
        survey_weight: Weight = None,
        judged: bool = True,
        spread: Floats | float = np.inf,
        value: Floats | None = None,
        **how: Any,
    ) -> Estimate:
        """Return what is asked of plausible tables.

        It warns of intervals wider than `spread`.
        """
        asked = cache(ask)
        value = likeliest(asked) if value is None else value
        how |= {"frame": self._frame, "refused": _NO_DESIGN if survey_weight is not None else None}
        found = Estimate(asked, value=value, release=self._plausible, **how)
        if judged:
            warn_of_the_wide(self.sketch_, found, spread)
        return found

    def _in_groups(
        self,
        statistic: Callable[[Rows, int], Floats],
        asked: Any,
        which: Sequence[int],
        possible: tuple[Any, Any],
        axes: Sequence[Axis] = (),
        survey_weight: Weight = None,
        names: Sequence[str] = (),
        slope: float | None = None,
        **how: Any,
    ) -> Estimate:
        """Return a statistic of columns in each group of rows.

        It takes rows and a column. Answers have an axis for each of `axes`, and a last one: of the
        columns, or of what the statistic returns of a single one, which has `names`. They are
        without that one where a single thing was `asked`. Those in the units of the columns have a
        `slope`, by which it warns of clipped values.
        """
        last, names = ("quantile", names) if names else ("column", self._names(which))
        rows_of, shape = self._told(axes, survey_weight, which), (*map(len, axes), len(names))
        units = [self._asked.columns[j].unit for j in which] * (prod(shape) // len(which))

        def ask(covers: str) -> Floats:
            found = np.stack([statistic(rows_of([j], covers), j) for j in which], axis=-1)
            return found.reshape(-1, *shape)

        how |= {"possible": possible, "labels": [*(axis.labels for axis in axes), names]}
        how["axes"] = [*(axis.name for axis in axes), last] if axes else ()
        answer = self._answer(ask, survey_weight, units=() if slope is None else units, **how)
        if slope is not None:
            warn_of_the_clipped(self._plausible, answer, which, slope)
        if asked is None or np.ndim(asked):
            return answer
        one = answer[..., 0]
        one.labels, one.frame, one.axes = answer.labels[:-1], answer.frame, answer.axes[:-1]
        return one

    def _names(self, which: Sequence[int]) -> list[str]:
        return [self._asked.name(j) for j in which]

    def _column(self, column: int | str, parameter: str = "column") -> int:
        if callable(column):
            raise TypeError(
                f"{parameter} must be a column, by its name or its number, and got a function. For "
                "groups of numbers, give by= the column and bins= the edges of the groups. For any "
                "other group, give the condition to `count` or `estimate`, which take a function."
            )
        if isinstance(column, list | tuple | np.ndarray):
            told = "must be one column: ask for one after the other, or for a `table` of several"
            raise ValueError(f"{parameter} {told}; got {column!r}.")
        return self._asked.index(column, parameter)

    def _columns(self, given: Any, parameter: str = "column") -> list[int]:
        """Return the columns that a list names, each once, or the one that is named."""
        several = [given] if isinstance(given, str) or not np.iterable(given) else list(given)
        if not several:
            raise ValueError(f"{parameter} is empty: name some columns, such as ['age', 'job'].")
        which = [self._column(one, parameter) for one in several]
        if len(set(which)) < len(which):
            raise ValueError(f"{parameter} names a column twice, {given!r}: name it once.")
        return which

    def _axes(self, which: list[int], bins: Any) -> list[Axis]:
        """Return the categories of columns, or their bins: those given, or the release's."""
        if not isinstance(bins, Mapping):
            bins = {j: bins for j in which if self._asked.values(j) is None}
        named = {self._asked.index(key, "bins"): given for key, given in bins.items()}
        unknown = [self._asked.name(j) for j in named if j not in which]
        if unknown:
            raise ValueError(f"bins names {unknown[0]!r}, which is not among the columns.")
        return [self._axis(j, named.get(j)) for j in which]

    def _axis(self, j: int, bins: Any) -> Axis:
        categories = self._asked.values(j)
        if categories is not None:
            if bins is not None:
                raise ValueError(f"{self._asked.name(j)!r} has categories: leave its bins out.")
            return Axis(self._asked, j, tuple(map(str, categories)), None)
        dates = self._dates([j])
        if isinstance(bins, str) and dates and bins in (dates.step, *dates.calendar_units):
            return Axis(self._asked, j, *dates.calendar(bins))
        if bins is None and self._plausible.model is not None:
            return model_axis(self._plausible.model, j)
        return binned_axis(self._asked, j, self._edges(j, bins))

    def _axes_by(self, by: Any, bins: Any, *, alone: bool = False) -> list[Axis]:
        """Return the axes that `by` and `bins` stand for; none for all rows together.

        It warns of columns that were counted with no other, unless they are asked for `alone`.
        """
        if by is None:
            if bins is not None:
                raise ValueError("bins needs by: give by=, the column to group by, too.")
            return []
        which = self._columns(by, "by")
        axes = self._axes(which, bins)
        if not alone:
            warn_of_the_lone(self.sketch_, which, "The answer takes all groups of it to be alike.")
        return axes

    def _numeric(self, column: Any) -> tuple[list[int], Floats, Floats]:
        """Return the columns that are meant, all numeric ones for None, and their ranges."""
        which = self._asked.numbers if column is None else self._columns(column)
        if not which:
            raise ValueError(
                "No column is numeric, and only numbers have means, variances and covariances. Ask "
                "for a column of dates by its name. Ask `histogram` for the shares of the "
                "categories of a column, `table` for how columns go together, or `estimate` for "
                "the share of rows for which a condition holds."
            )
        low, high = np.array([self._bound(j) for j in which]).T
        return which, low, high

    def mean(
        self, column: Any = None, *, by: Any = None, bins: Any = None, survey_weight: Weight = None
    ) -> Estimate:
        """Return the mean of a numeric column, or the means of several, shape (d,).

        Like all statistics of columns, they describe the values that are present. `missing_share`
        tells how many are missing.

        Parameters
        ----------
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number, or a date of a column of
            dates. None takes all columns of numbers, and ``mean()["age"]`` is one of them.
        by : int or str, default=None
            A column to group by. You get the mean of each of its categories, or bins, shape (k,),
            or (k, d) for several columns. ``mean("age", by="sex")["f"]`` is one of them. None takes
            all rows together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.
        survey_weight : int or str, default=None
            A column by which rows count, such as the number of people that each stands for. Rows
            whose weight is missing or 0 do not count. None counts all rows alike. There is no
            interval for a population then: nobody has said how rows were chosen.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpsumm import HistogramSketcher, M2MEstimator, Numeric
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"sex": rng.choice(["f", "m"], 9000)})
        >>> table["hours"] = rng.binomial(60, np.where(table["sex"] == "f", 0.5, 0.7))
        >>> schema = {"sex": ["f", "m"], "hours": Numeric(0, 60, step=1)}
        >>> sketcher = HistogramSketcher(schema=schema, marginals=2, n_bins=61)
        >>> m2m = M2MEstimator(release=sketcher, random_state=0).fit(table)
        >>> m2m.mean(by="sex").value.round()
           hours
        f   30.0
        m   42.0
        >>> round(float(m2m.mean("hours", by="sex")["m"]))
        42
        """
        return self._of_powers(1, column, self._axes_by(by, bins), survey_weight)

    def _of_powers(
        self, order: int, column: Any, axes: Sequence[Axis] = (), survey_weight: Weight = None
    ) -> Estimate:
        which, low, high = self._numeric(column)
        how: dict[str, Any] = {"dates": self._dates(which, refused=order > 1)}
        powers = np.stack([low, high, np.clip(0.0, low, high)]) ** order  # even ones: least at 0
        possible = powers.min(axis=0), powers.max(axis=0)
        ends = dict(zip(which, zip(*possible, strict=True), strict=True))

        def means(rows: Rows, j: int) -> Floats:
            return rows.mean(rows.numbers(j) ** order, *ends[j])

        if order == 1:  # wider than two standard deviations of the column, it tells next to nothing
            rows_of = self._told()
            found = np.array([_variance(rows_of([j], "model"), j)[0] for j in which])
            spread = np.where(found > 0, 2 * np.sqrt(np.abs(found)), np.inf)  # points may have none
            how |= {"slope": 1.0, "spread": spread}
        return self._in_groups(means, column, which, possible, axes, survey_weight, **how)

    def _dates(self, which: Sequence[int], *, refused: bool = False) -> Date | None:
        """Return the column if it is of dates; raise ValueError for it beside others, or at all."""
        found = [j for j in which if isinstance(self._asked.columns[j], Date)]
        if found and (refused or len(which) > 1):
            raise ValueError(
                f"Column {self._asked.name(found[0])!r} holds dates. Ask for its mean, variance, "
                "quantile, cdf or table by itself; dates have no totals, moments or weights."
            )
        return self._asked.columns[found[0]] if found else None

    def total(
        self, column: Any = None, *, by: Any = None, bins: Any = None, survey_weight: Weight = None
    ) -> Estimate:
        """Return the sum of a numeric column over all rows, or the sums of several, shape (d,).

        Rows without a value add nothing.

        Parameters
        ----------
        column, by, bins, survey_weight :
            As in `mean`.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator, Numeric
        >>> hours = np.random.default_rng(0).integers(0, 41, size=(5000, 1))
        >>> m2m = M2MEstimator(Numeric(0, 40, step=1), random_state=0).fit(hours)
        >>> bool(abs(float(m2m.total(0)) / hours.sum() - 1) < 0.02)
        True
        """
        axes, (which, low, high) = self._axes_by(by, bins), self._numeric(column)
        self._dates(which, refused=True)
        most, slope = self._most_rows(survey_weight), self._plausible.n_rows
        possible = np.minimum(low * most, 0.0), np.maximum(high * most, 0.0)
        return self._in_groups(_total, column, which, possible, axes, survey_weight, slope=slope)

    def missing_share(self, column: Any = None) -> Estimate:
        """Return the share of rows without a value, for each column that may lack values.

        To ask what several columns lack together, use `estimate`: a missing number is NaN, a
        missing category is None, and ``pd.isna`` finds both.

        Parameters
        ----------
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number. None takes all columns that
            may lack values, and ``missing_share()["age"]`` is one of them.

        Raises
        ------
        ValueError
            If the schema has no column with missing=True, or a column that you name is none.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator, Numeric
        >>> ages = np.random.default_rng(0).choice([20, 40, np.nan], size=(5000, 1))
        >>> m2m = M2MEstimator(Numeric(0, 90, step=1, missing=True), random_state=0)
        >>> bool(abs(m2m.fit(ages).missing_share()[0] - 1 / 3) < 0.02)
        True
        >>> bool(abs(m2m.mean()[0] - 30) < 1)
        True
        """
        lacking = [j for j in range(self._asked.n_columns) if self._asked.missing(j)]
        if not lacking:
            raise ValueError("No value can be missing: the schema has no column with missing=True.")
        which = lacking if column is None else self._columns(column)
        whole = self._names([j for j in which if j not in lacking])
        if whole:
            raise ValueError(f"Column {whole[0]!r} has no missing values: it has no missing=True.")
        return self._in_groups(_missing_share, column, which, (0.0, 1.0))

    def moment(self, order: int, column: Any = None) -> Estimate:
        """Return the raw moments E[x_j^order] of the numeric columns, shape (d,).

        Parameters
        ----------
        order : int
            At least 1; 1 gives the means.
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number. None takes all numeric
            columns.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> X = np.random.default_rng(0).random((5000, 2))
        >>> M2MEstimator((0, 1), random_state=0).fit(X).moment(2).value.round(1)
        array([0.3, 0.3])
        """
        if not isinstance(order, Real) or order != int(order) or order < 1:
            raise ValueError(f"order must be a positive integer, got {order!r}.")
        return self._of_powers(int(order), column)

    def variance(self, column: Any = None) -> Estimate:
        """Return the variances of the numeric columns, shape (d,), at least 0.

        Parameters
        ----------
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number. None takes all numeric
            columns.
        """
        which, low, high = self._numeric(column)
        possible = 0.0, (high - low) ** 2 / 4
        return self._in_groups(_variance, column, which, possible)

    def covariance(self) -> Estimate:
        """Return the covariance matrix of the numeric columns, shape (d, d).

        The matrix is moved to a positive semi-definite one near by, with the same variances. What
        is known least moves most. Where values are missing, an entry describes the rows that have a
        value in both columns.
        """
        return self._matrix(np.asarray)

    def correlation(self) -> Estimate:
        """Return the correlation matrix of the numeric columns, shape (d, d).

        ``correlation()["age", "hours"]`` is one entry. The matrix comes from `covariance`.
        """
        return self._matrix(correlations)

    def _matrix(self, of: Callable[[Floats], Floats]) -> Estimate:
        """Return what covariances tell of all pairs of numeric columns."""
        which, low, high = self._numeric(None)
        names, d, rows_of = self._names(which), len(which), self._told()

        @cache  # the value is asked of the same tables
        def covariances(covers: str) -> Floats:
            # Most pairs of the model need no rows of their own.
            is_alone = covers == "model" and not self._conditions
            found: dict[tuple[int, int], Any] = self._plausible.apart(which) if is_alone else {}
            for a, b in combinations_with_replacement(which, 2):
                if (a, b) not in found:
                    rows = rows_of([a, b], covers)
                    found[a, b] = covariance(rows.weights, rows.numbers(a), rows.numbers(b))
            upper = [np.atleast_1d(found[pair]) for pair in combinations_with_replacement(which, 2)]
            both = np.zeros((len(upper[0]), d, d))
            both[:, *np.triu_indices(d)] = np.transpose(upper)
            return both + np.triu(both, 1).swapaxes(1, 2)

        spread = [np.std(_variance(rows_of([j], "noise"), j)[1:]) for j in which]
        noise = np.where(np.isnan(spread), (high - low) ** 2 / 4, spread)
        # The model has no negative counts: with much noise its covariances lean to 0. Those of many
        # columns are its own all the same, for a hundred tables of each pair take long.
        few = d <= 8
        own = covariances("model")[0]
        likely = near_the_middle(covariances("table")) if few else own
        likely = np.where(np.eye(d), own, likely)  # variances are those of `variance`
        value = of(nearest_possible(likely, high - low, noise))
        largest = of(np.outer(high - low, high - low) / 4)
        least = np.where(np.eye(d), of(np.zeros((d, d))), -largest)
        how: Any = {"value": value, "possible": (least, largest), "labels": [names, names]}
        return self._answer(lambda covers: of(covariances(covers)), judged=few, **how)

    def count(
        self,
        query: Callable[[Any], ArrayLike] | None = None,
        *,
        by: Any = None,
        bins: Any = None,
        survey_weight: Weight = None,
    ) -> Estimate:
        """Return the number of rows, or of those for which `query` holds.

        Parameters
        ----------
        query : callable, default=None
            The condition, vectorised: it takes rows, an array of shape (n, d), and returns an array
            of shape (n,) or (n, k). Take a column by number, ``rows[:, 0]``, or by name,
            ``rows["age"]``. A column also has `isin`, `between` and `isna`, as in pandas:
            ``rows["job"].isin(["clerk", "nurse"]) & rows["age"].between(18, 65)``. None counts all
            rows.
        by : int or str, default=None
            A column to group by. You get a number of rows for each of its categories, or bins. Rows
            whose value is missing there are left out. None counts all rows together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.
        survey_weight : int or str, default=None
            As in `mean`. You get the sum of the weights, and `query` must be one condition.

        Raises
        ------
        ValueError
            If the query returns numbers that do not lie between 0 and 1.
        """
        if query is None:
            return self._crosstab(self._axes_by(by, bins, alone=True), None, False, survey_weight)
        if not callable(query):
            raise TypeError(
                "count takes a function of rows, such as lambda rows: rows['age'] > 40; got "
                f"{query!r}. For the number of rows of each group, give by=."
            )
        if survey_weight is not None:
            return self.where(query).count(by=by, bins=bins, survey_weight=survey_weight)
        axes = self._axes_by(by, bins)
        asked = AskedFunction(query, self._plausible, is_condition=True)
        return self._of_function(asked, axes, counts=True)

    def _of_function(self, asked: AskedFunction, axes: Sequence[Axis], counts: bool) -> Estimate:
        """Return the mean of a function in each group of rows, or for how many it holds."""
        if axes and asked.n_outputs > 1:
            name = "count takes one condition" if counts else "estimate takes one function"
            raise ValueError(f"With by, {name}: one number for each row.")
        most = self._most_rows() if counts else 1.0
        low, high = asked.extremes
        unseen, possible = np.zeros(asked.n_outputs, np.bool_), (low, high)
        if counts or asked.is_condition:
            # A condition that never changes at the rows that are asked may be anything. One that
            # holds at none of the rows that there can be is 0, and the share of one that holds at
            # all of them is 1.
            unseen, certain = asked.constants()
            certain &= not axes
            always, never = certain & (low == 1) & (not counts), certain & (high == 0)
            possible = 1.0 * always, most * ~never
        rows_of = self._told(axes, asked=asked)

        def ask(covers: str) -> Floats:
            by_output: dict[int, Floats] = {}
            for outputs, columns in asked.parts:
                rows = rows_of(columns, covers)
                values = np.moveaxis(asked.at(rows, outputs), -1, 0)
                for k, at in zip(outputs.tolist(), values, strict=True):
                    by_output[k] = rows.sums(at) if counts else rows.mean(at, low[k], high[k])
            found = np.stack([by_output[k] for k in range(asked.n_outputs)], axis=-1)
            if covers in ("table", "population"):
                found[1:, :, unseen] = most * (np.arange(len(found) - 1)[:, None, None] % 2)
            return found.reshape(len(found), *(map(len, axes) if axes else asked.shape))

        how: Any = {"labels": [one.labels for one in axes], "axes": [one.name for one in axes]}
        how |= {"possible": tuple(end.reshape(asked.shape) for end in possible)}
        how["step"] = self._step_of_counts(counts and asked.is_condition)
        # Another warning tells of the unseen.
        return self._answer(ask, judged=not unseen.any(), **how)

    def cdf(self, column: int | str, thresholds: ArrayLike) -> Estimate:
        """Return the share of values at or below each threshold, P(x_column <= t).

        Shares are of the values that are present. They lie in [0, 1], and that of a larger
        threshold is never smaller.

        Parameters
        ----------
        column : int or str
            The column, by number or name.
        thresholds : float or array-like of shape (k,)
            In the column's units, in any order; dates for a column of dates. For one number you get
            a number. If there are more than 20, they count as a curve, and no `AnswerWarning`
            judges each.

        Raises
        ------
        ValueError
            If the column is not numeric, or a threshold is no number.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> X = np.random.default_rng(0).random((5000, 2))
        >>> m2m = M2MEstimator((0, 1), random_state=0).fit(X)
        >>> m2m.cdf(0, [0.8, 0.2]).value.round(1)
        array([0.8, 0.2])
        >>> f"{m2m.cdf(0, 0.5):.1f}"
        '0.5'
        """
        j = self._column(column)
        categories = self._asked.values(j) or ()
        numbers = categories and all(isinstance(value, Real) for value in categories)
        low, high = (-np.inf, np.inf) if numbers else self._bound(j)
        dates = self._dates([j])
        asked = thresholds if dates is None else dates.asked(thresholds)
        cuts, label = _numbers(asked, "thresholds"), getattr(self._asked.columns[j], "label", str)
        outside = np.flatnonzero((cuts < low) | (cuts > high))
        if len(outside):
            message = (
                f"Ask thresholds of column {self._asked.name(j)!r} within its range "
                f"({label(low)}, {label(high)}): values are clipped to it, and nothing is known "
                "outside."
            )
            warn_caller(AnswerWarning(message, outside))
        ordered, place = np.unique(cuts, return_inverse=True)

        def shares(rows: Rows, j: int) -> Floats:
            x = rows.numbers(j)
            # The first threshold that a value is at most.
            codes = np.where(np.isnan(x), -1, np.searchsorted(ordered, x))
            sums = replace(rows, codes=codes, n_groups=len(ordered) + 1).sums()
            below = np.cumsum(sums, axis=1)[:, :-1]
            return ratio(below, sums.sum(axis=1, keepdims=True), 0.0, 1.0)

        value = near_the_middle(shares(self._told()([j], "noise"), j))
        if not np.isnan(value).any():
            value = isotonic_regression(value)
        return self._in_groups(
            lambda rows, j: shares(rows, j)[:, place],
            thresholds,
            [j],
            (0.0, 1.0),
            names=[f"{self._asked.name(j)} <= {label(c)}" for c in cuts],
            value=value[place],
            judged=len(cuts) <= MOST_ROWS_SHOWN,
        )

    def quantile(
        self,
        column: int | str,
        q: ArrayLike,
        *,
        by: Any = None,
        bins: Any = None,
        survey_weight: Weight = None,
    ) -> Estimate:
        """Return quantiles of a column, such as its median.

        A quantile is the smallest value of which the CDF reaches the level. If the column has a
        step, its quantiles are among its values. Then `std_error` may be 0, where no likely error
        moves the answer to another value, as for most medians of whole numbers. The ends of
        `interval` are values, too.

        Parameters
        ----------
        column : int or str
            The column, by number or name.
        q : float or array-like of shape (k,)
            Levels in [0, 1], in any order; 0.5 is the median. For one number you get a number. If
            there are more than 20, they count as a curve, and no `AnswerWarning` judges each.
        by : int or str, default=None
            A column to group by. You get a row of quantiles for each of its categories, or bins.
            None takes all rows together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.

        survey_weight : int or str, default=None
            As in `mean`.

        Raises
        ------
        ValueError
            If a level is outside [0, 1], or the column is not numeric.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import HistogramSketcher, M2MEstimator, Numeric
        >>> ages = np.random.default_rng(0).binomial(90, 0.4, size=(5000, 1))
        >>> sketcher = HistogramSketcher(schema=Numeric(0, 90, step=1), n_bins=91)
        >>> m2m = M2MEstimator(release=sketcher, n_synthetic=5000, random_state=0).fit(ages)
        >>> m2m.quantile(0, 0.5)
        36 +- 0 (std error; on a grid of step 1)
        """
        j = self._column(column)
        bound = self._bound(j)  # which says that it is no number
        levels = _numbers(q, "q")
        if not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must lie in [0, 1], got {q!r}.")
        axes = self._axes_by(by, bins)
        return self._in_groups(
            lambda rows, j: rows.quantiles(rows.numbers(j), levels),
            q,
            [j],
            bound,
            axes,
            survey_weight,
            names=[f"{self._asked.name(j)} {level:.12g}" for level in levels],
            step=self._asked.step(j),
            dates=self._dates([j]),
            judged=len(levels) <= MOST_ROWS_SHOWN,
            slope=0.0,
        )

    def histogram(self, column: Any, bins: Any = None) -> Estimate:
        """Return the shares of a column's values in bins, or in categories.

        Shares are never negative. They sum to one if the bins cover the column's range, and to at
        most one otherwise. Missing values are left out.

        Parameters
        ----------
        column : int or str, or list of them
            The column. For several, you get the shares of all combinations, as from
            ``table(column, normalize=True)``.
        bins : int or array-like of edges, default=None
            A number of equal bins of the column's range, or increasing edges within it; "day",
            "month" or "year" for dates, also "hour" for hours. None takes the bins of the release,
            as `table` does: these need no guess about where in a bin rows lie. Of a release without
            bins it takes the `edges` of the schema, or 10 equal bins. A categorical column ignores
            it and has one share per category. If there are more than 20, they count as a picture,
            and no `AnswerWarning` judges each. For several columns, see `table`.
        """
        if isinstance(column, list | tuple):
            return self.table(column, bins=bins, normalize=True)
        j = self._column(column)
        axis = self._axis(j, bins if self._asked.values(j) is None else None)
        answer = self._crosstab([axis], (), judged=len(axis) <= MOST_ROWS_SHOWN)
        answer.axes = ()
        return answer

    def table(
        self,
        columns: Any,
        *,
        bins: Any = None,
        normalize: Any = False,
        margins: bool = False,
        survey_weight: Weight = None,
    ) -> Estimate:
        """Return how many rows have each combination of values of some columns.

        Rows that lack one of the values are left out. `missing_share` tells how many lack each.

        Parameters
        ----------
        columns : int, str or list of these
            The columns, one for each axis of the table.
        bins : mapping from column to bins, or int, default=None
            For numeric columns: increasing edges within the range, or a number of equal bins. For
            dates also "day", "month" or "year", for hours "hour".
            Columns that you do not name, by default all, keep the cells of the graphical model, as
            these need no guess about where in a cell rows lie; or the bins of `histogram` where
            there is no such model.
        normalize : bool, {"index", "columns"} or list of columns, default=False
            What the cells hold, with the same default as in `pandas.crosstab`. False gives numbers
            of rows. True gives shares of the rows that have a value in all the columns. "index"
            gives shares of each row of a table of two columns, and "columns" of each column. A list
            of some of the columns gives shares of each combination of the others.
        margins : bool, default=False
            Whether sums are added at the end of each axis, as "All". The default is that of
            `pandas.crosstab`.
        survey_weight : int or str, default=None
            As in `mean`.

        Returns
        -------
        Estimate
            With an axis for each column. ``table(["sex", "job"])["f", "clerk"]`` is one entry.
            ``table(...).value`` is a frame for two columns. ``table(...).to_frame()`` has a row for
            each combination of any number of columns, with its error.

        Raises
        ------
        ValueError
            If the table has too many cells, or a column or a bin does not exist.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpsumm import HistogramSketcher, M2MEstimator
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 9000)})
        >>> people["age"] = rng.integers(18, 65, 9000)
        >>> schema = {"sex": ["f", "m"], "age": (18, 66)}
        >>> sketcher = HistogramSketcher(schema=schema, marginals=2, n_bins=48)
        >>> m2m = M2MEstimator(release=sketcher, random_state=0).fit(people)
        >>> shares = m2m.table(["sex", "age"], bins={"age": [18, 30, 66]}, normalize="index")
        >>> shares.value.round(1)
           [18, 30)  [30, 66]
        f       0.3       0.7
        m       0.3       0.7
        """
        which, over = self._several(columns, normalize)
        axes = self._axes(which, bins)
        return self._crosstab(axes, over, margins, survey_weight)

    def _crosstab(
        self,
        axes: list[Axis],
        over: tuple[int, ...] | None,
        margins: bool = False,
        survey_weight: Weight = None,
        **how: Any,
    ) -> Estimate:
        """Return a table: shares of the sums over some axes, numbers of rows for None."""
        rows_of, most = self._told(axes, survey_weight), self._most_rows(survey_weight)
        every = range(len(axes))

        def ask(covers: str) -> Floats:
            rows = rows_of([axis.column for axis in axes] or [0], covers)  # any has all rows
            found = rows.sums().reshape(-1, *map(len, axes))
            for k in range(1, found.ndim):  # sums are at the end of each axis
                found = np.concatenate([found, found.sum(axis=k, keepdims=True)], axis=k)
            whole = np.ones(1)
            if over:
                whole = found[:, *(slice(-1 if k in over else None, None) for k in every)]
            elif over is not None:
                present = rows
                for axis in axes:
                    present = present.where(~present.absent(axis.column))
                whole = present.weights.sum(axis=1).reshape(-1, *(1 for _ in every))
            found = ratio(found, whole, 0.0, 1.0)
            return found if margins else found[:, *(slice(-1) for _ in every)]

        how["labels"] = [(*axis.labels, *(["All"] * margins)) for axis in axes]
        how["step"] = self._step_of_counts(over is None and survey_weight is None)
        how |= {"possible": (0.0, most if over is None else 1.0), "axes": [a.name for a in axes]}
        answer = self._answer(ask, survey_weight, **how)
        if over is not None and not margins:
            # Entries are moved to the middle of the tables one by one: their sum is the model's.
            own, shares, summed = ask("model")[0], np.asarray(answer), over or None
            of_model, of_shares = (one.sum(axis=summed, keepdims=True) for one in (own, shares))
            answer._value = np.minimum(shares * ratio(of_model, of_shares, 1.0, 1.0), 1.0)
        return answer

    def statistic(self, function: Callable[[Any, Floats], ArrayLike], columns: Any) -> Estimate:
        """Return any statistic of some columns, with its interval.

        The function is called for the model and for each plausible table. So it should take
        fractions of a second; it may be a fit of scikit-learn or statsmodels that takes weights.

        Parameters
        ----------
        function : callable
            Takes a frame of the columns and weights, shape (n,), finite and at least 0, and returns
            a number or an array. The frame is as that of `sample`: an array, where columns have no
            names. Weights sum to about the number of rows. It is not called for a table in which
            nobody is, after `where`: the answer of that table is NaN.
        columns : int, str or list of these
            What the frame has. Up to three columns have rows in all of their cells.

        Returns
        -------
        Estimate

        Notes
        -----
        Weights of a plausible table may be negative, which few functions take. So they are clipped
        and raked: the rows in each cell of each column are what they were, as nearly as counts that
        are not negative can be. Inside cells rows are tilted until the means, variances and
        covariances of numbers are what they were, as far as they can be. In a part of the rows
        (`where`) these come first, and rows may go to other cells for them.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> pay = np.random.default_rng(0).gamma(2, 1000, size=(9000, 1))
        >>> m2m = M2MEstimator((0, 20_000), random_state=0).fit(pay)
        >>> def gini(rows, weights):
        ...     order = np.argsort(rows[:, 0])
        ...     people, money = np.cumsum(weights[order]), np.cumsum((weights * rows[:, 0])[order])
        ...     return 1 - 2 * np.trapezoid(money / money[-1], people / people[-1])
        >>> round(float(m2m.statistic(gini, 0)), 1)
        0.4
        """
        which = self._columns(columns, "columns")
        rows_of, schema, badge = self._told(), self._asked.take(which), self.sketch_.privacy.badge

        @cache  # the value is asked of the same tables
        def ask(covers: str) -> Floats:
            rows, found = rows_of(which, covers), []
            kept = np.any(rows.weights > 0, axis=0)
            columns = [rows.column(j)[:, kept] for j in which]
            base = framed([own[0] for own in columns], schema, self._frame, badge)
            # Columns of a frame that are alike in all tables are made once.
            moved = [isinstance(base, np.ndarray) or len(own) > 1 for own in columns]
            for k, weights in enumerate(positive_weights(rows, which)):
                cells = [o[k % len(o)] if m else None for o, m in zip(columns, moved, strict=True)]
                table = framed(cells, schema, self._frame, badge, base)
                answer = function(table, weights[kept]) if weights.any() else np.nan
                found.append(np.asarray(answer, np.float64))
            return np.stack(np.broadcast_arrays(*found))

        return self._answer(ask, judged=False, value=near_the_middle(ask("table")))

    def describe(self) -> Any:
        """Return a frame of all columns, for people: what is in them, as far as the release tells.

        Returns
        -------
        DataFrame
            A row for each column. Numbers have their mean and its standard error, and quartiles;
            categories the most frequent one and its share. It is of the library of `sample`, or of
            pandas where that gives arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpsumm import M2MEstimator, Numeric
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.integers(18, 65, 9000), "job": ["nurse"] * 9000})
        >>> schema = {"age": Numeric(18, 64, step=1), "job": ["clerk", "nurse"]}
        >>> m2m = M2MEstimator(schema, random_state=0).fit(people)
        >>> m2m.describe()[["column", "mean", "share"]].round()
          column  mean  share
        0    age  41.0    NaN
        1    job   NaN    1.0
        """
        found = [self._described_column(j) for j in range(self._asked.n_columns)]
        columns = {name: [one[name] for one in found] for name in _DESCRIBED}
        library = chosen(self._frame) or "pandas"
        if library != "pandas":  # others have no column of both numbers and dates
            columns |= {name: of_one_kind(columns[name]) for name in ("mean", *_QUARTILES)}
        return frame_of(columns, library)

    def _described_column(self, j: int) -> dict[str, Any]:
        said: dict[str, Any] = dict.fromkeys(_DESCRIBED, np.nan)
        said |= {"column": self._asked.name(j), "missing": 0.0, "most frequent": None}
        if self._asked.missing(j):
            said["missing"] = float(self.missing_share(j))
        if self._asked.values(j) is not None:
            shares = self.histogram(j)
            top = int(np.argmax(shares))
            if np.isnan(shares[top]):  # of nobody none is the most frequent
                return said
            return said | {"most frequent": shares.labels[0][top], "share": float(shares[top])}
        mean, quartiles = self.mean(j), np.asarray(self.quantile(j, [0.25, 0.5, 0.75]))
        if self._dates([j]) is not None:  # as words, for a column of numbers and dates has no type
            quartiles = quartiles.astype(str)
        told = mean._written(mean._value, 0)[0] if mean.dates else float(mean)
        said |= {"mean": told, "std error": float(mean.std_error)}
        return said | dict(zip(_QUARTILES, quartiles.tolist(), strict=True))

    def draw_tables(self, n_tables: int, n_rows: int | None = None) -> list[Any]:
        """Return synthetic tables, each of which the confidential table may have been.

        Analyse each of m tables as if it were the confidential one, and combine: the estimate is
        the mean of theirs. With B their variance and U the mean of the variances that each analysis
        states, the variance is ``(1 + 1/m) B`` for the confidential table itself, and
        ``U + (1 + 1/m) B`` for the population. Rows are rounded, and not drawn at random: so this
        is not the rule for synthetic rows that are drawn from a population's posterior.

        Parameters
        ----------
        n_tables : int
            At most 100.
        n_rows : int, default=None
            Rows of each table. None takes as many as the release has, to which U then belongs;
            after `where`, as many as meet the condition in each table, which may be none.

        Returns
        -------
        list of DataFrame or ndarray
            Each as from `sample`.

        Raises
        ------
        ValueError
            If no row meets the condition of `where`, as far as the release tells, or none in some
            table of `n_rows`.
        """
        if not (isinstance(n_tables, Integral) and 1 <= n_tables <= N_TABLES):
            raise ValueError(f"n_tables must be from 1 to {N_TABLES}, got {n_tables!r}.")
        if not (n_rows is None or (isinstance(n_rows, Integral) and n_rows > 0)):
            raise ValueError(f"n_rows must be a positive integer, got {n_rows!r}.")
        which = list(range(self._asked.n_columns))
        rows = self._told()(which, "table")
        _, *weights = positive_weights(rows, which, 1 + int(n_tables), centred=True)
        sums = np.sum(weights, axis=1)
        told = sums if self._conditions else self._plausible.n_rows
        told = np.rint(told if n_rows is None else n_rows).astype(int)
        sizes = np.broadcast_to(told, len(sums))
        if not sizes.any() or np.any(sums[sizes > 0] < 0.5):
            raise ValueError(NOBODY)
        tables, badge = [], self.sketch_.privacy.badge
        for k, (one, n) in enumerate(zip(weights, sizes.tolist(), strict=True), 1):
            taken = whole_rows(one, n, rows.places) if n else []
            cells = [own[k % len(own)][taken] for own in map(rows.column, which)]
            tables.append(framed(cells, self._asked, self._frame, badge))
        return tables

    def _several(self, columns: Any, normalize: Any) -> tuple[list[int], tuple[int, ...] | None]:
        """Return the columns of a table, and the axes whose sums are one, None for none."""
        which = self._columns(columns, "columns")
        if isinstance(normalize, bool | np.bool_):
            return which, () if normalize else None
        if normalize in ("index", "columns") and len(which) == 2:
            return which, (int(normalize == "index"),)
        if isinstance(normalize, list | tuple):
            over = self._columns(normalize, "normalize")
            if over and set(over) <= set(which):
                return which, tuple(which.index(j) for j in over)
        raise ValueError(
            "normalize must be True, False, a list of some of the columns or, of two columns, "
            f"'index' or 'columns'; got {normalize!r}."
        )

    def _edges(self, j: int, bins: int | ArrayLike | None) -> NDArray:
        low, high = self._bound(j)
        bins = (self._asked.columns[j].edges or 10) if bins is None else bins
        dates = self._dates([j])
        is_listed = dates is not None and np.ndim(bins) == 1
        edges = _floats(dates.asked(bins) if is_listed else bins)  # type: ignore[union-attr]
        if edges.ndim == 0 and edges >= 1 and float(edges).is_integer():
            edges = np.linspace(low, high, int(edges) + 1)
            edges = edges if dates is None else np.unique(np.rint(edges))
        if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0):
            raise ValueError(
                "bins must be a positive whole number, or increasing edges, or 'day', 'month' or "
                f"'year' for dates; got {bins!r}."
            )
        if edges[0] < low or edges[-1] > high:
            label = self._asked.columns[j].label
            raise ValueError(
                f"bins reach outside the range ({label(low)}, {label(high)}) of column "
                f"{self._asked.name(j)!r}; keep edges within it."
            )
        return edges

    def _bound(self, j: int) -> tuple[float, float]:
        bound = self._asked.bound(j)
        if bound is None:
            raise ValueError(f"{self._asked.name(j)!r} is not numeric; ask `histogram`.")
        return bound


def _total(rows: Rows, j: int) -> Floats:
    return rows.sums(np.nan_to_num(rows.numbers(j), nan=0.0))


def _missing_share(rows: Rows, j: int) -> Floats:
    return ratio(rows.sums(rows.absent(j)), rows.sums(), 0.0, 1.0)


def _variance(rows: Rows, j: int) -> Floats:
    return covariance(rows.weights, rows.numbers(j), rows.numbers(j))


def _numbers(given: Any, name: str) -> NDArray[np.float64]:
    """Return one number or several as an array, or raise ValueError for what is none."""
    numbers = np.atleast_1d(_floats(given))
    if numbers.ndim != 1 or not len(numbers) or np.isnan(numbers).any():
        raise ValueError(f"{name} must be a number, or a list of numbers; got {given!r}.")
    return numbers


def _floats(given: Any) -> Floats:
    """Return an array of numbers, empty for what is none."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


NOBODY = (
    "Check the spelling of categories and the range of thresholds in the condition of `where`: no "
    "row meets it, as far as the release tells, so there are none to draw."
)
_CERTAIN = "The schema allows no other rows."
_UNSEEN = (
    "If they are right, the sketch shows no such rows, or no others, and `interval` reaches from "
    "none to all of them."
)


class AskedFunction:
    """A function of rows, of which each row has one number or several.

    Parameters
    ----------
    function : callable
    plausible : PlausibleTables or PlausiblePoints
    is_condition : bool, default=False
        Whether only numbers from 0 to 1 are a mean's.

    Attributes
    ----------
    shape : tuple of int
        () for one number, (k,) for several.
    parts : list of (ndarray of int, tuple of int)
        Outputs, and the columns that these depend on.

    Raises
    ------
    ValueError
        If a row's value changes with the other rows, or is no finite number.
    """

    def __init__(
        self, function: Callable[[Any], ArrayLike], plausible: Any, *, is_condition: bool = False
    ):
        self._plausible = plausible
        self.function = partial(_truths, function) if is_condition else function
        few = plausible.some_rows(256)
        found = check_each_row(self.function, few)
        self.shape: tuple[int, ...] = found.shape[1:]
        self.n_outputs = prod(self.shape)
        self.is_condition = found.dtype == bool
        self.parts = self._parts(tuple(sorted(few.taken)))

    @property
    def columns(self) -> Group:
        """All columns that some output depends on."""
        return tuple(sorted({j for _, columns in self.parts for j in columns}))

    def at(self, rows: Rows, outputs: Sequence[int] | NDArray | slice = slice(None)) -> Floats:
        """Return values at rows of each table, shape (1 or 1 + B, n, k)."""
        return rows.ask(lambda one: values_at(self.function, one)[:, outputs])

    def _parts(self, taken: Group) -> list[tuple[NDArray, Group]]:
        outputs, model = np.arange(self.n_outputs), self._plausible.model
        if model is None or not taken:
            return [(outputs, taken or (0,))]
        # A column that was asked for by itself matters, though only rare values of it may.
        few = len(taken) <= 3 and model.n_units(taken) <= N_POINTS
        if few and len(taken) < model.schema.n_columns:
            return [(outputs, taken)]
        return _depends(self.function, model, taken)

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Between what two numbers the values of each output lie, at rows of all kinds."""
        low, high = np.full((2, self.n_outputs), [[np.inf], [-np.inf]])
        anywhere = values_at(self.function, self._plausible.rows_anywhere(N_POINTS))
        for outputs, columns in self.parts:
            seen = self.at(self._plausible.rows(columns, "model"), outputs)[0]
            both = np.concatenate([seen, anywhere[:, outputs]])
            low[outputs], high[outputs] = np.nanmin(both, axis=0), np.nanmax(both, axis=0)
        return low, high

    def constants(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which outputs of a condition may never change, and which never do; and warn.

        It is certain where the columns have few values, so that all rows could be asked that the
        schema allows.
        """
        low, high = self.extremes
        constant = (low == high) & np.isin(low, (0, 1))
        certain = np.zeros(self.n_outputs, np.bool_)
        for outputs, columns in self.parts:
            asked = constant[outputs].any()
            rows = self._plausible.all_rows(columns, most=MOST_TABLE_CELLS) if asked else None
            if rows is not None:
                values = self.at(rows, outputs)[0, rows.weights[0] > 0]
                certain[outputs] = constant[outputs] & np.all(values == values[:1], axis=0)
        unseen = constant & ~certain
        for which, then in ((certain, _CERTAIN), (unseen, _UNSEEN)):
            outputs = np.flatnonzero(which)
            if len(outputs):
                named = "" if self.n_outputs == 1 else f" (outputs {outputs.tolist()})"
                held = sorted({"everywhere" if low[k] else "nowhere" for k in outputs})
                message = (
                    "Check the spelling of categories and the range of thresholds: the question "
                    f"holds {' or '.join(held)} among the rows of the release{named}. {then}"
                )
                warn_caller(AnswerWarning(message, outputs))
        return unseen, certain


def _truths(query: Callable[[Any], ArrayLike], rows: Any) -> NDArray:
    """Return what a condition says of rows; raise where it is none."""
    found = np.asarray(query(rows))
    is_condition = found.dtype == bool
    with suppress(TypeError):  # over None, which a function without `return` gives
        is_condition = is_condition or bool(np.all((found >= 0) & (found <= 1)))
    if not is_condition:
        raise ValueError(
            "count takes a condition, such as rows['age'] > 40 or rows['ill'] == True, and this "
            "query returns other things than truths or numbers from 0 to 1. A missing cell is "
            "none. For the mean of a number, use `estimate`."
        )
    return found


def _depends(
    function: Callable, model: TableModel, columns: Group
) -> list[tuple[NDArray[np.int64], Group]]:
    """Return the outputs of a function, and the columns that these depend on.

    It is asked of rows from anywhere, and of these with other values of one column. An output that
    hardly any of them change is asked of those few again and again; of none, it may depend on all.
    """
    rng = np.random.default_rng(0)
    known = {j: model.cells[j].anywhere(N_POINTS, rng) for j in range(model.schema.n_columns)}

    def at(values: dict[int, NDArray]) -> Floats:
        return values_at(function, NamedRows(model.schema, N_POINTS, values.__getitem__))

    def with_others(rows: NDArray | slice) -> tuple[Floats, NDArray[np.bool_]]:
        own = {j: values[rows] for j, values in known.items()}
        base, changed = at(own), []
        for j in columns:
            other = at(own | {j: model.cells[j].anywhere(N_POINTS, rng)})
            changed.append(~np.all((base == other) | (np.isnan(base) & np.isnan(other)), axis=0))
        return base, np.column_stack(changed)

    base, changed = with_others(slice(None))
    known_values = np.nan_to_num(base)
    unusual = known_values != np.median(known_values, axis=0)
    for k in np.flatnonzero(np.count_nonzero(unusual, axis=0) < FEWEST_POINTS).tolist():
        rows = np.flatnonzero(unusual[:, k])
        changed[k] = with_others(np.resize(rows, N_POINTS))[1][k] if len(rows) else True
    found = dict[Group, list[int]]()
    for k, of in enumerate(changed):
        group = tuple(compress(columns, of)) or columns[:1]
        found.setdefault(group, []).append(k)
    return [(np.array(which), group) for group, which in found.items()]
