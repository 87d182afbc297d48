"""Wide mixed tables as frames, what is public of them, and how answers about them are scored.

For wide.py, intervals.py and rivals_wide.py. Rivals run in an environment of their own, so nothing
here needs skdpsumm but `schema`. FOLDER of the scripts holds

    adult/adult.data.gz, adult/adult.test.gz    UCI's files, gzipped or not
    acs/acs_income_2018_small_1000_per_state.csv.gz    folktables' ACSIncome of 2018, 1,000 rows of
        each of 38 states, with the columns ST, AGEP, COW, SCHL, MAR, OCCP, POBP, RELP, WKHP, SEX,
        RAC1P and label
    covertype/covtype_sub50k_float32.npz    50,000 rows of UCI's Covertype, X (n, 54) and y in 1..7
"""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

ADULT = {
    "age": (17, 90),
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, "
    "Without-pay, Never-worked, ?",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, "
    "9th, 7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "education-num": (1, 16),
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, "
    "Married-spouse-absent, Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, "
    "Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, "
    "Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces, ?",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_400),
    "hours-per-week": (1, 99),
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, "
    "Outlying-US(Guam-USVI-etc), India, Japan, Greece, South, China, Cuba, Iran, Honduras, "
    "Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, Ireland, France, "
    "Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, "
    "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
    "Holand-Netherlands, ?",
    "label": "no, yes",
}
# As census.gov's dictionary has it; ACS gives codes, which `acs` makes words of.
ACS = {
    "ST": "",  # the states of the file
    "AGEP": (17, 95),
    "COW": ", ".join(f"cow{k}" for k in range(1, 9)),
    "SCHL": (1, 24),
    "MAR": "mar1, mar2",
    "OCCP": ", ".join(f"o{k:02d}" for k in range(25)),
    "POBP": "us1, us2, us3, terr, europe, asia, mexico, latin, other",
    "RELP": ", ".join(f"relp{k}" for k in range(18)),
    "WKHP": (1, 99),
    "SEX": "sex1, sex2",
    "RAC1P": ", ".join(f"rac1p{k}" for k in range(1, 6)),
    "label": "no, yes",
}
# Degrees of azimuth and slope, metres, indices of 0-255: covtype.info has the units.
COVERTYPE = {
    "Elevation": (1800, 3900),
    "Aspect": (0, 360),
    "Slope": (0, 70),
    "To_Hydrology": (0, 1400),
    "Above_Hydrology": (-200, 610),
    "To_Roadways": (0, 7200),
    "Shade_9am": (0, 255),
    "Shade_Noon": (0, 255),
    "Shade_3pm": (0, 255),
    "To_Fire": (0, 7200),
}

# The hand grid: edges that somebody who knows the table would choose. The last bin is closed.
_HOURS = [1, 10, 20, 30, 35, 40, 41, 45, 50, 55, 60, 70, 80, 99]
_AGES = [17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80]
GRID = {
    "age": [*_AGES, 90],
    "education-num": [*range(1, 16), 15.5, 16],  # a bin a value
    "capital-gain": [0, 1, 2500, 5000, 7500, 10_000, 15_000, 20_000, 50_000, 99_999],
    "capital-loss": [0, 1, 1500, 1700, 1900, 2100, 2500, 4400],
    "hours-per-week": _HOURS,
    "AGEP": [*_AGES, 95],
    "SCHL": [*range(1, 24), 23.5, 24],
    "WKHP": _HOURS,
}
_CELLS_OF_A_TRIPLE = 20_000


