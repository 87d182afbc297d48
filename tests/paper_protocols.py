"""What the examples of the papers have of their own, for tests."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "papers"
sys.path.insert(0, str(FOLDER))

import _printed as printed  # noqa: E402
from _ask_all import AskAll, SendBest  # noqa: E402

__all__ = ["FOLDER", "AskAll", "SendBest", "printed"]
