"""What privacy costs: an answer or a score against epsilon, and what a ledger has paid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring

from .._html import check_axes
from ..moments import Estimate
from ..privacy import PrivacyLedger
from ..schema._reading import unwrap
from ._base import ERROR_BARS, Display, fill, of_level


@dataclass(eq=False, repr=False)
class PrivacyUtilityDisplay(Display):
    """A statistic or a score at each epsilon, with an interval.

    Parameters
    ----------
    epsilons : array-like of shape (k,)
        The epsilons, above 0 and finite.
    values : array-like of shape (k,)
        The statistic or score at each.
    intervals : array-like of shape (k, 2), default=None
        Lower and upper ends, drawn as bars. None draws no bars, as not every value has an interval.
    bars : str, default="interval"
        What the bars are, for the legend. The default fits any.
    label : str, default="score"
        Label of the y axis, with its unit. The default fits `from_estimator`.
    delta : float, default=None
        The delta at which the epsilons are stated, for the axis. None leaves it out, as
        the epsilons of pure DP have none.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        The adjacency of the epsilons, for the axis. The default is the one that estimators have.
    reference : float, default=None
        A *public* value to draw beside as a line, for example one without privacy. What is drawn is
        published, so by default there is none.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    errorbar_ : matplotlib ErrorbarContainer

    Raises
    ------
    ValueError
        If arrays differ in length, or an epsilon is not above 0 and finite.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpsumm import TDILClassifier
    >>> from skdpsumm.plotting import PrivacyUtilityDisplay
    >>> X, y = make_classification(1200, random_state=0)
    >>> model = TDILClassifier(norm_bound=5.0)
    >>> display = PrivacyUtilityDisplay.from_estimator(
    ...     model, X[:1000], y[:1000], X_test=X[1000:], y_test=y[1000:], epsilons=[0.1, 10]
    ... )
    >>> display.values.shape
    (2,)
    >>> display.ax_.get_xlabel()
    'epsilon at delta=1e-06 (add-remove)'
    """

    epsilons: ArrayLike
    values: ArrayLike
    _: KW_ONLY
    intervals: ArrayLike | None = None
    bars: str = "interval"
    label: str = "score"
    delta: float | None = None
    adjacency: str = "add_remove"
    reference: float | None = None

    def __post_init__(self) -> None:
        epsilons = check_epsilons(self.epsilons)
        order = np.argsort(epsilons)
        self.epsilons = epsilons[order]
        self.values = np.asarray(self.values, dtype=np.float64)[order]
        if self.intervals is not None:
            self.intervals = np.asarray(self.intervals)[order]

    def plot(self, ax: Any = None, *, name: str = "private") -> PrivacyUtilityDisplay:
        """Draw the values. Draw several on the same axes to compare them.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.
        name : str, default="private"
            Name in the legend. The default tells the curve from the public `reference`.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        ax = self._open_axes(ax)
        epsilons, values = np.asarray(self.epsilons), np.asarray(self.values)
        # Each further curve stands a little to the right, for its bars would hide others.
        places = epsilons * 1.04 ** self._count("curve")
        style = self._next_style() | {"lw": 1.2, "ms": 5}
        if self.reference is not None:
            ax.axhline(self.reference, **self._reference_style("reference"))
        (self.line_,) = ax.plot(places, values, label=name, **style)
        bars = ERROR_BARS | {"ecolor": style["color"]}
        if self.intervals is not None:
            bars["yerr"] = np.abs(np.asarray(self.intervals) - values[:, None]).T
            bars["label"] = self._once(self.bars)
        self.errorbar_ = ax.errorbar(places, values, **bars)
        at = "" if self.delta is None else f" at delta={self.delta:g}"
        ax.set(xscale="log", xlabel=f"epsilon{at} ({self.adjacency.replace('_', '-')})")
        ax.set_ylabel(self.label)
        ax.set_xticks(epsilons, [f"{epsilon:.3g}" for epsilon in epsilons])
        ax.minorticks_off()
        self._legend_above()
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        X_test: Any,
        y_test: Any = None,
        epsilons: ArrayLike = (0.1, 0.3, 1.0, 3.0, 10.0),
        n_repeats: int = 1,
        scoring: str | Callable | None = None,
        fit_params: Mapping[str, Any] | None = None,
        label: str | None = None,
        reference: float | None = None,
        ax: Any = None,
        name: str = "private",
    ) -> PrivacyUtilityDisplay:
        """Fit clones at each epsilon, score them on public rows, and draw. Every fit costs privacy.

        The picture costs what all its fits cost together, for instance ``n_repeats *
        sum(epsilons)`` of pure DP. Each fit charges the estimator's ledger. If the cap is reached
        on the way, what was spent is spent, so ask `PrivacyLedger.remaining` first.

        Parameters
        ----------
        estimator : estimator
            What to fit; it is cloned.
        X, y : array-like
            Private rows to fit on. y is None by default, as not every estimator takes it.
        X_test, y_test : array-like or `Public`
            *Public* rows to score on: the scores are exact, and are drawn. y_test is None by
            default, like y.
        epsilons : array-like of shape (k,), default=(0.1, 0.3, 1.0, 3.0, 10.0)
            Where to fit. The defaults go from strong protection to weak, evenly on a log axis.
        n_repeats : int, default=1
            Fits per epsilon. The default costs least. With more, the median is drawn, and a bar
            from the least to the largest score: an interval at level 0.95 would take at least 39
            fits. The bars show the whole spread of fits, not only that of the noise.
        scoring : str, callable or None, default=None
            As in scikit-learn. None takes the estimator's own `score`.
        fit_params : mapping, default=None
            More arguments for `fit`, such as ``X_target``, ``owners`` and ``X_public``. None gives
            none, as most estimators need no more than X and y.
        label, reference :
            As in the constructor. A label of None names the scoring.
        ax, name :
            As in `plot`.

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        BudgetExceededError
            If a ledger cannot hold the next fit.
        ValueError
            If `n_repeats` is not a positive integer, the estimator has no parameter `epsilon`, or
            an epsilon is bad; nothing is charged.
        TypeError
            If `ax` is not an Axes; nothing is charged.
        """
        check_axes(ax, f"{cls.__name__}.from_estimator")
        epsilons = check_epsilons(epsilons)
        if not isinstance(n_repeats, int) or n_repeats < 1:
            raise ValueError(f"n_repeats must be a positive integer, got {n_repeats!r}.")
        params = estimator.get_params(deep=False)
        if "epsilon" not in params:
            raise ValueError(
                f"{type(estimator).__name__} has no parameter epsilon: set it on the part that "
                "spends the budget, fit one estimator for each epsilon, and draw their scores with "
                "PrivacyUtilityDisplay(epsilons, scores).plot()."
            )
        scorer = check_scoring(estimator, scoring)
        test = (unwrap(X_test),) if y_test is None else (unwrap(X_test), unwrap(y_test))

        def score(epsilon: float) -> float:
            model = clone(estimator).set_params(epsilon=epsilon)
            return float(scorer(model.fit(X, y, **(fit_params or {})), *test))

        scores = np.array([[score(float(e)) for _ in range(n_repeats)] for e in epsilons])
        display = cls(
            epsilons,
            np.median(scores, axis=1),
            intervals=None if n_repeats == 1 else np.sort(scores, axis=1)[:, [0, -1]],
            bars=f"least to largest of {n_repeats} fits",
            label=label or (scoring if isinstance(scoring, str) else "score"),
            delta=params.get("delta"),
            adjacency=params.get("adjacency", "add_remove"),
            reference=reference,
        )
        return display.plot(ax, name=name)

    @classmethod
    def from_estimates(
        cls,
        estimates: Mapping[float, Estimate],
        *,
        level: float = 0.95,
        ax: Any = None,
        name: str = "private",
        **options: Any,
    ) -> PrivacyUtilityDisplay:
        """Draw one statistic, answered from releases at several epsilons.

        Parameters
        ----------
        estimates : mapping from epsilon to Estimate of shape ()
            The answers, one number for each epsilon.
        level : float, default=0.95
            Level of the bars, over the privacy noise (`Estimate.interval`), with the usual default.
        ax, name :
            As in `plot`.
        **options
            ``label``, ``bars``, ``delta``, ``adjacency`` and ``reference``, as in the constructor.

        Returns
        -------
        PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            If an estimate is not a single number.
        """
        answers = list(estimates.values())
        for answer in answers:
            if answer.shape != ():
                raise ValueError(
                    f"estimates must be single numbers, got shape {answer.shape}; take one entry, "
                    "such as estimate[0]."
                )
        values = np.array([float(answer) for answer in answers])
        intervals = np.array([answer.interval(level) for answer in answers])
        options = {"label": "estimate", "bars": of_level(level)} | options
        return cls(list(estimates), values, intervals=intervals, **options).plot(ax, name=name)


