"""Jinja2 filters of the prompts: fences that text cannot close, lines that stay lines, numbers with their units."""

import re

from egg_graph.schema import Metric

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def fence(text: str, language: str, limit: int | None = None) -> str:
    """`text` in a Markdown fence longer than any run of backticks in it, so that the text cannot close it.

    Args:
        limit: keep only the last so many characters, and say so.
    """
    if limit is not None and len(text) > limit:
        text = f"[{len(text) - limit} characters left out]\n{text[-limit:]}"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def line(text: str, limit: int = 300) -> str:
    """`text` as one line of at most `limit` characters: whitespace collapsed, the rest cut off with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def numbered(source: str) -> str:
    """Source with line numbers, as findings and diagnoses refer to them."""
    return "\n".join(f"{number:4d}  {text}" for number, text in enumerate(source.splitlines(), start=1))


def sig(value: float | None) -> str:
    """Four significant digits; "unknown" for None."""
    return "unknown" if value is None else f"{value:.4g}"


def quantity(value: float, unit: str) -> str:
    """A value with an SI prefix for bytes and operations ("4.8 Tbyte/s"); counts and small sizes stay exact."""
    if unit == "byte" and value < 1e6:
        return f"{value:.0f} byte"
    if unit.startswith(("byte", "flop")):
        for factor, prefix in _PREFIXES:
            if value >= factor:
                return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.10g} {unit}"


def metric(value: Metric) -> str:
    """A profiling metric with its unit, or why it is missing."""
    if value.value is None:
        return f"missing ({value.missing or 'no reason given'})"
    return f"{value.value:.6g} {value.unit}".rstrip()


ALL = {"fence": fence, "line": line, "numbered": numbered, "sig": sig, "quantity": quantity, "metric": metric}
