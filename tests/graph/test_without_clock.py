"""Runs in which no GPU times a kernel: what ranks kernels there, and what is not paid for."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.schema import STAGE_METRICS, KernelResources
from tests.graph.scripted import FLOOR, REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

STAGES = tuple(STAGE_METRICS)
OTHERS = STAGES[1:]


def go(team, evaluator=None, **knobs):
    graph = build_egg_graph(team=team, evaluator=evaluator or ScriptedEvaluator(), principles=())
    return graph.invoke({"reference": REFERENCE}, context=Context(target="h200", expert_seed=False, **knobs))


class Compiling(ScriptedEvaluator):
    """Also tells of a compiled kernel, which spills as many bytes as its source says."""

    def _right(self, task, candidate, word, number):
        spilled = int(candidate.source.partition("spill = ")[2] or 0)
        compiled = KernelResources(
            kernel="tile",
            target="sm_90",
            grid=(200, 2),
            num_warps=8,
            num_stages=3,
            registers=255,
            spill_bytes=spilled,
            shared_bytes=100_000,
            shared_limit=232_448,
        )
        return super()._right(task, candidate, word, number).model_copy(update={"resources": (compiled,)})


# what ranks kernels


def test_a_bound_below_the_floor_wins_nothing():
    state = go(ScriptedTeam([kernel("ok", FLOOR), kernel("ok", FLOOR / 2)]), max_optimizations=1)
    assert state["kernel"] == kernel("ok", FLOOR)


def test_the_tuner_does_not_choose_a_bound_below_the_floor():
    team = ScriptedTeam([tunable("ok", FLOOR, STAGES[0], [FLOOR / 2, 2 * FLOOR])], worth=[False])
    evaluator = ScriptedEvaluator()
    state = go(team, evaluator)
    assert evaluator.screened == [3] and [a.candidate.mode for a in state["attempts"]] == ["seed"]


@pytest.mark.parametrize(
    ("source", "undecided"), [(kernel("ok", 1, "wide"), True), (kernel("ok", 2), False), (kernel("bad"), False)]
)
def test_what_no_clock_could_decide_is_no_dead_end(source, undecided):
    team = ScriptedTeam([kernel("ok", 1), source, kernel("ok", 3)])
    state = go(team, max_repairs=0, stages=STAGES[:1])
    assert [a.undecided for a in state["attempts"][:2]] == [False, undecided]
    analyst = [brief for role, brief in team.briefs if role == "analyst"][1]
    assert len(analyst.dead_ends) == (0 if undecided else 1)
    assert len(state["summaries"][0].failed) == (1 if undecided else 2)


def test_a_small_spill_decides_nothing_and_a_large_one_does():
    small, large = kernel("ok", 1, "spill = 8"), kernel("ok", 1, "spill = 800")
    state = go(ScriptedTeam([kernel("ok", 1), small, large]), Compiling(), stages=STAGES[:1])
    assert [a.undecided for a in state["attempts"]] == [False, True, False]
    assert go(ScriptedTeam([large, small]), Compiling(), max_optimizations=1)["kernel"] == small


def test_the_roles_are_told_what_ranks_kernels():
    team = ScriptedTeam([kernel("ok", 1)], worth=[False])
    go(team)
    assert "Nothing is timed here" in team.briefs[0][1].ranked_by and "64 byte" in team.briefs[0][1].ranked_by
    team = ScriptedTeam([kernel("timed", 1)], worth=[False])
    go(team)
    assert "measured median time" in team.briefs[-1][1].ranked_by


# what is not paid for


def events_of(team, **knobs):
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    context = Context(target="h200", expert_seed=False, **knobs)
    parts = graph.stream({"reference": REFERENCE}, context=context, stream_mode=["custom", "values"])
    told = [(mode, part) for mode, part in parts]
    return [part for mode, part in told if mode == "custom"], told[-1][1] if told[-1][0] == "values" else None


def test_hardware_tuning_is_skipped_and_told_in_one_event():
    team = ScriptedTeam([tunable("ok", 8, STAGES[2], [8, 4])], calls_models=True)
    events, state = events_of(team)
    assert {brief.stage for _, brief in team.briefs} == {STAGES[0]}
    (skipped,) = [event for event in events if event.get("status") == "skipped"]
    assert skipped["stage"] == STAGES[1] and "tune_untimed" in skipped["reason"]
    assert not [event for event in events if event.get("stage") in OTHERS and event is not skipped]
    assert {s.stage: s.outcome for s in state["summaries"]} == {STAGES[0]: "improved"} | dict.fromkeys(
        OTHERS, "skipped"
    )
    assert state["status"] == "correct" and "hardware tuning was skipped" in state["verdict"]


@pytest.mark.parametrize(
    ("calls_models", "clock", "knobs"), [(True, False, {"tune_untimed": True}), (False, False, {}), (True, True, {})]
)
def test_it_is_done_where_it_is_asked_for_free_or_timed(calls_models, clock, knobs):
    team = ScriptedTeam([kernel("ok", 8)], calls_models=calls_models)
    go(team, ScriptedEvaluator(clock=clock), **knobs)
    assert {brief.stage for _, brief in team.briefs} == set(STAGES)


def test_a_tuning_stage_that_has_to_write_the_seed_stops_at_it():
    team = ScriptedTeam([kernel("bad"), kernel("ok", 8)], calls_models=True)
    state = go(team, stages=OTHERS[:2])
    assert team.calls() == ["coder", "debugger", "coder"]
    assert [s.outcome for s in state["summaries"]] == ["improved", "skipped"]


def test_nobody_is_paid_for_a_plan_where_no_kernel_could_rank_higher():
    team = ScriptedTeam([kernel("bad"), kernel("ok", FLOOR)], calls_models=True)
    state = go(team)
    assert team.calls() == ["coder", "debugger", "coder"]
    assert "by its bound the kernel takes no longer than the task's floor" in state["summaries"][0].left
    assert "no further optimization was planned: nothing that could be shown" in state["verdict"]


@pytest.mark.parametrize(
    ("calls_models", "source", "knobs"),
    [
        (True, kernel("ok", FLOOR), {"tune_untimed": True}),
        (False, kernel("ok", FLOOR), {}),
        (True, kernel("ok", 2 * FLOOR), {}),
        (True, kernel("ok", FLOOR, "spill = 800"), {}),
    ],
)
def test_a_plan_is_made_where_it_is_asked_for_free_or_could_rank_higher(calls_models, source, knobs):
    team = ScriptedTeam([source], calls_models=calls_models)
    go(team, Compiling(), stages=STAGES[:1], **knobs)
    assert "analyst" in team.calls()