@dataclass
class Wide:
    """A table, what is public of it, and the grid on which it is read.

    Parameters
    ----------
    name : str
    train, test : DataFrame
        `test` is empty where nothing is learnt.
    public : dict
        Of each column the range (low, high) of its whole numbers, or its categories.
    grid : dict
        Edges of the bins of each numeric column; the last bin is closed.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    public: dict
    grid: dict

    @property
    def columns(self):
        return list(self.public)

    @property
    def numeric(self):
        return [c for c, known in self.public.items() if isinstance(known, tuple)]

    @property
    def sizes(self):
        """Number of cells of each column."""
        grid = self.grid
        return {c: len(grid[c]) - 1 if c in grid else len(self.public[c]) for c in self.columns}

    def codes(self, frame):
        """Return the cell of each value, a column of the frame each."""
        out = {}
        for c in self.columns:
            if c in self.grid:
                edges = np.array(self.grid[c], dtype=float)
                found = np.searchsorted(edges, frame[c].to_numpy(float), side="right") - 1
                out[c] = np.clip(found, 0, len(edges) - 2)
            else:
                out[c] = pd.Categorical(frame[c], categories=self.public[c]).codes.astype(int)
        return pd.DataFrame(out)

    def rows(self, codes, seed):
        """Return rows in these cells: whole numbers, even inside a bin."""
        rng, out = np.random.default_rng(seed), {}
        for c in self.columns:
            k = codes[c].to_numpy()
            if c in self.grid:
                edges = np.array(self.grid[c], dtype=float)
                low, high = np.ceil(edges[:-1]), np.ceil(edges[1:]) - 1
                high[-1] = np.floor(edges[-1])
                out[c] = np.floor(low[k] + rng.random(len(k)) * (high[k] - low[k] + 1))
            else:
                out[c] = np.array(self.public[c], dtype=object)[k]
        return pd.DataFrame(out)


def ones(known):
    """Return edges that give each whole number a bin."""
    low, high = known
    return [*range(low, high), high - 0.5, high]


def load(name, folder):
    """Return a table by its name: "adult", "acs", "covertype" or "covertype-raw"."""
    loaders = {"adult": adult, "acs": acs, "covertype": covertype, "covertype-raw": covertype_raw}
    return loaders[name](Path(folder))


def adult(folder):
    """Return Adult without the survey's weight; what is missing is the category "?"."""
    names = [*ADULT]
    names.insert(2, "fnlwgt")
    parts = []
    for part, skipped in (("data", 0), ("test", 1)):
        (path,) = (folder / "adult").glob(f"adult.{part}*")
        parts.append(pd.read_csv(path, names=names, skipinitialspace=True, skiprows=skipped))
    frame = pd.concat(parts, ignore_index=True).dropna().drop(columns="fnlwgt")
    frame["label"] = np.where(frame["label"].str.startswith(">50K"), "yes", "no")
    return _split("adult", frame, ADULT)


