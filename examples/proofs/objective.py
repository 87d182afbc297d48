"""Objective perturbation: its claim against the exact law of the minimiser.

    python examples/proofs/objective.py

`docs/proofs.md` has the theorem in short. With one feature the minimiser is a monotone function of
the noise, so that the mass of an interval is a difference of two values of the noise's distribution
function: no density, no determinant, none of the proof's formulas. With three classes densities are
summed over a plane. Printed are the exact delta at several epsilons, the worst of all data sets and
rows that are tried, and what the library claims for the noise that it calibrates.

Theorem
-------
- **Input**: rows (phi, y) with |phi| <= R, and a public Lambda > 0. The loss is a convex function
  of q scores. Its gradient s is Lipschitz; its Hessian has a rank of at most r and a trace of at
  most r beta. For each label, all s lie in the convex hull of 0 and m points (*corners*) of length
  at most L: one (margin losses), two opposite ones (residuals), or those of a regular simplex that
  has 0 as another corner (softmax). W* minimises, over all matrices W of p rows and q columns,

      J(W) = sum_i loss(W^T phi_i, y_i) + (Lambda / 2) |W|^2 + <B, W>.

  B has independent N(0, sigma^2) entries or, for a pure claim, the density proportional to exp(-|B|
  / b).
- **Neighbours**: a row comes or goes (add-remove), or is replaced (replace-one).
- **Measure**: the loss of privacy of the exact W*, in both orders.
- **Statement**: let `c = r log(1 + beta R^2 / Lambda)` and `Z = L R / sigma`. The loss is at most
  the largest of 0 and several `Y_i` (and plus c, but where the row goes), of law N(mu^2/2, mu^2)
  for

  - add-remove: m terms of mu = Z;
  - replace-one: m terms of mu = 2 Z, m^2 - m of mu = sqrt(3) Z, and 2 m of mu = Z.

  So `delta(epsilon)` is at most the sum of all `gdp_delta(mu, epsilon - c)`, for epsilon >= c. The
  total variation is at most, for each t >= 0 and with d = m gdp_delta(Z, t),

      d + (1 - d) (e^t - 1) (e^(t + c) - 1) / (e^(2 t + c) - 1)

  under add-remove, which is `gdp_delta(Z, 0)` for m = 1, and twice that under replace-one. With
  pure noise the loss is at most E + c (add-remove) or 2 E + c (replace-one), where E = L R / b.

Proof of Lemma 2
----------------
`(1 - exp(epsilon - Z))_+` grows with Z, and for the largest of several numbers it is
at most the sum of theirs. For a sequence take the mean over the second outcome first. Given the
first, whose loss is Z, it is at most the sum of w_j gdp_delta(mu_j, epsilon - Z - c_j), by the
first part at a real number, which may be negative. Each of these is the mean of `(1 -
exp(epsilon - c_j - Y - Z))_+` over an independent Y of law N(mu_j^2/2, mu_j^2). Now take the
mean over the first outcome, and then over Y: sums of independent normal numbers are normal. ∎

Proof
-----
*Density.* `b_D(W) = -sum_i phi_i s_i^T - Lambda W` is the B for which W is the minimiser. It is
Lipschitz, and -b_D is strongly monotone, so it is a bijection that is Lipschitz both ways. The
change of variables holds with the derivative that exists almost everywhere (area formula): with
nu the density of B, W* has the density

    nu(b_D(W)) det H_D(W),     H_D = Lambda + sum_i (Hessian of row i) >= Lambda.

Losses with piecewise linear gradients (Huber, Huberised hinge) are no exception: a row's
gradient has kinks on a null set of W, and elsewhere its derivative adds to those of the others.

*One row more*, D' = D + (phi, y). Then b_D' = b_D - u with u = phi s^T, which depends on W.

- *Determinant*. H_D' = H_D + U, where U has a rank of at most r and a trace of at most r beta
  R^2. `det(I + U^(1/2) H_D^-1 U^(1/2))` grows with H_D^-1 <= I / Lambda, and the logarithm is
  concave, so det H_D' / det H_D is between 1 and (1 + beta R^2 / Lambda)^r = exp(c).
- *Noise*. `( |b_D - u|^2 - |b_D|^2 ) / (2 sigma^2)` is convex in u, so its maximum over the
  hull is at a corner, or at 0. The corners do not depend on B, and b_D(W*) = B under D. A
  corner of length l gives `(l^2 - 2 <B, corner>) / (2 sigma^2)`, of law N(mu^2/2, mu^2) for mu
  = l / sigma <= Z; 0 gives 0.

Under D, the loss of D against D' is the noise's part less a logarithm between 0 and c: at most
the largest of 0 and the Y_i. Under D', where B = b_D'(W*) and b_D = B + u, the loss of D'
against D is the noise's part plus it. A smaller |phi| gives a smaller mu. The sum is Lemma 2;
for m = 1 it has one term, since gdp_delta(0, epsilon - c) = 0.

*One row replaced.* Let D + (phi, y) and D + (phi', y') be the tables. Their b differ by u' - u,
and the noise's part is convex in it. Its maximum is at a difference of corners: m^2 of two
corners, 2 m of a corner and 0, and 0. Either determinant is at least det H_D, so the log of
their ratio is at most c, once, in both orders. All differences have a length of at most 2 L R.
At most m of the m^2 are longer than sqrt(3) L R:

- m = 1: there is one.
- *Corners in opposite pairs*: differences of +-v and +-w make a parallelogram. The sum of
  squares of its diagonals is at most 4 (L R)^2, so the shorter has a length of at most sqrt(2)
  L R. Two are longer.
- *A simplex with 0* (corners e_j - e_y): two corners of one label have inner products of L^2 or
  L^2 / 2, those of two labels between -L^2 and L^2 / 2, and below -L^2 / 2 for one pair only. A
  squared difference is at most (2 L^2 - 2 rho <v, w>) R^2, with rho the cosine of the features.
  It exceeds 3 L^2 R^2 only for equal corners of one label, which are m, or for that one pair.

*Total variation.* One row more: let P and P' be the laws of W* under D and D'. By the above,
for all events A, `P(A) <= e^t P'(A) + d` and `P'(A) <= e^(t + c) P(A) + d`, the latter for the
complement of A, too. Write x = P(A) and y = P'(A). Then x <= e^t y + d, and 1 - y <= e^(t + c)
(1 - x) + d. The largest x - y that both allow is where they meet: y = (1 - d) (e^(t + c) - 1) /
(e^(2 t + c) - 1). For t = 0 that is x - y = d. If a row is replaced, the table without it is
between the two.

*Pure noise.* `( |b_D - u| - |b_D| ) / b` is at most |u| / b <= E, and twice that for a replaced
row. ∎

In practice
-----------
No table attains the constant: the steepest gradient and the full curvature do not meet for
long.

The solver returns some V with |V - W*| <= d always, and V plus noise is released. Given the
table, B is a function of W*. Hence this is an adaptive sequence of W*, and of a measurement
whose sensitivity given W* is 2 d. d takes in all that is done by tolerance: a gradient of norm
tau at V gives tau / Lambda; rounding V to a grid of step h adds h sqrt(p q) / 2; and rounding B
to such a grid adds h sqrt(p q) / (2 Lambda). That the solver did not reach d must never be
seen. *Groups* are refused: of their rank and corners nothing is known here. *In a ledger* it
counts as the Gaussian that dominates it; where a row is replaced, at most twice the mu of one
row (Dong, Roth and Su 2022, Theorem 2.14).
"""

