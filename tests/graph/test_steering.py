"""A person pauses a run, reads it, edits it, hands something in, resumes it, and forks it from an earlier step."""

import asyncio
import json
import warnings
from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from egg_graph import BadInput, Context, InfrastructureError, build_egg_graph, checkpoint_serde, egg_graph_builder
from egg_graph.state import InputState, OutputState
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, StatelessTeam, kernel, tunable

CONFIG = {"configurable": {"thread_id": "one"}}
INPUT = {"reference": REFERENCE}
CONTEXT = Context(target="h100", max_optimizations=1, stages=("algorithmic_structure", "tensor_tiling"))
SCRIPT = [kernel("ok", 9), kernel("ok", 8), kernel("ok", 7)]
FIRST = "algorithmic_structure"


class Session:
    """A graph with a script and a thread."""

    def __init__(self, script=SCRIPT, worth=(True,), team=ScriptedTeam, **options):
        self.team, self.evaluator = team(script, worth), ScriptedEvaluator()
        parts = {"team": self.team, "evaluator": self.evaluator, "principles": ()}
        self.graph = build_egg_graph(**parts, checkpointer=InMemorySaver(serde=checkpoint_serde()), **options)

    def start(self, given=INPUT, context=CONTEXT, **pauses):
        return self.graph.invoke(given, CONFIG, context=context, **pauses)

    def go_on(self, **options):
        return self.graph.invoke(None, CONFIG, **options)

    def at(self):
        return self.graph.get_state(CONFIG).next

    def values(self):
        return self.graph.get_state(CONFIG).values


def as_json(value):
    return json.loads(value.model_dump_json())


# pauses


@pytest.mark.parametrize("where", ["build", "run"])
def test_a_pause_before_a_step_comes_in_every_stage(where):
    pauses = {"interrupt_before": ["evaluator"]}
    session = Session(**(pauses if where == "build" else {}))
    session.start(**({} if where == "build" else pauses))
    stops = [session.at()]
    while session.at():
        session.go_on(**({} if where == "build" else pauses))
        stops.append(session.at())
    assert stops == [(f"{FIRST}.evaluator",)] * 2 + [("tensor_tiling.evaluator",), ()]
    assert session.values()["status"] == "correct"


@pytest.mark.parametrize(
    ("pauses", "stop"),
    [
        ({"interrupt_before": ["tensor_tiling.coder"]}, "tensor_tiling.coder"),
        ({"interrupt_after": ["tensor_tiling.analyst"]}, "tensor_tiling.coder"),
        ({"interrupt_before": ["tensor_tiling"]}, "tensor_tiling.open"),
        ({"interrupt_after": [FIRST]}, "parallel_mapping.open"),
        ({"interrupt_before": "conclude"}, "conclude"),
        ({"interrupt_before": "*"}, "prepare"),
    ],
)
def test_a_pause_at_one_step_or_stage(pauses, stop):
    session = Session()
    session.start(**pauses)
    assert session.at() == (stop,)


def test_pauses_hold_for_asynchronous_callers():
    session = Session()
    asyncio.run(session.graph.ainvoke(INPUT, CONFIG, context=CONTEXT, interrupt_before=["coder"]))
    assert session.at() == (f"{FIRST}.coder",)


