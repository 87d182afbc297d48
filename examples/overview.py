"""Draw the picture of the README: one panel for each job of the library.

    python examples/overview.py [--output docs/images/overview.png]

Noise is fresh in every run, so the picture is another one each time. All data are scikit-learn's,
and public in truth: that is why exact values may be drawn beside.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from skdpsumm import M2MEstimator, PrivateMMDSummarizer, TDILClassifier, uniform_selection
from skdpsumm.plotting import PrivacyUtilityDisplay, SummaryDisplay

DELTA = 1e-6
HERE = Path(__file__).resolve().parent


def sketches(ax):
    """Draw a mean against epsilon, and return the finding; the column's range is public."""
    X = load_diabetes(scaled=False).data[:, [2]]
    answers = {}
    for epsilon in (0.3, 1.0, 3.0, 10.0):
        m2m = M2MEstimator((15, 50), epsilon=epsilon, delta=DELTA, random_state=0)
        answers[epsilon] = m2m.fit(X).mean()[0]
    PrivacyUtilityDisplay.from_estimates(
        answers, label="mean body mass index (kg/m²)", ax=ax, name="private"
    )
    ax.axhline(X.mean(), color="0.45", ls=(0, (1, 1)), label="exact")
    ax.set_xlabel("epsilon (delta=1e-06)")
    ax.legend(frameon=False, loc="lower right")
    errors = [float(answers[epsilon].std_error) for epsilon in (0.3, 10.0)]
    return f"Ask a sketch: error {errors[0]:.2g} at\n    epsilon = 0.3, {errors[1]:.2g} at 10"


def summaries(ax):
    """Draw the MMD of summaries against their size, and return the finding."""
    rng = np.random.default_rng(0)
    images, digits = load_digits(return_X_y=True)
    wanted = [rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8, 9)]
    target, public = (
        images[np.concatenate([rows[part] for rows in wanted])]
        for part in (slice(0, 40), slice(40, 110))
    )
    rest = np.setdiff1d(np.arange(len(digits)), np.concatenate([rows[:110] for rows in wanted]))
    X, owners, schema = images[rest], digits[rest] // 2, (0, 16)
    rows = {"uniform choice": uniform_selection(len(X), 60, random_state=0)}
    for epsilon in (0.1, 1.0):
        summarizer = PrivateMMDSummarizer(schema, n_select=60, epsilon=epsilon, delta=DELTA)
        summarizer.fit(X, X_target=target, owners=owners)
        rows[f"summary, epsilon={epsilon:g}"] = summarizer.sample_indices_
    for name, chosen in rows.items():
        display = SummaryDisplay.from_rows(X[chosen], public, schema=schema, ax=ax, name=name)
        display.line_.set_markevery(5)
    of_random, of_ours = display.expected[-1], display.mmd[-1]
    ax.set(title="", ylabel="MMD to public rows (no unit)", xlabel="rows chosen of five owners")
    ax.set_xticks([1, 3, 10, 30, 60], ["1", "3", "10", "30", "60"])
    ax.set_ylim(0.015)
    ax.set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="lower left")
    return f"Choose rows: MMD {of_ours:.2f} to a target,\n    its own random rows {of_random:.2f}"


def learners(ax):
    """Draw the decision boundaries of several fits, and return the finding."""
    data, schema = load_breast_cancer(as_frame=True), [(5, 40), (10, 50)]
    X = data.data[["worst radius", "worst texture"]].to_numpy()
    X, X_test, y, y_test = train_test_split(X, data.target, test_size=0.3, random_state=0)
    grid = np.meshgrid(*[np.linspace(*ends, 120) for ends in schema])
    places = np.column_stack([axis.ravel() for axis in grid])
    for marker, face, label, name in (("o", "w", 1, "benign"), ("^", "0.4", 0, "malignant")):
        style = {"marker": marker, "facecolor": face, "edgecolor": "0.4", "linewidths": 0.5}
        ax.scatter(*X_test[y_test == label].T, s=12, label=name, **style)
    labels = []
    for epsilon, style in ((3.0, {"colors": "C0"}), (np.inf, {"colors": "k", "linestyles": "--"})):
        model = TDILClassifier(
            kernel="rbf", schema=schema, epsilon=epsilon, delta=DELTA, random_state=0
        )
        for _ in range(6 if np.isfinite(epsilon) else 1):
            model.fit(X, y)
            heights = model.decision_function(places).reshape(grid[0].shape)
            ax.contour(*grid, heights, levels=[0], linewidths=1.2, **style)
            labels.append(model.predict(X_test))
    ax.plot([], [], "C0", lw=1.2, label="epsilon=3, six fits")
    ax.plot([], [], "k--", lw=1.2, label="without privacy")
    ax.set(xlabel="worst radius (data set's unit)", ylabel="worst texture (grey levels)")
    ax.set(xlim=schema[0], ylim=schema[1])
    ax.legend(frameon=False, loc="center right")
    alike = np.mean([found == labels[-1] for found in labels[:-1]])
    return f"Learn with privacy: at epsilon = 3, fits agree with one without on {alike:.0%} of rows"


PANELS = (sketches, summaries, learners)


def main():
    """Draw and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs/images/overview.png")
    path = parser.parse_args().output
    # As wide as a page, so that letters can still be read on a telephone.
    with plt.rc_context({"font.size": 10, "legend.fontsize": 9}):
        figure = plt.figure(figsize=(7.2, 6.6), layout="constrained")
        axes = figure.subplot_mosaic("ab;cc").values()
        for k, (ax, draw) in enumerate(zip(axes, PANELS, strict=True), 1):
            ax.set_title(f"{k}. {draw(ax)}", fontsize=10, loc="left", weight="bold")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=125)
    print(path.name)


if __name__ == "__main__":
    main()
