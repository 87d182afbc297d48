"""Numbers of answers and plausible tables that were chosen: what each is, and who measured it.

Beside them are the arrays of numbers that all modules name.
"""

import math

from .._computing import UNIT

# Columns of the table, by their numbers.
Group = tuple[int, ...]


# Parts of a whole up to this are rounding errors: of a step, a row, a share, a singular value, or
# of what a solver leaves. It is half of the digits of a float, which differences of squares lose. A
# row keeps this part of its weight where noise has taken all of it.
ROUNDING = math.sqrt(UNIT)
# Plausible tables: the width of an interval is then known to 7 per cent (1 / sqrt(2 * 100)).
N_TABLES = 100
# A plausible table has this many rows of a column, of two or of three, and this many in a cell at
# least: an atom of a single column has as few. They are the model's quantiles of a cell, too.
ROWS_OF_TABLE, FEWEST_IN_CELL = 2**11, 2
# The model has more, because it is one table and tells the answer.
ROWS_OF_MODEL = 2**16
# Two or three columns have rows in up to so many cells; of more cells, and of more columns, so many
# points are asked. A user's function is tried on as many rows, to see which values it has and what
# they depend on, and as many points are moved towards a sketch in each round. A regression takes up
# to as many features.
N_POINTS = 2**14
# Fewer points tell a count to no more than 18 per cent (1 / sqrt(30)). Then there are as many as
# the model has rows, which halves that, and as many anywhere: a condition on one cell of three
# columns of 40 is met by one.
FEWEST_POINTS = 30
# Numbers that are kept of rows, of noise, and of all else, for each kind of interval: 256 MB each.
MOST_KEPT = 2**25
# Steps at which quantiles of a cell are kept, which are the most places in an atom.
N_QUANTILES = 64
# Groups whose surprise is looked at where all were counted at once.
MOST_LEFT_OUT = 12
# Three and more columns, which nobody may have counted together, go together beyond their pairs by
# this part of how pairs do. Where all pairs were counted it was 0 to 0.31, beside what chance does,
# in 24 tables of 2,000 and 10,000 rows and seven columns of Adult, ACS, Covertype and Occupancy.
SHARE_BEYOND_PAIRS = 0.35
# The square of phi for two columns that go together as those of real tables often do.
TYPICAL_SQUARE = 0.04
# Part of the rows that a choice of groups may overlook without a word.
SHARE_OVERLOOKED = 0.1
# Standard deviation of a shift that all cells of a column share, to one side or outwards; that of
# each cell's own is 1.
STD_OF_SHARED_SHIFT = 0.5
# Two numbers may go up and down together inside a cell this many times as steeply as neighbours
# tell (as Fisher's z). Without it covariances of columns with correlations of 0.8 were off by 5 to
# 10 per cent more (tables of examples/benchmarks/intervals.py).
STEEPER_THAN_NEIGHBOURS = 3.0
# An answer lies within this many standard errors of the noise from the middle of the plausible
# tables. At 1, covariances were off by 7 per cent more; at epsilon 0.1, means by a category were so
# by 38 per cent at 0, and covariances by 24 per cent if nothing was moved (the same tables).
REACH_OF_ANSWER = 0.7
# With more features than this, the diagonal stands for a Hessian, and nobody asks what features
# explain of a model's inputs: it would take longer than the model.
MOST_FEATURES_OF_MODEL = 3_000
# Where rows lie is expected as if the places of this many were known. Where nothing is known, as of
# categories that were counted together, it is one row.
PSEUDO_ROWS = 12.0
# A cell with up to the first part of a column's rows is told by its neighbours; one with more is
# told less and less, and from the second part on nothing. With the second alone, as 1 - (part / it)
# squared, intervals were 1 per cent wider and held 0.975 for 0.979 (two paired releases of seven
# tables of examples/benchmarks/intervals.py).
TOLD_SHARE, UNTOLD_SHARE = 0.12, 0.5
# A cell this many times as dense as its neighbours, and as many times narrower, is a spike.
SPIKE = 5.0
# A spike at an end of a range is sure if it has this many standard errors of its noise.
SURE_MASS = 3.0
# Points follow the features if this share of them tells more than noise. Tables with a
# third and more gained from it, and one with a twentieth lost.
LEAST_SHARE_TELLING = 0.25
# Points that follow the sketch match it because they follow it: they may still be unlike the rows
# by this part of what points on the ranges are. Measured on Adult and Occupancy: 0.02 to 0.14, and
# more where noise is.
SHIFT_LEFT_BY_DENSITY = 0.25
# Shares of points that lie anywhere, beside those drawn from a graphical model, and from a kernel
# density, which is less sure of what it says.
SHARE_BESIDE_MODEL, SHARE_BESIDE_DENSITY = 0.02, 0.1
# Variance, relative to that of a feature, that the moments may miss their target by in each
# round; the last is that of about 1,000 points, and is what finite points can resolve.
TEMPERATURES = (0.1, 0.02, 0.004, 0.001)
# A question's table has up to this many cells: more take more than they tell.
MOST_TABLE_CELLS = 2**20
# Fewer equally weighted points for each input may train no model: at 1 to 8 AUCs were 0.5 to
# 0.73 that were 0.9 to 0.99 with other sketches of the same rows; at 25 and more that happened
# once.
POINTS_PER_INPUT = 10
# Where features can explain less than this of most inputs, AUCs were 0.02 to 0.45 lower than those
# of the rows, and 0.14 in the median of 16 releases. Elsewhere they were at most 0.04 lower in 47
# of 63, and 0.01 in the median; noise made three of these 0.18 to 0.79 lower, of which nothing
# warned (examples/benchmarks/explained.py, whose noise is fresh in each run).
LEAST_SHARE_EXPLAINED = 0.5
# A table has at least this part of the model's curvature in any direction: noise leaves rare
# categories none, and then a step would be anything.
LEAST_CURVATURE = 0.25
