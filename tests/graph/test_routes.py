"""Every route of the whole graph, with a scripted team and a scripted evaluator."""

from functools import partial
from typing import get_args

import pytest

from egg_graph import BadInput, Context, InfrastructureError, build_egg_graph
from egg_graph.budgets import gpu_seconds
from egg_graph.context import ATTEMPTS_CEILING, recursion_limit
from egg_graph.schema import Draft, Spending, StageName, Usage
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

STAGES = get_args(StageName)
OTHERS = STAGES[1:]


def go(team, evaluator=None, **knobs):
    evaluator = evaluator or ScriptedEvaluator()
    graph = build_egg_graph(team=team, evaluator=evaluator, principles=())
    return graph.invoke({"reference": REFERENCE}, context=Context(target="h100", **knobs))


def modes(state, stage=None):
    return [a.candidate.mode for a in state["attempts"] if stage in (None, a.candidate.stage)]


def outcomes(state):
    return {s.stage: s.outcome for s in state["summaries"]}


# repair, optimize, accept: in each stage


def test_a_right_seed_is_accepted_when_no_analyst_sees_more():
    team = ScriptedTeam([kernel("ok", 3)], worth=[False])
    state = go(team)
    assert team.calls() == ["coder", *["analyst"] * 4]
    assert (state["status"], state["kernel"], modes(state)) == ("correct", kernel("ok", 3), ["seed"])
    assert outcomes(state) == {STAGES[0]: "improved"} | dict.fromkeys(OTHERS, "not_worth_optimizing")


@pytest.mark.parametrize("stage", STAGES)
def test_repair_in_each_stage(stage):
    first = stage == STAGES[0]
    team = ScriptedTeam([*([] if first else [kernel("ok", 9)]), kernel("bad"), kernel("ok", 2)], [first, True])
    state = go(team, stages=(STAGES[0], stage), max_optimizations=1)
    assert modes(state, stage)[:2] == (["seed", "repair"] if first else ["optimize", "repair"])
    repaired = next(a for a in state["attempts"] if a.candidate.mode == "repair")
    broken = state["attempts"][repaired.number - 2]
    assert repaired.candidate.parent == broken.candidate.id
    assert repaired.diagnosis.modification_plan == repaired.candidate.plan == "mend 1"
    assert repaired.improved and not broken.improved
    assert outcomes(state)[stage] == "improved"


@pytest.mark.parametrize("stage", STAGES)
def test_optimize_then_accept_in_each_stage(stage):
    team = ScriptedTeam([kernel("ok", 9), kernel("ok", 8), kernel("ok", 7), kernel("ok", 6)])
    state = go(team, stages=(stage,), max_optimizations=2)
    assert modes(state) == ["seed", "optimize", "optimize"]
    assert team.calls() == ["coder", "analyst", "coder", "analyst", "coder"]
    assert state["kernel"] == kernel("ok", 7)
    assert state["attempts"][1].candidate.plan == "plan 1"
    assert outcomes(state) == {stage: "improved"}


@pytest.mark.parametrize("stage", OTHERS)
def test_not_worth_optimizing_closes_the_stage(stage):
    team = ScriptedTeam([kernel("ok", 9), kernel("ok", 8)], worth=[False])
    state = go(team, stages=(STAGES[0], stage))
    assert modes(state, stage) == []
    assert outcomes(state)[stage] == "not_worth_optimizing"
    assert next(s for s in state["summaries"] if s.stage == stage).left == "dram"


@pytest.mark.parametrize("word", ["bad", "broken", "crash", "hang", "cheat"])
def test_every_kind_of_failure_is_repaired(word):
    state = go(ScriptedTeam([kernel(word), kernel("ok")], worth=[False]))
    assert modes(state) == ["seed", "repair"]
    assert state["status"] == "correct"


def test_a_candidate_beyond_mending_is_given_up_and_the_next_optimization_starts_from_the_best():
    team = ScriptedTeam([kernel("ok", 9), kernel("bad", 1), kernel("bad", 2), kernel("bad", 3), kernel("ok", 4)])
    state = go(team, stages=STAGES[:1], max_repairs=2, max_optimizations=2)
    assert modes(state) == ["seed", "optimize", "repair", "repair", "optimize"]
    assert state["attempts"][-1].candidate.parent == state["attempts"][0].candidate.id
    assert state["kernel"] == kernel("ok", 4)


