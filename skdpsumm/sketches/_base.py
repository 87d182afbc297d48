"""From rows to one noisy sum: the release that all sketchers share."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._cells import Table
from .._dask import PartitionSchema, is_dask
from .._progress import progress
from .._validation import is_float32, validate_table
from ..features import GRID, Columns, FeatureMap
from ..features._engine import check_engine
from ..privacy import Block, IntegerNoise, PrivacyGuarantee
from ..privacy._clone_watch import own_clone
from ..privacy._contract import PrivateFit, columns_kept
from ._partitions import sum_partitions
from ._pending import PendingRelease


class BaseSketcher(PrivateFit, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer phi whose `fit` releases the noisy sum of phi over the rows.

    Subclasses say which phi (`_draw_map`) and how the budget is shared (`_shares`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateFit._parameter_constraints,
        "denominator": [StrOptions({"auto", "budget", "row_sums"})],
        "denominator_share": [Interval(Real, 0, 1, closed="neither")],
        "postprocess": ["boolean"],
        "n_jobs": [
            None,
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
        ],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    bounds = None
    categories = None
    steps = None

    @abstractmethod
    def _draw_map(self, columns: Columns, rng: np.random.RandomState) -> FeatureMap:
        """Return the public feature map for a table of `columns`."""

    def _shares(self, feature_map: FeatureMap) -> list[float]:
        """Return the share of the budget of each elementary map."""
        return [1.0]

    def sub_sketchers(self) -> list[BaseSketcher]:
        """Return the sketchers that this one is made of, itself left out."""
        return []

    def preview_map(self, n_columns: int, names: Any = None) -> FeatureMap:
        """Return the map that `fit` will draw for such a table; no data, no cost."""
        copy = own_clone(self)
        return copy._draw_map(copy._table(n_columns, names), check_random_state(copy.random_state))

    @property
    def holds_private_data(self) -> bool:
        """True between `partial_fit` and `release`, while exact sums are in memory."""
        return hasattr(self, "_pending")

    def fit(self, X, y=None):
        """Release the private sketch of X. Charges the ledger once.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
            One row per person (or other unit of protection). Partitions of Dask are summed where
            they are, by the scheduler that is set; the result is that of one process, bit for bit
            before noise (to rounding with ``epsilon=np.inf``). `n_jobs` is not used then.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta; nothing is charged.
        RuntimeError
            If Dask cannot compute the partitions; nothing is charged.
        """
        self.__dict__.pop("_pending", None)
        return self.partial_fit(X).release()

    def partial_fit(self, X, y=None):
        """Add the rows of X to a sketch that `release` will publish.

        The first block charges the ledger. Until `release`, the object holds exact sums.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with columns_kept(self):
            return self._add_rows(X)

    def _add_rows(self, X):
        pending = getattr(self, "_pending", None)
        first = pending is None
        if first:
            self._begin()
        if is_dask(X):
            self._pending = self._add_partitions(X, pending)
            return self
        X = self._validate(X, reset=first)
        if first:
            pending = self._open(X)
        else:
            pending.feature_map.check_values(X)
        with progress(f"{type(self).__name__}.fit", self.verbose):
            pending.add(X, effective_n_jobs(self.n_jobs))
        self._pending = pending
        return self

    def _add_partitions(self, X: Any, pending: PendingRelease | None) -> PendingRelease:
        """Add rows that are seen only while they are summed: what fails by then costs nothing."""
        first = pending is None
        schema = PartitionSchema.of(self, X, mixed=self._has_categories(), reset=first)
        if pending is None:
            pending = self._draft(schema.n_columns)
        sums, n_rows = sum_partitions(X, schema, pending.feature_map, silent=pending.is_silent)
        pending.check_room(n_rows)
        if first:
            self._pay(pending.privacy)
        pending.add_sums(sums, n_rows)
        return pending

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_engine()

    def release(self):
        """Add the noise, once, and publish `sketch_`. The exact sums are deleted.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If no rows were added since the last release.
        """
        pending = self.__dict__.pop("_pending", None)
        if pending is None:
            raise ValueError(
                "There is nothing to release: call fit, or partial_fit and then release. A sketch "
                "that was released stays in sketch_."
            )
        # What is published changes together, so that it always describes one release.
        self.sketch_ = pending.publish(postprocess=bool(self.postprocess))
        self.feature_map_ = pending.feature_map
        self.privacy_ = pending.privacy
        self._n_features_out = pending.feature_map.n_features
        return self

    def transform(self, X):
        """Return phi(X), the public features; no private data are involved.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, m), in the dtype of X
        """
        check_is_fitted(self, "feature_map_")
        X = self._validate(X, reset=False)
        features = self.feature_map_.matrix(X)
        features = features.toarray() if sparse.issparse(features) else features
        return features.astype(np.float32 if is_float32(X) else np.float64, copy=False)

    def _validate(self, X, *, reset: bool) -> NDArray | Table:
        mixed = self._has_categories()
        return validate_table(self, X, mixed=mixed, keep_float32=True, reset=reset)

    def _has_categories(self) -> bool:
        return bool(self.categories)

    def _open(self, X: NDArray) -> PendingRelease:
        """Draft a release for rows that are in memory, check them, and pay."""
        pending = self._draft(X.shape[1])
        pending.feature_map.check_values(X)
        pending.check_room(len(X))
        self._pay(pending.privacy)
        return pending

    def _draft(self, n_columns: int) -> PendingRelease:
        """Draw the map and calibrate the noise of a release that is not paid for yet."""
        names = getattr(self, "feature_names_in_", None)
        columns = self._table(n_columns, names)
        return self._prepare(self._draw_map(columns, check_random_state(self.random_state)))

    def _table(self, n_columns: int, names: Any) -> Columns:
        return Columns.build(n_columns, self.bounds, self.categories, names, self.steps)

    def _prepare(self, feature_map: FeatureMap) -> PendingRelease:
        """Fix what the guarantee states; later set_params do not reach the release."""
        grouped = bool(feature_map.row_groups())
        if self.denominator == "row_sums" and not grouped:
            raise ValueError(
                "denominator='row_sums' needs features whose rows sum to n (histogram, RACE); "
                "use 'budget' or 'auto' here."
            )
        by_sums = grouped and self.denominator != "budget"
        counts_rows = self.adjacency == "add_remove" and not by_sums
        rest = 1 - self.denominator_share if counts_rows else 1.0
        shares = [rest * share for share in self._shares(feature_map)]
        blocks = [
            Block(part.n_features, *part.sensitivity(self.adjacency), share)
            for part, share in zip(feature_map.parts(), shares, strict=True)
        ]
        if counts_rows:
            blocks.append(Block(1, GRID, GRID, self.denominator_share))
        noise = IntegerNoise(blocks, epsilon=self.epsilon, delta=self.delta)
        privacy = PrivacyGuarantee(
            noise.mechanism,
            self.adjacency,
            given="the sketcher's parameters and the columns' bounds and categories"
            + (", and the number of rows" if self.adjacency == "replace_one" else ""),
            simulated=self.noise_seed is not None,
        )
        return PendingRelease(feature_map, noise, self.noise_seed, counts_rows, privacy)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.string = self._has_categories()
        return tags
