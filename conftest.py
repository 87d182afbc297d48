"""What every test run needs: one BLAS thread per process, and no doctests that need numba."""

import importlib.util
import os

# Those of several test processes would fight for the cores.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

collect_ignore = []
if importlib.util.find_spec("numba") is None:
    collect_ignore.append("skdpsumm/features/_engine_numba.py")
