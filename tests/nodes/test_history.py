"""The history of a run as chains: what an accepted repair, a failure seen before and a worn-out diagnosis become."""

from functools import cache

from egg_graph import Context, build_egg_graph
from egg_graph.nodes.briefing import debugger_brief, known_attempts
from egg_graph.nodes.history import STEPS, read_chains, right_ancestor
from egg_graph.nodes.improvement import acceptance_rule
from egg_graph.stages import ALGORITHMIC_STRUCTURE, PARALLEL_MAPPING
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

SCRIPT = (
    *(kernel("ok", 9), kernel("bad", 1), kernel("ok", 8)),  # a seed; a plan, broken, repaired, better
    *(kernel("bad", 2), kernel("bad", 3), kernel("bad", 4)),  # a plan whose repairs all failed in the same way
    *(kernel("ok", 8.5),),  # a plan that was right and no better
)


@cache
def run():
    team = ScriptedTeam(SCRIPT, [True, True, True, False])
    knobs = Context(target="h100", stages=("algorithmic_structure", "parallel_mapping"), max_repairs=2, tune=False)
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    return graph.invoke({"reference": REFERENCE}, context=knobs), tuple(team.briefs)


def briefs(role, stage="algorithmic_structure"):
    return [brief for other, brief in run()[1] if other == role and brief.stage == stage]


def test_a_plan_that_was_accepted_after_a_repair_is_no_dead_end():
    """Attempt 2's plan is what the accepted attempt 3 implements."""
    brief = briefs("analyst")[1]
    seed, fusion = brief.chains
    assert (fusion.plan, fusion.numbers, fusion.outcome, fusion.best) == ("plan 1", "attempts 2, 3", "improved", True)
    assert [step.change for step in fusion.steps] == ["plan 1", "mend 1"]
    assert seed.outcome == "improved" and not seed.best and brief.dead_ends == ()


def test_an_outcome_is_told_by_what_was_measured_against_the_best_kernel_before():
    (delta,) = briefs("analyst")[1].chains[1].deltas
    assert (delta.metric, delta.before, delta.after) == ("bound_ms", 9, 8)
    assert delta.percent is not None and round(delta.percent, 1) == -11.1


def test_the_chain_under_repair_is_no_dead_end_and_a_finished_one_is():
    during = briefs("debugger")[-1]
    assert during.at_hand is not None and during.at_hand.plan == "plan 2" and during.dead_ends == ()
    after = briefs("analyst", "parallel_mapping")[0].summaries[0]
    assert [line.partition(" (")[0] for line in after.failed] == ["attempts 4, 5, 6"]
    assert [line.partition(" (")[0] for line in after.paid] == ["attempt 1", "attempts 2, 3"]
    assert "plan 1 (repaired once) -> bound_ms 9 to 8" in after.paid[1]


def test_the_same_failure_is_told_once():
    chain = read_chains(run()[0]["attempts"], None, "algorithmic_structure")[2]
    assert [(step.same_as, step.times) for step in chain.steps] == [(2, 2), (2, 3), (2, 4)]


def test_of_a_long_chain_the_first_attempt_and_the_last_ones_are_told():
    first = run()[0]["attempts"][3]
    more = [
        first.model_copy(update={"number": n, "candidate": first.candidate.model_copy(update={"mode": "repair"})})
        for n in range(5, 60)
    ]
    (chain,) = read_chains([first, *more], None, "algorithmic_structure")
    assert (chain.attempts, len(chain.steps), chain.numbers) == (56, STEPS, "56 attempts from 4 to 59")
    assert (chain.steps[-1].same_as, chain.steps[-1].times) == (4, STEPS)


def test_the_contender_is_no_chain_and_what_it_measured_counts():
    first, second = (a.model_copy(update={"number": n}) for n, a in enumerate(run()[0]["attempts"][:3:2]))
    second = second.model_copy(update={"candidate": second.candidate.model_copy(update={"mode": "seed"})})
    (chain,) = read_chains([first, second], None, "algorithmic_structure")
    assert (chain.numbers, chain.deltas[0].before, chain.deltas[0].after) == ("attempt 1", 9, 8)


