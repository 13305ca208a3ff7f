"""What each call to a model bought: the best kernel after so many calls, and after so many tokens of its prompts."""

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median

from egg_graph.bench.writing import markdown_table
from egg_graph.runs.history import read_lines
from egg_graph.schema import USABLE, CallEntry, Usage, Value
from tests.lab.kept_evaluations import kept_evaluation

TOKENS = 40_000
"""Tokens of prompts at which the page also tells what the runs had."""


class Bought(Value):
    """What a run had after one more answer of a model, and all that was judged before the next one was asked for."""

    calls: int
    input_tokens: int
    """Of all prompts so far."""
    best: float
    """Highest ratio of a right kernel so far, attempt 0 included; at least 1.0, for PyTorch would be kept."""


def bought_by_calls(folder: Path) -> tuple[Bought, ...]:
    """One value after each answer of a model, the state before the first one in front."""
    spent, best, course = Usage(), 1.0, []
    for line in read_lines(folder):
        if not isinstance(line, CallEntry):
            continue
        if line.usage.calls:
            course.append(Bought(calls=spent.calls, input_tokens=spent.input_tokens, best=best))
            spent += line.usage
        kept = kept_evaluation(folder, line.candidate) if line.call == "evaluation" and line.status in USABLE else None
        if kept is not None and kept.timing is not None:
            best = max(best, kept.timing.ratio)
    return (*course, Bought(calls=spent.calls, input_tokens=spent.input_tokens, best=best))


def after_calls(course: Sequence[Bought], calls: int) -> Bought:
    """What a run had after so many calls; a run that ended with fewer counts with its end."""
    return [one for one in course if one.calls <= calls][-1]


def within_tokens(course: Sequence[Bought], tokens: int) -> Bought:
    """What a run had when one more answer would have taken its prompts beyond so many tokens."""
    return [one for one in course if one.input_tokens <= tokens][-1]


def calls_section(courses: Sequence[Sequence[Bought]]) -> list[str]:
    """What further calls bought, as lines of a page; nothing where no run tells it."""
    if not all(courses):
        return []
    most = max(course[-1].calls for course in courses)
    states = [(str(calls), [after_calls(course, calls) for course in courses]) for calls in range(most + 1)]
    states.append((f"within {TOKENS:,} tokens in", [within_tokens(course, TOKENS) for course in courses]))
    table = [
        [
            name,
            str(sum(one.calls == int(name) for one in had)) if name.isdigit() else str(len(had)),
            f"{geometric_mean([one.best for one in had]):.3f}",
            f"{median(one.best for one in had):.3f}",
            f"{median(one.input_tokens for one in had):,.0f}",
        ]
        for name, had in states
    ]
    return [
        "",
        "## What each call bought",
        "",
        "The best ratio after so many answers of the model, geometric mean and median over all problems; a run that "
        "ended with fewer counts with its end.",
        "",
        *markdown_table(["calls", "runs that made them", "geometric mean", "median", "median tokens in"], table),
    ]
