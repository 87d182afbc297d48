"""What all three M2M estimators do with their sketcher: describe the table, release, read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..schema._columns import Columns
from ..sketches import PrivateSketch


def table_of(sketch: PrivateSketch, bounds: Any = None) -> Columns:
    """Return the sketch's table, with `bounds` in place of its own where they are given."""
    own = sketch.columns
    parts = [part.columns for part, _ in sketch.blocks()]
    known = next((c.bounds for c in parts if c.bounds is not None), None)
    steps = [next((c.step(j) for c in parts if c.step(j)), None) for j in range(own.n_columns)]
    categories = {j: own.values(j) for j in range(own.n_columns) if own.values(j) is not None}
    pairs = known if bounds is None else bounds
    if pairs is None and len(categories) < own.n_columns:
        raise ValueError(
            "bounds is missing: this sketch was made without, and synthetic points are drawn "
            "inside them. Give from_sketch the public (low, high) of the columns as bounds, in the "
            "units in which they were sketched: one pair for all, or one per column."
        )
    table = Columns.build(own.n_columns, pairs, categories, own.names, steps)
    return replace(table, units=own.units)


def first_of(sketcher: Any, parameter: str) -> Any:
    """Return the first value of a parameter that the sketcher or one of its parts has."""
    found = (getattr(one, parameter) for one in [sketcher, *sketcher.sub_sketchers()])
    return next((value for value in found if value is not None), None)


def draws_noise(sketcher: Any) -> bool:
    """Whether two fits of `sketcher` (None: the default one) differ by fresh noise."""
    return sketcher is None or bool(np.isfinite(sketcher.epsilon) and sketcher.noise_seed is None)


def _library(X: Any) -> str | None:
    module = type(X).__module__.partition(".")[0]
    return module if module in ("pandas", "polars") else None
