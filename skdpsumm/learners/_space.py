"""In which space a learner learns: rows of its table, its kernel or features, public points."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.spatial.distance import cdist
from scipy.stats import qmc
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from .._computing import warn_caller
from ..features._feature_maps import auto_gamma
from ..schema._reading import SparseRows, beside_X, unwrap, validate_table
from ..schema._schema import TableSchema, public_points
from ..schema._vectorizer import (
    Interactions,
    VectorRows,
    keeps_zero,
    n_splines,
    vectorize,
    vectorize_sparse,
)
from .erm._kernel_space import KernelSpace, PolynomialKernel
from .erm._problem import FeatureSpace, Space, check_radius, factor_jitter, fitted_alone

# The part that learners take of the gamma of sketches. Measured with TDDL and landmarks: without
# noise half of it had an AUC of 0.886 on Adult, where all of it had 0.866 (0.843 and 0.821 on ACS,
# 0.811 and 0.793 on Covertype), and on 2 and 5 columns of a box 0.01 less; with noise they differ
# less.
_PART_OF_SKETCHES_GAMMA = 0.5
# Numbers of hats: of one number, and of all numbers at most. 4 to 8 were within 0.005 AUC of one
# another on Adult and ACS, and 0.004 to 0.01 above none at epsilon 1; on 64 pixels they lost 0.02
# of accuracy.
_HATS_PER_NUMBER, _MAX_HATS = 6, 256
# Below this part of a point's squared norm, answers drown: signal falls with it, noise with its
# root. With it at 0.003, an AUC was 0.85 where a smaller gamma had 0.99.
_MIN_SHARE_SEEN = 0.01
_IF_SCALED = (
    "If you scale X in a Pipeline, scale X_public as well: give the learner a schema, which reads "
    "both, in place of a scaler. Else take {}"
)
# The most columns of a Sobol sequence.
MOST_COLUMNS: int = qmc.Sobol.MAXDIM


class Reading(NamedTuple):
    """How tables become rows of numbers: by a schema, or as they are."""

    schema: TableSchema | None
    wants_splines: bool
    takes_sparse: bool

    def cells(self, model: Any, *X_and_y: Any, **more: Any) -> Any:
        """Return the cells of a table, and y if it is given, as `validate_table` reads them."""
        options = {"schema": self.schema, "accept_sparse": self.takes_sparse, **more}
        return validate_table(model, *X_and_y, **options)

    def of_table(self, model: Any) -> TableSchema:
        """Return the schema of the tables that a learner was given."""
        assert self.schema is not None
        names = getattr(model, "feature_names_in_", None)
        return self.schema.for_table(model.n_features_in_, names)

    def vectors(self, cells: Any, model: Any) -> Any:
        """Return cells that were read for a learner as its rows, each by itself."""
        if self.schema is None:
            return cells
        table, n_knots = self.of_table(model), self._n_knots(model)
        if isinstance(cells, SparseRows):
            if n_knots and n_splines(table, n_knots):
                raise ValueError(
                    "With sparse X, zero must stay zero, and kernel='splines' makes new numbers of "
                    "each: set kernel='linear', or leave the schema out."
                )
            return vectorize_sparse(table, cells)
        return vectorize(table, cells, n_knots=n_knots)

    def rows(self, cells: Any, model: Any) -> Any:
        """Return cells that were read for a fit; explicit features take their vectors in blocks."""
        if self.schema is None or isinstance(cells, SparseRows) or not model._is_explicit:
            return self.vectors(cells, model)
        table = self.of_table(model)
        return VectorRows.of(table, cells, n_knots=self._n_knots(model))

    def interactions(self, model: Any) -> Interactions | None:
        """Return the products that go beside a learner's vectors, if there are any."""
        n_knots = self._n_knots(model)
        return Interactions.of(self.of_table(model), n_knots) if n_knots else None

    def _n_knots(self, model: Any) -> int:
        """Return how many hats each number has."""
        if self.schema is None or not self.wants_splines:
            return 0
        few = n_splines(self.of_table(model), _HATS_PER_NUMBER) <= _MAX_HATS
        return _HATS_PER_NUMBER if few else 0

    @property
    def keeps_zero(self) -> bool:
        """Whether sparse rows stay sparse; raises ValueError for numbers that have no range."""
        if self.schema is None:
            return True
        self.schema.require_bounds()
        return keeps_zero(self.schema) and not (
            self.wants_splines and n_splines(self.schema, _HATS_PER_NUMBER)
        )


def open_space(learner: Any, X: NDArray, X_public: Any) -> tuple[Space, NDArray | None]:
    """Return the space, and the public points in it."""
    seed = check_random_state(learner.random_state).randint(np.iinfo(np.int32).max)
    norm_bound = 1.0 if learner.norm_bound is None else float(learner.norm_bound)
    n_columns = X.shape[1]
    X_public = unwrap(X_public)
    if learner._is_explicit:
        own = learner._transformer
        if own is not None:
            own = fitted_alone(own, n_columns, seed)
        # No products stand beside numbers under pure DP, where noise grows with the number of
        # features. Nor for regressors: halving the part of the hats cost R^2 0.07 on Friedman's
        # function at epsilon 1, and more with fewer rows.
        elif is_classifier(learner) and learner.delta > 0:
            own = learner._reading.interactions(learner)
        is_sparse = isinstance(X, SparseRows)
        space: Space = FeatureSpace(own, n_columns, norm_bound, is_sparse=is_sparse)
    else:
        space = KernelSpace(*kernel_and_params(learner), norm_bound)
    check_radius(space.radius)  # which landmarks are tried out with
    return space, _public_points(learner, X_public, space, seed)


