"""The protocol of the examples of the papers, for tests of protocols with many rounds."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "papers"))

from _ask_all import AskAll

__all__ = ["AskAll"]