@pytest.mark.parametrize("side", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("name", ["evaluater", "tensor_tiling.evaluater", "tiling.evaluator", "hardware_tuning"])
def test_a_name_that_there_is_not_is_refused_with_those_there_are(side, name):
    says = rf"no node '{name}'; name one of prepare, .*evaluator.*, a stage \(.*tensor_tiling.*\), .*evaluator"
    for call in (
        lambda: build_egg_graph(evaluator=ScriptedEvaluator(), **{side: [name]}),
        lambda: Session().start(**{side: [name]}),
        lambda: list(Session().graph.stream(INPUT, CONFIG, **{side: [name]})),
        lambda: asyncio.run(Session().graph.ainvoke(INPUT, CONFIG, **{side: [name]})),
        lambda: egg_graph_builder(evaluator=ScriptedEvaluator()).compile(**{side: [name]}),
    ):
        with pytest.raises(BadInput, match=says) as error:
            call()
        assert "\n" not in str(error.value)


def paused_inside_a_parent():
    """A parent that is paused inside the run, and the snapshot of the run."""
    parts = {"team": StatelessTeam(SCRIPT), "evaluator": ScriptedEvaluator(), "principles": ()}
    builder = StateGraph(InputState, context_schema=Context, output_schema=OutputState)
    builder.add_node("egg", build_egg_graph(**parts, interrupt_before=["tensor_tiling.evaluator"]))
    builder.add_edge(START, "egg")
    parent = builder.compile(checkpointer=InMemorySaver())
    parent.invoke(INPUT, CONFIG, context=CONTEXT)
    inner = parent.get_state(CONFIG, subgraphs=True).tasks[0].state
    assert inner.next == ("tensor_tiling.evaluator",)
    return parent, inner


def test_inside_a_parent_a_run_is_forked_from_an_earlier_step_while_the_parent_is_paused():
    parent, inner = paused_inside_a_parent()
    namespace = {"thread_id": "one", "checkpoint_ns": inner.config["configurable"]["checkpoint_ns"]}
    history = parent.get_state_history({"configurable": namespace})
    before = next(s for s in history if s.next == ("tensor_tiling.coder",))
    plan = before.values["analysis"].model_copy(update={"plan": "another way"})
    parent.update_state(before.config, {"analysis": plan})
    parent.invoke(None, CONFIG)  # to the same pause, by the other plan
    assert parent.invoke(None, CONFIG)["attempts"][-1].candidate.plan == "another way"


def test_inside_a_parent_the_pauses_it_was_built_with_hold():
    parent, inner = paused_inside_a_parent()
    with pytest.raises(BadInput, match="the state has no key 'bset'"):
        parent.update_state(inner.config, {"bset": None})
    candidate = as_json(inner.values["candidate"]) | {"source": kernel("ok", 2)}
    parent.update_state(inner.config, {"candidate": candidate})
    state = parent.invoke(None, CONFIG)
    assert state["kernel"] == kernel("ok", 2) and state["best"].author == "user"


# approve, edit, resume


def test_an_approved_run_ends_as_one_without_a_pause_and_pays_no_answer_twice():
    whole, paused = Session(), Session()
    expected = whole.start()
    paused.start(interrupt_before="*")
    while paused.at():
        state = paused.go_on(context=CONTEXT, interrupt_before="*")
    drop = {"seconds", "reference", "name", "mode", "pending", "drafted", "withheld", "plan"}
    assert {k: v for k, v in state.items() if k not in drop} == {k: v for k, v in expected.items() if k not in drop}
    assert paused.team.calls() == whole.team.calls()
    assert paused.evaluator.evaluated == whole.evaluator.evaluated
    assert paused.evaluator.finalists == whole.evaluator.finalists


@pytest.mark.parametrize("form", ["value", "json"])
def test_the_coders_kernel_edited_before_the_evaluator_is_judged_as_the_persons(form):
    session = Session()
    session.start(interrupt_before=["evaluator"])
    mine = session.values()["candidate"].model_copy(update={"source": kernel("ok", 3)})
    session.graph.update_state(CONFIG, {"candidate": mine if form == "value" else as_json(mine)})
    assert session.at() == (f"{FIRST}.evaluator",)
    state = session.go_on()
    first = state["attempts"][0]
    assert (first.candidate.source, first.candidate.author, first.candidate.mode) == (kernel("ok", 3), "user", "seed")
    assert state["kernel"] == kernel("ok", 3) and "a person wrote or edited this kernel" in state["verdict"]
    assert session.team.calls().count("coder") == 3, "the seed is not written again"
    assert [a.candidate.author for a in state["attempts"][1:]] == ["scripted"] * 2


def test_an_edited_kernel_that_is_broken_is_repaired():
    session = Session()
    session.start(interrupt_before=["tensor_tiling.evaluator"])
    mine = as_json(session.values()["candidate"]) | {"source": kernel("bad", 3)}
    session.graph.update_state(CONFIG, {"candidate": mine})
    state = session.go_on()
    edited, repaired = state["attempts"][2:4]
    assert (edited.candidate.author, edited.evaluation.status, edited.candidate.mode) == (
        "user",
        "incorrect",
        "optimize",
    )
    assert (repaired.candidate.mode, repaired.candidate.parent) == ("repair", edited.candidate.id)


def test_the_knobs_of_an_edited_kernel_are_read_from_its_source():
    session = Session(worth=(False,))
    session.start(interrupt_before=["evaluator"])
    mine = as_json(session.values()["candidate"]) | {"source": tunable("ok", 5, "tensor_tiling", [5, 4])}
    session.graph.update_state(CONFIG, {"candidate": mine})
    assert session.go_on()["kernel"] == "# ok 5\nprint(4)\n"


def test_an_answer_without_code_may_be_replaced():
    session = Session(["", kernel("ok", 2)], worth=(False,))
    session.start(interrupt_before=["evaluator"])
    mine = as_json(session.values()["candidate"]) | {"source": kernel("ok", 3)}
    session.graph.update_state(CONFIG, {"candidate": mine})
    assert session.go_on()["attempts"][0].evaluation.status == "correct"


def test_a_person_may_take_the_coders_place():
    session = Session(worth=(False,))
    session.start(interrupt_before=["coder"])
    mine = {"source": kernel("ok", 3), "author": "me", "stage": FIRST, "mode": "seed", "plan": "kernels: row"}
    session.graph.update_state(CONFIG, {"candidate": mine}, as_node=f"{FIRST}.coder")
    state = session.go_on()
    assert session.team.calls() == ["analyst", "analyst"]
    assert (state["kernel"], state["best"].author) == (kernel("ok", 3), "user")
    assert state["attempts"][0].candidate.plan == "written by a person"


def test_the_analysts_plan_edited_before_the_coder_is_the_one_that_is_followed():
    session = Session()
    session.start(interrupt_before=["tensor_tiling.coder"])
    session.graph.update_state(CONFIG, {"analysis": as_json(session.values()["analysis"]) | {"plan": "halve the tile"}})
    state = session.go_on()
    assert state["attempts"][-1].candidate.plan == state["attempts"][-1].analysis.plan == "halve the tile"
    assert session.team.briefs[-1][1].analysis.plan == "halve the tile"


def test_a_plan_given_at_a_pause_takes_the_analysts_place_once():
    session = Session()
    session.start(interrupt_before=["tensor_tiling"])
    session.graph.update_state(CONFIG, {"plan": "halve the tile"})
    asked = session.team.calls().count("analyst")
    state = session.go_on()
    assert session.team.calls().count("analyst") == asked
    assert state["attempts"][-1].candidate.plan == "halve the tile" and session.values()["plan"] == ""


class Stubborn(ScriptedTeam):
    """Follows no plan but its own, as the embedded expert does."""

    no_plan = "the stubborn team follows no plan"

    def write(self, brief):
        draft = super().write(brief)
        foreign = brief.analysis is not None and brief.analysis.plan == "halve the tile"
        return draft.model_copy(update={"source": brief.best.source, "declined": self.no_plan}) if foreign else draft


@pytest.mark.parametrize("edit", ["plan", "analysis"])
def test_a_plan_that_the_team_does_not_follow_is_no_attempt(edit):
    session = Session(team=Stubborn)
    session.start(interrupt_before=["tensor_tiling.coder" if edit == "analysis" else "tensor_tiling.analyst"])
    plan = "halve the tile"
    if edit == "analysis":
        plan = as_json(session.values()["analysis"]) | {"plan": plan}
    session.graph.update_state(CONFIG, {edit: plan})
    before = len(session.values()["attempts"])
    told = [event for event in session.graph.stream(None, CONFIG, stream_mode="custom") if event["event"] == "role"]
    state = session.values()
    role = "coder" if edit == "analysis" else "analyst"
    assert (told[0]["role"], told[0]["status"], told[0]["reason"]) == (role, "declined", Stubborn.no_plan)
    assert f"the plan 'halve the tile' was not tried: {Stubborn.no_plan}" in state["summaries"][-1].left
    assert all(attempt.candidate.plan != "halve the tile" for attempt in state["attempts"])
    own = 0 if edit == "analysis" else 1  # the team's own analyst is asked in place of the plan
    assert len(state["attempts"]) == before + own
    assert state["status"] == "correct" and state["plan"] == ""


class Broken(ScriptedEvaluator):
    """Fails as a machine does, at the calls that it is told to."""

    broken = False

    def evaluate(self, task, candidate, **options):
        if self.broken:
            raise InfrastructureError("the GPU is busy")
        return super().evaluate(task, candidate, **options)


@pytest.mark.parametrize("second", ["best", "candidate"])
def test_a_kernel_may_be_put_in_place_again_while_its_evaluator_fails(monkeypatch, second):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    session = Session(worth=(False,))
    evaluator = Broken()
    session.graph = build_egg_graph(
        team=session.team, evaluator=evaluator, principles=(), checkpointer=InMemorySaver(serde=checkpoint_serde())
    )
    session.start(interrupt_before=["tensor_tiling"])
    best = session.values()["best"]
    session.graph.update_state(CONFIG, {"best": best.model_copy(update={"source": kernel("ok", 4)})})
    evaluator.broken = True
    with pytest.raises(InfrastructureError):
        session.go_on()
    assert session.at() == ("tensor_tiling.evaluator",)
    session.graph.update_state(CONFIG, {second: best.model_copy(update={"source": kernel("ok", 3)})})
    evaluator.broken = False
    state = session.go_on()
    judged = [a.candidate.source for a in state["attempts"]]
    expected = [kernel("ok", 9), *([] if second == "best" else [kernel("ok", 4)]), kernel("ok", 3)]
    assert judged == expected, "a kernel that a person took back is not judged"
    assert state["kernel"] == kernel("ok", 3)


# edits as JSON


@pytest.mark.parametrize("node", ["baseline", "open", "analyst", "coder", "evaluator", "tuner", "close", "conclude"])
def test_the_whole_state_may_come_back_as_json_before_any_step(node):
    session = Session()
    session.start(interrupt_before=[node])
    state = {key: value for key, value in session.values().items() if key not in InputState.__annotations__}
    dumped = json.loads(json.dumps(state, default=as_json))
    session.graph.update_state(CONFIG, dumped)
    whole = Session().start()
    assert session.go_on()["attempts"] == whole["attempts"]
    assert session.values()["summaries"] == whole["summaries"]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"bset": None}, "the state has no key 'bset'; its keys are analysis, attempts, baseline, best"),
        ({"best": {"sauce": "x"}}, "state key 'best': best.*: Field required"),
        ({"best": "print()"}, "state key 'best': best: Input should be a valid dictionary"),
        ({"analysis": {"worth_optimizing": "perhaps", "bottleneck": ""}}, "state key 'analysis': .*worth_optimizing"),
        ({"attempts": [{"number": 1}]}, "state key 'attempts': attempts.0.candidate: Field required"),
        ({"attempts": {"__overwrite__": [1]}}, "state key 'attempts': "),
        ({"mode": "guess"}, "state key 'mode': "),
        ({"plan": 7}, "state key 'plan': "),
        ({"knobs": {"max_atempts": 3}}, "no knob 'max_atempts'"),
        ({"knobs": {"max_attempts": 0}}, "max_attempts must be"),
    ],
)
def test_a_bad_edit_is_refused_in_one_line_that_names_the_key(edit, says):
    session = Session()
    session.start(interrupt_before=["tensor_tiling.coder"])
    before = session.graph.get_state(CONFIG)

    async def edit_in_a_loop():
        await session.graph.aupdate_state(CONFIG, edit)

    for call in (lambda: session.graph.update_state(CONFIG, edit), lambda: asyncio.run(edit_in_a_loop())):
        with pytest.raises(BadInput, match=says) as error:
            call()
        assert "\n" not in str(error.value) and len(str(error.value)) < 600
    assert session.graph.get_state(CONFIG).config == before.config, "nothing was written"


