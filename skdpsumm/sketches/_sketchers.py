"""From rows to one noisy sum: random Fourier features, RACE, histograms and their unions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._computing import progress, warn_caller
from .._html import some_of
from .._sklearn import Interval, StrOptions
from ..features._feature_maps import (
    GRID,
    NO_GAMMA,
    FeatureMap,
    FourierMap,
    HistogramMap,
    RACEMap,
    UnionMap,
    auto_gamma,
    engine_name,
    sensitivities,
)
from ..privacy import PrivacyGuarantee, PrivacyLedger
from ..privacy._fit import PrivateFit, columns_kept, own_clone
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import Block, IntegerNoise, nominal_mechanism
from ..schema._columns import Numeric
from ..schema._groups import Groups
from ..schema._reading import Table, is_dask, is_float32, validate_table
from ..schema._schema import (
    NO_SCHEMA,
    SchemaLike,
    TableSchema,
    allowed,
    as_schema,
    public_points,
    schema_of,
)
from ._partitions import PartitionSchema, sum_partitions
from ._private_sketch import Counted, PlannedRelease, PrivateSketch, check_fits, sums_of

# Share of the budget that buys the number of rows, as in the paper.
_SHARE_FOR_N_ROWS = 0.02


class TableSketcher(PrivateFit, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer phi whose `fit` releases noisy sums of phi over the rows."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateFit._parameter_constraints,
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
    }

    _takes_sparse: ClassVar[bool] = False
    _needs_schema: ClassVar[bool] = False

    schema: Any
    verbose: int | bool

    @abstractmethod
    def preview_map(self, n_columns: int, names: Any = None) -> FeatureMap:
        """Return the public map of such a table. It needs no data and is free."""

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return phi(X), the features of X by the public map.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, m), in the dtype of X (float64 where it is sparse)
        """
        check_is_fitted(self, "feature_map_")
        X = self._validate(X, self._read_by, reset=False)
        features: Any = self.feature_map_.matrix(X)
        features = features.toarray() if sparse.issparse(features) else features
        return features.astype(np.float32 if is_float32(X) else np.float64, copy=False)

    def _set_release(self, sketch: PrivateSketch, read_by: TableSchema | None) -> None:
        """Set what is published together, so that it always describes one release.

        `read_by` is the schema that was given, by which other tables are read later.
        """
        self.sketch_ = sketch
        self.feature_map_, self._read_by = sketch.feature_map, read_by
        self.privacy_ = sketch.privacy
        self._n_features_out = sketch.feature_map.n_features

    def _validate(self, X, schema: TableSchema | None, *, reset: bool) -> NDArray | Table:
        return validate_table(
            self, X, schema=schema, keep_float32=True, reset=reset, accept_sparse=self._takes_sparse
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_rows_public()
        if as_schema(self.schema) is None and self._needs_schema:
            raise ValueError(NO_SCHEMA)
        engine_name()  # which raises for one that is not there

    def _ask_ledger(self) -> None:
        kinds = getattr(self.ledger, "adjacency", None), self.adjacency
        if kinds == ("replace_one", "add_remove"):
            self._ask(self._least_when_replaced(), "replace_one")
        else:
            super()._ask_ledger()

    def _least_when_replaced(self) -> Mechanism:
        """Return what `fit` costs at least if a row is replaced; what it costs, the map tells."""
        return nominal_mechanism(self.epsilon, self.delta)

    def _claim(self, mechanism: Mechanism, noise_seed: int | None) -> PrivacyGuarantee:
        """Return what `fit` promises."""
        facts = ["the sketcher's parameters"]
        facts += ["the schema of the columns"] if self.schema is not None else []
        given = " and ".join(facts) + (self._given_number and f", and {self._given_number}")
        return self._guaranteed(mechanism, given, noise_seed)

    def _rows(
        self, X: Any, groups: Any, known: TableSchema | None, noise_seed: int | None
    ) -> Callable[[Any], tuple[NDArray, int]]:
        """Return a function that checks and sums the rows by a map, and tells how many units count.

        It is to be called before a release is paid for: it raises for cells that are wrong.
        """
        silent, key = bool(self.epsilon == np.inf), b""
        if groups is not None:
            key = self._group_key(noise_seed)
        if is_dask(X):
            table = PartitionSchema.of(self, X, schema=known, reset=True)
            by_group = None if groups is None else (groups, self._limit, key)
            return partial(sum_partitions, X, table, silent=silent, by_group=by_group)
        n_rows, summed = self._read(X, known)
        labels = None if groups is None else Groups.read(groups, n_rows)
        counted = Counted.of(n_rows, self._limit, labels, key)
        return lambda feature_map: (summed(feature_map, counted, silent=silent), counted.n_units)

    def _read(self, X: Any, known: TableSchema | None) -> tuple[int, Callable[..., NDArray]]:
        """Return the number of rows, and a function that checks and sums what counts of them."""
        X = self._validate(X, known, reset=True)

        def summed(feature_map: FeatureMap, counted: Counted, *, silent: bool) -> NDArray:
            feature_map.check_values(X)
            return sums_of(feature_map, X, counted, silent=silent)

        return len(X), summed

    def _schema_for(self, n_columns: int, names: Any = None) -> TableSchema:
        """Return the schema of such a table, in which nothing may be known of the columns."""
        return (as_schema(self.schema) or TableSchema(Numeric())).for_table(n_columns, names)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # `transform` does; what `fit` sums is made in float64, whatever the container.
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        tags.input_tags.sparse = self._takes_sparse and self._keeps_zero
        return tags

    @property
    def _keeps_zero(self) -> bool:
        """Whether the schema leaves zero where it is, as far as it can be read."""
        try:
            known = as_schema(self.schema)
        except ValueError:  # which `fit` tells
            return False
        return known is None or known.keeps_zero()


class BaseSketcher(TableSketcher):
    """A transformer phi whose `fit` releases the noisy sum of phi over the rows, in one step.

    Subclasses say which phi (`_draw_map`) and how the budget is shared (`_shares`).
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TableSketcher._parameter_constraints,
        "denominator": [StrOptions({"auto", "budget"})],
    }

    denominator: str

    @abstractmethod
    def _draw_map(self, schema: TableSchema, rng: np.random.RandomState) -> FeatureMap:
        """Return the public feature map for a table of such columns."""

    def _shares(self) -> NDArray[np.float64]:
        """Return the share of the budget of each elementary map."""
        return np.ones(1)

    def preview_map(self, n_columns: int, names: Any = None) -> FeatureMap:
        """Return the map that `fit` will draw for such a table. It needs no data and is free."""
        copy = own_clone(self)
        schema = copy._schema_for(n_columns, names)
        return copy._draw_map(schema, check_random_state(copy.random_state))

    def preview_noise_std(self, n_columns: int, names: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of the noise that `fit` will add to each feature's sum.

        It needs no data and is free. There is one entry for each feature of `preview_map`. The
        entries differ in a `SketchUnion`.
        """
        feature_map = self.preview_map(n_columns, names)
        return self._prepare(feature_map).noise.std[: feature_map.n_features] / GRID

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the private sketch of X. This charges the ledger once.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, Dask array or Dask frame, (n_samples, n_features)
            One row per person (or other unit of protection), or several with `groups`.
            `RFFSketcher` and `RACESketcher` also take sparse X, without a schema or with one that
            leaves zero at zero, such as (0, 1). Partitions of Dask are summed where they are, by
            the scheduler that you set. The result is that of one process, bit for bit before noise
            (to rounding with ``epsilon=np.inf``).
        y : ignored
        groups : array-like or series of shape (n_samples,), default=None
            Who each row belongs to, in words or numbers, none missing. Give it where
            `max_rows_per_group` is set, and nowhere else: hence None. For a Dask collection, give a
            Dask series or array in the same partitions, such as another column of the same frame.
            All rows of a group are then brought together.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are not valid. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.
        RuntimeError
            If Dask cannot compute the partitions. Nothing is charged.
        """
        with columns_kept(self):
            noise_seed, known = self._begin(groups), as_schema(self.schema)
            rows = self._rows(X, groups, known, noise_seed)
            plan = self._draft(noise_seed)
            with progress(f"{type(self).__name__}.fit", self.verbose):
                sums, n_rows = rows(plan.feature_map)
                plan.check_room(n_rows)
                self._pay(plan.claim_for(self.ledger))
                sketch = plan.released(sums, n_rows)
            self._set_release(sketch, known)
        return self

    def _draft(self, noise_seed: int | None) -> PlannedRelease:
        """Draw the map and calibrate the noise of a release that is not paid for yet."""
        schema = schema_of(self)
        feature_map = self._draw_map(schema, check_random_state(self.random_state))
        _warn_of_the_unseen(feature_map, schema)
        return self._prepare(feature_map, noise_seed)

    def _prepare(self, feature_map: FeatureMap, noise_seed: int | None = None) -> PlannedRelease:
        """Fix what the guarantee states; later set_params do not reach the release."""
        # Under replace_one the number of rows is public; where groups sum to it, their noisy sums
        # tell it. Only otherwise has a count to be bought.
        by_sums = bool(feature_map.row_groups()) and self.denominator == "auto"
        counts_rows = self.adjacency == "add_remove" and not by_sums
        rest = 1 - _SHARE_FOR_N_ROWS if counts_rows else 1.0
        shares = (rest * self._shares()).tolist()
        moved = sensitivities(feature_map, self.adjacency, self._limit)
        blocks = [
            Block(part.n_features, *distances, share)
            for part, distances, share in zip(feature_map.parts(), moved, shares, strict=True)
        ]
        if counts_rows:
            # Counted in grid units as the features are, so that one row adds GRID.
            most = float(self._rows_per_group * GRID)
            blocks.append(Block(1, most, most, _SHARE_FOR_N_ROWS))
        noise = IntegerNoise(blocks, epsilon=self.epsilon, delta=self.delta)
        privacy = self._claim(noise.mechanism, noise_seed)
        check_fits(*feature_map.to_state(), feature_map.n_features, privacy)
        return PlannedRelease(feature_map, noise, noise_seed, counts_rows, privacy, self._limit)


def _warn_of_the_unseen(feature_map: FeatureMap, schema: TableSchema) -> None:
    """Warn, before anything is charged, of columns that are in no feature."""
    unseen = sorted(set(range(feature_map.schema.n_columns)) - feature_map.seen_columns())
    if unseen:
        names = [schema.name(j) for j in unseen]
        warn_caller(
            f"Add a group of {some_of(names)} to marginals, such as [{names[0]!r}], or leave them "
            "out of the schema. The sketch tells nothing of them: answers take them to be even.",
            UserWarning,
        )


class RFFSketcher(BaseSketcher):
    """Private mean of random Fourier features: a smooth picture of the joint distribution.

    The features are ``phi(x) = [cos(x Omega), sin(x Omega)]``. The columns of Omega are drawn from
    the spectral measure of the Gaussian kernel (M2M paper, Definition 2). Privacy needs no
    bounds on X, because every pair lies on the unit circle.

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give ``(0, 1)`` for all,
        ``{"age": (17, 90), "job": ["clerk", "farmer"]}``, or a `TableSchema`. Numbers are clipped
        and scaled to [0, 1]. Categories and missing values are at distance one, so that the
        kernel's width has no unit. None, the default, guesses nothing and takes columns of numbers
        as they are. Whoever asks the sketch (`M2MEstimator.from_sketch`) then has to know their
        range.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise and pure DP. Other values give Gaussian
        noise with the analytic calibration, about five times less at 200 components. Keep delta
        below 1 / n_samples: 1e-6 suits fewer than a million rows.
    n_components : int, default=200
        m, the number of features: m/2 (cos, sin) pairs. An odd number is rounded up. Noise grows
        as m under pure DP and as sqrt(m) under Gaussian noise, so more is not always better. 200 is
        the paper's value.
    gamma : "auto" or float, default="auto"
        Kernel parameter of ``exp(-gamma |x - y|_2^2)``, 1 / (2 sigma^2). It is for columns as the
        schema scales them, or per squared unit of the columns where there is no schema. "auto" fits
        the kernel to the distances between public points of the schema, so it reads no private row.
        Without a schema, give a number. Never derive it from the private data.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    denominator : {"auto", "budget"}, default="auto"
        Where the number of rows comes from. With "auto" it is free where every histogram and every
        RACE array sums to it, and 0.02 of the budget buys it elsewhere, as for Fourier features (of
        epsilon under pure DP, of mu^2 under Gaussian noise). "budget" always buys it, as the paper
        does.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies and hashes. None draws
        anew in each fit, as in scikit-learn. If several owners want to add their sketches, give all
        of them the same int.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is about 16,384 rows. So it tells
        how many there are: it is off by default, and for the curator alone. Dask has its own
        display.

    Attributes
    ----------
    feature_map_ : FourierMap
        phi, public.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    Sensitivity of the sum with p = m/2 pairs: L1 ``p sqrt(2)``, L2 ``sqrt(p)`` under add-remove,
    plus the rounding to the grid. Under replace-one it is twice that, or 1.41 to 1.88 times where
    the schema gives ranges or categories for a few columns (`FourierMap.reach`).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import RFFSketcher
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> sketcher = RFFSketcher((0, 1), n_components=50, random_state=0).fit(X)
    >>> sketcher.sketch_.mean.shape
    (50,)
    >>> round(sketcher.privacy_.epsilon(1e-6), 3)
    1.0

    See Also
    --------
    RACESketcher : Histograms of random projections.
    SketchUnion : Several sketches for one budget.
    M2MEstimator : Answers any question from a sketch.
    """

    _takes_sparse = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSketcher._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_components: int = 200,
        gamma: float | str = "auto",
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        denominator: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.gamma = gamma
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.denominator = denominator
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_parameters(self):
        super()._check_parameters()
        if self.gamma == "auto" and self.schema is None:
            raise ValueError(NO_GAMMA)

    def _draw_map(self, schema, rng):
        # Not an error: scikit-learn's checks set n_components=1.
        n_features = self.n_components + self.n_components % 2
        gamma: Any = self.gamma
        if gamma == "auto":
            gamma = auto_gamma(schema.encode(public_points(schema)))
        return FourierMap.draw(schema, n_features, gamma, rng)


class RACESketcher(BaseSketcher):
    """Private RACE: histograms of random projections, modulo the number of buckets.

    Each of R hashes, ``h_r(x) = floor(x . w_r / bandwidth + b_r) mod W``, is one-hot encoded and
    counted (M2M paper, Definition 3; p-stable hashes of Datar et al., 2004). Privacy needs no
    bounds on X, because every row adds one to each of R arrays.

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give ``(0, 1)`` for all,
        ``{"age": (17, 90), "job": ["clerk", "farmer"]}``, or a `TableSchema`. Numbers are clipped
        and scaled to [0, 1]. Categories and missing values are at distance one, so that the
        kernel's width has no unit. None, the default, guesses nothing and takes columns of numbers
        as they are. Whoever asks the sketch (`M2MEstimator.from_sketch`) then has to know their
        range.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise of scale R / epsilon. Other values give
        Gaussian noise of scale ``sqrt(R) / mu``, about four times less at R = 80. Keep delta below
        1 / n_samples: 1e-6 suits fewer than a million rows.
    n_repetitions : int, default=80
        R, the number of hashes. 80 is the paper's value.
    n_buckets : int, default=80
        W, the number of buckets of each hash. 80 is the paper's value.
    bandwidth : "auto" or float, default="auto"
        Width of a bucket along a projection. It is for columns as the schema scales them, or per
        unit of the columns where there is no schema. "auto" is 0.1, the paper's value for columns
        in [0, 1]. Without a schema, give a number.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    denominator : {"auto", "budget"}, default="auto"
        Where the number of rows comes from. With "auto" it is free where every histogram and every
        RACE array sums to it, and 0.02 of the budget buys it elsewhere, as for Fourier features (of
        epsilon under pure DP, of mu^2 under Gaussian noise). "budget" always buys it, as the paper
        does.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies and hashes. None draws
        anew in each fit, as in scikit-learn. If several owners want to add their sketches, give all
        of them the same int.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is about 16,384 rows. So it tells
        how many there are: it is off by default, and for the curator alone. Dask has its own
        display.

    Attributes
    ----------
    feature_map_ : RACEMap
        phi, public.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import RACESketcher
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> sketcher = RACESketcher((0, 1), n_repetitions=5, n_buckets=10, random_state=0).fit(X)
    >>> sketcher.sketch_.mean.reshape(5, 10).sum(axis=1).round(6)
    array([1., 1., 1., 1., 1.])

    See Also
    --------
    RFFSketcher : Random Fourier features.
    SketchUnion : Several sketches for one budget.
    M2MEstimator : Answers any question from a sketch.
    """

    _takes_sparse = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSketcher._parameter_constraints,
        "n_repetitions": [Interval(Integral, 1, None, closed="left")],
        "n_buckets": [Interval(Integral, 2, None, closed="left")],
        "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_repetitions: int = 80,
        n_buckets: int = 80,
        bandwidth: str | float = "auto",
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        denominator: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.n_repetitions = n_repetitions
        self.epsilon = epsilon
        self.delta = delta
        self.n_buckets = n_buckets
        self.bandwidth = bandwidth
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.denominator = denominator
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_parameters(self):
        super()._check_parameters()
        if self.bandwidth == "auto" and self.schema is None:
            raise ValueError(
                'bandwidth="auto" needs a schema: give the public description of the columns, such '
                "as schema=(0, 1) or {'age': (17, 90)}. Or set bandwidth to a number, in the units "
                "of the columns."
            )

    def _draw_map(self, schema, rng):
        # The paper has this bandwidth, for columns in [0, 1].
        bandwidth: Any = 0.1 if self.bandwidth == "auto" else self.bandwidth
        return RACEMap.draw(schema, int(self.n_repetitions), int(self.n_buckets), bandwidth, rng)


class HistogramSketcher(BaseSketcher):
    """Private one-way or k-way histograms of numeric and categorical columns.

    Every row adds one to a cell of each histogram (M2M paper, section 2.1.1).

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. Required. Give the range of
        each numeric column and the values of each other column, because nothing is read off the
        data. Numbers outside go to the first or the last bin. Missing values have a bin. Give the
        step of whole numbers, as in ``Numeric(17, 90, step=1)``. Bins are then sets of values, and
        questions such as ``rows["age"] > 40`` mean the same to synthetic points.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise of scale k / epsilon for k histograms.
        Other values give Gaussian noise of scale ``sqrt(k) / mu``. At epsilon = 1 and the default
        delta, Gaussian noise has the smaller standard deviation from k = 9 on. Keep delta below 1 /
        n_samples: 1e-6 suits fewer than a million rows.
    n_bins : int or sequence of int, default=100
        Number of equal bins of the range, one for all columns or one for each. 100 is the paper's
        value. A column with a step has at most one bin per value, and each bin holds whole values.
        A column with `edges` in the schema has those bins.
    marginals : int or list of column groups, default=1
        Which histograms to count. 1 counts one per column; k counts one per set of k columns. A
        list, such as ``[[0], [1, 2]]`` or ``[["age"], ["sex", "job"]]``, counts these groups alone,
        so list every column about which you want to know anything. The noise grows with the number
        of histograms k, as k (pure) or sqrt(k) (Gaussian), whatever their sizes. The default, 1,
        therefore has the least noise.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    denominator : {"auto", "budget"}, default="auto"
        Where the number of rows comes from. With "auto" it is free where every histogram and every
        RACE array sums to it, and 0.02 of the budget buys it elsewhere, as for Fourier features (of
        epsilon under pure DP, of mu^2 under Gaussian noise). "budget" always buys it, as the paper
        does.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies and hashes. None draws
        anew in each fit, as in scikit-learn. If several owners want to add their sketches, give all
        of them the same int.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is about 16,384 rows. So it tells
        how many there are: it is off by default, and for the curator alone. Dask has its own
        display.

    Attributes
    ----------
    feature_map_ : HistogramMap
        phi, public.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsumm import HistogramSketcher, Numeric
    >>> X = pd.DataFrame({"age": [30.0, 40, 50] * 500, "sex": ["F", "M", "F"] * 500})
    >>> schema = {"age": (20, 60), "sex": ["F", "M"]}
    >>> sketcher = HistogramSketcher(schema=schema, n_bins=4).fit(X)
    >>> sketcher.sketch_.mean.round(1) + 0.0
    array([0. , 0.3, 0.3, 0.3, 0.7, 0.3])

    One bin is for people below 50, and one for those from 50 to 60:

    >>> schema["age"] = Numeric(step=1, edges=[20, 50, 60])
    >>> HistogramSketcher(schema=schema).fit(X).sketch_.mean.round(1) + 0.0
    array([0.7, 0.3, 0.7, 0.3])

    See Also
    --------
    AdaptiveSketcher : Chooses the groups of columns, privately.
    SketchUnion : Several sketches for one budget.
    M2MEstimator : Answers any question from a sketch.
    """

    _needs_schema = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSketcher._parameter_constraints,
        "n_bins": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "marginals": [Interval(Integral, 1, None, closed="left"), list, tuple],
    }

    n_bins: Any

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_bins: int | Sequence[int] = 100,
        marginals: int | Sequence[Any] = 1,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        denominator: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.n_bins = n_bins
        self.marginals = marginals
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.denominator = denominator
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _draw_map(self, schema, rng):
        return HistogramMap.build(schema, self.n_bins, self.marginals)


class SketchUnion(BaseSketcher):
    """Several sketches of the same table, released together for one budget.

    Use it when one kind of sketch does not answer all your questions. Histograms of single columns
    know each column well, but not how columns depend on each other. A Fourier sketch knows a little
    of this dependence. Together they answer far more than either.

    Parameters
    ----------
    sketchers : list of sketchers
        They give the feature maps, for the schema of the union. Their own `epsilon`, `delta`,
        `adjacency` and `denominator` are not used. They must have no `schema`, no
        `ledger` and no `max_rows_per_group`.
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give ``(0, 1)`` for all,
        ``{"age": (17, 90), "job": ["clerk", "farmer"]}``, or a `TableSchema`. Numbers are clipped
        and scaled to [0, 1]. Categories and missing values are at distance one, so that the
        kernel's width has no unit. None, the default, guesses nothing and takes columns of numbers
        as they are. Whoever asks the sketch (`M2MEstimator.from_sketch`) then has to know their
        range.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise and pure DP. Other values give Gaussian
        noise, which is far smaller for many features. Keep delta below 1 / n_samples: 1e-6 suits
        fewer than a million rows.
    weights : sequence of float, default=None
        Share of the budget of each sketcher, up to a factor: of epsilon under pure DP, of mu^2
        under Gaussian noise. None gives equal shares, as nothing says which sketcher matters more.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    denominator : {"auto", "budget"}, default="auto"
        Where the number of rows comes from. With "auto" it is free where every histogram and every
        RACE array sums to it, and 0.02 of the budget buys it elsewhere, as for Fourier features (of
        epsilon under pure DP, of mu^2 under Gaussian noise). "budget" always buys it, as the paper
        does.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies and hashes. None draws
        anew in each fit, as in scikit-learn. If several owners want to add their sketches, give all
        of them the same int.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is about 16,384 rows. So it tells
        how many there are: it is off by default, and for the curator alone. Dask has its own
        display.

    Attributes
    ----------
    feature_map_ : UnionMap
        All features side by side.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import HistogramSketcher, RFFSketcher, SketchUnion
    >>> X = np.random.default_rng(0).random((5000, 2))
    >>> union = SketchUnion(
    ...     [HistogramSketcher(n_bins=10), RFFSketcher(n_components=30)],
    ...     schema=(0, 1), weights=[1, 2], random_state=0,
    ... ).fit(X)
    >>> union.sketch_.mean.shape
    (50,)

    See Also
    --------
    AdaptiveSketcher : Chooses histograms of groups of columns, privately.
    M2MEstimator : Answers any question from a sketch.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSketcher._parameter_constraints,
        "sketchers": [list, tuple],
        "weights": [None, "array-like"],
    }

    def __init__(
        self,
        sketchers: Sequence[Any],
        *,
        schema: SchemaLike | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        weights: ArrayLike | None = None,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        denominator: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.sketchers = sketchers
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.weights = weights
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.denominator = denominator
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _check_parameters(self):
        super()._check_parameters()
        if not self.sketchers:
            raise ValueError("sketchers is empty; give at least one sketcher.")
        for k, sketcher in enumerate(self.sketchers):
            if not isinstance(sketcher, BaseSketcher) or isinstance(sketcher, SketchUnion):
                raise TypeError(
                    f"sketchers[{k}] must be a sketcher with a fixed map, such as "
                    f"HistogramSketcher or RFFSketcher, got {type(sketcher).__name__}. An "
                    "AdaptiveSketcher chooses by what it has counted: fit it by itself. List all "
                    "parts in one union."
                )
            for name in ("ledger", "schema", "max_rows_per_group"):
                if getattr(sketcher, name) is not None:
                    raise ValueError(
                        f"sketchers[{k}] has {name} of its own; give it to the SketchUnion, which "
                        "makes one release of one table."
                    )
            with_schema(sketcher, self.schema)._check_parameters()
        weights = self._shares()
        if weights.shape != (len(self.sketchers),) or not np.all(weights > 0):
            raise ValueError(
                f"weights must be {len(self.sketchers)} positive numbers, got {self.weights!r}."
            )

    def _shares(self):
        if self.weights is None:
            return np.full(len(self.sketchers), 1 / len(self.sketchers))
        try:
            weights = np.atleast_1d(np.asarray(self.weights, dtype=np.float64))
        except (TypeError, ValueError):
            weights = np.full(len(self.sketchers), np.nan)  # which `_check_parameters` refuses
        return weights / weights.sum()

    def _draw_map(self, schema, rng):
        maps = []
        for sketcher in self.sketchers:
            part = with_schema(sketcher, self.schema)
            # Parts draw one after the other from the union's generator, so that one int makes the
            # whole map; a part with a random_state draws what it would draw alone.
            own = sketcher.random_state
            maps.append(part._draw_map(schema, rng if own is None else check_random_state(own)))
        return UnionMap(maps)


def with_schema(sketcher, schema):
    """Return a clone of `sketcher` that takes `schema` where it has none."""
    copy = own_clone(sketcher)
    if copy.schema is None:
        copy.schema = schema
    return copy
