"""The page of benchmarks is what its stored results say, and these say where they are from."""

import json
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


def test_another_number_makes_another_page(report, tmp_path, monkeypatch):
    for path in report.RESULTS.glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert report.page() == report.PAGE.read_text()
    path = next(path for path in report.RESULTS.glob("*.json") if path.stem in report.TABLES)
    table = json.loads(path.read_text())
    table["rows"][0][1] = 123.4
    (tmp_path / path.name).write_text(json.dumps(table))
    assert report.page() != report.PAGE.read_text()
    (tmp_path / path.name).write_text(json.dumps(table | {"columns": ["one"]}))
    with pytest.raises(ValueError, match="each row must have 1 cells"):
        report.page()


def test_numbers_of_a_column_have_the_same_decimals(report):
    assert report.cells([0.994, 0.9943, None, "5e-5", 1]) == [
        "0.9940",
        "0.9943",
        "-",
        "5e-5",
        "1.0000",
    ]
    assert report.cells([12, 7]) == ["12", "7"]
    assert report.cells([0.00023, 0.00005]) == ["0.00023", "0.00005"]


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


def test_a_column_that_did_not_run_stays_as_it_was(report, tmp_path, monkeypatch):
    path, results = tmp_path / "new.json", report._results
    columns, rows = ["x", "ours", "rival"], [[0.1, 2.0, None], [1, 4.0, None]]
    assert results.kept(path, columns, rows) == (rows, {})
    monkeypatch.setattr(sys, "argv", [str(FOLDER / "sketch.py")])
    about = {"job": "learn", "title": "a", "about": "b", "columns": columns}
    results.store(path, rows=[[0.1, 1.0, 5.0], [1.0, 3.0, 6.0]], **about)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"date": "2020-01-01"}))
    for _ in range(2):  # the second time from a result that has older cells itself
        filled, kept = results.kept(path, columns, [[*row[:2], None] for row in rows])
        assert filled == [[0.1, 2.0, 5.0], [1, 4.0, 6.0]]
        assert kept == {"rival": "2020-01-01"}
        results.store(path, rows=filled, kept=kept, **about)
    told = report.section(results.load(path), path.stem)[-1]
    assert told.endswith("; `new`; older cells, 2020-01-01: rival")


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


def test_rows_in_the_cells_of_the_natural_cuts_have_their_tables(unseen):
    for name in ("payments", "twins-ns"):
        table = unseen._unseen.load(name)
        codes = table.codes(table.train)
        rows = table.rows(codes, 0)
        assert codes.equals(table.codes(rows)), name
        for c, step in table.steps.items():
            low, high = table.public[c]
            assert rows[c].between(low, high).all(), (name, c)
            steps = (rows[c] - low) / (step or 1)
            assert step is None or abs(steps - steps.round()).max() < 1e-6, (name, c)
        assert (set(table.steps.values()) == {None}) == name.endswith("-ns")


def test_natural_cuts_are_round_and_of_the_range_alone(unseen):
    natural = unseen._unseen.natural
    assert natural(1, 4, 1) == [1, 2, 3, 3.5, 4]
    assert natural(0, 100, None) == [*range(0, 101, 5)]
    assert natural(0, 20_000, 1)[:5] == [0, 1, 2, 5, 10]
    assert natural(-60, 1440, 1)[:3] == [-60, 0, 100]


@pytest.mark.statistical
def test_unseen_tables_run_once_and_print_means_only(unseen, tmp_path, monkeypatch, capsys):
    out, stored = tmp_path / "runs.jsonl", tmp_path / "result.json"
    arguments = ["--quick", "--out", str(out), "--json", str(stored), "--rivals", str(out) + "-"]
    monkeypatch.setattr(sys, "argv", [str(FOLDER / "unseen.py"), *arguments])
    unseen.main()
    assert "twins, epsilon 1, seed 0: done" in capsys.readouterr().out
    (run,) = unseen._tables.lines(out)
    assert run["ratio"] == pytest.approx(run["q"] / run["q_edges"])
    assert 0.5 < run["auc"] < 1
    table = unseen._results.load(stored)
    assert table["columns"] == ["what", "epsilon 1"]  # no rival has all tables
    assert dict(zip(unseen.WORDS, table["rows"], strict=True))["tv2"][1] == round(run["tv2"], 4)
    unseen.main()
    assert "done" not in capsys.readouterr().out
