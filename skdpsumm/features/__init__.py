"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

from typing import Any

from numpy.typing import NDArray

from ._base import GRID, GRID_BITS, FeatureMap
from ._columns import Columns, stack_columns, stratified
from ._fourier import FourierMap
from ._histogram import HistogramMap
from ._one_hot import OneHotMap, project_to_simplex
from ._race import RACEMap
from ._scaler import PublicScaler
from ._union import UnionMap

__all__ = [
    "GRID",
    "GRID_BITS",
    "Columns",
    "FeatureMap",
    "FourierMap",
    "HistogramMap",
    "OneHotMap",
    "PublicScaler",
    "RACEMap",
    "UnionMap",
    "feature_map_from_state",
    "project_to_simplex",
    "stack_columns",
    "stratified",
]

_KINDS = {m.kind: m for m in (FourierMap, HistogramMap, RACEMap, UnionMap)}


def feature_map_from_state(state: dict[str, Any], arrays: dict[str, NDArray]) -> FeatureMap:
    """Rebuild a feature map from its `to_state`.

    Raises
    ------
    ValueError
        For a description that is none: what the constructors refuse, they refuse here.
    """
    kind = state.get("kind") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(
            f"Unknown feature map {kind!r}; known are {sorted(_KINDS)}. "
            "A newer version of skdpsumm may read it."
        )
    try:
        return _KINDS[kind].from_state(state, arrays)
    except (KeyError, TypeError) as error:
        raise ValueError(f"The description of a {kind} map lacks parts, or has others.") from error
