"""Tables as they come: with columns that the schema drops, in any order; and mistakes."""

import warnings

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from skdpsumm.learners import TDDLClassifier, TDILClassifier
from skdpsumm.model_selection._candidate import Table
from skdpsumm.moments import AnswerWarning, M2MClassifier, M2MEstimator
from skdpsumm.privacy import NoiseWarning
from skdpsumm.schema import Numeric, PublicVectorizer, TableSchema
from skdpsumm.schema._reading import ReadRows
from skdpsumm.sketches import HistogramSketcher, RFFSketcher
from skdpsumm.summaries import PrivateMMDSummarizer

RNG = np.random.default_rng(0)
N = 400
FRAME = pd.DataFrame(
    {
        "id": np.arange(N),
        "sex": RNG.choice(["F", "M"], N),
        "age": RNG.integers(18, 91, N),
        "pay": RNG.choice([0, 0, 0, 40, 900], N),
        "rich": RNG.choice(["no", "yes"], N),
    }
)
PAY = Numeric(step=1, edges=[0, 1, 100, 1000])
COLUMNS = {"age": Numeric(18, 90, step=1), "sex": ["F", "M"], "pay": PAY}
SCHEMA = TableSchema(COLUMNS, extra_columns="drop")
FEW = FRAME[["pay", "sex", "age"]]  # no id, no label, another order
QUIET = {"schema": SCHEMA, "random_state": 0}
RELEASED = M2MClassifier(SCHEMA, release=HistogramSketcher(), n_synthetic=500)

pytestmark = pytest.mark.simulated(0)


@pytest.mark.parametrize(
    "model",
    [TDILClassifier(**QUIET), TDDLClassifier(**QUIET), RELEASED],
    ids=lambda model: type(model).__name__,
)
def test_models_predict_tables_without_the_columns_that_the_schema_drops(model):
    given = {"X_public": FEW[:50]} if isinstance(model, TDDLClassifier) else {}
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model.fit(FRAME, FRAME["rich"], **given)
    np.testing.assert_array_equal(model.predict(FRAME), model.predict(FEW))
    refused("lacks column 'age'", model.predict, FEW.drop(columns="age"))


def test_steps_and_summaries_take_them_too():
    for step in (PublicVectorizer(SCHEMA), RFFSketcher(n_components=4, **QUIET)):
        step.fit(FRAME)
        np.testing.assert_array_equal(step.transform(FRAME), step.transform(FEW))
    chosen = [
        PrivateMMDSummarizer(n_select=5, **QUIET).fit(FRAME, X_target=target, owners=FRAME["sex"])
        for target in (FRAME[:50], FEW[:50])
    ]
    np.testing.assert_array_equal(*(one.sample_indices_ for one in chosen))


@pytest.mark.simulated(None)
def test_a_schema_with_the_label_is_told():
    schema = {**COLUMNS, "rich": ["no", "yes"]}
    frame = FRAME.drop(columns="id")
    with pytest.warns(UserWarning, match="column 'rich' out of the schema"):
        TDILClassifier(schema=schema).fit(frame, frame["rich"])
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", NoiseWarning)
        TDILClassifier(schema=SCHEMA).fit(FRAME, FRAME["rich"])


# ---- schemas


@pytest.mark.parametrize("given", [FRAME, {"age": FRAME["age"]}, FRAME["sex"], [FRAME.to_numpy()]])
def test_no_message_shows_a_table_that_is_given_as_a_schema(given):
    caught = refused(r"got a|does not describe a column", TableSchema, given)
    assert len(str(caught)) < 250
    assert "\n" not in str(caught)


# ---- questions


@pytest.mark.simulated(None)
def test_columns_that_no_histogram_has_are_told_before_the_release_and_after():
    sketcher = HistogramSketcher(marginals=[["sex", "age"]], schema=SCHEMA, epsilon=np.inf)
    with pytest.warns(UserWarning, match="Add a group of 'pay' to marginals"):
        sketcher.fit(FRAME)
    m2m = M2MEstimator.from_sketch(sketcher.sketch_, n_synthetic=2000, random_state=0)
    with warnings.catch_warnings(action="ignore", category=AnswerWarning):
        paid = m2m.count(lambda rows: (rows["pay"] > 0) & (rows["sex"] == "F"))
    # Nothing is known of it: none of the women, or all of them.
    low, high = paid.interval()
    assert low <= 1
    assert high >= 0.999 * np.sum(FRAME["sex"] == "F")
    with warnings.catch_warnings(action="error"):
        m2m.count(lambda rows: (rows["age"] > 50) & (rows["sex"] == "F"))
        HistogramSketcher(marginals=[["sex", "age"], ["pay"]], schema=SCHEMA).fit(FRAME)


# ---- searches


@pytest.mark.parametrize("kind", [TDILClassifier, M2MClassifier])
def test_rows_that_are_read_once_are_predicted_as_one_by_one(kind):
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model = kind(schema=SCHEMA).fit(FRAME, FRAME["rich"])
    rows, good, held_out = FRAME[:60], np.ones(60, bool), np.arange(60) < 50
    table = Table(rows, None, held_out)
    read = table.scored_rows(model, rows, good)
    assert all(isinstance(row, ReadRows) for row in read)
    for i in range(50):
        np.testing.assert_array_equal(model.predict(read[i]), model.predict(rows.iloc[[i]]))
    unlisted = rows.assign(sex=[*["F"] * 49, "?", *["F"] * 10])
    assert not isinstance(table.scored_rows(model, unlisted, good)[0], ReadRows)
    good[7] = False
    assert [row is None for row in table.scored_rows(model, rows, good)].index(True) == 7
