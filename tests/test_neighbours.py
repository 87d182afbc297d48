"""Worst-case neighbours: under the adjacency that is claimed, and as far apart as it allows for."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    Categorical,
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    M2MRegressor,
    Numeric,
    PrivateMMDSummarizer,
    PublicVectorizer,
    RFFSketcher,
    SketchUnion,
    SummarizedEstimator,
)
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.audit._neighbours import sketcher_of
from skdpsumm.features._feature_maps import GRID
from skdpsumm.privacy import gdp_mu
from skdpsumm.schema._schema import as_schema
from skdpsumm.summaries import Auction, Propose

ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
UNION = SketchUnion(
    [HistogramSketcher(n_bins=8), RFFSketcher(n_components=10, gamma=1.0)], weights=[5, 1]
)
SKETCHING = {
    "union": clone(UNION).set_params(schema=(0, 1), random_state=0),
    "categories": HistogramSketcher(schema=[["a", "b", "c"], (0, 1)], random_state=0),
    "grid": HistogramSketcher(
        schema=[Numeric(step=1, edges=[0, 2, 9]), Numeric(0, 9, missing=True)], random_state=0
    ),
    "missing": clone(UNION).set_params(
        schema=[Categorical(["a", "b"], missing=True), Numeric(0, 9, missing=True)], random_state=0
    ),
    "no range": RFFSketcher(
        [Numeric(missing=True), Numeric(0, 9)], n_components=10, gamma=0.1, random_state=0
    ),
    "words": HistogramSketcher(schema=[(0, 9), ["a", "b"]], random_state=0),
    "m2m": M2MEstimator((-2, 3), release=UNION, random_state=0),
    "m2m classifier": M2MClassifier(
        (0, 1), release=RFFSketcher(n_components=4, gamma=2.0), classes=["n", "y"], random_state=0
    ),
    "m2m regressor": M2MRegressor(
        (0, 1), release=RFFSketcher(n_components=4, gamma=2.0), y_bounds=(0, 9), random_state=0
    ),
}


def spent(estimator):
    """Return the part of epsilon (pure) or of mu that the pair makes the release spend."""
    sketcher, n_columns = sketcher_of(estimator, 2)
    X, neighbour = worst_case_neighbours(estimator, n_features=2)
    if isinstance(X, tuple):
        X, neighbour = (np.column_stack([x.astype(object), y]) for x, y in (X, neighbour))
    # As the schema orders the columns.
    schema = as_schema(sketcher.schema)
    X, neighbour = (clone(sketcher)._validate(t, schema, reset=True) for t in (X, neighbour))
    phi = sketcher.preview_map(n_columns)
    release = sketcher._prepare(phi)
    moved = (phi.grid_sums(neighbour) - phi.grid_sums(X)).astype(float)
    if release.counts_rows:
        moved = np.append(moved, (len(neighbour) - len(X)) * GRID)
    in_stds = np.abs(moved) / release.noise.std
    if sketcher.delta == 0:
        return in_stds.sum() * np.sqrt(2) / sketcher.epsilon
    return np.linalg.norm(in_stds) / gdp_mu(sketcher.epsilon, sketcher.delta)


@pytest.mark.parametrize(("delta", "adjacency"), [(1e-6, "add_remove"), (0.0, "replace_one")])
@pytest.mark.parametrize("name", SKETCHING)
def test_sketches_spend_what_is_claimed(name, delta, adjacency):
    """All of it, but for Fourier features, whose two rows are never quite opposite."""
    estimator = clone(SKETCHING[name])
    (estimator.release if name.startswith("m2m") else estimator).set_params(
        delta=delta, adjacency=adjacency
    )
    least = 0.8 if adjacency == "replace_one" else 0.95
    assert least < spent(estimator) <= 1 + 1e-9


def test_targets_of_a_schema():
    """Neighbours are rows of the table, with its words; and as far apart as those of numbers."""
    schema = {"age": (17, 90), "job": Categorical(["clerk", "farmer"], missing=True)}
    summarizer = PrivateMMDSummarizer(
        schema,
        n_select=5,
        protocol=Propose(n_target=6),
        n_components=4,
        random_state=0,
        adjacency="replace_one",
    )
    one, other = worst_case_neighbours(summarizer, n_samples=6, n_features=2)
    assert set(one["X_target"][:, 1]) <= {"clerk", "farmer", None}
    phi = summarizer.fit(**one).embedding_
    tables = (summarizer.vectors(world["X_target"]) for world in (one, other))
    moved = np.subtract(*(phi.sums(vectors) for vectors in tables))
    assert 0.5 * phi.sensitivity(2)[1] < np.linalg.norm(moved) <= phi.sensitivity(2)[1]


@ADJACENCIES
@pytest.mark.parametrize("protocol", [Propose(n_target=300), Auction(n_target=300)])
def test_owners(protocol, adjacency):
    summarizer = PrivateMMDSummarizer(
        n_select=5,
        protocol=protocol,
        n_components=4,
        adjacency=adjacency,
        random_state=0,
        gamma=1.0,
    )
    one, other = worst_case_neighbours(summarizer, n_samples=300, side="owners")
    np.testing.assert_array_equal(one["X_target"], other["X_target"])
    mine = one["owners"] == "observer"
    np.testing.assert_array_equal(one["X"][mine], other["X"][other["owners"] == "observer"])
    assert len(other["X"]) - len(one["X"]) == (adjacency == "add_remove")
    assert (other["X"][-1] == one["X_target"][0]).all()
    assert (one["X"] != one["X_target"][0]).all()


def test_what_is_not_known_is_refused():
    with pytest.raises(TypeError, match="LogisticRegression"):
        worst_case_neighbours(LogisticRegression())
    with pytest.raises(TypeError, match="SummarizedEstimator"):
        worst_case_neighbours(
            SummarizedEstimator(
                LogisticRegression(), PrivateMMDSummarizer(random_state=0, gamma=1.0)
            )
        )
    summarizer = PrivateMMDSummarizer(random_state=0, gamma=1.0)
    with pytest.raises(ValueError, match=r"side must be .* 'both'"):
        worst_case_neighbours(summarizer, side="both")
    with pytest.raises(ValueError, match="target_is_owners"):
        worst_case_neighbours(clone(summarizer).set_params(target_is_owners=True))
    with pytest.raises(ValueError, match="shares"):
        worst_case_neighbours(clone(summarizer).set_params(protocol=Propose(shares={"a": 1.0})))
    for careless in (PrivateMMDSummarizer(gamma=1.0), M2MEstimator((0, 1)), RFFSketcher()):
        with pytest.raises(ValueError, match="random_state must be an int"):
            worst_case_neighbours(careless)


# ---- an estimator of somebody else


class Counts(BaseEstimator):
    """A model of a sketch of its own, of which the audit knows no more than its face."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def preview_sketcher(self, n_features, y=None):
        return HistogramSketcher(schema=(0, 1), delta=0.0, random_state=self.random_state)


def test_the_face_that_is_asked_for_is_all_that_is_needed():
    tables = worst_case_neighbours(Counts(), n_samples=5)
    assert [table.shape for table in tables] == [(5, 1), (6, 1)]
    with pytest.raises(TypeError, match="No neighbours are known for Public"):
        worst_case_neighbours(PublicVectorizer(schema=(0, 1)))
