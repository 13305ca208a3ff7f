"""Each stage opens with its own metrics of the kernel that it is handed, whichever stage judged it."""

import asyncio

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.schema import STAGE_METRICS, Expectation, KernelResources, Metric, Profile
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

FIRST, *OTHERS = STAGE_METRICS
TILE = KernelResources(
    kernel="tile", target="sm_90", grid=(200, 2), num_warps=8, num_stages=3, registers=255, shared_bytes=98304,
    shared_limit=232448,
)  # fmt: skip


class Compiling(ScriptedEvaluator):
    """Tells what was compiled, and the metrics of the stage that asks, as if nothing were known of them."""

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        told = Profile(source="compiled", metrics={name: Metric(missing="no GPU") for name in STAGE_METRICS[stage]})
        evaluation = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        return evaluation.model_copy(update={"resources": (TILE,), "profile": told})


class Profiling(Compiling):
    """Can also profile a kernel that was judged before."""

    def __init__(self):
        super().__init__(clock=True)
        self.profiled = []

    def profile(self, task, candidate, evaluation, *, stage=None):
        assert evaluation.candidate == candidate.id and evaluation.resources == (TILE,)
        self.profiled.append(stage)
        return Profile(source="ncu", metrics={name: Metric(value=7.0) for name in STAGE_METRICS[stage]})


def opened(team):
    """The first brief of the analyst in each stage."""
    found = {}
    for role, brief in team.briefs:
        if role == "analyst":
            found.setdefault(brief.stage, brief)
    return found


def go(team, evaluator, asynchronous=False, **knobs):
    graph = build_egg_graph(team=team, evaluator=evaluator, principles=())
    run = {"input": {"reference": REFERENCE}, "context": Context(target="h200", **knobs)}
    return asyncio.run(graph.ainvoke(**run)) if asynchronous else graph.invoke(**run)


def test_without_a_gpu_limits_waves_and_tail_follow_from_what_was_compiled():
    team = ScriptedTeam([kernel("ok", 1)], worth=[False])
    go(team, Compiling())
    for stage, brief in opened(team).items():
        assert set(brief.metrics) <= brief.evaluation.profile.metrics.keys(), stage
    metrics = opened(team)["parallel_mapping"].evaluation.profile.metrics
    assert metrics["launch__occupancy_limit_registers"].value == 1
    assert metrics["launch__waves_per_multiprocessor"].value == pytest.approx(400 / 132, abs=0.01)
    assert metrics["last_wave_fullness"].value == 3.0
    assert opened(team)["tensor_tiling"].evaluation.profile.metrics["launch__registers_per_thread"].value == 255


@pytest.mark.parametrize("asynchronous", [False, True])
def test_on_a_gpu_the_kernel_is_profiled_at_each_entry(asynchronous):
    team, evaluator = ScriptedTeam([kernel("timed", 1)], worth=[False]), Profiling()
    state = go(team, evaluator, asynchronous)
    assert evaluator.profiled == OTHERS, "the first stage's metrics were taken with the verdict"
    assert {brief.evaluation.profile.source for stage, brief in opened(team).items() if stage != FIRST} == {"ncu"}
    assert state["attempts"][0].evaluation.profile.source == "compiled", "what was established then stays"


def test_a_predicted_metric_is_compared_with_the_one_at_entry():
    class Mapper(ScriptedTeam):
        def analyze(self, brief):
            expected = Expectation(metric="launch__waves_per_multiprocessor", direction="down")
            return super().analyze(brief).model_copy(update={"expected": expected})

    class Measuring(Profiling):
        def evaluate(self, task, candidate, *, stage=None, finalist=False):
            found = super().evaluate(task, candidate, stage=stage, finalist=finalist)
            metrics = {name: Metric(value=3.0) for name in STAGE_METRICS[stage]}
            return found.model_copy(update={"profile": Profile(source="ncu", metrics=metrics)})

    stages = (FIRST, "parallel_mapping")
    team = Mapper([kernel("timed", 3), kernel("timed", 2)], worth=[False, True, False])
    effect = go(team, Measuring(), stages=stages)["attempts"][1].effect
    assert (effect.before, effect.after, effect.held) == (7.0, 3.0, True)


@pytest.mark.parametrize(
    ("why", "knobs"), [("no analyst", {"max_optimizations": 0}), ("knob", {"profile": False}), ("team", {})]
)
def test_nothing_is_profiled_that_nobody_reads(why, knobs):
    team, evaluator = ScriptedTeam([kernel("timed", 1)], worth=[False]), Profiling()
    team.reads_metrics = why != "team"
    go(team, evaluator, **knobs)
    assert evaluator.profiled == []
