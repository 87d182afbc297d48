"""Models trained on a sketch."""
