"""The configuration that won the sweep of a run, and the stores that remember it."""

import datetime
from collections.abc import Iterable
from pathlib import Path

from egg_graph.runs.results import Run
from egg_graph.schema import Attempt, Candidate, Evaluation, Sweep
from egg_graph.tuning import Winner, add_winner, situation_of


def store_winner(run: Run, paths: Iterable[Path]) -> None:
    """Write the winner of a run into stores; do nothing where it has none.

    Raises:
        BadInput: if a store is damaged or cannot be written.
        InfrastructureError: if another process holds a store.
    """
    winner = winner_of(run)
    if winner is not None:
        for path in paths:
            add_winner(path, winner)


def last_sweep(run: Run) -> Sweep | None:
    """The last sweep of a run, the only one of a run of `tune`; None where it came to none."""
    sweeps = run.state.get("sweeps", [])
    return sweeps[-1] if sweeps else None


def swept_attempt(run: Run) -> Attempt | None:
    """The attempt that judged the kernel with the configuration that it came with; None without a sweep."""
    sweep = last_sweep(run)
    return next((a for a in run.attempts if sweep is not None and a.candidate.id == sweep.kernel), None)


def handed_over(run: Run) -> Candidate | None:
    """The kernel of the run, as it was judged before its knobs became plain constants; None without one."""
    best = run.state.get("best")
    judged = {attempt.candidate.id: attempt.candidate for attempt in run.attempts}
    return None if best is None else judged.get(best.id) or judged.get(best.parent or "")


def winner_of(run: Run) -> Winner | None:
    """What a store may remember of a run.

    Returns:
        The configuration of the kernel that was handed over, where the last sweep found it or found nothing better.
        None where no kernel was handed over, it was written after that sweep, or nothing was timed.
    """
    sweep, own, best, evaluation = last_sweep(run), swept_attempt(run), handed_over(run), run.evaluation
    if sweep is None or own is None or best is None:
        return None
    if best.id != sweep.kernel and (best.mode, best.parent) != ("tune", sweep.kernel):
        return None
    situation = situation_of(run.state["task"], run.state["baseline"], own.candidate.source)
    milliseconds, before = _device_ms(evaluation), _device_ms(own.evaluation)
    if situation is None or milliseconds is None or before is None:
        return None
    return Winner(
        situation=situation,
        config=best.config,
        milliseconds=milliseconds,
        own_milliseconds=before,
        tried=len(sweep.trials),
        task=run.state["task"].name,
        run=run.id,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _device_ms(evaluation: Evaluation | None) -> float | None:
    timing = None if evaluation is None else evaluation.timing
    return None if timing is None else timing.candidate_ms
