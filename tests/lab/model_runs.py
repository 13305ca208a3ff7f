"""Runs of many problems at once whose prompts and evaluations are answered by others, in lockstep.

Every run goes on until it needs an answer that is not there, and ends; the next time it goes on from its checkpoints.
Nothing is asked twice: a prompt is known by its text, an evaluation by its content.

FOLDER/terms.json                                the problems and the knobs of all runs
FOLDER/begun.json                                the run's id of each problem and player
FOLDER/runs/<id>/                                a run
FOLDER/handoff/<problem>/001-coder.prompt.md     a prompt; its answer goes into 001-coder.answer.md beside it, and is
                                                 taken by every run of the problem that asks the same
FOLDER/spool/                                    questions to the evaluator, and its answers
"""

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from egg_graph import aoptimize, aresume
from egg_graph.agents.handoff_folder import PROMPT, open_prompts
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.bench.ablation import check_parts, knobs_without, services_without
from egg_graph.bench.provenance import code_digest, commit, describe_machine, utc_now, version
from egg_graph.context import make_context
from egg_graph.evaluator.remote.questions import Question, read_question
from egg_graph.runs.files import write_whole
from egg_graph.schema import AnswerPending, BadInput, EggError, Environment, Value

TERMS, BEGUN = "terms.json", "begun.json"
RUNS, HANDOFF, SPOOL = "runs", "handoff", "spool"
Player = Literal["model", "expert"]
DEFAULTS: dict[str, Any] = {
    "max_optimizations": 1,
    "max_repairs": 2,
    "max_seconds": 1e6,
    "budgets": ["coder.calls=7"],
}
"""Knobs that differ from those of any other run. One plan a stage, and few repairs, make few prompts and few trips: all
runs wait for the one that makes most. Time is no budget, for it passes with waiting."""
OF_THE_TASK = ("target", "precision", "domain", "triton_only", "device", "accept", "max_seconds")
"""Knobs that hold for the embedded expert's runs as well, which otherwise have their defaults."""


class Terms(Value):
    """What holds for all runs of a folder."""

    references: dict[str, str]
    """Path of the reference by the problem's name."""
    knobs: dict[str, Any]
    expert: bool
    """Whether the embedded expert has a run of its own at every problem, to compare with."""
    without: tuple[str, ...] = ()
    """Parts of `egg_graph.bench.ablation`, each left out of a further model's run at every problem."""
    version: str
    commit: str = ""
    code: str = ""
    """Digest of the package and its prompts."""
    started: str

    def line(self, environment: Environment | None) -> str:
        """What a page of these runs says first: code, machine and knobs."""
        knobs = ", ".join(f"{name} {value}" for name, value in self.knobs.items())
        code = f"egg-graph {self.version}{f' ({self.commit})' if self.commit else ''}, code {self.code}"
        return f"{code}, begun {self.started}; judged on {describe_machine(environment)}. Knobs: {knobs}."


class PlannedRun(NamedTuple):
    """One run: who plays the team at which problem."""

    problem: str
    player: Player
    without: str = ""
    """The part that is left out of it; empty for none."""

    @property
    def key(self) -> str:
        """Its name in the list of runs that were begun."""
        return f"{self.problem} {self.player}{f' without {self.without}' if self.without else ''}"


class WaitingPrompt(NamedTuple):
    """A prompt that nobody has answered."""

    problem: str
    role: str
    path: Path
    tokens: int
    """Estimated from the text."""


