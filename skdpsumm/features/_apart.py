"""How far apart phi of two rows can be: a proved lower bound of a random kernel.

With frequencies w_1, .., w_p, ``|phi(x) - phi(y)|^2 = 2 p (1 - k(x - y))``, where ``k(t)`` is the
mean of ``cos(w_i . t)``. It is at least -1, which unbounded columns come near. Under a schema with
ranges t lies in a union of boxes (`Column.differences`), and k may be proved to be larger there.

*A box.* The second derivative of a cosine is at least -1, so ``cos(a + u) >= cos a - u sin a -
u^2 / 2``. With g the mean of ``w_i sin(w_i . c)`` and M that of ``w_i w_i'``, this gives for all u
with ``|u_j| <= h_j``

    ``k(c + u) >= k(c) - sum_j |g_j| h_j - sum_jl |M_jl| h_j h_l / 2``.

*All boxes.* Boxes whose bound is below a level are halved until none is left, or the work allowed
is done. What is proved is a level, never the least value found: a search that looks at points sees
no point between them. So the bound is a function of the schema and the frequencies, both public.
Levels are far apart, so that machines whose last bits differ prove the same one.
"""

from __future__ import annotations

import numpy as np

from .._computing import Floats
from ..schema._schema import TableSchema

# What is tried one after the other. Noise falls from a factor of 2 to one of sqrt(2 - 2 level).
LEVELS = (-0.75, -0.625, -0.5, -0.375, -0.25, -0.1875, -0.125, -0.0625, 0.0)
# Up to this many cosines are computed, which takes a tenth of a second. A box takes as long as a
# hundred of them, besides its own.
_MOST_COSINES, _PER_BOX = 6_000_000, 100
# Length of an encoded row. With more columns no bound was ever proved.
_MOST_ENCODED = 64
# The engine's angles are exact to 2**-17 turns; this is five times as much as those of two rows
# move k. The rest is for the rounding of the sums here, while angles are below `_LARGEST_ANGLE`.
_ANGLE_ERROR, _LARGEST_ANGLE = 2.0**-11, 1024.0


def least_kernel(schema: TableSchema, frequencies: Floats) -> float:
    """Return a number that the mean of ``cos(w . (x - y))`` is at least, for all rows x and y.

    Parameters
    ----------
    schema : TableSchema
    frequencies : ndarray of shape (schema.n_encoded, p)
        The w, in radians.

    Returns
    -------
    float
        -1 if no more was proved.
    """
    d, p = frequencies.shape
    if d > _MOST_ENCODED or np.abs(frequencies).sum(axis=0).max() > _LARGEST_ANGLE:
        return -1.0
    boxes = _differences(schema, _MOST_COSINES // (p + _PER_BOX))
    if boxes is None:
        return -1.0
    cover, proved = _Cover(frequencies, *boxes), -1.0
    for level in LEVELS:
        if not cover.proves(level):
            break
        proved = level - _ANGLE_ERROR
    return proved


def _differences(schema: TableSchema, most: int) -> tuple[Floats, Floats] | None:
    """Return boxes that hold ``x - y`` or ``y - x`` of all rows: their centres and half widths.

    None if there is no such box, or there are more than `most`.
    """
    centers = halves = np.zeros((1, 0))
    for column in schema.columns:
        found = column.differences()
        if found is None or len(centers) * len(found[0]) > most:
            return None
        n, k = len(centers), len(found[0])
        centers, halves = (
            np.hstack([np.repeat(left, k, axis=0), np.tile(right, (n, 1))])
            for left, right in zip((centers, halves), found, strict=True)
        )
    # Boxes come in pairs of opposite centres. Of each pair one is enough, for k is even.
    first = centers[np.arange(len(centers)), np.argmax(centers != 0, axis=1)]
    return centers[first >= 0], halves[first >= 0]


class _Cover:
    """Boxes that cover all differences of two rows, with a lower bound of k on each."""

    def __init__(self, frequencies: Floats, centers: Floats, halves: Floats):
        self.frequencies = frequencies
        self.n_frequencies = frequencies.shape[1]
        self.products = np.abs(frequencies @ frequencies.T) / self.n_frequencies
        self.n_cosines = 0
        self.boxes = self._bounded(centers, halves)

    def proves(self, level: float) -> bool:
        """Halve boxes where that raises their bounds most, until each is at least `level`.

        Return whether they are; False where that takes too much work, or a box is a point.
        """
        while np.any(low := self.boxes[0] < level):
            _, slopes, centers, halves = (array[low] for array in self.boxes)
            boxes = np.arange(len(centers))
            widest = np.argmax(halves * (slopes + halves @ self.products), axis=1)
            step = np.zeros_like(halves)
            step[boxes, widest] = halves[boxes, widest] / 2
            n_more = 2 * len(boxes) * (self.n_frequencies + _PER_BOX)
            # The bound of a box that is a point is the value.
            if self.n_cosines + n_more > _MOST_COSINES or not np.all(step.any(axis=1)):
                return False
            new = self._bounded(
                np.vstack([centers - step, centers + step]), np.tile(halves - step, (2, 1))
            )
            pairs = zip(self.boxes, new, strict=True)
            self.boxes = tuple(np.concatenate([array[~low], more]) for array, more in pairs)
        return True

    def _bounded(self, centers: Floats, halves: Floats) -> tuple[Floats, ...]:
        """Return lower bounds of k on boxes, its absolute slopes in the middle, and the boxes."""
        self.n_cosines += len(centers) * (self.n_frequencies + _PER_BOX)
        values, slopes = np.empty(len(centers)), np.empty_like(centers)
        n_at_once = max(1, 2**18 // self.n_frequencies)
        for start in range(0, len(centers), n_at_once):
            some = slice(start, start + n_at_once)
            angles = centers[some] @ self.frequencies
            values[some] = np.cos(angles).mean(axis=1)
            slopes[some] = np.abs(np.sin(angles) @ self.frequencies.T) / self.n_frequencies
        curved = np.sum((halves @ self.products) * halves, axis=1) / 2
        return values - np.sum(slopes * halves, axis=1) - curved, slopes, centers, halves
