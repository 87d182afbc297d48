"""Bins that are too coarse for the column: told from the release, which costs nothing."""

from __future__ import annotations

import numpy as np

from ..._computing import warn_caller
from ...schema import Columns
from ..inferring._priors import histogram_columns, private_marginal
from ..inferring._regression import MomentRegression
from ._warnings import AnswerWarning

# Half of the rows in a 64th of the range: unseen places in the bin move the mean by up to half of
# its width, a 256th of the range.
_MASS = 0.5
_VISIBLE = 1 / 256


def warn_of_coarse_bins(model: MomentRegression, columns: Columns) -> None:
    """Warn of each column most of whose rows are in one bin, somewhere.

    It warns if the column's mean may be off by a 256th of its range, and by three standard errors,
    because the release does not tell where in the bin they are. That is measured by what the
    regression misses on the synthetic points in the bin, so other features that tell it are
    credited; and where noise drowns the histogram there is no warning.

    Parameters
    ----------
    model : MomentRegression
    columns : Columns
    """
    if model.sketch.is_drowned:
        return
    for j in sorted(histogram_columns(model.sketch.feature_map)):
        bound = columns.bound(j)
        if bound is None:
            continue
        histogram, mass = private_marginal(model.sketch, j)
        place = int(np.argmax(mass))
        left, right = histogram.edges(j)[place : place + 2]
        width, least = right - left - (columns.step(j) or 0.0), (bound[1] - bound[0]) * _VISIBLE
        if mass[place] <= _MASS or mass[place] * width / 2 < least:
            continue
        values = model.points[:, [j]].astype(np.float64)
        slope = model.coefficients(values)
        missed = np.abs(model.residuals(values, slope))[(left <= values) & (values <= right)]
        off = mass[place] * missed.max(initial=0.0)
        if off > max(least, 3 * model.sketch.linear_noise_std(slope)[0]):
            at_an_end = place in (0, len(mass) - 1)
            beyond = " Values beyond the bounds are there, too: are those right?" * at_an_end
            warn_caller(
                f"Column {columns.name(j)!r}: {mass[place]:.0%} of the rows are in one bin, from "
                f"{left:g} to {right:g}, and the sketch does not tell where in it. Its mean may be "
                f"off by {off:.3g} beside the noise. When you sketch it again, divide this bin: "
                f"give `edges`, or `steps` if values are on a grid, or more `n_bins`.{beyond}",
                AnswerWarning,
            )