def check_epsilons(epsilons: ArrayLike) -> NDArray[np.float64]:
    """Return the epsilons as an array, or raise ValueError for what no axis can show."""
    values = np.asarray(epsilons, dtype=np.float64)
    sound = values.ndim == 1 and len(values) == len(np.unique(values)) > 0
    if not (sound and np.all((values > 0) & np.isfinite(values))):
        raise ValueError("epsilons must be different finite numbers above 0.")
    return values


# ---- ledgers


@dataclass(eq=False, repr=False)
class LedgerDisplay(Display):
    """What a ledger has charged: a bar per charge, and lines at the total and at the cap.

    Each bar shows what the charge costs alone. Together the charges cost less than the sum of the
    bars (under "gdp" and "zcdp", and in partitions). So the total is drawn as the ledger counts it.

    Parameters
    ----------
    entries : sequence of dict
        As from `PrivacyLedger.entries`: id, label, dataset, epsilon, simulated.
    spent, cap : float
        Total epsilon so far, and the most that the ledger allows.
    delta : float, default=0.0
        The delta at which all epsilons are stated. The default is that of pure DP.
    accountant, adjacency : str, default="pure", "add_remove"
        Those of the ledger, for the axis; by default those of a ledger of pure DP.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from skdpsumm.plotting import LedgerDisplay
    >>> from skdpsumm.privacy import PrivacyLedger, PureDP
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> ledger.charge(PureDP(0.3), label="histogram of ages")
    1
    >>> display = LedgerDisplay.from_ledger(ledger)
    >>> float(display.bars_[0].get_width()), display.spent, display.cap
    (0.3, 0.3, 1.0)
    """

    entries: Sequence[Mapping[str, Any]]
    _: KW_ONLY
    spent: float
    cap: float
    delta: float = 0.0
    accountant: str = "pure"
    adjacency: str = "add_remove"

    def plot(self, ax: Any = None) -> LedgerDisplay:
        """Draw the charges, the first on top; of more than 30, the last ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure, as in scikit-learn.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        shown = self.entries[-30:]
        ax = self._open_axes(ax, (6.4, 1.9 + 0.28 * len(shown)))
        widths = np.array([entry["epsilon"] for entry in shown], dtype=np.float64)
        # Infinite charges reach to the edge.
        ends = np.array([*widths, self.spent, self.cap, 1e-9])
        right = 1.08 * ends[np.isfinite(ends)].max()
        drawn = np.where(np.isinf(widths), right, widths)
        self.bars_ = ax.barh(range(len(shown)), drawn, 0.7, **fill(0))
        for name, value, line in (("all together", self.spent, "--"), ("cap", self.cap, "-")):
            x = value if np.isfinite(value) else np.nan
            style = {"color": "k", "ls": line, "lw": 1.4, "label": f"{name}: {value:.4g}"}
            ax.plot([x, x], [0, 1], transform=ax.get_xaxis_transform(), **style)
        ax.set_yticks(range(len(shown)), [_name(entry) for entry in shown])
        ax.set(ylim=(max(len(shown), 1) - 0.5, -0.5), xlim=(0, right))
        at = f" at delta={self.delta:g}, {self.accountant}" if self.delta else ""
        ax.set_xlabel(f"epsilon{at} ({self.adjacency.replace('_', '-')})")
        if len(shown) < len(self.entries):
            ax.set_title(f"the last {len(shown)} of {len(self.entries)} charges", fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, **options: Any) -> LedgerDisplay:
        """Draw a ledger as it stands.

        Parameters
        ----------
        ledger : PrivacyLedger
            The ledger to draw.
        **options
            As in `plot`.

        Returns
        -------
        LedgerDisplay
        """
        display = cls(
            ledger.entries(),
            spent=ledger.spent.epsilon,
            cap=ledger.epsilon,
            delta=ledger.spent.delta,
            accountant=ledger.accountant,
            adjacency=ledger.adjacency,
        )
        return display.plot(**options)


def _name(entry: Mapping[str, Any]) -> str:
    simulated = " (simulated)" if entry.get("simulated") else ""
    dataset = "" if entry["dataset"] == "default" else f"{entry['dataset']}: "
    return f"{entry['id']}. {dataset}{entry['label'] or 'no label'}{simulated}"
