"""The kernel that was handed over, as it was before its knobs became plain constants: what `tune --kernel` takes."""

from egg_graph.runs.files import RESUME, cannot_write, write_whole
from egg_graph.runs.results import Run
from egg_graph.runs.winner import handed_over
from egg_graph.tuning import read_knobs

TUNABLE = "tunable.py"
"""File in the run's folder."""


def write_tunable(run: Run) -> None:
    """Write tunable.py; do nothing where no kernel was handed over, or it has no values to choose from.

    Raises:
        InfrastructureError: if the file cannot be written.
    """
    kernel = handed_over(run)
    if kernel is None or not read_knobs(kernel.source).space:
        return
    try:
        write_whole(run.folder / TUNABLE, kernel.source)
    except OSError as error:
        raise cannot_write(run.folder, error, RESUME) from error
