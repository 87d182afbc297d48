"""What a dishonest owner does to a summary of the census, and what the bound on its part costs.

    python examples/benchmarks/owner_attacks.py --data ACS.csv.gz [--seeds 10] [--owners 5 20]

``ACS.csv.gz`` is the file of `summary_choices.py`. 300 rows of Hawaii, or of women of 55 and more
with a degree, are the target. All rows outside the group are spread over the owners, p = 200 rows
are chosen at epsilon = 1, and a logistic regression is fitted to them. The first owner is

    honest
    flips       honest, but its labels are false
    insider     holds other rows of the group, sends those that match the question best, all labels
                false
    invents     has no data: it makes rows that match the question, all labels false

Printed are means over paired seeds: the part of the summary that is the first owner's, and the AUC
on 400 other rows of the group, by default and with ``max_share_per_owner=1``.

``--cost`` prints what the bound costs honest owners in its place: MMD^2 by default over that with
``max_share_per_owner=1``, of "propose" at epsilon = 1 and without noise, where one owner alone has
the state that the target is from (four owners, and each state an owner), and where states other
than the target's are owners.
"""

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from summary_choices import GROUPS, read

from skdpsumm import PrivacyLeakWarning, PrivateMMDSummarizer, mmd2, simulation
from skdpsumm.summaries import Curator, DataOwner, Pool, Propose
from skdpsumm.summaries._protocol import Rows

N_TARGET, N_HELD, N_SELECT = 300, 400, 200
STATES = "HI", "UT", "MA", "NM"
BOUNDS = {"default": None, "no bound": 1.0}
PROTOCOLS = {"propose": Propose, "pool": Pool}


class Liar:
    """Answers with rows of `choose(embedding, direction, n)`, as many as it may, at first."""

    def __init__(self, choose, false_label, n_columns):
        self.choose, self.false_label, self.n_columns = choose, false_label, n_columns
        self.embedding, self.n_sent = None, 0

    def answer(self, message):
        """Send what was chosen to the first question, and nothing later."""
        self.embedding = message.embedding or self.embedding
        X = np.empty((0, self.n_columns), np.float32)
        if not self.n_sent:
            X = self.choose(self.embedding, message.direction, message.most_rows())
        first = self.n_sent
        self.n_sent += len(X)
        labels = self.false_label(X) if len(X) else np.empty(0, np.int64)
        return Rows(np.arange(first, self.n_sent), X, labels)


class Flips(DataOwner):
    """Sends what an honest owner would, with false labels."""

    def answer(self, message):
        """Answer, and flip."""
        rows = super().answer(message)
        return Rows(rows.indices, rows.X, 1 - rows.y)


def herded(rows):
    """Choose those of `rows` whose mean phi is nearest the direction, one after the other."""

    def choose(embedding, direction, n):
        phi = embedding.features(rows)
        scores, taken, total = phi @ direction, [], np.zeros(len(rows))
        for k in range(min(n, len(rows))):
            gain = (k + 1) * scores - total
            gain[taken] = -np.inf
            taken.append(int(gain.argmax()))
            total += phi @ phi[taken[-1]]
        return rows[taken]

    return choose


def invented(rng, n_steps=150, rate=0.05):
    """Make rows whose mean phi is near the direction: Adam on the distance, from a cloud at 0."""

    def choose(embedding, direction, n):
        W = embedding.frequencies
        half, scale = W.shape[1], 1 / np.sqrt(W.shape[1])
        X, first, second = rng.normal(0, 0.5, (n, len(W))), 0.0, 0.0
        for step in range(1, n_steps + 1):
            angle = X @ W
            cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
            missing = direction[:half] - cosine.mean(0), direction[half:] - sine.mean(0)
            slope = (cosine * missing[1] - sine * missing[0]) @ W.T
            first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
            size = np.sqrt(second / (1 - 0.99**step)) + 1e-12
            X = X + rate * first / (1 - 0.9**step) / size
        return X.astype(np.float32)

    return choose


def summary(owners, target, gamma, seed, **parameters):
    """Return the curator at the end of a run."""
    terms = PrivateMMDSummarizer(gamma=gamma, **parameters).terms()
    with simulation(seed):
        curator = Curator(target, list(owners), terms, random_state=seed)
    messages = curator.open()
    while messages:
        messages = curator.receive(
            {name: owners[name].answer(message) for name, message in messages.items()}
        )
    return curator


