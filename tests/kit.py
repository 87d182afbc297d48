"""One kit for what every private fit promises: what it draws, what that costs, what it publishes.

*The wire.* All noise is drawn in three places of `privacy._noise`, below which is OpenDP (its laws
are tested in `test_noise`). A `Wire` records what goes in and what comes out there. A second fit,
of other rows, is given the same outputs. Then

- if it asks for other noise, or what it publishes is not the same bit for bit, something went past
  the wire: a rule, a size or a number that was read off the rows. The rows may be any others;
- if the rows are neighbours, the inputs of each draw and its scale say what it costs, exactly, for
  whatever is made of the outputs costs nothing. This is the sensitivity over the noise, in one
  number, and with no statistics: `part_used` is 1 where neighbours reach the claim.

So two fits show what an audit of thousands bounds. What the wire does not see, since its cost is
not the sum over draws, has tests of its own: objective perturbation, tests of "svt" and
"threshold", the choice of a point in a ball, the best of several trials.
"""

import math
import pickle
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
from sklearn.base import clone

from skdpsumm.learners.mechanisms import _functional
from skdpsumm.privacy import GaussianDP, PureDP, _noise
from skdpsumm.privacy._mechanisms import ZeroConcentratedDP

ADJACENCIES = ["add_remove", "replace_one"]
ARMS = [(1.0, True), (0.7, False), (1.3, False)]


class PastTheWire(AssertionError):
    """A release asked for other noise when it was told the same."""


@dataclass
class Draw:
    """One draw: "laplace", "gaussian", "choice", or "radial", whose values are not seen."""

    kind: str
    values: Any
    scale: float
    out: Any

    def told(self):
        """Return what is public of it."""
        return self.kind, np.shape(self.values), self.scale


