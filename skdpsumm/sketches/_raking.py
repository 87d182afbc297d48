"""Raking: proportional fitting of a distribution to noisy counts, with Gaussian slack.

A distribution q, a table of cells or weights of rows, is to become the p that is nearest to it and
fits what counts of groups tell, as shares y of the rows with noise sigma:

    min_p  sum_g sum_cells (p_g - y_g)^2 / (2 sigma_g^2)  +  alpha KL(p | q).

It is ``p = q exp(sum_g theta_g)`` with a potential theta for each counted cell. The dual is solved
for one group at a time, exactly (`solve_block`). After each sweep over all groups potentials are
shared out (`Overlap`) and extrapolated (`Anderson`): ten to forty sweeps do what would take many
hundreds.

References
----------
.. [1] Deming and Stephan (1940), "On a least squares adjustment of a sampled frequency table when
       the expected marginal totals are known".
.. [2] Walker and Ni (2011), "Anderson acceleration for fixed-point iterations".
.. [3] Lawrence, Corless and Jeffrey (2012), "Algorithm 917: complex double-precision evaluation of
       the Wright omega function".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from .._linear_systems import TINY
from ._residuals import Floats, Group, Marginal, Residuals, subsets

# Part of its noise that is taken for a margin of counts of more columns. Cells cannot be negative:
# what noise takes below zero is put there, and adds up in sums of cells. Margins must not pay for
# it. Chosen on Covertype, where sums of cells in tables of two columns missed by 1.9 standard
# errors without margins; it has 0.9 to 1.1 now, and 0.95 to 1 on Adult and ACS.
_MARGIN_NOISE = 1 / 3
# Smallest noise of a share of the rows that is taken: counts without noise are fitted to this.
_LEAST_NOISE_OF_SHARE = 1e-6
# Part of the noise by which a fit may still miss the counts on average.
MISSED_NOISE = 0.05

# A group, and which coarse cell each cell of its coarse columns is in.
Key = tuple[Group, tuple[tuple[int, bytes], ...]]


@dataclass
class Target:
    """What counts of a group tell, as shares of the rows.

    Attributes
    ----------
    key : tuple
        The group and its division into cells.
    group : tuple of int
        Increasing columns.
    share : ndarray
        Of each cell; they sum to one.
    noise : ndarray
        Standard deviation of `share`.
    index : ndarray of int, or None
        Where the group was counted in coarser cells: the place in `share` of each of its cells.
    counted : bool
        False for a margin of what was counted.
    """

    key: Key
    group: Group
    share: Floats
    noise: Floats
    index: NDArray[np.int64] | None = None
    counted: bool = True

    @property
    def in_cells(self) -> Group:
        """Columns that were counted in the model's cells."""
        coarse = {a for a, _ in self.key[1]}
        return tuple(a for a in self.group if a not in coarse)

    def summed(self, table: Floats) -> Floats:
        """Return a table of the model's cells in the cells of the target."""
        if self.index is None:
            return table
        summed: Any = np.bincount(self.index, table.ravel(), self.share.size)
        return summed.reshape(self.share.shape)

    def spread(self, values: Floats, shape: Sequence[int]) -> Floats:
        """Return what each cell of the model has by values of the target's cells."""
        return (values if self.index is None else values.ravel()[self.index]).reshape(shape)


def targets(
    sizes: Sequence[int], marginals: Iterable[Marginal], residuals: Residuals, n_rows: float
) -> list[Target]:
    """Return what marginals tell, consistent by residuals, and their margins beside them."""
    weighted: dict[Key, Floats] = {}
    precision: dict[Key, Floats] = {}
    index: dict[Key, NDArray[np.int64]] = {}
    least = (_LEAST_NOISE_OF_SHARE * n_rows) ** 2
    for marginal in marginals:
        group, counts, variance = marginal.ordered()
        if not group:
            continue
        coarse = {a: np.asarray(marginal.coarse[a]) for a in group if a in marginal.coarse}
        key: Key = (group, tuple((a, of_cell.tobytes()) for a, of_cell in coarse.items()))
        told = 1 / np.maximum(variance, least)
        weighted[key] = weighted.get(key, 0.0) + told * counts
        precision[key] = precision.get(key, 0.0) + told
        if coarse:
            of_cell = [coarse.get(a, np.arange(sizes[a])) for a in group]
            index[key] = np.ravel_multi_index(np.ix_(*of_cell), counts.shape).ravel()
    found = {}
    for key, total in precision.items():
        counts = weighted[key] / total if key in index else residuals.marginal(key[0])
        noise = np.maximum(np.sqrt(1 / total) / n_rows, _LEAST_NOISE_OF_SHARE)
        found[key] = Target(key, key[0], _shares(counts, n_rows), noise, index.get(key))
    for group in _margins(key[0] for key in found if key not in index):
        key = (group, ())
        noise = np.maximum(np.sqrt(residuals.cell_variances(group)) / n_rows, _LEAST_NOISE_OF_SHARE)
        noise = np.maximum(noise * _MARGIN_NOISE, _LEAST_NOISE_OF_SHARE)
        if key in found:
            both = 1 / np.sqrt(1 / found[key].noise ** 2 + 1 / noise**2)
            found[key] = replace(found[key], noise=both)
        else:
            share = _shares(residuals.marginal(group), n_rows)
            found[key] = Target(key, group, share, noise, counted=False)
    return list(found.values())


