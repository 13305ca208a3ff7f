"""The three agents of a stage, and its opening and closing."""

import ast
from dataclasses import dataclass

from langgraph.runtime import Runtime

from egg_graph.briefing import analyst_brief, coder_brief, debugger_brief
from egg_graph.context import Context, resolve
from egg_graph.events import Event
from egg_graph.nodes.clock import clocked
from egg_graph.parts import Parts
from egg_graph.routing import stage_attempts
from egg_graph.schema import BadInput, Candidate, ConfigSpace, Draft, Knob, Mode, Principle, Usage
from egg_graph.stages import Stage
from egg_graph.state import StageState
from egg_graph.summary import summarize


@dataclass
class RoleNodes:
    """Analyst, coder and debugger of one stage, with the nodes that open and close it."""

    stage: Stage
    parts: Parts

    def open(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Begin with an empty intra-stage context; what the earlier stages learnt comes in their summaries."""
        self._tell(state, runtime, event="stage", status="opened", attempt=len(state.get("attempts", [])))
        return StageState(mode=None, pending=Usage(), analysis=None, diagnosis=None, candidate=None)

    @clocked
    def analyst(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Find the bottleneck of the best kernel, and plan one optimization or say that none is worth it."""
        principles, guidance = self._principles(state, runtime), self.parts.guidance_for(state["baseline"])
        analysis = self.parts.the_team().analyze(analyst_brief(state, self.stage, principles, guidance))
        status = "worth_optimizing" if analysis.worth_optimizing else "not_worth_optimizing"
        self._tell(state, runtime, role="analyst", status=status, reason=analysis.plan or analysis.bottleneck)
        return StageState(analysis=analysis, mode="optimize", **_spent(state, analysis.usage))  # type: ignore[typeddict-item]

    @clocked
    def coder(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Write a module: a seed, an optimization by the analyst's plan, or a repair by the debugger's."""
        context = resolve(runtime.context)
        team = self.parts.the_team()
        principles, guidance = self._principles(state, runtime), self.parts.guidance_for(state["baseline"])
        brief = coder_brief(state, self.stage, principles, guidance)
        if context.expert_seed and brief.mode == "seed":
            brief = brief.model_copy(update={"seed_hint": self.parts.expert_seed(brief)})
        draft = team.write(brief)
        candidate = self._candidate(draft, team.name, state)
        self._tell(
            state,
            runtime,
            role="coder",
            mode=brief.mode,
            status="no_code" if candidate.problem else "drafted",
            reason=candidate.problem or candidate.plan,
        )
        return StageState(candidate=candidate, mode=brief.mode, **_spent(state, draft.usage))  # type: ignore[typeddict-item]

    @clocked
    def debugger(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Name the root cause of the last failure and how to mend it."""
        diagnosis = self.parts.the_team().debug(debugger_brief(state, self.stage))
        self._tell(state, runtime, role="debugger", status="diagnosed", reason=diagnosis.critical_issue)
        return StageState(diagnosis=diagnosis, mode="repair", **_spent(state, diagnosis.usage))  # type: ignore[typeddict-item]

    def close(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Leave one summary of the stage to those that follow."""
        summary = summarize(state, self.stage.name, resolve(runtime.context))
        self._tell(
            state,
            runtime,
            event="stage",
            status=summary.outcome,
            attempt=len(state.get("attempts", [])),
            reason=summary.left,
        )
        return StageState(summaries=[summary])

    def _principles(self, state: StageState, runtime: Runtime[Context]) -> tuple[Principle, ...]:
        return self.parts.principles_for(resolve(runtime.context), state["task"], self.stage.name, state["baseline"])

    def _candidate(self, draft: Draft, author: str, state: StageState) -> Candidate:
        mode: Mode = state.get("mode") or "seed"
        parent = state.get("best")
        if mode == "repair":
            parent = stage_attempts(state, self.stage.name)[-1].candidate
        return make_candidate(
            draft, author=author, stage=self.stage, mode=mode, parent=parent, plan=_plan(state, mode, draft)
        )

    def _tell(self, state: StageState, runtime: Runtime[Context], **event: object) -> None:
        base = Event(event="role", stage=self.stage.name, attempt=len(state.get("attempts", [])) + 1)
        runtime.stream_writer({**base, **event})


def make_candidate(
    draft: Draft, *, author: str, stage: Stage, mode: Mode, parent: Candidate | None, plan: str
) -> Candidate:
    """A candidate with the knobs that its source declares. A malformed CONFIG or SPACE is a problem of the draft; a
    source that does not parse is left to the evaluator, which says where."""
    from egg_graph.tuning import parse_space

    config: dict[str, Knob] = {}
    space: ConfigSpace = {}
    problem = draft.problem
    if not problem and not draft.source.strip():
        problem = "the answer holds no code"
    if not problem and _parses(draft.source):
        try:
            config, space = parse_space(draft.source)
        except BadInput as error:
            problem = str(error)
    return Candidate(
        source=draft.source,
        author=author,
        stage=stage.name,
        mode=mode,
        parent=None if parent is None else parent.id,
        plan=plan,
        config=config,
        space=space,
        problem=problem,
    )


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _plan(state: StageState, mode: Mode, draft: Draft) -> str:
    analysis, diagnosis = state.get("analysis"), state.get("diagnosis")
    if mode == "optimize" and analysis is not None:
        return analysis.plan
    if mode == "repair" and diagnosis is not None:
        return diagnosis.modification_plan
    return draft.note


def _spent(state: StageState, usage: Usage) -> dict[str, Usage]:
    """Book an answer's cost: to the run, and to the attempt that it will lead to."""
    return {
        "usage": state.get("usage", Usage()) + usage,
        "pending": state.get("pending", Usage()) + usage,
    }
