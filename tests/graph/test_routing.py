"""The routing functions alone: a truth table of the paper's figure, and that no route leads nowhere."""

from typing import get_args, get_type_hints

import pytest

from egg_graph import Context, build_egg_graph, routing
from egg_graph.budgets import gpu_seconds, part_exhausted
from egg_graph.context import make_context
from egg_graph.schema import Attempt, BadInput, Baseline, Candidate, Evaluation, Spending, StageName, Usage
from egg_graph.steering.topology import all_nodes
from tests.graph.scripted import ScriptedEvaluator, kernel

STAGE: StageName = "tensor_tiling"


def attempt(number, mode="optimize", status="incorrect", stage=STAGE):
    candidate = Candidate(source=kernel("ok", number), author="test", stage=stage, mode=mode)
    return Attempt(
        number=number,
        candidate=candidate,
        evaluation=Evaluation(candidate=candidate.id, task="t", status=status, reason=""),
    )


def state(*history, best=True, **more):
    attempts = [attempt(n, *each) for n, each in enumerate(history, 1)]
    return {"attempts": attempts, "best": attempts[0].candidate if best and attempts else None, **more}


BAD, GOOD = ("optimize", "incorrect"), ("optimize", "correct")
MENDED, STILL_BAD = ("repair", "correct"), ("repair", "incorrect")
KNOBS = Context(max_attempts=6, max_repairs=2, max_optimizations=2)


@pytest.mark.parametrize(
    ("history", "best", "route"),
    [
        ([("seed", "incorrect")], False, "repair"),
        ([("seed", "incorrect"), STILL_BAD], False, "repair"),
        ([("seed", "incorrect"), STILL_BAD, STILL_BAD], False, "accept"),
        ([("seed", "correct")], True, "optimize"),
        ([GOOD], True, "optimize"),
        ([BAD], True, "repair"),
        ([BAD, MENDED], True, "optimize"),
        ([BAD, STILL_BAD, STILL_BAD], True, "optimize"),
        ([BAD, STILL_BAD, STILL_BAD, BAD], True, "repair"),
        ([GOOD, GOOD], True, "accept"),
        ([GOOD, BAD], True, "repair"),
        ([GOOD, BAD, MENDED], True, "accept"),
        ([GOOD, BAD, STILL_BAD, STILL_BAD], True, "accept"),
        ([("optimize", "unevaluable")], True, "accept"),
        ([GOOD, BAD, STILL_BAD, ("seed", "correct"), GOOD, BAD], True, "accept"),
    ],
)
def test_after_evaluation(history, best, route):
    assert routing.after_evaluation(state(*history, best=best), KNOBS, STAGE, paid=False) == route


@pytest.mark.parametrize("status", ["slower", "inconclusive", "faster"])
def test_every_usable_status_may_be_optimized_further(status):
    assert routing.after_evaluation(state(("optimize", status)), KNOBS, STAGE, paid=False) == "optimize"


def test_the_attempts_of_other_stages_count_against_the_run_and_not_the_stage():
    history = [("optimize", "correct", "parallel_mapping")] * 2 + [GOOD]
    assert routing.after_evaluation(state(*history), KNOBS, STAGE, paid=False) == "optimize"
    history = [("optimize", "correct", "parallel_mapping")] * 5 + [GOOD]
    assert routing.after_evaluation(state(*history), KNOBS, STAGE, paid=False) == "accept"


@pytest.mark.parametrize(
    ("spent", "which"),
    [
        ({"usage": Usage(input_tokens=60, output_tokens=40)}, "max_tokens (100)"),
        ({"seconds": 10.0}, "max_seconds (10)"),
        ({"usage": Usage(calls=7)}, "max_calls (7)"),
        ({"usage": Usage(dollars=0.5)}, "max_dollars (0.5)"),
        ({"costs": {"coder": Usage(output_tokens=30)}}, "coder.tokens (30)"),
        ({}, ""),
        ({"usage": Usage(input_tokens=60, calls=6, dollars=0.4), "seconds": 9.9}, ""),
        ({"costs": {"coder": Usage(output_tokens=29), "debugger": Usage(output_tokens=99)}}, ""),
    ],
)
def test_budgets(spent, which):
    limits = {"max_tokens": 100, "max_seconds": 10, "max_calls": 7, "max_dollars": 0.5}
    knobs = Context(**limits, budgets=("coder.tokens=30", "debugger.tokens=200"))
    assert routing.exhausted(state(GOOD, **spent), knobs).startswith(which)
    assert bool(routing.exhausted(state(GOOD, **spent), knobs)) == bool(which)
    assert routing.after_evaluation(state(GOOD, **spent), knobs, STAGE, paid=False) == (
        "accept" if which else "optimize"
    )


def test_roles_and_stages_that_spent_their_budget_are_not_asked():
    spent = {"costs": {part: Usage(calls=2) for part in ("debugger", "analyst", "tensor_tiling")}}
    knobs = Context(budgets=("debugger.calls=2", "analyst.calls=2"))
    assert routing.after_evaluation(state(BAD, best=False, **spent), knobs, STAGE, paid=False) == "accept"
    assert routing.after_evaluation(state(GOOD, **spent), knobs, STAGE, paid=False) == "accept"
    assert routing.after_opening(state(GOOD, **spent), knobs, STAGE, paid=False) == "tune"
    of_stage = Context(budgets=("tensor_tiling.calls=2",))
    assert routing.after_opening(state(GOOD, **spent), of_stage, "tensor_tiling", paid=False) == "tune"
    assert routing.after_opening(state(**spent), of_stage, "tensor_tiling", paid=False) == "exhausted"
    assert routing.after_opening(state(GOOD, **spent), of_stage, "parallel_mapping", paid=False) == "optimize"


