from functools import lru_cache, partial

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from simulated import simulate
from sklearn.base import clone

from skdpsumm.moments import M2MEstimator, Points
from skdpsumm.schema import Numeric
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.summaries import PrivateMMDSummarizer

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]

SKETCHERS = {
    "rff": RFFSketcher(n_components=60, gamma=0.5),
    "race": RACESketcher(n_repetitions=20, n_buckets=20, bandwidth=0.5),
    "histogram": HistogramSketcher(n_bins=50),
    "union": SketchUnion([HistogramSketcher(n_bins=50), RFFSketcher(n_components=60)]),
}


def table(n=5000, d=3, seed=0):
    return np.random.default_rng(seed).beta(2, 4, size=(n, d))


def fitted(sketcher, X=None, epsilon=np.inf, seed=None, **parameters):
    sketcher = clone(sketcher).set_params(epsilon=epsilon, random_state=0)
    defaults = {"schema": (0, 1), "n_synthetic": 5_000, "random_state": 0}
    names = [one for one in ("prior", "regularization", "center") if one in parameters]
    if names:
        defaults["inference"] = Points(**{one: parameters.pop(one) for one in names})
    model = M2MEstimator(release=sketcher, **(defaults | parameters))
    return simulate(model, table() if X is None else X, seed=seed)


@pytest.mark.parametrize("name", SKETCHERS)
def test_noise_free_answers_are_close(name):
    X, model = table(), fitted(SKETCHERS[name])
    assert np.allclose(model.mean(), X.mean(axis=0), atol=0.02)
    assert np.allclose(model.moment(2), (X**2).mean(axis=0), atol=0.02)
    assert np.allclose(model.variance(), X.var(axis=0), atol=0.01)
    cuts = np.array([0.2, 0.5, 0.8])
    assert np.allclose(model.cdf(1, cuts), (X[:, [1]] <= cuts).mean(axis=0), atol=0.08)


def test_answers_obey_their_own_laws():
    model = fitted(SKETCHERS["rff"], table(200), epsilon=0.3)
    cdf = np.asarray(model.cdf(0, np.linspace(0.01, 0.99, 50)))
    assert np.all(np.diff(cdf) >= 0)
    assert 0 <= cdf.min() <= cdf.max() <= 1
    histogram = np.asarray(model.histogram(0, 7))
    assert histogram.min() >= 0
    assert histogram.sum() == pytest.approx(1)
    assert np.linalg.eigvalsh(np.asarray(model.covariance())).min() > -1e-12
    assert np.abs(np.asarray(model.correlation())).max() <= 1
    assert np.all(np.asarray(model.variance()) >= 0)
    assert np.all(np.diff(np.asarray(model.quantile(0, [0.1, 0.5, 0.9]))) >= 0)


BAD = [lambda X: 1.0, lambda X: X[:5, 0], lambda X: X[:, 0] / 0, lambda X: None]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("ask", ["estimate", "count"])
def test_f_must_be_vectorised_and_finite(ask, bad):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"^f |^count takes a cond"):
        getattr(fitted(SKETCHERS["histogram"]), ask)(bad)


# --- errors ---------------------------------------------------------------------------------


QUESTIONS = {
    "linear": lambda m: m.estimate(lambda X: X[:, [0, 1]]),
    "covariance": lambda m: m.covariance(),
    "count": lambda m: m.count(lambda X: X[:, 0] > 0.5),
}


@lru_cache
def models(name, n, n_columns):
    """Return n releases, and the models of them, which all questions are put to."""
    X, made = table(3000, n_columns), SKETCHERS[name]
    return [fitted(made, X, 2.0, seed, n_synthetic=2000) for seed in range(n)]


@pytest.mark.statistical
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["rff", "histogram"])
def test_std_error_is_that_of_repeated_releases(name, question):
    """60 releases, always the same, tell a standard deviation to 9 per cent; 20 to 16."""
    released = models(name, 60, 3) if name == "rff" else models(name, 20, 2)
    answers = [QUESTIONS[question](one) for one in released]
    values, errors = np.array(answers), np.array([one.noise_std_error for one in answers])
    assert np.all(np.std(values, axis=0) < 1.3 * errors.mean(axis=0) + 1e-4)
    if name == "rff":  # a histogram's prior moves with its noise, which can cancel
        assert np.all(np.std(values, axis=0) > 0.7 * errors.mean(axis=0) - 1e-4)


