"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

# What is imported as itself is for our own packages, and not public.
from ._feature_maps import GRID as GRID
from ._feature_maps import FeatureMap, FourierMap, RACEMap, UnionMap
from ._feature_maps import OneHotMap as OneHotMap
from ._feature_maps import feature_map_from_state as feature_map_from_state
from ._feature_maps import project_to_simplex as project_to_simplex
from ._histogram import HistogramMap
from ._scaler import PublicScaler

__all__ = ["FeatureMap", "FourierMap", "HistogramMap", "PublicScaler", "RACEMap", "UnionMap"]
