"""Displays: what is drawn, in which units, without colour; and nothing that was not released."""

import inspect
import re
import sys

import matplotlib
import numpy as np
import pytest
from answers import answer_of
from sklearn.base import BaseEstimator

from skdpsumm import plotting
from skdpsumm.moments import M2MEstimator
from skdpsumm.plotting import PrivacyUtilityDisplay
from skdpsumm.privacy import GaussianDP, PrivacyLedger, PureDP
from skdpsumm.schema import Numeric, Public
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher
from skdpsumm.summaries import PrivateMMDSummarizer, mmd2

matplotlib.use("agg")
import matplotlib.pyplot as plt
from simulated import simulate

from skdpsumm.privacy import PrivacyGuarantee

SCHEMA = {"height": Numeric(100, 220, unit="cm"), "weight": Numeric(0, 200, unit="kg")}
SCHEMA["load"] = (-1, 3)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def table(n_rows=2000):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = [rng.normal(mean, 8, n_rows) for mean in (170, 80)]
    return pd.DataFrame(dict(zip(SCHEMA, [*columns, rng.random(n_rows)], strict=True)))


@pytest.fixture(scope="module")
def sketch():
    sketcher = HistogramSketcher(schema=SCHEMA, n_bins=16, epsilon=1.0)
    return simulate(sketcher, table()).sketch_


@pytest.fixture(scope="module")
def m2m(sketch):
    return M2MEstimator.from_sketch(sketch, n_synthetic=2000, random_state=0)


