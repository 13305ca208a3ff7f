"""A suite's rows, statistics and pages; kernels and times by script."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egg_graph.bench import Row, find_references, markdown, run_suite, summarize
from egg_graph.schema import BadInput
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    for name in ("b_relu", "a_relu"):
        (folder / f"{name}.py").write_text(REFERENCE)
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("def (\n")
    return folder


def run(references, out, tmp_path, writes, **options):
    parts = {"team": ScriptedTeam(writes, worth=(False,)), "evaluator": ScriptedEvaluator()}
    return run_suite(references, out, runs_dir=tmp_path / "runs", parts=parts, **options)


def test_a_folder_holds_its_references_alone(suite, tmp_path):
    assert [path.stem for path in find_references(suite)] == ["a_relu", "b_relu"]
    assert [path.stem for path in find_references(suite, "b_*")] == ["b_relu"]
    listed = tmp_path / "list.txt"
    listed.write_text("# mine\nsuite/b_relu.py  # first\n\nsuite/a_relu.py\n")
    assert [path.stem for path in find_references(listed)] == ["b_relu", "a_relu"]
    with pytest.raises(BadInput, match="no reference named"):
        find_references(suite, "zzz")


def test_rows_are_written_as_they_come(suite, tmp_path):
    out, seen = tmp_path / "results" / "mine", []
    results = run(find_references(suite), out, tmp_path, [kernel("timed", 2.0)], on_row=seen.append, max_attempts=3)
    assert [row.status for row in results.rows] == ["faster", "faster"]
    assert list(results.rows) == seen
    stored = json.loads(out.with_suffix(".json").read_text())
    assert stored["summary"]["geometric_mean"] == pytest.approx(2.0)
    assert stored["settings"]["max_attempts"] == 3 and stored["version"] and stored["statistic"]
    page = out.with_suffix(".md").read_text()
    assert "| a_relu | faster | 2 | 4 | - | - | 2.000 (1.000 to 9.000) | 1.0e-07 / 1.0e-05 |" in page
    assert "geometric mean 2.000" in page


def test_kept_rows_are_not_run_again_and_terms_must_agree(suite, tmp_path):
    out = tmp_path / "mine"
    first = run([suite / "a_relu.py"], out, tmp_path, [kernel("timed", 2.0)])
    both = run(find_references(suite), out, tmp_path, [kernel("slow", 8.0)], keep=True)
    assert both.rows[0] == first.rows[0]
    assert [row.status for row in both.rows] == ["faster", "slower"]
    with pytest.raises(BadInput, match="other settings"):
        run(find_references(suite), out, tmp_path, [kernel("timed")], keep=True, precision="ieee")


def test_a_reference_that_is_none_is_a_row(suite, tmp_path):
    results = run([suite / "broken.py", suite / "a_relu.py"], tmp_path / "mine", tmp_path, [kernel("ok", 1.0)])
    assert [row.status for row in results.rows] == ["bad_input", "correct"]
    page = markdown(results)
    assert "no Python" in page and "Nothing was timed" in page and "ratio" not in page


def row(status="faster", ratio=None):
    return Row(name="x", task="", status=status, reason="a | b\nc", ratio=ratio, ratio_low=ratio, ratio_high=ratio)


def test_statistics_count_every_problem():
    summary = summarize([row(ratio=2.0), row("slower", 0.5), row("inconclusive", 1.05), row("reference_kept")])
    assert (summary.problems, summary.usable, summary.timed) == (4, 3, 3)
    assert summary.geometric_mean == pytest.approx((2.0 * 0.5 * 1.05) ** (1 / 3))
    assert summary.geometric_mean_as_used == pytest.approx(2.0**0.25)
    assert summary.median == 1.05
    assert summary.fast == {"1": 0.5, "1.1": 0.25, "1.2": 0.25, "1.5": 0.25, "2": 0.0}


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_geometric_mean_lies_between_the_extremes(ratios):
    summary = summarize([row(ratio=ratio) for ratio in ratios])
    assert min(ratios) * 0.999 <= summary.geometric_mean <= max(ratios) * 1.001
    assert list(summary.fast.values()) == sorted(summary.fast.values(), reverse=True)
