"""The embedded expert's first kernel of a task, outside of a run."""

from egg_graph.calls import Call
from egg_graph.nodes.roles import make_candidate
from egg_graph.schema import Baseline, Brief, Candidate, Draft, KernelTask
from egg_graph.stages import ALGORITHMIC_STRUCTURE
from egg_graph.team import resolve_team


def first_kernel(task: KernelTask, baseline: Baseline) -> Candidate | None:
    """What the expert writes first, as a run would have it judged; None if it has no kernel for the task.

    Raises:
        InfrastructureError: if the reference cannot be captured here.
    """
    stage, expert = ALGORITHMIC_STRUCTURE, resolve_team(None)
    brief = Brief(task=task, baseline=baseline, stage=stage.name, attempt=0, objective=stage.objective, mode="seed")
    draft: Draft = Call(expert.write, brief).make()
    if draft.problem:
        return None
    return make_candidate(draft, author=expert.name, stage=stage.name, mode="seed", parent=None, plan=draft.note)
