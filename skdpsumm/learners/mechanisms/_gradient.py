"""Noisy gradient descent on all rows: sums of clipped gradients, each with exact noise.

Each of T steps releases ``sum_i s_i phi(x_i)^T`` with noise, where s_i is the slope of row i's loss
at the weights so far, no longer than the clip C. A row adds no more than C R to it, so every step
is a Gaussian mechanism of the same sensitivity, and T of them compose to one, however the weights
were chosen. Rate, momentum and averaging only see what is released.

In floating point ``X @ w`` would let one row move the last bits of all others. So everything that
is summed is a whole number:

1. phi(x) is cut off towards zero to multiples of a grid, which makes no row longer.
2. The weights are rounded to a grid of their own. A score is then a sum of products of whole
   numbers that stays below 2^53: exact in any order, on any BLAS, whatever rows are beside it.
3. The slope is a function of that one score. It is multiplied by a number that was released,
   clipped, multiplied by the row's share, and cut off towards zero, so it is never longer than C.
4. ``sum_i s_i phi_i^T`` is again exact, and a row moves it by at most C R in units of the grids.

With at most k rows of a group, the *sum* of a group's gradients is clipped to sqrt(k) C R and cut
off, so noise grows with the root of k and not with k.

*Numbers* are placed first: public bounds of y are wide, and most numbers lie in a small part of
them. The noisy sum of y, and then that of distances from the noisy mean, say where and how far
apart. The descent sees y in these units, so clip, noise and start are those of numbers that fill
their bounds. A row adds to each sum a function of its own y and of what is released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config

from ..._computing import Floats, advance, one_blas_thread, power_below
from ..._sklearn import Interval, StrOptions
from ...privacy import gdp_mu
from ...privacy._noise import Block, IntegerNoise
from ...schema._reading import SparseRows
from ...schema._vectorizer import part_of
from ..erm._losses import Loss, ResidualLoss
from ..erm._problem import (
    ROUNDED_UP,
    FeatureSpace,
    Minimizer,
    Problem,
    Terms,
    row_lengths,
    scaled_rows,
    zero_where_undefined,
)
from ._base import Curvature, LearnerMechanism, Plan, ScoreNoise

# Parts of R and of C that features and slopes are cut off to, and of their norm that weights are
# rounded to: 2^15 times 2^31 leaves room below 2^53, and 2^24 rows of 2^15 times 2^15 below 2^60.
# A feature has less than 2^15 units, as R is rounded up, so it fits into two bytes.
_FEATURE_GRID, _SLOPE_GRID, _WEIGHT_GRID = 2.0**-14, 2.0**-14, 2.0**-30
_LARGEST_SUM = 60
# What is no longer than this times a bound is within it, rounding of the norm and all.
_WITHIN = 1 - 2.0**-40
# Slopes are evaluated for a multiple of so many rows, so that no row is left over for a loop that
# rounds otherwise.
_SLOPES_AT_ONCE = 64
# The most entries and rows of a sparse block, whose sum is as wide as the table: sums of so many
# rows, of products below 2^30, stay below 2^53.
_SPARSE_ENTRIES, _MOST_SPARSE_ROWS = 2**20, 2**16
# Parts of mu^2 that pay for the number of rows, which only bounds the rate, and for each of the two
# sums that place numbers; and the grid of all three, on which their noise is as wide as that of the
# gradients is on theirs.
_SHARE_OF_ROW_COUNT, _SHARE_OF_PLACE, _COUNT_GRID = 0.02, 0.05, 2.0**-28
# Numbers that are placed count in units of so many mean distances from the mean. They have this
# part of the clip at least, and all of it from so many rows times mu on: a small clip errs less
# beside noise, and pulls means to medians. examples/benchmarks/few_numbers.py compares these and
# others, on six tables that they were chosen on and ten that they were not.
_DISTANCES, _PART_OF_FEW, _MANY_ROWS = 4.0, 0.35, 400.0
# Steps: so many times the root of mu, from 64, and as many as a row of 50,000 products can have.
_STEPS_PER_ROOT, _MIN_STEPS, _MAX_STEPS, _PRODUCTS = 400.0, 64, 512, 50_000
# The noise on a score where losses have no curvature, in units of the loss's `noise_part`, where mu
# is 0.1, and the power of mu with which it grows; the momentum of long runs, and how many times its
# memory a run lasts at least; and the rate in units of 1 / (beta R^2 n), of which 3.8 may diverge.
# Chosen on ACS and three synthetic tables of 1,200 to 80,000 rows.
_NOISE, _NOISE_POWER = 5.0, 0.2
_MOMENTUM, _LONGEST_MEMORY, _LARGEST_RATE = 0.9, 4.0, 3.6
# The largest beta that limits the rate. A hinge (beta 500) then has an AUC of 0.89 on Adult at
# epsilon = 1 and 0.84 on Covertype, for 0.84 and 0.72; "functional" has 0.88 and 0.82.
SHARPEST = 10.0
# The clip of losses of classes, in units of L: at large budgets all of it, so that probabilities
# are true to the loss (log loss on ACS at epsilon 3: 0.438 at one half, 0.428 at 0.7 and at 1).
_CLIP, _CLIP_POWER = 0.8, 0.2


class GradientDescent(LearnerMechanism):
    """Noisy gradient descent on all rows.

    "auto" takes it up to epsilon 30, if delta > 0. It works on explicit features, and for a kernel
    on those of the span of public points. It asks nothing of the minimiser: no certificate, and no
    Lambda that has to be large. A ledger counts it as exactly what it is, one Gaussian mechanism.

    Parameters
    ----------
    n_steps : int or "auto", default="auto"
        T, the number of passes over the rows. More steps come closer to the minimum and cost
        time. The noise on the result stays the same. The default takes 64 to 512 steps: more for a
        larger budget, which deserves a closer minimum, and fewer for more than 100 features, which
        take longer.
    clip : float or "auto", default="auto"
        C, the longest slope of a row's loss. Smaller values have less noise, and are less true to
        the loss. The default weighs these two. For classes it is half the largest slope if the
        budget is small (no slope is longer before the first step). It is all of it if the budget is
        large, because probabilities then gain more than the noise costs. For numbers it is all of
        it. Where rows are few for the noise, slopes of numbers are cut at less, down to 0.35 C.
    n_landmarks : int, default=256
        How many public points are drawn from the schema if a kernel needs some. The noise on a
        prediction does not grow with it. The default is smaller than that of
        `FunctionalMechanism`, because every step passes over all rows and all points.

    Raises
    ------
    InvalidParameterError
        When a learner is fitted, if a parameter is out of range.

    Notes
    -----
    Source: Song, Chaudhuri and Sarwate (2013), "Stochastic gradient descent with differentially
    private updates"; Dong, Roth and Su (2022), "Gaussian differential privacy", Corollary 2, for
    the composition. Steps, rate, momentum and averages follow from d, epsilon and delta, but for a
    noisy count of the rows, which bounds the rate; docs/learners.md has the rules. Numbers are
    counted from their noisy mean, in units of half of `y_bounds` or of four mean distances from it,
    whichever is less. These are also the units of a loss's parameters here.
    Features are cut off towards zero, to multiples of 2^-15 to 2^-14 of the norm bound: each of a
    million equal features of a row loses up to a sixteenth.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import TDILClassifier
    >>> from skdpsumm.learners import GradientDescent
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = TDILClassifier(schema=(-1, 1), mechanism=GradientDescent(n_steps=50)).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    name = "gradient"
    learners = ("TDIL", "TDDL")
    is_pure = False
    needs_features = True
    takes_groups = True
    takes_sparse = True
    spans_points = True
    default_losses = ("logistic", "logistic")
    # Squares of slopes longer than 1e-60 are floats: below 1e-160 they would all be zero.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_steps": [Interval(Integral, 1, 100_000, closed="both"), StrOptions({"auto"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "clip": [Interval(Real, 1e-60, None, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self, *, n_steps: int | str = "auto", clip: float | str = "auto", n_landmarks: int = 256
    ):
        self.n_steps = n_steps
        self.clip = clip
        self.n_landmarks = n_landmarks

    def plan(self, space: Any, terms: Terms, public: Any) -> Plan:
        n_steps = _public_steps(space, terms) if self.n_steps == "auto" else int(self.n_steps)
        clip = _public_clip(terms) if self.clip == "auto" else float(self.clip)
        return GradientPlan(space, terms, n_steps, min(clip, terms.loss.lipschitz))

    def default_regularization(
        self, space: Any, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        # Stopping early does what a larger Lambda does elsewhere.
        return 1e-3 * space.radius**2


def _public_steps(space: FeatureSpace, terms: Terms) -> int:
    """Return T, by the budget and the number of features alone."""
    if not terms.is_private:
        return _MAX_STEPS
    most = min(max(_PRODUCTS // space.n_costly, _MIN_STEPS), _MAX_STEPS)
    wanted = _STEPS_PER_ROOT * math.sqrt(gdp_mu(terms.epsilon, terms.delta))
    return int(min(max(wanted, _MIN_STEPS), most))


def _public_clip(terms: Terms) -> float:
    """Return C, by the budget alone."""
    part = 1.0
    if terms.is_private:
        wanted = _CLIP * gdp_mu(terms.epsilon, terms.delta) ** _CLIP_POWER
        part = min(max(wanted, terms.loss.clip_part), 1.0)
    return part * terms.loss.lipschitz


class GradientPlan(Plan):
    """Steps, noise and clip of a descent, fixed before anything private is read.

    Parameters
    ----------
    space : FeatureSpace
    terms : Terms
    n_steps : int
        T.
    clip : float
        C.

    Attributes
    ----------
    mechanism : Mechanism
        The cost of all steps and of the count.
    score_noise : float
        Standard deviation of the noise on a score of a row with |phi| = R, at most: where the
        losses have no curvature.
    n_counted : float or None
        The number of rows or groups as it was released: with noise, where it is private.
    """

    rows_divide_noise = True
    space: FeatureSpace

    def __init__(self, space: FeatureSpace, terms: Terms, n_steps: int, clip: float):
        self.space, self.terms, self.n_steps, self.clip = space, terms, n_steps, clip
        self._feature_grid = power_below(terms.radius) * _FEATURE_GRID
        self._slope_grid = power_below(clip) * _SLOPE_GRID
        self._grid = self._feature_grid * self._slope_grid
        # The norm of what a unit adds: a row, or a group of k rows that is clipped to sqrt(k) times
        # the norm of a row.
        self._bound = math.sqrt(terms.rows_of_unit) * clip * terms.radius
        replaced = terms.adjacency == "replace_one"
        self._moved = (2 if replaced else 1) * self._bound * ROUNDED_UP
        # A unit that is replaced leaves the number of units as it is, and of rows where it has one.
        self._count_is_public = replaced and terms.rows_of_unit == 1
        # How far a row moves each fact, and its part of mu^2: the count, the sum of y in [-1, 1],
        # and that of half the distances from its mean.
        self._facts = [] if self._count_is_public else [(1, _SHARE_OF_ROW_COUNT)]
        if isinstance(terms.loss, ResidualLoss):
            self._facts += [(2 if replaced else 1, _SHARE_OF_PLACE), (1, _SHARE_OF_PLACE)]
        self._noise = self._calibrate()
        self.mechanism = self._noise.mechanism
        self.score_noise = 0.0
        if terms.is_private:
            grown = (gdp_mu(terms.epsilon, terms.delta) / 0.1) ** _NOISE_POWER
            self.score_noise = _NOISE * terms.loss.noise_part * grown

    @property
    def sensitivity(self) -> float:
        """The most by which neighbours' sums of gradients differ, in the Frobenius norm."""
        return self._moved

    def _calibrate(self) -> IntegerNoise:
        size = self.space.n_features * self.terms.n_scores
        moved = self.sensitivity / self._grid
        rows = self.terms.rows_of_unit / _COUNT_GRID
        blocks = [Block(1, rows * far, rows * far, part) for far, part in self._facts]
        share = 1 - math.fsum(part for _, part in self._facts)
        step = Block(size, moved * math.sqrt(size), moved, share / self.n_steps)
        blocks += [step] * self.n_steps
        return IntegerNoise(blocks, epsilon=self.terms.epsilon, delta=self.terms.delta)

    def expected_score_noise(self, curvature: Curvature, n_samples: float) -> ScoreNoise:
        """Return the noise for so many rows.

        They limit the rate, and pull the weights back from where noise has put them.
        """
        if not self.terms.is_private:
            return super().expected_score_noise(curvature, n_samples)
        most = n_samples + self._most_uncounted
        descent, part = self._descent(most), self._part_of_clip(most)
        scale = part * self._noise_scale

        def noise_of(bent: Floats) -> tuple[Floats, Floats]:
            noise, pulled = descent.moved(bent)
            return scale * noise, self.terms.radius * pulled

        return curvature.settled(noise_of, n_samples, self.terms, part * self.clip)

    def check(self, problem: Problem) -> None:
        """Read all rows, so that a function of the user's fails before anything is charged."""
        if not self.terms.is_private:
            problem.check()
        self._rows = IntegerRows(problem, self)

    def release(self, problem: Problem) -> Minimizer:
        """Return the average of the weights on the way."""
        if not self.terms.is_private:
            return problem.minimize()
        count = self._noisy_count(problem)
        descent, part = self._descent(count), self._part_of_clip(count)
        if isinstance(self.terms.loss, ResidualLoss):
            self._place()
        self._rows.gain = 1 / part
        first = len(self._facts)
        with one_blas_thread():  # for all steps at once, as it takes as long as one of few rows
            for step in range(first, first + self.n_steps):
                noisy = self._noisy(step, self._rows.gradient(descent.weights))
                descent.step(noisy * (self._grid * part))
                advance()
        return self.space.of_weights(descent.average)

    def _noisy(self, index: int, sums: NDArray[np.int64]) -> Floats:
        limit = 1 << (_LARGEST_SUM - self._noise.lift)
        values = np.clip(sums, -limit, limit).ravel()
        return self._noise.add_block(index, values, self.terms.seed(8)).reshape(sums.shape)

    def _fact(self, index: int, values: Floats) -> float:
        """Return the sum of what rows say, no more than one each, with noise."""
        whole = np.trunc(values / _COUNT_GRID).astype(np.int64).sum()
        return float(self._noisy(index, np.array([whole]))[0]) * _COUNT_GRID

    def _noise_of_fact(self, index: int) -> float:
        return self._noise.std_of_block(index) * _COUNT_GRID

    def _noisy_count(self, problem: Problem) -> float:
        """Return a number of rows that is hardly ever too small; released, where it is private."""
        count = float(_count(problem))
        if not self._count_is_public:
            count = max(self._fact(0, np.array([count])), 0.0)
        self.n_counted = count
        return count + self._most_uncounted

    @property
    def _most_uncounted(self) -> float:
        """How many rows more there are at most than were counted: two standard deviations."""
        return 0.0 if self._count_is_public else 2 * self._noise_of_fact(0)

    def _place(self) -> None:
        """Set `y_centre` and `y_scale` by released sums, and count the numbers of all rows so."""
        rows, index = self._rows, len(self._facts) - 2
        assert self.n_counted is not None
        mean = self._fact(index, rows.shared_codes()) / max(self.n_counted, 1.0)
        error = self._noise_of_fact(index) / max(self.n_counted, 1.0)
        # Means that lie anywhere between the bounds have a variance of 1/3: more of it is noise.
        self.y_centre = float(np.clip(mean / (1 + 3 * error**2), -1, 1))
        total = self._fact(index + 1, np.abs(rows.shared_codes(self.y_centre)) / 2)
        # Too large a scale costs a little, and too small a one a lot.
        total = max(total, 0.0) + 2 * self._noise_of_fact(index + 1)
        fewest = max(self.n_counted - self._most_uncounted, 1.0)
        self.y_scale = min(1.0, _DISTANCES * 2 * total / fewest)
        rows.place(self.y_centre, self.y_scale)

    def _descent(self, count: float) -> Descent:
        """Return the start, with a rate at which the noise on a score is `score_noise` at most."""
        loss, radius, shape = self.terms.loss, self.terms.radius, self._shape
        ridge, wanted = self.terms.regularization, self.score_noise / self._noise_scale
        # A kink bends rows at one score only: the mean of them has the curvature of their density.
        bent = min(loss.smoothness, SHARPEST) * radius**2 * max(count, 1.0)
        largest = _LARGEST_RATE / (bent + ridge)
        return Descent(shape, self.n_steps, ridge, wanted, largest)

    def _part_of_clip(self, count: float) -> float:
        """Return the part of C that slopes are cut at: less than 1 for numbers of few rows.

        What is cut is stretched to C again before noise is added, and shrunk after it. So the noise
        is this part of what it was, and the sensitivity is that of C, whatever the part is. A group
        of k rows has the noise of sqrt(k) rows, and a replaced one twice that.
        """
        if not isinstance(self.terms.loss, ResidualLoss):
            return 1.0
        of_unit = self.sensitivity / (self.clip * self.terms.radius)
        heard = count * gdp_mu(self.terms.epsilon, self.terms.delta) / (of_unit * _MANY_ROWS)
        return min(max(heard, _PART_OF_FEW), 1.0)

    @property
    def _noise_scale(self) -> float:
        """Standard deviation of the noise of a step, in the direction of a row of norm R."""
        return self._noise.std_of_block(-1) * self._grid * self.terms.radius

    @property
    def _shape(self) -> tuple[int, int]:
        return self.space.n_features, self.terms.n_scores


def _count(problem: Problem) -> int:
    """Return the number of rows, or of groups where each counts once."""
    if problem.shares is None:
        return len(problem.X)
    if problem.units is None:
        return int(np.count_nonzero(problem.shares))
    return len(np.unique(problem.units))


class Descent:
    """Heavy-ball steps and the average of the weights, those of late steps first. All is public.

    Parameters
    ----------
    shape : tuple of int
        Of the weights.
    n_steps : int
    ridge : float
        Lambda.
    wanted : float
        What the average may add up of noise of size 1 in each gradient, at most.
    largest : float
        The largest rate of long runs.

    Attributes
    ----------
    weights, average : ndarray
    rate, momentum : float
    """

    def __init__(
        self, shape: tuple[int, int], n_steps: int, ridge: float, wanted: float, largest: float
    ):
        self.weights, self.average, self._velocity = np.zeros((3, *shape))
        self._ridge, self._n_done = ridge, 0
        self._shares = np.arange(1, n_steps + 1.0) ** 2
        self._shares /= self._shares.sum()
        # Where the rate is as large as it may be, memory brings the weights farther.
        for self.momentum in _momenta(n_steps):
            self.rate = wanted / _reach(self._shares, self.momentum)
            # Short runs have little momentum, and diverge from 2 (1 + momentum) on.
            most = largest * min(1.0, (1 + self.momentum) / (1 + _MOMENTUM))
            if self.rate <= most:
                break
        self.rate = min(self.rate, most)

    def step(self, gradient: Floats) -> None:
        """Go on along a gradient with noise."""
        self._velocity *= self.momentum
        self._velocity += gradient + self._ridge * self.weights
        self.weights = self.weights - self.rate * self._velocity
        self.average += self._shares[self._n_done] * self.weights
        self._n_done += 1

    def moved(self, bent: Floats) -> tuple[Floats, Floats]:
        """Return what the average makes of a unit of noise in each gradient, and of a constant one.

        Parameters
        ----------
        bent : ndarray of shape (k,)
            How much rows bend the objective in each of k directions.
        """
        # From the last step back: what the average makes of a unit of weight, and of velocity.
        weight, velocity, total, squares = np.zeros((4, len(bent)))
        for share in self._shares[::-1]:
            weight = share + weight + (bent + self._ridge) * velocity
            velocity = -self.rate * weight + self.momentum * velocity
            total -= velocity
            squares += velocity**2
        return np.sqrt(squares), total


def _momenta(n_steps: int) -> Floats:
    """Return momenta to try, from that of long runs to the largest that so many steps allow."""
    first, last = 1 - _MOMENTUM, min(_LONGEST_MEMORY / n_steps, 1.0)
    return 1 - np.geomspace(max(first, last), last, 16)


def _reach(shares: Floats, momentum: float) -> float:
    """Return the norm of what the average makes of one unit of each gradient, at a rate of 1."""
    moved = (1 - momentum ** np.arange(1, len(shares) + 1)) / (1 - momentum)
    response = np.array([shares[t:] @ moved[: len(shares) - t] for t in range(len(shares))])
    return float(np.linalg.norm(response))


# ---- rows as whole numbers


class _Run(NamedTuple):
    """Rows of one block; `starts` are the first ones of its groups, where these are clipped."""

    here: slice
    starts: NDArray[np.int64] | None


class IntegerRows:
    """phi of rows in whole units, and the sums of their gradients.

    As many blocks are kept as fit into the `working_memory` of scikit-learn's configuration, two
    bytes a number. Sparse rows stay sparse: their products are the same whole numbers.

    Parameters
    ----------
    problem : Problem
    plan : GradientPlan
        Its grids, clip and bound.

    Attributes
    ----------
    gain : float
        What slopes are multiplied by before they are clipped to C.
    """

    def __init__(self, problem: Problem, plan: GradientPlan):
        terms, X = problem.terms, problem.X
        assert isinstance(problem.space, FeatureSpace)
        self._loss: Loss = terms.loss
        self.gain = 1.0
        self._space, self._plan = problem.space, plan
        self._codes, self._shares = problem.codes, problem.shares
        self._width = problem.space.n_features
        self._X, units = X, problem.units if terms.rows_of_unit > 1 else None
        if units is not None:  # rows of a group stand together
            order = np.argsort(units, kind="stable")
            self._X, self._codes, units = part_of(X, order), self._codes[order], units[order]
        self._is_sparse = isinstance(X, SparseRows) and not problem.space.is_users
        times = 1 if units is None else terms.n_scores
        # So many numbers stay in the cache. A quarter of them took half as long again for 500
        # features, as each block has work of its own.
        rows = min(max(2**19 // (self._width * times), _SLOPES_AT_ONCE), 4096)
        firsts = np.arange(0, len(X), rows)
        if self._is_sparse:
            firsts = _sparse_firsts(times * self._X.indptr.astype(np.int64))
        self._runs = list(_runs(len(X), firsts, units))
        self._kept: list[Any] = []
        self._keep()

    def _keep(self) -> None:
        """Keep the first blocks; and read all others once, where that may fail."""
        left = int(get_config()["working_memory"] * 2**20)
        for run in self._runs:
            block = self._integers(run.here)
            block = block if self._is_sparse else block.astype(np.int16)
            left -= 16 * len(block.values) if self._is_sparse else block.nbytes
            if left >= 0:
                self._kept.append(block)
            elif not self._space.is_users:
                return

    def _integers(self, here: slice) -> Any:
        features, grid = self._space.features(self._X[here]), self._plan._feature_grid
        if self._is_sparse:
            return features.with_values(np.trunc(features.values / grid))
        return np.trunc(features / grid)

    def _block(self, k: int) -> Any:
        """Return the rows of a block, in whole units."""
        if k >= len(self._kept):
            return self._integers(self._runs[k].here)
        return self._kept[k] if self._is_sparse else self._kept[k].astype(np.float64)

    def shared_codes(self, centre: float = 0.0) -> Floats:
        """Return how far the numbers are from a centre, times the shares of their rows."""
        apart = self._codes - centre
        return apart if self._shares is None else apart * self._shares

    def place(self, centre: float, scale: float) -> None:
        """Count the numbers from a centre, in units of a scale."""
        self._codes = (self._codes - centre) / scale

    def gradient(self, weights: Floats) -> NDArray[np.int64]:
        """Return the sum of all rows' or groups' clipped gradients, in units of both grids.

        Parameters
        ----------
        weights : ndarray of shape (p, q)
            Public.

        Returns
        -------
        ndarray of int64, shape (p, q)
        """
        unit = power_below(float(np.linalg.norm(weights))) * _WEIGHT_GRID if weights.any() else 1.0
        whole, scale = np.rint(weights / unit), unit * self._plan._feature_grid
        total = np.zeros(weights.shape, dtype=np.int64)
        with one_blas_thread():
            for k, run in enumerate(self._runs):
                total += self._sum(run, self._block(k), whole, scale)
        return total

    def _sum(self, run: _Run, features: Any, whole: Floats, scale: float) -> NDArray[np.int64]:
        """Return the sum of the clipped gradients of one block."""
        slopes = self._slopes((features @ whole) * scale, run.here)
        if run.starts is None:
            return (features.T @ slopes).astype(np.int64)
        return self._clipped_sums(features, slopes, run.starts)

    def _slopes(self, scores: Floats, here: slice) -> Floats:
        """Return the slope of each row's loss, clipped, in whole units; each of one row alone."""
        n, q = scores.shape
        padded = np.zeros((2, -(-n // _SLOPES_AT_ONCE) * _SLOPES_AT_ONCE, q))
        padded[0, :n], padded[1, :n] = scores, self._codes[here]
        # A NaN, of a loss that overflows, would take all other rows' sums with it.
        slopes = zero_where_undefined(self._loss.gradient(*padded)[:n]) * self.gain
        slopes = clipped_rows(slopes, self._plan.clip)
        if self._shares is not None:
            slopes = slopes * self._shares[here]
        return np.trunc(slopes / self._plan._slope_grid)

    def _clipped_sums(
        self, features: Any, slopes: Floats, starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the sum over groups of the clipped sums of their rows."""
        if self._is_sparse:
            return self._clipped_sparse_sums(features, slopes, starts)
        products = features[:, :, None] * slopes[:, None, :]
        sums = np.add.reduceat(products, starts, axis=0).reshape(len(starts), -1)
        clipped = np.trunc(clipped_rows(sums, self._plan._bound / self._plan._grid))
        return clipped.sum(axis=0).astype(np.int64).reshape(products.shape[1:])

    def _clipped_sparse_sums(
        self, features: SparseRows, slopes: Floats, starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        n_scores, rows = slopes.shape[1], features.row_numbers
        products = features.values[:, None] * slopes[rows]
        columns = features.indices.astype(np.int64)[:, None] * n_scores + np.arange(n_scores)
        ends = features.indptr[np.append(starts, len(features))].astype(np.int64) * n_scores
        shape = len(starts), self._width * n_scores
        # Whole numbers: a cell's parts have the same sum in any order.
        sums = sparse.csr_array((products.ravel(), columns.ravel(), ends), shape=shape)
        sums.sum_duplicates()
        clipped = clipped_rows(SparseRows(sums), self._plan._bound / self._plan._grid)
        total = np.bincount(clipped.indices, np.trunc(clipped.values), minlength=shape[1])
        return total.astype(np.int64).reshape(self._width, n_scores)


def _sparse_firsts(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first rows of blocks of about as many numbers, however long single rows are.

    `ends` has the numbers up to each row; a row counts a little even where it has none.
    """
    places = ends + max(_SPARSE_ENTRIES // _MOST_SPARSE_ROWS, 1) * np.arange(len(ends))
    return np.unique(
        np.searchsorted(places, np.arange(0, places[-1], _SPARSE_ENTRIES), "right") - 1
    )


def _runs(n_rows: int, firsts: NDArray[np.int64], units: NDArray | None) -> Iterator[_Run]:
    """Yield runs of rows that start about there, which cut no group."""
    if units is not None:
        starts = np.flatnonzero(np.r_[True, units[1:] != units[:-1]])
        firsts = np.unique(starts[np.searchsorted(starts, firsts, "right") - 1])
    for first, last in zip(firsts, [*firsts[1:], n_rows], strict=True):
        here = slice(int(first), int(last))
        inside = None if units is None else starts[(starts >= first) & (starts < last)] - first
        yield _Run(here, inside)


def clipped_rows(values: Any, bound: float) -> Any:
    """Return rows that are no longer than `bound`, each a function of that row alone.

    Parameters
    ----------
    values : ndarray of shape (n, p), or SparseRows
    bound : float

    Returns
    -------
    ndarray or SparseRows, as `values`
    """
    is_sparse = isinstance(values, SparseRows)
    if values.shape[1] == 1:
        within = np.clip(values.values if is_sparse else values, -bound, bound)
        return values.with_values(within) if is_sparse else within
    lengths = row_lengths(values)
    within = lengths <= bound * _WITHIN
    scale = bound * _WITHIN / np.where(within, 1.0, lengths)
    return scaled_rows(values, np.where(within, 1.0, scale))
