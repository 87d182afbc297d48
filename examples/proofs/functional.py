"""The functional mechanism: how far minimisers are apart, and what noise on a function reveals.

    python examples/proofs/functional.py

`docs/proofs.md` has the theorem in short. Printed are: how far exact minimisers of neighbouring
tables are apart, the worst of many tables, beside L R / Lambda; the exact delta of the noise that
the library calibrates, by quadrature of Gaussian densities; that of an adaptive stream of queries,
whose directions hang on earlier answers; and how far coordinates at public points of a kernel move.

Theorem
-------
- **Input**: rows x with |phi(x)| <= R in a Hilbert space, of any dimension. Public: Lambda > 0, and
  a convex loss whose gradient in the scores has length at most L. w* minimises `F(w) = sum_i
  loss(<w, phi(x_i)>, y_i) + (Lambda / 2) |w|^2`.
- **Neighbours**: one row comes or goes (n = 1) or is replaced (n = 2); k rows of a group come or go
  (n = k) or are replaced (n = 2 k).
- **Measure**: Gaussian differential privacy.
- **Statement**:

  1. Minimisers of neighbours are at most `Delta_w = n L R / Lambda` apart, and in general no less.
  2. In an orthonormal basis of any finite subspace, noise of standard deviation Delta_w / mu on
     each coordinate makes all coordinates together mu-GDP. A prediction at z, read off them, has
     noise of at most Delta_w |phi(z)| / mu.
  3. The same holds where the subspace grows by a direction per query, chosen by all earlier
     answers.
  4. Noise of density proportional to exp(-|x| epsilon / Delta_w) on the coordinates is epsilon-DP.

Proof
-----
**1.** Let w be the minimiser for D, and w' for D and n rows more. The gradient of F_D is 0 at
w; at w' it is that of the n rows' losses with the sign changed, each of which is phi times a
gradient in the scores, so its norm is at most n L R. F_D is Lambda-strongly convex, so

    Lambda |w' - w|^2 <= <grad F_D(w') - grad F_D(w), w' - w> <= n L R |w' - w|.

What is replaced goes and comes. *No less*: with no other row, a feature of norm R and a loss
that has the slope L at 0 and beyond, the minimiser moves from 0 by exactly L R / Lambda. ∎

**2.** Coordinates of a projection are no farther apart than w and w' are. Given that distance,
the loss of Gaussian noise is that of the two normal laws N(0, 1) and N(mu, 1), along the
difference: mu-GDP. At z the prediction is the inner product with the coordinates of phi(z), of
length at most |phi(z)|. ∎

**3.** Query t measures the coordinate of f along a unit vector e_t that is orthogonal to e_1 ..
e_(t-1), which the earlier answers decide. By Bessel's inequality sum_t <e_t, w - w'>^2 <= |w -
w'|^2 on every path, so this is Lemma 1. ∎

**4.** By the triangle inequality lengths differ by at most Delta_w. ∎

In practice
-----------
With L L^T = K_ZZ + j I the coordinates of f in the span of public points Z are u = L^-1 f(Z).
For the difference v of two functions' values `|L^-1 v|^2 = v^T (K_ZZ + j I)^-1 v <= |P_Z (w -
w')|^2`, so the jitter j only lowers the sensitivity. Likewise a row's coordinates L^-1 k(Z, x)
are no longer than phi(x). A point that was asked before opens no direction: it gets the same
answer, and no new noise. The solver returns a function certified to lie within t of the
minimiser, and float64 adds r, so the library's Delta_w is `n L R / Lambda + 2 (t + r)` (r is
proved in `skdpsumm.learners.erm._problem`; `tests/test_rounding.py` holds it against rational
arithmetic). Rounding to a grid of 2^-20 Delta_w adds sqrt(N) units for N coordinates. With
"average" a group's losses have shares that sum to 1 at most, so n = 1.
"""

import math

import numpy as np
from _checks import Checks
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import brentq
from sklearn.metrics.pairwise import rbf_kernel

from skdpsumm.learners.erm._losses import Huber, HuberizedHinge, Logistic
from skdpsumm.learners.erm._problem import Terms
from skdpsumm.learners.mechanisms._functional import CoordinateNoise
from skdpsumm.privacy._mechanisms import gdp_delta, gdp_mu