@pytest.mark.statistical
def test_sparse_tables_bias_no_answer():
    """Skewed columns leave most cells of pairs empty; of projected ones, means are 4 to 7 standard
    errors too high. What is left, .8 to 1.5, is shrinkage to the prior, which is projected.
    """
    X = np.random.default_rng(0).beta(1, 12, size=(3000, 3))
    sketcher = HistogramSketcher(marginals=2, n_bins=24)
    question = lambda m: m.estimate(lambda rows: np.hstack([rows, rows[:, :1] * rows[:, 1:]]))  # noqa: E731
    answers = [question(fitted(sketcher, X, 0.5, k, n_synthetic=2000)) for k in range(16)]
    # These take long, and are alike.
    errors = np.array([one.noise_std_error for one in answers[:4]])
    free = np.asarray(question(fitted(sketcher, X, np.inf, n_synthetic=2000)))
    assert np.all(np.abs(np.mean(answers, axis=0) - free) < 2 * errors.mean(axis=0))


@pytest.mark.parametrize("seed", [0, 1])
def test_features_of_one_column_that_depend_on_one_another(seed):
    """Without noise nothing but rounding keeps the system of 20 waves on a line apart."""
    X = np.random.default_rng(0).uniform(15, 45, size=(442, 1))
    sketcher = RFFSketcher(n_components=20, epsilon=np.inf)
    model = M2MEstimator([(15, 45)], release=sketcher, n_synthetic=3000, random_state=seed).fit(X)
    assert model.mean()[0] == pytest.approx(X.mean(), abs=0.05)


# --- regularisation and priors --------------------------------------------------------------


# --- the analyst's side ---------------------------------------------------------------------


def error_of_its_own(rows):
    raise ValueError("one of its own")


@pytest.mark.parametrize("kind", [M2MEstimator, RFFSketcher, RACESketcher, PrivateMMDSummarizer])
def test_a_number_in_the_place_of_the_schema_is_told_its_name(kind):
    refused(r"got 50\. Give a number by its name", kind(50).check_budget)


