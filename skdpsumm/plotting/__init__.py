"""Pictures; need matplotlib (the extra ``plot``)."""

from ._estimates import plot_against_epsilon, plot_cdf

__all__ = ["plot_against_epsilon", "plot_cdf"]
