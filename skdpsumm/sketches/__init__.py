"""Private sketches: one noisy release of a data set."""

from ._private_sketch import PrivateSketch
from ._sketchers import HistogramSketcher, RACESketcher, RFFSketcher
from ._union import SketchUnion

__all__ = [
    "HistogramSketcher",
    "PrivateSketch",
    "RACESketcher",
    "RFFSketcher",
    "SketchUnion",
]