# budgets


def test_all_attempts_failed_keeps_the_reference_and_says_so():
    state = go(ScriptedTeam([kernel("bad", n) for n in range(9)]), max_repairs=3)
    assert (state["status"], state["kernel"], state["best"]) == ("reference_kept", "", None)
    assert modes(state) == ["seed", "repair", "repair", "repair"]
    assert outcomes(state) == {STAGES[0]: "all_failed"}
    assert state["verdict"].startswith("The reference is kept: none of 4 attempts gave a usable kernel")
    assert "attempt 4: incorrect: bad kernel" in state["verdict"]


@pytest.mark.parametrize("word", ["bad", "ok"])
@pytest.mark.parametrize("worth", [True, False])
def test_a_team_that_never_changes_ends(word, worth):
    knobs = {"max_attempts": 50, "max_repairs": 20, "max_optimizations": 20}
    state = go(ScriptedTeam([kernel(word)], worth=[worth]), **knobs)
    assert len(state["attempts"]) <= 50
    assert state["status"] == ("correct" if word == "ok" else "reference_kept")


def test_a_model_that_is_wrong_in_ever_new_ways_ends_at_the_largest_budget_there_is(monkeypatch):
    """And the recursion limit, which grows with that budget, does not end it before; both are a tenth here."""
    most = ATTEMPTS_CEILING // 10
    monkeypatch.setattr("egg_graph.steering.compiled.recursion_limit", partial(recursion_limit, most))
    state = go(ScriptedTeam([kernel("bad", n) for n in range(most + 9)]), max_attempts=most, max_repairs=most)
    assert len(state["attempts"]) == most
    assert state["status"] == "reference_kept" and f"max_attempts ({most}) reached" in state["verdict"]


def test_attempts_run_out_and_the_best_is_kept():
    team = ScriptedTeam([kernel("ok", 9), kernel("bad"), kernel("ok", 1)])
    state = go(team, max_attempts=2)
    assert modes(state) == ["seed", "optimize"]
    assert state["kernel"] == kernel("ok", 9)
    assert outcomes(state) == {STAGES[0]: "improved"} | dict.fromkeys(OTHERS, "budget_exhausted")
    assert "max_attempts (2) reached" in state["verdict"]


def test_tokens_run_out():
    team = ScriptedTeam(
        [kernel("ok", n) for n in range(9, 0, -1)], usage=Usage(calls=1, input_tokens=400, output_tokens=100)
    )
    state = go(team, max_tokens=1200)
    assert state["usage"].input_tokens + state["usage"].output_tokens == 1500
    assert modes(state) == ["seed", "optimize"] and "max_tokens" in state["verdict"]


def test_no_limit_of_tokens():
    team = ScriptedTeam([kernel("ok", 1)], usage=Usage(calls=1, input_tokens=10**9))
    assert len(go(team, max_tokens=0)["attempts"]) > 1


def test_seconds_run_out():
    state = go(ScriptedTeam([kernel("bad", n) for n in range(9)]), max_seconds=1e-9)
    assert state["attempts"] == [] and "max_seconds" in state["verdict"]
    assert state["status"] == "reference_kept"


class OnGpu(ScriptedEvaluator):
    """Says of each answer, a trial of a sweep included, that its GPU was at work for 2 s, beside 30 s of compiling."""

    TOOK = Spending(seconds={"correctness": 0.5, "timing": 1.5, "compile": 30.0})

    def baseline(self, task):
        return super().baseline(task).model_copy(update={"spent": self.TOOK})

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        judged = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        return judged.model_copy(update={"spent": self.TOOK})

    def screen(self, task, candidates):
        return tuple(trial.model_copy(update={"spent": self.TOOK}) for trial in super().screen(task, candidates))


