"""Public feature maps: each knows its L1 and L2 bound and describes itself."""

__all__: list[str] = []
