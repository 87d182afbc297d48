"""Search for parameters at a price that hardly depends on how many are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._computing import progress, silence, warn_caller
from .._delegation import DelegatingMixin, inner_has
from .._sklearn import HasMethods, Interval, StrOptions
from ..privacy import BudgetExceededError, NoiseWarning, PrivacyGuarantee, PrivacyLedger
from ..privacy._best_of import StoppingLaw
from ..privacy._fit import PrivateFit
from ..privacy._noise import derived_seed, load_noise, secret_generator
from ..schema._columns import known_classes, public_interval
from ..schema._groups import Groups
from ..schema._reading import (
    check_computed,
    column_names,
    for_inner,
    is_arrow,
    is_frame,
    rows_of,
    to_pandas,
    unwrap,
    validate_table,
)
from ._candidate import (
    ETAS,
    SCORES,
    ChoiceNoise,
    Choices,
    Leaf,
    PrivateScore,
    PublicRows,
    Rehearsal,
    Result,
    RunPlan,
    Table,
    TableForm,
    alike,
    check_steps,
    groups_held_out,
    labels_of,
    last_step,
    plan_runs,
    run,
    schemas_of,
    set_claim,
    stopping,
)


@dataclass(frozen=True, repr=False)
class _Draft:
    """A search that is rehearsed on public rows and not paid for."""

    public: PublicRows
    trials: list[tuple[dict[str, Any], Any]]
    table: Table
    score: PrivateScore
    privacy: PrivacyGuarantee
    noise_seed: int | None

    def seeds(self, j: int) -> list[int | None]:
        """Return the seeds of the noise of fit and score in trial j."""
        return [derived_seed(self.noise_seed, 1, j, k) for k in range(2)]


class PrivateSearchCV(DelegatingMixin, PrivateFit, MetaEstimatorMixin, BaseEstimator):
    """Choose the parameters of a private learner, for one budget in all.

    Use it in place of `RandomizedSearchCV`. It draws a random number K of candidates, fits each on
    one part of the rows, scores it with noise on the other, and releases the best. K stays a
    secret, as does all else about the other candidates. That is why ten trials cost about twice
    what one does, and a hundred little more. It is also why there is no `cv_results_`, no progress
    of inner fits and no refit.

    Each run has more noise and fewer rows than one plain fit. Ask `expected_noise` how much before
    you search.

    Parameters
    ----------
    estimator : estimator
        A private learner (`TDDLClassifier`, `TDILRegressor`, `M2MClassifier`, ...), or a `Pipeline`
        that ends in one. Describe the table in the `schema` of the learner, or of a
        `PublicVectorizer` in the first step. Words and missing values are then read as the schema
        says, and public rows are drawn from it. The steps before the learner are
        `PublicVectorizer`, `Binarizer`, `PolynomialFeatures` or `RBFSampler`: they learn nothing
        from rows, and take each by itself. Other steps are refused.
        The search sets epsilon, delta, adjacency and ledger of the learner, and turns
        memory and verbose off.
    param_distributions : dict or list of dicts
        What to try, as in `RandomizedSearchCV`: lists, or distributions with `rvs`. All candidates
        have one `schema`. Every trial draws anew, so the same candidate can come twice.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. It is the guarantee of the whole
        search. The default is that of the learners, so that a search promises what one fit does.
        ``epsilon=np.inf`` adds no noise, and draws from `random_state` alone.
    delta : float, default=1e-6
        The delta of the guarantee. The default is that of the learners. 0 needs mechanisms that are
        pure.
    expected_trials : float, default=10
        E[K], how many candidates are tried on average. It must be above 1. With the default
        `distribution`, more trials cost little privacy and much time: the default of 10 takes about
        as long as ten fits, now and then several times that.
    distribution : {"logarithmic", "geometric"} or float, default="logarithmic"
        The law of K. The default is the cheaper of the two. A float above -1 is eta of the
        truncated negative binomial law: 0 is the logarithmic and 1 the geometric one. The smaller
        eta is, the cheaper is the search, and the more K varies.
    scoring : str or callable, default=None
        How a row is scored: "accuracy", "neg_absolute_error", "neg_squared_error", or a function.
        The function takes a fitted estimator, one row (of shape (1, d), as the schema reads it) and
        its label. It returns a number, higher for better. None takes scores that are easy to bound:
        "accuracy" for classifiers and "neg_absolute_error" for regressors.
    score_bounds : pair of float, default=None
        Public (low, high) of the score of one row, such as (-2, 0). Scores are clipped to them.
        Give them unless `scoring` is accuracy. None then takes (0, 1), because a row is right or
        wrong.
    holdout : float, default=0.25
        Chance of each row to be held out for the score. With `groups`, of each whole group. The
        default is that of `train_test_split`.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` they differ by one group. The default is that of the learners.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. None protects single rows, which is right if nobody has several. Otherwise `fit`
        protects groups of rows, usually all rows of one person. An int k keeps k rows of each
        group, chosen once by secret coins. "average" counts each group once: its score is the mean
        of its rows' scores. Set it on the search alone, which sets it on the learner. Learners and
        mechanisms without a proof for groups are refused.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for seeds of candidates that have
        none, the same in all trials. It decides neither K nor what is tried. None, as in
        scikit-learn, differs from search to search.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. That is one charge for the whole search. None counts nothing:
        you then add up your releases yourself.

    Attributes
    ----------
    best_estimator_ : estimator
        The best candidate, trained on the part that was not held out. Its `privacy_` is that of
        the search.
    best_params_ : dict
        Its parameters.
    best_sum_ : float
        The private score: the noisy sum over held-out rows of (score - middle of score_bounds). It
        flatters, because it is the largest of K. The number of rows is not released.
    score_noise_std_ : float
        Standard deviation of the noise in `best_sum_`.
    noise_ : ChoiceNoise
        What the choice can tell apart, and whether it is mostly noise (`is_drowned`): `fit` then
        gives a `NoiseWarning`. It also has the epsilon of a plain fit that is as noisy as a run,
        and says whether the estimator as you gave it won (`is_default`). All of it is computed from
        the release alone. `privacy_` and the repr show it, too.
    privacy_ : PrivacyGuarantee
        What the release promises. It is always idealised: K and candidates are drawn in floating
        point.
    classes_ : ndarray
        The classes, if the estimator is a classifier.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, if it has them.

    Notes
    -----
    *A run.* Each row is held out by a secret coin of its own, thrown once for the search. Fit and
    score get the whole budget of a run each. Under add-remove, give the rows that both data sets
    have the same coins, and the row that one of them lacks a coin of its own: this leaves the law
    of the coins as it is on either side. For given coins the row is in one part: if it is in the
    training part the score is post-processing of what the fit released, else the fit is the same.
    So given the coins a run costs what one of the two costs. This holds for every coin, and so on
    average, because the sum that defines delta(epsilon) is convex. Under replace-one a row keeps
    its coin. (A rule by position would not do: a row that comes shifts the positions of all after
    it.)

    *A run, of groups.* Which k rows of a group stay, and the group's one coin, are keyed hashes of
    its label: for a given key, no other group's rows or coin change when a group comes or goes. So
    for every key the group is in one part. In the training part, the fit is that of a learner for
    which this `max_rows_per_group` is proved; it gets the labels, and no group has more rows than
    stay. Held out, the group adds at most k scores to the sum, of half of the bounds' length each,
    or with "average" the mean of them, rounded once. Under replace-one the new group has another
    label. We assume that a keyed hash acts like random numbers, so its coin is independent of all
    others. Pair it with the coin of the group that goes. The sum counts no rows, whose number would
    be private with an int k; a learner that publishes it refuses replace-one.

    *The search.* Its (epsilon, delta) follow from those of the runs by a theorem on the best of a
    random number of Gaussian runs, which no other bound improves on. docs/proofs.md
    proves it, and docs/learners.md has a table.

    *Parallel trials.* Trials run in parallel inside ``joblib.parallel_config("loky")`` or
    ``("dask")``, with the same result. Whoever watches the workers sees K. How long a fit takes
    tells something of K, too. No epsilon covers either.

    *Candidates that fail.* Before any charge, candidates are tried on public rows: all of them, if
    they are a grid of at most 100, and otherwise a few and those that are drawn. A candidate that
    cannot be fitted to the private rows counts as the worst. Without a schema X must hold finite
    numbers.

    *Learners of your own.* A search takes any estimator with the parameters `epsilon`, `delta`,
    `adjacency` and `ledger` (its own, or those of its `release`) that sets
    `privacy_` in `fit`, and whose `holds_private_data` is not True. One with a parameter `schema`
    reads tables through it, cell by cell.

    *Score.* `score` is exact, and no release.

    *Time.* A search takes `expected_trials` times one fit on average. As K varies, it now and then
    takes several times that.

    *In a ledger* with delta > 0 a search counts as the Gaussian that dominates it. Its epsilon is
    about 1.4 times that of the search (by default, ten candidates cost less there than two fits
    with the same noise). A search with delta=0 counts as itself, if all charges are pure.

    Source: Liu and Talwar (2019), Papernot and Steinke (2022), Koskela, Redberg and Wang (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> from skdpsumm import PrivateSearchCV, TDILClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> maps = [RBFSampler(gamma=g, n_components=100, random_state=0) for g in (0.5, 1, 2, 4)]
    >>> search = PrivateSearchCV(TDILClassifier(), {"kernel": maps}, epsilon=3.0)
    >>> search = search.fit(X, y)
    >>> round(search.privacy_.epsilon(1e-6), 6)
    3.0
    >>> search.predict([[0.5, 0.5]]).shape
    (1,)

    See Also
    --------
    TDILClassifier : What a search usually tries.
    PrivacyLedger : What counts the costs of several searches and fits.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_public": True, "groups": True}
    _required_parameters: ClassVar[list[str]] = ["estimator", "param_distributions"]
    _inner = "best_estimator_"

    @property
    def _unfitted(self) -> Any:
        # The kind of noise decides on defaults: on the loss, and so on whether there are
        # probabilities.
        with suppress(TypeError, ValueError):  # `fit` says what is wrong with it
            copy = clone(self.estimator)
            last_step(copy).set_params(delta=self.delta)
            return copy
        return self.estimator

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "param_distributions": [dict, list],
        "expected_trials": [Interval(Real, 1, None, closed="neither")],
        "distribution": [StrOptions(set(ETAS)), Interval(Real, -1, None, closed="neither")],
        "scoring": [None, str, callable],
        "score_bounds": "no_validation",
        "holdout": [Interval(Real, 0, 1, closed="neither")],
        **PrivateFit._parameter_constraints,
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        expected_trials: int = 10,
        distribution: float | str = "logarithmic",
        scoring: str | Callable[..., float] | None = None,
        score_bounds: tuple[float, float] | None = None,
        holdout: float = 0.25,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.expected_trials = expected_trials
        self.distribution = distribution
        self.scoring = scoring
        self.score_bounds = score_bounds
        self.holdout = holdout
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> Self:
        """Search, and release the best candidate.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            One row per person (or other unit of protection). With `groups`, any number of rows.
        y : array-like of shape (n_samples,)
            Labels, or the numbers to predict.
        X_public : array-like of shape (T, n_features) or `Public`, default=None
            Public points, for estimators whose `fit` takes them, such as TDDL. They go through the
            steps before the learner, as X does. None is right for estimators that need none.
        groups : array-like of shape (n_samples,), default=None
            Label of the group that each row belongs to, such as a person. Give it if you set
            `max_rows_per_group`. No group is cut into parts. None fits the default, which protects
            single rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters, data, or candidates, which the message names. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold the search, which counts as more than its epsilon there (see
            Notes). Nothing is charged.

        Warns
        -----
        NoiseWarning
            If the choice is mostly noise. All is fitted, even if you turn the warning into an
            error.
        """
        with progress("", verbose=False):  # what fits have to tell would count them
            return self._private_fit(X, y, X_public, groups=unwrap(groups))

    def expected_noise(self, n_samples: float) -> dict[str, float]:
        """Return what a search can tell apart, and what its runs cost.

        Call it before `fit`. It reads no data and costs nothing.

        Parameters
        ----------
        n_samples : float
            Number of rows that you expect (of groups, with ``max_rows_per_group="average"``). A
            rough number is enough.

        Returns
        -------
        dict
            - "noise": standard deviation of the noise on the mean score of a candidate.
            - "size": how far scores can differ, the length of `score_bounds`.
            - "difference": candidates whose mean scores differ by less are told apart by chance.
            - "n_samples": how many rows it takes to tell a tenth of "size" apart, by a rule of
              thumb.
            - "epsilon_of_fit": the epsilon of one fit to all rows that is as noisy, for its rows,
              as a run of the search. A plain fit has the whole `epsilon` instead, so a search pays
              only if the choice gains more than that.
            - "epsilon_in_ledger": what a `PrivacyLedger` with this delta counts.

        Raises
        ------
        ValueError
            For bad parameters.

        Examples
        --------
        >>> from skdpsumm import PrivateSearchCV, TDILClassifier
        >>> search = PrivateSearchCV(TDILClassifier(), {"norm_bound": [1.0, 2.0]}, epsilon=1.0)
        >>> planned = search.expected_noise(1000)
        >>> {name: round(value, 2) for name, value in planned.items()}
        {'noise': 0.01, 'size': 1.0, 'difference': 0.03, 'n_samples': 326.74, \
'epsilon_of_fit': 0.52, 'epsilon_in_ledger': 1.39}
        """
        if not (isinstance(n_samples, Real) and 0 < n_samples < np.inf):
            raise ValueError(f"n_samples must be a positive number, got {n_samples!r}.")
        self._check_parameters()
        plan = self._plan(float(self.epsilon))
        score = self._make_score(plan)
        size, held_out = score.high - score.low, float(self.holdout) * float(n_samples)
        ledger = PrivacyLedger(epsilon=math.inf, delta=float(self.delta))
        return {
            "noise": score.noise_std / held_out,
            "size": size,
            "difference": score.told_apart(held_out),
            "n_samples": score.rows_to_tell / float(self.holdout),
            "epsilon_of_fit": plan.epsilon_of_fit(float(self.holdout), float(self.delta)),
            "epsilon_in_ledger": ledger.price(plan.total).epsilon,
        }

    def _draft(
        self, noise_seed: int | None, X: Any, y: Any, X_public: Any, groups: Any = None
    ) -> _Draft:
        leaf, choices, score = self._described()
        X, form, y, classes = self._validate(X, y)
        rng, seed = self._sources(noise_seed)
        bounded = None
        if groups is None:
            held_out = rng.random(len(y)) < self.holdout
        else:
            bounded, kept = self._bounded(Groups.read(groups, len(y)), rng)
            held_out = groups_held_out(bounded, float(self.holdout), rng.bytes(32))
        drawn = [choices.draw(rng) for _ in range(self._law().draw(rng))]
        load_noise()  # or no candidate could be tried, and the error would blame them all
        # Before the charge. What is tried, and on what, hangs on no row.
        with silence():
            public = PublicRows.like(form, classes, unwrap(X_public), grouped=bounded is not None)
            rehearsal = Rehearsal(self, leaf, score.plan, classes, seed, public)
            rehearsal.try_all([*choices.to_try()])
            X = form.read(X)
            trials = [*zip(drawn, rehearsal.try_all(drawn), strict=True)]
        if bounded is not None:
            X, y = rows_of(X, kept), y[kept]
        table = Table(X, y, held_out, bounded, self._averages_groups)
        privacy = replace(self._guarantee(classes, score), simulated=noise_seed is not None)
        return _Draft(public, trials, table, score, privacy, noise_seed)

    def _bounded(
        self, groups: Groups, rng: np.random.Generator
    ) -> tuple[Groups, NDArray[np.int64]]:
        """Return which rows stay, and their groups."""
        kept = np.arange(len(groups.codes))
        if not self._averages_groups:
            kept = groups.kept(self._rows_per_group, rng.bytes(32))
        return Groups(labels_of(groups, kept)), kept

    def _publish(self, draft: _Draft) -> None:
        # What runs have to say would tell how many there are.
        with silence():
            best = self._search(draft)
        set_claim(last_step(best.estimator), draft.privacy)
        self.best_estimator_, self.best_params_ = best.estimator, best.params
        self.best_sum_, self.score_noise_std_ = best.value, draft.score.noise_std
        given = self.estimator.get_params()
        self.noise_ = ChoiceNoise.of(
            draft.score,
            best.value,
            self._law().mean,
            is_default=all(alike(given.get(name), value) for name, value in best.params.items()),
            epsilon=float(self.epsilon),
            epsilon_of_fit=draft.score.plan.epsilon_of_fit(float(self.holdout), float(self.delta)),
        )
        self.privacy_ = replace(draft.privacy, noise=str(self.noise_))

    def _warn_last(self, draft: _Draft) -> None:
        if self.noise_.is_drowned:
            warn_caller(self.noise_.advice, NoiseWarning)

    # ---- before the charge

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._described()

    def _described(self) -> tuple[Leaf, Choices, PrivateScore]:
        """Return what the parameters describe, or raise for those that describe nothing."""
        leaf = Leaf.of(self.estimator)
        choices = Choices(self.param_distributions)
        clone(self.estimator).set_params(**dict.fromkeys(choices.names))  # raises for unknown names
        leaf.check(self.estimator, choices.names)
        check_steps(self.estimator)
        schemas_of(self.estimator)  # which raises for what is none
        leaf.settings(self.estimator, None, self.adjacency, self.max_rows_per_group)  # which raises
        return leaf, choices, self._make_score(self._plan(float(self.epsilon)))

    def _ask_ledger(self) -> None:
        if self.ledger is None:
            return
        try:
            self._ask(self._plan(float(self.epsilon)).total)
        except BudgetExceededError as error:
            if self.delta == 0:  # such a search counts as itself
                raise
            raise BudgetExceededError(
                f"{error} A ledger counts a search as more than its epsilon, unless delta=0: "
                "`expected_noise` tells how much."
            ) from None

    def _law(self) -> StoppingLaw:
        return stopping(self.distribution, self.expected_trials)

    def _plan(self, epsilon: float) -> RunPlan:
        return plan_runs(self._law(), epsilon, float(self.delta))

    def _make_score(self, plan: RunPlan) -> PrivateScore:
        if not (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise ValueError(
                f"estimator must be a classifier or a regressor, whose predictions a search can "
                f"score; {type(self.estimator).__name__} is neither."
            )
        default = "accuracy" if is_classifier(self.estimator) else "neg_absolute_error"
        scoring: Any = default if self.scoring is None else self.scoring
        if isinstance(scoring, str) and scoring not in SCORES:
            raise ValueError(
                f"scoring must be one of {sorted(SCORES)} or a function that scores one row, got "
                f"{scoring!r}. What is released is a sum over rows, which an AUC is not: take the "
                "log likelihood of a row, with score_bounds, where classes are rare."
            )
        bounds = (0.0, 1.0) if scoring == "accuracy" else None
        bounds = bounds if self.score_bounds is None else self.score_bounds
        if bounds is None:
            raise ValueError(
                f"score_bounds is missing: give the public (low, high) of a row's score, which "
                f"scoring={scoring!r} has no default for; (-2, 0) clips errors at 2."
            )
        low, high = public_interval("score_bounds", bounds)
        row_score = SCORES[scoring] if isinstance(scoring, str) else scoring
        return PrivateScore(row_score, low, high, self.adjacency, plan, self._rows_per_group)

    def _validate(self, X: Any, y: Any) -> tuple[Any, TableForm, NDArray, Any]:
        """Return the cells of X as `TableForm.read` takes them, their form, labels, and classes."""
        numeric = is_regressor(self.estimator)
        check_computed(X)
        names = column_names(X)  # which raises for labels that are neither words nor positions
        X = to_pandas(X) if is_arrow(X) else X
        schema = schemas_of(self.estimator)[0]
        options = {"schema": schema, "y_numeric": numeric, "ensure_min_samples": 2}
        cells, y = validate_table(self, X, y, **options)
        like = rows_of(X, slice(0, 0)) if is_frame(X) else np.empty((0, self.n_features_in_))
        form = TableForm.of(like, schema, names)
        if numeric:
            return cells, form, y, None
        with silence():  # it may warn of how many rows there are
            check_classification_targets(y)
        return cells, form, y, known_classes(y, getattr(last_step(self.estimator), "classes", None))

    def _sources(self, noise_seed: int | None) -> tuple[np.random.Generator, int]:
        """Return the secret generator, and the public seed of what has none."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        if math.isinf(self.epsilon):
            return np.random.default_rng(seed), seed
        return secret_generator(derived_seed(noise_seed, 0)), seed

    # ---- after it

    def _search(self, draft: _Draft) -> Result:
        """Return the best run. Of equal ones the first will do, for their order is random."""
        given = draft.public, draft.table, draft.score
        runs = (
            delayed(run)(*trial, *given, draft.seeds(j)) for j, trial in enumerate(draft.trials)
        )
        return max(Parallel(verbose=0)(runs), key=lambda result: result.value)

    def _guarantee(self, classes: Any, score: PrivateScore) -> PrivacyGuarantee:
        facts = ["the parameters of the search"]
        stated = getattr(last_step(self.estimator), "classes", None)
        if classes is not None and stated is None:
            facts.append("the set of labels in y")
        given = ", and ".join(filter(None, [*facts, self._given_number]))
        return self._guaranteed(
            score.plan.total,
            given,
            protects="the rows of X and y",
            idealised=bool(np.isfinite(self.epsilon)),
        )

    @property
    def _described_by(self) -> Sequence[Any]:
        return schemas_of(self.estimator)

    # ---- the result

    @available_if(inner_has("score"))
    def score(self, X: Any, y: Any) -> float:
        """Return the best estimator's own score on X and y: exact, no private release."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.score(self._inner_input(X), y)

    def _inner_input(self, X: Any) -> Any:
        return for_inner(X, self)
