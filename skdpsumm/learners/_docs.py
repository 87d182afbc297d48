"""Texts that the docstrings of all learners share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._docs import RELEASE
from .._docs import shared_docs as fill_docs

T = TypeVar("T", bound=type)

_TEXTS = {
    "space": """
    kernel : str or callable, default={kernel}
        "rbf", "laplacian", "poly", "cosine", "chi2", "linear" (scikit-learn's `pairwise_kernels`),
        or a function of two tables, of shapes (n, d) and (m, d), that returns their (n, m) matrix.
        It must be positive semi-definite, up to rounding errors of 1e-14 of the norms of two
        rows.{precomputed}
        Up to 60,000 rows; more take a `feature_map` or the linear kernel.
        Give a function that has parameters as a `functools.partial`. "poly" is the paper's
        ``(<x, y> + 1)^3``; `PolynomialKernel(degree=2, coef0=0.0)` is another polynomial.
    gamma : float, default=1.0
        Of "rbf", "laplacian", "chi2" and "poly", as in scikit-learn; public, never read off the
        data.
    feature_map : transformer, default=None
        Explicit public features in place of a kernel: `RBFSampler`, `PolynomialFeatures`,
        `PolynomialCountSketch`, or any that maps each row by itself. It is cloned and fitted to a
        row of zeros, so it learns nothing; pass one that was fitted to public data as a
        `FrozenEstimator`.
    norm_bound : float, default=1.0
        Rows longer than this are clipped ("linear", "poly"), and features are scaled down to it
        (`feature_map`, callables and precomputed kernels). The other kernels are bounded.
    fit_intercept : bool, default=False
        Add a constant feature of value `intercept_scaling`. It is penalised like the others, for
        without that no sensitivity is finite; and it adds its square to R^2, and so to the noise.
    intercept_scaling : float, default=1.0""",
    "classifier": """
    loss : str or loss object, default="auto"
        "huberized_hinge" (`HuberizedHinge`), "soft_hinge" (`SoftHinge`), "logistic" (learners then
        have `predict_proba`), or "hinge", with its corner rounded for margins from 0.999 to 1.001.
        "auto" is "huberized_hinge", which has the most signal per unit of noise: its slope is L at
        small scores, where the logistic loss has half of that. For two classes and "objective" it
        is "soft_hinge", whose curvature vanishes as its slope nears L, and is
        free of charge at the default Lambda. With more than two classes losses are multinomial, so
        that the noise does not grow with their number ("hinge" is one-vs-rest: it does). A string
        stands for the object with its default parameters.
    classes : sequence or None, default=None
        All labels there can be. None takes those in y as public: a class that only one person
        has is then revealed, and `privacy_` says so.""",
    "regressor": """
    loss : str or loss object, default="huber"
        "huber" (`Huber`), or "squared", of labels clipped to `y_bounds`. "squared" clips residuals
        at the length of that interval, for the plain squared loss has no finite sensitivity where
        the number of rows is private. A string stands for the object with its default parameters.
    y_bounds : pair of float
        Public (low, high) of y. Required.""",
    "budget": """
    regularization : "auto" or float, default="auto"
        Lambda of the sum form, scikit-learn's 1 / C. "auto" is a public rule: noise of half a
        margin (a tenth of half the interval for regressors) on a prediction, see
        docs/learners.md.
    epsilon, delta : float, default=1.0, 1e-6
        The guarantee of `fit` and of all that is predicted later. ``delta=0`` is pure differential
        privacy, where the mechanism has it; ``epsilon=np.inf`` adds no noise.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        Whether a neighbour has one row more or less, or other values in one row; the second needs
        twice the noise, and takes the number of rows as public.""",
    "end": """
    random_state : int, RandomState or None, default=None
        Public randomness: of `feature_map` and of landmarks.
    {release}
        `PrivateSearchCV` chooses parameters at one price.
    verbose : int, default=0
        1 shows the solver's progress on the standard error stream, for the curator alone: an exact
        kernel of tens of thousands of rows takes a minute or more.""",
    "release": RELEASE.strip(),
    "fitted": """
    privacy_ : PrivacyGuarantee
    regularization_ : float
        Lambda.
    sensitivity_ : float
        Delta_w, by which neighbours' minimisers can differ in the norm of the space, with what the
        solver's tolerance and rounding add.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.""",
    "bounds": """
    bounds : pair or sequence of pairs, default=None
        Public (low, high) of the columns, from which landmarks are drawn; required for kernels
        other than "linear" without a `feature_map`{unless}.
        In many columns landmarks are far from all rows: `fit` warns, from public numbers, where
        `gamma` is too large for them to see any.""",
    "classes": """
    classes_ : ndarray of shape (n_classes,)""",
    "predictor": """
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.""",
    "updates": """
    n_updates : int, default=5
        B, how many updates of the hypothesis are paid for. "svt" is better for up to five.
    max_queries : int, default=1000
        T, after which answers come from the hypothesis alone. It sets the threshold of the test.
    failure_probability : float, default=0.05
        beta of the paper's error bound, for the same threshold.""",
    "kernel": '"rbf"',
    "precomputed": "",
    "unless": "",
}


def shared_docs(**own: str) -> Callable[[T], T]:
    """Return a decorator that puts shared texts where a class's docstring names them.

    Parameters
    ----------
    **own : str
        Texts of a family of learners, by the names that stand in braces; they replace ours.
    """
    texts = _TEXTS | own
    for name in ("kernel", "precomputed", "unless", "release"):  # in the middle of other texts
        texts = {key: text.replace("{" + name + "}", texts[name]) for key, text in texts.items()}
    return fill_docs(**texts)
