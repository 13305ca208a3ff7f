"""Kernels of other people: whose fault a rejection is, what is kept, and what an earlier evaluator made of them."""

import json

import pytest

from egg_graph.bench.trust.rows import CorpusRun
from egg_graph.schema import BadInput
from tests.bench.trust.files import ScriptedEvaluator, header, make_corpus
from tests.lab.outside import _unquoted, outside_page, run_outside

SOURCE = {
    "repository": "a/library",
    "commit": "0123456789abcdef",
    "path": "ops/k.py",
    "computes": "2 x",
    "kind": "library",
}


def make_folder(folder, **sources):
    """A folder of kernels that are all to be right, by name, with these entries of `sources.json`."""
    corpus = make_corpus(folder, **{name: header(name, '["right"]') for name in sources})
    corpus.rename(folder / "kernels")
    (folder / "sources.json").write_text(json.dumps({name: {**SOURCE, **entry} for name, entry in sources.items()}))
    return folder


def test_a_rejection_without_a_fault_is_false(tmp_path):
    folder = make_folder(
        tmp_path, good={}, refused={"unseen": True}, faulty={"fault": "skips a row", "kind": "model"}, odd={}
    )
    verdicts = {"refused": "invalid forbidden_construct", "faulty": "incorrect wrong_values"}
    evaluator = ScriptedEvaluator(good="correct", odd="unevaluable degenerate_problem", **verdicts)
    results = run_outside(folder, tmp_path / "old", evaluator=evaluator, device="none")
    assert {row.name: row.verdict for row in results.rows} == {
        "good": "accepted",
        "refused": "falsely rejected",
        "faulty": "its own fault",
        "odd": "not judged",
    }
    page = outside_page(results)
    assert "| all | 4 | 1 | 1 | 2 | 1 |" in page
    assert "| not looked at before | 1 | 0 | 0 | 1 | 1 |" in page
    assert "| of language models | 1 | 0 | 1 | 0 | 0 |" in page
    assert "a/library@0123456789 ops/k.py" in page and "skips a row" in page

    evaluator = ScriptedEvaluator(good="correct", refused="correct", faulty="correct", odd="correct")
    again = run_outside(folder, tmp_path / "new", evaluator=evaluator, device="none", before=tmp_path / "old.json")
    assert again.rejected_before == ("refused",) and not again.false
    assert "| all | 4 | 0 | 1 | 3 | 0 | 1 |" in outside_page(again)
    assert "not shown here: skips a row" in outside_page(again)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("AssertionError: (line 9, in run: assert n in (16, 32); the first call)", "AssertionError: (line 9, in run"),
        ("not valid Python: invalid syntax: Some prose (line 3)", "not valid Python: invalid syntax"),
        ("1 of 9 elements are off (kernel k, line 7)", "1 of 9 elements are off (kernel k, line 7)"),
    ],
)
def test_no_line_of_a_kernel_is_quoted(reason, shown):
    run = CorpusRun(status="runtime_error", reason=reason, outcome="false_reject", seconds=1.0)
    assert _unquoted(run).reason == shown


def test_rows_of_unchanged_kernels_are_kept(tmp_path):
    folder, out = make_folder(tmp_path, one={}, two={}), tmp_path / "out"
    run_outside(folder, out, evaluator=ScriptedEvaluator(one="correct", two="correct"), device="none", only=["one"])
    second = ScriptedEvaluator(two="correct")
    results = run_outside(folder, out, evaluator=second, device="none", keep=True)
    assert second.calls == 1 and [row.name for row in results.rows] == ["one", "two"]
    assert json.loads(out.with_suffix(".json").read_text())["summary"]["honest"] == 2


def test_a_kernel_from_nowhere_is_refused(tmp_path):
    folder = make_folder(tmp_path, one={})
    (folder / "sources.json").write_text("{}")
    with pytest.raises(BadInput, match="nothing on one"):
        run_outside(folder, None, evaluator=ScriptedEvaluator(), device="none")
    (folder / "sources.json").write_text('{"one": {"commit": 3}}')
    with pytest.raises(BadInput, match=r"sources\.json: repository"):
        run_outside(folder, None, evaluator=ScriptedEvaluator(), device="none")
