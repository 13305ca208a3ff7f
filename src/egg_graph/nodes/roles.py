"""The nodes of the three roles in one stage, and the nodes that open and close it."""

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from langgraph.runtime import Runtime

from egg_graph.budgets import add_cost, spent_by, terms_of
from egg_graph.calls import Call
from egg_graph.context import Context, resolve
from egg_graph.knowledge import score_principles
from egg_graph.model_requests import asking_under
from egg_graph.nodes.announce import announced, tell
from egg_graph.nodes.briefing import Knowledge, analyst_brief, coder_brief, debugger_brief, known_attempts
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.drafts import declined_plan, order_drafts
from egg_graph.nodes.events import Event
from egg_graph.nodes.improvement import read_metrics
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.nodes.summary import summarize
from egg_graph.routing import (
    enter,
    evaluation_of_best,
    exhausted,
    next_number,
    stage_attempts,
    tried,
    unjudged,
    untimed_tuning,
)
from egg_graph.schema import (
    Analysis,
    BadInput,
    Candidate,
    CoderBrief,
    Diagnosis,
    Draft,
    Mode,
    Role,
    StageName,
    Usage,
)
from egg_graph.stages import Stage
from egg_graph.state import StageState, State
from egg_graph.team import plan_refusal

USER = "user"
"""Author of a kernel that a person handed in or edited."""
TUNER = "tuner"
"""Author of a kernel that differs from its parent in the values of CONFIG alone."""
BY_A_PERSON = "written by a person"
"""Plan of such a kernel: no role's words say what it changes."""


SKIPPED = (
    "nothing is timed here, so no call of a model could be shown to pay: hardware tuning is skipped "
    "(the knob tune_untimed has it done all the same)"
)


def unless_left_out(node: Callable[..., Coroutine[Any, Any, StageState]]) -> Callable[..., Any]:
    """Let a stage that does not run change nothing, and send no event.

    One that would tune untimed says so in its summary; the first of them sends an event.
    """

    @functools.wraps(node)
    async def run(self: "RoleNodes", state: StageState, runtime: Runtime[Context]) -> StageState:
        context = resolve(runtime.context, state)
        if enter(state, context, self.stage.name) == "skip":
            return StageState()
        if untimed_tuning(state, context, self.stage.name, paid=self.services.paid):
            return self.skip_untimed(state, context, runtime)
        return await node(self, state, runtime)

    return run


