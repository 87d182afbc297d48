"""Events that tell the outputs on two data sets apart, and what their counts prove.

What the two probabilities of an event prove hangs on the family of claims that it refutes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri
from sklearn.linear_model import Ridge

from ..privacy._mechanisms import gdp_epsilon

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]  # outputs on X and on X_neighbour, each of shape (trials, length)

# ---- claims


@dataclass(frozen=True)
class Claims:
    """Claims that an event of probability p on one data set and q on the other can refute.

    `bound` rises with p and falls with q, so that confidence limits may stand for both.

    Parameters
    ----------
    family : None or "gaussian"
        None is (epsilon, delta) for any release: ``p <= exp(epsilon) q + delta``. "gaussian" is
        mu-GDP, ``p <= Phi(Phi^-1(q) + mu)``, stated as the epsilon that mu implies at `delta`.
    delta : float
    """

    family: str | None
    delta: float

    def gain(self, p: Any) -> Any:
        """Return what p is worth."""
        return np.log(np.maximum(p - self.delta, 0.0)) if self.family is None else ndtri(p)

    def cost(self, q: Any) -> Any:
        """Return what q takes off."""
        return np.log(q) if self.family is None else ndtri(q)

    def bound(self, likely: int, rare: int, n: int, error: float) -> float:
        """Return the lower bound on the privacy parameter, epsilon or mu, of an event's counts.

        Each of the two limits errs with probability `error`.
        """
        with np.errstate(divide="ignore"):
            gain = self.gain(lower_limit(likely, n, error))
            return float(gain - self.cost(upper_limit(rare, n, error)))

    def epsilon(self, bound: float) -> float:
        """Return the epsilon, at `delta`, that a bound stands for."""
        if self.family is None:
            return max(0.0, bound)
        found = gdp_epsilon(max(0.0, bound), self.delta)
        return max(0.0, found * (1 - 1e-9) - 1e-11)  # it is rounded up there


# ---- the choice of an event


def take(pair: Pair, index: Any) -> Pair:
    """Return the same trials of both data sets."""
    return pair[0][index], pair[1][index]


def split(pair: Pair) -> tuple[Pair, Pair]:
    """Return the first half of the trials and the second."""
    middle = len(pair[0]) // 2
    return take(pair, slice(middle)), take(pair, slice(middle, None))


def lower_limit(count: Any, n: int, error: float) -> Any:
    """Return the Clopper-Pearson limit that a probability is below with prob. `error` at most."""
    count = np.asarray(count)
    return np.where(count == 0, 0.0, betaincinv(np.maximum(count, 1), n - count + 1, error))


def upper_limit(count: Any, n: int, error: float) -> Any:
    """Return the Clopper-Pearson limit that a probability is above with prob. `error` at most."""
    count = np.asarray(count)
    return np.where(count == n, 1.0, betainccinv(count + 1, np.maximum(n - count, 1), error))


class Limits:
    """Bounds on the parameter of `claims` for all counts out of `n` that choose an event.

    About so many events are looked at, so each limit errs by a part of `error`.
    """

    def __init__(self, n: int, error: float, claims: Claims):
        counts = np.arange(n + 1)
        with np.errstate(divide="ignore"):
            self._gains = claims.gain(lower_limit(counts, n, error / n))
            self._costs = claims.cost(upper_limit(counts, n, error / n))

    def bound(self, likely: Any, rare: Any) -> Any:
        """Return the bound for an event's counts on its two data sets."""
        return self._gains[likely] - self._costs[rare]


@dataclass(frozen=True)
class _Statistic:
    """One number for each output."""

    name: str
    score: Callable[[Floats], Floats]  # (trials, length) -> (trials,)


_RELATIONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
# How far a score lies inside the event; tests at other thresholds of it make the event's curve.
_MARGINS = {
    "<=": lambda scores, threshold: threshold - scores,
    ">=": lambda scores, threshold: scores - threshold,
    "==": lambda scores, threshold: -np.abs(scores - threshold),
    "!=": lambda scores, threshold: np.abs(scores - threshold),
}


@dataclass(frozen=True)
class _Event:
    """A set of outputs, and the data set on which it is likelier: X (0) or X_neighbour (1)."""

    statistic: _Statistic
    relation: str
    threshold: float
    likelier: int
    bound: float  # on the trials that chose it

    def counts(self, pair: Pair) -> tuple[int, int]:
        holds = _RELATIONS[self.relation]
        on_x, on_neighbour = (holds(self.statistic.score(part), self.threshold) for part in pair)
        return int(on_x.sum()), int(on_neighbour.sum())

    def curve(self, pair: Pair) -> tuple[tuple[float, float], ...]:
        """Return shares of false alarms and of misses, an alarm being for `likelier`."""
        margin = _MARGINS[self.relation]
        margins = [margin(self.statistic.score(part), self.threshold) for part in pair]
        likely, rare = np.sort(margins[self.likelier]), np.sort(margins[1 - self.likelier])
        # The size of a curve does not grow with the number of trials.
        levels = np.linspace(0, 1, 200)
        cuts = np.unique(np.quantile(np.concatenate(margins), levels, method="nearest"))
        misses = np.searchsorted(likely, cuts) / len(likely)
        alarms = 1 - np.searchsorted(rare, cuts) / len(rare)
        return tuple(zip(alarms.tolist(), misses.tolist(), strict=True))

    def __str__(self) -> str:
        where = ("X", "X_neighbour")[self.likelier]
        return f"{self.statistic.name} {self.relation} {self.threshold:.6g}, likelier on {where}"