def test_edited_knobs_hold_from_there_on():
    session = Session()
    session.start(interrupt_before=["tensor_tiling"])
    session.graph.update_state(CONFIG, {"knobs": session.values()["knobs"] | {"max_optimizations": 2}})
    assert len(session.go_on()["attempts"]) == 4


# hand in


def test_a_kernel_that_is_handed_in_is_judged_as_the_seed_and_then_improved():
    session = Session([kernel("ok", 8), kernel("ok", 7)])
    state = session.start({**INPUT, "kernel": kernel("ok", 9)})
    assert session.team.calls()[0] == "analyst"
    first = state["attempts"][0]
    assert (first.candidate.source, first.candidate.author, first.candidate.mode) == (kernel("ok", 9), "user", "seed")
    assert state["kernel"] == kernel("ok", 7) and state["attempts"][1].candidate.parent == first.candidate.id


def test_a_kernel_that_is_handed_in_may_be_a_file_and_broken(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(kernel("bad", 1))
    state = Session().start({**INPUT, "kernel": str(path)})
    assert [a.candidate.mode for a in state["attempts"]][:2] == ["seed", "repair"] and state["status"] == "correct"


def test_a_plan_that_is_handed_in_is_the_analysts_first():
    session = Session()
    state = session.start({**INPUT, "plan": "use one pass"})
    assert session.team.calls() == ["coder", "coder", "analyst", "coder"]
    assert state["attempts"][1].analysis.plan == state["attempts"][1].candidate.plan == "use one pass"
    assert state["attempts"][1].usage.calls == 1, "the coder's answer alone was paid"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kernel": 7}, "input key 'kernel' is 7"),
        ({"kernel": "nowhere.py"}, "cannot read the kernel nowhere.py"),
        ({"plan": ["a"]}, "input key 'plan' is"),
    ],
)
def test_what_cannot_be_handed_in_is_refused(given, says):
    with pytest.raises(BadInput, match=says):
        Session().start({**INPUT, **given})