class Wire:
    """Records all draws of a run, or gives those of an earlier one.

    Parameters
    ----------
    earlier : list of Draw, default=None
        Draws to give again.
    factor : float, default=1.0
        What all noise but that of choices is multiplied by: a planted bug, unless it is 1.
    """

    def __init__(self, earlier=None, factor=1.0):
        self.earlier, self.factor, self.draws = earlier, factor, []

    def run(self, work):
        """Return what a function of no arguments returns."""
        laplace, gaussian, choose = _noise._laplace_i64, _noise._gaussian_i64, _noise._noisy_max
        radial, secret = _noise.radial_noise, np.random.default_rng(7)
        integers = {"laplace": laplace, "gaussian": gaussian}

        def noisy(kind):
            return lambda values, scale: self._draw(
                kind, values, scale * self.factor, integers[kind], values, scale * self.factor
            )

        def noisy_max(scale):
            return lambda scores: self._draw("choice", scores, scale, choose(scale), scores)

        def noise_of_a_length(shape, scale, rng):
            scale = scale * self.factor
            return self._draw("radial", np.zeros(shape), scale, radial, shape, scale, rng)

        def randbits(n_bits):
            return int.from_bytes(secret.bytes(n_bits // 8), "little")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_noise, "_laplace_i64", noisy("laplace"))
            patch.setattr(_noise, "_gaussian_i64", noisy("gaussian"))
            patch.setattr(_noise, "_noisy_max", noisy_max)
            patch.setattr(_noise, "secrets", SimpleNamespace(randbits=randbits))
            patch.setattr(_functional, "radial_noise", noise_of_a_length)
            found = work()
        if self.earlier is not None and len(self.draws) < len(self.earlier):
            raise PastTheWire("draws are missing")
        return found

    def _draw(self, kind, values, scale, draw, *given):
        new = Draw(kind, np.array(values), scale, None)
        if self.earlier is None:
            new.out = draw(*given)
        else:
            place = len(self.draws)
            if place == len(self.earlier) or self.earlier[place].told() != new.told():
                raise PastTheWire(f"draw {place} is another: {new.told()}")
            new.out = self.earlier[place].out
        self.draws.append(new)
        return new.out


def arguments(data):
    """Return a table, a pair (X, y) or the arguments of a fit as the latter."""
    if isinstance(data, dict):
        return data
    return dict(zip("Xy", data, strict=True)) if isinstance(data, tuple) else {"X": data}


def publish(model, data):
    """Return a fit, and all that it publishes: of interactive learners, answers at three points."""
    given = arguments(data)
    fitted = clone(model).fit(**given)
    if getattr(fitted, "holds_private_data", False):
        # The first row is the same in both tables, so that asking at it tells nothing.
        points = np.asarray(given["X"][:1], float) + np.array([[0.0], [0.1], [0.0]])
        return fitted, {"answers": fitted._scores(points).tobytes()}
    return fitted, {name: pickle.dumps(value) for name, value in vars(fitted).items()}


# What learners publish of noisy weights, such as how large the noise is beside them.
OF_WEIGHTS = "predictor_", "answers_", "noise_", "privacy_"


def weights(fitted):
    """Return the weights that a learner of explicit features publishes."""
    fitted = getattr(fitted, "best_estimator_", fitted)
    function = getattr(fitted, "predictor_", None) or fitted.answers_.hypothesis()
    return function.coefficients


def replayed(model, first, second, publish=publish, factor=1.0):
    """Return the draws of two fits of which the second is told what the first was, and the fit.

    `publish` returns a fitted model, and what anyone can see of it, by name.
    """
    one = Wire(factor=factor)
    fitted, seen = one.run(lambda: publish(model, first))
    other = Wire(one.draws, factor)
    again, seen_again = other.run(lambda: publish(model, second))
    for draw, draw_again in zip(one.draws, other.draws, strict=True):
        if draw.kind == "radial":  # added to weights, which then differ by how far these move
            draw.values, draw_again.values = weights(fitted), weights(again)
            seen_again |= {name: seen[name] for name in OF_WEIGHTS if name in seen}
    unlike = [name for name in {*seen, *seen_again} if seen.get(name) != seen_again.get(name)]
    if unlike:
        raise PastTheWire(f"what is published is another: {sorted(unlike)}")
    return one.draws, other.draws, fitted


def cost(draws, others, mechanism):
    """Return what draws cost between the two tables: epsilon, squared mu, or rho."""
    total = mpmath.mpf(0)
    for one, other in zip(draws, others, strict=True):
        moved = (one.values - other.values).astype(float)
        if one.kind == "choice":
            width = mpmath.mpf(np.ptp(moved) / one.scale)
            total += {
                PureDP: lambda width=width: width,
                GaussianDP: lambda width=width: mu_of_range(width) ** 2,
                ZeroConcentratedDP: lambda width=width: width**2 / 8,
            }[mechanism]()
        elif mechanism is PureDP:
            assert one.kind in ("laplace", "radial")
            order = 1 if one.kind == "laplace" else 2
            total += np.linalg.norm(moved.ravel(), order) / one.scale
        else:
            assert one.kind == "gaussian" or mechanism is ZeroConcentratedDP
            square = (np.linalg.norm(moved) / one.scale) ** 2
            total += square if mechanism is GaussianDP else square / 2
    return total


def mu_of_range(width):
    """Return the mu of a choice of a bounded range (docs/proofs)."""
    return 2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(-width / 2)) - 1)


def part_used(model, first, second, publish=publish, factor=1.0, claim=None):
    """Return what the release costs between two tables, as a part of what it claims."""
    draws, others, fitted = replayed(model, first, second, publish, factor)
    return part_of((fitted.privacy_ if claim is None else claim(fitted)).mechanism, draws, others)


def part_of(mechanism, draws, others):
    """Return what draws cost between the two tables, as a part of a claim."""
    if mechanism == PureDP(0.0):
        assert all(np.array_equal(a.values, b.values) for a, b in zip(draws, others, strict=True))
        return 0.0
    paid = {
        PureDP: lambda: mechanism.epsilon0,
        GaussianDP: lambda: mechanism.mu**2,
        ZeroConcentratedDP: lambda: mechanism.rho,
    }[type(mechanism)]()
    return float(cost(draws, others, type(mechanism)) / paid)


class EvenModel:
    """A model of tables that expects the same of all cells, so that every score is moved as far
    as can be. What an `AdaptiveSketcher` makes of released counts costs nothing.
    """

    def __init__(self, sizes, **_):
        self.sizes = sizes

    def fit(self, *_, **__):
        return self

    def share(self, n_cells):
        return 1 / n_cells

    def marginals(self, groups):
        sizes = {group: [self.sizes[j] for j in group] for group in groups}
        return {g: np.full(own, self.share(math.prod(own))) for g, own in sizes.items()}


def has_std(sample, std, kurtosis=3.0):
    """Whether the variance lies within ten standard errors of `std` squared."""
    sample = np.ravel(sample)
    error = std**2 * math.sqrt((kurtosis - 1) / sample.size)
    return bool(abs(np.mean(sample**2) - std**2) < 10 * error)
