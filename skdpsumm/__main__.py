"""``python -m skdpsumm``: the library's jobs on bundled data, in about half a minute."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from skdpsumm import _demo
from skdpsumm._computing import one_blas_thread


def main() -> None:
    """Run the demonstrations."""
    parser = argparse.ArgumentParser(prog="python -m skdpsumm", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder for the files")
    folder = parser.parse_args().output
    try:
        import pandas  # noqa: F401
    except ImportError:
        sys.exit("The demonstration reads its tables with pandas: pip install 'skdpsumm[plot]'")
    with one_blas_thread():  # all products are small, and the machine may be busy
        print("== 1. Sketch once, ask forever: breast cancer measurements\n")
        _demo.sketch_once(folder)
        print("\n== 2. Choose rows from many owners: handwritten digits\n")
        _demo.choose_rows()
        print("\n== 3. Learn with kernels: handwritten digits, odd or even\n")
        _demo.learn_with_kernels()


if __name__ == "__main__":
    main()