def test_what_an_earlier_run_left_on_the_thread_is_not_handed_in():
    session = Session([kernel("ok", 9)], worth=(False,))
    session.start({**INPUT, "kernel": kernel("ok", 5), "plan": "never used", "name": "mine"})
    again = session.start()
    assert again["kernel"] == kernel("ok", 9) and again["task"].name == "reference"
    assert session.values()["plan"] == "" and again["attempts"][0].candidate.author == "scripted"


def test_an_unevaluable_reference_hands_over_no_kernel_that_was_handed_in():
    graph = build_egg_graph(
        team=ScriptedTeam(SCRIPT), evaluator=ScriptedEvaluator(unevaluable="it is random"), principles=()
    )
    state = graph.invoke({**INPUT, "kernel": kernel("ok", 1)}, context=CONTEXT)
    assert (state["status"], state["kernel"], state["attempts"]) == ("unevaluable", "", [])


# history and forks


def test_the_history_holds_every_step_of_every_role():
    session = Session(team=StatelessTeam)
    session.start()
    steps = [snapshot.next[0] for snapshot in session.graph.get_state_history(CONFIG) if snapshot.next][::-1]
    stage = ["open", "analyst", "coder", "evaluator", "tuner", "close"]
    seed = ["open", "coder", "evaluator", "analyst", "coder", "evaluator", "tuner", "close"]
    assert steps == [
        "__start__",
        "prepare",
        "baseline",
        *(f"{FIRST}.{step}" for step in seed),
        "parallel_mapping.open",
        *(f"tensor_tiling.{step}" for step in stage),
        "memory_optimization.open",
        "conclude",
    ]


