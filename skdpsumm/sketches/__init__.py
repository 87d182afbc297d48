"""Private sketches: one noisy release of a data set."""

from ._base import BaseSketcher
from ._histogram import HistogramSketcher
from ._private_sketch import PrivateSketch
from ._race import RACESketcher
from ._rff import RFFSketcher
from ._union import SketchUnion, inherit_columns

__all__ = [
    "BaseSketcher",
    "HistogramSketcher",
    "PrivateSketch",
    "RACESketcher",
    "RFFSketcher",
    "SketchUnion",
    "inherit_columns",
]