def _shares(counts: Floats, n_rows: float) -> Floats:
    share = counts / n_rows
    return share + (1 - share.sum()) / share.size


def _margins(groups: Iterable[Group]) -> list[Group]:
    """Return all sets of columns that are part of a group."""
    parts = (part for group in groups for part in subsets(group) if 0 < len(part) < len(group))
    return list(dict.fromkeys(parts))


@dataclass
class Factor:
    """A target at the distribution that is fitted to it."""

    target: Target
    slack: Floats  # tau^2 = alpha sigma^2
    possible: NDArray[np.bool_] | None = None  # False where no row can be


class Overlap:
    """Columns that several groups share, so that their potentials can say the same.

    What moves from the potential of one group to that of another leaves the distribution as it is.
    It is shared out for the largest dual, in closed form. Proportional fitting alone takes hundreds
    of sweeps to get there: its steps are as small as the groups' difference on these columns.
    """

    def __init__(self, columns: Group, factors: Sequence[Factor]):
        self._members = []
        total: Any = 0.0
        for factor in factors:
            group, slack = factor.target.group, factor.slack
            slack = slack if factor.possible is None else np.where(factor.possible, slack, 0.0)
            axes = tuple(k for k, a in enumerate(group) if a not in columns)
            shape = [n if a in columns else 1 for a, n in zip(group, slack.shape, strict=True)]
            summed = slack.sum(axis=axes)
            inverse = np.divide(1.0, summed, out=np.zeros_like(summed), where=summed > 0)
            told = np.where(slack > 0, factor.target.share, 0.0).sum(axis=axes)
            self._members.append((factor.target.key, axes, shape, slack, told, inverse))
            total = total + inverse
        self._spread = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def share_out(self, potentials: dict[Key, Floats]) -> None:
        """Move what is said of the columns between the potentials of their groups."""
        missed = [
            told - (slack * potentials[key]).sum(axis=axes)
            for key, axes, _, slack, told, _ in self._members
        ]
        common = self._spread * sum(
            m * inverse for m, (*_, inverse) in zip(missed, self._members, strict=True)
        )
        for m, (key, _, shape, _, _, inverse) in zip(missed, self._members, strict=True):
            potentials[key] = potentials[key] + ((m - common) * inverse).reshape(shape)


def overlaps(factors: Iterable[Factor]) -> list[Overlap]:
    """Return all sets of columns that several groups share, the smallest first."""
    sharing: dict[Group, list[Factor]] = {}
    for factor in factors:
        for columns in subsets(factor.target.in_cells):
            sharing.setdefault(columns, []).append(factor)
    found = [(columns, those) for columns, those in sharing.items() if columns and len(those) > 1]
    found.sort(key=lambda pair: len(pair[0]))
    return [Overlap(*pair) for pair in found]


class Anderson:
    """Anderson acceleration of sweeps: where columns depend on each other, sweeps alone creep.

    Potentials are measured in the dual's own units, the root of the slack. The next start is the
    combination of the last sweeps' ends whose steps would have been the shortest.
    """

    def __init__(self, factors: Iterable[Factor]):
        factors = list(factors)
        self._keys = [factor.target.key for factor in factors]
        self._shapes = [factor.slack.shape for factor in factors]
        roots = [np.sqrt(factor.slack).ravel() for factor in factors]
        self._scale = np.concatenate([np.zeros(0), *roots])
        self._ends: list[Floats] = []
        self._steps: list[Floats] = []

    def flat(self, potentials: Mapping[Key, Floats]) -> Floats:
        """Return all potentials in units of the dual."""
        parts = [potentials[key].ravel() for key in self._keys]
        return np.concatenate([np.zeros(0), *parts]) * self._scale

    def accelerate(self, before: Floats, potentials: dict[Key, Floats]) -> bool:
        """Move potentials ahead of where a sweep has led from `before`; False for not at all."""
        end = self.flat(potentials)
        step = end - before
        if self._steps and np.linalg.norm(step) > 2 * np.linalg.norm(self._steps[-1]):
            self._ends, self._steps = [], []  # it went too far
        # Five differences of the last steps are enough.
        self._ends = [*self._ends, end][-6:]
        self._steps = [*self._steps, step][-6:]
        if len(self._steps) == 1:
            return False
        steps, ends = np.diff(self._steps, axis=0), np.diff(self._ends, axis=0)
        products = steps @ steps.T
        products += 1e-10 * max(np.trace(products), TINY) * np.eye(len(products))
        ahead = (end - np.linalg.solve(products, steps @ step) @ ends) / self._scale
        sizes = [math.prod(shape) for shape in self._shapes]
        parts = np.split(ahead, np.cumsum(sizes)[:-1])
        for key, shape, part in zip(self._keys, self._shapes, parts, strict=True):
            potentials[key] = part.reshape(shape)
        return True


