"""A lower bound on epsilon, measured by running a release many times on two neighbours.

A release that is (epsilon, delta)-differentially private satisfies, for every set S of outputs,
``P[release(X) in S] <= exp(epsilon) P[release(X') in S] + delta``. So any S whose two
probabilities are known to lie far apart refutes an epsilon. Half of the trials look for the most
telling S, in any way they like; the other half estimate its probabilities, once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, gammaln, ndtr, ndtri
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state

from .._computing import Floats
from .._html import open_axes
from .._sklearn import Interval, StrOptions, validate_parameter_constraints
from ..privacy._mechanisms import gdp_epsilon, gdp_mu

Pair = tuple[Floats, Floats]  # outputs on X and on X_neighbour, each of shape (trials, length)
# Takes the counts of an event on the data set where it is likelier and on the other.
Bounds = Callable[[Any, Any], Any]

# ---- claims


@dataclass(frozen=True)
class Claims:
    """Claims that an event of probability p on one data set and q on the other can refute.

    Parameters
    ----------
    family : None or "gaussian"
        None is (epsilon, delta) for any release: ``p <= exp(epsilon) q + delta``. "gaussian" is
        mu-GDP, ``p <= Phi(Phi^-1(q) + mu)``, stated as the epsilon that mu implies at `delta`.
    delta : float
    """

    family: str | None
    delta: float

    def bounds(self, n: int, error: float) -> Bounds:
        """Return what gives lower bounds on the privacy parameter, epsilon or mu, of counts.

        They rise with p and fall with q, so that confidence limits stand for both. Each of the two
        limits errs with probability `error`.
        """
        counts = np.arange(n + 1)
        worth, given = (np.log, self.delta) if self.family is None else (ndtri, 0.0)
        with np.errstate(divide="ignore"):
            gains = worth(np.maximum(lower_limit(counts, n, error) - given, 0.0))
            costs = worth(upper_limit(counts, n, error))
        return lambda likely, rare: gains[likely] - costs[rare]

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
        statistics = list(_learn(fit, _bounds_of_many(fit, error, claims)))
    bounds = _bounds_of_many(judges, error, claims)
    return _strongest(_best_event(statistic, judges, bounds) for statistic in statistics)


def _bounds_of_many(pair: Pair, error: float, claims: Claims) -> Bounds:
    """Return bounds that choose an event: about as many are looked at as there are trials."""
    n = len(pair[0])
    return claims.bounds(n, error / n)


def _strongest(events: Iterable[_Event]) -> _Event:
    return max(events, key=operator.attrgetter("bound"))


def _best_event(statistic: _Statistic, pair: Pair, bounds: Bounds) -> _Event:
    n = len(pair[0])
    values, index = np.unique(
        np.concatenate([statistic.score(part) for part in pair]), return_inverse=True
    )
    at = np.stack([np.bincount(part, minlength=len(values)) for part in np.split(index, 2)])
    below = at.cumsum(axis=1)
    counts = {"<=": below, ">=": n - below + at, "==": at, "!=": n - at}

    def best(relation: str, likelier: int) -> _Event:
        found = bounds(counts[relation][likelier], counts[relation][1 - likelier])
        i = found.argmax()
        return _Event(statistic, relation, float(values[i]), likelier, float(found[i]))

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


def _learn(fit: Pair, bounds: Bounds) -> Iterator[_Statistic]:
    """Yield statistics that may tell the two halves of `fit` apart."""
    length = fit[0].shape[1]
    coordinates = (_best_event(_coordinate(j), fit, bounds) for j in range(length))
    yield _strongest(coordinates).statistic
    yield from _scores(fit, np.arange(length), "all outputs")
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


# ---- what was found

# A claim of Gaussian DP is one of a whole trade-off curve, of which (epsilon, delta) is a point.
_GAUSSIAN_ONLY = "refutes claims of Gaussian differential privacy only"
# Where the trade-off curve of a claim is drawn.
_ALARMS = np.linspace(0, 1, 501)


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What an audit has proved about a release.

    Attributes
    ----------
    lower_bound : float
        With probability `confidence`, the release is (epsilon, delta)-differentially private for
        no epsilon below this. It is zero where nothing was found. With ``family="gaussian"`` it is
        about Gaussian claims alone: the release is mu-GDP for no mu below `mu`, and this is the
        epsilon that `mu` implies at `delta`.
    confidence : float
        Probability, over the release's own randomness, that the bound holds.
    delta : float
        The delta that was granted.
    n_trials : int
        Calls of the release per data set. The held-out half of them gives the bound.
    event : str
        The set of outputs that tells the two data sets apart, and the data set that it speaks for.
    counts : tuple of (int, int)
        How many held-out outputs lie in the event, on X and on X_neighbour.
    family : None or "gaussian"
        The claims that the bound refutes: any (None), or those of Gaussian differential privacy.
    mu : float or None
        With ``family="gaussian"``, the bound on mu.
    curve : tuple of (float, float)
        Errors of tests on the event's statistic, on held-out outputs, at up to 200 thresholds: the
        shares of false alarms and of misses. An alarm is for the data set on which the event is
        likelier. The curve is for `plot`; no bound is read off it.

    Examples
    --------
    >>> from skdpsumm.audit import AuditResult
    >>> result = AuditResult(1.62, 0.99, 0.0, 10_000, "output >= 10, likelier on X", (2500, 420))
    >>> result.refutes(1.0), result.rates
    (True, (0.5, 0.084))
    >>> result
    <AuditResult epsilon >= 1.62 with confidence 0.99 (delta=0)
      event: output >= 10, likelier on X
      held out: 2500 of 5000 on X, 420 of 5000 on X_neighbour
      largest bound that so many trials can give: 6.85>
    """

    lower_bound: float
    confidence: float
    delta: float
    n_trials: int
    event: str
    counts: tuple[int, int]
    family: str | None = None
    mu: float | None = None
    curve: tuple[tuple[float, float], ...] = field(default=())

    @property
    def n_held_out(self) -> int:
        """Number of outputs per data set that the bound rests on."""
        return self.n_trials - self.n_trials // 2

    @property
    def rates(self) -> tuple[float, float]:
        """Shares of the held-out outputs that lie in the event, on X and on X_neighbour."""
        return self.counts[0] / self.n_held_out, self.counts[1] / self.n_held_out

    @property
    def largest_bound(self) -> float:
        """The bound that a release without any privacy would get from as many trials."""
        n, error = self.n_held_out, (1 - self.confidence) / 2
        claims = Claims(self.family, self.delta)
        return claims.epsilon(float(claims.bounds(n, error)(n, 0)))

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of (`epsilon`, delta)-differential privacy is refuted.

        With ``family="gaussian"``, return whether a claim of Gaussian differential privacy is
        refuted whose mu implies (`epsilon`, delta).

        Raises
        ------
        ValueError
            If `epsilon` is negative or not a number.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}.")
        return self.lower_bound > epsilon

    def plot(self, ax: Any = None, *, epsilon: float | None = None) -> Any:
        """Draw the held-out trade-off of false alarms and misses; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        epsilon : float, default=None
            A claim, of (epsilon, delta) or, with ``family="gaussian"``, of the mu that implies it.
            What it forbids is shaded; None shades nothing, as an audit needs no claim. With
            probability `confidence`, the event's true errors exceed the cross in neither direction.
            If it lies in the shade, the claim is refuted.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If `epsilon` is negative or not a number.
        """
        ax = open_axes(ax, "AuditResult.plot", (6.8, 4))
        gaussian = self.family == "gaussian"
        if epsilon is not None:
            self.refutes(epsilon)  # complains of what is no epsilon
            kind = "Gaussian, " if gaussian else ""
            claim = f"{kind}epsilon = {epsilon:g}, delta = {self.delta:g}"
            style = {"color": "0.85", "lw": 0, "label": f"forbidden by the claim\n({claim})"}
            ax.fill_between(_ALARMS, _fewest_misses(self, epsilon), **style)
        ax.plot([0, 1], [1, 0], color="0.5", lw=1, ls=":", label="perfect privacy")
        if self.curve:
            ax.plot(*np.transpose(self.curve), color="k", lw=1.2, label="held-out outputs")
        _draw_event(self, ax)
        ax.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        bound = f"epsilon >= {self.lower_bound:.3g} with confidence {self.confidence:.10g}"
        title = f"{bound}\n(of Gaussian claims only)" if gaussian else bound
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1))
        return ax

    def __repr__(self) -> str:
        n = self.n_held_out
        gaussian = "" if self.family is None else f"\n  mu >= {self.mu:.4g}: {_GAUSSIAN_ONLY}"
        return (
            f"<AuditResult epsilon >= {self.lower_bound:.4g} with confidence "
            f"{self.confidence:.10g} (delta={self.delta:g}){gaussian}\n"
            f"  event: {self.event}\n"
            f"  held out: {self.counts[0]} of {n} on X, {self.counts[1]} of {n} on X_neighbour\n"
            f"  largest bound that so many trials can give: {self.largest_bound:.3g}>"
        )


