"""What is asked of an evaluator elsewhere, and what it answers: JSON, for a file or an HTTP body."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from egg_graph.evaluator.pool import PooledEvaluator
from egg_graph.evaluator.progress import Progress
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Environment,
    Evaluation,
    InfrastructureError,
    KernelTask,
    Profile,
    StageName,
    Trial,
)
from egg_graph.schema.base import Value

LOG = logging.getLogger("egg_graph")
FORMAT: Literal[1] = 1
"""Version of the JSON of questions and answers."""
QUESTION_BYTES = 16 * 2**20
"""Largest question [byte]."""
KEY = re.compile(r"[0-9a-f]{64}")


def package_version() -> str:
    """Version of egg-graph, `unknown` where it is not installed."""
    try:
        return version("egg-graph")
    except PackageNotFoundError:
        return "unknown"


class Question(Value):
    """One call of an evaluator. It holds all that the answer hangs on but the machine, as text: it names no file."""

    format: Literal[1] = FORMAT
    egg_graph: str = Field(default_factory=package_version, max_length=100)
    """Version of egg-graph that asks."""
    kind: Literal["baseline", "evaluate", "profile", "screen", "environment"]
    task: KernelTask | None = None
    candidates: tuple[Candidate, ...] = ()
    stage: StageName | None = None
    finalist: bool = False
    evaluation: Evaluation | None = None
    """What was established about the candidate that is to be profiled: its kernels, and their share of the time."""
    tuned: bool = False
    """Whether the baseline is to hold tuned PyTorch as well."""
    label: str = Field(default="", max_length=200)
    """Tells apart measurements that are to be made anew of the same content."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.task is None) != (self.kind == "environment"):
            raise ValueError(f"a question of kind {self.kind} has {'no' if self.task is None else 'a'} task")
        if (self.evaluation is None) != (self.kind != "profile"):
            raise ValueError(
                f"a question of kind {self.kind} has {'no' if self.evaluation is None else 'an'} evaluation"
            )
        wanted = {"evaluate": 1, "profile": 1, "screen": None}.get(self.kind, 0)
        if wanted is not None and len(self.candidates) != wanted:
            raise ValueError(f"a question of kind {self.kind} has {len(self.candidates)} candidates")
        return self

    @property
    def key(self) -> str:
        """SHA-256 of what the answer hangs on, as 64 hex digits: equal questions have one answer.

        Who wrote a candidate, and after which plan, does not count.
        """
        task = None if self.task is None else self.task.model_dump(mode="json")
        kernels = [[one.source, one.problem, one.config] for one in self.candidates]
        parts: list[Any] = [self.format, self.kind, self.label, task, kernels, self.stage, self.finalist]
        if self.evaluation is not None:
            parts += [[one.model_dump(mode="json") for one in self.evaluation.resources], self.evaluation.triton_share]
        if self.tuned:
            parts.append("tuned")
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Answer(Value):
    """What the evaluator said: the value that the question's kind has, or an error."""

    format: Literal[1] = FORMAT
    egg_graph: str = Field(default_factory=package_version)
    """Version of egg-graph that judged."""
    key: str
    """`Question.key`"""
    judge: str
    """Digest of what the answer hangs on beside the question: the host, its versions, and how its judges are set."""
    baseline: Baseline | None = None
    evaluation: Evaluation | None = None
    profile: Profile | None = None
    trials: tuple[Trial, ...] | None = None
    environment: Environment | None = None
    error: Literal["", "BadInput", "InfrastructureError"] = ""
    message: str = ""

    @property
    def lasting(self) -> bool:
        """False for what another try may change: a fault of the machine, a question that was refused."""
        return not self.error and (self.evaluation is None or self.evaluation.status != "infra_error")

    def check(self) -> None:
        """Raise the error that the evaluator raised, if it did.

        Raises:
            BadInput, InfrastructureError: as the evaluator did.
        """
        if self.error == "BadInput":
            raise BadInput(self.message)
        if self.error == "InfrastructureError":
            raise InfrastructureError(self.message)