def test_a_plan_that_no_clock_could_decide_is_no_dead_end():
    attempt = run()[0]["attempts"][-1].model_copy(update={"undecided": True, "number": 1})
    (chain,) = read_chains([attempt], None, attempt.candidate.stage)
    assert chain.outcome == "undecided"
    brief = briefs("analyst")[0].model_copy(update={"chains": (chain,)})
    assert brief.dead_ends == ()


def test_a_diagnosis_that_worked_is_not_told_to_the_next_debugger():
    first, second, third = (brief.diagnosis and brief.diagnosis.modification_plan for brief in briefs("debugger"))
    assert (first, second, third) == (None, None, "mend 2")


def test_a_diagnosis_of_a_plan_that_was_given_up_is_not_told_to_the_debugger_of_the_next_plan():
    given_up = (kernel("bad", 1), kernel("bad", 2))
    team = ScriptedTeam([kernel("ok", 9), *given_up, kernel("bad", 3), kernel("ok", 8)])
    knobs = Context(target="h100", stages=("algorithmic_structure",), max_repairs=1, max_optimizations=2)
    state = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=()).invoke(
        {"reference": REFERENCE}, context=knobs
    )
    modes = [attempt.candidate.mode for attempt in state["attempts"]]
    assert modes == ["seed", "optimize", "repair", "optimize", "repair"]
    assert [brief.diagnosis for role, brief in team.briefs if role == "debugger"] == [None, None]


def test_a_broken_kernel_is_held_against_the_last_right_one_it_came_from():
    attempts = run()[0]["attempts"]
    assert [briefs("debugger")[n].origin.number for n in range(3)] == [1, 3, 3]
    assert right_ancestor(attempts[0], attempts) is None
    wrong_twice = ScriptedTeam([kernel("bad", 1), kernel("bad", 2), kernel("ok")])
    build_egg_graph(team=wrong_twice, evaluator=ScriptedEvaluator()).invoke(
        {"reference": REFERENCE}, context=Context(target="h100", stages=("algorithmic_structure",), max_optimizations=0)
    )
    origins = [brief.origin and brief.origin.number for role, brief in wrong_twice.briefs if role == "debugger"]
    assert origins == [None, 1], "where no ancestor was right, the kernel that was repaired"


def test_everybody_is_told_the_acceptance_rule_and_what_is_left():
    for _, brief in run()[1]:
        assert "accepted only if its answers are right" in brief.ranked_by and "Nothing is timed" in brief.ranked_by
    told = acceptance_rule(True, "faster")
    assert "a gain of 1% or less does not count" in told and "At the end PyTorch stays" in told
    assert "PyTorch" not in acceptance_rule(True, "right")
    left = [(b.remaining.attempts, b.remaining.optimizations, b.remaining.repairs) for b in briefs("debugger")]
    assert left == [(22, 1, 2), (20, 0, 2), (19, 0, 1)]
    assert briefs("analyst")[1].remaining.repairs == 2, "repairs of a kernel that is mended do not count"


def test_a_stage_without_inter_stage_context_learns_from_its_own_attempts_alone():
    state = run()[0]
    knobs = Context(target="h100", inter_stage_context=False)
    assert [attempt.number for attempt in known_attempts(state, PARALLEL_MAPPING, knobs)] == [7]
    assert known_attempts(state, PARALLEL_MAPPING, Context(target="h100")) == state["attempts"]
    brief = debugger_brief(state, ALGORITHMIC_STRUCTURE, knobs)
    assert brief.summaries == () and brief.attempt == 8, "its number is the run's all the same"


def test_limits_that_a_run_was_given_are_told_with_what_is_left_of_them():
    state = run()[0]
    given = Context(target="h100", max_calls=100, max_dollars=2.5)
    told = debugger_brief(state, ALGORITHMIC_STRUCTURE, given).remaining
    calls = state["usage"].calls
    assert (told.calls, told.dollars, told.gpu_seconds) == (100 - calls, 2.5, None)
    assert "At most" not in briefs("debugger")[0].remaining.told


def test_metrics_that_were_measured_are_named():
    assert briefs("analyst")[0].measurable == ("bound_ms", "launches", "dram_bytes")
