"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

from ._feature_maps import (
    GRID,
    GRID_BITS,
    FeatureMap,
    FourierMap,
    OneHotMap,
    RACEMap,
    UnionMap,
    feature_map_from_state,
    project_to_simplex,
)
from ._histogram import HistogramMap
from ._scaler import PublicScaler

__all__ = [
    "GRID",
    "GRID_BITS",
    "FeatureMap",
    "FourierMap",
    "HistogramMap",
    "OneHotMap",
    "PublicScaler",
    "RACEMap",
    "UnionMap",
    "feature_map_from_state",
    "project_to_simplex",
]
