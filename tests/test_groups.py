"""Groups of rows as the unit of protection: labels, coins, sensitivities, ledgers and audits."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsumm import HistogramSketcher, TDILClassifier
from skdpsumm.schema._groups import Groups, label_bytes

KEY = bytes(range(32))


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            [7, 3, 7, 3, 9],
            (7, 3.0, Decimal(7), Fraction(3), np.int8(9)),
            np.array([7, 3, 7, 3, 9], np.uint16),
            np.array([7, 3, 7, 3, 9], np.float32),
            np.array([7, 3, 7, 3, 9], object),
            pd.Series([7, 3, 7, 3, 9], dtype="Int64"),
            pd.Series([7, 3, 7, 3, 9], index=list("edcba"), dtype="category"),
            pl.Series([7, 3, 7, 3, 9]),
        ],
    )
    def test_every_container_says_the_same(self, labels):
        groups = Groups.read(labels, 5)
        assert groups.labels == [7, 3, 9]
        assert groups.codes.tolist() == [0, 1, 0, 1, 2]
        assert groups.sizes.tolist() == [2, 2, 1]
        assert groups.ordinals.tolist() == [0, 0, 1, 1, 0]
        assert [label_bytes(label) for label in groups.labels] == [b"n7/1", b"n3/1", b"n9/1"]

    @pytest.mark.parametrize(
        "labels",
        [
            list("abca"),
            np.array(list("abca")),
            np.array(list("abca"), object),
            pd.Series(list("abca")),
            pd.Series(list("abca"), dtype="category"),
            pl.Series(list("abca")),
            pl.Series(list("abca"), dtype=pl.Categorical),
        ],
    )
    def test_words(self, labels):
        groups = Groups.read(labels, 4)
        assert groups.labels == ["a", "b", "c"]
        assert groups.kept(1, KEY).tolist() == Groups.read(list("abca")).kept(1, KEY).tolist()

    def test_labels_are_values_and_words_are_no_numbers(self):
        assert Groups.read([1, 1.0, True, "1", 2**53 + 1, 2**53]).codes.tolist() == [
            *(0, 0, 0),
            *(1, 2, 3),
        ]

    @pytest.mark.parametrize(
        "cell", [None, np.nan, pd.NA, pd.NaT, Decimal("nan"), np.float32("nan")]
    )
    def test_a_missing_label_is_refused(self, cell):
        with pytest.raises(ValueError, match="missing label"):
            Groups.read([1, cell, 2])
        with pytest.raises(ValueError, match="missing label"):
            Groups.read(pd.Series(["a", cell, "b"], dtype=object))

    @pytest.mark.parametrize(
        ("labels", "words"),
        [
            (np.array(["2020-01-01"], "M8[D]"), "dates or times"),
            ([datetime.date(2020, 1, 1), 1], "dates or times"),
            ([b"a"], "words, numbers"),
            ([1j], "words, numbers"),
            ([object()], "words, numbers"),
            ([[1], [2]], "one dimension"),
            ([[1], [2, 3]], "one dimension"),
            (3, "one dimension"),
            (pd.DataFrame({"a": [1, 2]}), "one dimension"),
            ([1e17], "rounded"),
            (np.array([2.0**24], np.float32), "rounded"),
            ([np.inf], "rounded"),
            (["a\0"], "NUL"),
        ],
    )
    def test_what_is_no_label_is_refused_without_a_value(self, labels, words):
        with pytest.raises(ValueError, match=words) as caught:
            Groups.read(labels)
        assert caught.value.__context__ is None

    def test_another_number_of_rows(self):
        with pytest.raises(ValueError, match="different numbers of rows"):
            Groups.read([1, 2], 3)


class TestCoins:
    def test_each_group_keeps_at_most_k_whatever_the_others(self):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 40, 400)
        kept = Groups.read(labels).kept(4, KEY)
        assert np.bincount(labels[kept]).max() == 4
        assert set(labels[kept]) == set(labels)
        for one in range(40):
            others = np.flatnonzero(labels != one)
            again = others[Groups.read(labels[others]).kept(4, KEY)]
            assert again.tolist() == [row for row in kept if labels[row] != one]

    def test_no_place_is_favoured(self):
        rows = np.concatenate(
            [Groups.read(["a"] * 20).kept(5, i.to_bytes(32, "big")) for i in range(4000)]
        )
        # Each row stays a quarter of the time; 20 binomials within 5 standard deviations.
        assert np.all(abs(np.bincount(rows, minlength=20) - 1000) < 5 * np.sqrt(750))

    def test_first_rows(self):
        groups = Groups.read(list("aabacb"))
        assert groups.first(2, {}).tolist() == [0, 1, 2, 4, 5]
        before = groups.counted(2, {"z": 1})
        assert before == {"z": 1, "a": 2, "b": 2, "c": 1}
        assert Groups.read(list("azzc")).first(2, before).tolist() == [1, 3]


class TestGate:
    def test_the_one_without_the_other_is_refused(self):
        X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
        with pytest.raises(ValueError, match="enable_metadata_routing=True"):
            HistogramSketcher(schema=(0, 1), max_rows_per_group=2).fit(X)
        with pytest.raises(ValueError, match="enable_metadata_routing=True"):
            TDILClassifier(max_rows_per_group="average").fit(X, y)

    @pytest.mark.parametrize("limit", [0, -1, 1.5, "mean"])
    def test_limits(self, limit):
        with pytest.raises(ValueError, match="max_rows_per_group"):
            HistogramSketcher(schema=(0, 1), max_rows_per_group=limit).fit(np.ones((3, 1)))
