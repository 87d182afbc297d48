"""Noisy gradient descent: the sensitivity by enumeration, the noise and its steps by exact sums.

    python examples/proofs/gradient.py

`docs/proofs.md` has the theorem in short. Everything is an integer here, as it is in the library:
features and residuals on small grids, so that *all* rows can be tried, and noise whose masses are
summed one by one. Printed are how far one row, or one person's rows, move a sum of gradients; the
exact delta of two and three steps, each of which hangs on the answers before it, at several
epsilons, beside the claim; and planted bugs.

Theorem
-------
- **Input**: rows (x, y), public numbers R, C, T, sigma, and whole units of two public grids. phi is
  phi(x), with |phi| <= R, cut off towards zero to the first grid. In each of T steps the weights W
  are public; s is the slope of the row's loss at W^T phi, times any number that is public or was
  released, then clipped to |s| <= C, and cut off towards zero to the second grid. The step releases
  `sum_i phi_i s_i^T` plus noise of standard deviation sigma on each entry, drawn anew. What is made
  of that (rate, momentum, averages, the next W) is any function of it.
- **Neighbours**: a row comes or goes (n = 1), or is replaced (n = 2).
- **Measure**: Gaussian differential privacy of all T sums together.
- **Statement**:

  1. Neighbours' sums, at the same W, differ by at most `n C R` in the Frobenius norm, *exactly*: no
     rounding is added.
  2. All steps together are mu-GDP with `mu = sqrt(T) n C R / sigma`.
  3. A group of at most k rows, the sum of whose `phi s^T` is clipped to sqrt(k) C R and cut off
     towards zero, counts as a row of C' = sqrt(k) C. So does a group whose slopes are multiplied by
     shares that sum to 1 at most, with C' = C.

Proof of Lemma 1
----------------
Let m_t = (q_t - q'_t) / s_t, which the answers before t decide. Add one more answer,
whose m has what is left of mu^2; leaving it out later is post-processing. Now the sum of
|m_t|^2 is mu^2 on every path. The loss is

    Z = sum_t ( |y_t - q'_t|^2 - |y_t - q_t|^2 ) / (2 s_t^2) = sum_t <m_t, N_t> + mu^2 / 2.

For real u let `M_t = exp(i u sum_{s<=t} <m_s, N_s> + (u^2/2) sum_{s<=t} |m_s|^2)`. Given the
answers before t, the mean of `exp(i u <m_t, N_t>)` is `exp(-u^2 |m_t|^2 / 2)`, so M is a
martingale and its mean is 1. At the end that says `E exp(i u (Z - mu^2/2)) = exp(-u^2 mu^2 /
2)`: Z has the law N(mu^2/2, mu^2), for both orders of neighbours. ∎

Proof
-----
**1.** *A row's term*. Cutting off towards zero makes no entry larger in size, so |phi| <= R and
|s| <= C still hold, and |phi s^T| = |phi| |s| <= C R. It is a whole number of units in each
entry.

*The other rows' terms are the same for both tables, bit for bit.* phi is computed for a row by
itself. The weights are public, and are rounded to a public grid. A score is a sum of products
of whole numbers. By Cauchy and Schwarz each partial sum is at most `|phi| |W|` in units: below
2^19 times 2^31 = 2^50 here, and so an exact float64 whatever order a BLAS takes, and whatever
rows are beside it. The slope is a function of that one score and label, evaluated entry by
entry, and is cut off.

*The sum* is again of whole numbers. A row adds less than 2^34 to an entry, so the 4,096 rows of
a block stay below 2^46, and all 2^24 rows below 2^58, in 64-bit integers. Hence the sum moves
by the term of the row that comes, or by two terms where one is replaced. A row whose |phi| = R
and |s| = C lie on the grids attains it. ∎

**2.** In Lemma 1 q_t is the sum at step t. Given all earlier answers, W is the same for both
tables; so |q_t - q'_t| / sigma <= n C R / sigma in each step, on every path. By Lemma 1 they
are sqrt(T) times that, together. ∎

**3.** The clipped sum of a group is a function of that group alone: products and their sums are
whole numbers, and cutting off makes it no longer. So it is one term of length at most sqrt(k) C
R. With shares c_i, |sum_i c_i phi_i s_i^T| <= C R sum_i c_i. ∎

In practice
-----------
The number of rows sets the largest rate. Under add-remove it is private, and one more
measurement, with a share of 0.02 of mu^2: 0.02 + T (0.98 / T) = 1. Where rows are replaced it
is public. Two more, of 0.05 each, place numbers y of [-1, 1]: the sum of y, which a row moves by 1
(by 2 if it is replaced), and with m made of that the sum of |y - m| / 2, of [0, 1], which it moves
by 1. Every step then takes y from m, in a unit made of the two: a function of one row and of
answers, as W is. A group of k rows moves a fact by k times that, and rows with shares by no more
than one. T, C, sigma and the shares are fixed before anything private is read. Discreteness is
added up over all values of all steps (above). Clipping sums to 64 bits moves no two vectors
apart. Features may be longer than R by a part of 2^-40, which the sensitivity includes. A clip
below L makes the descent one for another loss, which privacy does not forbid.
"""

