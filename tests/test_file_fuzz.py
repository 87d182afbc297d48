"""Sketch files from strangers: mutants of valid ones, in a process that may die of them."""

import copy
import json

import file_fuzz
import numpy as np
import pytest
from refusals import refused

from skdpsumm import PrivateSketch

pytestmark = pytest.mark.fuzz


def test_mutants_load_to_something_consistent_or_are_refused():
    """Another 20,000 are examined by `.ci/long`."""
    counts = file_fuzz.run(0, file_fuzz.number(50))
    # That much loads and is asked, so the test sees more than the first check of a file.
    assert counts["answered"] > sum(counts.values()) / 10


def test_all_that_mutants_are_made_of_loads_and_answers(tmp_path):
    for name, (header, arrays) in file_fuzz.bases().items():
        content = file_fuzz.packed(header, arrays, _NoTricks())
        assert file_fuzz.examine(content, tmp_path / "sketch") == "answered", name


class _NoTricks:
    def integers(self, n):
        return n - 1


@pytest.mark.parametrize("own", [[], {}, None, "x", 0, [None] * 4, [None] * 3, {"0": [0, 1]}])
def test_bins_of_a_stranger_are_checked(tmp_path, own):
    """Entries for other columns, and none at all where the file says that there are some."""
    header, arrays = file_fuzz.bases()["table"]
    refused("not a sketch file", load, tmp_path / "s", _with_bins(header, own), arrays)


@pytest.mark.parametrize(
    "own",
    [
        *((0, own) for own in ([18.0, 95.0], [18.0, 40.2, 40.4, 90.0])),
        *((1, own) for own in ([0, 1], [0, 0, 2], [0, 10**30, 1])),
    ],
)
def test_bins_of_a_stranger_fit_their_column(tmp_path, own):
    """The same file with bins that fit loads: it is these that are refused."""
    header, arrays = file_fuzz.bases()["table"]
    fitting = {0: [18.0, 40.0, 60.0, 80.0, 85.0, 90.0], 1: [0, 1, 2]}
    told = [fitting[0], fitting[1], None, None]
    loaded = load(tmp_path / "fits", _with_bins(header, told), arrays)
    assert loaded.feature_map.edges(0)[1:-1].tolist() == [39.5, 59.5, 79.5, 84.5]
    told[own[0]] = own[1]
    refused("not a sketch file", load, tmp_path / "s", _with_bins(header, told), arrays)


def _with_bins(header, own):
    header = copy.deepcopy(header)
    header["map"]["bins"] = own
    return header


# --------------------------------------------------------------------------- forged, one by one


def load(path, header, arrays):
    path.write_bytes(file_fuzz.packed(header, arrays, _NoTricks()))
    return PrivateSketch.load(path)


def forged(path, name="histogram", **changes):
    """Load a file that says something else, under a right checksum; arrays go by their names."""
    header, arrays = file_fuzz.bases()[name]
    told = header | {key: value for key, value in changes.items() if key in header}
    arrays = arrays | {key: value for key, value in changes.items() if key not in header}
    return load(path, told, arrays)


def guarantee(**changes):
    header, _ = file_fuzz.bases()["histogram"]
    mechanism = header["privacy"]["mechanism"]
    own = {key: value for key, value in changes.items() if key in ("mu", "tail", "log_ratio")}
    rest = {key: value for key, value in changes.items() if key not in own}
    return {"privacy": header["privacy"] | {"mechanism": mechanism | own} | rest}


CLAIMS = {
    "a claim that such noise does not give": ({"mu": 0.1}, "noise so small"),
    "a tail that is no probability": ({"tail": 1.5}, "probability"),
    "a composition that takes for ever": (
        {"mechanism": {"kind": "composed", "parts": [{"kind": "pure", "epsilon0": 1e-9}] * 50}},
        "A sketch cannot have the cost",
    ),
    "a thousand costs": (
        {"mechanism": {"kind": "worst", "parts": [{"kind": "pure", "epsilon0": 9.0}] * 1000}},
        "worst of 1000",
    ),
    "words that rule a terminal": ({"given": "\x1b[2J"}, "control characters"),
    "an entry more": ({"audited": True}, "and no others"),
    "noise on a public number of rows": ({"adjacency": "replace_one", "mu": 99.0}, "without noise"),
}
FORGED = {
    "noise in some places": ({"noise_std": np.r_[0.0, np.full(35, 9.0)]}, "throughout"),
    "sums that no table has": ({"sums": np.full(36, 1e6)}, "larger than the number of rows"),
    "an exact count of private rows": ({"n_noise_std": 0.0}, "must have noise if"),
    "another array": ({"extra": np.zeros(3)}, "others than it needs"),
    "big-endian numbers": ({"sums": np.full(36, 8.0, ">f8")}, "plain dtype"),
    "a map of the future": ({"map": {"kind": "wavelet"}}, "feature map 'wavelet' is unknown"),
}


def of_adaptive(tmp_path, name="adaptive", **changes):
    """Load an adaptive sketch whose guarantee or noise says something else."""
    header, arrays = (copy.deepcopy(part) for part in file_fuzz.bases()[name])
    factor = changes.pop("noise", None)
    mechanism = header["privacy"]["mechanism"]
    mechanism |= {k: mechanism[k] * changes.pop(k) for k in ("mu", "epsilon0") if k in changes}
    header["privacy"] |= changes
    if factor is not None:
        arrays["noise_std"] = arrays["noise_std"] * factor
    return load(tmp_path / "sketch", header, arrays)


