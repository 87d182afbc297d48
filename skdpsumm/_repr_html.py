"""How estimators show themselves in notebooks: a privacy badge, links, and no private value."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, ClassVar

# All that a picture of an object with private data shows of what was fitted.
_PUBLIC_ATTRIBUTES = ("feature_names_in_", "n_features_in_", "privacy_")


class PrivacyReprMixin:
    """HTML representation with the guarantee in one line; goes before `BaseEstimator`.

    The badge is part of the estimator's block, so it is there in a `Pipeline` and a search, too.
    scikit-learn 1.9 lists all fitted attributes; those of an object that holds private data are
    left out, for notebooks are passed on with their outputs.
    """

    _doc_link_module: ClassVar[str] = "skdpsumm"

    @property
    def _doc_link_template(self) -> str:
        root = docs_address()
        return f"{root}/generated/{{estimator_module}}.{{estimator_name}}.html" if root else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        # Estimators are public in the package above their room: skdpsumm.moments, not .asking.
        package = ".".join(type(self).__module__.split(".")[:2])
        return {"estimator_module": package, "estimator_name": type(self).__name__}

    @property
    def _badge(self) -> str:
        """The guarantee in one line, and whether private data are held; "" where neither is."""
        lines = [self.privacy_.badge] if hasattr(self, "privacy_") else []
        lines += ["holds private data"] if getattr(self, "holds_private_data", False) else []
        return "; ".join(lines)

    def _sk_visual_block_(self) -> Any:
        block, badge, parts = _visual_block(), self._badge, self._parts()
        if not parts:
            name, details = type(self).__name__, str(self)
            return block(
                "single", self, names=name, name_details=details, name_caption=badge or None
            )
        names, estimators = zip(*parts, strict=True)
        details = [str(one) for one in estimators]
        inner = block("parallel", estimators, names=names, name_details=details)
        if not badge:
            return inner
        # Blocks with parts have no caption, so the badge is a block of its own above them.
        details = repr(getattr(self, "privacy_", badge))
        header = block("single", None, names=badge, name_details=details)
        return block("serial", [header, inner], dash_wrapped=False)

    def _parts(self) -> list[tuple[str, Any]]:
        """Return the estimators among the parameters, by their headings."""
        params = self.get_params(deep=False).items()  # type: ignore[attr-defined]
        return [
            (f"{name}: {type(value).__name__}", value)
            for name, value in params
            if hasattr(value, "get_params")
            and hasattr(value, "fit")
            and not isinstance(value, type)
        ]

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        shown = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        if getattr(self, "holds_private_data", False):
            for name in set(shown) - set(_PUBLIC_ATTRIBUTES):
                del shown[name]
        return shown


def _visual_block() -> Any:
    """Return scikit-learn's description of a block, which has moved in 1.7."""
    try:
        from sklearn.utils._repr_html.estimator import _VisualBlock
    except ImportError:
        from sklearn.utils._estimator_html_repr import _VisualBlock
    return _VisualBlock


@lru_cache
def docs_address() -> str:
    """Return the address of the documentation by the package's metadata, "" where none is given."""
    try:
        entries = metadata("skdpsumm").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its sources
        return ""
    urls = dict(entry.split(", ", 1) for entry in entries)
    return urls.get("Documentation", "").rstrip("/")
