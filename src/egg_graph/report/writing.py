"""The report's file."""

import os
import tempfile
from pathlib import Path

from egg_graph.report.page import render
from egg_graph.report.record import read_record
from egg_graph.schema import BadInput


def write_report(folder: str | Path, *, out: str | Path | None = None) -> Path:
    """Write the page of a finished run.

    Args:
        folder: the run's folder, with evidence.json and history.jsonl.
        out: where the page goes; `report.html` in the folder if left out.

    Returns:
        The page's path.

    Raises:
        BadInput: if the folder holds no finished run, or the page cannot be written.
    """
    page = render(read_record(folder))
    path = Path(folder) / "report.html" if out is None else Path(out)
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(page)
        Path(file.name).chmod(0o644)
        os.replace(file.name, path)  # a reader meets the old page or the new one, never half of it
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
    return path
