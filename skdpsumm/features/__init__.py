"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

from . import _histogram  # noqa: F401  a map that a file may name

__all__: list[str] = []