EPSILONS = np.array([0.0, 0.3, 0.6, 1.0, 1.5, 2.0])


def terms(loss, regularization, **more):
    """Return the public numbers of a fit with features of norm 1 and one score."""
    given = {"epsilon": 1.0, "delta": 1e-3, "adjacency": "add_remove"}
    return Terms(loss=loss, regularization=regularization, radius=1.0, n_scores=1, **given | more)


# ---- how far a row moves the minimiser


def minimiser(loss, rows, regularization):
    """Return the exact minimiser of one weight."""
    features, codes = np.reshape(rows, (-1, 2)).T[:, :, None]

    def gradient(w):
        return regularization * w + float((features * loss.gradient(features * w, codes)).sum())

    reach = (len(rows) + 1) * loss.lipschitz / regularization
    return brentq(gradient, -reach, reach, xtol=1e-14, rtol=1e-14)


def largest_move(loss, codes, regularization, changed, rng, n_tables=25):
    """Return how far minimisers are apart where the rows `changed` come, the worst of many tables.

    `changed` is a list of pairs: the rows that one table has more, and those that the other has.
    """
    tables = [[], *([] for _ in range(n_tables))]
    for rows in tables[1:]:
        rows += [(rng.uniform(-1, 1), rng.choice(codes)) for _ in range(rng.integers(1, 8))]
    found = [
        abs(
            minimiser(loss, rows + here, regularization)
            - minimiser(loss, rows + there, regularization)
        )
        for rows in tables
        for here, there in changed
    ]
    return max(found)


def check_moves(checks):
    """Compare for rows that come, or are replaced, and for groups."""
    rng = np.random.default_rng(0)
    for name, loss, codes in (
        ("logistic", Logistic(), [-1.0, 1.0]),
        ("Huberised hinge", HuberizedHinge(0.5), [-1.0, 1.0]),
        ("Huber", Huber(0.5), [0.0, 1.5]),
    ):
        regularization = 6.0
        comes = [([(phi, code)], []) for phi in (1.0, -1.0, 0.3) for code in codes]
        replaced = [(one[0], other[0]) for one in comes for other in comes]
        group = [(3 * one[0], []) for one in comes]
        cases = {
            "a row comes": (comes, terms(loss, regularization)),
            "a row is replaced": (replaced, terms(loss, regularization, adjacency="replace_one")),
            "three rows come": (group, terms(loss, regularization, rows_of_unit=3)),
        }
        for what, (changed, public) in cases.items():
            exact = largest_move(loss, codes, regularization, changed, rng)
            bound = public.n_moved * public.step
            checks.holds(f"{name}, {what}, distance of minimisers", exact, bound)
            if name == "Huberised hinge":  # whose slope is L at 0
                checks.found_out("0.9 of the bound", exact, 0.9 * bound)
                if public.n_moved > 1:
                    checks.found_out("the bound of one row", exact, public.step)


# ---- noise on coordinates


def quadrature(distance, std, epsilon):
    """Return the hockey-stick divergence of two Gaussians by the midpoint rule."""
    y = np.linspace(-12 * std, 12 * std + distance, 200_001)
    middle, width = (y[1:] + y[:-1]) / 2, y[1] - y[0]
    p, q = (np.exp(-((middle - center) ** 2) / (2 * std**2)) for center in (0.0, distance))
    excess = np.maximum(p - math.exp(epsilon) * q, 0).sum() * width
    return float(excess) / (std * math.sqrt(2 * math.pi))


def check_noise(checks):
    """Compare the library's noise, for minimisers Delta_w apart, in one coordinate and in many."""
    for n_coordinates in (1, 200):
        public = terms(HuberizedHinge(0.5), 6.0)
        noise = CoordinateNoise(n_coordinates, public)
        exact, half = (
            [quadrature(public.sensitivity, std, e) for e in EPSILONS]
            for std in (noise.std, noise.std / 2)
        )
        claimed = [noise.mechanism.delta(e) for e in EPSILONS]
        what = f"{n_coordinates} coordinate(s), noise {noise.std / public.sensitivity:.4f} Delta_w"
        checks.curve(what, EPSILONS, exact, claimed, relative=1e-6)
        checks.found_out("half the noise", half, claimed)


