"""Public points that stand for all that may be asked, where nobody has given any."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.spatial.distance import cdist
from scipy.stats import qmc

from .._computing import warn_caller
from ..schema._schema import TableSchema
from .erm._problem import Space, factor_jitter

# Below this part of a point's squared norm, answers drown: signal falls with it, noise with its
# root. With it at 0.003, an AUC was 0.85 where a smaller gamma had 0.99.
_MIN_SHARE_SEEN = 0.01
# The most columns of a Sobol sequence.
MOST_COLUMNS: int = qmc.Sobol.MAXDIM


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


def warn_of_blindness(space: Space, landmarks: NDArray, points: NDArray, kernel: object) -> None:
    """Warn where landmarks are too far from other public points of the schema to see them."""
    share = seen_share(space, landmarks, points)
    if share < _MIN_SHARE_SEEN:
        warn_caller(
            f"Take {_longer_reach(kernel, landmarks, points)}, kernel='linear' or 'poly', a "
            "transformer, fewer columns, or a TDDL learner with public rows as X_public. "
            f"kernel={kernel!r} is near 0 between most points of the schema, so the model will be "
            f"near chance: {len(landmarks)} points drawn from it see {share:.1g} of the kernel at "
            "a typical other one.",
            UserWarning,
        )


def warn_of_isolation(space: Space, points: NDArray, kernel: object) -> None:
    """Warn where public points are too far from each other: then rows like them are, too."""
    points = points[:: 1 + len(points) // 1000]
    some, others = points[::2], points[1::2]
    if len(others) < 10:  # these say little
        return
    share = seen_share(space, some, others)
    if share < _MIN_SHARE_SEEN:
        warn_caller(
            "If you scale X in a Pipeline, scale X_public as well: give the learner a schema, "
            "which reads both, in place of a scaler. Else take "
            f"{_longer_reach(kernel, some, others)}, or kernel='linear' or 'poly'. "
            f"kernel={kernel!r} is near 0 between rows of X_public ({share:.1g} of it is seen), so "
            "the model will be near chance.",
            UserWarning,
        )


def _longer_reach(kernel: object, here: NDArray, there: NDArray) -> str:
    if kernel != "rbf":
        return "a kernel with a longer reach"
    # Points are then about one reach of the kernel apart.
    about = f"a gamma of about {1 / float(cdist(here, there, 'sqeuclidean').mean()):.1g} or less"
    return f'{about} ("auto", where there is a schema)'
