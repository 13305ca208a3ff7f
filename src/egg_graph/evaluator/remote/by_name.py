"""Evaluators elsewhere by their name, as a command line gives it."""

from __future__ import annotations

from egg_graph.evaluator.remote.asking_evaluator import AskingEvaluator
from egg_graph.evaluator.remote.remote_evaluator import RemoteEvaluator
from egg_graph.evaluator.remote.spool_evaluator import SpoolEvaluator
from egg_graph.schema import BadInput

SPOOL, WAIT = "spool:", ",wait="


def evaluator_by_name(name: str) -> AskingEvaluator:
    """The evaluator that a name stands for.

    Args:
        name: the URL of an `egg-graph serve`, `spool:FOLDER`, or `spool:FOLDER,wait=SECONDS`.

    Raises:
        BadInput: if it is none of these, or there is no token for the URL.
    """
    if name.startswith(("http://", "https://")):
        return RemoteEvaluator(name)
    folder, asked, seconds = name.removeprefix(SPOOL).partition(WAIT)
    if not name.startswith(SPOOL) or not folder:
        raise BadInput(f"evaluator {name!r}: give a URL, spool:FOLDER or spool:FOLDER,wait=SECONDS")
    try:
        wait = float(seconds) if asked else None
    except ValueError as error:
        raise BadInput(f"evaluator {name!r}: {seconds!r} are no seconds") from error
    return SpoolEvaluator(folder, wait=wait)
