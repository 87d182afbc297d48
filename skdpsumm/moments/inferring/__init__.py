"""From a sketch to weighted points that agree with it.

A way of inferring is a class with the face of `MomentRegression`. It is made of a sketch, and of
points at which a question f is asked; it never sees a row. Values of f are of shape
(n_synthetic, k), and

- `answer` returns what the mean of f over the rows is, and `replicates` what it would be in
  simulated releases: the spread of these is the noise of the answer;
- `approximate` returns what the sketch tells of f, and how much of f that leaves open;
  `residuals` and `residuals_elsewhere` return what it leaves open at the points, and at others;
- `average` and `variance` are those of f at the points;
- `in_cells` returns the same for an f that is constant in cells of the points.

Models are trained on `points` and on weights of them that are not negative: those of
`maxent_points`, or the projection of `MomentRegression.weights`.
"""
