"""One line for one event of a run, and pages of the evidence that a run left."""

from pathlib import Path
from typing import Any

from egg_graph.nodes.events import Event
from egg_graph.schema import Attempt, BadInput

PAGE = 12_000
"""Most characters of a page."""


def event_line(event: Event) -> str:
    """The event in one line: what, where, how it went, the numbers."""
    told: dict[str, Any] = dict(event)
    kind = str(told.get("event", ""))
    if kind == "attempt":
        kind = f"attempt {told.get('attempt')} ({told.get('mode')})"
    elif kind == "role":
        kind = str(told.get("role"))
    elif kind == "ledger":
        kind = f"{told.get('call')} took {told.get('seconds', 0.0):.1f} s"
    where = str(told.get("stage") or "").replace("_", " ")
    head = " ".join(filter(None, (where, kind)))
    reason = " ".join(str(told.get("reason") or "").split())[:200]
    return "; ".join(filter(None, (f"{head}: {told.get('status', '')}".rstrip(": "), _numbers(told), reason)))


def _numbers(told: dict[str, Any]) -> str:
    """Times that were measured, or the lower bound."""
    baselines = (("eager_ms", "ms eager"), ("compile_ms", "ms torch.compile"), ("tuned_ms", "ms tuned PyTorch"))
    units = (("milliseconds", "ms"), *baselines)
    parts = [f"{told[key]:.4g} {unit}" for key, unit in units if told.get(key) is not None]
    if told.get("ratio") is not None:
        parts.append(f"{told['ratio']:.2f}x")
    if not parts and told.get("bound_ms") is not None:
        parts.append(f"bound {told['bound_ms']:.4g} ms")
    return ", ".join(parts)


def page_of(text: str, start: int) -> str:
    """One page of a text, from a character on. It says how to get the next one.

    Raises:
        BadInput: if the text ends before `start`.
    """
    if start and not 0 <= start < len(text):
        raise BadInput(f"start {start}: the text has {len(text)} characters")
    rest = len(text) - start - PAGE
    more = f"\n[{rest} more characters: start={start + PAGE}]" if rest > 0 else ""
    return text[start : start + PAGE] + more


def read_part(folder: Path, part: str) -> str:
    """The text of one part of a finished run's evidence: `verdict`, `kernel`, `attempts` or `evaluation`.

    Raises:
        BadInput: if the run has not ended, or left no such part.
    """
    from egg_graph.report import read_run

    if not (folder / "evidence.json").is_file():
        raise BadInput(
            f"the run {folder.name!r} has not ended, so there is no evidence yet; watch_run tells how far it is"
        )
    run = read_run(folder)
    if part == "kernel":
        if run.best is None:
            raise BadInput(f"the run {folder.name!r} ended without a kernel: {run.status}")
        return run.best.source
    if part == "attempts":
        return "\n".join(map(_attempt_line, run.attempts)) or "no attempt was made"
    if part == "evaluation":
        return "null" if run.evaluation is None else run.evaluation.model_dump_json(indent=1)
    return run.verdict


def _attempt_line(attempt: Attempt) -> str:
    candidate, evaluation = attempt.candidate, attempt.evaluation
    timing, bound = evaluation.timing, evaluation.bound
    time = f"{timing.candidate_ms:.4g} ms, {timing.ratio:.2f}x" if timing else ""
    if not time and bound:
        time = f"bound {bound.milliseconds:.4g} ms"
    head = f"{attempt.number} {candidate.stage} {candidate.mode} by {candidate.author}: {evaluation.status}"
    return "; ".join(filter(None, (head, time, " ".join(evaluation.reason.split())[:200])))
