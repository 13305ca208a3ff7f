"""Tuned PyTorch in a run: measured when asked, told in the verdict, first where a switch gives most of the gain."""

from egg_graph import Context, build_egg_graph
from egg_graph.runs.evaluations import RecordedEvaluator, ReplayEvaluator
from egg_graph.schema import Baseline, KernelTask, TunedBaseline, TunedTrial
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

TRIALS = (
    TunedTrial(forward="eager", switches=("cudnn.benchmark",), outcome="timed", milliseconds=2.0),
    TunedTrial(forward="max-autotune", outcome="limit", reason="limit: 240 s"),
)


class Measuring(ScriptedEvaluator):
    """Eager PyTorch takes 4 ms, with cudnn.benchmark 2 ms."""

    measures_tuned = True

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        found = super().baseline(task)
        extra = (
            TunedBaseline(trials=TRIALS, eager_ms=4.0) if self.clock else TunedBaseline(reason="there is no GPU here")
        )
        return found.model_copy(update={"tuned": extra}) if tuned else found


def go(evaluator, word="timed", milliseconds=1.5, **knobs):
    team = ScriptedTeam([kernel(word, milliseconds)], worth=(False,))
    graph = build_egg_graph(team=team, evaluator=evaluator, principles=())
    steps = graph.stream(
        {"reference": REFERENCE}, context=Context(target="h200", **knobs), stream_mode=["custom", "values"]
    )
    told = list(steps)
    events = [event for mode, event in told if mode == "custom" and event.get("event") == "baseline"]
    return told[-1][1]["verdict"].splitlines(), events[0]


def test_a_switch_that_gives_most_of_the_gain_is_told_first_and_a_kernel_against_it():
    verdict, event = go(Measuring(clock=True), tuned_baseline=True)
    assert verdict[0].startswith("Set cudnn.benchmark: 2.00x without a kernel. Accepted as faster")
    assert verdict[1:3] == [
        "  tuned PyTorch 2 ms (eager with cudnn.benchmark): 1.33x against it",
        "  torch.compile (max-autotune): not measured (limit: 240 s)",
    ]
    assert event["tuned_ms"] == 2.0 and event["tuned"].startswith("set cudnn.benchmark: 2.00x without a kernel; tuned")


def test_a_reference_that_is_kept_comes_with_the_switch():
    verdict, _ = go(Measuring(clock=True), word="bad", tuned_baseline=True, max_attempts=1)
    assert verdict[0].startswith("Set cudnn.benchmark: 2.00x without a kernel. The reference is kept: ")


def test_where_it_is_not_measured_the_verdict_says_why_and_unasked_nothing():
    for evaluator, why in (
        (Measuring(), "there is no GPU here"),
        (ScriptedEvaluator(), "nothing is timed here"),
        (ScriptedEvaluator(clock=True), "the evaluator does not measure it"),
    ):
        verdict, event = go(evaluator, word="ok", tuned_baseline=True)
        assert verdict[1] == f"  tuned PyTorch: not measured ({why})" and event["tuned_ms"] is None
    verdict, event = go(Measuring(clock=True))
    assert "tuned" not in "".join(verdict) and "tuned" not in event


def test_a_run_keeps_it_with_its_baseline_and_says_it_again(tmp_path):
    recorded = RecordedEvaluator(lambda: Measuring(clock=True), tmp_path)
    before, _ = go(recorded, tuned_baseline=True)
    again, _ = go(ReplayEvaluator(tmp_path), tuned_baseline=True)
    assert before == again and "tuned PyTorch 2 ms" in before[1]
