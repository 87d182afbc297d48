"""Every figure of the papers is drawn once, small: each script's own ``--quick``.

A script of examples/papers draws a figure, and takes ``--quick`` and ``--out`` of `_figure.parser`,
or it is one of `STUDIES`, which print tables and need data that no test has.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples/papers"
STUDIES = {
    *("errata", "kernels_covertype", "kernels_mnist", "kernels_regularization"),
    *("kernels_soft_margin", "m2m_rivals", "summarization_mnist"),
}
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
FIGURES = [path for path in SCRIPTS if " _figure" in path.read_text()]
WIDEST = 1200  # pixels
LARGEST = 150_000  # bytes


def test_every_script_draws_a_figure_or_is_a_study():
    assert {path.stem for path in {*SCRIPTS} - {*FIGURES}} <= STUDIES
    assert FIGURES


@pytest.mark.parametrize("picture", sorted((ROOT / "docs/images/papers").glob("*.png")), ids=str)
def test_pictures_are_small_and_have_their_numbers(picture):
    assert picture.stat().st_size < LARGEST
    assert width(picture) <= WIDEST
    assert json.loads(picture.with_suffix(".json").read_text())["numbers"]


# What is measured again, where it was measured before: nothing, or a part that is asked for.
AGAIN = {"m2m_figure3": ["--keep", "--sketches"], "m2m_figure4": ["--keep"]}


@pytest.mark.one_in(3)
@pytest.mark.notebooks
@pytest.mark.parametrize("script", FIGURES, ids=lambda path: path.stem)
def test_quick_draws_its_figure(script, tmp_path):
    """And draws it again from its numbers, if it takes ``--keep``."""
    out = tmp_path / "figure.png"
    kept = draw(script, out)
    assert width(out) <= WIDEST
    assert {"command", "seconds", "machine", "versions"} <= kept.keys()
    assert medians(kept["numbers"])
    assert all(isinstance(value, float | int | None) for value in medians(kept["numbers"]))
    if script.stem in AGAIN:
        again = draw(script, out, *AGAIN[script.stem])
        assert medians(again["numbers"]) == pytest.approx(medians(kept["numbers"]), rel=1e-5)
        assert [before["command"] for before in again["earlier"]] == [kept["command"]]


def test_every_script_that_keeps_its_numbers_is_drawn_again():
    assert {path.stem for path in FIGURES if '"--keep"' in path.read_text()} == set(AGAIN)


def draw(script, out, *options):
    """Run `script` with ``--quick``; return what it kept."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), "--quick", "--out", str(out), *options],
        cwd=out.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.with_suffix(".json").read_text())


def width(picture):
    """Return a PNG's width in pixels, from its header."""
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">I", head[16:20])[0]


def medians(found):
    """Return all that stands under "median" anywhere in what was kept."""
    if not isinstance(found, dict):
        return []
    own = found.get("median", [])
    own = own if isinstance(own, list) else [own]
    return own + [value for part in found.values() for value in medians(part)]
