"""Private sketches: one noisy release of a data set."""

from ._private_sketch import PrivateSketch
from ._sketchers import BaseSketcher, HistogramSketcher, RACESketcher, RFFSketcher
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