import itertools
import math

import numpy as np
from _checks import Checks

from skdpsumm.learners.erm._losses import HuberizedHinge
from skdpsumm.learners.erm._problem import FeatureSpace, Problem, Terms
from skdpsumm.learners.mechanisms._gradient import _COUNT_GRID as COUNT_GRID
from skdpsumm.learners.mechanisms._gradient import GradientPlan, IntegerRows
from skdpsumm.privacy._mechanisms import GaussianDP, gdp_delta
from skdpsumm.privacy._noise import Discreteness

EPSILONS = np.array([0.0, 0.3, 0.6, 1.0, 1.5, 2.0])
# In units of their grids: the largest norm of features and of residuals.
RADIUS, CLIP = 4, 3
DELTA = 1e-6


# ---- how far a row moves a sum of gradients


def grid_ball(size, radius):
    """Return all integer vectors of a size whose norm is at most `radius`."""
    side = range(-radius, radius + 1)
    points = np.array(list(itertools.product(side, repeat=size)))
    return points[np.linalg.norm(points, axis=1) <= radius]


def contributions():
    """Return features times residuals of all rows that there are: two features, two scores."""
    features, residuals = grid_ball(2, RADIUS), grid_ball(2, CLIP)
    return np.einsum("ip,jq->ijpq", features, residuals).reshape(-1, 4)


def check_sensitivity(checks):
    """Enumerate all rows on the grid, and all pairs of rows."""
    rows = np.unique(contributions(), axis=0)
    norms = np.linalg.norm(rows, axis=1)
    checks.holds(f"{len(rows)} rows, largest norm", norms.max(), RADIUS * CLIP)
    checks.found_out("0.99 of that", norms.max(), 0.99 * RADIUS * CLIP)
    # The farthest pairs are among the longest rows.
    long = rows[norms >= norms.max() / 2]
    apart = max(np.linalg.norm(long - row, axis=1).max() for row in long)
    checks.holds("all pairs of them, largest distance", apart, 2 * RADIUS * CLIP)
    checks.found_out("replaced rows at the price of one that comes", apart, RADIUS * CLIP)


def check_grid(checks):
    """Put vectors of the largest norm on the grid: towards zero, and to the nearest point."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20_000, 7))
    vectors *= RADIUS / np.linalg.norm(vectors, axis=1)[:, None]
    cut = np.linalg.norm(np.trunc(vectors), axis=1).max()
    nearest = np.linalg.norm(np.rint(vectors), axis=1).max()
    checks.holds("norm after truncation towards zero", cut, RADIUS)
    checks.found_out("rounded to the nearest", nearest, RADIUS)


def check_persons(checks):
    """Let a person have up to k rows: all pairs, and many samples of more."""
    rng, rows = np.random.default_rng(0), contributions()
    for k in (3, 40):
        sums = rows[rng.integers(0, len(rows), (20_000, k))].sum(axis=1)
        longest = rows[np.linalg.norm(rows, axis=1) == RADIUS * CLIP]
        sums, bound = np.r_[sums, k * longest], math.sqrt(k) * RADIUS * CLIP
        sizes = np.maximum(np.linalg.norm(sums, axis=1), 1)
        clipped = np.trunc(sums * np.minimum(1, bound / sizes)[:, None])
        norm = np.linalg.norm(clipped, axis=1).max()
        checks.holds(f"{k} rows of a person, clipped together, largest norm", norm, bound)
        checks.found_out("sums that are not clipped", sizes.max(), bound)


def check_library(checks):
    """Compare the library's own sums with and without a row, and its noise with its claim."""
    rng = np.random.default_rng(0)
    space, codes = FeatureSpace(None, 3, 1.0), rng.choice([-1.0, 1.0], (301, 1))
    rows = rng.normal(size=(301, 3))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows[0] = [0, -1, 0]  # of norm R on the grid
    for k, adjacency in ((1, "add_remove"), (1, "replace_one"), (3, "add_remove")):
        terms = Terms(1.0, 1e-6, adjacency, HuberizedHinge(0.5), 1.0, 1.0, 1, None, rows_of_unit=k)
        plan = GradientPlan(space, terms, 8, 0.5)
        units = np.r_[np.zeros(k, int), np.arange(1, 302 - k)]  # the first k rows are one person's
        moved, alone = 0, 0
        for weights in (np.zeros((3, 1)), rng.normal(size=(3, 1)), 40 * rng.normal(size=(3, 1))):
            given = np.r_[rows[[0] * k], rows[k:]], codes[[0] * k + [*range(k, 301)]], units
            sums = [
                IntegerRows(Problem(space, X, y, terms, units=u), plan).gradient(weights)
                for X, y, u in (given, [a[k:] for a in given], [a[:k] for a in given])
            ]
            alone += int(np.abs(sums[0] - sums[1] - sums[2]).sum())
            moved = max(moved, float(np.linalg.norm(sums[0] - sums[1])))
        what = f"the library's sums, {k} row(s) of a person, {adjacency}"
        checks.holds(f"{what}, units that other rows move", alone, 0)
        claimed = plan.sensitivity / plan._grid / (2 if adjacency == "replace_one" else 1)
        checks.holds(f"{what}, distance in units", moved, claimed)
        if k > 1:
            checks.found_out("a person at the price of one row", moved, claimed / math.sqrt(k))
        else:
            checks.found_out("0.99 of that", moved, 0.99 * claimed)
        steps = plan.sensitivity / plan._grid / plan._noise.std[-1]
        mu = math.sqrt(8) * steps
        if not plan._count_is_public:
            mu = math.hypot(mu, k / COUNT_GRID / plan._noise.std[0])
        checks.holds(f"{what}, mu of its noise", mu, plan.mechanism.mu, relative=1e-6)
        checks.found_out("one step counted", mu, steps)


