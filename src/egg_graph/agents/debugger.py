"""The debugger: error, reference and broken kernel -> critical issue and modification plan (paper, App. E.5)."""

from typing import Any

from langchain_core.runnables import Runnable

from egg_graph.agents.conversation import converse
from egg_graph.agents.parsing import Reply, Unreadable, read_object, trim_words
from egg_graph.agents.prompts import Prompts
from egg_graph.schema import BadInput, Brief, Diagnosis, Evaluation

MAX_WORDS = 30

_FORMAT = 'Return only the JSON object with "critical_issue" and "modification_plan", each at most 30 words.'


def debug(model: Runnable[Any, Any], prompts: Prompts, brief: Brief) -> Diagnosis:
    """Ask for a diagnosis, 30 words at most each. Unreadable twice: one made from the evaluator's first finding."""
    if brief.kernel is None or brief.evaluation is None:
        raise BadInput("brief.evaluation: missing; the debugger needs a kernel and its evaluation")
    outcome = converse(model, "debugger", prompts.system("debugger", brief), prompts.debugger(brief), _read)
    if outcome.value is None:
        return from_finding(brief.evaluation).model_copy(update={"usage": outcome.usage})
    return outcome.value.model_copy(update={"usage": outcome.usage})


def _read(reply: Reply) -> Diagnosis:
    answer = read_object(reply, wanted=("critical_issue", "modification_plan"))
    texts = {key: answer.get(key) for key in ("critical_issue", "modification_plan")}
    for key, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise Unreadable(f'the key "{key}" is missing or empty', _FORMAT)
    return Diagnosis.model_validate({key: trim_words(str(text), MAX_WORDS) for key, text in texts.items()})


def from_finding(evaluation: Evaluation) -> Diagnosis:
    """The evaluator's own words where the debugger has none: what it found, where, and the cure it knows."""
    if not evaluation.findings:
        return Diagnosis(
            critical_issue=trim_words(f"{evaluation.status}: {evaluation.reason}", MAX_WORDS),
            modification_plan="Make the kernel agree with the reference; the evaluator names no place.",
        )
    finding = evaluation.findings[0]
    place = f"{finding.where}: " if finding.where else ""
    return Diagnosis(
        critical_issue=trim_words(f"{place}{finding.message}", MAX_WORDS),
        modification_plan=trim_words(finding.cure or f"Remove the cause of this {finding.kind} finding.", MAX_WORDS),
    )
