"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

from . import _histogram  # noqa: F401  a map that a file may name
from ._scaler import PublicScaler

__all__ = [
    "PublicScaler",
]
