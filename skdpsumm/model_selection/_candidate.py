"""A candidate: an estimator with the parameters of one trial, fitted on a run's budget."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..privacy import PrivacyGuarantee

# Set by the search in every run.
OWNED = ("epsilon", "delta", "adjacency", "noise_seed", "ledger", "classes")


@dataclass(frozen=True)
class Leaf:
    """The one step of an estimator that reads private rows, and where its budget is set.

    Attributes
    ----------
    path : str
        Of the step: "" or "name__".
    budget : str
        Of what has epsilon: the path, or that of the step's sketcher.
    """

    path: str
    budget: str

    @classmethod
    def of(cls, estimator: Any) -> Leaf:
        """Find the step.

        Raises
        ------
        ValueError
            If there is none whose budget could be set.
        """
        path, step = "", estimator
        while isinstance(step, Pipeline):
            name, step = step.steps[-1]
            path += f"{name}__"
        params = step.get_params() if hasattr(step, "get_params") else {}
        if "epsilon" not in params and params.get("sketcher", 0) is None:
            raise ValueError(
                f"{type(step).__name__} has sketcher=None; give the sketcher, such as "
                "RFFSketcher(gamma=2.0), so that the search can set its budget."
            )
        budget = path if "epsilon" in params else f"{path}sketcher__"
        found = {f"{budget}{name}" for name in OWNED[:4]} <= set(_params(estimator))
        if not found:
            raise ValueError(
                f"{type(step).__name__} has no epsilon to set: the search takes a private learner "
                "of skdpsumm (TDILClassifier, M2MRegressor, ...), or a Pipeline that ends in one."
            )
        return cls(path, budget)

    def settings(self, estimator: Any, classes: Any) -> dict[str, Any]:
        """Return the parameters that are the same in all runs, but for epsilon."""
        values = {f"{self.budget}ledger": None}
        if classes is not None and f"{self.path}classes" in _params(estimator):
            values[f"{self.path}classes"] = classes
        return values

    def check(self, estimator: Any, names: set[str]) -> None:
        """Raise ValueError where the user has set what the search sets."""
        owned = {f"{self.budget}{name}" for name in OWNED} | {f"{self.path}classes"}
        taken = sorted(names & owned)
        if taken:
            raise ValueError(
                f"param_distributions holds {taken[0]!r}, which the search sets itself; set it on "
                "PrivateSearchCV (classes: on the estimator)."
            )
        given = _params(estimator).items()
        if any(k.split("__")[-1] == "ledger" and v is not None for k, v in given):
            raise ValueError(
                "The estimator has a ledger of its own; give it to PrivateSearchCV, which makes "
                "one charge for the whole search, and set ledger=None on the estimator."
            )


def _params(estimator: Any) -> dict[str, Any]:
    return estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}


def last_step(estimator: Any) -> Any:
    """Return the step that reads private rows."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


# What would tell of each fit: to the screen, to the disk, or in another ledger.
_TELLTALES = {"verbose": False, "memory": None, "ledger": None}


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone with public seeds where there were none, the same in every run, and quiet."""
    given = _params(estimator)
    missing = {k: seed for k, v in given.items() if k.endswith("random_state") and v is None}
    last = {k: k.split("__")[-1] for k in given}
    loud = [k for k in given if last[k] in _TELLTALES and given[k] not in (None, False)]
    quiet = {k: _TELLTALES[last[k]] for k in loud}
    return clone(estimator).set_params(**missing, **quiet)


def settled(leaf: Leaf, candidate: Any, settings: dict[str, Any], seed: int) -> Any:
    """Return a candidate, whose steps may be its own, with all that the search decides.

    Raises
    ------
    ValueError
        If its budget is set elsewhere than that of the search's estimator.
    """
    if Leaf.of(candidate) != leaf:
        raise ValueError(
            "A candidate in param_distributions reads private rows in another place than the "
            "estimator of the search; give a search of its own to each kind."
        )
    return seeded(candidate, seed).set_params(**settings)


@contextmanager
def silent() -> Iterator[None]:
    """Keep what runs have to say to themselves: it would tell how many there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cost_of(step: Any) -> Any:
    """Return what a fitted step says that it cost."""
    if not isinstance(getattr(step, "privacy_", None), PrivacyGuarantee):
        raise ValueError(
            f"{type(step).__name__} states no privacy_ of its rows, so no search can be priced."
        )
    return step.privacy_.mechanism


def state(step: Any, privacy: PrivacyGuarantee) -> None:
    """Have the released step, its sketcher and its sketch state the cost of the whole search."""
    step.privacy_ = privacy
    inner = getattr(step, "sketcher_", None)
    if inner is not None:
        inner.privacy_, inner.noise_seed = privacy, None
    for owner in (step, inner):
        with suppress(AttributeError):
            owner.sketch_ = replace(owner.sketch_, privacy=privacy)
