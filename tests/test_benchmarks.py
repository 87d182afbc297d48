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
    assert report.section(results.load(path))[-1].endswith("; older cells, 2020-01-01: rival.")