def choose_event(training: Pair, statistic: Any, error: float, claims: Claims) -> _Event:
    """Return the event whose bound on the training trials is the largest."""
    if callable(statistic):
        statistics, judges = [_custom(statistic)], training
    elif training[0].shape[1] == 1:
        statistics, judges = [_coordinate(0, "output")], training
    else:
        fit, judges = split(training)
        statistics = list(_learn(fit, Limits(len(fit[0]), error, claims)))
    limits = Limits(len(judges[0]), error, claims)
    return _strongest(_best_event(statistic, judges, limits) for statistic in statistics)


def _strongest(events: Iterable[_Event]) -> _Event:
    return max(events, key=operator.attrgetter("bound"))


def _best_event(statistic: _Statistic, pair: Pair, limits: Limits) -> _Event:
    n = len(pair[0])
    values, index = np.unique(
        np.concatenate([statistic.score(part) for part in pair]), return_inverse=True
    )
    at = np.stack([np.bincount(part, minlength=len(values)) for part in np.split(index, 2)])
    below = at.cumsum(axis=1)
    counts = {"<=": below, ">=": n - below + at, "==": at, "!=": n - at}

    def best(relation: str, likelier: int) -> _Event:
        bounds = limits.bound(counts[relation][likelier], counts[relation][1 - likelier])
        i = bounds.argmax()
        return _Event(statistic, relation, float(values[i]), likelier, float(bounds[i]))

    return _strongest(best(relation, likelier) for relation in counts for likelier in (0, 1))


# ---- statistics


def _custom(function: Callable[[Floats], float]) -> _Statistic:
    def score(outputs: Floats) -> Floats:
        scores = np.array([float(function(output)) for output in outputs])
        if not np.isfinite(scores).all():
            raise ValueError(
                "statistic must return finite numbers, got nan or inf; clip or encode them."
            )
        return scores

    return _Statistic("statistic", score)


def _coordinate(j: int, name: str | None = None) -> _Statistic:
    return _Statistic(name or f"output[{j}]", lambda outputs: outputs[:, j])


def _learn(fit: Pair, limits: Limits) -> Iterator[_Statistic]:
    """Yield statistics that may tell the two halves of `fit` apart."""
    length = fit[0].shape[1]
    coordinates = (_best_event(_coordinate(j), fit, limits) for j in range(length))
    yield _strongest(coordinates).statistic
    everything = np.arange(length)
    yield from _scores(fit, everything, "all outputs")
    significant = np.flatnonzero(_is_significant(*fit))
    if 0 < len(significant) < length:
        yield from _scores(fit, significant, f"{len(significant)} significant outputs")


def _is_significant(a: Floats, b: Floats) -> NDArray[np.bool_]:
    gap = a.mean(axis=0) - b.mean(axis=0)
    # Three standard errors of a difference of means are more than chance.
    return gap**2 > 3.0**2 * (a.var(axis=0) + b.var(axis=0)) / len(a)


def _scores(fit: Pair, columns: NDArray[np.intp], name: str) -> Iterator[_Statistic]:
    """Yield the statistics that combine some of the outputs, each standardised."""
    pooled = np.concatenate(fit)[:, columns]
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    scale[scale == 0] = 1.0

    def standard(outputs: Floats) -> Floats:
        return (outputs[:, columns] - centre) / scale

    def of_standard(label: str, score: Callable[[Floats], Floats]) -> _Statistic:
        return _Statistic(label, lambda outputs: score(standard(outputs)))

    a, b = standard(fit[0]), standard(fit[1])
    yield of_standard(f"distance of {name}", lambda z: np.abs(z).sum(axis=1))
    yield of_standard(f"Laplace score of {name}", _laplace_ratio(a, b))
    # Relative to the variances, which are one, ridges go from least squares, where noise that
    # cancels between coordinates shows, to the plain difference of means, for fewer trials than
    # coordinates.
    for ridge in (1e-10, 1e-1, 1e1):
        yield of_standard(f"linear score of {name} (ridge {ridge:g})", _linear(a, b, ridge))


def _laplace_ratio(a: Floats, b: Floats) -> Callable[[Floats], Floats]:
    """Return the log likelihood ratio of independent Laplace noise around the two medians."""
    at_a, at_b = np.median(a, axis=0), np.median(b, axis=0)
    spread = (np.abs(a - at_a) + np.abs(b - at_b)).mean(axis=0) / 2
    weights = 1 / np.maximum(spread, 1e-6)  # a constant weighs as much as a million others
    return lambda z: (np.abs(z - at_b) - np.abs(z - at_a)) @ weights


def _linear(a: Floats, b: Floats, ridge: float) -> Callable[[Floats], Floats]:
    """Return the score along Fisher's direction, the regression of the data set on the outputs."""
    z = np.concatenate([a, b]) / np.sqrt(2 * len(a))
    label = np.repeat([1.0, -1.0], len(a))
    weights = Ridge(alpha=ridge, fit_intercept=False).fit(z, label).coef_
    return lambda z: z @ weights
