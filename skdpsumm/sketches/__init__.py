"""Private sketches: one noisy release of a data set."""

from ._adaptive import AdaptiveSketcher
from ._private_sketch import PrivateSketch
from ._sketchers import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion

__all__ = [
    "AdaptiveSketcher",
    "HistogramSketcher",
    "PrivateSketch",
    "RACESketcher",
    "RFFSketcher",
    "SketchUnion",
]
