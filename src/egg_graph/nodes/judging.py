"""The evaluator and the tuner of a stage: what turns a candidate into an attempt."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from langgraph.runtime import Runtime

from egg_graph.budgets import OF_EVALUATIONS, part_exhausted
from egg_graph.calls import Call
from egg_graph.context import Context, resolve
from egg_graph.evaluator.progress import Progress, hear_progress
from egg_graph.nodes.announce import announced
from egg_graph.nodes.call_ledger import ledger_entry
from egg_graph.nodes.drafts import gather_drafts
from egg_graph.nodes.events import Event, attempt_event, configuration_event, cut_event, trial_event
from egg_graph.nodes.improvement import improves, measure_effect, undecided
from egg_graph.nodes.roles import edited, hand_in
from egg_graph.nodes.seconds import count_seconds
from egg_graph.nodes.services import Services
from egg_graph.nodes.sweeping import are_alike, choose_configurations, join_changes, variants, what_is_left_out
from egg_graph.routing import evaluation_of, evaluation_of_best, exhausted, next_number, unjudged
from egg_graph.schema import Attempt, Candidate, Evaluation, Finding, Knob, Rung, Spending, Sweep, Trial, Usage
from egg_graph.stages import Stage, swept_knobs
from egg_graph.state import StageState, merge_attempts


@dataclass
class JudgingNodes:
    """Evaluator and tuner of one stage."""

    stage: Stage
    services: Services

    @announced
    @count_seconds
    async def evaluator(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Evaluate the candidate that the coder wrote. A program that this run has evaluated before is not run again.

        A kernel that a person put in place of the best one is evaluated before it. Drafts that were written side by
        side are only sorted out here: they are judged side by side as well.
        """
        judged = await self._judge_best(state, runtime)
        candidate = self._waiting(state)
        state = _apply(judged, state)
        update: StageState = judged
        if candidate is not None and not (judged and exhausted(state, resolve(runtime.context, state))):
            update = _join(judged, await self._record(candidate, state, runtime))
        gathered = self._gather(_apply(update, state), runtime) if state.get("side_by_side") else StageState()
        return {**update, "drafted": None, **gathered}

    def _gather(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Book the drafts that were written side by side, and tell which are dropped."""
        ordered = state["side_by_side"]
        assert ordered is not None, "there are drafts to book"
        gathered, dropped = gather_drafts(state, self.stage.name)
        self.services.forget_costs(ordered.key)
        about = Event(event="role", stage=self.stage.name, role="coder", attempt=next_number(state))
        for number, why in dropped:
            runtime.stream_writer({**about, "draft": number, "status": "dropped", "reason": why})
        return gathered

    @announced
    @count_seconds
    async def tuner(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Sweep the knobs that the best kernel leaves to this stage. No model is called.

        The evaluator ranks the configurations by cheaper evidence. The winner is evaluated like any other candidate,
        and kept only if it is better.
        """
        context = self._knobs(state, runtime)
        if exhausted(state, context) or part_exhausted(state, context, self.stage.name, OF_EVALUATIONS):
            return StageState()
        judged = await self._judge_best(state, runtime)
        state = _apply(judged, state)
        best = state.get("best")
        if best is None or not self._sweepable(best, context) or (judged and exhausted(state, context)):
            return judged
        favourite = await self._winner_before(best, state, context)
        configs = choose_configurations(best, self.stage.name, state, context, favourite)
        if len(configs) < 2:
            return judged
        candidates = variants(best, configs, self.stage.name)
        if left := what_is_left_out(best, candidates, self.stage.name, state, context, known=favourite is not None):
            runtime.stream_writer(cut_event(self.stage.name, left))
        sweep, winner = await self._sweep(candidates, state, runtime)
        swept: StageState = {**judged, "sweeps": [sweep]}
        return swept if winner is None else _join(swept, await self._record(winner, state, runtime))

    def _knobs(self, state: StageState, runtime: Runtime[Context]) -> Context:
        """The knobs of the run, with what its sweeps turn."""
        return self.services.settle_sweep(resolve(runtime.context, state), state)

    def _waiting(self, state: StageState) -> Candidate | None:
        """The candidate that waits for its evaluation; None where there is none.

        It is the coder's, or a person's who edited the coder's or took the coder's place.
        """
        candidate, drafted = state.get("candidate"), state.get("drafted")
        if candidate is None or candidate.id == drafted:
            return candidate
        if drafted is None and evaluation_of(state, candidate.id) is not None:
            return None
        return edited(candidate, self.stage.name)

    async def _judge_best(self, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Evaluate a kernel that a person put in place of the best one; change nothing where there is none.

        A usable one stays the best kernel, for a person chose it. Otherwise the best attempt so far takes its place.
        """
        best = state.get("best")
        if best is None or not unjudged(state):
            return StageState()
        usable = [a for a in state.get("attempts", []) if a.evaluation.usable]
        before = min(usable, key=lambda a: a.evaluation.merit, default=None)
        kernel, evaluation = (None, None) if before is None else (before.candidate, before.evaluation)
        earlier = StageState(best=kernel, evaluation=evaluation, analysis=None, diagnosis=None, pending=Usage())
        update = await self._record(hand_in(best, self.stage.name), {**state, **earlier}, runtime)
        del update["pending"]  # the cost of answers that led to another candidate
        (attempt,) = update["attempts"]
        if attempt.evaluation.usable:
            kernel, evaluation = attempt.candidate, attempt.evaluation
        return {**update, "best": kernel, "evaluation": evaluation, "kernel": "" if kernel is None else kernel.source}

    def _sweepable(self, best: Candidate, context: Context) -> bool:
        """Whether the best kernel leaves knobs to this stage, and the run may sweep them."""
        return context.tune and context.max_configs >= 2 and bool(swept_knobs(best.space, self.stage.name, context))

    async def _winner_before(self, best: Candidate, state: StageState, context: Context) -> dict[str, Knob] | None:
        """The configuration of the best kernel that won on such a machine before; None where nobody remembers one."""
        remembered = getattr(self.services.get_evaluator(context), "winner_before", None)
        if remembered is None:
            return None
        winner: dict[str, Knob] | None = await Call(remembered, state["task"], state["baseline"], best)
        return winner

    async def _sweep(
        self, candidates: list[Candidate], state: StageState, runtime: Runtime[Context]
    ) -> tuple[Sweep, Candidate | None]:
        """Screen the configurations, of which the first is the best kernel's own; then those that join what paid.

        Returns:
            What was tried, and the winner; None where none is usable, the kernel's own configuration wins, or the
            sweep of a whole kernel told them apart by no more than the noise.
        """
        from egg_graph.tuning import best, spanned

        context, stage, kernel = self._knobs(state, runtime), self.stage.name, candidates[0]
        trials = await self._screen(candidates, state, runtime)
        winner = best(trials)
        if joined := variants(kernel, join_changes(trials, context), stage):
            leader = next(number for number, trial in enumerate(trials) if trial is winner)
            trials[leader], *more = await self._screen([candidates[leader], *joined], state, runtime)
            candidates, trials = [*candidates, *joined], [*trials, *more]
            winner = best([trials[leader], *more]) or best(trials)
        if context.sweep != "stage" and winner is not None and winner.milliseconds is None:
            winner = trials[0]  # no clock told which one is fast
        sweep = Sweep(
            stage=stage,
            kernel=kernel.id,
            knobs=spanned(kernel.config, swept_knobs(kernel.space, stage, context)),
            trials=tuple(trials),
            winner=None if winner is None else winner.config,
        )
        chosen = next((c for c, trial in zip(candidates, trials, strict=True) if trial is winner), kernel)
        alike = context.sweep != "stage" and winner is not None and are_alike(winner, trials[0])
        return sweep, None if chosen is kernel or alike else chosen

    async def _screen(self, candidates: list[Candidate], state: StageState, runtime: Runtime[Context]) -> list[Trial]:
        """The trials of some configurations, each told as it is done."""
        evaluator = self.services.get_evaluator(resolve(runtime.context, state))
        trials: tuple[Trial, ...]
        with (
            self._trials_told(candidates, state, runtime) as told,
            ledger_entry("sweep") as call,
        ):
            trials = await Call(evaluator.screen, state["task"], candidates)
            call.spent = sum((trial.spent for trial in trials), Spending())
        for number, trial in enumerate(trials):
            if number not in told:
                runtime.stream_writer(trial_event(self.stage.name, trial))
        return list(trials)

    @contextmanager
    def _trials_told(
        self, candidates: list[Candidate], state: StageState, runtime: Runtime[Context]
    ) -> Iterator[set[int]]:
        """Send `started` and `trial` of each configuration as the evaluator reports them.

        Yields:
            The numbers of the configurations whose trial was sent.
        """
        told: set[int] = set()

        def hear(progress: Progress) -> None:
            if progress.trial is not None and progress.number is not None:
                told.add(progress.number)
                runtime.stream_writer(trial_event(self.stage.name, progress.trial))
            elif progress.number is not None:
                event = configuration_event(self.stage.name, candidates, progress.number, progress.doing)
                runtime.stream_writer({**event, "attempt": next_number(state)})
            elif outer is not None:
                outer(progress)

        with hear_progress(hear) as outer:
            yield told

    async def _record(self, candidate: Candidate, state: StageState, runtime: Runtime[Context]) -> StageState:
        """Evaluate a candidate, and add the attempt to the history."""
        known = same_program(candidate, state)
        evaluation = (
            await self._evaluate(candidate, state, runtime) if known is None else reused_evaluation(known, candidate)
        )
        best = evaluation_of_best(state)
        improved = improves(evaluation, best)
        analysis, repaired = state.get("analysis"), candidate.mode == "repair"
        # A sweep follows an analysis only where the analysis asked for one; otherwise no answer led to this attempt.
        planned = candidate.mode != "tune" or (analysis is not None and analysis.by == "sweep")
        analysis = analysis if planned else None
        attempt = Attempt(
            number=next_number(state),
            candidate=candidate,
            evaluation=evaluation,
            analysis=analysis,
            diagnosis=state.get("diagnosis") if repaired else None,
            improved=improved,
            undecided=known is None and not improved and undecided(evaluation, best),
            repeats=None if known is None else known.number,
            effect=None if analysis is None else measure_effect(analysis.expected, best, evaluation),
            usage=state.get("pending", Usage()) if planned else Usage(),
        )
        runtime.stream_writer(attempt_event(attempt, repeated=known is not None))
        update = update_after(attempt)
        if planned:
            update["pending"] = Usage()
        return update

    async def _evaluate(self, candidate: Candidate, state: StageState, runtime: Runtime[Context]) -> Evaluation:
        if candidate.problem:
            return no_code_evaluation(candidate, state)
        return await self.services.evaluate(resolve(runtime.context, state), state["task"], candidate, self.stage.name)


def _apply(update: StageState, state: StageState) -> StageState:
    """The state after an update, as LangGraph would make it."""
    if not update:
        return state
    attempts = merge_attempts(state.get("attempts", []), [update.get("attempts", [])])
    return {**state, **update, "attempts": attempts}


def _join(first: StageState, second: StageState) -> StageState:
    """Two updates as one: of both the attempts, of the rest the later value."""
    return _apply(second, first)


def update_after(attempt: Attempt) -> StageState:
    """What an attempt with which the stage goes on changes in the state."""
    candidate, evaluation = attempt.candidate, attempt.evaluation
    update = StageState(attempts=[attempt], candidate=candidate, profile=evaluation.profile)
    if evaluation.usable:  # what the diagnosis named is mended
        update["diagnosis"] = None
    if attempt.improved:
        update |= StageState(best=candidate, evaluation=evaluation, kernel=candidate.source)
    return update


def same_program(candidate: Candidate, state: StageState) -> Attempt | None:
    """The first attempt of this run at the same program, if there is one; that one repeats no other."""
    program = candidate.program
    return next((a for a in state.get("attempts", []) if a.candidate.program == program), None)


def reused_evaluation(known: Attempt, candidate: Candidate) -> Evaluation:
    """The evaluation of a program that was judged before, under the id of its new source."""
    return known.evaluation.model_copy(update={"candidate": candidate.id})


def no_code_evaluation(candidate: Candidate, state: StageState) -> Evaluation:
    """The evaluation of a draft that holds no usable module: a compile error, made without the evaluator."""
    cure = "Answer with one complete Python module that defines class ModelNew(nn.Module)."
    return Evaluation(
        candidate=candidate.id,
        task=state["task"].digest,
        status="compile_error",
        reason=candidate.problem,
        findings=(Finding(kind="no_code", message=candidate.problem, where="the coder's answer", cure=cure),),
        rungs=(Rung(name="draft", outcome="failed", statement=candidate.problem),),
    )