def test_adaptive_sketches_pay_for_more_than_their_counts(tmp_path):
    """What they chose, and what they left over: a claim may be larger than the noise needs."""
    for name in ("adaptive", "adaptive, groups"):
        sketch = of_adaptive(tmp_path, name)
        levels = {float(sketch.noise_std[where][0]) for _, where in sketch.blocks()}
        assert len(levels) > 1, "each part has noise of its own"
    assert of_adaptive(tmp_path, mu=1.1)
    assert of_adaptive(tmp_path, "adaptive, groups", epsilon0=1.1)


@pytest.mark.parametrize("part", range(3))
def test_no_part_of_an_adaptive_sketch_has_less_noise_than_was_paid(tmp_path, part):
    for name in ("adaptive", "adaptive, groups"):
        _, where = of_adaptive(tmp_path, name).blocks()[part]
        factor = np.ones(len(file_fuzz.bases()[name][1]["sums"]))
        factor[where] = 0.5
        refused("noise so small", of_adaptive, tmp_path, name, noise=factor)


@pytest.mark.parametrize(("name", "cost"), [("adaptive", "mu"), ("adaptive, groups", "epsilon0")])
def test_adaptive_sketches_promise_no_more_than_their_noise_gives(tmp_path, name, cost):
    refused("noise so small", of_adaptive, tmp_path, name, **{cost: 0.9})


def test_claims_about_groups_are_of_as_many_rows_as_the_noise_is_for(tmp_path):
    header, _ = file_fuzz.bases()["adaptive, groups"]
    given, two = header["privacy"]["given"], "max_rows_per_group=2 ("
    assert header["privacy"]["unit"] == "one group"
    assert two in given
    told = {
        "of more rows": (given.replace(two, "max_rows_per_group=3 ("), "noise so small"),
        "of any": ("the sketcher's parameters", "must state the rows"),
        "of none": (given.replace(two, "max_rows_per_group=0 ("), "must state the rows"),
        "of a word": (given.replace(two, "max_rows_per_group=two ("), "must state the rows"),
    }
    for other, reason in told.values():
        refused(reason, of_adaptive, tmp_path, "adaptive, groups", given=other)
    refused("must state the rows", of_adaptive, tmp_path, unit="one group")
    # Fewer rows cost less, and so does a group that counts once.
    for fewer in ("max_rows_per_group=1 (", "max_rows_per_group='average' ("):
        assert of_adaptive(tmp_path, "adaptive, groups", given=given.replace(two, fewer))


@pytest.mark.parametrize(("changes", "reason"), CLAIMS.values(), ids=CLAIMS)
def test_claims_that_cannot_be_are_refused_by_name(tmp_path, changes, reason):
    refused(reason, forged, tmp_path / "sketch", **guarantee(**changes))


@pytest.mark.parametrize(("changes", "reason"), FORGED.values(), ids=FORGED)
def test_what_cannot_be_is_refused_by_name(tmp_path, changes, reason):
    refused(reason, forged, tmp_path / "sketch", **changes)


ADDED = {
    "of more noise": (lambda own: [[key, [2 * s for s in noise]] for key, noise in own], "that of"),
    "of other shares": (lambda own: [[own[0][0], [9.0, own[0][1][1]]], own[1]], "that of"),
    "of negative noise": (lambda own: [own[0], [own[1][0], [-s for s in own[1][1]]]], "in floats"),
    "of whole numbers": (lambda own: [own[0], [own[1][0], [9, 9]]], "in floats"),
    "of other blocks": (lambda own: [own[0], [own[1][0], own[1][1] * 2]], "in each block"),
    "of one": (lambda own: own[:1], "2 to 64"),
    "of one twice": (lambda own: [own[0], own[0]], "2 to 64"),
    "without keys": (lambda own: [["a", own[0][1]], own[1]], "2 to 64"),
}


@pytest.mark.parametrize(("change", "reason"), ADDED.values(), ids=ADDED)
def test_what_was_added_must_have_the_noise_of_the_sum(tmp_path, change, reason):
    own = json.loads(json.dumps(file_fuzz.bases()["merged"][0]["added"]))
    assert forged(tmp_path / "s", "merged", added=own).sources(0)
    refused(reason, forged, tmp_path / "s", "merged", added=change(own))


def test_room_is_not_made_for_what_a_file_claims(tmp_path):
    """8 TB of sums, an array that is listed twice, and a header of 1e12 bins."""
    header, arrays = file_fuzz.bases()["histogram"]
    path = tmp_path / "sketch"
    for trick in (6, 8):
        path.write_bytes(file_fuzz.packed(header, arrays, _Trick(trick)))
        refused("not a sketch file", PrivateSketch.load, path)
    state = header["map"] | {"n_bins": [10**12, 10**12]}
    refused("can have 67,108,864 features", forged, path, map=state)


class _Trick:
    def __init__(self, trick):
        self.trick = trick

    def integers(self, n):
        return self.trick