def check_margins(checks):
    """Take products of integers below 2^53 in float64: exact, in any order and any company."""
    rng = np.random.default_rng(0)
    features = rng.integers(-(2**20), 2**20, (200, 30))
    weights = rng.integers(-(2**27), 2**27, 30)
    bound = 30 * 2**20 * 2**27
    checks.holds("largest partial sum, in units of 2^53", bound / 2**53, 1.0)
    exact = [sum(int(a) * int(b) for a, b in zip(row, weights, strict=True)) for row in features]
    wrong = 0
    for rows in (slice(None), slice(1, None), slice(7, 8), slice(None, None, -1)):
        found = features[rows].astype(float) @ weights.astype(float)
        wrong += int(np.sum(found != np.array(exact[rows], dtype=float)))
    checks.holds("margins that differ from exact ones, of 600", wrong, 0)


# ---- discrete Gaussian noise, and steps that hang on answers


class Noise:
    """Discrete Gaussian noise: masses, and the exact divergence of one step."""

    def __init__(self, sigma):
        self.sigma, self.reach = sigma, math.ceil(8 * sigma)
        self.at = np.arange(-self.reach, self.reach + 1)
        masses = np.exp(-(self.at**2) / (2 * sigma**2))
        self.masses = masses / masses.sum()
        self._below = np.concatenate([[0.0], np.cumsum(self.masses)])

    def below(self, t):
        """Return the mass of all integers smaller than t."""
        place = np.clip(np.ceil(t) + self.reach, 0, len(self.at)).astype(int)
        return self._below[place]

    def delta(self, distance, epsilon):
        """Return the divergence between the noise and itself moved by integers, for arrays."""
        d = np.abs(distance).astype(float)
        safe = np.maximum(d, 1.0)
        turn = safe / 2 - self.sigma**2 * epsilon / safe  # below it the first is the larger
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self.below(turn) - np.exp(epsilon) * self.below(turn - safe)
        return np.where(d == 0, np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0))), moved)


def residual(margin, label):
    """Return minus the slope of a hinge, clipped, and truncated to its grid."""
    return label * np.trunc(CLIP * np.clip(1 - label * margin / 40, 0, 1))


def gradient(rows, w):
    """Return the integer sum over rows of features times residuals, for each weight w."""
    return sum((phi * residual(phi * w, label) for phi, label in rows), np.zeros_like(w))


def descent_delta(one, other, steps, noise, rate, epsilon):
    """Return the exact delta of all noisy gradients of a descent, by enumerating histories.

    The last step is summed in closed form; a history holds the weight, its mass under the first
    table, and its privacy loss.
    """
    w, mass, loss = np.zeros(1), np.ones(1), np.zeros(1)
    for _ in range(steps - 1):
        center, moved = gradient(one, w), gradient(other, w)
        z = noise.at
        d = (center - moved)[:, None]
        step_loss = ((z + d) ** 2 - z**2) / (2 * noise.sigma**2)
        answer = center[:, None] + z
        w = (w[:, None] + np.rint(rate * answer)).ravel()
        mass = (mass[:, None] * noise.masses).ravel()
        loss = (loss[:, None] + step_loss).ravel()
        kept = mass > 1e-17
        w, mass, loss = w[kept], mass[kept], loss[kept]
    distance = gradient(one, w) - gradient(other, w)
    return float(mass @ noise.delta(distance, epsilon - loss))


