"""Runs on a GPU by script: a clock, a GPU's name, and a reference whose operators the test chooses."""

from typing import Any

from egg_graph import Context, build_egg_graph
from egg_graph.schema import Baseline, Candidate, Environment, Evaluation, KernelTask
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

STEPS = [kernel("timed", 3), kernel("timed", 2), kernel("timed", 2.5)]
"""A seed, a plan that paid (3 to 2 ms) and one that did not (2.5 ms)."""
SOFTMAX = ("aten._softmax.default", "aten.mul.Tensor")


class GpuEvaluator(ScriptedEvaluator):
    """Times the reference and every kernel on a GPU of the script.

    Args:
        gpu: the GPU's name, as its driver would tell it.
        operators: of the reference.
        wrong: first lines of sources that are found incorrect, whatever they say.
    """

    def __init__(
        self, gpu: str = "NVIDIA H200", operators: tuple[str, ...] = SOFTMAX, wrong: tuple[str, ...] = ()
    ) -> None:
        super().__init__(clock=True)
        self.environment = Environment(machine="test", gpu=gpu, driver="580", torch="2.11.0", triton="3.6.0")
        self.operators = operators
        self.wrong = wrong

    def baseline(self, task: KernelTask) -> Baseline:
        known = {"environment": self.environment, "operators": self.operators, "compulsory_bytes": 2.4e9}
        return super().baseline(task).model_copy(update=known)

    def evaluate(self, task: KernelTask, candidate: Candidate, **options: Any) -> Evaluation:
        if candidate.source.splitlines()[0] in self.wrong:
            bad = super().evaluate(task, candidate.model_copy(update={"source": kernel("bad")}), **options)
            return bad.model_copy(update={"candidate": candidate.id})
        return super().evaluate(task, candidate, **options)


def run(store: Any = None, evaluator: Any = None, team: Any = None, **knobs: Any) -> tuple[Any, Any]:
    """One run of one stage, with two plans; its last state and its team."""
    team = team or ScriptedTeam(STEPS)
    graph = build_egg_graph(team=team, evaluator=evaluator or GpuEvaluator(), principles=(), store=store)
    name = knobs.pop("name", "a")
    context = Context(target="h200", stages=("algorithmic_structure",), near_floor=0, **knobs)
    return graph.invoke({"reference": f"{REFERENCE}# {name}\n"}, context=context), team


def lessons_in(store: Any, gpu: str = "h200") -> Any:
    """What a store holds of a GPU."""
    from egg_graph.calls import run as call
    from egg_graph.memory import LessonStore

    return call(LessonStore(store, gpu).read())
