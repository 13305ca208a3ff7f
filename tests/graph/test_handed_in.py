"""A person puts another kernel in place of the best one: it is judged before it is used or handed on."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from egg_graph import Candidate, Context, ModelRefused, build_egg_graph
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

CONFIG = {"configurable": {"thread_id": "one"}}
BEST = kernel("ok", 9)


class Session:
    """A run of one thread that stops before `node`."""

    def __init__(self, node, script=(BEST,), worth=(False,), **knobs):
        self.team, self.evaluator = ScriptedTeam(script, worth), ScriptedEvaluator()
        self.graph = build_egg_graph(
            team=self.team, evaluator=self.evaluator, principles=(), checkpointer=InMemorySaver()
        )
        context = Context(target="h100", **knobs)
        self.graph.invoke({"reference": REFERENCE}, CONFIG, context=context, interrupt_before=[node])
        assert self.graph.get_state(CONFIG).next == (node if node == "conclude" else f"{node}.open",)

    def edit(self, source):
        """Change the source of the best kernel, and nothing else of it; the run goes on to its end."""
        best = self.graph.get_state(CONFIG).values["best"]
        if best is None:
            best = Candidate(source="", author="somebody", stage="tensor_tiling", mode="optimize")
        self.graph.update_state(CONFIG, {"best": best.model_copy(update={"source": source})})
        state = self.graph.invoke(None, CONFIG)
        for _, brief in self.team.briefs:
            assert brief.evaluation is None or brief.evaluation.candidate == brief.kernel.id
            assert brief.best_evaluation is None or brief.best_evaluation.candidate == brief.best.id
        return state

    def before_the_edit(self, source):
        """Roles that were shown this source as their kernel, and had no evaluation of it."""
        return [role for role, b in self.team.briefs if b.kernel and b.kernel.source == source and not b.evaluation]


@pytest.mark.parametrize("node", ["algorithmic_structure", "parallel_mapping"])
def test_a_broken_kernel_is_judged_and_repaired(node):
    session = Session(node, [BEST, kernel("ok", 7)] if node == "parallel_mapping" else [kernel("ok", 7)])
    state = session.edit(kernel("bad", 1))
    handed_in = next(a for a in state["attempts"] if a.candidate.source == kernel("bad", 1))
    assert (handed_in.candidate.author, handed_in.candidate.mode) == ("user", "seed")
    assert handed_in.evaluation.status == "incorrect" and not handed_in.improved
    repaired = state["attempts"][handed_in.number]
    assert (repaired.candidate.mode, repaired.candidate.parent) == ("repair", handed_in.candidate.id)
    assert (state["status"], state["kernel"]) == ("correct", kernel("ok", 7))


def test_where_it_cannot_be_repaired_the_kernel_before_it_comes_back():
    session = Session("parallel_mapping", max_repairs=0)
    state = session.edit(kernel("bad", 1))
    assert (state["status"], state["kernel"]) == ("correct", BEST)
    assert [a.evaluation.status for a in state["attempts"]] == ["correct", "incorrect"]
    assert session.before_the_edit(kernel("bad", 1)) == []


def test_a_usable_kernel_stands_though_it_is_slower():
    session = Session("parallel_mapping")
    state = session.edit(kernel("ok", 11))
    assert state["kernel"] == kernel("ok", 11) and state["evaluation"].bound.milliseconds == 11
    assert [a.improved for a in state["attempts"]] == [True, False]
    assert {s.best_status for s in state["summaries"]} == {"correct"}
    assert session.evaluator.evaluated.count(state["best"].id) == 1


def test_the_knobs_of_its_own_source_are_swept():
    state = Session("parallel_mapping").edit(tunable("ok", 8, "tensor_tiling", [8, 6]))
    assert state["kernel"] == "# ok 8\nprint(6)\n" and state["attempts"][-1].candidate.mode == "tune"


def test_a_kernel_of_an_earlier_attempt_keeps_its_evaluation():
    session = Session("parallel_mapping", [BEST, kernel("ok", 8)], worth=[True, False], max_optimizations=1)
    assert session.graph.get_state(CONFIG).values["kernel"] == kernel("ok", 8)
    state = session.edit(BEST)
    assert state["summaries"][1].best_status == "correct" and session.before_the_edit(BEST) == []
    assert session.evaluator.evaluated.count(state["attempts"][0].candidate.id) == 1


def test_without_budget_it_counts_as_unproven_until_the_run_concludes():
    session = Session("parallel_mapping", max_attempts=1)
    state = session.edit(kernel("bad", 1))
    assert [s.best_status for s in state["summaries"]] == ["correct", None, None, None]
    assert (state["kernel"], len(state["attempts"])) == (BEST, 1)
    assert "a finalist's checks rejected it: incorrect" in state["verdict"]


@pytest.mark.parametrize(("source", "handed_over"), [(kernel("bad", 1), BEST), (kernel("ok", 11), kernel("ok", 11))])
def test_before_the_last_node_it_is_judged_as_a_finalist(source, handed_over):
    state = Session("conclude").edit(source)
    assert state["kernel"] == handed_over and state["evaluation"].candidate == state["best"].id
    assert state["best"].author == ("scripted" if handed_over == BEST else "user")


class Stopping(ScriptedTeam):
    """Stops the run at the first call of one role, as a kill would."""

    def __init__(self, script, role, worth=(True,)):
        super().__init__(script, worth)
        self.role = role

    def analyze(self, brief):
        self._stop("analyst")
        return super().analyze(brief)

    def write(self, brief):
        if brief.mode == "optimize":
            self._stop("coder")
        return super().write(brief)

    def _stop(self, role):
        if self.role == role:
            self.role = None
            raise ModelRefused("stopped")


@pytest.mark.parametrize("role", ["coder"])
@pytest.mark.parametrize(("source", "status"), [(kernel("bad", 1), "incorrect"), (kernel("ok", 11), "correct")])
def test_inside_a_stage_it_is_judged_before_any_role_sees_it(role, source, status):
    team = Stopping([BEST, kernel("ok", 7)], role)
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=(), checkpointer=InMemorySaver())
    with pytest.raises(ModelRefused):
        graph.invoke({"reference": REFERENCE}, CONFIG, context=Context(target="h100", max_optimizations=1))
    best = graph.get_state(CONFIG).values["best"].model_copy(update={"source": source})
    graph.update_state(CONFIG, {"best": best})
    seen = len(team.briefs)
    state = graph.invoke(None, CONFIG)
    handed_in = state["attempts"][1]
    assert (handed_in.candidate.source, handed_in.evaluation.status) == (source, status)
    assert (handed_in.analysis, handed_in.usage.calls) == (None, 0)
    for _, brief in team.briefs[seen:]:
        assert brief.evaluation.candidate == brief.kernel.id
    assert state["kernel"] == kernel("ok", 7)