# ---- the picture of a result


def _fewest_misses(result: AuditResult, epsilon: float) -> NDArray[np.float64]:
    """Return the trade-off curve of the claim: below it lie the tests that it forbids."""
    if result.family == "gaussian":
        return ndtr(ndtri(1 - _ALARMS) - gdp_mu(epsilon, result.delta))
    rest = 1 - result.delta
    factor = math.exp(epsilon)
    return np.maximum(0.0, np.maximum(rest - factor * _ALARMS, (rest - _ALARMS) / factor))


def _draw_event(result: AuditResult, ax: Any) -> None:
    """Draw the event's errors, and as a cross the confidence limits that the bound rests on."""
    n, error = result.n_held_out, (1 - result.confidence) / 2
    on_x, on_neighbour = result.counts
    on_neighbour_likelier = result.event.endswith("X_neighbour")
    rare, likely = (on_x, on_neighbour) if on_neighbour_likelier else (on_neighbour, on_x)
    point = rare / n, 1 - likely / n
    limits = upper_limit(rare, n, error), 1 - lower_limit(likely, n, error)
    ax.plot(*point, "o", color="k", ms=5, mfc="w", label="the event", zorder=3)
    ax.plot(*limits, "x", color="k", ms=6, label="its confidence limits", zorder=3)


