"""Fits whose noise comes from a seed. The mark ``simulated(seed)`` has a whole test do so."""

import warnings

from skdpsumm import PrivacyLeakWarning
from skdpsumm.privacy._noise import drawing_from


def simulate(estimator, *data, seed=0, **given):
    """Return an estimator, fitted in a simulation that does not warn; None draws real noise."""
    with warnings.catch_warnings(), drawing_from(seed):
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return estimator.fit(*data, **given)
