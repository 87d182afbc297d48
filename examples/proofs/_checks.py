"""What the scripts beside this one print, and when they fail.

Each computes *exact* numbers from the definition of a mechanism, and holds the library's claim
against them. A claim must not be exceeded; a wrong claim, which a script plants, must be.
"""

import math

import numpy as np

# Exact numbers are sums of floats: what exceeds a claim by less than this does not exceed it.
RELATIVE, ABSOLUTE = 1e-9, 1e-13


def hockey_stick(p, q, epsilon):
    """Return the sum of (p - exp(epsilon) q)_+, for masses p and q of the same outcomes."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def both_ways(p, q, epsilon):
    """Return the larger of the two divergences between the laws of two neighbours."""
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


class Checks:
    """Prints what was compared, and remembers what failed."""

    def __init__(self, title):
        self._failed = 0
        print(title)

    def holds(self, what, exact, claimed, *, relative=RELATIVE, absolute=ABSOLUTE):
        """Print one number beside its bound, and fail where it is larger."""
        ok = exact <= claimed * (1 + relative) + absolute
        self._note(ok, f"{what}: {exact:.6g}, at most {claimed:.6g}")

    def curve(self, what, epsilons, exact, claimed, *, relative=RELATIVE, absolute=ABSOLUTE):
        """Print delta at some epsilons beside the claim, and fail where the claim is exceeded."""
        exact, claimed = np.asarray(exact), np.asarray(claimed)
        ok = bool(np.all(exact <= claimed * (1 + relative) + absolute))
        self._note(ok, what)
        shown = np.where(exact < absolute, 0.0, exact)
        rows = {"epsilon": epsilons, "exact": shown, "claimed": claimed}
        for name, values in rows.items():
            print(f"      {name:<8}" + "".join(f"{value:>10.3g}" for value in values))

    def found_out(self, what, exact, wrong, *, factor=1.01):
        """Fail unless a wrong claim is exceeded somewhere, by this factor at least."""
        exact, wrong = np.atleast_1d(exact), np.atleast_1d(wrong)
        seen = exact > 1e-12
        times = float(np.max(exact[seen] / np.maximum(wrong[seen], 1e-300), initial=0.0))
        size = f"{times:.3g} times" if times < 1e6 else "without bound"
        self._note(times >= factor, f"wrong on purpose, {what}: exceeded {size}")

    def close(self):
        """End the script, with status 1 where anything failed."""
        if self._failed:
            raise SystemExit(f"{self._failed} check(s) failed.")
        print("All claims hold, and all wrong ones were found out.")

    def _note(self, ok, text):
        self._failed += not ok
        print(f"  {'ok  ' if ok else 'FAIL'}  {text}")