def _public_points(learner: Any, X_public: Any, space: Space, seed: int) -> NDArray | None:
    """Return the public points: those given, or landmarks where the kernel needs some."""
    if X_public is not None:
        with beside_X("X_public", X_public):
            points = learner._read(X_public, learner._reading)
        some = points[:: 1 + len(points) // 1000]
        if space.n_features is None and len(some) >= 20:  # fewer say little
            pair = some[::2], some[1::2]
            warn_of_blindness(space, *pair, learner._kernel, "rows of X_public", _IF_SCALED)
        return points
    mechanism = learner._chosen_mechanism()
    if mechanism.candidates is not None:
        return learner._read(mechanism.candidates, learner._reading)
    explicit = space.n_features is not None
    if explicit or not learner._draws_landmarks or mechanism.n_landmarks is None:
        return None
    if learner.schema is None:
        raise ValueError(
            f"{type(learner).__name__} with kernel={learner._kernel!r} needs public points: "
            + ("pass them to fit as X_public, or " if learner._takes_public_points else "")
            + "give a schema, the public description of the columns, to draw landmarks from, "
            "such as schema=(0, 1) or {'age': (17, 90)}, in place of a PublicVectorizer in front. "
            "Or set kernel to a transformer."
        )
    reading, table = learner._reading, learner._reading.of_table(learner)
    n_landmarks = mechanism.count_landmarks(len(table.numeric), float(learner.delta))
    landmarks, others = (
        reading.vectors(even_points(table, n_points, own_seed), learner)
        for n_points, own_seed in ((n_landmarks, seed), (64, seed + 1))
    )
    told = "most points of the schema", "Take {}, a TDDL learner with X_public"
    warn_of_blindness(space, landmarks, others, learner._kernel, *told)
    return landmarks


def kernel_and_params(learner: Any) -> tuple[Any, dict[str, Any]]:
    """Return the kernel's name, and its parameters."""
    kernel = PolynomialKernel() if learner._kernel in ("poly", "polynomial") else learner._kernel
    if isinstance(kernel, PolynomialKernel):
        more = {"degree": int(kernel.degree), "coef0": float(kernel.coef0)}
        return "poly", {"gamma": 1.0 if learner.gamma == "auto" else float(learner.gamma), **more}
    return kernel, {"gamma": _gamma(learner)}


def _gamma(learner: Any) -> float:
    """Return gamma, that of the public points of the schema where it is left to us."""
    if learner.gamma != "auto":
        return float(learner.gamma)
    reading = learner._reading
    points = reading.vectors(public_points(reading.of_table(learner)), learner)
    return _PART_OF_SKETCHES_GAMMA * auto_gamma(points)


# ---- public points that stand for all that may be asked, where nobody has given any


def even_points(schema: TableSchema, n_points: int, seed: int) -> NDArray:
    """Return rows that fill the schema of a table evenly (a scrambled Sobol sequence).

    Categories and missing cells are among them, so they are to be read as tables are.

    Parameters
    ----------
    schema : TableSchema
        That of a table, with the range of every numeric column.
    n_points : int
    seed : int
        Public.
    """
    with warnings.catch_warnings():
        # Any number of points will do; the sequence says that powers of two fill best.
        warnings.simplefilter("ignore", UserWarning)
        points = qmc.Sobol(schema.n_columns, rng=seed).random(n_points)
    return schema.at(points)


def seen_share(space: Space, landmarks: NDArray, points: NDArray) -> float:
    """Return which part of |phi(x)|^2 lies in the span of the landmarks, for the median point.

    Everything here is public.
    """
    gram = space.gram(landmarks, landmarks)
    gram[np.diag_indices_from(gram)] += factor_jitter(space, len(landmarks))
    across = space.gram(landmarks, points)
    whole = np.diag(space.gram(points, points))
    inside = np.sum(across * solve(gram, across, assume_a="sym"), axis=0)
    return float(np.median(inside / np.maximum(whole, np.finfo(float).tiny)))


def warn_of_blindness(
    space: Space, here: NDArray, there: NDArray, kernel: object, where: str, advice: str
) -> None:
    """Warn where public points are too far from others to see them: then rows are, too."""
    share = seen_share(space, here, there)
    if share < _MIN_SHARE_SEEN:
        told = advice.format(_longer_reach(kernel, here, there))
        warn_caller(
            f"{told}, kernel='linear' or 'poly', fewer columns or a transformer. kernel={kernel!r} "
            f"is near 0 between {where}, so the model will be near chance: {len(here)} of them see "
            f"{share:.1g} of the kernel at a typical other one."
        )


def _longer_reach(kernel: object, here: NDArray, there: NDArray) -> str:
    if kernel != "rbf":
        return "a kernel with a longer reach"
    # Points are then about one reach of the kernel apart.
    about = f"a gamma of about {1 / float(cdist(here, there, 'sqeuclidean').mean()):.1g} or less"
    return f'{about} ("auto", where there is a schema)'
