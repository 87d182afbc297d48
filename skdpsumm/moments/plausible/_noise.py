"""What the noise of a release may have been: the counts of plausible tables, exact and signed.

A group g of columns was counted with noise E_g. A plausible table has other noise, drawn anew about
the best unbiased counts. The residual of a set t of columns (`sketches/_graphical.py`) is off by

    e_t = sum_g w_g centred(E_g summed to t) / precision_t,

and the counts of a group C are the sum of the residuals of its sets, each spread evenly. So the
covariance of all counts is exact, and it is the same whatever is asked. Counts may be negative:
clipped ones would be too many in long tails. Noise of a sum of sketches is the sum of theirs, drawn
for each of them: whatever is asked of these shares it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..._computing import TINY, Floats, Kept
from ...privacy import PrivacyGuarantee
from ...sketches._graphical import centred, subsets, sum_out
from ...sketches._private_sketch import most_rows_of_a_unit
from .._numbers import MOST_KEPT, N_TABLES, Group
from ..inferring._table_model import TableModel

_LABEL = "skdpsumm: plausible tables"


def generator(key: str, *use: object) -> np.random.Generator:
    """Return the stream of one use of a release.

    The same release and use give the same stream, in any process and whatever was asked before. It
    shares nothing with the noise of a release, whatever seed that has: the label is hashed with it.

    Parameters
    ----------
    key : str
        A hash of what was released (`PrivateSketch.key`).
    use : object
        Numbers and words, of which `repr` tells all.
    """
    digest = hashlib.sha256((_LABEL + key + repr(use)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))


def coins(rng: np.random.Generator, *shape: int) -> NDArray[np.bool_]:
    """Return fair coins: of two ways in which rows may lie, one is as likely as the other.

    So it is taken to be whether a density, or the share of another column's cell, jumps inside a
    cell, and whether hidden rows are at an end of it.
    """
    return rng.random(shape) < 0.5


def white_noise(
    sources: Iterable[tuple[str, float]], shape: tuple[int, ...], *use: object
) -> NDArray[np.float64]:
    """Return noise of variance 1, the sum of what each source adds (`PrivateSketch.sources`).

    So a sum of sketches has the noise of these, in each plausible table.
    """
    drawn = (part * generator(key, *use).standard_normal(shape) for key, part in sources)
    return sum(drawn, start=np.zeros(shape))


def other_people(
    rows: Floats, privacy: PrivacyGuarantee, rng: np.random.Generator, n_tables: int = N_TABLES
) -> NDArray[np.float64]:
    """Return by how much weights of points differ in tables of other people, (n_tables, n).

    A point of weight w stands for w rows, of which another table has w and a Gaussian error of
    variance w; all tables have as many rows. All rows that one person may have may be alike.

    Parameters
    ----------
    rows : ndarray of shape (n,)
        The weights, not negative.
    privacy : PrivacyGuarantee
        That of the release: it says how many rows a person may have.
    rng : Generator
    n_tables : int, default=N_TABLES
    """
    off = rng.standard_normal((n_tables, len(rows)))
    off *= np.sqrt(most_rows_of_a_unit(privacy) * rows)
    for one in off:  # all at once it takes four times as long, with arrays as large
        one -= rows * (one.sum() / max(rows.sum(), TINY))
    return off


class RedrawnCounts:
    """Counts of groups that some histogram counted, in each plausible table.

    Parameters
    ----------
    model : TableModel
    """

    def __init__(self, model: TableModel):
        self._model, self._residuals = model, model.model.residuals
        self._told: dict[tuple[int, Group], Floats] = {}
        self._errors = Kept(MOST_KEPT)

    def table(self, group: Group) -> Floats:
        """Return the counts of a group of increasing columns, shape (n_tables, *sizes)."""
        sizes = self._residuals.sizes
        total = np.zeros((N_TABLES, *(sizes[a] for a in group)))
        for part in subsets(group):
            shape = [sizes[a] if a in part else 1 for a in group]
            error = self._error(part).reshape(N_TABLES, *shape)
            total += error / (total.size // error.size)
        return total + self._residuals.marginal(group)

    def _error(self, part: Group) -> Floats:
        """Return the error of a residual, shape (n_tables, *sizes of the part)."""
        tellers = self._residuals.tellers
        return self._errors.get(part, lambda: sum(w * self._of(k, part) for k, w in tellers(part)))

    def _of(self, k: int, part: Group) -> Floats:
        """Return what the noise of one marginal does to a residual.

        All smaller parts are kept, for each is asked for sooner or later; noise itself is drawn
        again, for there is much of it.
        """
        group, variance = self._residuals.noise_of(k)
        if (k, part) not in self._told:
            origin, block = self._model.origins[k]
            sources = self._model.sketch.sources(block)
            noise = white_noise(sources, (N_TABLES, *variance.shape), "noise", origin)
            noise *= np.sqrt(variance)
            for smaller in subsets(group):
                if smaller != group or part == group:
                    outside = tuple(n for n, a in enumerate(group, 1) if a not in smaller)
                    summed = sum_out(noise, outside)
                    self._told[k, smaller] = centred(summed, range(1, summed.ndim))
        return self._told.pop((k, part)) if part == group else self._told[k, part]
