"""Private sketches: one noisy release of a data set."""

from ._private_sketch import PrivateSketch
from ._sketchers import BaseSketcher, HistogramSketcher, RACESketcher, RFFSketcher
from ._union import SketchUnion
from ._union import inherit_columns as inherit_columns  # for our own packages, not public

__all__ = [
    "BaseSketcher",
    "HistogramSketcher",
    "PrivateSketch",
    "RACESketcher",
    "RFFSketcher",
    "SketchUnion",
]
