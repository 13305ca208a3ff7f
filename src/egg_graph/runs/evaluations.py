"""What an evaluator said in a run, kept in the run's folder, and an evaluator that says it again.

evaluations/baseline.json             the task, and its baseline
evaluations/<candidate>-<hash>.json   a candidate, how it was to be judged, and its evaluation
evaluations/screen-<hash>.json        the candidates of a sweep, and their trials
evaluations/profile-<hash>.json       a stage's own metrics of a kernel that another stage judged
evaluations/winner-<candidate>.json   the configuration that a store of winners had the sweep of a kernel try first
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from egg_graph.calls import Call, arun, run
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.runs.files import indented
from egg_graph.runs.kept_files import KeptFiles
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Draft,
    Evaluation,
    KernelTask,
    Knob,
    Profile,
    StageName,
    Trial,
)

EVALUATIONS = "evaluations"
"""Folder of the evaluator's answers, in the run's folder."""
T = TypeVar("T")
_TRIALS: TypeAdapter[tuple[Trial, ...]] = TypeAdapter(tuple[Trial, ...])
_BASELINE: TypeAdapter[Baseline] = TypeAdapter(Baseline)
_EVALUATION: TypeAdapter[Evaluation] = TypeAdapter(Evaluation)
_PROFILE: TypeAdapter[Profile] = TypeAdapter(Profile)


def _baseline_file(task: KernelTask) -> str:
    return "baseline.json"


def _evaluation_file(task: KernelTask, candidate: Candidate, stage: StageName | None, finalist: bool) -> str:
    return f"{candidate.id}-{_digest(task.digest, candidate.source, stage, finalist)}.json"


def _screen_file(task: KernelTask, candidates: Sequence[Candidate]) -> str:
    return f"screen-{_digest(task.digest, *(candidate.source for candidate in candidates))}.json"


def _profile_file(task: KernelTask, candidate: Candidate, stage: StageName | None) -> str:
    return f"profile-{_digest(task.digest, candidate.source, stage)}.json"


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _winner_file(candidate: Candidate) -> str:
    return f"winner-{candidate.id}.json"


def _from_stores(task: KernelTask, baseline: Baseline, candidate: Candidate) -> dict[str, Knob] | None:
    """The configuration that won in the same situation; None where none is known."""
    from egg_graph.tuning import find_winner, situation_of, stores

    situation = situation_of(task, baseline, candidate.source)
    winner = None if situation is None else find_winner(situation, *stores())
    return None if winner is None else winner.config


class RecordedEvaluator:
    """Asks another evaluator, and keeps each answer in a run's folder.

    Args:
        evaluator: makes the evaluator that is asked, on first use.
        folder: the run's folder.
    """

    def __init__(self, evaluator: Callable[[], Evaluator], folder: Path) -> None:
        self._make = evaluator
        self.files = KeptFiles(folder, EVALUATIONS)

    def __getattr__(self, name: str) -> Any:
        """What the evaluator has beside the protocol's methods (`judges_elsewhere`, `measures_tuned`, `cache_key`)."""
        return getattr(self._make(), name)

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """See `Evaluator.baseline`."""
        return run(self._baseline(task, tuned))

    async def abaseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """`baseline` in an event loop."""
        return await arun(self._baseline(task, tuned))

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        return run(self._evaluate(task, candidate, stage, finalist))

    async def aevaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """`evaluate` in an event loop."""
        return await arun(self._evaluate(task, candidate, stage, finalist))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`."""
        return run(self._screen(task, candidates))

    async def ascreen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """`screen` in an event loop."""
        return await arun(self._screen(task, candidates))

    @property
    def profile(self) -> Callable[..., Profile]:
        """See `LocalEvaluator.profile`. Absent where the evaluator that is asked has none."""
        if not hasattr(self._make(), "profile"):
            raise AttributeError("the evaluator takes no profiles")
        return self.take_profile

    def take_profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """Ask for a profile, and keep it."""
        return run(self._profile(task, candidate, evaluation, stage))

    async def atake_profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """`take_profile` in an event loop."""
        return await arun(self._profile(task, candidate, evaluation, stage))

    def winner_before(self, task: KernelTask, baseline: Baseline, candidate: Candidate) -> dict[str, Knob] | None:
        """See `Evaluator`: what the evaluator that is asked remembers, else the user's store or the one that ships.

        Raises:
            BadInput: if a store is damaged.
        """
        remembered = getattr(self._make(), "winner_before", _from_stores)
        config: dict[str, Knob] | None = remembered(task, baseline, candidate)
        if config is not None:
            self._keep(_winner_file(candidate), {}, json.dumps(config).encode())
        return config

    async def _baseline(self, task: KernelTask, tuned: bool) -> Baseline:
        ask = self._make().baseline
        answer: Baseline = await (Call(ask, task, tuned=True) if tuned else Call(ask, task))
        self._keep(_baseline_file(task), {"task": task.model_dump(mode="json")}, _BASELINE.dump_json(answer))
        return answer

    async def _evaluate(
        self, task: KernelTask, candidate: Candidate, stage: StageName | None, finalist: bool
    ) -> Evaluation:
        answer: Evaluation = await Call(self._make().evaluate, task, candidate, stage=stage, finalist=finalist)
        if answer.status != "infra_error":
            asked = {"candidate": candidate.model_dump(mode="json"), "stage": stage, "finalist": finalist}
            self._keep(_evaluation_file(task, candidate, stage, finalist), asked, _EVALUATION.dump_json(answer))
        return answer

    async def _screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        answer: tuple[Trial, ...] = await Call(self._make().screen, task, candidates)
        asked = {"configs": [candidate.config for candidate in candidates]}
        self._keep(_screen_file(task, candidates), asked, _TRIALS.dump_json(answer))
        return answer

    async def _profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, stage: StageName | None
    ) -> Profile:
        evaluator: Any = self._make()
        answer: Profile = await Call(evaluator.profile, task, candidate, evaluation, stage=stage)
        asked = {"candidate": candidate.id, "stage": stage}
        self._keep(_profile_file(task, candidate, stage), asked, _PROFILE.dump_json(answer))
        return answer

    def _keep(self, name: str, asked: dict[str, Any], answer: bytes) -> None:
        self.files.write(name, indented({**asked, "answer": json.loads(answer)}, 1))


class ReplayEvaluator:
    """Gives the answers that a run's evaluator gave (implements `egg_graph.evaluator.Evaluator`); needs no GPU.

    Anything that was not asked in the run raises `BadInput`.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / EVALUATIONS

    @property
    def task(self) -> KernelTask:
        """The task of the run."""
        return KernelTask.model_validate(self._read("baseline.json", "it has no baseline")["task"])

    measures_tuned = True
    """Its baseline holds what the run's evaluator measured of tuned PyTorch."""

    def baseline(self, task: KernelTask, *, tuned: bool = False) -> Baseline:
        """See `Evaluator.baseline`."""
        answer = self._answer(_BASELINE, _baseline_file(task), "it has no baseline")
        if answer.task != task.digest:
            raise BadInput("the replay has another task than the run: its reference, target or knobs differ")
        return answer

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """See `Evaluator.evaluate`."""
        what = f"it did not evaluate kernel {candidate.id} in {stage}" + (" as a finalist" if finalist else "")
        return self._answer(_EVALUATION, _evaluation_file(task, candidate, stage, finalist), what)

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """See `Evaluator.screen`."""
        return self._answer(_TRIALS, _screen_file(task, candidates), f"it did not sweep these {len(candidates)} knobs")

    @property
    def profile(self) -> Callable[..., Profile]:
        """See `LocalEvaluator.profile`. Absent where the run keeps none: then its evaluator took none."""
        if not any(self._folder.glob("profile-*.json")):
            raise AttributeError(f"the run {self._folder.parent.name} keeps no profile")
        return self.kept_profile

    def kept_profile(
        self, task: KernelTask, candidate: Candidate, evaluation: Evaluation, *, stage: StageName | None = None
    ) -> Profile:
        """The profile that the run's evaluator took of a kernel for a stage."""
        what = f"it did not profile kernel {candidate.id} for {stage}"
        return self._answer(_PROFILE, _profile_file(task, candidate, stage), what)

    def winner_before(self, task: KernelTask, baseline: Baseline, candidate: Candidate) -> dict[str, Knob] | None:
        """The configuration that a store had that run try first; None where there was none."""
        if not (self._folder / _winner_file(candidate)).exists():
            return None
        config: dict[str, Knob] = self._read(_winner_file(candidate), "it remembers no winner")["answer"]
        return config

    def contender_before(self, author: str) -> Draft:
        """The contender that the run judged, written by the `author` of then: another version writes another kernel."""
        for path in sorted(self._folder.glob("*-*.json")):
            kept = self._read(path.name, "it has no contender")
            written = kept.get("candidate")
            if not isinstance(written, dict) or kept["finalist"]:  # a finalist has plain constants
                continue
            if (written["author"], written["mode"]) == (author, "seed"):
                return Draft(source=written["source"], note=written["plan"])
        return Draft(problem="the run that is replayed had no contender")

    def _answer(self, kind: TypeAdapter[T], name: str, missing: str) -> T:
        found = self._read(name, missing)
        try:
            return kind.validate_python(found["answer"])
        except (KeyError, ValidationError) as error:
            raise BadInput(f"{self._folder / name}: no answer of an evaluator, or a damaged one") from error

    def _read(self, name: str, missing: str) -> Any:
        path = self._folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BadInput(
                f"the replay needs what the run {self._folder.parent.name} does not keep: {missing}"
            ) from error
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: cannot be read: {error}") from error
