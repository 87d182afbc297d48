"""Warnings of answers that may be off by more than their error bars say.

All of them look at the release alone, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._computing import warn_caller
from ...schema._schema import TableSchema
from ...sketches._private_sketch import PrivateSketch
from ..inferring._points import histogram_columns, private_marginal
from ..inferring._regression import MomentRegression
from ._estimate import Estimate
from ._positions import Positions, values_at

# Of a question's variance over the synthetic points, what the sketch may leave unexplained.
_UNEXPLAINED = 0.1
# Answers on Adult were off by 0.04 to 0.5 of the standard deviation of what was left unexplained;
# where it was more than 8 standard errors the error bar missed the truth, below that it held.
ERRORS_MISSED = 8.0
# And where it was more than 40, it missed however little was left unexplained, down to this.
_LEAST_UNEXPLAINED, _MANY_ERRORS_MISSED = 0.05, 40.0
# Of a share, what the release may leave open without a word: where in their bins the rows lie.
_OPEN_SHARE = 0.5
# Of what is possible, what the interval of an answer that tells something holds at most; and where
# an interval that is known roughly is surely narrower.
_MOST_OPEN, _SURELY_NARROW = 0.5, 0.25
MOST_JUDGED = 64
_MOST_NAMED = 3
# Half of the rows in a 64th of the range: unseen places in the bin move the mean by up to half of
# its width, a 256th of the range.
_CROWDED_SHARE = 0.5
_VISIBLE_SHIFT = 1 / 256


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
    >>> from skdpsumm import AnswerWarning, HistogramSketcher, M2MEstimator, Numeric
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(18, 91, 5000), "job": ["clerk"] * 5000})
    >>> people.loc[0, "job"] = "pilot"
    >>> schema = {"age": Numeric(18, 90, step=1), "job": ["clerk", "pilot"]}
    >>> sketcher = HistogramSketcher(schema=schema, marginals=2, noise_seed=0)  # an example
    >>> m2m = M2MEstimator(sketcher, random_state=0).fit(people)
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


def warn_of_the_drowned(sketch: PrivateSketch, then: str) -> None:
    """Warn of a sketch that is noise alone, and say what it is then good for."""
    if sketch.is_drowned:
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
        names = first_of([repr(sketch.schema.name(j)) for j in lone])
        warn_caller(
            "When you sketch again, name the column as `target` or in `workload` (`marginals` of a "
            "HistogramSketcher), use a larger epsilon, or describe it with fewer categories. The "
            f"sketch counts none of these with another column: {names}. {then}",
            AnswerWarning,
        )


def warn_of_constants(truths: NDArray, hidden: NDArray, *, certain: bool = False) -> bool:
    """Warn of a question that all synthetic points answer alike, wherever in their bins they are.

    Return whether it did.

    It touches nothing private.

    Parameters
    ----------
    truths : ndarray of shape (n_synthetic, k)
    hidden : ndarray of shape (k,)
        The share of the points whose places in their bins decide.
    certain : bool, default=False
        Whether the points have all values that the schema allows.
    """
    constant = np.flatnonzero(np.all(truths == truths[0], axis=0) & (hidden == 0))
    if len(constant):
        which = "" if truths.shape[1] == 1 else f" (outputs {constant.tolist()})"
        held = sorted({"everywhere" if truths[0, k] else "nowhere" for k in constant})
        then = (
            "The schema allows no other rows."
            if certain
            else "If they are right, the sketch shows no such rows, or no others, and `interval` "
            "reaches from none to all of them."
        )
        message = (
            f"Check the spelling of categories and the range of thresholds: the question holds "
            f"{' or '.join(held)} on the synthetic points{which}. {then}"
        )
        warn_caller(AnswerWarning(message, constant))
    return bool(len(constant))


def warn_of_the_wide(
    sketch: PrivateSketch,
    rough: Estimate,
    exact: Estimate,
    about: Sequence[str],
    told: NDArray | bool = False,
) -> None:
    """Warn of 95% intervals that hold more than half of what is possible, or of a drowned sketch.

    Parameters
    ----------
    sketch : PrivateSketch
    rough : Estimate
        The answer with about its error. It decides where it is clear.
    exact : Estimate
        The answer as users see it, whose error may take simulated releases.
    about : sequence of str
        What the entries are called.
    told : ndarray of bool, default=False
        Entries of which there was a warning already.
    """
    share = rough._open_share()
    if np.any((share > _SURELY_NARROW) & (share <= _MOST_OPEN)):
        share = exact._open_share()
    wide = np.flatnonzero(np.ravel(share > _MOST_OPEN) & ~np.ravel(told))
    if len(wide):
        message = (
            f"Do not rely on {_named(wide, about)}: an interval is wider than half of what is "
            "possible. When you sketch again, use a larger epsilon or fewer columns, count columns "
            "together that you ask together (`workload` or `marginals`), and give `step` or "
            "`edges` in the schema."
        )
        warn_caller(AnswerWarning(message, wide))
    elif not np.any(told):  # noise may drown what tells how wide an interval is, too
        warn_of_the_drowned(sketch, "this answer tells next to nothing")


def warn_of_the_unseen(
    model: MomentRegression, question: Callable[[Any], Any], positions: Positions
) -> bool:
    """Warn of columns that a question takes and no histogram has; return whether there are any."""
    seen = model.sketch.feature_map.seen_columns()
    unseen = set(range(model.sketch.schema.n_columns)) - seen
    if not unseen:
        return False
    rows = positions.rows()
    values_at(question, rows)
    names = [positions.columns.name(j) for j in sorted(unseen & rows.taken)]
    if names:
        warn_caller(
            f"Add {first_of([repr(name) for name in names])} to `marginals` when you sketch again: "
            "no histogram of this sketch has it. The answer takes the values to be spread evenly, "
            "and `noise_std_error` does not cover that.",
            AnswerWarning,
        )
    return bool(names)


def unexplained(
    model: MomentRegression, slope: NDArray, rest: NDArray, spread: NDArray, *, errors: float = 1.0
) -> NDArray:
    """Return of which questions phi explains too little for an error bar of noise to hold.

    Over the synthetic points a question is ``a . phi`` and a rest. How the data differ from the
    points in the rest, no sketch of phi can tell: the answer is that of the prior.

    Parameters
    ----------
    model : MomentRegression
    slope : ndarray of shape (m, k)
        a, of k questions.
    rest, spread : ndarray of shape (k,)
        The mean square of the rest, and the variance of the question, at the points.
    errors : float, default=1
        A multiple of the noise, below which the rest is of no account.

    Returns
    -------
    ndarray of bool, shape (k,)
    """
    noise = errors * model.sketch.linear_noise_std(slope)
    much = (rest > _UNEXPLAINED * spread) & (rest > (ERRORS_MISSED * noise) ** 2)
    little = (rest > _LEAST_UNEXPLAINED * spread) & (rest > (_MANY_ERRORS_MISSED * noise) ** 2)
    return (much | little) & (spread > 0)  # nothing is missed of a constant


def warn_of_the_unexplained(
    model: MomentRegression,
    values: NDArray,
    names: Sequence[str],
    hidden: NDArray,
    known: tuple[NDArray, NDArray] | None = None,
    entries: Sequence[str] = (),
) -> bool:
    """Warn where noise is the smaller part of an answer's error; return whether it did.

    Parameters
    ----------
    model : MomentRegression
    values : ndarray of shape (n_synthetic, k)
        Of the question at the synthetic points. Of more than 64 outputs, 64 are looked at.
    names : sequence of k str, or empty
    hidden : ndarray of shape (k,)
        The share of the rows whose places in their bins decide a condition.
    known : pair of ndarray, default=None
        `MomentRegression.approximate` of the values, where it is known; of at most 64 outputs.
    entries : sequence of str, default=()
        What the entries of the answer are called, if they are not the outputs in their order.
    """
    judged = np.arange(0, values.shape[1], 1 + (values.shape[1] - 1) // MOST_JUDGED)
    values, hidden = values[:, judged], hidden[judged]
    slope, rest = known or model.approximate(values)
    spread = model.variance(values)
    missed, wide = unexplained(model, slope, rest, spread), hidden > _OPEN_SHARE
    found = judged[missed | wide]
    which, places = _named(found, names), _places(found, names, entries)
    if missed.any():
        worst = float(np.min(1 - rest[missed] / spread[missed]))
        message = (
            "When you sketch again, give `step`, `edges` or `n_bins` for the values asked, count "
            "columns together that you ask together (marginals=[['a', 'b']]), or use fewer columns "
            f"or more n_components. The sketch explains only {max(worst, 0.0):.0%} of {which} over "
            "the synthetic points. It answers the rest as if columns were independent and rows "
            "even within bins, and `noise_std_error` does not cover that."
        )
        warn_caller(AnswerWarning(message, places))
    elif wide.any():
        message = (
            "When you sketch again, give `edges` in the schema at the values asked, or `step` if "
            f"values are on a grid: {hidden.max():.0%} of the rows decide {which} by where in "
            "their bins they are, which the sketch does not tell. `interval` allows for all of it."
        )
        warn_caller(AnswerWarning(message, places))
    return bool(missed.any() or wide.any())


def _named(which: NDArray, names: Sequence[str]) -> str:
    if not names:
        return "the question" if which.max(initial=0) == 0 else f"outputs {which.tolist()}"
    return first_of(list(dict.fromkeys(names[k] for k in which)))  # a matrix has each pair twice


def _places(which: NDArray, names: Sequence[str], entries: Sequence[str]) -> NDArray:
    """Return where in an answer outputs are: a matrix has each pair of columns twice."""
    if not entries:
        return which
    return np.flatnonzero(np.isin(entries, [names[k] for k in which]))


def first_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" (and {more} more)" if more > 0 else "")


def warn_of_coarse_bins(model: MomentRegression, columns: TableSchema) -> None:
    """Warn of each column most of whose rows are in one bin, somewhere.

    It warns if the column's mean may be off by a 256th of its range, and by three standard errors,
    because the release does not tell where in the bin they are. That is measured by what the
    regression misses on the synthetic points in the bin, so other features that tell it are
    credited; and where noise drowns the histogram there is no warning.

    Parameters
    ----------
    model : MomentRegression
    columns : TableSchema

    Notes
    -----
    Where values are missing, all of this is of those that are present.
    """
    if model.sketch.is_drowned:
        return
    for j in sorted(histogram_columns(model.sketch.feature_map)):
        bound = columns.bound(j)
        if bound is None:
            continue
        histogram, shares = private_marginal(model.sketch, j)
        mass = shares[: histogram.n_present(j)]
        mass = mass / max(mass.sum(), 1e-300)
        place = int(np.argmax(mass))
        left, right = histogram.edges(j)[place : place + 2]
        width = right - left - (columns.step(j) or 0.0)
        least = (bound[1] - bound[0]) * _VISIBLE_SHIFT
        if mass[place] <= _CROWDED_SHARE or mass[place] * width / 2 < least:
            continue
        values = model.points[:, [j]].astype(np.float64)
        present = ~np.isnan(values)
        values = np.where(present, values, values[present].mean())
        slope = model.coefficients(values)
        inside = present & (left <= values) & (values <= right)
        missed = np.abs(model.residuals(values, slope))[inside]
        off = mass[place] * missed.max(initial=0.0)
        if off > max(least, 3 * model.sketch.linear_noise_std(slope)[0]):
            at_an_end = place in (0, len(mass) - 1)
            beyond = " Check the range: values beyond it are in this bin, too." * at_an_end
            warn_caller(
                f"When you sketch column {columns.name(j)!r} again, give `edges` in the schema, "
                "`step` if values are on a grid, or more `n_bins`. "
                f"{mass[place]:.0%} of the rows are in one bin, from {left:g} to {right:g}, so the "
                f"mean may be off by {off:.3g}, beside the noise.{beyond}",
                AnswerWarning,
            )