@pytest.mark.parametrize("sketcher", [None, RFFSketcher(n_components=300)], ids=["model", "points"])
def test_groups_of_numbers_take_bins(sketcher):
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 61, 9000)
    people = pd.DataFrame({"hours": hours, "age": 20 + hours // 2 + rng.integers(0, 9, 9000)})
    schema = {"hours": Numeric(0, 60, step=1), "age": Numeric(18, 66, step=1)}
    options = {"n_synthetic": 6000, "random_state": 0, "epsilon": 5.0}
    if sketcher is not None:
        del options["epsilon"]
    m2m = M2MEstimator(schema, release=sketcher, **options).fit(people)
    edges, named = [0, 20, 40, 60], m2m.table("hours", bins=[0, 20, 40, 60])
    groups = people.groupby(pd.cut(hours, [-1, 19, 39, 60], labels=False))["age"]
    by = m2m.mean("age", by="hours", bins=edges)
    assert list(by.value.index) == list(named.value.index)
    assert np.allclose(by, groups.mean(), atol=3)
    assert np.allclose(m2m.estimate(lambda rows: rows["age"], by="hours", bins=edges), by)
    assert np.allclose(m2m.count(by="hours", bins=edges), named)
    assert m2m.count(lambda rows: rows["age"] > 0, by="hours", bins=3).shape == (3,)
    if sketcher is None:
        middle = m2m.quantile("age", 0.5, by="hours", bins=edges)
        assert np.allclose(np.ravel(middle), groups.median(), atol=3)
    for ask in (m2m.mean, partial(m2m.count, np.ones_like), partial(m2m.quantile, "age", 0.5)):
        refused("give by=, the column to group by", ask, bins=3)
    refused("bins reach outside the range", m2m.mean, "age", by="hours", bins=[0, 99])


def test_a_name_is_taken_of_whole_rows_alone():
    """A part of them, or columns in another order, would give a name to the wrong place."""
    sketcher = HistogramSketcher(n_bins=20, epsilon=np.inf, schema={"age": (0, 9), "pay": (0, 5)})
    X = pd.DataFrame({"age": [3.0, 4.0], "pay": [2.0, 1.0]})
    model = M2MEstimator(release=sketcher, n_synthetic=500, random_state=0).fit(X)
    assert float(model.estimate(lambda rows: rows["pay"] - rows[:, 1])) == 0
    refused("A question names column 'salary'", model.estimate, lambda rows: rows["salary"])
    refused(r"rows\['age'\]", model.estimate, lambda rows: rows.age, error=AttributeError)
    refused(r"have no 'salary'\.$", model.estimate, lambda rows: rows.salary, error=AttributeError)
    with pytest.raises(IndexError, match="one column at a time"):
        model.estimate(lambda rows: rows[["age", "pay"]])
    with pytest.raises(AttributeError, match="str") as caught:
        model.estimate(lambda rows: rows["age"].str.len())
    assert "isin, between and isna" in caught.value.__notes__[0]
    for unjoined in (
        lambda rows: rows["age"] > 3 and rows["pay"] > 3,
        lambda rows: rows["age"] > 3 & rows["pay"] > 3,
        lambda rows: rows["age"] > 3 | rows["pay"],
        lambda rows: ~rows["age"] > 3,
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            model.estimate(unjoined)
        assert "Join conditions with &" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="of its own") as caught:
        model.estimate(error_of_its_own)
    assert not hasattr(caught.value, "__notes__")
    for part in (
        lambda rows: rows[:, ::-1]["pay"],
        lambda rows: rows[rows["age"] > 3]["pay"],
        lambda rows: (rows + 0.0)["pay"],
    ):
        refused(r".", model.estimate, part, error=IndexError)


@pytest.mark.parametrize(
    "sketcher",
    [
        HistogramSketcher(schema=(0, 10)),
        SketchUnion([RFFSketcher(n_components=4), HistogramSketcher()], schema=(0, 10)),
    ],
)
def test_schemas_that_contradict_are_refused(sketcher, unpaid):
    """The sketch would clip to one, and the answers assume the other."""
    both = M2MEstimator((0, 1), release=clone(sketcher).set_params(ledger=unpaid))
    refused("another; give the schema to one", both.fit, table())
    sketch, read = sketcher.fit(table()).sketch_, M2MEstimator.from_sketch
    refused(r"Column 'x0' was sketched as Numeric\(0, 10\)", read, sketch, schema=(0, 1))


def test_ranges_of_an_analyst_suit_a_sketch_that_knows_of_missing_cells_alone():
    """It was refused whatever ranges they gave, and told to leave them out."""
    X = np.where(np.random.default_rng(0).random((3000, 1)) < 0.2, np.nan, 0.5)
    sketcher = RFFSketcher(n_components=20, gamma=1.0, schema=[Numeric(missing=True)])
    answers = M2MEstimator.from_sketch(sketcher.fit(X).sketch_, schema=(0, 1), random_state=0)
    assert float(answers.missing_share(0)) == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("inference", ["graphical", "points"])
def test_a_share_moved_to_zero_has_not_become_certain(inference):
    """Of 16 rare categories noise empties half; their errors are those of the others."""
    names = [f"kind {k}" for k in range(17)]
    X = pd.DataFrame({"kind": np.repeat(names, [2000] + 16 * [3])})
    ratios = []
    for seed in range(10):
        sketcher = HistogramSketcher(schema={"kind": names}, epsilon=0.3)
        own = {"n_synthetic": 5000, "random_state": 0, "inference": inference}
        model = M2MEstimator(release=sketcher, **own)
        shares = simulate(model, X, seed=seed).histogram("kind")
        # The model's are no less than about 0; the points' are moved to it.
        moved = 0.1 * shares.noise_std_error[1:].max() if inference == "graphical" else 1e-9
        assert 0 <= np.asarray(shares).min() <= moved
        assert shares.noise_std_error.min() > 0.5 * shares.noise_std_error[1:].max()
        truth = X["kind"].value_counts(normalize=True)[names].to_numpy()
        ratios.append((np.asarray(shares) - truth) / shares.noise_std_error)
        rarest = names[int(np.argmin(shares))]
        count = model.count(lambda rows, rarest=rarest: rows["kind"] == rarest)
        assert float(count.noise_std_error) > 1
    # 170 ratios, of which the moved ones are smaller than normal.
    assert np.abs(ratios).max() < 5
    assert np.mean(np.square(ratios)) < 1.3
