"""The release: exact sums until the noise is added once, what an analyst holds, and its file.

A file is a line of JSON, then the numbers of the arrays that it lists, and a checksum. The
checksum, SHA-256 of all bytes before it, tells a damaged file before any of it is parsed. It is no
signature: whoever knows the format can write anything under it. So nothing in a file is believed.
The header is counted before it is parsed (`_bounded`). It says the dtype and the shape of each
array, which must be plain and take just the bytes that there are: no other parser sees them.
Nothing is compressed, so that a file takes the memory that its size tells. Each part is made by the
constructor that checks it, and what was made must have the very same contents again: what has
another type or does not belong there is told. Last, what a sketch says of itself must be possible:
its claim, its noise and its sums together (`check_consistent`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._bounded import DEEPEST, MOST_BYTES, check_json, path_of_file, read_json
from .._html import cut, html_table, more_of, some_of
from ..features._feature_maps import (
    AVERAGE,
    GRID,
    MOST_FEATURES,
    FeatureMap,
    HistogramMap,
    feature_map_from_state,
    sensitivities,
)
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import Explanation
from ..privacy._mechanisms import Mechanism, parallel
from ..privacy._noise import TOO_LARGE, IntegerNoise, load_noise
from ..schema._groups import Groups
from ..schema._schema import TableSchema

# Sums and noise are below this, in rows. Those of one release are below 2**48, for noise is of 64
# bits on a grid of 2**-15, so this is a sum of 65,536 of them; its square is far from overflowing.
LARGEST_SUM = 2.0**64
# Rows that are copied at once: half a MiB a column, so that some copies of 300 columns fit a GiB.
ROWS_PER_BATCH = 2**16
# Noise is above this, in rows. That of epsilon = 1e20 is above 1e-135, and the square of this is a
# number.
SMALLEST_NOISE = 1e-140
# A sum of more releases than this does not say which. One of k like releases has 1 / k of the
# variance of the noise: who takes it to be noise of its own has the variance of a difference too
# large by 2 / k.
MOST_ADDED = 64
_KEY = re.compile("[0-9a-f]{64}")
# The words of `given` by which a guarantee about groups says how many rows of one count.
_LIMIT = re.compile(r"max_rows_per_group=(?:([1-9][0-9]{0,17})|'average') \(")


@dataclass(frozen=True, eq=False)
class PrivateSketch:
    """A noisy sum of phi(x) over a data set, with all that is needed to read it.

    You may publish, pickle and copy it, because everything in it is either public or carries noise.
    Whatever you compute from it costs no further privacy.

    Parameters
    ----------
    feature_map : FeatureMap
        The public phi, with the schema of the table (`feature_map.schema`).
    sums : ndarray of shape (m,)
        Sum of phi plus noise, as released.
    noise_std : ndarray of shape (m,)
        Standard deviation of the noise in `sums`. Divide it by `n_samples` for the noise in `mean`.
    n_released : float
        Noisy number of rows, as released. It is exact where the number is public (adjacency
        "replace_one").
    n_noise_std : float
        Standard deviation of the noise in `n_released`.
    privacy : PrivacyGuarantee
        What the release promises.
    postprocess : bool, default=True
        Whether to move `mean` to the set that contains every true mean: the simplex for each
        histogram, the unit disk for each (cos, sin) pair. The default is True because it lowers the
        error of each entry. It biases sums of many entries, so M2M answers from `unprojected`.
    n_from_sums : bool, default=False
        Whether `n_released` was computed from `sums` (each histogram sums to n). The default is
        False because Fourier features have no such sum.
    added : tuple of (str, tuple of float), default=()
        For a sum of sketches: the `key` of each release in it, and the standard deviation of its
        noise in each of `blocks` and in the number of rows. So answers of the sum and of what was
        added share noise. Empty for a single release, and for a sum of more than 64, or of one
        release twice.

    Raises
    ------
    ValueError
        If a part has a wrong shape or type, is not finite, is beyond `LARGEST_SUM`, or has noise in
        some places only. No release has such parts.

    Notes
    -----
    ``mean = sums / n_samples`` is the private sketch z of the M2M paper, equation (2).
    If the noise drowns the number of rows (`n_released` below three standard deviations), the mean
    is that of total ignorance: uniform histograms and zero Fourier coefficients.

    See Also
    --------
    AdaptiveSketcher : Makes one, and chooses what it counts.
    M2MEstimator : Answers questions from one.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import HistogramSketcher, PrivateSketch
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> sketcher = HistogramSketcher(schema=(0, 1), n_bins=4)
    >>> sketch, other = (sketcher.fit(rows).sketch_ for rows in (X[:600], X[600:]))
    >>> sketch.mean.shape
    (8,)
    >>> both = sketch + other  # of tables that share no row
    >>> both.privacy.epsilon(1e-6) <= 1
    True
    """

    feature_map: FeatureMap
    sums: NDArray[np.float64]
    noise_std: NDArray[np.float64]
    n_released: float
    n_noise_std: float
    privacy: PrivacyGuarantee
    postprocess: bool = True
    n_from_sums: bool = False
    added: tuple[tuple[str, tuple[float, ...]], ...] = ()

    def __post_init__(self):
        _check_array("sums", self.sums, self.feature_map)
        _check_array("noise_std", self.noise_std, self.feature_map)
        _check_number("n_released", self.n_released)
        _check_number("n_noise_std", self.n_noise_std)
        if not isinstance(self.privacy, PrivacyGuarantee):
            raise ValueError("privacy must be a PrivacyGuarantee.")
        if not (type(self.postprocess) is bool and type(self.n_from_sums) is bool):
            raise ValueError("postprocess and n_from_sums must be True or False.")
        if self.noise_std.any() and self.noise_std.min() < SMALLEST_NOISE:
            raise ValueError(f"noise_std must be 0 throughout, or at least {SMALLEST_NOISE:g}.")
        if self.n_noise_std and self.n_noise_std < SMALLEST_NOISE:
            raise ValueError(f"n_noise_std must be 0, or at least {SMALLEST_NOISE:g}.")
        if self.n_from_sums and not self.feature_map.row_groups():
            raise ValueError("n_from_sums needs features whose rows sum to n.")
        if self.added != ():
            _check_added(self.added, self._noise_levels())

    @cached_property
    def key(self) -> str:
        """Hash of what was released: the same for a copy and a file, another for other noise.

        It is of exact numbers alone, so that a sum has the same one in whatever order it was made.
        """
        exact = self.sums if self.n_from_sums else np.append(self.sums, self.n_released)
        return hashlib.sha256(exact.tobytes()).hexdigest()

    @cached_property
    def releases(self) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """The releases that share no noise, of which this is the sum: as `added`, or itself."""
        return self.added or ((self.key, self._noise_levels()),)

    def sources(self, block: int) -> list[tuple[str, float]]:
        """Return whose noise is in a block, as keys, and each part of the standard deviation.

        Squares of the parts sum to 1, or all are 0 where there is no noise. The block after the
        last one is the number of rows.
        """
        noise = {key: levels[block] for key, levels in self.releases}
        whole = math.hypot(*noise.values()) or 1.0
        return [(key, level / whole) for key, level in noise.items()]

    def _noise_levels(self) -> tuple[float, ...]:
        """Return the standard deviation of the noise in each block and in the number of rows."""
        of_blocks = (float(self.noise_std[where][0]) for _, where in self.blocks())
        return (*of_blocks, float(self.n_noise_std))

    @property
    def n_samples(self) -> float:
        """Private estimate of the number of rows, at least 1."""
        return max(1.0, float(self.n_released))

    @property
    def is_drowned(self) -> bool:
        """Whether noise drowns the number of rows, so that nobody can tell it from zero."""
        return self.n_released < max(3 * self.n_noise_std, 1.0)

    @property
    def mean_noise_std(self) -> NDArray[np.float64]:
        """Standard deviation of the noise in `mean`; a drowned release may be of a single row."""
        return self.noise_std / (1.0 if self.is_drowned else self.n_samples)

    @property
    def counts_groups(self) -> bool:
        """Whether each group of rows counts once, so that a row is a part of one."""
        return "; max_rows_per_group='average' (" in self.privacy.given

    @property
    def lone_columns(self) -> list[int]:
        """Positions of the columns of which no feature tells how they go with any other.

        Answers take these to be independent of all others.
        """
        n_columns = self.schema.n_columns
        every = set(range(n_columns)) if n_columns > 1 else set()
        together = (group for group in self.feature_map.column_groups() if len(group) > 1)
        return sorted(every.difference(*together))

    @property
    def mean(self) -> NDArray[np.float64]:
        """Private estimate of the mean of phi, shape (m,)."""
        return self.to_mean(self.sums, self.n_released)

    def to_mean(self, sums: NDArray, n_rows: float) -> NDArray[np.float64]:
        """Return the mean that a release of `sums` and `n_rows` would have."""
        if not self.postprocess:
            return sums / max(1.0, n_rows)
        if n_rows < max(3 * self.n_noise_std, 1.0):
            return self.feature_map.neutral_mean()
        return self.feature_map.project(sums / n_rows)

    def unprojected(self) -> PrivateSketch:
        """Return the release with means that noise does not bias, or a drowned release as it is.

        The simplex keeps the positive noise of many nearly empty cells. Means that were read off
        projected histograms of pairs were two to six standard errors too high.
        """
        return self if self.is_drowned else replace(self, postprocess=False)

    def simulate(self, white: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return releases that data with this mean would have given (parametric bootstrap).

        Parameters
        ----------
        white : ndarray of shape (n_draws, m + 1)
            Noise of each release, in standard deviations: of the sums and of the number of rows.

        Returns
        -------
        means : ndarray of shape (n_draws, m)
        n_rows : ndarray of shape (n_draws,)
        """
        noise = self.noise_std * white[:, :-1]
        sums = self.mean * self.n_samples + noise
        if self.n_from_sums:
            weights, _ = rows_from_sums(self.feature_map, self.noise_std)
            n_rows = self.n_samples + noise @ weights
        else:
            n_rows = self.n_samples + self.n_noise_std * white[:, -1]
        n_rows = np.maximum(n_rows, 1.0)
        means = [self.to_mean(s, n) for s, n in zip(sums, n_rows, strict=True)]
        return np.array(means), n_rows

    @property
    def schema(self) -> TableSchema:
        """What is public about the columns, their units and descriptions included."""
        return self.feature_map.schema

    def blocks(self) -> list[tuple[FeatureMap, slice]]:
        """Return each elementary feature map with its place in `mean`."""
        return self.feature_map.blocks()

    def __add__(self, other: PrivateSketch) -> PrivateSketch:
        """Return the sketch of the union of two *disjoint* data sets.

        No row is in both, and with `max_rows_per_group` no group: a person with rows in both is
        protected by neither guarantee alone. Nothing can check that, so it is part of
        `privacy.given`.

        Adaptive sketches choose what they count, each for itself, so they cannot be added; nor can
        other sketches with different maps.

        Raises
        ------
        ValueError
            If the two were made with different feature maps, adjacencies or denominators, or if
            they are one and the same object.
        """
        if not isinstance(other, PrivateSketch):
            return NotImplemented
        difference = self.feature_map.difference(other.feature_map)
        if difference is not None:
            chosen = _chooses(self.feature_map) or _chooses(other.feature_map)
            raise ValueError(
                f"The two sketches have different features ({difference}) and cannot be added: "
                f"{_AGREE if chosen else _SAME}"
            )
        if other is self:
            raise ValueError(
                "These are one and the same sketch. Only sketches of tables that share no row can "
                "be added; to weight one table twice, multiply its answers by 2."
            )
        if self.n_from_sums != other.n_from_sums:
            raise ValueError(
                "Fit both sketches with the same denominator: one released its number of rows by "
                "itself, and the other takes it from its sums."
            )
        added = self.releases + other.releases
        # Nobody can stop an owner from sending what another has sent: then the sum does not say.
        is_known = len({key for key, _ in added}) == len(added) <= MOST_ADDED
        # One level stands for a block, so the two must be in one proportion in all of it.
        for _, where in self.blocks():
            own, others = self.noise_std[where], other.noise_std[where]
            is_known &= np.allclose(own * others[0], others * own[0], rtol=1e-6, atol=0.0)
        return PrivateSketch(
            self.feature_map,
            self.sums + other.sums,
            np.hypot(self.noise_std, other.noise_std),
            self.n_released + other.n_released,
            float(np.hypot(self.n_noise_std, other.n_noise_std)),
            PrivacyGuarantee.parallel([self.privacy, other.privacy]),
            self.postprocess and other.postprocess,
            self.n_from_sums,
            added if is_known else (),
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the sketch to a file, atomically: numpy arrays and JSON, no pickle.

        Parameters
        ----------
        path : path-like
            Where to write it. An existing file is replaced only once the new one is complete.
        """
        target = path_of_file(path)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
            complete = Path(folder) / "sketch"
            complete.write_bytes(packed(*self._contents()))
            # Noise was paid for: a file that cannot be read back would lose it for good.
            try:
                self.load(complete)
            except ValueError as error:
                reason = error.__cause__ or error
                raise ValueError(
                    f"The sketch is not saved, for it could not be loaded. {reason}"
                ) from error
            os.replace(complete, target)

    @classmethod
    def load(cls, path: str | os.PathLike) -> PrivateSketch:
        """Read a sketch from a file written by `save`.

        Parameters
        ----------
        path : path-like
            The file to read.

        Raises
        ------
        ValueError
            If the file is not a sketch, is damaged, is too large or has a newer format, or if it
            states an impossible map, noise, sum or guarantee.

        Notes
        -----
        Reading never runs code from the file, whoever wrote it. Reading cannot tell whether the
        noise was drawn as stated: for a guarantee you have the owner's word.
        """
        with path_of_file(path).open("rb") as file:
            octets = file.read(min(os.fstat(file.fileno()).st_size, LARGEST_FILE) + 1)
        return read_octets(octets, repr(os.fspath(path)), LARGEST_FILE)

    def _contents(self) -> tuple[Header, Arrays]:
        """Return the header and the arrays of a file."""
        state, map_arrays = self.feature_map.to_state()
        header = header_of(state, self.privacy) | {name: getattr(self, name) for name in NUMBERS}
        arrays = {f"map.{name}": array for name, array in map_arrays.items()}
        return header, arrays | {"sums": self.sums, "noise_std": self.noise_std}

    @classmethod
    def _from_contents(cls, header: Header, arrays: Arrays) -> PrivateSketch:
        """Return the sketch of a header and arrays; raise where they are not those of one."""
        own = {k.removeprefix("map."): a for k, a in arrays.items() if k.startswith("map.")}
        sketch = cls(
            feature_map_from_state(header["map"], own),
            arrays["sums"],
            arrays["noise_std"],
            header["n_released"],
            header["n_noise_std"],
            PrivacyGuarantee.from_dict(header["privacy"]),
            header["postprocess"],
            header["n_from_sums"],
            tuple((key, tuple(noise)) for key, noise in header["added"]),
        )
        _check_same(*sketch._contents(), header, arrays)
        check_consistent(sketch)
        return sketch

    def __repr__(self) -> str:
        parts = self._told_parts()
        told = "\n  ".join(["", *parts]) if _chooses(self.feature_map) else f" {' + '.join(parts)}"
        return (
            f"<PrivateSketch of about {self._told_rows()}, "
            f"{self.schema.n_columns} columns:{told}\n  {self._promise()!r}>"
        )

    def _repr_html_(self) -> str:
        promise = self._promise()
        facts = [("rows", f"about {self._told_rows()}"), ("columns", f"{self.schema.n_columns:,}")]
        facts += [("counted", part) for part in self._told_parts()]
        facts.append(("given", promise.given))
        return html_table(f"PrivateSketch: {promise.badge}", (), facts, len(facts))

    def explain(self) -> Explanation:
        """Return what was released and what is promised, in plain words: as text, and as HTML."""
        schema, most = self.schema, _MOST_PARTS
        names = schema.names or [f"column {j}" for j in range(schema.n_columns)]
        shown = zip(names[:most], schema.columns[:most], strict=True)
        columns = [f"{name}: {column!r}" for name, column in shown]
        columns += more_of(schema.columns, most)
        promise = self._promise().explain()
        told = {
            "Rows": [f"about {self._told_rows()}"],
            "Columns": columns,
            "What was counted, and its noise": self._told_parts(),
        }
        lines = [
            ("" if place else about, said)
            for about, all_said in told.items()
            for place, said in enumerate(all_said)
        ]
        return replace(promise, lines=(*lines, *promise.lines))

    def _promise(self) -> PrivacyGuarantee:
        """Return what is promised: whoever holds a release, from a file or not, makes no fits."""
        return replace(self.privacy, counted=True)

    def _told_rows(self) -> str:
        spread = f" +- {self.n_noise_std:.3g}" if self.n_noise_std else ""
        return f"{self.n_samples:,.0f}{spread} {'groups' if self.counts_groups else 'rows'}"

    def _told_parts(self) -> list[str]:
        """Return what the parts are, and what they count where these chose groups."""
        blocks, chooses = self.blocks(), _chooses(self.feature_map)
        lines = [
            f"{_told_part(part, chooses)} +- {_told_noise(self.noise_std[where])}"
            for part, where in blocks[:_MOST_PARTS]
        ]
        lone = [_short_name(blocks[0][0], j) for j in self.lone_columns] if chooses else []
        told = [f"in no group: {some_of(lone, str)}"] * bool(lone)
        return [*lines, *more_of(blocks, _MOST_PARTS), *told]


# A repr shows this many parts, and characters of a column's name.
_MOST_PARTS, _LONGEST_NAME = 8, 20
_SAME = (
    "fit both with the same sketcher parameters, the same columns and the same integer "
    "random_state."
)
_AGREE = (
    "adaptive sketches choose their own bins and groups. Let each owner count an agreed list, such "
    "as HistogramSketcher(marginals=[['a', 'b'], ['c']]) with the same schema, and add these."
)


def _told_noise(noise_std: NDArray) -> str:
    """Return the noise of a part, from the least to the most where groups differ."""
    return " to ".join(dict.fromkeys(f"{end:.3g}" for end in (noise_std.min(), noise_std.max())))


def _chooses(feature_map: FeatureMap) -> bool:
    """Return whether the map is that of an adaptive sketch, as far as can be seen."""
    parts = feature_map.parts()
    several = len(parts) > 1 and all(isinstance(part, HistogramMap) for part in parts)
    return several or any(isinstance(part, HistogramMap) and part.bins for part in parts)


def _told_part(part: FeatureMap, chooses: bool) -> str:
    if not chooses or not isinstance(part, HistogramMap):
        return f"{part.kind} ({part.n_features})"
    names = some_of(part.groups, lambda one: " x ".join(_short_name(part, j) for j in one))
    kind = "column" if all(len(group) == 1 for group in part.groups) else "group"
    kind += "s" * (len(part.groups) > 1)
    return f"{len(part.groups)} {kind} ({names}): {part.n_features:,} cells"


def _short_name(part: FeatureMap, j: int) -> str:
    name = part.schema.name(j)
    return cut(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "...")


def _check_array(name: str, array: Any, feature_map: FeatureMap) -> None:
    shape = (feature_map.n_features,)
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} must be {shape[0]} numbers in float64, one for each feature.")
    if not np.all(np.abs(array) <= LARGEST_SUM) or (name == "noise_std" and np.any(array < 0)):
        raise ValueError(f"{name} must be finite, below {LARGEST_SUM:g}, and noise at least 0.")


def _check_number(name: str, number: Any) -> None:
    if not isinstance(number, float) or not abs(number) <= LARGEST_SUM:
        raise ValueError(f"{name} must be a float, finite and below {LARGEST_SUM:g}.")


def _check_added(added: Any, levels: tuple[float, ...]) -> None:
    """Raise ValueError unless the releases of a sum have the noise that it has, part by part."""
    are_pairs = type(added) is tuple and all(type(one) is tuple and len(one) == 2 for one in added)
    keys, noise = zip(*added, strict=True) if are_pairs else ((), ())
    named = {key for key in keys if type(key) is str and _KEY.fullmatch(key)}
    if not 2 <= len(keys) == len(named) <= MOST_ADDED:
        raise ValueError(f"added must name 2 to {MOST_ADDED} releases, each by a key of its own.")
    for own in noise:
        sound = type(own) is tuple and len(own) == len(levels)
        if not sound or not all(type(s) is float and 0 <= s <= LARGEST_SUM for s in own):
            raise ValueError("added must state the noise of each release in each block, in floats.")
    whole = [math.hypot(*of_block) for of_block in zip(*noise, strict=True)]
    if not np.allclose(whole, levels, rtol=1e-9, atol=0.0):
        raise ValueError("The noise of what was added must be, all together, that of the sum.")


def check_consistent(sketch: PrivateSketch) -> None:
    """Raise ValueError for a release that none of this library can be.

    Whether the noise was drawn, and as stated, nobody can see. But the guarantee must not promise
    more than noise of the size stated gives, and the sums must be some table's.

    Parameters
    ----------
    sketch : PrivateSketch
    """
    privacy = sketch.privacy
    costs = privacy.mechanism.alternatives
    words = [privacy.protects, privacy.against, privacy.unit, privacy.given]
    words += [cost.unprotected.reason for cost in costs if cost.unprotected]
    if not all(text.isprintable() for text in words):
        raise ValueError("The words of the guarantee hold control characters.")
    # The guarantee of a sum of releases states the largest cost of each kind: two costs, or one
    # more for each sketch that was added before it did so.
    if len(costs) > 64:
        raise ValueError(f"The guarantee is the worst of {len(costs)} costs, more than needed.")
    _check_rows(sketch)
    # Two rows lie no closer than one and none: what is far too small is told without a search for
    # the farthest two, which takes longest.
    for adjacency in dict.fromkeys(["add_remove", privacy.adjacency]):
        blocks = _noise_of_blocks(sketch, adjacency)
        if any(cost.noise_cost(blocks) > 1 + 1e-9 for cost in costs):
            raise ValueError("The guarantee promises more than noise so small can give.")


def _check_rows(sketch: PrivateSketch) -> None:
    """Check the number of rows and the sums against each other."""
    if sketch.privacy.adjacency == "replace_one":
        public = not sketch.n_from_sums and not sketch.n_noise_std
        if not public or sketch.n_released < 0 or sketch.n_released % 1:
            raise ValueError("Under replace_one, the number of rows must be whole, without noise.")
    elif bool(sketch.n_noise_std) != bool(sketch.noise_std.any()):
        raise ValueError("The number of rows must have noise if, and only if, the sums have.")
    # Laplace noise goes beyond 40 of its deviations in one of 1e24 draws, Gaussian noise never.
    rows = max(sketch.n_released, 0.0) + 40 * sketch.n_noise_std
    most = rows * (1 + 1e-6) + 40 * sketch.noise_std
    if np.any(np.abs(sketch.sums) > most):
        raise ValueError("The sums are larger than the number of rows and the noise allow.")


def _noise_of_blocks(sketch: PrivateSketch, adjacency: str) -> list[tuple[float, float, float]]:
    """Return the L1 and L2 sensitivity and the stated noise of each part, in grid units.

    Histograms of a block with the same noise are a part.

    The sensitivities are those of a unit of the claim. Of a merged sketch the stated noise is that
    of all its releases, more than each of them has. A claim may cost more than all blocks: an
    adaptive sketch has also paid for what it chose, and may leave a part of the budget.
    """
    limit = stated_limit(sketch.privacy)
    moved, blocks = sensitivities(sketch.feature_map, adjacency, limit), []
    for (l1, l2), (part, where) in zip(moved, sketch.blocks(), strict=True):
        # Each of n histograms moves as much as any other. Those with the same noise are one part.
        starts = [group.start for group in part.row_groups()] or [0]
        least = np.minimum.reduceat(sketch.noise_std[where], starts)
        for std, k in zip(*np.unique(least, return_counts=True), strict=True):
            of_all = float(k) / len(starts)
            blocks.append((l1 * of_all, l2 * math.sqrt(of_all), float(std) * GRID))
    if sketch.privacy.adjacency == "add_remove" and not sketch.n_from_sums:
        most = float(limit * GRID if isinstance(limit, int) else GRID)
        blocks.append((most, most, sketch.n_noise_std * GRID))
    return blocks


def stated_limit(privacy: PrivacyGuarantee) -> Any:
    """Return the `max_rows_per_group` of a claim: an int, "average", or None for single rows.

    The least of all that `given` states is meant: the noise of all sketches that were added is
    larger than that of each.
    """
    if privacy.unit == "one row":
        return None
    limits = _stated_limits(privacy)
    return min(limit for limit in limits if limit) if all(limits) else "average"


def _stated_limits(privacy: PrivacyGuarantee) -> list[int | None]:
    """Return what `given` says of groups, for each kind of sketch that was added; average: None."""
    found = [match for match in map(_LIMIT.match, privacy.given.split("; ")) if match]
    if not found:
        raise ValueError("A claim about groups must state the rows of a group that count.")
    return [int(match[1]) if match[1] else None for match in found]


def most_rows_of_a_unit(privacy: PrivacyGuarantee) -> int:
    """Return how many rows of a unit of a sketch's claim count at most.

    Parameters
    ----------
    privacy : PrivacyGuarantee
        Under "average" the rows of a group count as one.
    """
    if privacy.unit == "one row":
        return 1
    return max(limit or 1 for limit in _stated_limits(privacy))


def rows_from_sums(
    feature_map: FeatureMap, noise_std: NDArray
) -> tuple[NDArray[np.float64], float]:
    """Return u and a standard deviation: ``u @ sums`` estimates n best, from groups summing to n.

    Each group of `feature_map.row_groups` gives one estimate; they are weighted by inverse
    variance.
    """
    groups = feature_map.row_groups()
    variances = np.array([np.sum(noise_std[group] ** 2) for group in groups])
    precision = 1 / variances if variances.any() else np.ones(len(groups))
    weights = np.zeros(feature_map.n_features)
    for group, share in zip(groups, precision / precision.sum(), strict=True):
        weights[group] = share
    return weights, float(np.sqrt(1 / precision.sum())) if variances.any() else 0.0


def released_sums(
    feature_map: FeatureMap,
    sums: NDArray,
    noise_std: NDArray,
    privacy: PrivacyGuarantee,
    counted: tuple[float, float] | None = None,
) -> PrivateSketch:
    """Return the sketch of a release.

    Parameters
    ----------
    counted : tuple of (float, float), default=None
        The number of rows as released, and its noise. By default the sums tell it.
    """
    n_from_sums = counted is None
    if counted is None:
        weights, n_noise_std = rows_from_sums(feature_map, noise_std)
        counted = float(weights @ sums), n_noise_std
    return PrivateSketch(feature_map, sums, noise_std, *counted, privacy, n_from_sums=n_from_sums)


def claim_for(
    ledger: Any, privacy: PrivacyGuarantee, when_replaced: Callable[[], Mechanism]
) -> PrivacyGuarantee:
    """Return what a ledger is charged: its own kind of neighbours, where that is known.

    Parameters
    ----------
    ledger : PrivacyLedger or None
    privacy : PrivacyGuarantee
        What the release promises.
    when_replaced : callable
        Returns what the release costs if a row (or group) is replaced.
    """
    kinds = getattr(ledger, "adjacency", None), privacy.adjacency
    if privacy.mechanism.unprotected or kinds != ("replace_one", "add_remove"):
        return privacy
    return replace(privacy, mechanism=when_replaced(), adjacency="replace_one")


@dataclass(frozen=True, repr=False)
class Counted:
    """Which rows of a table count, and how often a sum counts them. Private.

    Parameters
    ----------
    n_units : int
        What is added to the number of rows.
    kept : ndarray of int, default=None
        The rows that count. None is all.
    averaged : Groups, default=None
        Groups whose rows share a weight of one. None gives each row a weight of one.
    """

    n_units: int
    kept: NDArray[np.int64] | None = None
    averaged: Groups | None = None

    @classmethod
    def of(cls, n_rows: int, limit: Any, groups: Groups | None, key: bytes) -> Counted:
        """Return what counts of a table that holds all rows of its groups.

        Parameters
        ----------
        n_rows : int
        limit : int, "average" or None
            `max_rows_per_group`.
        groups : Groups or None
        key : bytes
            Of the secret coins that choose among the rows of a group.
        """
        if groups is None:
            return cls(n_rows)
        if limit == AVERAGE:
            return cls(len(groups), averaged=groups)
        kept = groups.kept(limit, key)
        return cls(len(kept), kept)


def sums_of(feature_map: FeatureMap, X: Any, counted: Counted, *, silent: bool) -> NDArray:
    """Return the sum of phi over what counts, in grid units.

    Exact integers, of which each row or group adds what is a function of itself alone; floats where
    no noise is added (`silent`).
    """
    groups, kept = counted.averaged, counted.kept
    if groups is not None and silent:
        return feature_map.float_sums(X, 1 / groups.sizes[groups.codes]) * GRID
    if groups is not None:
        return feature_map.grid_averages(X, groups.order, groups.sizes)
    if kept is None or len(kept) == len(X):
        return _plain_sums(feature_map, X, silent)
    # In batches, so that kept rows are not copied all at once.
    batches = gen_batches(len(kept), ROWS_PER_BATCH) if len(kept) else [slice(0)]
    return reduce(np.add, (_plain_sums(feature_map, X[kept[b]], silent) for b in batches))


def _plain_sums(feature_map: FeatureMap, X: Any, silent: bool) -> NDArray:
    return feature_map.float_sums(X) * GRID if silent else feature_map.grid_sums(X)


@dataclass(frozen=True, eq=False, repr=False)
class PlannedRelease:
    """A release of sums of phi, with its noise and its claim, before any row is summed.

    Parameters
    ----------
    feature_map : FeatureMap
    noise : IntegerNoise
    noise_seed : int or None
    counts_rows : bool
        Whether a part of the budget buys the number of rows.
    privacy : PrivacyGuarantee
    limit : int, "average" or None, default=None
        `max_rows_per_group`, to which the noise is calibrated.
    """

    feature_map: FeatureMap
    noise: IntegerNoise
    noise_seed: int | None
    counts_rows: bool
    privacy: PrivacyGuarantee
    limit: Any = None

    def claim_for(self, ledger: Any) -> PrivacyGuarantee:
        """Return what a ledger is charged: its own kind of neighbours, where that is known."""
        return claim_for(ledger, self.privacy, self._cost_when_replaced)

    def _cost_when_replaced(self) -> Mechanism:
        """Return what the noise costs between neighbours that differ in the values of one unit.

        Two rows, one less and one more, would be 2 mu; a row that changes its places in one-hot
        features moves them by sqrt(2) times as much as one that comes, and not their number.

        A group of up to k rows that is replaced by another takes away a of them and puts in b. The
        squared distance (L2) and the distance (L1), weighted by the noise, are at most convex in
        a and in b: ``w (min(a, b) r + |a - b|)^2 + v (a - b)^2`` where two rows are r times as far
        apart as one is long, with r <= 2, or with ``a^2 + b^2`` for one-hot features; v is of the
        number of rows. So the most is at a corner: k rows for k rows, or k for none.
        """
        distances = sensitivities(self.feature_map, "replace_one", self.limit)
        distances += [(0.0, 0.0)] * self.counts_rows
        cost = self.noise.cost_between(distances)
        if isinstance(self.limit, int):
            cost = parallel([cost, self.noise.mechanism])  # the larger of the two
        return cost

    def check_room(self, n_rows: int) -> None:
        """Raise ValueError for more rows than 64 bits can hold the sums of, noise included."""
        # The noise refines the grid by a factor, and half of what 64 bits hold is left to it.
        if not self.is_silent and n_rows * GRID * 2**self.noise.lift > 2**62:
            raise ValueError(TOO_LARGE)

    def sums(self, X: Any, counted: Counted) -> NDArray:
        """Return the exact sums of what counts of the rows of X."""
        return sums_of(self.feature_map, X, counted, silent=self.is_silent)

    def released(self, sums: NDArray, n_rows: int) -> PrivateSketch:
        """Return sums of so many rows with noise."""
        values = np.append(sums, n_rows * GRID) if self.counts_rows else sums
        if not self.is_silent:
            load_noise()
            values = self.noise.add(values, self.noise_seed)
        return self.to_sketch(values / GRID, n_rows)

    def to_sketch(self, noisy: NDArray, n_rows: int) -> PrivateSketch:
        """Return the release of noisy sums, followed by the noisy number of rows if bought."""
        deviations, counted = self.noise.std / GRID, None
        if self.privacy.adjacency == "replace_one":
            counted = float(n_rows), 0.0
        elif self.counts_rows:
            counted = float(noisy[-1]), float(deviations[-1])
        size = self.feature_map.n_features
        return released_sums(
            self.feature_map, noisy[:size], deviations[:size], self.privacy, counted
        )

    @property
    def is_silent(self) -> bool:
        """Whether no noise will be added."""
        return self.noise.mechanism.unprotected is not None


Header = dict[str, Any]
Arrays = dict[str, NDArray]

FORMAT = "skdpsumm.PrivateSketch"
VERSION = 9
NUMBERS = ("n_released", "n_noise_std", "postprocess", "n_from_sums", "added")
# Bytes of a file: a header, and sums and noise of as many features as a map may have.
LARGEST_FILE = 16 * MOST_FEATURES + MOST_BYTES + 2**20
_CHECKSUM = 64
# What an array may hold: booleans and numbers, in this order of bytes, never pickled objects.
_PLAIN, _MOST_AXES = re.compile(r"\|[biu]1|<[iuf][248]"), 4


def packed(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of a file."""
    return sealed(b"".join([_encoded(header, arrays), *(a.tobytes() for a in arrays.values())]))


def sealed(octets: bytes) -> bytes:
    """Return bytes with their checksum behind them."""
    return octets + hashlib.sha256(octets).hexdigest().encode()


def check_fits(
    state: dict[str, Any], arrays: dict[str, NDArray], n_features: int, privacy: PrivacyGuarantee
) -> None:
    """Raise ValueError if no file could hold a sketch that is not paid for yet.

    Parameters
    ----------
    state : dict
        Of its map, as the arrays are (`FeatureMap.to_state`).
    arrays : mapping from str to ndarray
    n_features : int
    privacy : PrivacyGuarantee
    """
    try:
        values = np.broadcast_to(0.0, n_features)
        told = {f"map.{name}": array for name, array in arrays.items()}
        told |= dict.fromkeys(("sums", "noise_std"), values)
        text = _encoded(header_of(state, privacy), told)
        # A header may grow by this later: by digits of numbers, and by what sums of sketches state.
        room = MOST_BYTES - 2**16
        # A text of so few marks is neither too deep nor too large, whatever map it describes.
        if len(text) > room or sum(map(text.count, (b",", b"[", b"{"))) > DEEPEST:
            check_json(text, most_bytes=room)
        if (most := len(text) + sum(array.nbytes for array in told.values())) > LARGEST_FILE:
            raise ValueError(f"It has {most:,} bytes, and may have {LARGEST_FILE:,}.")
    except ValueError as error:
        raise ValueError(
            f"No file could hold the sketch: {error} Shorten the schema's texts, or list fewer "
            "columns, categories, edges, marginals or parts."
        ) from None


def read_octets(octets: bytes, told: str, largest: int) -> PrivateSketch:
    """Return the sketch in the bytes of a file, which messages call `told`.

    Parameters
    ----------
    octets : bytes
    told : str
    largest : int
        The most bytes that the file may have: what the largest sketch has, or less for whoever
        knows which sketch comes.

    Raises
    ------
    ValueError
        If the file is no sketch, is damaged or too large, says what cannot be, or was written by a
        newer format.
    """
    try:
        text, _, rest = checked(octets, largest).partition(b"\n")
        header = read_json(text)
        version = header["version"]
        if header["format"] != FORMAT or type(version) is not int or version < 1:
            raise ValueError("It has another format.")
    except Exception as error:  # text that is no header may be anything
        raise ValueError(
            f"{told} is not a sketch file, or is damaged: check the path, or copy the file again. "
            "A pickled model says what it promises in privacy_.explain()."
        ) from error
    if version != VERSION:
        remedy = "Upgrade skdpsumm" if version > VERSION else "Use the skdpsumm that wrote it"
        raise ValueError(
            f"{told} has format version {version}; this skdpsumm reads {VERSION}. {remedy}."
        )
    try:
        return PrivateSketch._from_contents(header, arrays_of(header.pop("arrays"), rest))
    except Exception as error:
        raise ValueError(f"{told} is not a sketch file: its parts do not fit. {error}") from error


def checked(octets: bytes, largest: int) -> bytes:
    """Return the bytes of a file before its checksum, or raise ValueError."""
    if len(octets) > largest:
        raise ValueError("It is too large.")
    found = hashlib.sha256(memoryview(octets)[:-_CHECKSUM]).hexdigest()
    if found.encode() != octets[-_CHECKSUM:]:
        raise ValueError("Its checksum does not match.")
    return octets[:-_CHECKSUM]


def arrays_of(listed: list[tuple[str, str, list[int]]], octets: bytes) -> Arrays:
    """Return the arrays that a header lists, which are all that there is; or raise ValueError."""
    arrays, start = {}, 0
    for name, kind, shape in listed:
        sound = all(type(n) is int and 0 <= n <= LARGEST_FILE for n in shape[:_MOST_AXES])
        if not sound or len(shape) > _MOST_AXES or not _PLAIN.fullmatch(kind):
            raise ValueError("The header lists an array of no plain dtype or shape.")
        end = start + math.prod(shape) * np.dtype(kind).itemsize
        arrays[name] = np.frombuffer(octets[start:end], kind).reshape(shape).copy()
        start = end
    if start != len(octets) or len(arrays) < len(listed):
        raise ValueError("Its arrays are not those that the header lists.")
    return arrays


def header_of(state: dict[str, Any], privacy: PrivacyGuarantee) -> Header:
    """Return the header of a sketch of this map and claim, without its `NUMBERS`."""
    told = {"format": FORMAT, "version": VERSION, "map": state, "privacy": privacy.to_dict()}
    return told | dict.fromkeys(NUMBERS)


def _encoded(header: Header, arrays: Arrays) -> bytes:
    """Return the line of JSON at the begin of a file."""
    listed = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    return json.dumps(header | {"arrays": listed}, allow_nan=False).encode() + b"\n"


def _check_same(header: Header, arrays: Arrays, other: Header, others: Arrays) -> None:
    """Raise ValueError unless two files hold the same values, of the same types."""
    told, other_told = (json.dumps(one, sort_keys=True) for one in (header, other))
    dtypes, other_dtypes = ({k: a.dtype for k, a in own.items()} for own in (arrays, others))
    if (told, dtypes) != (other_told, other_dtypes) or not all(
        np.array_equal(array, others[name]) for name, array in arrays.items()
    ):
        raise ValueError("It holds values of other types, or others than it needs.")
