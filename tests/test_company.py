"""One cell decides nothing about others, though a container would let it."""

import io

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from skdpsumm import Categorical, Numeric, PublicVectorizer, SchemaFinder, TableSchema
from skdpsumm.schema._reading import read_table


def arrow_text(octets):
    """Return texts of Arrow, of octets that may be no UTF-8, as files hold them."""
    pa = pytest.importorskip("pyarrow")
    array = pa.array(octets, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers())


def read(column, table):
    return column.read(read_table(table)[:, 0])


@pytest.mark.parametrize("make", ["arrow", "str", "string[pyarrow]"])
def test_a_text_that_is_no_utf8_hides_no_other(make):
    pa = pytest.importorskip("pyarrow")
    column = Categorical(["a", "b"], other=True)
    cells = arrow_text([b"a", b"b"] * 3 + [b"\xff"])
    if make != "arrow":
        try:
            kind = type(pd.array([], dtype=make))
            table = pd.Series(kind(pa.chunked_array([cells]))).to_frame("x")
        except (TypeError, ValueError, ImportError):
            pytest.skip("this pandas has no such type")
    else:
        table = pa.table({"x": cells})
    assert read(column, table).tolist() == [0, 1] * 3 + [2]
    finder = SchemaFinder({"x": "category"}, epsilon=np.inf).fit(table)
    assert finder.schema_["x"].categories == ("a", "b", "other")


@pytest.mark.parametrize("categories", [[1, 2], ["1", "2"], [1.0, True + 1]])
def test_a_word_makes_words_of_numbers_and_changes_none(categories):
    column = Categorical(categories, other=True)
    for more in ("", "q\n"):
        frame = pd.read_csv(io.StringIO("x\n" + "1\n2\n01\n" * 5 + more))
        assert read(column, frame).tolist()[:15] == [0, 1, 0] * 5
    assert read(column, np.array([1, 2, "q"]).reshape(-1, 1)).tolist() == [0, 1, 2]
    kinds = {"x": "category"}, {"x": "number"}
    for kind in kinds:
        found = [
            SchemaFinder(kind, epsilon=np.inf).fit(pd.DataFrame({"x": cells})).schema_["x"]
            for cells in ([1, 2] * 40, ["1", "2.0"] * 40)
        ]
        assert found[0] == found[1]


def test_numbers_and_words_that_a_container_confuses_are_not_both_listed():
    refused("lists 1 twice", Categorical, ["1", "01", "b"], other=True)


def test_large_numbers_in_words_are_not_rounded_to_others():
    with pytest.raises(ValueError, match="with numbers for words, lists 9007199254740993"):
        Categorical(["9007199254740993", "x"], other=True)
    column = Categorical([2**53 - 1, "x"], other=True)
    cells = np.array([str(2**53 - 1), str(2**53), 2**53 - 1, "9" * 5000], object)
    assert column.read(cells).tolist() == [0, 2, 0, 2]


def test_a_code_that_reads_as_a_category_is_refused():
    refused("lists 1 twice", Categorical, ["1", "b"], missing_values=["01"], other=True)


def test_a_table_without_rows_is_told_as_by_scikit_learn():
    assert read_table([]).shape == (0,)


def test_the_unit_of_masked_times_makes_no_numbers():
    times = np.ma.array(np.array(["2020-01-01", "2020-01-01T00:00:00.000000001"], "M8")[:, None])
    for rows in (times, times[:1]):
        refused("dates or times", PublicVectorizer(TableSchema(Numeric(0, 9))).fit, rows)


def test_the_first_row_is_a_row_like_all():
    column = Categorical([1, 2], other=True)
    for rows in ([[[1, 2], 3], [1, 2]], [[1, 2], [[1, 2], 3]]):
        table = read_table(rows)
        assert (table.shape, sorted(column.read(table[:, 0]).tolist())) == ((2, 2), [0, 2])


class Odd(str):
    """A word without a hash."""

    __slots__ = ()

    def __eq__(self, other):
        return True


def test_a_word_of_an_odd_kind_is_a_word():
    cells = np.array([Odd("b"), "a", Odd("c")], object)
    assert Categorical(["a", "b"], other=True).read(cells).tolist() == [1, 0, 2]
    assert Categorical(["a", "b", "c"]).read(cells).tolist() == [1, 0, 2]