def test_seconds_of_the_gpu_run_out():
    team = ScriptedTeam([kernel("timed", n) for n in range(9, 0, -1)])
    state = go(team, OnGpu(clock=True), max_optimizations=9, max_gpu_seconds=7.5)
    assert modes(state) == ["seed", "optimize", "optimize"], "2 s for the baseline and for each kernel"
    assert gpu_seconds(state) == 8.0 and state["kernel"] == kernel("timed", 7)
    assert "the run stopped early: max_gpu_seconds (7.5) reached" in state["verdict"]
    assert [brief.remaining.gpu_seconds for _, brief in team.briefs] == [5.5, 3.5, 3.5, 1.5, 1.5]


def test_a_sweep_takes_seconds_of_the_gpu_and_without_one_nothing_does():
    best = tunable("timed", 3, STAGES[0], (3, 4))
    state = go(ScriptedTeam([best]), OnGpu(clock=True), max_optimizations=0, max_gpu_seconds=7.5, stages=STAGES[:2])
    assert [len(sweep.trials) for sweep in state["sweeps"]] == [2] and gpu_seconds(state) == 8.0
    state = go(ScriptedTeam([kernel("ok", n) for n in range(9, 0, -1)]), OnGpu(), max_gpu_seconds=0.1)
    assert len(state["attempts"]) > 4 and "max_gpu_seconds" not in state["verdict"]


# what is handed on


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("ok 3", "ok 2", "second"),
        ("ok 2", "ok 3", "first"),
        ("ok 2", "ok 2.0", "first"),
        ("ok 1", "timed 5", "second"),
        ("timed 5", "ok 1", "first"),
        ("timed 3", "timed 2", "second"),
        ("ok 3", "halfproven 1", "first"),
        ("halfproven 3", "ok 2", "second"),
        ("ok 3", "bad 1", "first"),
    ],
)
def test_a_worse_or_less_proven_kernel_is_never_handed_on(first, second, kept):
    sources = {"first": f"# {first}\n", "second": f"# {second}\n"}
    team = ScriptedTeam([sources["first"], sources["second"]])
    state = go(team, max_optimizations=1, max_repairs=0)
    assert state["kernel"] == sources[kept]
    later = [b for role, b in team.briefs if role == "analyst" and b.stage == STAGES[1]]
    assert later[0].kernel.source == sources[kept] and later[0].evaluation.candidate == later[0].kernel.id
    assert [a.improved for a in state["attempts"]][:2] == [True, kept == "second"]


def test_a_slower_kernel_is_told_as_slower():
    state = go(ScriptedTeam(["# slow 8\n"], worth=[False]), accept="right")
    assert state["status"] == "slower" and "Keep the reference" in state["verdict"]


NO_KERNEL = "the embedded expert has no kernel for this reference: no playbook matches any operator"


class Declining(ScriptedTeam):
    """Has no kernel for its last answers: it writes what its script holds, once each."""

    def write(self, brief):
        if self._calls("coder") >= len(self.writes):
            self.briefs.append(("coder", brief))
            return Draft(problem=NO_KERNEL, declined=NO_KERNEL)
        return super().write(brief)


def test_where_the_team_has_no_kernel_the_run_says_so_in_one_line_and_ends():
    team, evaluator = Declining([]), ScriptedEvaluator()
    state = go(team, evaluator)
    assert (state["status"], state["attempts"], evaluator.evaluated) == ("reference_kept", [], [])
    can_try = "a chat model can try: optimize --model NAME (model='NAME')"
    assert state["verdict"] == f"The reference is kept: {NO_KERNEL}; {can_try}"
    assert team.calls() == ["coder"], "asked once, and nothing is repaired that was never written"
    assert [(s.stage, s.outcome, s.left) for s in state["summaries"]] == [(STAGES[0], "no_kernel", NO_KERNEL)]


def test_where_the_last_kernel_cannot_be_repaired_the_stage_ends():
    team = Declining([kernel("bad")])
    state = go(team)
    assert [a.evaluation.status for a in state["attempts"]] == ["incorrect"]
    assert (state["status"], team.calls()) == ("reference_kept", ["coder", "debugger", "coder"])


# never twice


def test_the_same_source_is_evaluated_once_in_a_run():
    evaluator = ScriptedEvaluator()
    state = go(ScriptedTeam([kernel("ok", 3)]), evaluator, max_optimizations=2)
    assert len(state["attempts"]) == 9 and len(evaluator.evaluated) == 1
    assert all(a.evaluation == state["attempts"][0].evaluation for a in state["attempts"])


