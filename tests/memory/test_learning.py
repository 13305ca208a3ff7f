"""What one run measures, later runs on similar problems are told; what is not confirmed, nobody is told any more."""

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from egg_graph import Context, build_egg_graph, checkpoint_serde
from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.prompts import Prompts
from egg_graph.calls import run as call
from egg_graph.memory import LessonStore
from egg_graph.memory.on_disk import open_memory
from egg_graph.schema import InfrastructureError, Lesson
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable
from tests.memory.measured import SOFTMAX, STEPS, GpuEvaluator, lessons_in, run


@pytest.fixture
def store(tmp_path):
    with open_memory(tmp_path / "memory.sqlite") as opened:
        yield opened


def told(team):
    """The lessons that the first brief of each role holds."""
    return {role: brief.lessons for role, brief in reversed(team.briefs)}


def test_a_second_run_of_a_similar_problem_is_told_what_the_first_measured(tmp_path):
    path = tmp_path / "memory.sqlite"
    with open_memory(path) as store:
        _, first = run(store)
    assert told(first)["coder"] == ()
    with open_memory(path) as store:
        state, second = run(store, GpuEvaluator(operators=(*SOFTMAX, "aten.add.Tensor")), name="b")
    paid, lost = state["lessons"]
    assert (paid.plan, paid.outcome, paid.before_ms, paid.after_ms) == ("plan 1", "improved", 3.0, 2.0)
    assert (lost.plan, lost.outcome, lost.before_ms, lost.after_ms) == ("plan 2", "no_better", 2.0, 2.5)
    assert (paid.structure, paid.bottleneck, paid.category) == ("row_reduction", "dram", "operator_fusion")
    assert (paid.gpu, paid.torch, paid.triton, paid.driver) == ("NVIDIA H200", "2.11.0", "3.6.0", "580")
    assert len(paid.evaluator) == 16 and paid.ratio == 2.0
    assert told(second)["analyst"] == told(second)["coder"] == (paid, lost)


def test_a_seed_teaches_what_it_is_against_pytorch_and_a_sweep_what_its_knobs_are_worth(store):
    class Noted(ScriptedTeam):
        def write(self, brief):
            return super().write(brief).model_copy(update={"note": "one pass over each row"})

    run(store, team=Noted([tunable("timed", 3, "algorithmic_structure", [3, 2])]), max_optimizations=0)
    seed, sweep = sorted(lessons_in(store).lessons, key=lambda lesson: lesson.before_ms, reverse=True)
    assert (seed.plan, seed.against, seed.before_ms, seed.after_ms) == ("one pass over each row", "PyTorch", 4.0, 3.0)
    assert (sweep.plan, sweep.against, sweep.before_ms, sweep.after_ms) == ("NUMBER 3 -> 2", seed.kernel, 3.0, 2.0)


@pytest.mark.parametrize(
    "other",
    [
        {"evaluator": GpuEvaluator(gpu="NVIDIA H100 80GB HBM3")},
        {"evaluator": GpuEvaluator(operators=("aten.mm.default",))},
        {"precision": "ieee"},
    ],
    ids=["another GPU", "another structure", "another precision"],
)
def test_what_is_not_alike_is_not_told(store, other):
    run(store)
    state, team = run(store, name="b", **other)
    assert state["lessons"] == [] and told(team)["analyst"] == ()


def test_nothing_is_learned_where_nothing_is_timed_on_a_gpu(store):
    untimed = [kernel("ok", 3), kernel("ok", 2)]
    run(store, ScriptedEvaluator(), ScriptedTeam(untimed))
    run(store, ScriptedEvaluator(clock=True))  # a clock, and nobody who says which GPU's
    assert lessons_in(store).lessons == ()


def test_the_same_run_again_counts_once_whatever_the_problem_is_called(store):
    run(store)
    before = lessons_in(store)
    run(store)
    assert lessons_in(store) == before and len(before.lessons) == 2


