"""One thread for BLAS in each test process: those of several processes fight for the cores."""

import os

for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