@pytest.fixture(scope="module")
def choice():
    """Return a summarizer without privacy, one with, their rows, and public ones."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    target = rng.normal(2, 1, (100, 2))
    fitted = [
        PrivateMMDSummarizer(
            n_select=30, gamma=0.5, n_components=64, epsilon=epsilon, random_state=0
        ).fit(X, X_target=target, owners=np.repeat(["north", "south"], 200))
        for epsilon in (np.inf, 1.0)
    ]
    return (*fitted, X, rng.normal(2, 1, (80, 2)))


def estimate(value, std=0.1, **options):
    return answer_of(value, std, **options)


def examples():
    """Return one display of each kind, made by hand."""
    entries = [{"id": 1, "label": "ages", "dataset": "default", "epsilon": 0.5}]
    return [
        plotting.CDFDisplay([1, 2, 3], estimate([0.1, 0.5, 0.9])),
        plotting.ColumnGraphDisplay(["a", "b"], {("a", "b"): 2}, {("a", "b"): 0.5}),
        plotting.ComparisonDisplay({"first": estimate([1.0, 2.0]), "second": estimate([1.5, 1.0])}),
        plotting.CovarianceDisplay(estimate(np.eye(2)), names=["a", "b"]),
        plotting.CrosstabDisplay(estimate([[1.0, 2.0], [3.0, 4.0]], axes=["a", "b"])),
        plotting.HistogramDisplay(estimate([0.2, 0.8]), edges=[0, 1, 3]),
        plotting.LedgerDisplay(entries, spent=0.5, cap=1.0),
        plotting.MomentDisplay(estimate([1.0, 2.0]), [(0, 2), (0, 4)], names=["a", "b"]),
        PrivacyUtilityDisplay([0.1, 1], [1.0, 2.0], intervals=[(0, 2), (1, 3)]),
        plotting.SummaryDisplay([1, 2, 4], [1.0, 0.5, 0.2], expected=[1.0, 0.7, 0.5]),
    ]


# ---- what all displays have in common


def test_all_are_exported_and_tested():
    assert {type(display).__name__ for display in examples()} == set(plotting.__all__)


def makers():
    """Return every class method of every display that makes one, as (kind, name)."""
    kinds = [getattr(plotting, name) for name in plotting.__all__]
    made = [
        (kind, name) for kind in kinds for name, _ in inspect.getmembers(kind, inspect.ismethod)
    ]
    return [(kind, name) for kind, name in made if name.startswith("from_")]


@pytest.fixture(scope="module")
def given(sketch, m2m, choice):
    """Return what each class method is called with."""
    _, _, X, public = choice
    ledger = a_ledger()
    fit = {"X_test": [0], "epsilons": [1.0]}
    return {
        ("CDFDisplay", "from_estimator"): ((m2m, 0), {}),
        ("CDFDisplay", "from_sketch"): ((sketch, 0), {"random_state": 0}),
        ("ColumnGraphDisplay", "from_sketch"): ((sketch,), {}),
        ("ComparisonDisplay", "from_estimator"): (({"a": m2m, "b": m2m}, M2MEstimator.mean), {}),
        ("CovarianceDisplay", "from_estimator"): ((m2m,), {}),
        ("CovarianceDisplay", "from_sketch"): ((sketch,), {"random_state": 0}),
        ("CrosstabDisplay", "from_estimator"): ((m2m, [0, 1]), {"bins": 3}),
        ("CrosstabDisplay", "from_sketch"): ((sketch, [0, 1]), {"bins": 3, "random_state": 0}),
        ("HistogramDisplay", "from_estimator"): ((m2m, 0), {}),
        ("HistogramDisplay", "from_sketch"): ((sketch, 0), {"random_state": 0}),
        ("LedgerDisplay", "from_ledger"): ((ledger,), {}),
        ("MomentDisplay", "from_estimator"): ((m2m,), {}),
        ("MomentDisplay", "from_sketch"): ((sketch,), {"random_state": 0}),
        ("PrivacyUtilityDisplay", "from_estimates"): (({1.0: estimate(0.5)},), {}),
        ("PrivacyUtilityDisplay", "from_estimator"): ((Constant(), None), fit),
        ("SummaryDisplay", "from_rows"): ((X[:5], public), {"gamma": 0.5}),
    }


# A value of each keyword of a `plot` that is not its default.
UNUSUAL = {"level": 0.5, "name": "mine"}


@pytest.mark.parametrize(("kind", "maker"), makers(), ids=lambda one: getattr(one, "__name__", one))
def test_class_methods_draw_once_as_plot_would(kind, maker, given, monkeypatch):
    drawn, plot = [], kind.plot

    def spy(self, ax=None, **options):
        drawn.append((ax, options))
        return plot(self, ax, **options)

    monkeypatch.setattr(kind, "plot", spy)
    args, options = given[kind.__name__, maker]
    make = getattr(kind, maker)
    display = make(*args, **options)
    assert isinstance(display, kind)
    assert len(drawn) == len(plt.get_fignums()) == 1  # one figure
    assert display.ax_.has_data()

    wanted = {name: UNUSUAL[name] for name in list(inspect.signature(plot).parameters)[2:]}
    _, ax = plt.subplots()
    display = make(*args, **options, ax=ax, **wanted)
    assert display.ax_ is ax
    assert ax.has_data()
    assert len(plt.get_fignums()) == len(drawn) == 2
    assert drawn[1][0] is ax
    assert drawn[1][1] == wanted

    assert display.plot().ax_ is not ax


def test_all_axes_at_once_are_refused_before_anything_is_spent(unpaid):
    _, axes = plt.subplots(1, 2)
    with pytest.raises(TypeError, match="ax must be a matplotlib Axes or None, got ndarray"):
        PrivacyUtilityDisplay.from_estimator(
            Constant(ledger=unpaid), None, X_test=[0], epsilons=[1.0], ax=axes
        )
    with pytest.raises(TypeError, match="ax must be"):
        examples()[0].plot(axes)


def test_without_matplotlib_no_fit_is_paid_for(monkeypatch, unpaid):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="from_estimator requires matplotlib"):
        PrivacyUtilityDisplay.from_estimator(Constant(ledger=unpaid), None, X_test=[0])


@pytest.mark.parametrize(
    "display",
    [d for d in examples() if "name" in inspect.signature(d.plot).parameters],
    ids=lambda d: type(d).__name__,
)
def test_nothing_relies_on_colour(display):
    """Curves on the same axes differ in line and marker."""
    ax = None
    for name in "abcde":
        ax = display.plot(ax, name=name).ax_
    curves = [line for line in ax.get_lines() if line.get_gid() == "curve"]
    assert len({str(line._unscaled_dash_pattern) for line in curves}) == len(curves) == 5
    assert len({line.get_label() for line in curves}) == 5
    references = [line.get_label() for line in ax.get_lines() if line.get_gid() == "reference"]
    assert sum(not label.startswith("_") for label in references) <= 1


# ---- each display


def test_the_graph_of_columns_shows_what_was_counted_together():
    """The later the step, the other the line; the more they depend, the wider."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 5000))
    rows = np.column_stack([a, b, a ^ (rng.random(5000) < 0.1), b]).astype(float)
    schema = Numeric(0, 1, step=1)
    by_list = HistogramSketcher(schema=schema, marginals=[[0, 2], [1, 0, 3]], epsilon=np.inf)
    display = plotting.ColumnGraphDisplay.from_sketch(by_list.fit(rows).sketch_)
    widths = {pair: line.get_linewidth() for pair, line in display.lines_.items()}
    assert set(widths) == {("x0", "x2"), ("x0", "x1"), ("x1", "x3"), ("x0", "x3")}
    assert widths["x0", "x1"] < widths["x0", "x2"] < widths["x1", "x3"]
    assert set(display.pairs.values()) == {1}
    adaptive = AdaptiveSketcher(schema=schema, target=0, epsilon=np.inf).fit(rows).sketch_
    display = plotting.ColumnGraphDisplay.from_sketch(adaptive)
    assert display.pairs["x0", "x3"] == 1
    assert display.pairs["x2", "x3"] == 2
    styles = {line._unscaled_dash_pattern for line in display.lines_.values()}
    assert len(styles) == 2
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["step 1", "step 2"]


