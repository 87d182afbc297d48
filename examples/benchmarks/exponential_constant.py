"""What the exponential mechanism costs in a sum of Gaussian DP: the constant, checked.

    python examples/benchmarks/exponential_constant.py [--mechanisms 20000] [--seed 0]

A mechanism of bounded range e is mu-GDP with mu = 2 Phi^-1(expit(e / 2)); lemma 3 of
`docs/proofs.md`, with the proof below. Printed are, for e from 0.01 to 8: mu; the largest
Phi^-1(power) - Phi^-1(level) of all tests between two outcomes whose log odds differ by e, on a
fine grid, less mu; the same of random exponential mechanisms whose scores move by at most one, up
and down; and e / 2, what zero concentrated DP says of the same mechanism, as a mu: it is too
little. Below: the smallest of the function that the proof needs to be positive.

The script fails where any test beats mu by more than rounding does.

Proof of Lemma 3
----------------
1. *Two outcomes are the worst* (Dong, Durfee and Rogers 2020). Let all r = P(i)/Q(i) lie
   between a and b = a exp(e), and w = (r - a)/(b - a). Toss a coin that shows "high" with
   probability q = (1 - a)/(b - a) under Q and b q under P; then draw i in proportion to Q(i)
   w(i) after "high", to Q(i) (1 - w(i)) after "low". This gives exactly Q and P, so no test of
   i is better than one of the coin. Its log odds differ by log b - log a = e.
2. *One point decides.* The trade-off curve of a coin is two straight lines with a kink at (q, 1
   - p). A Gaussian curve is convex, so it lies below both if it lies below the kink: if mu >=
   Phi^-1(p) - Phi^-1(q). With g(y) = Phi^-1(1 / (1 + exp(-y))) that is g(y + e) - g(y), at some
   y.
3. *The even coin is the worst.* g is odd and, from 0 on, concave, so its slope falls with |y|.
   Of all intervals of length e the one around 0 has the largest increase: g(e/2) - g(-e/2) = 2
   g(e/2).
4. *g is concave from 0 on* if the slope of its inverse x(z) = log Phi(z) - log Phi(-z)
   increases. Let phi be the density, u = Phi - 1/2. Then x' = phi / (1/4 - u^2), and (log x')'
   = D / (1/4 - u^2) with D = 2 u phi - z (1/4 - u^2). D is 0 at 0 and at infinity. D' = 2 phi^2
   + u^2 - 1/4 is positive at 0, and 0 at infinity. D'' = 2 phi (u - 2 z phi) is first negative,
   then positive, because u - 2 z phi has the slope (2 z^2 - 1) phi. So D' falls through 0 once
   and comes back from below; D rises, then falls to 0, and is positive. ∎
"""

import argparse

import numpy as np
from scipy.special import log_expit, log_softmax, ndtr, ndtri_exp

RANGES = [0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0]
ROUNDING = 1e-9


def probit_of_log(log_p, log_rest):
    """Return Phi^-1(p) from the logarithms of p and of 1 - p, precise at both ends."""
    below = log_p < log_rest
    return np.where(below, 1, -1) * ndtri_exp(np.where(below, log_p, log_rest))


def probit_of_logit(y):
    return probit_of_log(log_expit(y), log_expit(-y))


def mu_of_range(e):
    return 2 * float(probit_of_logit(np.array(e / 2)))


def worst_of_two_outcomes(e):
    """Return the largest mu of two outcomes whose log odds differ by e."""
    y = np.linspace(-e / 2 - 30, -e / 2 + 30, 1_200_001)
    return float((probit_of_logit(y + e) - probit_of_logit(y)).max())


def mu_of_tests(log_p, log_q):
    """Return the largest mu that tests between two laws on m outcomes show (Neyman and Pearson)."""
    order = np.argsort(log_q - log_p)
    sums = []
    for log_mass in (log_p[order], log_q[order]):
        sums.append(np.logaddexp.accumulate(log_mass)[:-1])
        sums.append(np.logaddexp.accumulate(log_mass[::-1])[::-1][1:])
    power, missed, level, rest = sums
    return float((probit_of_log(power, missed) - probit_of_log(level, rest)).max())


def random_mechanism(e, rng):
    """Return the log probabilities of an exponential mechanism of range e under two neighbours."""
    m = int(rng.choice([2, 3, 5, 20, 200]))
    scores = rng.normal(0, rng.choice([0.1, 1, 10]), m)
    moves = rng.choice([-1.0, 1.0], m) if rng.random() < 0.7 else rng.uniform(-1, 1, m)
    if rng.random() < 0.5:  # near even odds of those that gain, where the worst case is
        up = moves > 0
        scores[up] -= np.logaddexp.reduce(scores[up]) if up.any() else 0.0
        scores[~up] -= np.logaddexp.reduce(scores[~up]) if (~up).any() else 0.0
        scores += rng.choice([0, -e / 4]) * np.sign(moves)
    return log_softmax(scores + e / 2 * moves), log_softmax(scores)


def smallest_in_proof():
    """Return the smallest of 2 u phi - z (1/4 - u^2), u = Phi - 1/2, over its size near 0."""
    z = np.geomspace(1e-3, 30, 200_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    below, above = ndtr(-z), ndtr(z)
    # 1/4 - u^2 is Phi(z) Phi(-z); both terms are divided by it, as for the slope of log x'.
    return float((density * (above - below) / (below * above) - z).min())


def main():
    """Print the table, and fail where the constant is beaten."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mechanisms", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    worst = -np.inf
    print("e     mu       two outcomes  random mechanisms  zCDP")
    for e in RANGES:
        mu = mu_of_range(e)
        two = worst_of_two_outcomes(e)
        many = max(mu_of_tests(*random_mechanism(e, rng)) for _ in range(arguments.mechanisms))
        worst = max(worst, two - mu, many - mu)
        print(f"{e:<5} {mu:.6f} {two - mu:+.1e}      {many - mu:+.1e}           {e / 2:.6f}")
    slope = smallest_in_proof()
    print(f"slope of log x' from z = 0.001 on: at least {slope:.1e}")
    if worst > ROUNDING or slope <= 0:
        raise SystemExit(f"The constant is beaten by {worst:.1e}.")


if __name__ == "__main__":
    main()
