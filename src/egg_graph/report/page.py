"""One self-contained HTML page about a run: no script, no request, readable on paper."""

from functools import cache

import jinja2

from egg_graph.knowledge import score_principles
from egg_graph.report.attempts import show_attempts
from egg_graph.report.costs import ROLE_COLUMNS, call_rows, role_rows, time_rows
from egg_graph.report.filters import FILTERS, cost, tone
from egg_graph.report.highlighting import highlight_css, highlighted
from egg_graph.report.plots import attempts_plot, roofline_plot, times_plot
from egg_graph.report.saved_run import SavedRun
from egg_graph.report.template import page_template


def render(run: SavedRun) -> str:
    """Make the page's HTML.

    Candidate sources, logs and model answers are hostile text. The template engine or the highlighter escapes all of
    it, and the page's content security policy forbids scripts and requests.
    """
    plots = {
        "attempts": attempts_plot(run.attempts, run.baseline, run.evaluation),
        "times": times_plot(run.baseline, run.evaluation),
        "roofline": roofline_plot(run.task, run.baseline, run.evaluation),
    }
    return _template().render(
        run=run,
        evaluation=run.evaluation,
        tone=tone(run.status),
        headline=_headline(run),
        facts=_facts(run),
        principles=score_principles(run.attempts),
        environment=_environment(run),
        attempts=show_attempts(run.attempts),
        time_rows=[] if run.ledger is None else time_rows(run.ledger),
        call_rows=call_rows(run),
        role_columns=ROLE_COLUMNS,
        role_rows=role_rows(run),
        plots=plots,
        source=highlighted(run.best.source) if run.best else None,
        reference=highlighted(run.task.reference),
        highlight_css=highlight_css(),
    )


@cache
def _template() -> jinja2.Template:
    """The page's template, compiled once per process."""
    return page_template("egg_graph.report", "page.html.j2", FILTERS)


def _headline(run: SavedRun) -> str:
    """The first line of the verdict. The page shows the proofs apart from it."""
    return run.verdict.splitlines()[0] if run.verdict else run.status


def _facts(run: SavedRun) -> list[tuple[str, str]]:
    facts = [
        ("target", f"{run.task.target.name} ({run.task.target.arch})"),
        ("precision", run.task.precision),
        ("attempts", str(len(run.attempts))),
        ("took", f"{run.seconds if run.ledger is None else run.ledger.seconds:.0f} s"),
        ("model", cost(run.usage) if run.usage.calls else "none: the embedded expert"),
    ]
    evaluation = run.evaluation
    if evaluation is None:
        return facts
    if evaluation.timing is not None:
        facts.insert(0, ("speedup", f"{evaluation.timing.ratio:.2f}x over {evaluation.timing.baseline}"))
        facts.insert(0, ("time", f"{evaluation.timing.candidate_ms:.4g} ms"))
    elif evaluation.bound is not None:
        facts.insert(0, ("bound, not a time", f"{evaluation.bound.milliseconds:.4g} ms"))
    if evaluation.triton_share is not None:
        facts.append(("in its own Triton", f"{evaluation.triton_share:.0%}"))
    return facts


def _environment(run: SavedRun) -> list[tuple[str, str]]:
    found = (run.evaluation and run.evaluation.environment) or run.baseline.environment
    return [] if found is None else [(name, str(value)) for name, value in found.model_dump().items() if value]
