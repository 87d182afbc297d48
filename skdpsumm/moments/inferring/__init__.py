"""From a sketch to weighted points that agree with it.

`MomentRegression` is made of a sketch, and of points at which a question f is asked; it never sees
a row. Values of f are of shape (n_synthetic, k), and

- `weights` of the points give the mean of f over the rows, and `weights_for` what it would be in
  other releases: the spread of these is the noise of the answer;
- `approximate` returns what the sketch tells of f, and how much of f that leaves open;
  `residuals` returns what it leaves open at the points.

Models are trained on `points` and on weights of them that are not negative: those of
`maxent_points`, or the projection of `MomentRegression.weights`.
"""