class RunsProgress(NamedTuple):
    """How far the runs of a folder are."""

    total: int
    ended: int
    failed: dict[str, str]
    """Why a run cannot go on, by its key."""
    prompts: tuple[WaitingPrompt, ...]
    questions: tuple[Question, ...]
    """Those of the evaluator that lie there without an answer."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        tokens = sum(prompt.tokens for prompt in self.prompts)
        failed = f", {len(self.failed)} cannot go on" if self.failed else ""
        return (
            f"{self.ended} of {self.total} runs ended{failed}; {len(self.prompts)} prompts wait (about {tokens:,} "
            f"tokens), {len(self.questions)} evaluations wait"
        )


class ModelRuns:
    """The runs of one folder.

    Args:
        folder: made by `begin_model_runs`.
        begin: begin the runs that were not begun; otherwise there are those alone that were.

    Raises:
        BadInput: if no runs were begun there.
    """

    def __init__(self, folder: Path, *, begin: bool = True) -> None:
        self.folder = folder
        self._begin = begin
        try:
            self.terms = Terms.model_validate_json((folder / TERMS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(f"{folder}: no runs were begun there; name problems") from error
        self._lock = threading.Lock()

    @property
    def planned_runs(self) -> list[PlannedRun]:
        """All runs: whole ones of the model, those without a part, the expert's."""
        kinds: list[tuple[Player, str]] = [("model", part) for part in ("", *self.terms.without)]
        if self.terms.expert:
            kinds.append(("expert", ""))
        planned_runs = [PlannedRun(problem, *kind) for kind in kinds for problem in self.terms.references]
        begun = self.begun
        return [planned for planned in planned_runs if self._begin or planned.key in begun]

    @property
    def begun(self) -> dict[str, str]:
        """Ids of the runs that were begun, by the run's key."""
        path = self.folder / BEGUN
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def run_folder(self, planned: PlannedRun) -> Path | None:
        """Folder of a run; None where it was not begun."""
        known = self.begun.get(planned.key)
        return None if known is None else self.folder / RUNS / known

    def ended(self, planned: PlannedRun) -> bool:
        """Whether a run has its results."""
        folder = self.run_folder(planned)
        return folder is not None and (folder / "evidence.json").is_file()

    async def advance(
        self, *, wait: float | None = 0, at_once: int | None = 4, budgets: Mapping[str, Any] | None = None
    ) -> RunsProgress:
        """Let every run go on until it needs an answer that is not there.

        Args:
            budgets: given anew to the runs of models, such as `{"max_calls": 1}`, which ends those that asked.
            wait: seconds to wait for an answer of the evaluator; None waits as long as it takes.
            at_once: runs at work at the same time; None for all of them.
        """
        left = [planned for planned in self.planned_runs if not self.ended(planned)]
        free = asyncio.Semaphore(at_once or max(1, len(left)))

        async def work(planned: PlannedRun) -> str:
            async with free:
                return await self._go_on(planned, wait, budgets or {})

        ends = await asyncio.gather(*(work(planned) for planned in left), return_exceptions=True)
        for end in ends:  # a defect of ours is raised when the other runs have gone on
            if isinstance(end, BaseException):
                raise end
        return self.progress({planned.key: str(why) for planned, why in zip(left, ends, strict=True) if why})

    def progress(self, failed: dict[str, str] | None = None) -> RunsProgress:
        """What the folder tells: the runs that ended, and what waits.

        Args:
            failed: why runs could not go on, by the run's key.
        """
        ended = sum(self.ended(planned) for planned in self.planned_runs)
        return RunsProgress(len(self.planned_runs), ended, failed or {}, self._prompts(), self._questions())

    async def _go_on(self, planned: PlannedRun, wait: float | None, budgets: Mapping[str, Any]) -> str:
        """Begin or resume one run; return why it cannot go on, where that is no missing answer."""
        spool = f"spool:{self.folder / SPOOL}"
        services: dict[str, Any] = {
            "model": f"handoff:{self.folder / HANDOFF / planned.problem},wait=0" if planned.player == "model" else None,
            "evaluator": spool if wait is None else f"{spool},wait={wait:g}",
            "runs_dir": self.folder / RUNS,
            **services_without(planned.without),
        }
        known = self.begun.get(planned.key)
        try:
            if known is not None:
                await aresume(known, **services, **(budgets if planned.player == "model" else {}))
                return ""
            await aoptimize(
                self.terms.references[planned.problem],
                name=planned.problem,
                on_start=lambda folder: self._note(planned, folder),
                **services,
                **self._knobs(planned),
            )
        except AnswerPending:
            return ""
        except EggError as error:
            return str(error)
        return ""

    def _knobs(self, planned: PlannedRun) -> dict[str, Any]:
        knobs = {**self.terms.knobs, "memory": False}
        if planned.player == "expert":
            return {name: value for name, value in knobs.items() if name in (*OF_THE_TASK, "memory")}
        return {**knobs, **knobs_without(planned.without, make_context(knobs))} if planned.without else knobs

    def _note(self, planned: PlannedRun, folder: Path) -> None:
        """Note that a run was begun, before its first step."""
        with self._lock:
            write_whole(self.folder / BEGUN, json.dumps({**self.begun, planned.key: folder.name}, indent=1) + "\n")

    def _prompts(self) -> tuple[WaitingPrompt, ...]:
        return tuple(
            WaitingPrompt(problem, prompt.role, folder / f"{prompt.id}{PROMPT}", estimate_tokens(prompt.text))
            for problem in self.terms.references
            for folder in [self.folder / HANDOFF / problem]
            for prompt in open_prompts(folder)
        )

    def _questions(self) -> tuple[Question, ...]:
        spool = self.folder / SPOOL
        files = sorted((spool / "questions").glob("*.json"))
        return tuple(read_question(file.read_bytes()) for file in files if not (spool / "answers" / file.name).exists())


