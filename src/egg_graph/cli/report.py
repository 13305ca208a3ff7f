"""`egg-graph report`: the page of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from egg_graph.cli.console import plain, stdout


def report(
    folder: Annotated[Path, typer.Argument(help="A run's folder, such as runs/<id>.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes.", show_default="report.html in the folder")
    ] = None,
) -> None:
    """Write the page of a finished run again: one HTML file that stands alone."""
    from egg_graph.runs.results import write_report

    stdout().print(plain(write_report(folder, out=out)))
