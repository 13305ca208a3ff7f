"""The debugger: a broken kernel becomes a critical issue and a modification plan (paper, App. E.5)."""

from egg_graph.agents.chat_role import ChatRole, Template, in_every_mode
from egg_graph.agents.parsing import Reply, Unreadable, as_text, read_object, trim_words
from egg_graph.schema import Brief, Diagnosis

MAX_WORDS = 30
"""Most words of each text of a diagnosis."""

_KEYS = ("critical_issue", "modification_plan")
_FORMAT = 'Return only the JSON object with "critical_issue" and "modification_plan", each at most 30 words.'


def _read(reply: Reply, brief: Brief) -> Diagnosis:
    answer, mended = read_object(reply, wanted=_KEYS)
    texts = {key: trim_words(as_text(answer.get(key)), MAX_WORDS) for key in _KEYS}
    for key, text in texts.items():
        if not text or isinstance(answer[key], int | float):
            raise Unreadable(f'the key "{key}" is missing or empty', _FORMAT)
    return Diagnosis.model_validate({**texts, "mended": mended})


def _from_finding(problem: str, brief: Brief) -> Diagnosis:
    """Make a diagnosis of the evaluator's first finding: what, where, and the cure that it knows."""
    evaluation = brief.evaluation
    assert evaluation is not None, "the template needs an evaluation"
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


_SCHEMA = {
    "title": "diagnosis",
    "description": "The root cause of a failing kernel, and what must change.",
    "type": "object",
    "properties": {key: {"type": "string"} for key in _KEYS},
    "required": list(_KEYS),
    "additionalProperties": False,
}

DEBUGGER = ChatRole(
    name="debugger",
    templates=in_every_mode(Template("debugger.j2", needs=("kernel", "evaluation"))),
    read=_read,
    fallback=_from_finding,
    schema=_SCHEMA,
)