def test_cdf(m2m):
    asked = {"thresholds": [150, 170, 190], "level": 0.9}
    display = plotting.CDFDisplay.from_estimator(m2m, "height", **asked)
    expected = m2m.cdf("height", [150, 170, 190])
    assert np.array_equal(display.line_.get_ydata(), np.asarray(expected))
    assert np.array_equal(display.line_.get_xdata(), [150, 170, 190])
    band = set(display.band_.get_paths()[0].vertices[:, 1])
    assert band >= set(np.clip(expected[...].interval(0.9), 0, 1).ravel())
    assert not band >= set(np.clip(expected[...].interval(0.95), 0, 1).ravel())
    assert display.ax_.get_xlabel() == "height (cm)"
    assert plotting.CDFDisplay.from_estimator(m2m, 2).label == "load"


def ends_of(errorbar):
    """Return both ends of each error bar that is drawn up and down."""
    return np.array([segment[:, 1] for segment in errorbar[2][0].get_segments()])


def test_histogram_draws_the_estimate_and_its_interval(m2m):
    asked = {"bins": [100, 160, 170, 220], "level": 0.9}
    display = plotting.HistogramDisplay.from_estimator(m2m, "height", **asked)
    expected = m2m.histogram("height", [100, 160, 170, 220])
    assert [bar.get_height() for bar in display.bars_] == np.asarray(expected).tolist()
    assert [bar.get_x() for bar in display.bars_] == [100, 160, 170]
    assert [bar.get_width() for bar in display.bars_] == [60, 10, 50]
    assert np.allclose(ends_of(display.errorbar_), expected.interval(0.9), atol=1e-12)
    assert display.ax_.get_xlabel() == "height (cm)"
    assert len(plotting.HistogramDisplay.from_estimator(m2m, 0).bars_) == 10


def test_crosstab_writes_the_estimate_and_its_interval(m2m):
    display = plotting.CrosstabDisplay.from_estimator(m2m, ["height", "load"], bins=2, level=0.9)
    expected = m2m.table(["height", "load"], bins=2)
    assert np.array_equal(display.image_.get_array(), np.asarray(expected))
    assert display.image_.get_clim() == (0, np.max(expected))
    written = [text.get_text() for text in display.texts_]
    intervals = expected[...].interval(0.9).reshape(-1, 2)
    for text, value, ends in zip(written, np.ravel(expected), intervals, strict=True):
        drawn = [float(word) for word in re.findall(r"[\d.]+", text)]
        assert np.allclose(drawn, [value, *ends], rtol=0.006)
    assert (display.ax_.get_ylabel(), display.ax_.get_xlabel()) == ("height", "load")
    wide = plotting.CrosstabDisplay(estimate(np.ones((2, 9)))).plot()
    assert not wide.texts_


def test_comparison_draws_each_release_and_its_interval(m2m, sketch):
    def shares(one):
        return one.histogram("height", [100, 160, 170, 220])

    display = plotting.ComparisonDisplay.from_estimator({"a": m2m, "b": m2m}, shares, label="share")
    assert list(display.bars_) == ["a", "b"]
    drawn = [bar.get_width() for bar in display.bars_["a"]]
    assert drawn == np.asarray(shares(m2m)).tolist()
    one = display.ax_.containers[1]
    ends = np.array([segment[:, 0] for segment in one[2][0].get_segments()])
    assert np.allclose(ends, shares(m2m).interval(0.95), atol=1e-12)
    assert display.ax_.get_xlabel() == "share"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["a", "95% interval", "b"]
    assert len({bars[0].get_hatch() for bars in display.bars_.values()}) == 2  # without colour


