"""From a sketch to weighted points that agree with it."""