def begin_model_runs(
    folder: Path,
    references: Sequence[Path],
    knobs: dict[str, Any],
    *,
    expert: bool = True,
    without: Sequence[str] = (),
) -> ModelRuns:
    """Make the folder of the runs of some problems. Where it is made already, the terms must be the same.

    Args:
        references: in KernelBench's form; each problem is named by its file.
        knobs: of every model's run; what is left out is as in `DEFAULTS`.
        expert: let the embedded expert have a run of its own at every problem.
        without: parts that are each left out of a further run at every problem. More of them may follow later.

    Raises:
        BadInput: if two problems have one name, a knob is wrong, or the folder holds runs on other terms.
    """
    paths = {path.stem: str(path.resolve()) for path in references}
    if len(paths) < len(references):
        raise BadInput("two problems have one name: problems are named by their files")
    knobs = {**DEFAULTS, **knobs}
    make_context(knobs)
    check_parts(without)
    told = {"version": version(), "commit": commit(), "code": code_digest(), "started": utc_now()}
    fresh = Terms(references=paths, knobs=knobs, expert=expert, without=tuple(without), **told)
    if (folder / TERMS).exists():
        runs = ModelRuns(folder)
        same = {"references", "knobs", "expert"}
        if runs.terms.model_dump(mode="json", include=same) != fresh.model_dump(mode="json", include=same):
            raise BadInput(f"{folder}: holds runs of other problems, or with other knobs; name another folder")
        return leave_out(runs, without)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / TERMS, fresh.model_dump_json(indent=1) + "\n")
    return ModelRuns(folder)


def leave_out(runs: ModelRuns, parts: Sequence[str]) -> ModelRuns:
    """Have each of these parts left out of a further run at every problem.

    Raises:
        BadInput: if no knob leaves one of them out.
    """
    check_parts(parts)
    without = tuple(dict.fromkeys((*runs.terms.without, *parts)))
    terms = runs.terms.model_copy(update={"without": without})
    write_whole(runs.folder / TERMS, terms.model_dump_json(indent=1) + "\n")
    return ModelRuns(runs.folder)


def read_knobs(words: Sequence[str]) -> dict[str, Any]:
    """Read knobs of the form NAME=JSON; a value that is no JSON is a text.

    Raises:
        BadInput: if one has no `=`.
    """
    knobs: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadInput(f"knob {word!r}: write NAME=JSON, such as max_repairs=1")
        try:
            knobs[name] = json.loads(value)
        except ValueError:
            knobs[name] = value
    return knobs


def progress_lines(progress: RunsProgress) -> list[str]:
    """What waits, a line each: the prompts, then the questions to the evaluator, then what cannot go on."""
    lines = [f"prompt  {one.path}  {one.role}, about {one.tokens:,} tokens" for one in progress.prompts]
    for question in progress.questions:
        about = "" if question.task is None else question.task.name
        lines.append(f"evaluation  {question.key[:8]}  {question.kind} {about}")
    lines += [f"cannot go on  {run}: {why}" for run, why in progress.failed.items()]
    return [*lines, progress.line]