def test_a_kernel_that_fails_when_it_is_measured_again_takes_its_lesson_with_it(store):
    run(store)
    run(store, GpuEvaluator(wrong=("# timed 2",)))
    kept = lessons_in(store)
    (gone,) = kept.retracted
    assert kept.retracted[gone] == "the kernel failed when it was judged again: incorrect"
    assert [lesson.plan for lesson in kept.lessons if lesson.key == gone] == ["plan 1"]
    run(store)  # right once more: it stays retracted
    state, _ = run(store, name="b")
    assert state["lessons"] and gone not in [lesson.key for lesson in state["lessons"]]


def test_a_gain_that_a_second_measurement_does_not_show_is_retracted(store):
    run(store)
    slower = [STEPS[0], kernel("timed", 2).replace("2", "4.5"), STEPS[2]]

    class Moody(GpuEvaluator):
        """Finds the second kernel slower than it was."""

        def evaluate(self, task, candidate, **options):
            if candidate.source != STEPS[1]:
                return super().evaluate(task, candidate, **options)
            late = super().evaluate(task, candidate.model_copy(update={"source": slower[1]}), **options)
            return late.model_copy(update={"candidate": candidate.id})

    run(store, Moody())
    assert "measured again: 4.5 ms against 3 ms" in lessons_in(store).retracted.values()


def test_what_a_finalists_checks_reject_is_not_learned(store):
    class Strict(GpuEvaluator):
        def evaluate(self, task, candidate, *, finalist=False, **options):
            self.wrong = STEPS[1].splitlines()[:1] if finalist else ()
            return super().evaluate(task, candidate, finalist=finalist, **options)

    run(store, Strict())
    assert [lesson.plan for lesson in lessons_in(store).lessons] == ["plan 2"]


def test_without_memory_prompts_are_those_without_a_store_byte_by_byte(store):
    def prompts(team):
        each = [brief for role, brief in team.briefs if role == "analyst"]
        return [ANALYST.prompt(Prompts(), brief) for brief in each]

    run(store)
    _, plain = run(None, name="b")
    state, off = run(store, name="b", memory=False)
    assert prompts(off) == prompts(plain) and state["lessons"] == []
    assert len(lessons_in(store).lessons) == 2, "and it learned nothing"
    _, on = run(store, name="b")
    assert prompts(on) != prompts(plain) and "3 to 2 ms (-33.3 %)" in prompts(on)[0]


def test_what_was_recalled_is_part_of_the_run_and_a_resume_is_told_the_same(store):
    run(store)
    saver, team = InMemorySaver(serde=checkpoint_serde()), ScriptedTeam(STEPS)
    graph = build_egg_graph(
        team=team, evaluator=GpuEvaluator(), principles=(), store=store, checkpointer=saver, interrupt_after="baseline"
    )
    config = {"configurable": {"thread_id": "1"}}
    context = Context(target="h200", stages=("algorithmic_structure",), near_floor=0)
    graph.invoke({"reference": REFERENCE}, config, context=context)
    recalled = graph.get_state(config).values["lessons"]
    assert len(recalled) == 2 and all(type(lesson) is Lesson for lesson in recalled)
    call(LessonStore(store, "h200").forget([lesson.key for lesson in recalled]))
    graph.invoke(None, config, context=context)
    assert told(team)["analyst"] == tuple(recalled)


def test_it_works_in_an_event_loop_with_stores_of_both_kinds(store):
    async def both():
        for each in (store, InMemoryStore()):
            graph = build_egg_graph(team=ScriptedTeam(STEPS), evaluator=GpuEvaluator(), principles=(), store=each)
            await graph.ainvoke({"reference": REFERENCE}, context=Context(target="h200", near_floor=0))
            assert lessons_in(each).lessons

    asyncio.run(both())


def test_a_memory_that_fails_does_not_end_the_run(store):
    class Full(InMemoryStore):
        def batch(self, ops):
            raise InfrastructureError("the disk is full")

    graph = build_egg_graph(team=ScriptedTeam(STEPS), evaluator=GpuEvaluator(), principles=(), store=Full())
    context = Context(target="h200", stages=("algorithmic_structure",), near_floor=0)
    events = list(graph.stream({"reference": REFERENCE}, context=context, stream_mode="custom"))
    assert [e["reason"] for e in events if e["event"] == "memory"] == ["the disk is full"] * 2
    assert events[-2]["status"] == "faster"
