"""Texts that the docstrings of all sketchers share."""

from __future__ import annotations

from .._docs import RELEASE

BOUNDS = """
    bounds : pair, sequence of pairs or mapping, default=None
        Public (low, high) of the columns, in their units. Where given, columns are clipped and
        scaled to [0, 1] first, so that `{scale}` has no unit. None takes columns as they are;
        privacy needs no bounds, but whoever asks the sketch (`M2MEstimator.from_sketch`) then has
        to know them."""
SKETCHER_DOCS = {
    "values": """
    categories : mapping from column to list of values, default=None
        Categorical columns, with all their public values. Fourier features and RACE take
        different values to be at distance one.
    steps : float, sequence or mapping from column to float, default=None
        ``{"age": 1}`` says that the values of the column are low, low + 1, ..., high of its
        `bounds`, one number that this holds for all numeric columns. Public. Other values go to
        the closest of these, and what is computed from the sketch knows of no other.""",
    "epsilon": """
    epsilon : float, default=1.0
        Total epsilon of one `fit`; ``np.inf`` for no noise.""",
    "release": f"""
    adjacency : {{"add_remove", "replace_one"}}, default="add_remove"
        Under "replace_one" the number of rows is public and sensitivities double.
    denominator : {{"auto", "budget", "row_sums"}}, default="auto"
        Where the number of rows comes from. "row_sums": every histogram and every RACE array sums
        to it, so it is free. "budget": a part of the budget buys a count, which is better at very
        small epsilon; Fourier features have only this. "auto" is "row_sums" where there is one.
    denominator_share : float, default=0.02
        Part of the budget for the count, as in the paper; of epsilon under pure DP, of mu^2 under
        Gaussian noise.
    postprocess : bool, default=True
        Move `sketch_.mean` to the set that every true mean lies in: each histogram and RACE array
        to the simplex, each (cos, sin) pair to the unit disk. No effect while the noise is small,
        and none on the answers of M2M.
    random_state : int, RandomState or None, default=None
        Public randomness: frequencies and hashes. Owners who add their sketches share an int.
{RELEASE.strip(chr(10))}
    n_jobs : int or None, default=None
        Threads for the sum. The result does not depend on it, bit for bit.
    verbose : int, default=0
        Show progress on the standard error stream, a step per 65,536 rows; for the curator alone,
        as it tells the number of rows. Dask has a display of its own.""",
    "fitted": """
    sketch_ : PrivateSketch
        The release.
    privacy_ : PrivacyGuarantee
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.""",
}