import math

import numpy as np
from _checks import Checks, both_ways, hockey_stick
from scipy.special import ndtr, softmax

from skdpsumm.learners.erm._losses import (
    EpsilonInsensitive,
    Huber,
    HuberizedHinge,
    Logistic,
    Softmax,
)
from skdpsumm.privacy._mechanisms import GaussianDP, gdp_delta
from skdpsumm.privacy._objective import calibrate

TARGET = 1.0, 1e-3
EPSILONS = np.array([0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
# A row is (feature, code); the code of a margin loss is the label, and of Huber's y.
CASES = [
    ("logistic", Logistic(), (-1.0, 1.0), [0.0], 0.3),
    ("logistic", Logistic(), (-1.0, 1.0), [0.0], 2.0),
    ("Huberised hinge", HuberizedHinge(0.5), (-1.0, 1.0), [0.5, 1.5], 2.0),
    ("Huberised hinge", HuberizedHinge(0.5), (-1.0, 1.0), [0.5, 1.5], 20.0),
    ("Huber", Huber(0.5), (0.0, 1.5), [-0.5, 0.0, 0.5, 1.0, 2.0], 3.0),
    ("tube", EpsilonInsensitive(0.4, 0.2), (0.0,), [-0.6, -0.2, 0.2, 0.6], 8.0),
]


def slope(loss, scores, code):
    """Return the derivative of the loss at each score."""
    return loss.gradient(scores[:, None], np.full((len(scores), 1), code))[:, 0]


def noise_of(loss, rows, w, regularization):
    """Return the noise b for which w minimises the objective; it falls with w."""
    return -regularization * w - sum(phi * slope(loss, phi * w, code) for phi, code in rows)


def gaussian(b, scale):
    """Return the mass of the intervals between falling values b of Gaussian noise."""
    lower, upper = -b[:-1] / scale, -b[1:] / scale
    return np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))


