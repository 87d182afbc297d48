"""Classification from a private sketch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.multiclass import check_classification_targets

from ..._computing import silence
from ...privacy._contract import estimator
from ...schema._columns import Categorical
from ...schema._listed import known_classes
from ...schema._reading import validate_table
from ...schema._schema import as_schema
from ._base import BaseImplicitM2M, estimator_has


@estimator
class M2MClassifier(ClassifierMixin, BaseImplicitM2M):
    """Train any classifier from one private sketch of (X, y) (implicit M2M, section 3.5).

    The sketch is released once; synthetic labelled rows are weighted to match it, and the
    estimator is trained on them. Whoever holds the sketch can train as many models as they like
    (`from_sketch`), of any column: `fit` puts the label last.

    Parameters
    ----------
    sketcher : sketcher, default=None
        What is released, of the table with the label as its last, categorical column. None: a
        union of histograms, of each column together with the label (8 bins), and 200 Fourier
        features, gamma = 2, at epsilon = 1, delta = 1e-6: the former tell how the label goes with
        each of many columns, the latter how with a few together. Its schema is set by `fit`; its
        `marginals` may name columns of X, and the label, "target".
    schema : TableSchema or what stands for one
        What is public about the columns of X. Required by `fit`. `estimator` is given an indicator
        of each category in the column's place; and beside a number that may be missing (then it is
        the middle of its range) an indicator that it is.
    estimator : classifier, default=None
        Takes `sample_weight`, or is a Pipeline whose last step does; what its steps learn, they
        learn from the release. None: `LogisticRegression(max_iter=1000)` behind a `MinMaxScaler`.
    weights : {"maxent", "ridge"}, default="maxent"
        "maxent": points are moved towards the sketched data and weighted by maximum entropy, so
        weights are never negative and any estimator works. "ridge": the paper's weights on the
        prior's points; the negative ones are projected away.
    prior : {"auto", "uniform", "marginals"}, default="auto"
        Where the points start, as in `M2MEstimator`.
    n_synthetic : int, default=100_000
    random_state : int, RandomState or None, default=None
        Public randomness: points, and the sketcher's map if it has none of its own.
    verbose : int, default=0
        Show progress on the standard error stream.
    classes : sequence or None, default=None
        All labels there can be. None takes those in y as public: a class that only one person
        has is then revealed, and `privacy_` says so.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    estimator_ : the trained classifier
    sketch_ : PrivateSketch
        The release, of the columns of X and the label.
    privacy_ : PrivacyGuarantee
    effective_sample_size_ : float
        Number of equally weighted points that the weights are worth. Training warns where they
        are fewer than ten for each input, for then few points match the sketch.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = X[:, 0] > 0.6
    >>> model = M2MClassifier(schema=(0, 1), n_synthetic=10_000, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True

    Columns of names beside those of numbers:

    >>> mixed = np.column_stack([X[:, 0].astype(object), rng.choice(["baker", "clerk"], 5000)])
    >>> model = M2MClassifier(
    ...     schema=[(0, 1), ["baker", "clerk"]], n_synthetic=10_000, random_state=0
    ... ).fit(mixed, y)
    >>> model.score(mixed, y) > 0.9
    True
    """

    _n_bins = 8
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "classes": [None, "array-like"],
    }

    estimator: Any = None
    weights: Any = "maxent"
    classes: Any = None

    def _checked_table(self, X, y):
        checked, labels = validate_table(self, X, y, schema=as_schema(self.schema))
        with silence():  # it may warn of how many rows there are
            check_classification_targets(labels)
        return checked, labels

    def _taken_as_public(self):
        return "the set of labels in y" if self.classes is None else ""

    def _default_estimator(self):
        return make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000))

    def _describe_target(self, y):
        return Categorical(known_classes(y, self.classes).tolist())

    def _set_target(self, columns, target):
        known = columns.values(target)
        if known is None:
            raise ValueError(
                f"Column {columns.name(target)!r} of the sketch would be learnt, and it is not "
                "categorical. Name the column of the label as `target` of from_sketch (None is "
                "the last one); it must have been sketched as a Categorical. "
                "M2MRegressor learns numbers."
            )
        self.classes_ = np.array(known)

    def _training_target(self, target, weights):
        codes = {value: k for k, value in enumerate(self.classes_.tolist())}
        found = np.array([codes[v] for v in target.tolist()])
        # An estimator must see every class; a class without weight keeps a trace.
        floor = max(1e-6 * weights.sum() / len(weights), 1e-8 * weights.max())
        for k in np.flatnonzero(np.bincount(found, weights, len(codes)) < floor):
            weights[found == k] += floor
        return self.classes_[found]

    @estimator_has("predict_proba")
    def predict_proba(self, X):
        """Return the probabilities of the classes, shape (n_samples, n_classes)."""
        inputs = self._read_rows(X)
        return self.estimator_.predict_proba(inputs)

    @estimator_has("decision_function")
    def decision_function(self, X):
        """Return the estimator's decision function."""
        inputs = self._read_rows(X)
        return self.estimator_.decision_function(inputs)