@dataclass
class _Places(Factor):
    """A factor of rows with weights: the cell of each row."""

    place: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def rake(
    codes: NDArray[np.int64],
    sizes: Sequence[int],
    targets: Iterable[Target],
    alpha: float,
    weights: Floats,
    *,
    sweeps: int = 20,
) -> Floats:
    """Return weights of rows that match targets within their noise, nearest to those given.

    Parameters
    ----------
    codes : ndarray of shape (n, d)
        Cells of the rows. A row for each cell of a table, say, or rows drawn from a model.
    sizes : sequence of int
        Number of cells of each of the d columns.
    targets : iterable of Target
    alpha : float
        How much nearness counts.
    weights : ndarray of shape (n,)
    sweeps : int, default=20
        The largest number of rounds over all targets.

    Returns
    -------
    weights : ndarray of shape (n,)
        They sum to one.
    """
    weights = weights / weights.sum()
    factors = [_places(codes, sizes, weights, target, alpha) for target in targets]
    potentials = {factor.target.key: np.zeros(factor.slack.shape) for factor in factors}
    shared = overlaps(factors)
    for _ in range(sweeps):
        worst = 0.0
        for factor in factors:
            key, shape = factor.target.key, factor.slack.shape
            now: Any = np.bincount(factor.place, weights, factor.slack.size)
            step, potentials[key], missed = update(factor, now.reshape(shape), potentials[key])
            weights *= step.ravel()[factor.place]
            weights /= weights.sum()
            worst = max(worst, missed)
        for overlap in shared:
            overlap.share_out(potentials)
        if worst < MISSED_NOISE:
            break
    return weights


def _places(
    codes: NDArray[np.int64], sizes: Sequence[int], weights: Floats, target: Target, alpha: float
) -> _Places:
    shape = [sizes[a] for a in target.group]
    place = np.ravel_multi_index([codes[:, a] for a in target.group], shape)
    if target.index is not None:
        place = target.index[place]
    found: Any = np.bincount(place, weights, target.share.size)
    possible = found.reshape(target.share.shape) > 0
    return _Places(target, alpha * target.noise**2, possible, place)


def update(factor: Factor, now: Floats, old: Floats) -> tuple[Floats, Floats, float]:
    """Solve for the potential of one factor.

    Parameters
    ----------
    factor : Factor
    now : ndarray
        Shares of its cells.
    old : ndarray
        Its potential.

    Returns
    -------
    step : ndarray
        What to multiply each cell with.
    new : ndarray
    missed : float
        By how much noise the cells were off.
    """
    target, possible = factor.target, factor.possible
    new, log_total = solve_block(now, target.share, factor.slack, old, possible)
    missed = (target.share - factor.slack * old - now) / target.noise
    if possible is not None:
        missed = missed[possible]
    # Where next to nothing is, a potential may rise by more than a float can tell.
    step = np.exp(np.minimum(new - old - log_total, 700.0))
    return step, new, math.sqrt(float(np.mean(missed**2)))


def solve_block(
    now: Floats,
    share: Floats,
    slack: Floats,
    old: Floats,
    possible: NDArray[np.bool_] | None = None,
) -> tuple[Floats, float]:
    """Return the potential that solves ``m + slack theta = share`` with ``sum m = 1``, exactly.

    With `now` the model's marginal, ``m = now exp(theta - old - z)``; hence
    ``m = slack omega(log(now / slack) + share / slack - old - z)`` with Wright's omega.

    Returns
    -------
    theta : ndarray
    z : float
    """
    offset = np.log(np.maximum(now, TINY) / slack) + (share / slack - old)
    if possible is not None:
        offset = np.where(possible, offset, -np.inf)
    # The sum falls with z and is convex: from the left Newton's method never passes the root. At
    # the left end one cell alone would hold all, at the right end none holds more than a mean cell.
    left = float(np.max(offset - 1 / slack + np.log(slack)))
    mean = 1 / (slack * slack.size)
    right = float(np.max(offset - mean - np.log(mean)))
    z = min(max(0.0, left), right)
    for _ in range(100):
        omega = wrightomega(offset - z).real
        matched = slack * omega
        excess = float(matched.sum()) - 1
        if abs(excess) < 1e-10:
            break
        step = excess / float(np.sum(matched / (1 + omega)))
        last, z = z, max(z + step, left)
        if z == last:
            break
    # Cells in which nobody is have the smallest potential.
    theta = np.maximum((share - matched) / slack, -600.0)
    return (theta if possible is None else np.where(possible, theta, old)), z
