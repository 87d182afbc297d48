"""The statistics that every moment estimator answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ..._computing import warn_caller
from ...features._feature_maps import project_to_simplex
from ...schema._schema import TableSchema
from ..inferring._points import absent
from ..inferring._shift import Shift
from ._estimate import Estimate
from ._filled_cells import some_values
from ._graphical_answer import GraphicalAnswer
from ._parts import ModelAnswers
from ._points_answer import PointsAnswer
from ._positions import NamedRows, Positions, check_each_row, evaluate_rows, values_at
from ._quantiles import InverseCDF, monotone
from ._question import ColumnCondition, OfGroups, Question
from ._second_moments import SecondMoments, correlations, floats, from_the_mean
from ._tables import Axis, TableAnswer, binned_axis, category_axis, model_axis
from ._warnings import AnswerWarning, warn_of_the_lone, warn_of_the_wide

# More thresholds or bins than that are a picture of a column, not questions.
_MOST_QUESTIONS = 16
# On which a user's function is tried.
_FEW_ROWS = 256
# Steps of a column's range on which quantiles are looked for; and within a group.
_N_STEPS, _N_STEPS_BY = 512, 128
# The least level of a quantile: shares below it are rounding.
_LOWEST_LEVEL = 1e-12
# Part of a step that is added to a number, so that the closest value is the next one.
_NEARLY_HALF = 0.5 - 1e-9
# Of a table that is asked at weighted points.
_MOST_CELLS_OF_POINTS = 400


class StatisticsMixin:
    """Named statistics, each through one call of `_answer`."""

    schema_: TableSchema
    _model: Any  # a TableModel, None where there are no histograms
    _regression: Any
    _positions: Any  # Positions, None where a graphical model answers
    _shift: Shift | None
    _frame: str | None

    def _ask(
        self, function: Any, then: Callable | None = None, **parts: Any
    ) -> PointsAnswer | GraphicalAnswer:
        """Put the `Question` with these parts to the sketch."""
        question, model = Question(function, then, **parts), self._answers_by_model()
        if model is not None:
            return GraphicalAnswer(question, model)
        return PointsAnswer(question, self._regression, self._positions, self._shift)

    def _answers_by_model(self) -> ModelAnswers | None:
        """Return what the graphical model answers from, None where points are asked."""
        check_is_fitted(self, "_regression")
        if self._regression is not None:
            return None
        known = self.__dict__.get("_answers")
        if known is None or known.model is not self._model:
            known = self._answers = ModelAnswers(self._model)
        return known

    @property
    def _asked(self) -> TableSchema:
        """What is public about the columns of the release."""
        check_is_fitted(self, "schema_")
        return self.schema_

    def _answer(self, *parts: Any, **more: Any) -> Estimate:
        return self._ask(*parts, **more).to_estimate(self._frame)

    def _names(self, which: list[int]) -> list[str]:
        return [self._asked.name(j) for j in which]

    def _column(self, column: int | str, parameter: str = "column") -> int:
        if callable(column):
            raise TypeError(
                f"{parameter} must be a column, by its name or its number, and got a function. For "
                "groups of numbers, give by= the column and bins= the edges of the groups. For any "
                "other group, give the condition to `count` or `estimate`, which take a function."
            )
        if isinstance(column, list | tuple | np.ndarray):
            raise ValueError(
                f"{parameter} must be one column, by its name or its number; got {column!r}. Ask "
                "one after the other, or ask about several together with `table`, `count` or "
                "`estimate`."
            )
        return self._asked.index(column, parameter)

    def _columns(self, column: Any) -> list[int]:
        """Return the columns that a list names, or the one that is named."""
        several = column if isinstance(column, list | tuple) else [column]
        if not several:
            raise ValueError("column is empty: name some, such as ['age'], or leave it out.")
        return [self._column(one) for one in several]

    def _axis(self, column: int | str, bins: Any = None, parameter: str = "column") -> Axis:
        """Return the categories of a column, or its bins: those given, or the model's."""
        j, model = self._column(column, parameter), self._answers_by_model()
        if self._asked.values(j) is not None:
            if bins is not None:
                raise ValueError(
                    f"Column {self._asked.name(j)!r} has categories; leave its bins out."
                )
            return category_axis(self._asked, j)
        if bins is None and model is not None:
            return model_axis(model.model, j)
        return binned_axis(self._asked, j, self._edges(j, bins))

    def _axis_by(self, by: int | str | None, bins: Any) -> Axis | None:
        """Return the groups that `by` and `bins` stand for, None for all rows together."""
        if by is not None:
            axis, model = self._axis(by, bins, "by"), self._answers_by_model()
            if model is not None:
                then = "The answer takes all groups of it to be alike."
                warn_of_the_lone(model.model.sketch, [axis.column], then)
            return axis
        if bins is not None:
            raise ValueError("bins are those of by: give by=, the column to group by, too.")
        return None

    def _numeric(self, column: Any) -> list[int]:
        """Return the columns that are meant: all numeric ones for None."""
        if column is None:
            if not self._asked.numeric:
                raise ValueError(_NO_NUMBERS)
            return self._asked.numeric
        which = self._columns(column)
        for j in which:
            self._bound(j)  # which says that it is no number
        return which

    def mean(
        self, column: Any = None, *, by: int | str | None = None, bins: Any = None
    ) -> Estimate:
        """Return the mean of a numeric column, or the means of several, shape (d,).

        Like all statistics of columns, they describe the values that are present. `missing_share`
        tells how many are missing.

        Parameters
        ----------
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number. None takes all numeric
            columns, and ``mean()["age"]`` is one of them.
        by : int or str, default=None
            A column to group by. You get the mean of each of its categories, or bins, shape (k,),
            or (k, d) for several columns. ``mean("age", by="sex")["f"]`` is one of them. None takes
            all rows together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.

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
        >>> m2m = M2MEstimator(sketcher, random_state=0).fit(table)
        >>> m2m.mean(by="sex").value.round()
           hours
        f   30.0
        m   42.0
        >>> round(float(m2m.mean("hours", by="sex")["m"]))
        42
        """
        axis = self._axis_by(by, bins)
        if axis is None:
            return self.moment(1, column)
        which = self._numeric(column)
        names = self._names(which)
        shape = (len(which), len(axis))

        def of(j: int) -> OfGroups:
            return OfGroups(lambda rows: floats(rows, [j]), axis.column, axis.holds)

        def table(t: NDArray, n: NDArray) -> NDArray:
            return np.swapaxes(t.reshape(*t.shape[:-1], *shape), -1, -2)

        def said(name: str, label: str) -> str:
            return f"the mean of {name!r} where {axis.name} = {label}"

        parts = [of(j) for j in which]
        low, high = self._ranges(which).T
        whole = OfGroups.side_by_side(parts)
        answer = self._answer(
            whole,
            table,
            linear=table,
            parts=parts,
            possible=(low, high),
            labels=[axis.labels, names],
            judged=whole,
            about=[said(name, label) for name in names for label in axis.labels],
            entries=[said(name, label) for label in axis.labels for name in names],
        )
        answer.units = tuple(self._asked.columns[j].unit for j in which) * len(axis)
        answer.axes = (axis.name, "column")
        return _as_asked(answer, column)

    def _mean_by(self, f: Callable[[Any], ArrayLike], axis: Axis) -> Estimate:
        """Return the mean of a user's function over the rows of each group."""
        few = self._few_rows()
        check_each_row(f, few)
        if evaluate_rows(f, few)[0].shape[1] != 1:  # checked here: elsewhere it may be NaN
            raise ValueError("With by, estimate takes one function: one number for each row.")
        is_condition = np.asarray(f(few)).dtype == bool
        whole = OfGroups(lambda rows: values_at(f, rows), axis.column, axis.holds)
        answer = self._answer(
            whole,
            possible=(0.0, 1.0) if is_condition else None,
            labels=[axis.labels],
            judged=whole,
            about=[f"the mean where {axis.name} = {label}" for label in axis.labels],
        )
        answer.axes = (axis.name,)
        return answer

    def _few_rows(self) -> NamedRows:
        """Return rows to try a function on."""
        known = self._answers_by_model()
        if known is None:
            return NamedRows.of(self._regression.points[:_FEW_ROWS], self._asked)
        model = known.model
        return NamedRows(model.schema, _FEW_ROWS, lambda j: some_values(model, j, _FEW_ROWS))

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
        >>> m2m = M2MEstimator(schema=Numeric(0, 90, step=1, missing=True), random_state=0)
        >>> bool(abs(m2m.fit(ages).missing_share()[0] - 1 / 3) < 0.02)
        True
        >>> bool(abs(m2m.mean()[0] - 30) < 1)
        True
        """
        which = [j for j in range(self._asked.n_columns) if self._asked.missing(j)]
        if not which:
            raise ValueError("No value can be missing: the schema has no column with missing=True.")
        if column is not None:
            lacking, which = which, self._columns(column)
            whole = [name for name in self._names([j for j in which if j not in lacking])]
            if whole:
                raise ValueError(f"Column {whole[0]!r} lacks no values: it has no missing=True.")

        def missing(X: NDArray) -> NDArray:
            return np.column_stack([absent(self._asked, X[:, j], j) for j in which])

        names = self._names(which)
        answer = self._answer(
            missing,
            lambda t, n: np.clip(t, 0.0, 1.0),
            linear=lambda t, n: t,
            parts=[lambda X, j=j: absent(self._asked, X[:, j], j)[:, None] for j in which],
            labels=[names],
            judged=missing,
            about=[f"the missing values of {name!r}" for name in names],
        )
        return _as_asked(answer, column)

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
        >>> M2MEstimator(schema=(0, 1), random_state=0).fit(X).moment(2).value.round(1)
        array([0.3, 0.3])
        """
        if not isinstance(order, Real) or order != int(order) or order < 1:
            raise ValueError(f"order must be a positive integer, got {order!r}.")
        which = self._numeric(column)
        names = self._names(which)

        def powers(X: NDArray) -> NDArray:
            return floats(X, which) ** int(order)

        of = "mean" if order == 1 else f"moment {int(order)}"
        about = [f"the {of} of {name!r}" for name in names]
        low, high = self._ranges(which).T
        least = np.where((low < 0) & (high > 0), 0.0, np.minimum(low**order, high**order))
        possible = (low**order if order % 2 else least, np.maximum(low**order, high**order))
        parts = [lambda X, j=j: floats(X, [j]) ** int(order) for j in which]
        answer = self._answer(
            powers, parts=parts, labels=[names], judged=powers, about=about, possible=possible
        )
        if order == 1:
            answer.units = tuple(self._asked.columns[j].unit for j in which)
        return _as_asked(answer, column)

    def variance(self, column: Any = None) -> Estimate:
        """Return the variances of the numeric columns, shape (d,), at least 0.

        Parameters
        ----------
        column : int, str or list of these, default=None
            The columns, by number or name. For one you get a number. None takes all numeric
            columns.
        """
        answer = self._variances(self._numeric(column))
        return _as_asked(answer, column)

    def _variances(self, which: list[int]) -> Estimate:
        names = self._names(which)
        d, ranges = len(which), self._ranges(which)
        named: dict[str, Any] = {
            "possible": (0.0, np.ptp(ranges, axis=1) ** 2 / 4),
            "labels": [names],
            "about": [f"the variance of {name!r}" for name in names],
        }
        if self._answers_by_model() is not None:
            own = [lambda X, j=j: floats(X, [j]) for j in which]
            means = np.clip(self._ask(None, parts=own).value, *ranges.T)
            parts = [
                lambda X, j=j, m=m: (floats(X, [j]) - m) ** 2
                for j, m in zip(which, means, strict=True)
            ]
            return self._answer(None, parts=parts, judged=True, **named)

        def powers(X: NDArray) -> NDArray:
            columns = floats(X, which) - ranges.mean(axis=1)
            return np.hstack([columns, columns**2])

        return self._answer(
            powers,
            lambda t, n: t[..., d:] - t[..., :d] ** 2,
            judged=lambda X: from_the_mean(X, which) ** 2,
            **named,
        )

    def covariance(self) -> Estimate:
        """Return the covariance matrix of the numeric columns, shape (d, d).

        The matrix is moved to a positive semi-definite one near by, with the same variances. What
        is known least moves most. The error of an entry includes how far that moved it. Where
        values are missing, an entry describes the rows that have a value in both columns.
        """
        which = self._numeric(None)
        second = self._second_moments(which)
        largest = second.units / 4
        possible = (np.where(np.eye(len(which)), 0.0, -largest), largest)
        if self._answers_by_model() is not None:
            parts = second.centred(self._means_of_pairs(second))
            noise = self._noise_of_variances(second, parts)
            return self._of_pairs(
                which,
                None,
                lambda t, n: second.possible(second.matrix(t), noise),
                linear=lambda t, n: second.matrix(t),
                parts=parts,
                moved=True,
                possible=possible,
            )

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found = second.covariance(mean)
            moved = second.possible(found) - found
            return np.hypot(np.std(second.covariance(draws), axis=0), moved)

        return self._of_pairs(
            which,
            second.products,
            lambda t, n: second.possible(second.covariance(t)),
            error=error,
            possible=possible,
        )

    def _means_of_pairs(self, second: SecondMoments) -> NDArray:
        """Return the means of both columns of each pair, shape (n_pairs, 2)."""
        answer = self._ask(None, parts=second.columns_of_pairs())
        return np.reshape(answer.value, (-1, 2))

    def _noise_of_variances(self, second: SecondMoments, parts: list[Callable]) -> NDArray:
        """Return the noise that variances have, of the parts of all covariances."""
        return self._ask(None, parts=[parts[k] for k in second.diagonal]).noise_std_error()

    def correlation(self) -> Estimate:
        """Return the correlation matrix of the numeric columns, shape (d, d).

        ``correlation()["age", "hours"]`` is one entry. The matrix comes from `covariance`, so the
        error of an entry includes how far the projection moved it.
        """
        which = self._numeric(None)
        second = self._second_moments(which)

        ones = np.eye(len(which))
        possible = (2 * ones - 1, np.ones_like(ones))
        if self._answers_by_model() is not None:
            means = self._means_of_pairs(second)
            parts = second.centred(means)
            found = second.matrix(self._ask(None, parts=parts).value)
            covariance = second.possible(found, self._noise_of_variances(second, parts))
            moved = np.abs(correlations(covariance) - correlations(found))
            return self._of_pairs(
                which,
                None,
                lambda t, n: correlations(covariance),
                linear=lambda t, n: second.matrix(t),
                parts=second.influence(means, covariance),
                possible=possible,
                moved=moved,
            )

        def scaled(t: NDArray) -> NDArray:
            return correlations(second.possible(second.covariance(t)))

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found, answered = second.covariance(mean), scaled(mean)
            variances = np.maximum(np.diagonal(second.possible(found)), 1e-300)
            spread = np.sqrt(np.outer(variances, variances))

            def linear(covariances: NDArray) -> NDArray:
                """Return the first order of the correlations about those that are answered."""
                own = np.diagonal(covariances, axis1=-2, axis2=-1) / variances
                return covariances / spread - answered * (own[..., None] + own[..., None, :]) / 2

            moved = np.hypot(np.std(linear(second.covariance(draws)), axis=0), linear(found))
            np.fill_diagonal(moved, 0.0)
            return moved

        return self._of_pairs(
            which, second.products, lambda t, n: scaled(t), error=error, possible=possible
        )

    def _second_moments(self, which: list[int]) -> SecondMoments:
        gaps = np.array([self._asked.missing(j) for j in which], np.bool_)
        return SecondMoments(which, self._ranges(which), gaps)

    def _of_pairs(self, which: list[int], *parts: Any, **more: Any) -> Estimate:
        """Answer a matrix; what is hard of it is how two columns go together."""
        left, right = np.triu_indices(len(which), 1)
        names = self._names(which)
        more |= {
            "labels": [names, names],
            "entries": [_pair(*sorted((a, b), key=names.index)) for a in names for b in names],
        }
        if self._answers_by_model() is not None:
            return self._answer(*parts, **more, judged=True)

        def together(X: NDArray) -> NDArray:
            columns = from_the_mean(X, which)
            return columns[:, left] * columns[:, right]

        about = [_pair(names[a], names[b]) for a, b in zip(left, right, strict=True)]
        return self._answer(*parts, **more, judged=together if about else None, about=about)

    def count(
        self,
        query: Callable[[Any], ArrayLike] | None = None,
        *,
        by: int | str | None = None,
        bins: Any = None,
    ) -> Estimate:
        """Return the number of rows for which `query` holds.

        Parameters
        ----------
        query : callable, default=None
            The condition, vectorised: it takes rows, an array of shape (n, d), and returns an array
            of shape (n,) or (n, k). Take a column by number, ``rows[:, 0]``, or by name,
            ``rows["age"]``. A column also has `isin`, `between` and `isna`, as in pandas:
            ``rows["job"].isin(["clerk", "nurse"]) & rows["age"].between(18, 65)``. None counts all
            rows; it needs `by`, which then says what to count.
        by : int or str, default=None
            A column to group by. You get a number of rows for each of its categories, or bins. Rows
            whose value is missing there are left out. None counts all rows together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.

        Raises
        ------
        ValueError
            If the query returns numbers that do not lie between 0 and 1.
        """
        if query is None and by is not None:
            self._column(by, "by")
            return self.table([by], bins=None if bins is None else {by: bins})
        axis = self._axis_by(by, bins)
        if not callable(query):
            raise TypeError(
                "count takes a function of rows, such as lambda rows: rows['age'] > 40; got "
                f"{query!r}."
            )

        def truths(X: NDArray) -> NDArray:
            found = np.asarray(query(X))
            if found.dtype != bool and not np.all((found >= 0) & (found <= 1)):
                raise ValueError(
                    "count takes a condition, such as rows['age'] > 40, and this query returns "
                    "other numbers than 0 to 1. For the mean of a number, use `estimate`."
                )
            return found

        check_each_row(truths, self._few_rows())
        if axis is None:
            return self._answer(truths, **_COUNTS, of_user=True, judged=truths)

        def of_groups(X: NDArray) -> NDArray:
            holds = np.asarray(truths(X), np.float64)
            if holds.ndim != 1:
                raise ValueError("With by, count takes one condition: one truth for each row.")
            return holds[:, None] * axis.holds(X[:, axis.column])

        answer = self._answer(
            of_groups,
            **_COUNTS,
            labels=[axis.labels],
            of_user=True,
            judged=of_groups,
            about=[f"the count where {axis.name} = {label}" for label in axis.labels],
        )
        answer.axes = (axis.name,)
        return answer

    def cdf(self, column: int | str, thresholds: ArrayLike) -> Estimate:
        """Return the share of values at or below each threshold, P(x_column <= t).

        Shares are of the values that are present. They lie in [0, 1], and that of a larger
        threshold is never smaller.

        Parameters
        ----------
        column : int or str
            The column, by number or name.
        thresholds : float or array-like of shape (k,)
            In the column's units, in any order. For one number you get a number. If there are more
            than 16, they count as a curve, and no `AnswerWarning` judges each.

        Raises
        ------
        ValueError
            If the column is not numeric, or a threshold is no number.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> X = np.random.default_rng(0).random((5000, 2))
        >>> m2m = M2MEstimator(schema=(0, 1), random_state=0).fit(X)
        >>> m2m.cdf(0, [0.8, 0.2]).value.round(1)
        array([0.8, 0.2])
        >>> f"{m2m.cdf(0, 0.5):.1f}"
        '0.5'
        """
        j = self._column(column)
        categories = self._asked.values(j) or ()
        numbers = categories and all(isinstance(value, Real) for value in categories)
        low, high = (-np.inf, np.inf) if numbers else self._bound(j)
        cuts = _numbers(thresholds, "thresholds")
        order = np.argsort(cuts, kind="stable")
        rank = np.argsort(order)
        outside = np.flatnonzero((cuts < low) | (cuts > high))
        if len(outside):
            message = (
                f"Ask thresholds of column {self._asked.name(j)!r} within its range "
                f"({low:g}, {high:g}): values are clipped to it, and nothing is known outside."
            )
            warn_caller(AnswerWarning(message, outside))
        labels = [f"{self._asked.name(j)} <= {c:.12g}" for c in cuts]

        below = self._at_most(j, cuts)
        answer = self._answer(
            below,
            lambda t, n: np.clip(monotone(t[..., order])[..., rank], 0.0, 1.0),
            linear=lambda t, n: t,
            labels=[labels],
            judged=below if len(cuts) <= _MOST_QUESTIONS else None,
            about=labels,
        )
        return answer if np.ndim(thresholds) else _only(answer)

    def quantile(
        self, column: int | str, q: ArrayLike, *, by: int | str | None = None, bins: Any = None
    ) -> Estimate:
        """Return quantiles of a column, such as its median.

        The column's CDF is inverted on 512 steps of its range, and where bins of the release end.
        If the column has a step, its quantiles are among its values, exactly so if it has at most
        513. Then `std_error` may be 0,
        where no likely error moves the answer to another value, as for most medians of whole
        numbers. The ends of `interval` are values, too.

        Parameters
        ----------
        column : int or str
            The column, by number or name.
        q : float or array-like of shape (k,)
            Levels in [0, 1], in any order; 0.5 is the median. For one number you get a number. If
            there are more than 16, they count as a curve, and no `AnswerWarning` judges each.
        by : int or str, default=None
            A column to group by. You get a row of quantiles for each of its categories, or bins.
            This needs a release that is answered from a graphical model. None takes all rows
            together, which every release can answer.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.

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
        >>> m2m = M2MEstimator(sketcher, n_synthetic=5000, random_state=0).fit(ages)
        >>> m2m.quantile(0, 0.5)
        36 +- 0 (std error; on a grid of step 1)
        """
        j = self._column(column)
        self._bound(j)  # which says that it is no number
        levels = _numbers(q, "q")
        if not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must lie in [0, 1], got {q!r}.")
        model = self._answers_by_model()
        if by is not None and model is None:
            raise ValueError(_NEEDS_MODEL.format("quantile with by"))
        axis = self._axis_by(by, bins)
        names = [f"{self._asked.name(j)} {level:.12g}" for level in levels]
        # The lowest value is where the first rows are, not where there are none yet.
        levels = np.maximum(levels, _LOWEST_LEVEL)
        inverse = self._inverse(j, levels, _N_STEPS if by is None else _N_STEPS_BY)
        about = [f"the quantile {name}" for name in names]
        if model is not None:
            found = self._quantiles_of_model(inverse, axis, names, about)
        else:
            found = self._answer(
                self._at_most(j, inverse.cuts),
                lambda t, n: inverse(t),
                ends=self._quantile_ends(j, levels),
                possible=self._bound(j),
                labels=[names],
            )
            if len(levels) <= _MOST_QUESTIONS:  # only to be judged, now that the places are known
                found.step = self._asked.step(j)
                below = self._at_most(j, np.asarray(found))
                judged = self._ask(below, judged=below, about=about)
                if isinstance(judged, PointsAnswer) and not judged.warned:
                    warn_of_the_wide(self._regression.sketch, found, found, about)
        found.step = self._asked.step(j)
        found.units = (self._asked.columns[j].unit,) * np.asarray(found).size
        found.axes = () if axis is None else (axis.name, "quantile")
        return found if np.ndim(q) else _only(found)

    def _inverse(self, j: int, levels: NDArray, n_steps: int) -> InverseCDF:
        (low, high), schema = self._bound(j), self._asked
        grid = np.unique(schema.on_grid(np.linspace(low, high, n_steps + 1), j))
        places = np.zeros((0, 2))
        model = self._answers_by_model()
        if model is not None and len(grid) != schema.n_values(j):
            # Between the ends of atoms a CDF is straight, and most of a wide range may be empty.
            ends, places = model.inside(j).places(low, high, n_steps)
            grid = np.unique(schema.on_grid(np.union1d(grid, ends), j))
        points = np.zeros(0) if model is None else model.inside(j).points
        grid = np.union1d(grid, np.clip([*points, *np.nextafter(points, -np.inf)], low, high))
        exact = len(grid) == schema.n_values(j)
        # No row is at the lower bound of a continuous column, unless that is a point.
        first = 0 if schema.step(j) is not None or low in points else 1

        def on_grid(values: NDArray) -> NDArray:
            """Return the value that is reached: no quantile lies between two of a grid."""
            if (step := schema.step(j)) is not None:
                return schema.on_grid(values + step * _NEARLY_HALF, j)
            above = np.nextafter(values, np.inf)
            return np.where(np.isin(above, points), above, values)

        return InverseCDF(grid, first, exact, levels, on_grid, j, places)

    def _quantiles_of_model(
        self, inverse: InverseCDF, axis: Axis | None, names: list[str], about: list[str]
    ) -> Estimate:
        assert self._model is not None
        j, step, sketch = inverse.column, self._asked.step(inverse.column), self._model.sketch
        if axis is None:
            return inverse.estimate(
                [self._curve(j, inverse.cuts)],
                [names],
                self._bound(j),
                self._frame,
                about,
                step,
                sketch,
            )

        def below(rows: NDArray, k: int) -> NDArray:
            values = floats(rows, [j])
            found = np.where(np.isnan(values), np.nan, values <= inverse.cuts)
            held = axis.codes(rows[:, axis.column]) == k
            return np.where(held[:, None], found, np.nan)

        answers = [
            self._ask(lambda rows, k=k: below(rows, k), possible=(0.0, 1.0))
            for k in range(len(axis))
        ]
        about = [f"{one} where {axis.name} = {label}" for label in axis.labels for one in about]
        labels = [axis.labels, names]
        return inverse.estimate(answers, labels, self._bound(j), self._frame, about, step, sketch)

    def _curve(self, j: int, cuts: NDArray) -> Any:
        """Return the answer about the CDF of column j, which all of its quantiles are read from."""
        answers = self._answers_by_model()
        assert answers is not None
        return answers.once((j, cuts.tobytes()), lambda: self._ask(self._at_most(j, cuts)))

    def _quantile_ends(self, j: int, levels: NDArray) -> Callable[[float], tuple[NDArray, NDArray]]:
        """Return the ends of quantiles, read off those of the shares of rows in whole bins."""
        # Those of this fit, whatever is fitted before somebody asks for an interval.
        places, regression, shift = self._positions, self._regression, self._shift

        def shares(truths: NDArray) -> PointsAnswer:
            return PointsAnswer(Question(_in_cells(places, j, truths)), regression, places, shift)

        def ends(z: float) -> tuple[NDArray, NDArray]:
            _, lows, highs = places.cells(j)
            starts, stops = (np.unique(ends[~np.isnan(ends)]) for ends in (lows, highs))
            most = shares(lows[:, None] <= starts).ends(z)[1]
            least = shares(highs[:, None] <= stops).ends(z)[0]
            from_ = np.array([_first_where(most >= q, starts) for q in levels])
            to = np.array([_first_where(least >= q, stops) for q in levels])
            return from_, to

        return ends

    def _at_most(self, j: int, cuts: NDArray) -> ColumnCondition:
        """Return whether column `j` is at most each cut."""
        order = np.argsort(cuts, kind="stable")
        increasing, rank = cuts[order], np.argsort(order)
        return ColumnCondition(
            j,
            lambda: np.searchsorted(increasing, self._positions.column(j).astype(np.float64)),
            np.arange(len(cuts) + 1)[:, None] <= rank,
            lambda low, high: (high <= cuts, low <= cuts),
            lambda values: values.astype(np.float64)[:, None] <= cuts,
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
            A number of equal bins of the column's range, or increasing edges within it. None takes
            the `edges` of the schema, since whoever described the column chose them, or 10 equal
            bins where there are none. A categorical column ignores it and has one share per
            category. If there are more than 16, they count as a picture, and no `AnswerWarning`
            judges each. For several columns, see `table`.
        """
        if isinstance(column, list | tuple):
            return self.table(column, bins=bins, normalize=True)
        j = self._column(column)
        known = self._asked.values(j)
        if known is not None:
            about = names = [f"{self._asked.name(j)} = {value}" for value in known]
            question = self._in_categories(j)
        else:
            edges = self._edges(j, bins)
            names = list(binned_axis(self._asked, j, edges).labels)
            about = [f"{self._asked.name(j)} in {name}" for name in names]
            question = self._in_bins(j, edges)
        return self._answer(
            question,
            lambda t, n: np.apply_along_axis(project_to_simplex, -1, t)[..., : len(names)],
            linear=lambda t, n: t[..., : len(names)],
            labels=[names],
            judged=question if len(names) <= _MOST_QUESTIONS else None,
            about=[*about, f"{self._asked.name(j)} outside the edges"],
        )

    def _in_categories(self, j: int) -> ColumnCondition:
        axis = category_axis(self._asked, j)
        if self._answers_by_model() is not None:
            return ColumnCondition(j, _unasked, np.empty(0), _unasked, axis.holds)
        values = self._positions.cells(j).low
        known = self._asked.decode(j, np.arange(len(axis)))
        return _in_cells(self._positions, j, values[:, None] == known)

    def _in_bins(self, j: int, edges: NDArray) -> ColumnCondition:
        low, high = self._bound(j)
        # Without rows outside the edges there is no cell for them.
        n_cells = len(edges) - int(edges[0] == low and edges[-1] == high)

        def extremes(first: NDArray, last: NDArray) -> tuple[NDArray, NDArray]:
            left, right = edges[:-1], edges[1:].copy()
            right[-1] = np.nextafter(right[-1], np.inf)  # the last one is closed
            certain = (first >= left) & (last < right), (last < left[0]) | (first >= right[-1])
            possible = (first < right) & (last >= left), (first < left[0]) | (last >= right[-1])
            return np.hstack(certain)[:, :n_cells], np.hstack(possible)[:, :n_cells]

        truths = np.eye(len(edges), dtype=bool)[:, :n_cells]
        return ColumnCondition(
            j,
            lambda: _bin(self._positions.column(j), edges),
            truths,
            extremes,
            lambda values: truths[_bin(values.astype(np.float64), edges)],
        )

    def table(self, columns: Any, *, bins: Any = None, normalize: bool | str = False) -> Estimate:
        """Return how many rows have each combination of values of some columns.

        Rows that lack one of the values are left out. `missing_share` tells how many lack each.

        Parameters
        ----------
        columns : int, str or list of these
            The columns, one for each axis of the table.
        bins : mapping from column to bins, or int, default=None
            For numeric columns: increasing edges within the range, or a number of equal bins.
            Columns that you do not name, by default all, keep the cells of the graphical model, as
            these need no guess about where in a cell rows lie; or the bins of `histogram` where
            there is no such model.
        normalize : bool or {"index", "columns"}, default=False
            What the cells hold, with the same default as in `pandas.crosstab`. False gives numbers
            of rows. True gives shares of the rows that have a value in all the columns. "index"
            gives shares of each row of a table of two columns, and "columns" of each column.

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
        >>> m2m = M2MEstimator(sketcher, random_state=0).fit(people)
        >>> shares = m2m.table(["sex", "age"], bins={"age": [18, 30, 66]}, normalize="index")
        >>> shares.value.round(1)
           [18, 30)  [30, 66]
        f       0.3       0.7
        m       0.3       0.7
        """
        which = self._several(columns, normalize)
        normalize = normalize if isinstance(normalize, str) else bool(normalize)
        axes = [self._axis(j, self._bins_of(bins, which, j)) for j in which]
        model = self._answers_by_model()
        if model is not None and len(axes) > 1:
            answer = TableAnswer(model, axes, normalize)
            found = answer.to_estimate(self._frame)
            answer.warn_of_the_wide(found)
            return found
        return self._table_of_questions(axes, normalize)

    def _several(self, columns: Any, normalize: Any) -> list[int]:
        columns = [columns] if isinstance(columns, str | Integral) else columns
        if not len(columns):
            raise ValueError("columns is empty: name some, such as ['age', 'job'].")
        which = [self._asked.index(column, "columns") for column in columns]
        if len(set(which)) < len(which):
            raise ValueError(f"columns names a column twice: {list(columns)!r}.")
        is_truth = isinstance(normalize, bool | np.bool_)
        if not is_truth and normalize not in ("index", "columns"):
            raise ValueError(
                f"normalize must be True, False, 'index' or 'columns', got {normalize!r}."
            )
        if isinstance(normalize, str) and len(which) != 2:
            raise ValueError(f"normalize={normalize!r} is for tables of two columns.")
        return which

    def _bins_of(self, bins: Any, which: list[int], j: int) -> Any:
        if not isinstance(bins, Mapping):
            return None if self._asked.values(j) is not None else bins
        named = {self._asked.index(key, "bins"): given for key, given in bins.items()}
        unknown = [self._asked.name(k) for k in named if k not in which]
        if unknown:
            raise ValueError(f"bins names {unknown[0]!r}, which is not among the columns.")
        return named.get(j)

    def _table_of_questions(self, axes: list[Axis], normalize: Any) -> Estimate:
        """Return a table whose cells are asked one by one."""
        shape = tuple(map(len, axes))
        n = int(np.prod(shape))
        if isinstance(normalize, str) or (len(axes) > 1 and n > _MOST_CELLS_OF_POINTS):
            raise ValueError(
                _NEEDS_MODEL.format(f"A table of {n:,} cells, or of shares of a row or column,")
            )

        def inside(rows: NDArray) -> NDArray:
            codes = np.array([axis.codes(rows[:, axis.column]) for axis in axes])
            there = np.all(codes >= 0, axis=0)
            flat = np.ravel_multi_index(tuple(np.where(there, codes, 0)), shape)
            return (flat[:, None] == np.arange(n)) & there[:, None]

        def shares(rows: NDArray) -> NDArray:
            gone = [absent(self._asked, rows[:, axis.column], axis.column) for axis in axes]
            return np.where(np.any(gone, axis=0)[:, None], np.nan, inside(rows))

        def shaped(t: NDArray) -> NDArray:
            return t.reshape(*t.shape[:-1], *shape)

        parts: dict[str, Any] = {
            "then": lambda t, n: shaped(np.clip(t, 0.0, 1.0)),
            "linear": lambda t, n: shaped(t),
            "possible": (0.0, 1.0),
        }
        if normalize is False:
            parts = {
                "then": lambda t, n: shaped(np.clip(t, 0.0, 1.0) * n[..., None]),
                "linear": lambda t, n: shaped(t * n[..., None]),
                "counts_rows": True,
            }
        asked = shares if normalize else inside
        names = [", ".join(labels) for labels in product(*(axis.labels for axis in axes))]
        found = self._answer(
            asked, **parts, labels=[axis.labels for axis in axes], judged=asked, about=names
        )
        found.axes = tuple(axis.name for axis in axes)
        return found

    def _edges(self, j: int, bins: int | ArrayLike | None) -> NDArray:
        low, high = self._bound(j)
        if bins is None:
            known = self._asked.edges(j)
            bins = 10 if known is None else known
        bad = f"bins must be a positive whole number, or increasing edges; got {bins!r}."
        try:
            edges = np.asarray(bins, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(bad) from None
        if edges.ndim == 0:
            n = float(edges)
            edges = np.linspace(low, high, int(n) + 1) if n >= 1 and n == n // 1 else np.empty(0)
        if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0):
            raise ValueError(bad)
        if edges[0] < low or edges[-1] > high:
            raise ValueError(
                f"bins reach outside the range ({low:g}, {high:g}) of column "
                f"{self._asked.name(j)!r}; keep edges within it."
            )
        return edges

    def _bound(self, j: int) -> tuple[float, float]:
        bound = self._asked.bound(j)
        if bound is None:
            raise ValueError(
                f"Column {self._asked.name(j)!r} is not numeric; ask `histogram` for its shares."
            )
        return bound

    def _ranges(self, which: list[int]) -> NDArray:
        return np.array([self._bound(j) for j in which]).reshape(-1, 2)


_NO_NUMBERS = (
    "No column is numeric, and only numbers have means, variances and covariances. Ask `histogram` "
    "for the shares of the categories of a column, `table` for how columns go together, or "
    "`estimate` for the share of rows for which a condition holds."
)
_NEEDS_MODEL = (
    "{} needs a graphical model: use a sketch that has only histograms, or set "
    "inference='graphical'."
)
# Of a number of rows.
_COUNTS: dict[str, Any] = {
    "then": lambda t, n: np.clip(t, 0.0, 1.0) * n[..., None],
    "linear": lambda t, n: t * n[..., None],
    "counts_rows": True,
}


def _as_asked(answer: Estimate, column: Any) -> Estimate:
    """Return an answer without its axis of columns, the last one, if one column was asked for."""
    if column is None or isinstance(column, list | tuple):
        return answer
    return _only(answer)


def _only(answer: Estimate) -> Estimate:
    """Return an answer without its last axis, of which there is one entry."""
    one = answer[..., 0]
    one.labels, one.frame, one.axes = answer.labels[:-1], answer.frame, answer.axes[:-1]
    return one


def _numbers(given: Any, name: str) -> NDArray[np.float64]:
    """Return one number or several as an array, or raise ValueError for what is none."""
    try:
        numbers = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or not len(numbers) or np.isnan(numbers).any():
        raise ValueError(f"{name} must be a number, or a list of numbers; got {given!r}.")
    return numbers


def _bin(values: NDArray, edges: NDArray) -> NDArray[np.int64]:
    """Return the bin of each value, the last one closed, and one more for values outside."""
    last = len(edges) - 2
    bins = np.searchsorted(edges, values, side="right") - 1
    bins[values == edges[-1]] = last
    bins[(bins < 0) | (bins > last)] = last + 1
    return bins


def _pair(a: str, b: str) -> str:
    return f"the variance of {a!r}" if a == b else f"how {a!r} and {b!r} go together"


def _unasked(*_: Any) -> Any:
    raise AssertionError("A graphical model has no points.")


def _in_cells(places: Positions, j: int, truths: NDArray) -> ColumnCondition:
    """Return a condition of which each cell of column `j` is one side."""
    return ColumnCondition(j, lambda: places.cells(j).place, truths, lambda *_: (truths, truths))


def _first_where(reached: NDArray, values: NDArray) -> float:
    """Return the first of `values` that is reached, the last one where none is."""
    return values[np.argmax(reached)] if reached.any() else values[-1]
