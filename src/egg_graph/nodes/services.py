"""What the nodes work with: the team, the evaluator and the principles, each made on first use."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.cache.base import BaseCache

from egg_graph.calls import Call
from egg_graph.context import Context, key_of_gpu
from egg_graph.evaluator.local import local_evaluator
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.answer_cache import CachedAnswers, about
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.shared_costs import SharedCosts
from egg_graph.routing import timed
from egg_graph.schema import (
    Baseline,
    Brief,
    Candidate,
    Draft,
    Environment,
    Evaluation,
    InfrastructureError,
    KernelTask,
    Principle,
    PrincipleScore,
    Profile,
    SideBySide,
    StageName,
    TunedBaseline,
)
from egg_graph.stages import Stage
from egg_graph.state import OutputState
from egg_graph.team import (
    Team,
    calls_models,
    check_model,
    playbook_guidance,
    reads_metrics,
    resolve_team,
    wants_one_sweep,
    when_to_profile,
)

_LOCK = threading.RLock()
"""Held while a service is made: a server runs nodes in several threads."""


def _compiled(evaluation: Evaluation, stage: Stage, task: KernelTask) -> Profile | None:
    """The metrics that follow from the compiled kernels; None where none was compiled."""
    from egg_graph.evaluator import profile_from_compiler

    if not evaluation.resources:
        return None
    return profile_from_compiler(evaluation.resources, stage.name, task.target)


def _with_tuned(baseline: Baseline, context: Context) -> Baseline:
    """The baseline with why it has no tuned PyTorch, where that was asked for."""
    if not context.tuned_baseline or baseline.tuned is not None:
        return baseline
    reason = "nothing is timed here" if baseline.eager_ms is None else "the evaluator does not measure it"
    return baseline.model_copy(update={"tuned": TunedBaseline(reason=reason)})


@dataclass
class Services:
    """Team, evaluator and principles of one graph.

    Args:
        model: see `resolve_team`. Ignored where `team` is given.
        team: plays the three roles.
        evaluator: judges the candidates; None for the evaluator of this machine.
        principles: None for the shipped principles and those in `Context.knowledge_dir`.
        cache: keeps what is established by content alone: see `egg_graph.nodes.answer_cache`.

    Raises:
        BadInput: if `model` can never become a team.
    """

    model: Any = None
    team: Team | None = None
    evaluator: Evaluator | None = None
    principles: Sequence[Principle] | None = None
    cache: BaseCache[Any] | None = None
    _expert: Team | None = field(default=None, repr=False)
    _costs: dict[str, SharedCosts] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_model(self.model)

    def get_team(self) -> Team:
        """The team that was given, or the one that `model` stands for."""
        with _LOCK:
            if self.team is None:
                self.team = resolve_team(self.model)
            return self.team

    def get_expert(self) -> Team:
        """The embedded expert, whoever plays the team."""
        with _LOCK:
            self._expert = self._expert or resolve_team(None)
            return self._expert

    @property
    def paid(self) -> bool:
        """Whether the team's answers cost calls of a model."""
        return calls_models(self.model if self.team is None else self.team)

    def settle_sweep(self, context: Context, state: OutputState) -> Context:
        """The knobs, with what the `sweep` that `auto` stands for turns."""
        if context.sweep != "auto":
            return context
        return replace(context, sweep="knobs" if timed(state) and wants_one_sweep(self.get_team()) else "stage")

    def get_evaluator(self, context: Context) -> Evaluator:
        """The evaluator that was given, or the one of this machine."""
        if self.evaluator is not None:
            return self.evaluator
        profile = when_to_profile(context.profile, self.model if self.team is None else self.team)
        with _LOCK:
            return local_evaluator(context.device, profile)

    async def aim(self, context: Context) -> Context:
        """The knobs with the target that `auto` means where the evaluator judges on another machine: its GPU.

        Raises:
            BadInput: if no specification fits that GPU.
            InfrastructureError, AnswerPending: if that machine cannot be asked, or has not answered yet.
        """
        if context.target != "auto" or not getattr(self.evaluator, "judges_elsewhere", False):
            return context
        environment: Environment = await Call(self.evaluator.environment)  # type: ignore[union-attr]
        return replace(context, target=key_of_gpu(environment.gpu, context.knowledge_dir))

    async def establish_baseline(self, context: Context, task: KernelTask) -> Baseline:
        """Run and measure the reference, or find in the cache what an earlier run established without a time."""
        evaluator = self.get_evaluator(context)
        kept = None if self.cache is None else CachedAnswers(self.cache, evaluator)
        if kept and (found := await Call(kept.find, Baseline, task)):
            return _with_tuned(found, context)
        tuned = context.tuned_baseline and getattr(evaluator, "measures_tuned", False)
        ask = evaluator.baseline
        baseline: Baseline = await (Call(ask, task, tuned=True) if tuned else Call(ask, task))
        if kept:
            await Call(kept.keep, baseline, task)
        return _with_tuned(baseline, context)

    async def evaluate(
        self, context: Context, task: KernelTask, candidate: Candidate, stage: StageName, *, finalist: bool = False
    ) -> Evaluation:
        """Evaluate a candidate, or find in the cache what its content alone decides.

        A fault of the machine raises, so that it is retried and not held against the kernel.

        Args:
            finalist: the kernel is about to be handed over; see `Evaluator.evaluate`.

        Raises:
            InfrastructureError: if the machine failed.
        """
        evaluator = self.get_evaluator(context)
        kept = None if self.cache is None or finalist else CachedAnswers(self.cache, evaluator)
        if kept and (found := await Call(kept.find, Evaluation, task, *about(candidate, stage))):
            return found
        with ledger_entry("finalist" if finalist else "evaluation", stage=stage, candidate=candidate.id) as call:
            evaluation: Evaluation = await Call(evaluator.evaluate, task, candidate, stage=stage, finalist=finalist)
            if evaluation.status == "infra_error":
                raise InfrastructureError(f"evaluating candidate {candidate.id}: {evaluation.reason}")
            call.spent, call.told = evaluation.spent, {"status": evaluation.status}
            if not evaluation.usable:
                call.told["reason"] = " ".join(evaluation.reason.split())[:300]
        if kept:
            await Call(kept.keep, evaluation, task, *about(candidate, stage))
        return evaluation

    async def profile_for(
        self, context: Context, task: KernelTask, candidate: Candidate, evaluation: Evaluation, stage: Stage
    ) -> Profile | None:
        """A stage's own metrics of a kernel that another stage judged; None where its evaluation has them already.

        A timed kernel is profiled on the GPU, if the evaluator can and the team reads metrics. Otherwise they are what
        follows from the compiled kernel.

        Raises:
            InfrastructureError: if the machine failed.
        """
        if set(stage.metrics) <= evaluation.profile.metrics.keys():
            return None
        evaluator = self.get_evaluator(context)
        if evaluation.timing is None or not hasattr(evaluator, "profile"):
            return _compiled(evaluation, stage, task)
        if not context.profile or not reads_metrics(self.get_team()):
            return None
        with ledger_entry("profile", stage=stage.name, candidate=candidate.id):
            profile: Profile = await Call(evaluator.profile, task, candidate, evaluation, stage=stage.name)
        return profile

    def costs_of(self, ordered: SideBySide) -> SharedCosts:
        """What drafts that are in work side by side have cost so far, as far as this process knows."""
        with _LOCK:
            return self._costs.setdefault(ordered.key, SharedCosts(ordered.drafts if self.paid else 0))

    def forget_costs(self, key: str) -> None:
        """Forget those of drafts that are written."""
        with _LOCK:
            self._costs.pop(key, None)

    def match_principles(
        self,
        context: Context,
        task: KernelTask,
        stage: StageName,
        baseline: Baseline,
        values: Mapping[str, float],
        scores: Sequence[PrincipleScore],
    ) -> tuple[Principle, ...]:
        """The principles that apply to this task on this target in this stage, the most relevant first.

        Args:
            values: metric -> value, measured on the best kernel.
            scores: what came of the principles that the run has followed.
        """
        from egg_graph.knowledge import load_principles, match_principles

        principles = self.principles if self.principles is not None else load_principles(context.knowledge_dir)
        return match_principles(principles, task=task, stage=stage, baseline=baseline, values=values, scores=scores)

    def guidance_for(self, baseline: Baseline) -> dict[str, str]:
        """Return what the embedded expert's playbooks say about the reference's operators, by playbook."""
        return playbook_guidance(baseline.operators)

    async def write_contender(self, brief: Brief, context: Context) -> tuple[str, Draft]:
        """The embedded expert's name and its draft for this brief: in a replay the one of then.

        Raises:
            InfrastructureError: if the machine failed.
        """
        expert = self.get_expert()
        kept = getattr(self.get_evaluator(context), "contender_before", None)
        draft: Draft = kept(expert.name) if kept is not None else await Call(expert.write, brief)
        return expert.name, draft
