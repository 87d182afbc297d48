"""Several sketches for one budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..features._feature_maps import UnionMap
from ..privacy import PrivacyLedger
from ..privacy._fit import own_clone
from ..schema._schema import SchemaLike
from ._sketchers import BaseSketcher


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
        1 shows progress on the standard error stream. A step is 65,536 rows. It tells the number of
        rows, so it is off by default and for the curator alone. Dask has its own display.

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
