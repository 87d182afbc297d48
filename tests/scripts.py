"""Scripts of `examples`, as modules."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def load(path):
    """Return the script at a path below `examples`, without running its main."""
    path = ROOT / "examples" / path
    sys.path.insert(0, str(path.parent))  # where what it shares with others is
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