@dataclass
class RoleNodes:
    """Analyst, coder and debugger of one stage, with the nodes that open and close it."""

    stage: Stage
    services: Services

    def skip_untimed(self, state: StageState, context: Context, runtime: Runtime[Context]) -> StageState:
        """Leave the kernel as it is, with a summary that says why."""
        if all(summary.outcome != "skipped" for summary in state.get("summaries", [])):
            done = len(tried(state))
            tell(Event(event="stage", stage=self.stage.name, status="skipped", attempt=done, reason=SKIPPED), runtime)
        summary = summarize(
            {**state, "pending": Usage(), "analysis": None}, self.stage.name, context, paid=self.services.paid
        )
        return StageState(summaries=[summary.model_copy(update={"outcome": "skipped", "left": SKIPPED})])

    @unless_left_out
    @announced
    @count_seconds
    async def open(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Empty the intra-stage context, and take this stage's metrics of the kernel that it is handed.

        What the earlier stages learned stays in their summaries.
        """
        self._send(state, runtime, event="stage", status="opened", attempt=len(tried(state)))
        return StageState(
            mode=None,
            pending=Usage(),
            drafted=None,
            withheld="",
            analysis=None,
            diagnosis=None,
            candidate=None,
            **await self._with_metrics(state, resolve(runtime.context, state)),
        )

    async def _with_metrics(self, state: StageState, context: Context) -> StageState:
        """The evaluation of the best kernel with this stage's metrics, if an analyst is going to read them."""
        best, evaluation = state.get("best"), evaluation_of_best(state)
        read = context.max_optimizations > 0 and not exhausted(state, context)
        if best is None or evaluation is None or not evaluation.usable or not read:
            return StageState(evaluation=evaluation)
        profile = await self.services.profile_for(context, state["task"], best, evaluation, self.stage)
        if profile is None:
            return StageState(evaluation=evaluation)
        return StageState(evaluation=evaluation.model_copy(update={"profile": profile}), profile=profile)

    @announced
    @count_seconds
    async def analyst(self, state: State, runtime: Runtime[Context]) -> State:
        """Find the bottleneck of the best kernel, and plan one optimization or say that none is worth it.

        A person's plan is taken as it is, once, unless the team follows none. A kernel that a person put there is not
        analyzed before it is judged.
        """
        if unjudged(state):
            return State(analysis=None)  # type: ignore[typeddict-item]
        analysis: Analysis
        team, plan = self.services.get_team(), state.get("plan", "").strip()
        refusal = plan_refusal(team) if plan else ""
        if refusal:
            self._send(state, runtime, role="analyst", status="declined", reason=refusal)
        if plan and not refusal:
            analysis = Analysis(worth_optimizing=True, bottleneck="not analyzed: a person gave the plan", plan=plan)
        else:
            context = resolve(runtime.context, state)
            brief = analyst_brief(state, self.stage, context, self._knowledge(state, context))
            with ledger_entry("analyst") as call, asking_under(terms_of(state, context, self.stage.name, "analyst")):
                analysis = await Call(team.analyze, brief)
                call.answered(analysis.usage)
            if refusal:
                root_cause = "; ".join(
                    filter(None, (f"the plan {plan!r} was not tried: {refusal}", analysis.root_cause))
                )
                analysis = analysis.model_copy(update={"root_cause": root_cause})
        status = "worth_optimizing" if analysis.worth_optimizing else "not_worth_optimizing"
        told = analysis.plan or analysis.bottleneck
        if analysis.unusable:
            status, told = "no_answer", f"answer not usable: {analysis.unusable}; no optimization is planned"
        self._send(state, runtime, role="analyst", status=status, reason=told)
        return State(
            analysis=analysis, diagnosis=None, mode="optimize", plan="", **self._costs(state, "analyst", analysis)
        )  # type: ignore[typeddict-item]

    @announced
    @count_seconds
    async def coder(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Write a module: a seed, an optimization that follows the analysis, or a repair that follows the diagnosis.

        A kernel that a person put in place of the best one is not optimized before it is judged. Where the answer that
        asks for the module used up a budget, nothing is written.
        """
        if state.get("mode") == "optimize" and unjudged(state):
            return StageState(analysis=None)
        analysis = state.get("analysis")
        if state.get("mode") == "optimize" and analysis is not None and analysis.by == "config":
            return self._turn_knobs(analysis, state, runtime)
        context = resolve(runtime.context, state)
        if spent_by(state, context, self.stage.name, "coder"):
            return StageState(drafted=None)
        ordered, told = order_drafts(state, context, self.stage.name, paid=self.services.paid)
        mode = state.get("mode") or "seed"
        if told:
            self._send(state, runtime, role="coder", mode=mode, status="side_by_side", reason=told)
        if ordered is not None:
            return StageState(drafted=None, mode=mode, **ordered)
        team = self.services.get_team()
        brief = self.coder_brief(state, context)
        with ledger_entry("coder") as call, asking_under(terms_of(state, context, self.stage.name, "coder")):
            draft: Draft = await Call(team.write, brief)
            call.answered(draft.usage)
        if draft.declined:
            return self._decline(draft, state, runtime)
        candidate = self._candidate(draft, draft.author or team.name, state)
        self._send(
            state,
            runtime,
            role="coder",
            mode=brief.mode,
            status="no_code" if candidate.problem else "drafted",
            reason=candidate.problem or candidate.plan,
        )
        cost = self._costs(state, "coder", draft)
        return StageState(candidate=candidate, drafted=candidate.id, mode=brief.mode, **cost)

    def _turn_knobs(self, analysis: Analysis, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Write the values that the analyst chose into the best kernel. No model is asked."""
        from egg_graph.tuning import bake

        best = state["best"]
        assert best is not None, "a knob is turned in optimize mode, which has a best kernel"
        try:
            source = bake(best.source, analysis.config)
        except BadInput as error:
            return self._decline(Draft(declined=str(error)), state, runtime)
        changes = ", ".join(f"{knob} {best.config.get(knob)} -> {value}" for knob, value in analysis.config.items())
        plan, stage = f"{changes}: {analysis.plan}", self.stage.name
        candidate = make_candidate(
            Draft(source=source), author=TUNER, stage=stage, mode="optimize", parent=best, plan=plan
        )
        self._send(state, runtime, role="coder", mode="optimize", status="drafted", reason=plan)
        return StageState(candidate=candidate, drafted=candidate.id, mode="optimize")

    def _decline(self, draft: Draft, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Leave the kernel as it is, with no attempt of what the team does not write; the stage then ends."""
        mode = state.get("mode") or "seed"
        self._send(state, runtime, role="coder", mode=mode, status="declined", reason=draft.declined)
        analysis = declined_plan(state.get("analysis"), mode, draft.declined)
        return StageState(analysis=analysis, drafted=None, **self._costs(state, "coder", draft))

    @announced
    @count_seconds
    async def debugger(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Name the root cause of the last failure, and plan the repair."""
        context, team = resolve(runtime.context, state), self.services.get_team()
        brief = debugger_brief(state, self.stage, context)
        with ledger_entry("debugger") as call, asking_under(terms_of(state, context, self.stage.name, "debugger")):
            diagnosis: Diagnosis = await Call(team.debug, brief)
            call.answered(diagnosis.usage)
        status, told = "diagnosed", diagnosis.critical_issue
        if diagnosis.unusable:
            status, told = "no_answer", f"answer not usable: {diagnosis.unusable}; the evaluator's finding stands in"
        self._send(state, runtime, role="debugger", status=status, reason=told)
        return StageState(diagnosis=diagnosis, mode="repair", **self._costs(state, "debugger", diagnosis))

    @announced
    async def close(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Summarize the stage for those that follow."""
        context = self.services.settle_sweep(resolve(runtime.context, state), state)
        summary = summarize(state, self.stage.name, context, paid=self.services.paid)
        self._send(
            state,
            runtime,
            event="stage",
            status=summary.outcome,
            attempt=len(tried(state)),
            reason=summary.left,
        )
        return StageState(summaries=[summary])

    def coder_brief(self, state: StageState, context: Context) -> CoderBrief:
        """The coder's brief; in repair mode it takes neither principles nor guidance."""
        knowledge = Knowledge() if state.get("mode") == "repair" else self._knowledge(state, context)
        return coder_brief(state, self.stage, context, knowledge)

    def _knowledge(self, state: StageState, context: Context) -> Knowledge:
        baseline, evaluation = state["baseline"], evaluation_of_best(state)
        values = {} if evaluation is None else read_metrics(evaluation)
        scores = score_principles(known_attempts(state, self.stage, context))
        principles = self.services.match_principles(context, state["task"], self.stage.name, baseline, values, scores)
        return Knowledge(principles, scores, self.services.guidance_for(baseline))

    def _candidate(self, draft: Draft, author: str, state: StageState) -> Candidate:
        mode: Mode = state.get("mode") or "seed"
        parent = None if mode == "seed" else state.get("best")
        if mode == "repair":
            parent = stage_attempts(state, self.stage.name)[-1].candidate
        return make_candidate(
            draft, author=author, stage=self.stage.name, mode=mode, parent=parent, plan=_plan(state, mode, draft)
        )

    def _costs(self, state: StageState, role: Role, answer: Analysis | Diagnosis | Draft) -> StageState:
        """Add an answer's cost to the run, to its stage and role, and to the attempt that it leads to."""
        pending = state.get("pending", Usage()) + answer.usage
        spent = add_cost(state, self.stage.name, role, answer.usage)
        return {**spent, "pending": pending, "withheld": answer.withheld}

    def _send(self, state: StageState, runtime: Runtime[Context], **event: object) -> None:
        base = Event(event="role", stage=self.stage.name, attempt=next_number(state))
        runtime.stream_writer({**base, **event})


def make_candidate(
    draft: Draft, *, author: str, stage: StageName, mode: Mode, parent: Candidate | None, plan: str
) -> Candidate:
    """Make a candidate of a draft, with the knobs that its source declares.

    What is malformed in CONFIG or SPACE, and a knob that the source never reads, is dropped, and `mended` says so: the
    kernel may be right without it. A source that does not parse stays as it is: the evaluator names the line.
    """
    from egg_graph.tuning import read_knobs, unread

    problem = draft.problem
    if not problem and not draft.source.strip():
        problem = "the answer holds no code"
    source = "" if problem else draft.source
    config, space, dropped = read_knobs(source)
    unused = unread(source, space)
    space = {stage: {k: choices for k, choices in knobs.items() if k not in unused} for stage, knobs in space.items()}
    return Candidate(
        source=draft.source,
        author=author,
        stage=stage,
        mode=mode,
        parent=None if parent is None else parent.id,
        plan=plan,
        config=config,
        space=space,
        problem=problem,
        mended=(*draft.mended, *(f"knob dropped: {line}" for line in (*dropped, *unused.values()))),
    )


def hand_in(kernel: Candidate, stage: StageName) -> Candidate:
    """The candidate of a kernel that a person put in place of the best one.

    A person may have changed no more than the source of another candidate, so the knobs are read from the source, and
    author, mode and plan are those of a kernel that came from outside.
    """
    return edited(kernel.model_copy(update={"mode": "seed"}), stage)


def edited(candidate: Candidate, stage: StageName) -> Candidate:
    """The candidate whose source a person has changed: by `user`, without a role's plan, its knobs read from it."""
    problem = "" if candidate.source.strip() else candidate.problem
    draft = Draft(source=candidate.source, problem=problem)
    made = make_candidate(draft, author=USER, stage=stage, mode=candidate.mode, parent=None, plan=BY_A_PERSON)
    return made.model_copy(update={"parent": candidate.parent})


def _plan(state: StageState, mode: Mode, draft: Draft) -> str:
    analysis, diagnosis = state.get("analysis"), state.get("diagnosis")
    if mode == "optimize" and analysis is not None:
        return analysis.plan
    if mode == "repair" and diagnosis is not None:
        return diagnosis.modification_plan
    return draft.note