class News(Value):
    """What is being done about a question that is not answered yet."""

    reports: tuple[Progress, ...] = ()
    """What was reported since the caller last heard."""
    seen: int = 0
    """How many reports the caller has heard now."""


def read_question(text: bytes) -> Question:
    """Read the JSON of a question.

    Raises:
        BadInput: if it is none; one line that repeats nothing of the text.
    """
    try:
        return Question.model_validate_json(text)
    except ValidationError as error:
        raise BadInput(f"no question that egg-graph {package_version()} can read: {_first(error)}") from None


def read_answer(text: bytes, question: Question, where: str) -> Answer:
    """Read the JSON of the answer to a question.

    Args:
        text: the JSON.
        question: what was asked.
        where: where the answer comes from, for the message.

    Raises:
        InfrastructureError: if it is damaged, of another version, or the answer to something else.
    """
    try:
        answer = Answer.model_validate_json(text)
    except ValidationError as error:
        raise InfrastructureError(
            f"{where}: no answer that egg-graph {package_version()} can read: {_first(error)}; see that both sides "
            "have the same version"
        ) from None
    if answer.key != question.key or not _answers(answer, question):
        raise InfrastructureError(f"{where}: the answer is to another question; see that both sides have one version")
    return answer


def judge(evaluator: PooledEvaluator, question: Question, who: str) -> Answer:
    """Have an evaluator answer a question; what it raises becomes part of the answer.

    Args:
        evaluator: judges.
        question: what is asked.
        who: `Answer.judge`.
    """
    try:
        return _ask(evaluator, question, who)
    except BadInput as error:
        return refusal(question.key, who, error)
    except InfrastructureError as error:
        fault = str(error)
    except Exception as error:
        LOG.exception("the evaluator broke at question %s", question.key)
        fault = f"the evaluator broke: {type(error).__name__}: {error}"
    return Answer(key=question.key, judge=who, error="InfrastructureError", message=fault)


def refusal(key: str, who: str, error: BadInput) -> Answer:
    """The answer to a question that cannot be answered by anybody."""
    return Answer(key=key, judge=who, error="BadInput", message=str(error))


def _ask(evaluator: PooledEvaluator, question: Question, who: str) -> Answer:
    task = question.task
    if task is None:
        return Answer(key=question.key, judge=who, environment=evaluator.environment())
    if question.kind == "baseline":
        baseline = evaluator.baseline(task, tuned=True) if question.tuned else evaluator.baseline(task)
        return Answer(key=question.key, judge=who, baseline=baseline)
    if question.kind == "screen":
        return Answer(key=question.key, judge=who, trials=evaluator.screen(task, question.candidates))
    (candidate,) = question.candidates
    if question.evaluation is not None:
        profile = evaluator.profile(task, candidate, question.evaluation, stage=question.stage)
        return Answer(key=question.key, judge=who, profile=profile)
    evaluation = evaluator.evaluate(task, candidate, stage=question.stage, finalist=question.finalist)
    return Answer(key=question.key, judge=who, evaluation=evaluation)


def _answers(answer: Answer, question: Question) -> bool:
    """Whether an answer has the value that was asked for, about what was asked."""
    if answer.error or question.task is None:
        return bool(answer.error) or answer.environment is not None
    if question.kind == "baseline":
        return answer.baseline is not None and answer.baseline.task == question.task.digest
    if question.kind == "screen":
        return answer.trials is not None and len(answer.trials) == len(question.candidates)
    if question.kind == "profile":
        return answer.profile is not None
    evaluation = answer.evaluation
    about = (question.candidates[0].id, question.task.digest)
    return evaluation is not None and (evaluation.candidate, evaluation.task) == about


def _first(error: ValidationError) -> str:
    """The first thing that is wrong: where, and what; nothing of the input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"[:300] if where else first["msg"][:300]
