"""Owners at several organisations: the curator and the owners of `summaries`, over Flower.

Needs the extra ``flower``. Nothing here chooses, scores or draws: messages of `Curator` and
`DataOwner` are put on Flower's wire and taken off it again, and what reaches an owner is checked,
logged and counted. docs/federated.md has the commands.
"""

import os

# Read once, when flwr is imported. Neither usage figures nor versions leave an owner's site.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

try:
    import flwr  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        'skdpsumm.federated needs Flower and pyarrow: pip install "skdpsumm[flower]".'
    ) from error

# Its face are commands: docs/federated.md.
__all__: list[str] = []