# ---- the audit

# Fewer trials than 100 cannot show anything.
_CONSTRAINTS: dict[str, list[Any]] = {
    "delta": [Interval(Real, 0, 1, closed="left")],
    "n_trials": [Interval(Integral, 100, None, closed="left")],
    "confidence": [Interval(Real, 0.5, 1, closed="neither")],
    "statistic": [StrOptions({"auto"}), callable],
    "family": [None, StrOptions({"gaussian"})],
}


def audit_epsilon(
    release: Callable[[Any], Any],
    X: Any,
    X_neighbour: Any,
    *,
    delta: float = 0.0,
    n_trials: int = 10_000,
    confidence: float = 0.99,
    statistic: str | Callable[[Floats], float] = "auto",
    family: str | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> AuditResult:
    """Bound from below the epsilon that a release spends, by running it on two neighbours.

    Use it to try to refute a claim. A bound above the claimed epsilon refutes it. A bound below
    proves nothing: other neighbours, a sharper statistic or more trials may find more. The bound is
    distribution free: it holds with probability `confidence`, whatever the release does.

    Parameters
    ----------
    release : callable
        Takes a data set and returns a finite number or a 1-D array of numbers, always of the same
        length. It must draw fresh randomness in each call, since the trials count as independent.
        Calls run in one process, without pickling, or as ``joblib.parallel_config`` says (2
        processes, or "dask", for a cluster). With more, `release` must pickle, and must not carry a
        random generator: each process would get a copy in the same state. Where this shows, an
        error is raised.
    X, X_neighbour : object
        The two data sets, passed to `release` as they are. Make sure that they are neighbours under
        the adjacency that is claimed; `worst_case_neighbours` builds such pairs.
    delta : float, default=0.0
        The delta of the claim, in [0, 1). The default is for claims of pure differential privacy.
        Gaussian noise has no finite epsilon there: give the delta of its claim.
    n_trials : int, default=10_000
        Calls of `release` per data set, at least 100. The default gets within 0.15 of the truth
        for Laplace noise at epsilon = 1, and sees bounds up to 6.8. Memory grows with
        ``n_trials * length``, by about 40 bytes each.
    confidence : float, default=0.99
        Probability, in (0.5, 1), that the bound holds. An audit fails by chance with probability
        ``1 - confidence``, by default in one of 100. Take it closer to 1 if you run many.
    statistic : "auto" or callable, default="auto"
        What reduces an output to the one number whose value decides the event. A callable takes an
        output as a 1-D array and returns a number. "auto" needs no knowledge of the release: it
        takes a single number as it is. For arrays it learns single coordinates, ridge directions, a
        Laplace likelihood ratio and a distance from the centre, and keeps the one that separates
        best, all on the training half.
    family : None or "gaussian", default=None
        Which claims to refute. None bounds epsilon for any release, and so is the default.
        "gaussian" bounds the mu of Gaussian differential privacy and states the epsilon that it
        implies at `delta`. It is far sharper at a small delta, but it refutes only a claim of
        mu-GDP, as is made for Gaussian noise.
    random_state : int, RandomState instance or None, default=None
        Decides which trials train and which are held out; None splits them anew in each call. It
        does not reach `release`.

    Returns
    -------
    AuditResult
        The bound, `lower_bound`, and its evidence, `event` and `counts`. ``refutes(epsilon)`` says
        whether a claim is refuted. ``plot(epsilon=...)`` draws the held-out trade-off of false
        alarms and misses, and what the claim forbids (needs matplotlib).

    Raises
    ------
    ValueError
        If a parameter is out of range, or delta is 0 with ``family="gaussian"``; if outputs have
        more than one dimension, differ in length or are not finite; if a value of `statistic` is
        not finite; or if the noise repeats, as it does where processes copy one generator.

    Notes
    -----
    A random half of the trials chooses the statistic, one event among ``{s <= t}``, ``{s >= t}``,
    ``{s == t}``, ``{s != t}``, and which data set it speaks for. The held-out half then gives one
    lower Clopper-Pearson limit p and one upper limit q, each with error ``(1 - confidence) / 2``,
    and ``epsilon >= log((p - delta) / q)``, or zero if that is negative. Nothing is chosen on
    the held-out half, so no further correction is needed. The training half ranks events by the
    same formula, at an error divided by its size, because it looks at about that many events.
    Otherwise the best of many rare events would be rare rather than telling.

    *Gaussian claims.* mu-GDP says that the power p and the level q of every test of one data set
    against the other satisfy ``p <= Phi(Phi^-1(q) + mu)``, as no test between N(0, 1) and N(mu, 1)
    at this level has more. The event is a test like any other, so ``mu >= Phi^-1(p) - Phi^-1(q)``.
    This rises with p and falls with q, so the same two limits bound mu with the same confidence.
    The same formula chooses the event. Near-even odds, not tails, tell the most. A release that is
    (epsilon, delta)-DP but not Gaussian may have a larger mu than epsilon and delta imply. The
    bound then refutes nothing. The library claims its discrete noise as Gaussian but for a distance
    below 1e-12, which no number of trials sees.

    With T held-out trials (half of `n_trials`) the bound cannot exceed about
    ``log(T / log(2 / (1 - confidence)))``, however bad the leak: 6.8 by default, 9.2 for 100_000
    trials. An exact value released by mistake shows as this number, `AuditResult.largest_bound`.

    Source: Ding et al. (2018) and Bichsel et al. (2021) for events chosen on a training half,
    Jagielski et al. (2020) for the bound, Nasr et al. (2023) for that on mu (Dong, Roth and Su
    2022), Clopper and Pearson (1934) for the limits.

    Examples
    --------
    A count with noise of scale 1/2, which claims to spend epsilon = 1 but spends 2:

    >>> import numpy as np
    >>> from skdpsumm.audit import audit_epsilon
    >>> rng = np.random.default_rng(0)
    >>> def count(rows):
    ...     return len(rows) + rng.laplace(scale=0.5)
    >>> result = audit_epsilon(count, np.ones(10), np.ones(9), random_state=0)
    >>> result.refutes(1.0), result.refutes(2.0)
    (True, False)
    """
    given = {"delta": delta, "n_trials": n_trials, "confidence": confidence}
    _check(**given, statistic=statistic, family=family)
    outputs = _outputs(release, X, n_trials), _outputs(release, X_neighbour, n_trials)
    if outputs[0].shape != outputs[1].shape:
        raise ValueError(
            "release must return outputs of one length, got "
            f"{outputs[0].shape[1]} for X and {outputs[1].shape[1]} for X_neighbour. "
            "A length that depends on the data is a leak in itself: pad it to a public length."
        )
    order = check_random_state(random_state).permutation(n_trials)
    training, held_out = split(take(outputs, order))
    error, claims = (1 - confidence) / 2, Claims(family, float(delta))
    event = choose_event(training, statistic, error, claims)
    counts, n = event.counts(held_out), len(held_out[0])
    bound = float(claims.bounds(n, error)(counts[event.likelier], counts[1 - event.likelier]))
    return AuditResult(
        lower_bound=claims.epsilon(bound),
        confidence=float(confidence),
        delta=float(delta),
        n_trials=int(n_trials),
        event=str(event),
        counts=counts,
        family=family,
        mu=None if family is None else max(0.0, bound),
        curve=event.curve(held_out),
    )


def _check(**given: Any) -> None:
    validate_parameter_constraints(_CONSTRAINTS, given, caller_name="audit_epsilon")
    if given["family"] == "gaussian" and given["delta"] == 0:
        raise ValueError(
            'delta must be above 0 with family="gaussian", got 0: Gaussian noise has no epsilon '
            "at delta = 0. Give the delta of the claim."
        )


# ---- trials


def _outputs(release: Any, X: Any, n_trials: int) -> Floats:
    """Return the outputs of `n_trials` calls, shape (n_trials, length)."""
    n_batches = min(n_trials, 10 * effective_n_jobs(None))
    sizes = [len(part) for part in np.array_split(np.arange(n_trials), n_batches)]
    batches = Parallel()(delayed(_batch)(release, X, size) for size in sizes)
    outputs = _matrix([output for batch in batches for output in batch])
    if _repeats(np.array_split(outputs, n_batches)):
        raise ValueError(
            "release must draw fresh randomness in each call, but it repeats its outputs. The "
            "processes of joblib.parallel_config get copies of a random generator that release "
            "carries: make the generator within release, or use one process."
        )
    return outputs


def _batch(release: Any, X: Any, size: int) -> list[Any]:
    return [release(X) for _ in range(size)]


def _matrix(outputs: list[Any]) -> Floats:
    try:
        matrix = np.array(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "release must return a number or a 1-D array of numbers, of one length in all calls: "
            "pad it to a public length, or return one number, such as the log likelihood ratio of "
            f"an adaptive sketch; numpy says: {error}"
        ) from error
    if matrix.ndim > 2 or matrix.size == 0:
        raise ValueError(
            f"release must return a number or a 1-D array, got shape {matrix.shape[1:]}; "
            "ravel the output, or return the part to be audited."
        )
    if not np.isfinite(matrix).all():
        raise ValueError(
            "release must return finite numbers, got nan or inf; encode such answers as numbers."
        )
    return matrix.reshape(len(matrix), -1)


def _repeats(batches: list[Floats]) -> bool:
    """Return whether batches agree that would hardly agree if their trials were independent."""
    size = min(len(batch) for batch in batches)
    names = [joblib.hash(batch[:size]) for batch in batches]
    copied = {
        name: batch[:size]
        for name, batch in zip(names, batches, strict=True)
        if names.count(name) > 1
    }
    # A probability below exp(-40) is taken as impossible.
    return any(_log_arrangements(rows) > 40.0 for rows in copied.values())


def _log_arrangements(rows: Floats) -> float:
    # Independent trials come in every order alike: so many sequences are equally likely.
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    return float(gammaln(len(rows) + 1) - gammaln(counts + 1).sum())