def neighbours():
    """Yield pairs of tables of one feature, one of which has a row more."""
    for base in ([], [(3, 1), (-4, 1), (2, -1)]):
        for row in ((RADIUS, 1), (-RADIUS, 1)):
            yield base, [*base, row]
            yield [*base, row], base


def claim(steps, sigma, sensitivity=RADIUS * CLIP):
    """Return the claim: one Gaussian mechanism, and the slack of discrete noise."""
    mu = math.sqrt(steps) * sensitivity / sigma
    slack = Discreteness(steps, mu, 1.0, DELTA)
    return GaussianDP(mu, slack.needed(steps, sigma) + slack.poisson, slack.tail)


def check_noise(checks):
    """Compare one step at three scales: where the grid is coarse, the slack is what it takes."""
    for sigma in (2.0, 30.0, 2000.0):
        step = max(1, round(sigma / 2))
        noise, stated = Noise(sigma), claim(1, sigma, step)
        exact = [float(noise.delta(step, e)) for e in EPSILONS]
        claimed = [stated.delta(e) for e in EPSILONS]
        checks.curve(f"one step, sigma = {sigma:g} grid units", EPSILONS, exact, claimed)
    coarse = Noise(0.4)
    exact = [float(coarse.delta(1, e)) for e in EPSILONS]
    ideal = [gdp_delta(1 / 0.4, e) for e in EPSILONS]
    checks.found_out("sigma = 0.4, and no slack for a coarse grid", exact, ideal)


def worst_descent(steps, sigma, rate):
    """Return the largest exact delta of neighbours, in either order, at each epsilon."""
    noise = Noise(sigma)
    found = [
        [descent_delta(one, other, steps, noise, rate, e) for e in EPSILONS]
        for one, other in neighbours()
    ]
    return np.max(found, axis=0)


def check_steps(checks):
    """Compare two and three steps, at a slow rate and at a fast one."""
    for steps in (2, 3):
        sigma = math.sqrt(steps) * RADIUS * CLIP / 0.9
        claimed = [claim(steps, sigma).delta(e) for e in EPSILONS]
        for rate in (0.02, 0.5):
            exact = worst_descent(steps, sigma, rate)
            what = f"{steps} steps, sigma = {sigma:.1f}, rate {rate}"
            checks.curve(what, EPSILONS, exact, claimed)
        one = [claim(1, sigma).delta(e) for e in EPSILONS]
        slow = worst_descent(steps, sigma, 0.0)
        checks.found_out("one step counted", slow, one)
        checks.found_out("0.7 of the noise", worst_descent(steps, 0.7 * sigma, 0.0), claimed)


def reused_delta(one, other, noise, rate, epsilon):
    """Return the exact delta of two steps that share their noise."""
    start, z = np.zeros(1), noise.at
    first, second = gradient(one, start), gradient(other, start)
    w = np.rint(rate * (first + z))
    losses = ((z + first - second) ** 2 - z**2) / (2 * noise.sigma**2)
    # The difference of the two answers has no noise at all.
    same = gradient(one, w) - first == gradient(other, w) - second
    excess = np.where(same, np.maximum(0.0, -np.expm1(epsilon - losses)), 1.0)
    return float(noise.masses @ excess)


def clipped_sum(rows):
    """Return a sum of slopes that nobody clipped, with the sum clipped in their place."""
    return float(np.clip(sum(rows), -RADIUS * CLIP, RADIUS * CLIP))


def check_bugs(checks):
    """Plant bugs in the steps themselves."""
    sigma = math.sqrt(2) * RADIUS * CLIP / 0.9
    noise, stated = Noise(sigma), claim(2, sigma)
    claimed = [stated.delta(e) for e in EPSILONS]
    one, other = next(neighbours())
    exact = [reused_delta(one, other, noise, 0.5, e) for e in EPSILONS]
    checks.found_out("noise reused between steps", exact, claimed)
    moved = clipped_sum([-500, 1000]) - clipped_sum([-500])
    exact = [float(noise.delta(moved, e)) for e in EPSILONS]
    claimed = [claim(1, sigma).delta(e) for e in EPSILONS]
    checks.found_out("the sum clipped, and not each row", exact, claimed)


def main():
    """Print all comparisons, and fail where one does."""
    checks = Checks("Noisy gradient descent")
    check_sensitivity(checks)
    check_grid(checks)
    check_persons(checks)
    check_library(checks)
    check_margins(checks)
    check_noise(checks)
    check_steps(checks)
    check_bugs(checks)
    checks.close()


if __name__ == "__main__":
    main()
