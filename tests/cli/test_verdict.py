"""The panel of a verdict: every heading stands where there is something under it."""

import io

from rich.console import Console

from egg_graph.cli.optimize import spent_words
from egg_graph.cli.verdict import show_verdict
from egg_graph.schema import Check, Evaluation, Finding, Ledger, Rung, Timing, TunedBaseline, TunedTrial


def shown(tuned=None, **fields) -> str:
    console = Console(file=io.StringIO(), width=160)
    evaluation = Evaluation(**{"candidate": "c", "task": "t", "status": "correct", "reason": "right", **fields})
    show_verdict(console, evaluation, title="title", tuned=tuned)
    return console.file.getvalue()


def test_both_sides_are_told_on_the_host():
    timing = Timing(
        candidate_ms=0.1, eager_ms=0.2, baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1, pairs=40,
        candidate_host_ms=0.15, baseline_host_ms=0.21,
    )  # fmt: skip
    assert "0.15 ms against 0.21 ms, launches included" in shown(timing=timing)


def test_a_switch_that_gives_most_of_the_gain_stands_first():
    trial = TunedTrial(forward="eager", switches=("cudnn.benchmark",), outcome="timed", milliseconds=0.1)
    timing = Timing(
        candidate_ms=0.1, eager_ms=0.2, baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1, pairs=40
    )
    text = shown(TunedBaseline(trials=(trial,), eager_ms=0.2), timing=timing)
    assert text.index("set cudnn.benchmark: 2.00x without a kernel") < text.index("right")
    assert "tuned PyTorch 0.1 ms (eager with cudnn.benchmark): 1.00x against it" in text
    assert "tuned PyTorch: not measured (there is no GPU here)" in shown(TunedBaseline(reason="there is no GPU here"))


def test_what_is_not_preserved_stands_under_a_heading_of_its_own():
    assert "not preserved" not in shown()
    text = shown(not_preserved=("infinities (minus_infinite inputs: got nan)",))
    assert text.index("not preserved") < text.index("infinities (minus_infinite inputs: got nan)")


def test_what_decided_a_verdict_is_told_once():
    message, where, cure = "3 of 4 elements are off", "the output", "look at the mask"
    reason = f"{message} ({where})"
    text = shown(
        reason=reason,
        status="incorrect",
        findings=(
            Finding(kind="wrong_values", message=message, where=where, cure=cure),
            Finding(kind="register_spill", message="8 bytes spill", where="kernel k"),
        ),
        rungs=(
            Rung(name="small", outcome="failed", statement=reason),
            Rung(name="large", outcome="skipped", statement="no"),
        ),
    )
    assert text.count(message) == text.count(where) == text.count(cure) == 1
    assert "told above" in text and "8 bytes spill" in text and "kernel k" in text and "- no" in text


def test_the_worst_check_is_told_with_its_inputs():
    given = {"name": "shrunk", "seed": 1, "budget": 0.02, "max_abs": 0.1, "passed": True, "machine": "interpreter"}
    checks = (Check(error=0.0001, **given), Check(error=0.01, family="shifted", **given))
    assert "1.00e-02 of 2.00e-02 allowed (shrunk, inputs shifted, interpreter)" in shown(checks=checks)
    assert "(shrunk, interpreter)" in shown(checks=checks[:1])


def test_a_wait_is_a_wait_for_the_judge_wherever_it_is_and_whatever_it_has():
    told = spent_words(Ledger(seconds=3.0, parts={"waiting": 2.0, "other": 1.0}, calls={}))
    assert "waiting for the judge 2.0, other 1.0" in told and "GPU memory not measured" in told