def test_an_answer_without_code_is_a_failed_attempt_that_the_evaluator_never_sees():
    evaluator = ScriptedEvaluator()
    state = go(ScriptedTeam(["", kernel("ok")], worth=[False]), evaluator)
    first = state["attempts"][0].evaluation
    assert (first.status, first.findings[0].kind, first.reason) == ("compile_error", "no_code", "no code in the answer")
    assert len(evaluator.evaluated) == 1 and state["status"] == "correct"


def test_a_malformed_knob_is_dropped_and_the_kernel_judged():
    space = (
        "CONFIG = {'NUMBER': 2, 'width': None, 'idle': 1}\nprint(CONFIG['NUMBER'])\n"
        "SPACE = {'parallel_mapping': {'NUMBER': [1], 'lost': [1], 'idle': [2]}}\n"
    )
    state = go(ScriptedTeam([kernel("ok", 2, space)], worth=[False]))
    seed, tuned = state["attempts"]
    assert (seed.evaluation.status, tuned.candidate.config, state["status"]) == (
        "correct",
        {"NUMBER": 1, "idle": 1},
        "correct",
    )
    assert [line.partition(" at line")[0] for line in seed.candidate.mended] == [
        "knob dropped: CONFIG['width']",
        "knob dropped: SPACE['parallel_mapping']['lost']",
        "knob dropped: SPACE['parallel_mapping']['idle'] turns a knob that the module never reads (of CONFIG it reads "
        "NUMBER)",
    ]


def test_a_source_that_does_not_parse_is_the_evaluators_to_judge():
    evaluator = ScriptedEvaluator()
    state = go(ScriptedTeam(["# broken 1\ndef (", kernel("ok")], worth=[False]), evaluator)
    assert state["attempts"][0].evaluation.reason == "broken kernel" and len(evaluator.evaluated) == 2


# the problem and the machine


def test_an_unevaluable_reference_costs_no_attempt():
    team = ScriptedTeam([kernel("ok")])
    state = go(team, ScriptedEvaluator(unevaluable="it contradicts itself"))
    assert team.calls() == [] and state["attempts"] == []
    assert state["status"] == "unevaluable" and "it contradicts itself" in state["verdict"]


def test_a_problem_that_turns_out_unevaluable_is_not_repaired():
    state = go(ScriptedTeam([kernel("unevaluable")]))
    assert modes(state) == ["seed"] and outcomes(state) == {STAGES[0]: "unevaluable"}
    assert state["status"] == "reference_kept"


@pytest.mark.parametrize("raises", [True, False])
def test_infrastructure_faults_are_retried_and_never_count_against_the_kernel(raises):
    evaluator = ScriptedEvaluator(faults=1, raises=raises)
    state = go(ScriptedTeam([kernel("ok")], worth=[False]), evaluator)
    assert [a.evaluation.status for a in state["attempts"]] == ["correct"]