def laplace(b, scale):
    """Return the same of the density exp(-|b| / s), where intervals lie on one side of zero."""
    lower, upper = -b[:-1] / scale, -b[1:] / scale
    near = np.minimum(np.abs(lower), np.abs(upper))
    inside = -np.expm1(-np.abs(upper - lower)) * np.exp(-near) / 2
    across = 1 - (np.exp(-np.abs(lower)) + np.exp(-np.abs(upper))) / 2
    return np.where(lower * upper < 0, across, inside)


def intervals(kinks, regularization, scale):
    """Return ends of intervals of w: wide, and fine where a row's slope bends."""
    reach = (12 * scale + 8) / regularization
    near = [
        kink + sign * np.linspace(-1, 1, 300) * wide
        for kink in kinks
        for wide in (0.05, 1.0)
        for sign in (1, -1)
    ]
    return np.unique(np.concatenate([np.linspace(-reach, reach, 2500), *near, kinks]))


def neighbours(codes, adjacency):
    """Yield pairs of small tables that differ in one row, of the longest features there are."""
    rows = [(phi, code) for phi in (1.0, -1.0) for code in codes]
    for base in ([], [(0.6, codes[0]), (-0.8, codes[-1])]):
        if adjacency == "add_remove":
            yield from ((base, [*base, row]) for row in rows)
        else:
            rows_and_none = [*rows, (0.0, codes[0])]
            yield from (([*base, one], [*base, other]) for one in rows_and_none for other in rows)


def laws(case, adjacency, scale, mass=gaussian):
    """Yield the masses of all intervals of the minimiser, for both of two neighbours."""
    _, loss, codes, kinks, regularization = case
    kinks = [sign * kink for kink in kinks for sign in (1, -1)]
    w = intervals(kinks, regularization, scale)
    for pair in neighbours(codes, adjacency):
        yield [mass(noise_of(loss, rows, w, regularization), scale) for rows in pair]


def worst(case, adjacency, scale):
    """Return the largest exact delta at each epsilon."""
    found = [[both_ways(p, q, e) for e in EPSILONS] for p, q in laws(case, adjacency, scale)]
    return np.max(found, axis=0)


def row_of(loss, regularization, n_scores=1, **more):
    """Return what `calibrate` is told of a row's loss."""
    return {
        "lipschitz": loss.lipschitz,
        "radius": 1.0,
        "regularization": regularization,
        **loss.corners(n_scores),
        **more,
    }


def deltas(mechanism):
    """Return the claim at each epsilon."""
    return np.array([mechanism.delta(e) for e in EPSILONS])


def check_gaussian(checks):
    """Compare Gaussian noise for one feature: losses, kinds of neighbours, and too little noise."""
    for case in CASES:
        name, loss, _, _, regularization = case
        for adjacency in ("add_remove", "replace_one"):
            found = calibrate(*TARGET, **row_of(loss, regularization, adjacency=adjacency))
            what = f"{name}, Lambda = {regularization:g}, {adjacency}, sigma = "
            what += f"{found.noise_scale:.3f}"
            claimed = deltas(found.mechanism)
            exact = worst(case, adjacency, found.noise_scale)
            checks.curve(what, EPSILONS, exact, claimed)
            charged = deltas(GaussianDP(found.mechanism.dominating_mu()))
            checks.curve(f"{what}, in a ledger", EPSILONS, exact, charged)
            if regularization >= 20:  # where the claim has least to spare
                less = worst(case, adjacency, 0.7 * found.noise_scale)
                checks.found_out("0.7 of the noise", less, claimed)