def snapshot(session, step):
    return next(s for s in session.graph.get_state_history(CONFIG) if s.next == (step,))


@pytest.mark.parametrize(
    ("step", "edit"),
    [
        (f"{FIRST}.analyst", {"plan": "another way"}),
        (f"{FIRST}.coder", {"analysis": {"worth_optimizing": True, "bottleneck": "dram", "plan": "another way"}}),
    ],
)
def test_a_fork_from_inside_a_finished_stage_keeps_its_edit(step, edit):
    session = Session(team=StatelessTeam)
    whole = session.start()
    answered = len(session.team.calls())
    forked = session.graph.update_state(snapshot(session, step).config, edit)
    state = session.graph.invoke(None, forked)
    assert state["attempts"][0] == whole["attempts"][0], "what came before is not done again"
    assert state["attempts"][1].candidate.plan == "another way" != whole["attempts"][1].candidate.plan
    assert len(state["attempts"]) == len(whole["attempts"]) and state["verdict"]
    assert session.evaluator.evaluated.count(whole["attempts"][0].candidate.id) == 1
    assert len(session.team.calls()) > answered
    first_end = [s for s in session.graph.get_state_history(CONFIG) if not s.next][-1]
    assert first_end.values["attempts"] == whole["attempts"], "the first run's end is still there"


def test_a_stage_that_begins_knows_nothing_of_the_stage_before():
    session = Session()
    session.start(interrupt_after=["tensor_tiling.open"])
    state = session.values()
    empty = ("mode", "drafted", "analysis", "diagnosis", "candidate")
    assert [state[key] for key in empty] == [None] * 5 and state["pending"].calls == 0
    assert state["best"].source == kernel("ok", 8) and len(state["summaries"]) == 1


def test_a_stage_that_begins_knows_no_diagnosis_of_a_repair_that_failed_in_the_stage_before():
    session = Session([kernel("ok", 9), kernel("bad", 1), kernel("bad", 2)])
    context = replace(CONTEXT, max_repairs=1)
    session.start(context=context, interrupt_before=["tensor_tiling.open"])
    assert session.values()["diagnosis"].modification_plan == "mend 1"
    session.go_on(interrupt_after=["tensor_tiling.open"])
    assert session.values()["diagnosis"] is None


def test_a_serializer_of_ours_loads_a_run_without_a_warning(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = Session()
        session.start()
        assert session.values()["best"].source == kernel("ok", 7)
    assert not [r for r in caplog.records if "eserializ" in r.message]
