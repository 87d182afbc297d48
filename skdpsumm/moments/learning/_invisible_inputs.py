"""Inputs of a model whose bearing on the target the sketch does not tell: seen by the release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..._computing import warn_caller
from ...schema import Columns
from ...sketches import PrivateSketch
from ..asking._warnings import AnswerWarning
from ..inferring._priors import draw_points
from ..inferring._regression import MomentRegression

# Measured (docs/m2m.md): AUCs were .03 to .9 lower than those of the rows where less than this was
# explained of most inputs, else at most .05 lower, unless the weights had collapsed.
_SEEN = 0.5
# As for answers: what is left out matters from 8 standard errors of noise on.
_FAR = 8.0
# Of few points for each feature any features explain much.
_FEWEST_POINTS, _POINTS_A_FEATURE = 5_000, 10
_MOST_FEATURES = 3_000
_MOST_NAMED = 3
# Of more categories the most frequent are looked at, or the products of two columns would be many.
_MOST_VALUES = 16


def warn_of_invisible_inputs(
    sketch: PrivateSketch, columns: Columns, target: int, prior: Any
) -> None:
    """Warn where the sketch tells of too few inputs how the target goes with them.

    Over points of the prior, whose columns are independent, an input times the centred target is
    ``a . phi`` and a rest. Of the rest no sketch of phi can tell how the data differ from the
    points: a model learns that the target has nothing to do with the input.

    Of more than 3,000 features nothing is said: the regression would take longer than the model.

    Parameters
    ----------
    sketch : PrivateSketch
    columns : Columns
        With the bounds of every numeric column.
    target : int
        The column that is learnt.
    prior : as in `draw_points`
    """
    if sketch.is_drowned:
        warn_caller(
            "The noise drowns the sketch, which cannot tell the number of rows from zero: the "
            "model has learnt nothing. Take a larger epsilon, more rows or fewer features.",
            AnswerWarning,
        )
        return
    n_features = sketch.feature_map.n_features
    if n_features > _MOST_FEATURES:
        return
    # Points of its own, always the same: a model does not change because it was judged.
    n_points = max(_FEWEST_POINTS, _POINTS_A_FEATURE * n_features)
    points = draw_points(prior, sketch, columns, n_points, check_random_state(0))
    model = MomentRegression(sketch, points, regularization="theory", center=True)
    label = _standardised(points, columns, target)
    inputs = np.array([j for j in range(columns.n_columns) if j != target])
    shares = np.array([_explained(model, _standardised(points, columns, j), label) for j in inputs])
    hidden = shares < _SEEN
    if 2 * hidden.sum() > len(inputs):
        unseen, share = inputs[hidden].tolist(), float(shares[hidden].mean())
        warn_caller(_message(columns, target, unseen, share), AnswerWarning)


def _explained(model: MomentRegression, one: NDArray, label: NDArray) -> float:
    """Return the share of an input's products with the label that phi explains.

    It is one where noise hides the rest.
    """
    products = (one[:, :, None] * label[:, None, :]).reshape(len(one), -1)
    products -= products.mean(axis=0)
    slope, rest = model.approximate(products)
    noise, spread = model.sketch.linear_noise_std(slope), products.var(axis=0).sum()
    if rest.sum() <= _FAR**2 * np.sum(noise**2):
        return 1.0
    return max(1.0 - float(rest.sum() / spread), 0.0)


def _standardised(points: NDArray, columns: Columns, j: int) -> NDArray:
    """Return a column as a standardised number, or as centred indicators, shape (n, k)."""
    known = columns.values(j)
    if known is not None:
        codes = columns.code(points, j)
        frequent = np.argsort(-np.bincount(codes, minlength=len(known)), kind="stable")
        indicators = codes[:, None] == frequent[:_MOST_VALUES]
        return indicators - indicators.mean(axis=0)
    number = points[:, [j]].astype(np.float64)
    return (number - number.mean()) / max(number.std(), 1e-300)


def _message(columns: Columns, target: int, hidden: list[int], share: float) -> str:
    name = columns.name(target)
    told = ", ".join(repr(columns.name(j)) for j in hidden[:_MOST_NAMED])
    more = len(hidden) - _MOST_NAMED
    pair = [j if columns.names is None else columns.name(j) for j in (hidden[0], target)]
    return (
        f"The sketch explains only {share:.0%} of how {name!r} goes with {told}"
        f"{f' (and {more} more)' if more > 0 else ''}, of {columns.n_columns - 1} inputs, over the "
        "synthetic points. Of the rest the model learns nothing and may be far worse than one that "
        "sees the rows. Sketch histograms of pairs with the target "
        f"(HistogramSketcher(marginals=[{pair!r}, ...])); or fewer columns, more n_components, a "
        "smaller gamma."
    )
