"""What a run of `tune` leaves beside the results of `optimize`: its winner in the stores."""

from pathlib import Path
from typing import Any

from egg_graph.runs.folder import change_request
from egg_graph.runs.results import Run
from egg_graph.runs.winner import store_winner
from egg_graph.tuning import user_store

TUNE = "tune"
"""Key of run.json that makes a run one of `tune`: `{"store_out": path or None, "stored": whether it has ended}`."""


def note_tune(request: dict[str, Any], store_out: Path | None) -> dict[str, Any]:
    """The request of a run with the note that it is one of `tune`, so that whoever resumes it ends it as such.

    Args:
        request: run.json.
        store_out: a further store that the winner is written to.
    """
    kept = None if store_out is None else str(store_out.expanduser().absolute())
    return {**request, TUNE: {"store_out": kept, "stored": False}}


def end_tune(run: Run, request: dict[str, Any], *, worked: bool) -> None:
    """Store the winner of a run of `tune`; do nothing for another run.

    A run that had ended and is only read again stores nothing: a later run may have stored a better winner.

    Args:
        request: run.json.
        worked: whether anything was done since the run was last ended.

    Raises:
        BadInput: if a store is damaged or cannot be written.
        InfrastructureError: if run.json cannot be written, or another process holds a store.
    """
    note = request.get(TUNE)
    if note is None:
        return
    if note["stored"] and not worked:
        return
    store_winner(run, (user_store(), *([] if note["store_out"] is None else [Path(note["store_out"])])))
    change_request(run.folder, {**request, TUNE: {**note, "stored": True}})
