"""The page of benchmarks is what its stored results say, and these say where they are from."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "benchmarks"


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    for name in ("report", "_results"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import report

    yield report
    for name in ("report", "_results"):
        sys.modules.pop(name, None)


def test_the_page_is_what_the_results_say(report):
    assert report.PAGE.read_text() == report.page()


def test_results_say_where_they_are_from(report):
    stored = sorted(report.RESULTS.glob("*.json"))
    assert stored
    for path in stored:
        table = report._results.load(path)
        measured = table["source"] == report._results.MEASURED
        assert measured or table["source"] == report._results.TRANSCRIBED, path.name
        assert bool(table["versions"]) == measured, path.name
        assert table["machine"], path.name
        script = table["command"].split()[1]
        assert table["command"] == "not recorded" or (ROOT / script).is_file(), path.name
        assert len(table["columns"]) <= 6, f"{path.name} is too wide for a telephone"


def test_a_result_is_stored_with_how_it_came_about(report, tmp_path, monkeypatch):
    path = tmp_path / "new.json"
    script = str(FOLDER / "sketch.py")
    arguments = ["--data", "/a/b/file.npz", "--rows", "10", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", [script, *arguments, "--json-other", "c"])
    about = {"job": "sketch", "title": "a", "about": "b", "columns": ["x"], "rows": [[1.0]]}
    report._results.store(path, **about)
    stored = report._results.load(path)
    assert stored["command"] == "python examples/benchmarks/sketch.py --data file.npz --rows 10"
    assert stored["source"] == "measured"
    assert {"python", "numpy", "scikit-learn"} <= set(stored["versions"])
    assert "cores" in stored["machine"]
    report._results.store(None, **about)  # nothing was asked for


@pytest.fixture
def unseen(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(FOLDER)
    names = ("unseen", "_unseen", "_tables", "_results", "wide")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import unseen

    yield unseen
    for name in names:
        sys.modules.pop(name, None)


def test_the_rows_themselves_make_no_error(unseen):
    table = unseen._unseen.load("payments")
    release = unseen._unseen.Rows(table, table.train)
    found = unseen._unseen.scores(table, release, lambda _, task: task(), few=True)
    trained = found.pop("auc")
    assert 0.65 < trained < 0.75  # 0.70, of rows and a seed that are fixed
    assert len(found) == 8
    assert all(abs(error) < 1e-12 for error in found.values()), found


@pytest.mark.statistical
def test_unseen_tables_run_once_and_print_means_only(unseen, tmp_path, monkeypatch, capsys):
    out, stored = tmp_path / "runs.jsonl", tmp_path / "result.json"
    arguments = ["--quick", "--out", str(out), "--json", str(stored), "--rivals", str(out) + "-"]
    monkeypatch.setattr(sys, "argv", [str(FOLDER / "unseen.py"), *arguments])
    unseen.main()
    assert "twins, epsilon 1, seed 0: done" in capsys.readouterr().out
    (run,) = unseen._tables.lines(out)
    assert run["ratio"] == pytest.approx(run["q"] / run["q_edges"])
    assert 0 < max(run["q_counts"], run["q_places"], run["q_pairs"]) < run["q"]
    assert 0.5 < run["auc"] < 1
    table = unseen._results.load(stored)
    assert table["columns"] == ["ours / AIM / MST", "epsilon 1"]
    assert [unseen.WORDS["tv2"], f"{run['tv2']:.4f}"] in table["rows"]
    unseen.main()
    assert "done" not in capsys.readouterr().out