def check_factors(checks):
    """Drop parts of the statement."""
    sharp = ("Huberised hinge", HuberizedHinge(0.5), (-1.0, 1.0), [0.5, 1.5], 0.1)
    exact = worst(sharp, "add_remove", 2.0)
    checks.found_out("no determinant", exact, deltas(GaussianDP(1 / 2.0)))
    # Of the order that has no determinant: residuals of two signs cost exactly two Gaussians.
    steep = ("Huber", Huber(1.0), (0.0,), [-1.0, 1.0], 0.02)
    p, q = next(laws(steep, "add_remove", 1.0))
    tail = EPSILONS[3:]
    exact = np.array([hockey_stick(p, q, e) for e in tail])
    one = np.array([gdp_delta(1.0, e) for e in tail])
    checks.curve("Huber, one order, Lambda = 0.02, two corners", tail, exact, 2 * one)
    checks.found_out("one corner", exact, one, factor=1.99)


def check_solver(checks):
    """Compare the minimiser and the noisy result of a solver that stays near it, together."""
    case, distance = CASES[2], 1e-3
    row = row_of(case[1], case[4])
    found = calibrate(*TARGET, **row, distance=distance)
    mu = 2 * distance / found.output_scale
    exact = []
    for epsilon in EPSILONS:
        pairs = (
            pair
            for both in laws(case, "add_remove", found.noise_scale)
            for pair in (both, both[::-1])
        )
        exact.append(max(joint(p, q, mu, epsilon) for p, q in pairs))
    what = f"minimiser and what is released, {distance:g} from it on either side"
    checks.curve(what, EPSILONS, exact, deltas(found.mechanism))


def joint(p, q, mu, epsilon):
    """Return the divergence of an outcome of masses p and q, and of a Gaussian mu apart."""
    seen = (p > 1e-18) & (q > 1e-18)
    losses = np.log(p[seen] / q[seen])
    rest = p[~seen].sum()
    return float(rest + sum(p[seen] * [gdp_delta(mu, epsilon - loss) for loss in losses]))


def check_pure(checks):
    """Compare noise of density exp(-|b| / s): log ratios of intervals are at most epsilon."""
    for case in (CASES[1], CASES[3]):
        name, loss, _, _, regularization = case
        for adjacency in ("add_remove", "replace_one"):
            row = row_of(loss, regularization, adjacency=adjacency)
            found = calibrate(1.0, 0.0, **row)
            exact = largest_ratio(case, adjacency, found.noise_scale)
            checks.holds(f"pure, {name}, {adjacency}, largest log ratio", exact, 1.0, relative=1e-6)
            if isinstance(loss, HuberizedHinge):  # where the claim has least to spare
                half = largest_ratio(case, adjacency, found.noise_scale / 2)
                checks.found_out("half the noise", half, 1.0)


def largest_ratio(case, adjacency, scale):
    """Return the largest log ratio of masses; tiny ones are rounding."""
    worst = 0.0
    for p, q in laws(case, adjacency, scale, laplace):
        seen = np.minimum(p, q) > 1e-9
        worst = max(worst, float(np.abs(np.log(p[seen] / q[seen])).max()))
    return worst


# ---- gradients on one segment: the worst of all paths that they can take as noise grows


def check_paths(checks):
    """Compare the worst path of a margin loss with the claim, at the noise for delta = 1e-6.

    In units of sigma the row moves the noise by h, from -Z to 0, and h grows at a rate of at most
    k = beta R^2 / Lambda: the densities are those of x and of x + h(x).
    """
    for epsilon in (0.3, 1.0, 3.0):
        for share in (0.08, 0.3):
            k = math.expm1(share * epsilon)
            row = {"lipschitz": 1.0, "smoothness": 1.0, "radius": 1.0, "regularization": 1 / k}
            found = calibrate(epsilon, 1e-6, **row)
            unit = 1 / found.noise_scale
            what = f"epsilon = {epsilon:g}, k = {k:.3g}"
            for at in (epsilon / 2, epsilon):
                exact, claimed = worst_path(unit, k, at), found.mechanism.delta(at)
                what_at = f"delta({at:g}) of the worst path, {what}"
                checks.holds(what_at, exact, claimed, relative=2e-3)
    # Curvature is no longer nearly free where it takes half of epsilon.
    exact = worst_path(0.2, 0.3, 0.5)
    checks.found_out("no curvature", exact, gdp_delta(0.2, 0.5), factor=3)


