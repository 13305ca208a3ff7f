"""Failures by what they are: the same one is told once, with a count, however often the evaluator met it."""

import re
from collections.abc import Iterable
from functools import lru_cache

from egg_graph.schema.base import Value
from egg_graph.schema.evaluation import Evaluation, Finding, FindingKind

_KERNEL = re.compile(r"\bkernel (\w+)")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class Failure(Value):
    """Findings that say the same: of one kind, in one kernel, in the same words apart from the numbers."""

    kind: FindingKind
    message: str
    """What is wrong, in the words of the first finding."""
    cure: str = ""
    """How to mend it; empty where the evaluator does not know."""
    places: tuple[str, ...] = ()
    """Where each of them was found, each place once, in order."""
    count: int = 1
    """Count of the findings."""


def fingerprint(finding: Finding) -> str:
    """What two findings of the same failure have in common: kind, kernel, and the message without its numbers.

    Lines and programs do not count: a rewritten kernel fails in the same way at another line.
    """
    return _fingerprint(finding.kind, finding.where, finding.message)


@lru_cache(maxsize=4096)  # a history is read again before every answer
def _fingerprint(kind: str, where: str, message: str) -> str:
    kernel = _KERNEL.search(where)
    return "|".join((kind, kernel[1] if kernel else "", _NUMBER.sub("#", message)))


def group_findings(findings: Iterable[Finding]) -> tuple[Failure, ...]:
    """Group findings by their fingerprints, in the order in which each came first."""
    found: dict[str, Failure] = {}
    for finding in findings:
        key = fingerprint(finding)
        old = found.get(key) or Failure(kind=finding.kind, message=finding.message, cure=finding.cure, count=0)
        places = dict.fromkeys((*old.places, finding.where.removesuffix("; the first call")))
        new = {"places": tuple(place for place in places if place), "count": old.count + 1}
        found[key] = old.model_copy(update=new)
    return tuple(found.values())


def failure_of(evaluation: Evaluation) -> str:
    """The fingerprint of what made a kernel fail; empty where its answers are right."""
    if evaluation.usable:
        return ""
    if not evaluation.findings:
        return _fingerprint(evaluation.status, "", evaluation.reason)
    return fingerprint(evaluation.findings[0])
