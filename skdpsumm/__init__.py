"""Differentially private data summaries."""
__version__ = "0.1.0"