def attacked(X, y, is_member, gamma, protocol, n_owners, seed):
    """Return, by arm and bound, the first owner's part of the summary, and the AUC."""
    rng = np.random.default_rng([11, seed])
    target, held, own = np.split(
        rng.permutation(np.flatnonzero(is_member)), [N_TARGET, N_TARGET + N_HELD]
    )
    parts = np.array_split(rng.permutation(np.flatnonzero(~is_member)), n_owners)
    truth = LogisticRegression(max_iter=300).fit(X, y)

    def false(rows):
        return 1 - truth.predict(rows)

    def first(arm):
        known = X[parts[0]]
        return {
            "honest": lambda: DataOwner(known, y[parts[0]], seed=[seed, 0]),
            "flips": lambda: Flips(known, y[parts[0]], seed=[seed, 0]),
            "insider": lambda: Liar(herded(X[own]), false, X.shape[1]),
            "invents": lambda: Liar(invented(np.random.default_rng(seed)), false, X.shape[1]),
        }[arm]()

    found = {}
    for arm in ("honest", "flips", "insider", "invents"):
        for bound, most in BOUNDS.items():
            owners = {k: DataOwner(X[p], y[p], seed=[seed, k]) for k, p in enumerate(parts)}
            owners[0] = first(arm)
            terms = {"n_select": N_SELECT, "protocol": protocol(max_share_per_owner=most)}
            curator = summary(owners, X[target], gamma, seed, **terms)
            model = LogisticRegression(max_iter=300).fit(curator.X, curator.y)
            part = np.mean([owner == 0 for owner, _ in curator.chosen])
            found[arm, bound] = part, roc_auc_score(y[held], model.decision_function(X[held]))
    return found


def cost(X, names, gamma, state, n_owners, seed):
    """Return MMD^2 with the default bound over that without, with noise and without.

    `n_owners` is how many owners there are, of which one alone has the state; None makes each state
    an owner, and 0 each state but this.
    """
    rng = np.random.default_rng([12, seed])
    target, own = np.split(rng.permutation(np.flatnonzero(names == state)), [N_TARGET])
    rest = np.flatnonzero(names != state)
    parts = [rest[names[rest] == name] for name in np.unique(names[rest])]
    if n_owners:
        parts = np.array_split(rng.permutation(rest), n_owners - 1)
    if n_owners != 0:
        parts = [own, *parts]
    ratios = []
    for epsilon in (1.0, np.inf):
        noise = seed if np.isfinite(epsilon) else None
        found = []
        for most in BOUNDS.values():
            owners = {k: DataOwner(X[part], seed=[seed, k]) for k, part in enumerate(parts)}
            terms = {
                "n_select": N_SELECT,
                "epsilon": epsilon,
                "protocol": Propose(max_share_per_owner=most),
            }
            curator = summary(owners, X[target], gamma, noise, **terms)
            found.append(mmd2(curator.X, X[target], gamma=gamma))
        ratios.append(found[0] / found[1])
    return ratios


def main():
    """Print one of the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="acs_income_2018_small_1000_per_state.csv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--owners", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=["propose"])
    parser.add_argument("--cost", action="store_true", help="what the bound costs honest owners")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # seeds: these are simulations
    warnings.simplefilter("ignore", UserWarning)
    X, table, gamma = read(arguments.data)
    if arguments.cost:
        print_cost(X, table["ST"], gamma, arguments.seeds)
    else:
        print_attacks(X, table, gamma, arguments)


def print_cost(X, names, gamma, n_seeds):
    """Print geometric means over the seeds, and the largest."""
    print(
        f"{'target':<8}{'owners':<22}{'epsilon 1':>12}{'largest':>9}{'no noise':>10}{'largest':>9}"
    )
    kinds = {4: "four, one has it all", None: "each state", 0: "each other state"}
    for state in STATES:
        for n_owners, kind in kinds.items():
            found = np.array(
                [cost(X, names, gamma, state, n_owners, seed) for seed in range(n_seeds)]
            )
            mean, most = np.exp(np.log(found).mean(axis=0)), found.max(axis=0)
            cells = f"{mean[0]:>12.2f}{most[0]:>9.2f}{mean[1]:>10.2f}{most[1]:>9.2f}"
            print(f"{state:<8}{kind:<22}{cells}", flush=True)


def print_attacks(X, table, gamma, arguments):
    """Print means over the seeds."""
    y = table["label"].astype(int)
    head = "".join(f"{f'part, {bound}':>16}{'AUC':>8}" for bound in BOUNDS)
    print(f"{'target':<20}{'protocol':<10}{'owners':>7} {'the first':<10}{head}")
    for name in ("Hawaii", "women 55+, degree"):
        for protocol in arguments.protocols:
            for n_owners in arguments.owners:
                runs = [
                    attacked(X, y, GROUPS[name](table), gamma, PROTOCOLS[protocol], n_owners, seed)
                    for seed in range(arguments.seeds)
                ]
                for arm in dict.fromkeys(arm for arm, _ in runs[0]):
                    means = [np.mean([r[arm, bound] for r in runs], axis=0) for bound in BOUNDS]
                    cells = "".join(f"{part:>16.2f}{auc:>8.3f}" for part, auc in means)
                    print(f"{name:<20}{protocol:<10}{n_owners:>7} {arm:<10}{cells}", flush=True)


if __name__ == "__main__":
    main()
