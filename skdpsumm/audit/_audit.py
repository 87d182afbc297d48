"""A lower bound on epsilon, measured by running a release many times on two neighbours.

A release that is (epsilon, delta)-differentially private satisfies, for every set S of outputs,
``P[release(X) in S] <= exp(epsilon) P[release(X') in S] + delta``. So any S whose two
probabilities are known to lie far apart refutes an epsilon. Half of the trials look for the most
telling S, in any way they like; the other half estimate its probabilities, once.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.special import gammaln
from sklearn.utils import check_random_state

from .._sklearn import Interval, StrOptions, validate_parameter_constraints
from ._events import Claims, Floats, choose_event, split, take
from ._result import AuditResult

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
    bound = claims.bound(counts[event.likelier], counts[1 - event.likelier], n, error)
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
