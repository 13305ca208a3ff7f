"""Keep what the content of a task and a kernel alone decides, in the `cache=` of a graph, for later runs.

| kept | not kept, but established anew in every run |
| --- | --- |
| a baseline without times | a baseline that was timed |
| a kernel that is correct and was not timed; one that is incorrect, invalid or does not compile | whatever holds a time or a measured profile; timeouts, crashes and faults of the machine; every evaluation of a finalist |

An entry counts for the same task (reference, target, precision, shapes), the same source, the same stage and the same
evaluator: one that tells no `cache_key` is asked every time. So a kernel is never handed over on a kept verdict alone.
"""  # noqa: E501

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from langgraph.cache.base import BaseCache

from egg_graph.evaluator.protocol import Evaluator
from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, Spending, StageName, Value
from egg_graph.schema.record import FORMAT

NAMESPACE = ("egg_graph", "evaluator")
DECIDED_BY_CONTENT = ("correct", "incorrect", "invalid", "compile_error")
"""Statuses that another try would not change."""

Answer = TypeVar("Answer", Baseline, Evaluation)


@dataclass(frozen=True)
class CachedAnswers:
    """The cached answers of one evaluator.

    Args:
        cache: any cache of LangGraph's; the entries are JSON text.
        evaluator: whose answers they are.
    """

    cache: BaseCache[Any]
    evaluator: Evaluator

    def find(self, kind: type[Answer], task: KernelTask, *about: str) -> Answer | None:
        """Find a cached answer about a task; None where there is none."""
        key = self._key(kind, task, about)
        found = key and self.cache.get([key]).get(key)
        return kind.model_validate_json(found) if found else None

    def keep(self, answer: Baseline | Evaluation, task: KernelTask, *about: str) -> None:
        """Keep an answer, if its content alone decides it; without what it cost, which who finds it does not spend."""
        key = self._key(type(answer), task, about)
        if key and decided_by_content(answer):
            self.cache.set({key: (answer.model_copy(update={"spent": Spending()}).model_dump_json(), None)})

    def _key(self, kind: type[Value], task: KernelTask, about: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
        who = getattr(self.evaluator, "cache_key", "")
        if not who:
            return None
        parts = [FORMAT, type(self.evaluator).__qualname__, who, kind.__name__, task.digest, *about]
        return NAMESPACE, hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def decided_by_content(answer: Baseline | Evaluation) -> bool:
    """True where another try on the same machine would give the same answer, and no time is part of it."""
    if isinstance(answer, Baseline):
        return answer.eager_ms is None and answer.compile_ms is None
    measured = answer.timing is not None or answer.profile.source in ("ncu", "cupti")
    return answer.status in DECIDED_BY_CONTENT and not measured


def about(candidate: Candidate, stage: StageName) -> tuple[str, str]:
    """What an evaluation is about, beside the task."""
    return candidate.id, stage
