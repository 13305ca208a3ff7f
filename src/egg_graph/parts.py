"""What the nodes work with: team, evaluator and principles, each made on first use, so that building is quick."""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from egg_graph.context import Context, Device
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.schema import (
    Baseline,
    Brief,
    Candidate,
    Evaluation,
    InfrastructureError,
    KernelTask,
    Principle,
    StageName,
)
from egg_graph.team import Team, check_model, resolve_team

_MAKING = threading.RLock()


@cache
def default_evaluator(device: Device, profile: bool) -> Evaluator:
    """The evaluator on this machine, shared by all graphs of the process and closed when it ends."""
    from egg_graph.evaluator import LocalEvaluator

    evaluator = LocalEvaluator(device=device, profile=profile)
    atexit.register(evaluator.close)
    return evaluator


@dataclass
class Parts:
    """Team, evaluator and principles of one graph.

    Args:
        model: what `resolve_team` takes; ignored where `team` is given.
        team: plays the three roles.
        evaluator: judges; None for the one on this machine.
        principles: None for those that ship and those in `Context.knowledge_dir`.
    """

    model: Any = None
    team: Team | None = None
    evaluator: Evaluator | None = None
    principles: Sequence[Principle] | None = None
    _expert: Team | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_model(self.model)

    def the_team(self) -> Team:
        with _MAKING:
            if self.team is None:
                self.team = resolve_team(self.model)
            return self.team

    def the_evaluator(self, context: Context) -> Evaluator:
        if self.evaluator is not None:
            return self.evaluator
        with _MAKING:
            return default_evaluator(context.device, context.profile)

    def judge(
        self, context: Context, task: KernelTask, candidate: Candidate, stage: StageName, *, finalist: bool = False
    ) -> Evaluation:
        """Evaluate; a fault of the machine raises, so that it is tried again and never counts against the kernel.

        Args:
            finalist: the kernel is about to be handed over. See `Evaluator.evaluate`.

        Raises:
            InfrastructureError: if the machine failed.
        """
        evaluation = self.the_evaluator(context).evaluate(task, candidate, stage=stage, finalist=finalist)
        if evaluation.status == "infra_error":
            raise InfrastructureError(f"evaluating candidate {candidate.id}: {evaluation.reason}")
        return evaluation

    def principles_for(
        self, context: Context, task: KernelTask, stage: StageName, baseline: Baseline
    ) -> tuple[Principle, ...]:
        """The principles that apply to this task on this target in this stage."""
        from egg_graph.knowledge import load_principles, match_principles

        principles = self.principles if self.principles is not None else load_principles(context.knowledge_dir)
        return match_principles(principles, task=task, stage=stage, baseline=baseline)

    def guidance_for(self, baseline: Baseline) -> dict[str, str]:
        """Return what the embedded expert's playbooks say about the reference's operators, by playbook."""
        from egg_graph.expert import guidance_for

        return guidance_for(baseline.operators)

    def expert_seed(self, brief: Brief) -> Candidate | None:
        """The embedded expert's kernel for the same brief, None where it has none."""
        with _MAKING:
            expert = self._expert = self._expert or resolve_team(None)
        draft = expert.write(brief)
        if draft.problem:
            return None
        return Candidate(source=draft.source, author=expert.name, stage=brief.stage, mode="seed", plan=draft.note)