def test_seconds_of_a_gpu_are_those_of_baseline_attempts_and_sweeps():
    took = Spending(seconds={"correctness": 2.0, "timing": 3.0, "compile": 9.0})
    on_gpu = Baseline(task="t", eager_ms=1.0, spent=took)
    (good,) = state(GOOD)["attempts"]
    judged = good.model_copy(update={"evaluation": good.evaluation.model_copy(update={"spent": took})})
    spent = {**state(GOOD), "attempts": [judged, judged], "baseline": on_gpu}
    assert gpu_seconds(spent) == 10.0, "an evaluation that was kept for a second attempt was made once"
    assert routing.exhausted(spent, Context(max_gpu_seconds=10)) == "max_gpu_seconds (10) reached"
    assert gpu_seconds({**spent, "baseline": Baseline(task="t")}) == 0.0, "nothing ran on a GPU"


def test_a_stage_has_budgets_of_time_and_of_a_gpus_time():
    took = Spending(seconds={"correctness": 2.0, "timing": 3.0, "compile": 9.0})
    (good,) = state(GOOD)["attempts"]
    judged = good.model_copy(update={"evaluation": good.evaluation.model_copy(update={"spent": took})})
    stage, on_gpu = good.candidate.stage, Baseline(task="t", eager_ms=1.0, spent=took)
    costs = {stage: Usage(seconds=1.0), "coder": Usage(seconds=4.0)}
    spent = {**state(GOOD), "attempts": [judged], "baseline": on_gpu, "costs": costs}
    for budget, used in (
        ("seconds=15", True),
        ("seconds=16", False),
        ("gpu_seconds=5", True),
        ("gpu_seconds=6", False),
    ):
        told = part_exhausted(spent, Context(budgets=(f"{stage}.{budget}",)), stage)
        assert told == (f"{stage}.{budget.replace('=', ' (')}) reached" if used else ""), budget
    assert part_exhausted(spent, Context(budgets=("coder.seconds=4",)), "coder") == "coder.seconds (4) reached"
    other = Context(budgets=("parallel_mapping.gpu_seconds=1",))
    assert part_exhausted(spent, other, "parallel_mapping") == ""
    with pytest.raises(BadInput, match="no role keeps a GPU at work"):
        make_context({"budgets": ("coder.gpu_seconds=5",)})


def test_entering_and_opening_a_stage():
    assert routing.enter(state(), KNOBS, STAGE) == "enter"
    assert routing.enter(state(), Context(stages=("parallel_mapping",)), STAGE) == "skip"
    assert routing.enter(state(BAD, best=False), KNOBS, STAGE) == "skip", "a seed was tried, and there is no kernel"
    assert routing.after_opening(state(), KNOBS, STAGE, paid=False) == "seed"
    assert routing.after_opening(state(), Context(stages=("parallel_mapping",)), STAGE, paid=False) == "skip"
    assert routing.after_opening(state(GOOD), KNOBS, STAGE, paid=False) == "optimize"
    assert routing.after_opening(state(GOOD), Context(max_optimizations=0), STAGE, paid=False) == "tune"
    assert routing.after_opening(state(GOOD), Context(max_attempts=1), STAGE, paid=False) == "exhausted"


CLOCKED = Baseline(task="t", eager_ms=1.0)


def test_nobody_is_paid_to_tune_what_nothing_times():
    given = state(("seed", "correct", "algorithmic_structure"))
    routes = {
        "free": routing.after_opening(given, KNOBS, STAGE, paid=False),
        "asked for": routing.after_opening(given, Context(tune_untimed=True), STAGE, paid=True),
        "timed": routing.after_opening({**given, "baseline": CLOCKED}, KNOBS, STAGE, paid=True),
        "structure": routing.after_opening(given, KNOBS, "algorithmic_structure", paid=True),
        "seed": routing.after_opening(state(), KNOBS, STAGE, paid=True),
        "paid": routing.after_opening(given, KNOBS, STAGE, paid=True),
    }
    assert routes == dict.fromkeys(("free", "asked for", "timed", "structure"), "optimize") | {
        "seed": "seed", "paid": "skip",
    }  # fmt: skip
    assert routing.after_evaluation(state(GOOD), KNOBS, STAGE, paid=True) == "accept"
    assert routing.after_evaluation(state(BAD), KNOBS, STAGE, paid=True) == "repair"


def test_every_route_has_a_node_to_go_to():
    """An unknown target would end a run without a word."""
    builder = build_egg_graph(evaluator=ScriptedEvaluator()).builder
    branches = {"baseline": routing.after_baseline, "algorithmic_structure.close": routing.after_structure}
    for stage in get_args(StageName):
        branches |= {
            f"{stage}.open": routing.after_opening,
            f"{stage}.analyst": routing.after_analysis,
            f"{stage}.coder": routing.after_coder,
            f"{stage}.evaluator": routing.after_evaluator,
            f"{stage}.rank": routing.after_evaluation,
        }
    assert builder.branches.keys() == branches.keys()
    for node, function in branches.items():
        (branch,) = builder.branches[node].values()
        assert set(branch.ends) == set(get_args(get_type_hints(function)["return"])), node
        assert set(branch.ends.values()) <= {*builder.nodes, "__end__"}, node


def test_the_names_of_the_steps_are_those_of_the_graph():
    assert list(build_egg_graph(evaluator=ScriptedEvaluator()).builder.nodes) == list(all_nodes())
