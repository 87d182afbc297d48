"""Private sketches of random Fourier features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ..features import FourierMap
from ._base import BaseSketcher


class RFFSketcher(BaseSketcher):
    """Private mean of random Fourier features: a smooth picture of the joint distribution.

    ``phi(x) = [cos(x Omega), sin(x Omega)]`` with the columns of Omega drawn from the spectral
    measure of a shift-invariant kernel (M2M paper, Definition 2). No bounds are needed for
    privacy: every pair lies on the unit circle.

    Parameters
    ----------
    n_components : int, default=200
        m, the number of features: m/2 (cos, sin) pairs; an odd number is rounded up. Noise grows
        as m under pure DP and as sqrt(m) under Gaussian noise, so more is not always better.
    gamma : float, default=1.0
        Kernel parameter: ``exp(-gamma |x - y|_2^2)`` ("rbf", gamma = 1 / (2 sigma^2)) or
        ``exp(-gamma |x - y|_1)`` ("laplacian"), per unit of the columns, or of their range where
        `bounds` are given. Never derive it from the private data.
    kernel : {"rbf", "laplacian"}, default="rbf"
    bounds : pair, sequence of pairs or mapping, default=None
        Public (low, high) of the columns, in their units. Where given, columns are clipped and
        scaled to [0, 1] first, so that `gamma` has no unit. None takes columns as they are;
        privacy needs no bounds, but whoever asks the sketch (`M2MEstimator.from_sketch`) then has
        to know them.
    categories : mapping from column to list of values, default=None
        Categorical columns; different values are at distance one.
    steps : float, sequence or mapping from column to float, default=None
        ``{"age": 1}`` says that the values of the column are low, low + 1, ..., high of its
        `bounds`, one number that this holds for all numeric columns. Public. Other values go to
        the closest of these, and what is computed from the sketch knows of no other.
    epsilon : float, default=1.0
        Total epsilon of one `fit`; ``np.inf`` for none.
    delta : float, default=1e-6
        0 gives Laplace noise and pure DP; otherwise Gaussian noise with the analytic calibration,
        about five times less at 200 components.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        Under "replace_one" the number of rows is public and sensitivities double.
    denominator : {"auto", "budget", "row_sums"}, default="auto"
        Where the number of rows comes from. Fourier features have only "budget".
    denominator_share : float, default=0.02
        Part of the budget for the number of rows, as in the paper; of epsilon under pure DP, of
        mu^2 under Gaussian noise.
    postprocess : bool, default=True
        Move each pair of means in `sketch_.mean` into the unit disk; no effect while the noise is
        small, and none on the answers of M2M.
    random_state : int, RandomState or None, default=None
        Public randomness: the frequencies. Owners who add their sketches share an int.
    noise_seed : int or None, default=None
        For simulations only: None draws noise from the operating system.
    ledger : PrivacyLedger or LedgerDataset, default=None
        Where `fit` charges its cost. Every fit is a release of its own, in a search too, and
        without a ledger nothing counts them.
    n_jobs : int or None, default=None
        Threads for the sum. The result does not depend on it, bit for bit.
    verbose : int, default=0
        Show progress on the standard error stream, a step per 65,536 rows; for the curator alone,
        as it tells the number of rows. Dask has a display of its own.

    Attributes
    ----------
    sketch_ : PrivateSketch
        The release.
    privacy_ : PrivacyGuarantee
    feature_map_ : FourierMap
        phi, public.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    Sensitivity of the sum with p = m/2 pairs: L1 ``p sqrt(2)``, L2 ``sqrt(p)`` under add-remove,
    twice that under replace-one, plus the rounding to the grid (`FourierMap`).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import RFFSketcher
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> sketcher = RFFSketcher(n_components=50, random_state=0).fit(X)
    >>> sketcher.sketch_.mean.shape
    (50,)
    >>> round(sketcher.privacy_.epsilon(1e-6), 3)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSketcher._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"rbf", "laplacian"})],
        "bounds": "no_validation",
        "categories": [None, dict],
        "steps": "no_validation",
    }

    def __init__(
        self,
        n_components=200,
        *,
        gamma=1.0,
        kernel="rbf",
        bounds=None,
        categories=None,
        steps=None,
        epsilon=1.0,
        delta=1e-6,
        adjacency="add_remove",
        denominator="auto",
        denominator_share=0.02,
        postprocess=True,
        random_state=None,
        noise_seed=None,
        ledger=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.gamma = gamma
        self.kernel = kernel
        self.bounds = bounds
        self.categories = categories
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.denominator = denominator
        self.denominator_share = denominator_share
        self.postprocess = postprocess
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _draw_map(self, columns, rng):
        # Not an error: scikit-learn's checks set n_components=1.
        n_features = self.n_components + self.n_components % 2
        return FourierMap.draw(columns, n_features, self.gamma, self.kernel, rng)
