"""Numbers of answers and plausible tables that were chosen: what each is, and who measured it."""

# Parts of a whole up to this are rounding errors: of a step, a row, a share, a singular value, or
# of what a solver leaves.
ROUNDING = 1e-9
# Plausible tables: the width of an interval is then known to 7 per cent (1 / sqrt(2 * 100)).
N_TABLES = 100
# A plausible table of two or three columns has this many rows, and this many in a cell at least: an
# atom of a single column has as few.
ROWS_OF_JOINT_TABLE, FEWEST_IN_CELL = 2**12, 4
# The model has more of both, because it is one table and tells the answer: rows, and quantiles.
ROWS_OF_JOINT_MODEL, N_QUANTILES_OF_MODEL = 2**16, 2**10
# Cells of two or three columns; of more cells, and of more columns, so many points are asked. A
# user's function is tried on as many rows, to see which values it has and what they depend on.
MOST_UNITS, N_POINTS = 2**15, 2**14
# Fewer points tell a count to no more than 18 per cent (1 / sqrt(30)). Then so many times as many
# are drawn, which halves that, and so many anywhere: a condition on one cell of three columns of 64
# is met by one.
FEWEST_POINTS, MORE_POINTS, N_ANYWHERE = 30, 3, 2**18
# Numbers that are kept of rows, of noise, and of all else, for each kind of interval, and of the
# inverses of a solver: 256 MB each.
MOST_KEPT = 2**25
# Steps at which quantiles of a cell are kept, which are the most places in an atom; and places of
# a column.
N_QUANTILES, N_PLACES = 64, 2048
# Groups whose surprise is looked at where all were counted at once; and of a round, fewer chosen
# groups say little of the others.
MOST_LEFT_OUT, FEWEST_CHOSEN = 12, 4
# Conditions that hold for fewer rows, or for nearly all, tell little of how columns go together.
LEAST_SHARE_OF_CONDITION = 0.02
# Three and more columns, which nobody may have counted together, go together beyond their pairs by
# this part of how pairs do. Where all pairs were counted it was 0 to 0.31, beside what chance does,
# in 24 tables of 2,000 and 10,000 rows and seven columns of Adult, ACS, Covertype and Occupancy.
SHARE_BEYOND_PAIRS = 0.35
# Noise, as the square of phi, below which one condition tells as much as another.
NOISE_OF_SURE_CONDITION = 0.003
# The square of phi for two columns that go together as those of real tables often do; and of pairs
# that were not counted, on Adult and tables like it, where the last found next to nothing.
TYPICAL_SQUARE, UNSEEN_SQUARE = 0.04, 0.025**2
# Part of the rows that a choice of groups may overlook without a word.
SHARE_OVERLOOKED = 0.1
# Stretches of the range of a column without a histogram.
N_STRETCHES = 32
# The correlation by ranks of two columns of numbers, squared, is this part of what is missed of
# them, as squared by phi. It was about 0 to 0.7 in eleven releases of six tables (Adult, ACS,
# Covertype and three made-up ones).
SHARE_BY_RANKS = 0.75
# Standard deviation of a shift that all cells of a column share, to one side or outwards; that of
# each cell's own is 1.
STD_OF_SHARED_SHIFT = 0.5
# Chance that rows which no neighbour explains are all at one place.
CHANCE_OF_CROWD = 0.9
# Standard deviation of the tilt of a cell of several columns: of the mean of its rows, in standard
# deviations of even ones.
STD_OF_TILT = 0.4
# Standard deviation of the share of a half of which nothing is known.
STD_OF_UNKNOWN_HALF = 0.4
# Chance of one of two ways in which rows may lie, as likely as not: that a density, or the share of
# another column's cell, jumps inside a cell, and that hidden rows are at no end of it.
CHANCE_OF_JUMP = 0.5
# Two numbers may go up and down together inside a cell this many times as steeply as neighbours
# tell (as Fisher's z).
STEEPER_THAN_NEIGHBOURS = 3.0
# An answer lies within this many standard errors of the noise from the middle of the plausible
# tables.
REACH_OF_ANSWER = 0.7
