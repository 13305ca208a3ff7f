"""Jinja2 filters of the prompts: fences, single lines, and numbers with their units."""

import re

from egg_graph.schema import Metric

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


FILTERS = {"fence": fence, "line": line, "numbered": numbered, "sig": sig, "quantity": quantity, "metric": metric}