def test_infrastructure_that_stays_broken_raises(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(InfrastructureError, match="the GPU is busy"):
        go(ScriptedTeam([kernel("ok")]), ScriptedEvaluator(faults=99, raises=False))


def test_the_same_answer_without_code_is_not_asked_for_a_third_time():
    state = go(ScriptedTeam([""]), max_repairs=5)
    assert modes(state) == ["seed", "repair"] and state["status"] == "reference_kept"


# the tuner


@pytest.mark.parametrize("stage", STAGES)
def test_the_tuner_sweeps_the_knobs_of_its_stage_and_bakes_the_winner(stage):
    evaluator = ScriptedEvaluator()
    team = ScriptedTeam([tunable("ok", 8, stage, [8, 4, 6])], worth=[False])
    state = go(team, evaluator)
    assert evaluator.screened == [3] and modes(state) == ["seed", "tune"]
    tuned = state["attempts"][1]
    assert (tuned.candidate.stage, tuned.candidate.config, tuned.improved) == (stage, {"NUMBER": 4}, True)
    assert tuned.candidate.author == "tuner" and tuned.candidate.plan == "NUMBER 8 -> 4"
    assert state["kernel"] == "# ok 8\nprint(4)\n", "plain constants in the end"
    assert state["best"].parent == tuned.candidate.id and state["evaluation"].candidate == state["best"].id


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_plan_that_only_turns_knobs_needs_no_coder_and_is_held_against_what_the_sweep_gave(stage):
    evaluator = ScriptedEvaluator()
    team = ScriptedTeam([tunable("ok", 8, stage, [8, 4, 6])], by="sweep")
    state = go(team, evaluator, stages=(STAGES[0], stage), max_optimizations=1)
    assert modes(state, stage) == ["tune"] and team.calls().count("coder") == 1
    tuned = state["attempts"][-1]
    assert tuned.analysis is not None and tuned.analysis.by == "sweep" and tuned.usage.calls == 1
    assert tuned.effect is not None and tuned.effect.held is True


def test_values_that_the_analyst_chose_cost_no_answer_of_the_coder():
    team = ScriptedTeam([tunable("ok", 8, STAGES[1], [8])], by="config", config={"NUMBER": 3})
    state = go(team, stages=STAGES[:1], max_optimizations=1)
    turned = state["attempts"][1]
    assert team.calls() == ["coder", "analyst"] and modes(state) == ["seed", "optimize"]
    assert (turned.candidate.author, turned.candidate.config, turned.improved) == ("tuner", {"NUMBER": 3}, True)
    assert turned.candidate.source == state["attempts"][0].candidate.source.replace("{'NUMBER': 8}", "{'NUMBER': 3}")
    assert turned.candidate.plan == "NUMBER 8 -> 3: plan 1"
    assert turned.usage.calls == 1 and turned.effect.held is True


def test_values_that_fail_are_not_repaired_because_the_kernel_before_is_still_the_best():
    class Narrow(ScriptedEvaluator):
        def evaluate(self, task, candidate, *, stage=None, finalist=False):
            if candidate.config.get("NUMBER") == 3:
                return self._evaluation(task, candidate, status="out_of_memory", reason="shared memory")
            return super().evaluate(task, candidate, stage=stage)

    team = ScriptedTeam([tunable("ok", 8, STAGES[1], [8])], by="config", config={"NUMBER": 3})
    state = go(team, Narrow(), stages=STAGES[:1], max_optimizations=2)
    assert team.calls() == ["coder", "analyst", "analyst"] and modes(state) == ["seed", "optimize", "optimize"]
    assert state["best"].config == {"NUMBER": 8} and state["status"] == "correct"


def test_a_knob_that_the_kernel_lacks_cannot_be_turned():
    team = ScriptedTeam([tunable("ok", 8, STAGES[1], [8])], by="config", config={"WIDTH": 3})
    state = go(team, stages=STAGES[:1])
    assert team.calls() == ["coder", "analyst"] and modes(state) == ["seed"]
    assert "cannot bake 'WIDTH': CONFIG has NUMBER" in state["summaries"][0].left


def test_later_roles_see_what_a_sweep_tried():
    team = ScriptedTeam([tunable("ok", 8, STAGES[1], [8, 4, 6])], worth=[False])
    state = go(team, stages=STAGES[1:3])
    (sweep,) = state["sweeps"]
    assert (sweep.stage, sweep.kernel, sweep.knobs) == (
        STAGES[1],
        state["attempts"][0].candidate.id,
        {"NUMBER": (8, 4, 6)},
    )
    assert [t.config["NUMBER"] for t in sweep.trials] == [8, 4, 6] and sweep.possible == 3
    assert [t.config["NUMBER"] for t in sweep.usable] == [4, 6, 8] and sweep.winner == {"NUMBER": 4}
    assert [brief.sweeps for _, brief in team.briefs] == [(), (), (sweep,)]


def test_the_text_with_its_config_stays_should_plain_constants_fail():
    class Picky(ScriptedEvaluator):
        def evaluate(self, task, candidate, *, stage=None, finalist=False):
            if "CONFIG" in candidate.source:
                return super().evaluate(task, candidate, stage=stage)
            return self._evaluation(task, candidate, status="timeout", reason="took too long")

    state = go(ScriptedTeam([tunable("ok", 8, STAGES[1], [8, 4])], worth=[False]), Picky())
    assert "CONFIG" in state["kernel"] and state["status"] == "correct" and state["best"].config == {"NUMBER": 4}
    assert "CONFIG is left in place: with plain constants timeout: took too long" in state["verdict"]


def test_the_current_configuration_costs_no_evaluation_when_it_wins():
    evaluator = ScriptedEvaluator()
    team = ScriptedTeam([tunable("ok", 2, STAGES[1], [2, 4])], worth=[False])
    state = go(team, evaluator)
    assert modes(state) == ["seed"] and evaluator.screened == [2]


@pytest.mark.parametrize("knobs", [{"tune": False}, {"max_configs": 1}, {"max_attempts": 1}])
def test_no_sweep_where_the_knobs_or_the_budget_forbid_it(knobs):
    evaluator = ScriptedEvaluator()
    go(ScriptedTeam([tunable("ok", 8, STAGES[1], [8, 4])], worth=[False]), evaluator, **knobs)
    assert evaluator.screened == []


def test_a_sweep_is_as_wide_as_its_limit():
    evaluator = ScriptedEvaluator()
    go(ScriptedTeam([tunable("ok", 50, STAGES[1], range(1, 40))], worth=[False]), evaluator, max_configs=3)
    assert evaluator.screened == [3]


def test_without_a_clock_a_sweep_stays_small():
    evaluator = ScriptedEvaluator()
    go(ScriptedTeam([tunable("ok", 50, STAGES[1], range(1, 40))], worth=[False]), evaluator, max_configs=12)
    assert evaluator.screened == [4]


TWO_KNOBS = kernel("timed", 3.0) + (
    'CONFIG = {"NUMBER": 3.0, "warps": 4}\n'
    'SPACE = {"tensor_tiling": {"NUMBER": [2.0]}, "parallel_mapping": {"warps": [8]}}\n'
    'print(CONFIG["NUMBER"], CONFIG["warps"])\n'
)


@pytest.mark.parametrize(
    ("one_sweep", "clock", "sweep", "screened"),
    [
        (True, True, "auto", [3]),
        (True, False, "auto", [2, 2]),
        (False, True, "auto", [2, 2]),
        (True, True, "stage", [2, 2]),
    ],
)
def test_a_team_that_only_sweeps_later_has_all_knobs_swept_at_once_where_a_clock_ranks_them(
    one_sweep, clock, sweep, screened
):
    evaluator = ScriptedEvaluator(clock=clock)
    team = ScriptedTeam([TWO_KNOBS if clock else TWO_KNOBS.replace("timed", "ok")], worth=[False])
    team.one_sweep = one_sweep
    state = go(team, evaluator, sweep=sweep)
    assert evaluator.screened == screened and modes(state) == ["seed", "tune"]
    assert state["best"].config == {"NUMBER": 2.0, "warps": 4}
    stages = [each.stage for each in state["sweeps"]]
    assert stages == ([STAGES[0]] if screened == [3] else ["parallel_mapping", "tensor_tiling"])
    assert not any(summary.cut_short for summary in state["summaries"])


class EveryKnobCounts(ScriptedEvaluator):
    """A kernel takes the sum of its knobs [ms]."""

    def _right(self, task, candidate, word, number):
        return super()._right(task, candidate, word, float(sum(candidate.config.values())))


@pytest.mark.parametrize(
    ("values", "screened", "best"),
    [
        ({"a": [4, 3], "b": [4, 2, 5], "c": [4, 6]}, [5, 2], {"a": 3, "b": 2, "c": 4}),
        ({"a": [4, 3], "b": [4, 2], "c": [4, 1]}, [4, 5], {"a": 3, "b": 2, "c": 1}),
        ({"a": [4, 3], "b": [4, 5]}, [3], {"a": 3, "b": 4}),
    ],
)
def test_one_sweep_turns_each_knob_alone_and_then_joins_what_paid(values, screened, best):
    config = dict.fromkeys(values, 4)
    text = f"CONFIG = {config}\nSPACE = {{'tensor_tiling': {values}}}\nprint({[f'CONFIG[{k!r}]' for k in values]})\n"
    text = text.replace('"', "")
    evaluator, team = EveryKnobCounts(clock=True), ScriptedTeam([kernel("timed", 3.0) + text], worth=[False])
    team.one_sweep = True
    state = go(team, evaluator)
    (sweep,) = state["sweeps"]
    assert evaluator.screened == screened and state["best"].config == best == sweep.winner
    assert len(sweep.trials) == sum(screened) - (len(screened) - 1), "the leader is screened twice and told once"
    assert modes(state) == ["seed", "tune"]


def test_a_stage_that_is_left_out_keeps_its_knobs_from_the_one_sweep():
    """Unless the knobs say `whole`; so leaving out a stage tells what its knobs are worth."""
    for sweep, screened in (("auto", [2]), ("knobs", [2]), ("whole", [4])):
        evaluator, team = ScriptedEvaluator(clock=True), ScriptedTeam([TWO_KNOBS], worth=[False])
        team.one_sweep = True
        go(team, evaluator, sweep=sweep, stages=(STAGES[0], "tensor_tiling"))
        assert evaluator.screened == screened


@pytest.mark.parametrize(("sweep", "judged"), [("whole", ["seed"]), ("stage", ["seed", "tune"])])
def test_a_winner_within_the_noise_is_not_judged_where_all_knobs_were_swept(sweep, judged):
    team = ScriptedTeam([tunable("timed", 3.0, STAGES[2], [3.0, 2.98])], worth=[False])
    state = go(team, ScriptedEvaluator(clock=True), sweep=sweep)
    assert modes(state) == judged and state["sweeps"][0].winner == {"NUMBER": 2.98}
    assert state["best"].config == {"NUMBER": 3.0}


# ablation and input


def test_stages_left_out_leave_no_trace():
    state = go(ScriptedTeam([kernel("ok", n) for n in range(9, 0, -1)]), stages=(STAGES[1], STAGES[3]))
    assert [s.stage for s in state["summaries"]] == [STAGES[1], STAGES[3]]
    assert modes(state, STAGES[1])[0] == "seed" and "seed" not in modes(state, STAGES[3])


def test_no_stage_at_all():
    state = go(ScriptedTeam([kernel("ok")]), stages=())
    assert state["status"] == "reference_kept" and "no stage was to run" in state["verdict"]


def test_no_optimization_allowed_goes_straight_to_the_tuner():
    team = ScriptedTeam([tunable("ok", 8, STAGES[2], [8, 4])])
    state = go(team, max_optimizations=0)
    assert team.calls() == ["coder"] and modes(state) == ["seed", "tune"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'reference' is missing"),
        ({"reference": "  "}, "'reference' is missing or empty"),
        ({"reference": "nowhere/at_all.py"}, "cannot read the reference nowhere/at_all.py"),
        ({"reference": "def (\n"}, r"the reference 'reference' is no Python: line 1: .*: def \("),
        ({"reference": "x = " + "-" * 100_000 + "1"}, r"the reference .reference. is no Python: \S+"),
    ],
)
def test_bad_input_is_one_clear_line(given, message):
    graph = build_egg_graph(team=ScriptedTeam([kernel("ok")]), evaluator=ScriptedEvaluator(), principles=())
    with pytest.raises(BadInput, match=message) as error:
        graph.invoke(given, context=Context(target="h100"))
    assert "\n" not in str(error.value)


def test_the_reference_may_be_a_file(tmp_path):
    path = tmp_path / "relu.py"
    path.write_text(REFERENCE)
    graph = build_egg_graph(team=ScriptedTeam([kernel("ok")], [False]), evaluator=ScriptedEvaluator(), principles=())
    state = graph.invoke({"reference": str(path)}, context=Context(target="h100", precision="bf16", triton_only=True))
    task = state["task"]
    assert (task.name, task.reference, task.precision, task.triton_only) == ("relu", REFERENCE, "bf16", True)
    assert task.target.key == "h100"


def test_an_unknown_target_is_refused_with_those_there_are():
    with pytest.raises(BadInput, match="h100"):
        graph = build_egg_graph(team=ScriptedTeam([kernel("ok")]), evaluator=ScriptedEvaluator(), principles=())
        graph.invoke({"reference": REFERENCE}, context=Context(target="voodoo5"))