def acs(folder):
    """Return ACS income; occupations in 25 groups, places of birth in 9."""
    frame = pd.read_csv(folder / "acs" / "acs_income_2018_small_1000_per_state.csv.gz")
    frame["OCCP"] = (frame["OCCP"] // 400).astype(int).map("o{:02d}".format)
    regions = ACS["POBP"].split(", ")
    lasts = [19, 38, 56, 99, 199, 299, 303, 399]
    born = np.searchsorted(lasts, frame["POBP"])
    frame["POBP"] = np.array(regions, dtype=object)[born]
    for column in ("COW", "MAR", "RELP", "SEX", "RAC1P"):
        frame[column] = frame[column].astype(int).map((column.lower() + "{}").format)
    frame["label"] = np.where(frame["label"] == 1, "yes", "no")
    return _split("acs", frame[[*ACS]], ACS | {"ST": ", ".join(sorted(frame["ST"].unique()))})


def covertype(folder):
    """Return ten numbers of Covertype, each the number of one of 16 equal bins, and the class."""
    raw = covertype_raw(folder)
    codes = raw.codes(raw.train).assign(label=raw.train["label"])
    public = {c: (0, 15) for c in COVERTYPE} | {"label": raw.public["label"]}
    return Wide("covertype", codes, codes[:0], public, {c: ones((0, 15)) for c in COVERTYPE})


def covertype_raw(folder):
    """Return ten numbers of Covertype as they are, and the class; the grid has 16 equal bins."""
    with np.load(folder / "covertype" / "covtype_sub50k_float32.npz") as file:
        X, y = file["X"][:, :10].astype(float), file["y"]
    frame = pd.DataFrame(X, columns=[*COVERTYPE]).assign(label=[f"type{k}" for k in y])
    public = COVERTYPE | {"label": [f"type{k}" for k in range(1, 8)]}
    grid = {c: np.linspace(*known, 17).tolist() for c, known in COVERTYPE.items()}
    return Wide("covertype-raw", frame, frame[:0], public, grid)


def _split(name, frame, described):
    """Return the table with a fifth of its rows held out."""
    public = {c: v.split(", ") if isinstance(v, str) else v for c, v in described.items()}
    for column, known in public.items():
        if isinstance(known, tuple):
            frame[column] = frame[column].astype(float).clip(*known)
        else:
            assert frame[column].isin(known).all(), column
    order = np.random.default_rng(12345).permutation(len(frame))
    held_out = len(frame) // 5
    test, train = (frame.iloc[part] for part in (order[:held_out], order[held_out:]))
    grid = {c: GRID[c] for c, known in public.items() if isinstance(known, tuple)}
    return Wide(name, train.reset_index(drop=True), test.reset_index(drop=True), public, grid)


def schema(public):
    """Return the schema that a user writes: whole numbers with a range, lists of categories."""
    from skdpsumm import Numeric, TableSchema

    described = {
        c: Numeric(*known, step=1) if isinstance(known, tuple) else known
        for c, known in public.items()
    }
    return TableSchema(described)


def census_schema():
    """Return that of summaries of ACS income, whose columns keep the codes of the file."""
    from skdpsumm import Categorical, Numeric, TableSchema

    return TableSchema(
        {
            "AGEP": Numeric(16, 95, step=1),
            "SCHL": Numeric(1, 24, step=1),
            "WKHP": Numeric(1, 99, step=1),
            "COW": Categorical(range(1, 9)),
            "MAR": Categorical([1, 2]),
            "RELP": Categorical(range(18)),
            "SEX": Categorical([1, 2]),
            "RAC1P": Categorical(range(1, 6)),
            "OCCP": Categorical(range(20)),  # of 500 codes each
        },
        extra_columns="drop",
    )


# ---- questions and scores


def pairs(table):
    """Return all pairs of columns."""
    return list(itertools.combinations(table.columns, 2))


def questions(table):
    """Return 30 triples of columns, or all, and 200 counts of three conditions.

    A condition is a column and the cells that hold: a range of bins, or half of the categories.
    """
    rng, sizes, columns = np.random.default_rng(777), table.sizes, table.columns
    triples = [
        triple
        for triple in itertools.combinations(columns, 3)
        if np.prod([sizes[c] for c in triple]) <= _CELLS_OF_A_TRIPLE
    ]
    chosen = [triples[k] for k in rng.choice(len(triples), min(30, len(triples)), replace=False)]
    counts = [_conditions(table, sizes, rng) for _ in range(200)]
    return chosen, counts


def _conditions(table, sizes, rng):
    found = []
    for c in map(str, rng.choice(table.columns, 3, replace=False)):
        if c in table.numeric:
            first, last = sorted(rng.choice(sizes[c] + 1, 2, replace=False))
            found.append((c, np.arange(first, last)))
        else:
            cells = rng.choice(sizes[c], max(1, sizes[c] // 2), replace=False)
            found.append((c, np.sort(cells)))
    return found


def holds(table, conditions):
    """Return a count's conditions as a function of rows, as a user writes it."""

    def query(rows):
        found = True
        for c, cells in conditions:
            values = rows[c]
            if c in table.numeric:
                edges = table.grid[c]
                values = np.asarray(values, dtype=float)
                is_last = cells[-1] == len(edges) - 2
                found &= values >= edges[cells[0]]
                found &= is_last | (values < edges[cells[-1] + 1])
            else:
                found &= pd.Series(values).isin([table.public[c][k] for k in cells]).to_numpy()
        return found

    return query


def marginal(codes, sizes, columns):
    """Return the share of the rows in each cell, with an axis for each column."""
    shape = [sizes[c] for c in columns]
    flat = np.ravel_multi_index([codes[c].to_numpy() for c in columns], shape)
    return np.bincount(flat, minlength=np.prod(shape)).reshape(shape) / len(codes)


def distance(truth, answer):
    """Return the total variation of two tables, after the answer is made one of shares."""
    answer = np.maximum(np.asarray(answer, dtype=float).reshape(truth.shape), 0)
    return 0.5 * np.abs(answer / answer.sum() - truth).sum()


def auc(score, table):
    """Return the area under the ROC curve on the rows held out."""
    return float(roc_auc_score(table.test["label"] == "yes", score))


def model_scores(table, rows):
    """Return the AUC of models that are trained on these rows: {"lr": , "hgb": }."""
    X, X_test = inputs(table, rows), inputs(table, table.test)
    y = (rows["label"] == "yes").to_numpy()
    models = {"lr": LogisticRegression(max_iter=1000)}
    models["hgb"] = HistGradientBoostingClassifier(random_state=0)
    return {
        name: auc(model.fit(X, y).predict_proba(X_test)[:, 1], table)
        for name, model in models.items()
    }


def inputs(table, rows):
    """Return numbers scaled to [0, 1] and indicators of categories."""
    parts = []
    for c in table.columns[:-1]:
        if c in table.numeric:
            low, high = table.public[c]
            parts.append(((rows[c].to_numpy(float) - low) / (high - low))[:, None])
        else:
            values = rows[c].to_numpy(object)[:, None]
            parts.append((values == np.array(table.public[c], dtype=object)).astype(float))
    return np.hstack(parts)


def mean_scores(relative):
    """Return the errors of means, from a Series of relative ones: the worst, and what is skewed."""
    usual = [c for c in relative.index if not c.startswith("capital")]
    found = {"worst_mean": np.abs(relative[usual]).max()}
    return found | {c: abs(relative[c]) for c in relative.index if c.startswith("capital")}


# ---- runs, as JSON lines


def lines(path):
    """Return what a file of JSON lines has, nothing where there is none."""
    if path is None or not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def append(path, line):
    """Add a line to the file, where there is one."""
    if path is not None:
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
