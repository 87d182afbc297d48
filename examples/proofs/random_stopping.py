"""The best of a random number of private runs: the price, against exact divergences.

    python examples/proofs/random_stopping.py

`docs/proofs.md` has the theorem in short. A base run here has finitely many results, ranked by
score. The best of K has a law that is a finite sum over the chances of K, which are computed from
their recursion, and not from the proof's generating function. Printed are the exact delta of the
search at several epsilons, the worst of all runs and rankings that are tried, beside the price that
the library states; and what one run costs whose rows are held out by secret coins, by enumerating
them.

Theorem
-------
Q is a base run: it draws its own candidate, fits, scores, and returns all of that. K is drawn
without looking at the table, Q is run K times, independently and each time alike, and the result
with the best score is released: not K, and nothing of the others. Order results by score, equal
ones by a coin. With f(z) = E[z^K], the best of K lies in a top set of mass s under Q with
probability H(s) = 1 - f(1 - s). So its density is h = H' times that of Q, taken at the mass of all
better results, and h falls from h(0) = E[K].

- **Input**: a run Q whose curve is delta_Q(e), for every real e, and a law of K: truncated negative
  binomial (eta > -1, 0 < gamma < 1), where h(s) is proportional to (o + s)^-(1 + eta) with o =
  gamma / (1 - gamma).
- **Neighbours**: those of Q.
- **Measure**: delta(epsilon) of the result.
- **Statement 1** (any run): the search is (epsilon + c, E[K] delta_Q(epsilon))-DP for every
  epsilon. Here c = (1 + eta) e, where e >= 0 solves `(1 - gamma) delta_Q(e) = gamma (exp(e) - 1)`.
  If Q is epsilon0-DP, then e <= epsilon0, and the search is (epsilon0 + c)-DP.
- **Statement 2** (mu-GDP runs): with g(q) = Phi(Phi^-1(q) - mu) and G(n) = Phi(Phi^-1(n) + mu), for
  epsilon >= 0

      delta(epsilon) <= D(epsilon) = int_0^1  max_n w(q, n)_+  dq,        0 <= n <= 1 - q,
      w(q, n) = h(q + n) - exp(epsilon) g'(q) h(g(q) + G(n)).

  For some mu-GDP run this is attained, so no smaller bound holds.

Proof
-----
Let P be the law of the search, and dashes mark the neighbour.

**Statement 1.** Let S be the mass of all better results, at the same result under either law.
For every event E, with c at least the largest log h(S) / h(S'),

    P(E) - exp(epsilon + c) P'(E) <= int_E h(S) (dQ - exp(epsilon) dQ') <= h(0) delta_Q(epsilon).

As S' <= exp(e) S + delta_Q(e) = exp(e) S + o (exp(e) - 1), o +
S' <= exp(e) (o + S), and h(S) / h(S') is at most exp((1 + eta) e).

**Statement 2.** For mu-GDP runs g(Q(A)) <= Q'(A) <= G(Q(A)) for every set A of results. Take an
event E. Going down from the top, let q and n be the masses under Q of what has been met in E
and outside of it, and q', n' those under Q'. Let h(s) be h(1) for s > 1. Then P(E) = int h(q +
n) dq, and, as n' <= m = G(n) and h falls,

    P'(E) = int h(q' + n') dq' >= int h(q' + m) dq' = H(q' + m) at the end - int h(q' + m) dm.

The right side grows with q' at any place. So q' may be replaced by g(q), which is no larger:
P'(E) >= int h(g(q) + G(n)) g'(q) dq. (No argument exceeds 1 there, as G(1 - q) = 1 - g(q).)
Hence P(E) - exp(epsilon) P'(E) is at most the integral of w(q, n(q)), and of its positive part
at the best n.

*Attained.* Let Q be N(mu, 1), Q' be N(0, 1), and E the results above x. At each x rank the
lowest results, as many as n*(q), the largest maximiser of w, before the highest that are left.
This is an order if n* grows with q. It does:

- In n, log h(q + n) - log h(g + G) has one maximum, for its slope has the sign of a function
  that falls where it is positive and does not come back. Beyond this maximum w falls where it
  is positive. Before it, log of -exp(epsilon) g' h'(g + G) G' over -h'(q + n) falls, so w has
  one maximum.
- The mixed derivative of w is positive at n*. There it has the sign of l(q + n) + g''/g' - g'
  l(g + G), where l is 1 / (o + s), up to a factor. As epsilon >= 0, w
  is positive only for q with g' <= 1, and g is convex. So it is enough that X = (o + g + G) /
  (o + q + n) >= g'. If X >= 1 this holds. Else n is so small that G' >= 1, for X >= 1 from G' =
  1 on; and w_n = 0 says X^(2 + eta) = exp(epsilon) g' G' >= g'. ∎

In practice
-----------
What a run costs: every row has a secret coin that says whether it is held out, and a run is a
fit of the others and a noisy score of these. Give neighbours the same coins for the rows that
both have. The row that differs is either in the fit, and then the score is post-processing of
it, or held out, and then the fit is the same. So both may have the whole budget of a run
*each*. Held out by position, a row that comes would shift all rows after it. *The runs must be
alike*: if trial j tried the j-th candidate of a public list, the winner would tell that K >= j.
*Discrete noise*: let a run's density be within exp(eta_0) of an ideal one's, but for events of
probability tau. The result has the density h(S) times that of the run that is seen. Outside of
that run's own tail, of probability at most E[K] tau, the second factor is within exp(eta_0),
and log h moves by at most (1 + eta) (eta_0 + tau / o). The library counts 2 tau in place of
tau. *In a ledger* a search counts as the smallest mu whose curve is nowhere below its own.
"""