def worst_path(unit, k, epsilon, n_levels=200):
    """Return the largest delta of all h from -unit to 0 with slopes from 0 to k.

    By dynamic programming from large x down: in a step of x, h stands still or grows by a level.
    """
    step = unit / n_levels / k
    levels = np.linspace(-unit, 0.0, n_levels + 1)
    middles = (levels[1:] + levels[:-1]) / 2
    best = np.zeros(n_levels + 1)
    for x in np.arange(12.0, -2.0, -step) - step / 2:
        p = math.exp(epsilon) * density(x)
        grows = np.maximum((1 + k) * density(x + middles) - p, 0.0) * step + best[1:]
        best = best + np.maximum(density(x + levels) - p, 0.0) * step
        best[:-1] = np.maximum(best[:-1], grows)
    return best[0]


def density(x):
    """Return that of standard normal noise."""
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


# ---- three classes, one feature: the weights that matter lie in a plane

PLANE = np.array([[1, 1, -2], [1, -1, 0]]).T / np.sqrt([6, 2])


def cells(regularization, scale, points=300):
    """Return midpoints and areas of cells of the plane, fine in the middle."""
    reach, stretch = (7 * scale + 4) / regularization, 3.0
    t = (np.arange(points) + 0.5) * 2 / points - 1
    w = reach * np.sinh(stretch * t) / math.sinh(stretch)
    width = reach * stretch * np.cosh(stretch * t) / math.sinh(stretch) * 2 / points
    first, second = np.meshgrid(w, w, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1), np.outer(width, width).ravel()


def softmax_masses(rows, regularization, scale, at, areas):
    """Return the mass of each cell: the density of the noise there, times the determinant."""
    b, hessian = -regularization * at, np.tile(regularization * np.eye(2), (len(at), 1, 1))
    for phi, label in rows:
        p = softmax(phi * at @ PLANE.T, axis=1)
        b = b - phi * (p - np.eye(3)[label]) @ PLANE
        mean = p @ PLANE
        second = np.einsum("nk,ki,kj->nij", p, PLANE, PLANE)
        hessian = hessian + phi**2 * (second - mean[:, :, None] * mean[:, None, :])
    density = np.exp(-np.sum(b**2, axis=1) / (2 * scale**2)) / (2 * math.pi * scale**2)
    return density * np.linalg.det(hessian) * areas


def check_three_classes(checks):
    """Compare softmax: a simplex of corners, and a curvature of rank two."""
    base, one = [(0.5, 2)], [(0.5, 2), (1.0, 0)]
    for regularization in (0.8, 20.0):
        for adjacency, other in (("add_remove", base), ("replace_one", [*base, (-1.0, 0)])):
            row = row_of(Softmax(), regularization, 3, adjacency=adjacency)
            found = calibrate(*TARGET, **row)
            claimed = deltas(found.mechanism)
            what = f"three classes, Lambda = {regularization:g}, {adjacency}"
            missed, exact = softmax_deltas(one, other, regularization, found.noise_scale)
            checks.holds(f"{what}, mass that the sum misses", missed, 1e-6)
            checks.curve(what, EPSILONS, exact, claimed, relative=2e-3)
            if regularization >= 20:  # where the claim has least to spare
                _, half = softmax_deltas(one, other, regularization, found.noise_scale / 2)
                checks.found_out("half the noise", half, claimed)


def softmax_deltas(one, other, regularization, scale):
    """Return the mass that the sum over cells misses, and delta at each epsilon."""
    at, areas = cells(regularization, scale)
    p, q = (softmax_masses(rows, regularization, scale, at, areas) for rows in (one, other))
    return abs(1 - p.sum()), [both_ways(p, q, e) for e in EPSILONS]


def main():
    """Print all comparisons, and fail where one does."""
    checks = Checks(f"Objective perturbation, epsilon and delta = {TARGET}")
    check_gaussian(checks)
    check_factors(checks)
    check_solver(checks)
    check_three_classes(checks)
    check_pure(checks)
    check_paths(checks)
    checks.close()


if __name__ == "__main__":
    main()
