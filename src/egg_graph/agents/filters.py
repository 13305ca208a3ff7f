"""Jinja2 filters of the prompts: fences, single lines, differences of sources, and numbers with their units."""

import difflib
import re
from collections.abc import Iterable, Sequence

from egg_graph.agents.logs import own_frames
from egg_graph.knowledge.structure import kind_of
from egg_graph.schema import Check, Delta, Finding, Metric, group_findings

CITED = 12
"""Most lines of a source that `cited` quotes."""
_CITATION = re.compile(r"\blines? (\d+)(?:\s*(?:-|–|to|and)\s*(\d+))?", re.IGNORECASE)
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def fence(text: str, language: str, limit: int | None = None) -> str:
    """Put `text` in a Markdown fence that is longer than any run of backticks in it, so that the text cannot close it.

    Args:
        limit: most characters to keep; the last ones are kept, and the text says how many are left out.
    """
    if limit is not None and len(text) > limit:
        text = f"[{len(text) - limit} characters left out]\n{text[-limit:]}"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def line(text: str, limit: int = 300) -> str:
    """Make `text` one line of at most `limit` characters; an ellipsis stands for the rest."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def numbered(source: str) -> str:
    """Number the lines of a source, so that findings and diagnoses can refer to them."""
    return "\n".join(f"{number:4d}  {text}" for number, text in enumerate(source.splitlines(), start=1))


def cited(texts: Iterable[str], source: str) -> str:
    """Quote the lines of a source that some texts cite ("line 45", "lines 45 to 47"), with their numbers."""
    lines = source.splitlines()
    numbers: set[int] = set()
    for text in texts:
        for first, last in _CITATION.findall(text):
            numbers.update(range(int(first), min(int(last or first), int(first) + CITED) + 1))
    known = sorted(number for number in numbers if 1 <= number <= len(lines) and lines[number - 1].strip())
    return "\n".join(f"{number:4d}  {lines[number - 1]}" for number in known[:CITED])


def changes(new: str, old: str) -> str:
    """What a source changed of an older one, as a unified diff; the whole older one where that is shorter."""
    rows = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "now", n=1, lineterm="")
    diff = "\n".join(rows)
    if not diff:
        return fence("nothing: the sources are the same", "text")
    return fence(diff, "diff") if len(diff) < len(old) else f"Almost everything. It was:\n{fence(old, 'python')}"


def log(text: str, findings: Iterable[Finding], limit: int = 1500) -> str:
    """A program's log without the frames of other people's code, and without what the findings say already.

    Args:
        limit: most characters; the last ones are kept.

    Returns:
        The log in a fence; nothing where nothing is left of it.
    """
    messages = [finding.message for finding in findings]
    told = own_frames(text).splitlines()
    rest = "\n".join(row for row in told if not any(message in row for message in messages)).strip("\n")
    return fence(rest, "text", limit) if rest.strip() else ""


def nearest(checks: Iterable[Check]) -> Check:
    """The check whose error is nearest to its budget, or furthest above it."""
    return max(checks, key=lambda check: check.error / check.budget if check.budget > 0 else check.error)


def delta(value: Delta) -> str:
    """A measured quantity before and after: "bound_ms 0.5 to 0.4 (-20 %)"."""
    percent = "" if value.percent is None else f" ({value.percent:+.3g} %)"
    return f"{value.metric} {sig(value.before)} to {sig(value.after)}{percent}"


def multiplies(operators: Sequence[str]) -> bool:
    """Whether operators may make products of matrices; True where they are not known."""
    return not operators or any(kind_of(name) in ("product", "convolution", "attention", "other") for name in operators)


def sig(value: float | None) -> str:
    """Four significant digits; "unknown" for None."""
    return "unknown" if value is None else f"{value:.4g}"


def quantity(value: float, unit: str) -> str:
    """A value with its unit; bytes and operations get an SI prefix ("4.8 Tbyte/s"), counts stay exact."""
    if unit == "byte" and value < 1e6:
        return f"{value:.0f} byte"
    if unit.startswith(("byte", "flop")):
        for factor, prefix in _PREFIXES:
            if value >= factor:
                return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.10g} {unit}"


def metric(value: Metric) -> str:
    """A profiling metric with its unit, or the reason why it is missing."""
    if value.value is None:
        return f"missing ({value.missing or 'no reason given'})"
    return f"{value.value:.6g} {value.unit}".rstrip()


FILTERS = {
    "changes": changes,
    "cited": cited,
    "delta": delta,
    "fence": fence,
    "grouped": group_findings,
    "line": line,
    "log": log,
    "metric": metric,
    "multiplies": multiplies,
    "nearest": nearest,
    "numbered": numbered,
    "quantity": quantity,
    "sig": sig,
}
