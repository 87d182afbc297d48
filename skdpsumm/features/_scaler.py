"""Scaling by public bounds."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..privacy._contract import PrivacyReprMixin
from ..schema._columns import Columns
from ..schema._reading import validate_table


class PublicScaler(PrivacyReprMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Clip columns to public bounds and scale them to [0, 1], reading nothing off the data.

    Unlike `MinMaxScaler` or `StandardScaler`, which make everything after them depend on all
    rows and so void a privacy claim, this is a map of each row alone.

    Parameters
    ----------
    bounds : pair or sequence of pairs, default=(0.0, 1.0)
        Public (low, high) of all columns, or one pair per column, in the columns' own units.

    Attributes
    ----------
    scale_ : ndarray of shape (n_features,)
        ``1 / (high - low)``.
    low_, high_ : ndarray of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> from skdpsumm import PublicScaler
    >>> PublicScaler(bounds=(0, 10)).fit_transform([[5.0], [20.0]])
    array([[0.5],
           [1. ]])
    """

    def __init__(self, *, bounds=(0.0, 1.0)):
        self.bounds = bounds

    def fit(self, X, y=None):
        """Check the bounds against the number of columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        if self.bounds is None:
            raise ValueError("bounds is missing: give the public (low, high) of the columns.")
        X = validate_table(self, X)
        names = getattr(self, "feature_names_in_", None)
        # Bounds are the parameters': X says how many columns there are, and nothing else.
        self.low_, self.high_ = np.array(
            Columns.build(X.shape[1], self.bounds, names=names).bounds
        ).T
        self.scale_ = 1 / (self.high_ - self.low_)
        return self

    def transform(self, X):
        """Return X, clipped and scaled.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), with entries in [0, 1]
        """
        check_is_fitted(self)
        X = validate_table(self, X, reset=False)
        inside = np.clip(X, self.low_, self.high_)  # first, or rows far outside would overflow
        return np.clip((inside - self.low_) * self.scale_, 0, 1)