import itertools
import math

import numpy as np
from _checks import Checks, both_ways
from scipy.special import ndtr

from skdpsumm.privacy._best_of import StoppingLaw
from skdpsumm.privacy._mechanisms import GaussianDP, PureDP

LAWS = {"logarithmic": StoppingLaw(0.0, 10), "geometric": StoppingLaw(1.0, 10)}
EPSILONS = np.array([0.0, 0.2, 0.5, 1.0, 1.5, 2.0])


def chances(law, most=4000):
    """Return P(K = 0), P(K = 1), ... by recursion, and check that hardly anything is left out."""
    found = np.zeros(most + 1)
    found[1] = 1.0
    for k in range(1, most):
        found[k + 1] = found[k] * (1 - law.gamma) * (k + law.eta) / (k + 1)
    return found / found.sum()


def best_of(law, masses, weights):
    """Return the law of the best of K results, worst first; the chance of none comes before."""
    below = np.concatenate([[0.0], np.minimum(np.cumsum(masses), 1.0)])
    below[-1] = 1.0
    powers = np.zeros_like(below)
    for chance in weights[::-1]:  # Horner: the sum of P(K = k) below^k
        powers = powers * below + chance
    return np.concatenate([[powers[0]], np.diff(powers)])


def gaussian_runs(mu, n=1501):
    """Yield masses of two Gaussians mu apart, on intervals, in rankings that tell much."""
    edges = np.concatenate([[-np.inf], np.linspace(-8, 8 + mu, n), [np.inf]])
    p, q = np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))
    places = np.arange(n + 1)
    yield p, q
    yield p[::-1], q[::-1]
    for middle in (1.0, 2.0, 3.0):
        ranks = np.argsort(-np.abs(np.append(edges[1:-1], 8 + mu) - middle))
        yield p[ranks], q[ranks]
    ranks = np.concatenate([places[: n // 2], places[n // 2 :][::-1]])
    yield p[ranks], q[ranks]


# ---- the exact curve of Gaussian runs, by brute force


def density(law, better):
    """Return h: the density of the best of K to a run's, where `better` is the mass above."""
    odds = law.gamma / (1 - law.gamma)
    return law.mean * (1 + better / odds) ** -(1 + law.eta)


def won(law, top):
    """Return H, the chance that the best of K is among the top results of this mass."""
    odds = law.gamma / (1 - law.gamma)
    if law.eta == 0:
        return law.mean * odds * np.log1p(top / odds)
    return law.mean * odds / law.eta * -np.expm1(-law.eta * np.log1p(top / odds))


def curve(law, mu, epsilon):
    """Return D(epsilon), and what the worst search has of it.

    The event has all results above x, and before them all results below z were met. The best z of
    a grid is taken at each x; the search is the one that ranks results accordingly.
    """
    x = np.linspace(mu / 2, 9 + mu, 1_201)[::-1]
    z = np.linspace(-8, 1, 1_001)
    q, g = ndtr(mu - x), ndtr(-x)
    n, m = ndtr(z - mu), ndtr(z)
    slope = np.exp(mu * (mu / 2 - x))
    w = density(law, q[:, None] + n) - math.exp(epsilon) * slope[:, None] * density(
        law, g[:, None] + m
    )
    w[z > x[:, None]] = -np.inf
    best, place = w.max(axis=1), w.argmax(axis=1)
    value = float(np.trapezoid(np.maximum(best, 0), q))
    kept = best > 0
    q, g, place = q[kept], g[kept], place[kept][1:]
    ours = won(law, q[1:] + n[place]) - won(law, q[:-1] + n[place])
    theirs = won(law, g[1:] + m[place]) - won(law, g[:-1] + m[place])
    return value, float((ours - math.exp(epsilon) * theirs).sum())


def check_curve(checks):
    """Compare D with a search that has it, and with the library's price of Gaussian runs."""
    mu, epsilons = 0.5, EPSILONS[1:]
    ranks = np.linspace(0, 1, 11)
    for name, law in LAWS.items():
        weights = chances(law)
        ks = np.arange(len(weights))
        summed = [weights[1:] @ (ks[1:] * (1 - s) ** (ks[1:] - 1.0)) for s in ranks]
        error = np.abs(density(law, ranks) / summed - 1).max()
        checks.holds(f"{name}, closed form of h, relative error", error, 1e-6)
        found = np.array([curve(law, mu, e) for e in epsilons])
        what = f"{name}, a search, and the curve D"
        checks.curve(what, epsilons, found[:, 1], found[:, 0], relative=1e-4)
        checks.found_out("0.99 of D", found[:, 1], 0.99 * found[:, 0], factor=1.005)
        claimed = deltas(law.price(GaussianDP(mu)), epsilons)
        checks.curve(f"{name}, D, and the price", epsilons, found[:, 0], claimed, relative=1e-4)


def pure_runs(epsilon):
    """Yield masses of results with losses of epsilon in size, the rare ones on top."""
    for top in np.logspace(-5, -0.3, 24):
        for high in (0.0, 0.2, 0.5, 0.8, 1.0):
            p = np.array([0.0, high * top, (1 - high) * top])
            q = p * np.exp(epsilon * np.array([0, -1, 1]))
            p[0], q[0] = 1 - p.sum(), 1 - q.sum()
            if min(p[0], q[0]) > 0 and abs(math.log(p[0] / q[0])) <= epsilon:
                yield p, q


def worst(law, runs, epsilons):
    """Return the largest exact delta of a search at each epsilon."""
    weights = chances(law)
    weights = weights[: np.flatnonzero(weights > 1e-18)[-1] + 1]
    pairs = [[best_of(law, masses, weights) for masses in pair] for pair in runs]
    return np.max([[both_ways(*pair, e) for e in epsilons] for pair in pairs], axis=0)


def deltas(mechanism, epsilons):
    """Return the claim at each epsilon."""
    return np.array([mechanism.delta(e) for e in epsilons])


def check_gaussian(checks):
    """Compare runs of Gaussian cost."""
    mu = 0.5
    run = GaussianDP(mu)
    for name, law in LAWS.items():
        exact = worst(law, gaussian_runs(mu), EPSILONS)
        claimed = deltas(law.price(run), EPSILONS)
        what = f"{name}, E[K] = {law.mean:.4g}, runs of mu = {mu}"
        checks.curve(what, EPSILONS, exact, claimed)
        checks.found_out("the price of one run", exact, deltas(run, EPSILONS))
    half = worst(LAWS["logarithmic"], gaussian_runs(2 * mu), EPSILONS)
    claimed = deltas(LAWS["logarithmic"].price(run), EPSILONS)
    checks.found_out("half the noise in each run", half, claimed)


class Failing:
    """A run that tells all of the row with probability `failure`, on top of all results."""

    failure = 1e-4
    masses = np.array([1 - failure, failure]), np.array([1.0, 0.0])

    def delta(self, epsilon):
        """Return its exact delta, which is that of any epsilon that is not negative."""
        return max(self.failure, -math.expm1(epsilon) if epsilon < 0 else 0.0)


def check_failing(checks):
    """Compare a rare failure that ranks first, which the factor E[K] pays for."""
    run = Failing()
    for name, law in LAWS.items():
        shift = law.shift(run)
        exact = worst(law, [run.masses], shift + EPSILONS)
        claimed = law.mean * np.array([run.delta(e) for e in EPSILONS])
        checks.curve(f"{name}, runs that fail with {run.failure}", shift + EPSILONS, exact, claimed)
        checks.found_out("no factor E[K]", exact, claimed / law.mean, factor=0.99 * law.mean)


def check_pure(checks):
    """Compare runs of a pure cost by the largest log ratio."""
    epsilon = 0.7
    for name, law in LAWS.items():
        weights = chances(law)
        weights = weights[: np.flatnonzero(weights > 1e-18)[-1] + 1]
        exact = max(largest_ratio(law, pair, weights) for pair in pure_runs(epsilon))
        price = law.price(PureDP(epsilon)).epsilon(0.0)
        what = f"{name}, pure runs of {epsilon}, largest log ratio"
        checks.holds(what, exact, price, relative=1e-7)
        checks.found_out("the price of one run", exact, epsilon)
        if name == "logarithmic":  # where the bound is nearly reached
            checks.found_out("nine tenths of the price", exact, 0.9 * price)


def largest_ratio(law, pair, weights):
    """Return the largest log ratio of masses of the best of K."""
    p, q = (best_of(law, masses, weights) for masses in pair)
    seen = np.minimum(p, q) > 1e-9
    return float(np.abs(np.log(p[seen] / q[seen])).max())


def check_public_list(checks):
    """Let trial j try the j-th candidate: then the winner tells that j - 1 others lost."""
    law, epsilon, place = LAWS["logarithmic"], 0.3, 12
    price = law.price(PureDP(epsilon)).epsilon(0.0)
    ks = np.arange(4001)
    weights = chances(law)[ks >= place]
    wins = [weights @ lose ** (ks[ks >= place] - 1) for lose in (0.5, 0.5 * math.exp(-epsilon))]
    checks.found_out("a public list of candidates", math.log(wins[0] / wins[1]), price)


# ---- what one run costs: rows are held out by secret coins


def laplace(center, epsilon, reach=60):
    """Return the masses of an integer with noise that is epsilon-DP for a step of one."""
    k = np.arange(-reach, reach + 1)
    return math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(k - center))


def run_law(rows, epsilon, held_out):
    """Return the masses of (noisy fit, noisy score) for one outcome of the coins.

    The fit is the noisy sum of the training rows; the score adds up, over the rows held out, a
    number that depends on the fit (here their sign, turned by whether the fit is positive).
    """
    fit = laplace(sum(row for row, out in zip(rows, held_out, strict=True) if not out), epsilon)
    total = sum(row for row, out in zip(rows, held_out, strict=True) if out)
    score = np.array([laplace(sign * total, epsilon) for sign in (1, -1)])
    positive = np.arange(-60, 61) > 0
    return fit[:, None] * np.where(positive[:, None], score[0], score[1])


def by_coins(rows, epsilon):
    """Return the masses where each row has a fair coin of its own."""
    outcomes = itertools.product((False, True), repeat=len(rows))
    return sum(run_law(rows, epsilon, coins) for coins in outcomes) / 2 ** len(rows)


def by_position(rows, epsilon):
    """Return the masses where every second row is held out."""
    return run_law(rows, epsilon, [i % 2 == 1 for i in range(len(rows))])


def check_run(checks):
    """Compare a run, in which a row is in the fit or in the score, with the cost of one of them."""
    epsilon = 0.5
    tables = [(1, 1, 1), (1, -1, 1), (-1, 1, 1, -1), (1, 1, -1, -1)]
    for law, name in ((by_coins, "coins"), (by_position, "position")):
        exact = 0.0
        for rows in tables:
            for place in range(len(rows)):
                less = rows[:place] + rows[place + 1 :]
                p, q = law(rows, epsilon), law(less, epsilon)
                seen = np.minimum(p, q) > 1e-9
                exact = max(exact, float(np.abs(np.log(p[seen] / q[seen])).max()))
        if name == "coins":
            what = "one run, rows held out by coins, largest log ratio"
            checks.holds(what, exact, epsilon, relative=1e-6)
        else:
            checks.found_out("rows held out by position", exact, epsilon)


def main():
    """Print all comparisons, and fail where one does."""
    checks = Checks("The best of a random number of private runs")
    check_gaussian(checks)
    check_curve(checks)
    check_failing(checks)
    check_pure(checks)
    check_public_list(checks)
    check_run(checks)
    checks.close()


if __name__ == "__main__":
    main()
