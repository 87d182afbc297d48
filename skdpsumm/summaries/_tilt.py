"""How much each of an owner's rows resembles a target of which only a noisy mean is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

# What a nat of divergence from the owner's own rows costs, against half a squared standard
# deviation of the noise. Below 10, noise draws rows where the target is common; above 40, a rare
# target is missed (docs/summaries.md has the study).
_STRICTNESS = 20.0
# Where the scores of the rows vary no more than noise makes them, it grows up to this.
_MOST_STRICT = 1000.0
# Against the rounding of float32, where there is next to no noise.
_LEAST_RIDGE = 1e-5
_MOST_STEPS = 60
# The fit needs no more rows than these, its spectrum no more than those.
_ROWS_OF_FIT, _ROWS_OF_SPECTRUM = 4096, 128


def tilted_scores(
    features: NDArray[np.float32],
    target_mean: NDArray,
    noise_std: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the log-weights under which rows have a mean near that of the target.

    They are those of the weights w that minimise ``|sum w_i phi_i - g~|^2 / (2 sigma^2) + kappa
    KL(w | uniform)``: the rows as they are, tilted no further than the noise warrants. With large
    noise they are nearly equal, with none they match the target.

    Parameters
    ----------
    features : ndarray of shape (n, d), float32
        phi of each row, of norm one.
    target_mean : ndarray of shape (d,)
        g~, the noisy mean.
    noise_std : float
        sigma, the standard deviation of the noise of each entry of it; above 0.
    rng : Generator
        Draws the rows that the fit is made with, where there are more than 4,096.

    Returns
    -------
    ndarray of shape (n,)
        Up to what is the same for all rows.

    Notes
    -----
    kappa is 20, and more where the rows show that the target differs from them by less. Then the
    rows need variety rather than weights, and only the part ``20 / kappa`` of them is drawn with
    these weights, the others at random: what is returned are the logarithms of the mixture.

    The dual is smooth and has d unknowns: ``min log mean exp <b, phi_i> - <b, g~> + kappa sigma^2
    |b|^2 / 2``. It is the maximum entropy density ratio of an exponential family (Dudik, Phillips
    and Schapire 2007; Tsuboi et al. 2009).
    """
    fitted = features
    if len(features) > _ROWS_OF_FIT:
        fitted = features[np.sort(rng.choice(len(features), _ROWS_OF_FIT, replace=False))]
    mean = fitted.mean(axis=0, dtype=np.float64)
    strictness = _strictness(fitted, mean, target_mean - mean, noise_std)
    ridge = max(strictness * noise_std**2, _LEAST_RIDGE)

    def dual(b: NDArray) -> tuple[float, NDArray]:
        scores = (fitted @ b.astype(np.float32)).astype(np.float64)
        top = scores.max()
        weights = np.exp(scores - top)
        total = weights.sum()
        found = (weights / total).astype(np.float32) @ fitted
        value = top + np.log(total / len(scores)) - b @ target_mean + ridge / 2 * (b @ b)
        return value, found - target_mean + ridge * b

    options = {"maxiter": _MOST_STEPS, "maxcor": 10}
    b = minimize(dual, np.zeros(len(mean)), jac=True, method="L-BFGS-B", options=options).x
    scores = (features @ b.astype(np.float32)).astype(np.float64)
    part = _STRICTNESS / strictness
    if part == 1:
        return scores
    weights = np.exp(scores - scores.max())
    return np.log(part * weights / weights.sum() + (1 - part) / len(weights))


def _strictness(features: NDArray, mean: NDArray, residual: NDArray, noise_std: float) -> float:
    """Return kappa: more where the target shows no difference from these rows beyond the noise.

    If the log-weights of the rows had the variance ``1 / kappa`` in every direction of phi, the
    scores of the rows by what the target differs in would have the variance ``tr C^2 / kappa``,
    with C the covariance of phi, and ``sigma^2 tr C`` more from the noise, give or take ``sigma^2
    sqrt(2 tr C^2)``.
    """
    some = features[:: -(-len(features) // _ROWS_OF_SPECTRUM)]
    centred = some - mean.astype(np.float32)
    products = np.square(centred @ centred.T)
    n_pairs = max(len(some) * (len(some) - 1), 1)
    of_pairs = (products.sum(dtype=np.float64) - np.trace(products)) / n_pairs  # tr C^2
    if of_pairs <= 0:  # rows that are all alike
        return _STRICTNESS
    of_rows = 1 - mean @ mean  # tr C
    scores = features @ residual.astype(np.float32)
    found = (np.var(scores, dtype=np.float64) - noise_std**2 * of_rows) / of_pairs
    # Its standard error, against what is thought before: the noisier it is, the less it counts.
    error, prior = noise_std**2 * np.sqrt(2 / of_pairs), 1 / _STRICTNESS
    trust = prior**2 / (prior**2 + error**2)
    return 1 / np.clip(trust * found + (1 - trust) * prior, 1 / _MOST_STRICT, prior)


def draw_tilted(scores: NDArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw n rows without replacement, each time with probability in proportion to exp(score)."""
    if n == 0:
        return np.empty(0, np.int64)
    return np.argsort(-(scores + rng.gumbel(size=len(scores))), kind="stable")[:n]