def check_pure_noise(checks):
    """Compare pure noise, of density exp(-|x| epsilon / Delta), in two coordinates."""
    side = np.linspace(-6, 6, 601)
    at = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    turns = np.linspace(0, math.pi / 2, 16)
    moves = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    radial = max((np.linalg.norm(at - v, axis=1) - np.linalg.norm(at, axis=1)).max() for v in moves)
    each = max((np.abs(at - v).sum(axis=1) - np.abs(at).sum(axis=1)).max() for v in moves)
    checks.holds("pure noise of two coordinates, largest log ratio", radial, 1.0)
    checks.found_out("Laplace noise of that scale on each coordinate", each, 1.0)


# ---- adaptive queries

MU, TURN = gdp_mu(1.0, 1e-3), 0.5


def stream(difference, direction_after, epsilon):
    """Return the exact delta of two answers, the second's direction chosen by the first.

    Coordinates are in units of the noise, and functions differ by `difference`, of length MU. A
    direction is a unit vector orthogonal to the first, or zero: then nothing new is measured.
    """
    width = 0.01
    middle = TURN + width * (np.arange(-1100, 1100) + 0.5)  # no cell holds the turn
    first = difference[0]
    density = np.exp(-((middle - first) ** 2) / 2) / math.sqrt(2 * math.pi) * width
    losses = first * middle - first**2 / 2
    second = np.abs([difference @ direction_after(value) for value in middle])
    return float(
        sum(
            p * gdp_delta(m, epsilon - loss)
            for p, m, loss in zip(density, second, losses, strict=True)
        )
    )


def orthogonal(value):
    """Ask in a new direction after a small answer, and the same point again after a large one."""
    return np.array([0.0, 1.0]) if value < TURN else np.zeros(2)


def fresh(value):
    """Ask likewise, with new noise for a point that is asked again: a planted bug."""
    return np.array([0.0, 1.0]) if value < TURN else np.array([1.0, 0.0])


def check_stream(checks):
    """Compare adaptive answers, the worst of all directions of the difference."""
    claimed = [gdp_delta(MU, e) for e in EPSILONS]
    turns = np.linspace(0, math.pi / 2, 7)
    differences = [MU * np.array([math.cos(a), math.sin(a)]) for a in turns]
    for ask in (orthogonal, fresh):
        exact = np.max([[stream(v, ask, e) for e in EPSILONS] for v in differences], axis=0)
        if ask is orthogonal:
            checks.curve("two adaptive answers", EPSILONS, exact, claimed, relative=1e-4)
        else:
            checks.found_out("new noise for a point asked again", exact, claimed)


# ---- coordinates at public points of a kernel


def check_span(checks):
    """Compare coordinates L^-1 f(Z) of differences of functions with their norms."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (40, 2))
    factor = cholesky(rbf_kernel(points, gamma=1.0) + 1e-8 * np.eye(40), lower=True)
    moved, values_moved = [], []
    for n_rows in (1, 3, 40) * 20:
        near = points[rng.integers(0, 40, n_rows)] + rng.choice([0, 0.3]) * rng.normal(
            size=(n_rows, 2)
        )
        weights = rng.normal(size=n_rows)
        norm = math.sqrt(weights @ rbf_kernel(near, gamma=1.0) @ weights)
        values = rbf_kernel(points, near, gamma=1.0) @ weights
        moved.append(np.linalg.norm(solve_triangular(factor, values, lower=True)) / norm)
        values_moved.append(np.linalg.norm(values) / norm)
    checks.holds(
        "coordinates of 60 differences, in units of their norm", max(moved), 1.0, relative=1e-6
    )
    checks.found_out("0.9 of that", max(moved), 0.9)
    checks.found_out("noise of that size on the values themselves", max(values_moved), 1.0)


def main():
    """Print all comparisons, and fail where one does."""
    checks = Checks("The functional mechanism")
    check_moves(checks)
    check_noise(checks)
    check_pure_noise(checks)
    check_stream(checks)
    check_span(checks)
    checks.close()


if __name__ == "__main__":
    main()