def test_covariance(m2m):
    display = plotting.CovarianceDisplay.from_estimator(m2m)
    matrix = np.asarray(m2m.covariance())
    spread = np.sqrt(np.diag(matrix))
    shades = np.asarray(display.image_.get_array())
    assert np.allclose(shades, matrix / spread / spread[:, None])
    assert display.texts_[1].get_text().startswith(f"{matrix[0, 1]:.3g}\n±")
    labels = [t.get_text() for t in display.ax_.get_xticklabels()]
    assert labels == ["height (cm)", "weight (kg)", "load"]
    assert display.image_.get_clim() == (-1, 1)
    # In grey, a larger correlation is darker.
    greys = display.image_.cmap(np.linspace(0, 1, 20))[:, :3].mean(axis=1)
    assert (np.diff(greys) < 0).all()


def a_ledger():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    ledger.charge(GaussianDP(0.2), label="means")
    claim = PrivacyGuarantee(GaussianDP(0.1), simulated=True)
    ledger.dataset("north").charge(claim, label="counts")
    return ledger


def test_ledger():
    ledger = a_ledger()
    display = plotting.LedgerDisplay.from_ledger(ledger)
    paid = [entry["epsilon"] for entry in ledger.entries()]
    assert [bar.get_width() for bar in display.bars_] == paid
    lines = {line.get_label(): line.get_xdata()[0] for line in display.ax_.get_lines()}
    # Gaussian charges add up to less than the sum: the total is the ledger's own.
    assert sum(paid) > ledger.spent.epsilon
    assert list(lines.values()) == [ledger.spent.epsilon, 2.0]
    assert display.ax_.get_xlabel() == "epsilon at delta=1e-05, gdp (add-remove)"
    names = [t.get_text() for t in display.ax_.get_yticklabels()]
    assert names == ["1. means", "2. north: counts (simulated)"]


def test_summary_is_the_distance_to_public_rows(choice):
    exact, _, X, public = choice
    rows = X[exact.sample_indices_]
    display = plotting.SummaryDisplay.from_rows(rows, Public(public), gamma=0.5)
    assert display.sizes[-1] == len(rows)
    for size in (1, 7, 30):
        at = display.sizes.tolist().index(size)
        assert np.isclose(display.mmd[at] ** 2, mmd2(rows[:size], public, gamma=0.5), atol=1e-12)
    assert np.array_equal(display.line_.get_ydata(), display.mmd)
    assert "no guarantee" in display.ax_.get_title()


class Constant(BaseEstimator):
    """Scores ten times epsilon plus the number of its fit."""

    fits = 0

    def __init__(self, epsilon=1.0, delta=0.0, adjacency="replace_one", ledger=None):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.ledger = ledger

    def fit(self, X, y=None, *, bonus=0):
        if self.ledger is not None:
            self.ledger.charge(PureDP(self.epsilon))
        Constant.fits += 1
        self.score_ = 10 * self.epsilon + Constant.fits + bonus
        return self

    def score(self, X, y=None):
        return self.score_ + len(X)


def test_utility_of_an_estimator_fits_clones_and_pays_for_each():
    Constant.fits, ledger = 0, PrivacyLedger(epsilon=100)
    model = Constant(ledger=ledger)
    display = PrivacyUtilityDisplay.from_estimator(
        model, None, X_test=Public([1, 2]), epsilons=[3, 1], n_repeats=3, fit_params={"bonus": 100}
    )
    assert display.epsilons.tolist() == [1, 3]
    assert display.values.tolist() == [10 + 5 + 102, 30 + 2 + 102]
    assert display.intervals.tolist() == [[116, 118], [133, 135]]
    assert ledger.spent.epsilon == 3 * (3 + 1)
    assert not hasattr(model, "score_")
    assert display.ax_.get_xlabel() == "epsilon at delta=0 (replace-one)"


@pytest.mark.parametrize(
    "bad", [{"epsilons": [0.0, 1.0]}, {"epsilons": [1.0, np.inf]}, {"n_repeats": 0}], ids=str
)
def test_utility_refuses_before_it_spends(bad, unpaid):
    with pytest.raises(ValueError, match=next(iter(bad))):
        PrivacyUtilityDisplay.from_estimator(Constant(ledger=unpaid), None, X_test=[0], **bad)
