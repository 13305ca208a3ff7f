"""What the page tells of each attempt, of sweeps, and of time, memory and money; hostile text stays text."""

import json
from datetime import UTC, datetime

import pytest

from egg_graph.report.attempts import show_attempts, why_not_accepted
from egg_graph.report.highlighting import MOST_LINES, difference
from egg_graph.runs.results import write_report
from egg_graph.schema import Attempt, CallEntry, Ledger, Memory, Sitting, Trial, Usage
from tests.report.conftest import SOURCE, attempts, candidate, evaluation, good, write_run
from tests.report.test_page import page

BAIT = "</span></pre><script>alert('diff')</script>"
RESOURCES = good(True)[1].resources[0]
BEGIN = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
LINES = (
    Sitting(begin=BEGIN),
    CallEntry(call="baseline", begin=BEGIN, seconds=9.0, parts={"compile": 6.0, "timing": 3.0}),
    CallEntry(
        call="coder", begin=BEGIN.replace(second=20), seconds=8.0, parts={"model": 8.0}, stage="tensor_tiling",
        attempt=3, usage=Usage(calls=2, input_tokens=1234, output_tokens=567, seconds=8.0),
    ),
    CallEntry(
        call="evaluation", begin=BEGIN.replace(second=30), seconds=4.0, parts={"failed": 4.0}, status="failed",
        reason=f"the GPU is busy {BAIT}", memory=Memory(judge_bytes=3e9),
    ),
    Sitting(begin=BEGIN, seconds=40.0),
)  # fmt: skip


def right(number, milliseconds, source, **more):
    """A right attempt that was not accepted."""
    kernel = candidate(source, mode="optimize", parent=good(True)[0].id)
    judged = evaluation(kernel, "faster", True, reason="right", checks=good(True)[1].checks, resources=(RESOURCES,))
    timing = judged.timing.model_copy(update={"candidate_ms": milliseconds})
    return Attempt(number=number, candidate=kernel, evaluation=judged.model_copy(update={"timing": timing} | more))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The page of a run with a sweep, calls, and a third attempt that is right and slower."""
    folder = write_run(tmp_path_factory.mktemp("run"))
    third = right(3, 0.3, SOURCE.replace("2048", "64") + f"# {BAIT}\n", resources=(RESOURCES, spilling()))
    trial = Trial(config={"BLOCK": 64}, status="correct", milliseconds=0.25, reason=f"right {BAIT}")
    evidence = json.loads((folder / "evidence.json").read_text())
    evidence["ledger"] = Ledger.of(LINES).model_dump(mode="json")
    sweep = {"stage": "tensor_tiling", "kernel": "abc", "knobs": {}, "winner": {"BLOCK": 64}}
    evidence["sweeps"] = [sweep | {"trials": [trial.model_dump(mode="json")]}]
    (folder / "evidence.json").write_text(json.dumps(evidence))
    history = (*attempts(True), third, *LINES)
    (folder / "history.jsonl").write_text("".join(line.model_dump_json() + "\n" for line in history))
    write_report(folder)
    return page(folder)


def spilling():
    return RESOURCES.model_copy(update={"kernel": "other", "registers": 255, "spill_bytes": 64, "occupancy": 0.125})


def test_each_attempt_has_its_source_its_changes_and_its_resources(shown):
    assert "Changes to attempt 2" in shown.text and "+# </span></pre><script>alert('diff')" in shown.text
    assert shown.text.count("Source import") == 3, "every source is there, not only the last kernel's"
    assert "255 64 12%" in shown.text, "the worst of its kernels"
    assert "written anew" in shown.text and "the kernel that it came from is no attempt of this run" in shown.text


def test_a_right_attempt_says_why_it_was_not_accepted(shown):
    said = "Right, but not accepted: not faster: 0.3 ms against 0.251 ms of attempt 2"
    assert shown.text.count("Right, but not accepted") == 1 and said in shown.text


def test_time_memory_and_money_are_told_by_part_and_by_role(shown):
    assert "40.0 s of wall time" in shown.text
    assert "compile 6.0 15 %" in shown.text and "model 8.0 20 %" in shown.text and "other 19.0 48 %" in shown.text
    assert "judge 3 GB candidate not measured baseline not measured" in shown.text
    assert "coder 1 2 1,234 567 - 8.0" in shown.text
    assert "09:30:20 coder tensor tiling 3 8.0 model 8.0" in shown.text


def test_the_trials_of_a_sweep_are_told(shown):
    assert "tensor tiling: 1 configuration of kernel abc" in shown.text
    assert "BLOCK=64 correct best 0.25 right" in shown.text


def test_hostile_text_stays_text_there_too(shown):
    assert shown.text.count("<script>alert('diff')</script>") == 4, "source, diff, trial and call"
    assert not {"script", "img", "iframe", "object", "link"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        (right(3, 0.2505, "a"), "a gain of 0.2% does not count"),
        (right(3, 0.2, "a", checks=()), "less proven than attempt 2, which also passed awkward"),
        (right(3, 0.2, "a", timing=None), "not timed, and attempt 2 was"),
        (right(3, 0.2, good(True)[0].source), "the same source as attempt 2"),
        (right(3, 0.2, "a", status="incorrect"), ""),
        (right(3, 0.2, "a").model_copy(update={"improved": True}), ""),
    ],
)
def test_reasons_for_not_accepting_a_right_kernel(attempt, says):
    assert says in why_not_accepted(attempt, attempts(True)) and bool(says) == bool(
        why_not_accepted(attempt, attempts(True))
    )


def test_a_draft_is_compared_with_the_one_beside_it_that_went_on():
    slower = right(3, 0.2, "a").model_copy(update={"beside": 3})
    faster = right(4, 0.1, "b").model_copy(update={"beside": 3, "improved": True})
    told = {one.attempt.number: one.not_accepted for one in show_attempts([*attempts(True), slower, faster])}
    assert told[3] == "not faster: 0.2 ms against 0.1 ms of attempt 4" and told[4] == ""


def test_without_a_clock_bound_and_spills_are_the_reason():
    before = attempts(False)
    same = right(3, 0.2, "a", timing=None, status="correct")
    assert "neither better nor worse than attempt 2" in why_not_accepted(same, before)
    heavy = spilling().model_copy(update={"spill_bytes": 640})
    worse = right(3, 0.2, "a", timing=None, status="correct", resources=(heavy,))
    assert "0.218 ms and 640 B spilled, against 0.218 ms and 0 B" in why_not_accepted(worse, before)


def test_sources_that_would_take_long_to_compare_are_not_compared():
    many = "\n" * MOST_LINES
    assert "too long to be compared with attempt 1" in difference(many, many + "x\n", "attempt 1")
    assert difference("a", "a", "attempt 1") == "the same text as attempt 1"
