"""What a run of `tune` leaves beside the results of `optimize`: tunable.py, and its winner in the stores."""

import datetime
from pathlib import Path
from typing import Any

from egg_graph.runs.files import ANEW, cannot_write, write_whole
from egg_graph.runs.folder import change_request
from egg_graph.runs.results import Run
from egg_graph.schema import Attempt, Evaluation, Sweep
from egg_graph.tuning import Winner, add_winner, situation_of, user_store

TUNE = "tune"
"""Key of run.json that makes a run one of `tune`: `{"store_out": path or None, "stored": whether it has ended}`."""
TUNABLE = "tunable.py"
"""File in the run's folder: the tuned kernel with CONFIG and SPACE, for another sweep."""


def note_tune(request: dict[str, Any], store_out: Path | None) -> dict[str, Any]:
    """The request of a run with the note that it is one of `tune`, so that whoever resumes it ends it as such.

    Args:
        request: run.json.
        store_out: a further store that the winner is written to.
    """
    kept = None if store_out is None else str(store_out.expanduser().absolute())
    return {**request, TUNE: {"store_out": kept, "stored": False}}


def end_tune(run: Run, request: dict[str, Any], *, worked: bool) -> None:
    """Write tunable.py and the winner of a run of `tune`; do nothing for another run.

    A run that had ended and is only read again stores nothing: a later run may have stored a better winner.

    Args:
        request: run.json.
        worked: whether anything was done since the run was last ended.

    Raises:
        BadInput: if a store is damaged or cannot be written.
        InfrastructureError: if tunable.py or run.json cannot be written, or another process holds a store.
    """
    note = request.get(TUNE)
    if note is None:
        return
    _write_tunable(run)
    if note["stored"] and not worked:
        return
    winner = winner_of(run)
    if winner is not None:
        for path in (user_store(), *([] if note["store_out"] is None else [Path(note["store_out"])])):
            add_winner(path, winner)
    change_request(run.folder, {**request, TUNE: {**note, "stored": True}})


def _write_tunable(run: Run) -> None:
    """Write the kernel that was handed over as it was before its knobs became plain constants.

    Raises:
        InfrastructureError: if the file cannot be written.
    """
    best = run.state.get("best")
    text = next((a.candidate.source for a in run.attempts if best and a.candidate.id in (best.parent, best.id)), "")
    if not text:
        return
    try:
        write_whole(run.folder / TUNABLE, text)
    except OSError as error:
        raise cannot_write(run.folder, error, ANEW) from error


def whole_sweep(run: Run) -> Sweep | None:
    """The sweep of a run of `tune`; None where it came to none."""
    sweeps = run.state.get("sweeps", [])
    return sweeps[-1] if sweeps else None


def swept_attempt(run: Run) -> Attempt | None:
    """The attempt that judged the kernel with the configuration that it came with; None without a sweep."""
    sweep = whole_sweep(run)
    return next((a for a in run.attempts if sweep is not None and a.candidate.id == sweep.kernel), None)


def winner_of(run: Run) -> Winner | None:
    """What a store may remember of a run; None where no kernel was handed over, or nothing was timed."""
    sweep, own, best, evaluation = whole_sweep(run), swept_attempt(run), run.state.get("best"), run.evaluation
    if sweep is None or own is None or best is None:
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
