"""One self-contained HTML page for each run."""

from egg_graph.report.page import render
from egg_graph.report.saved_run import SavedRun, read_run

__all__ = ["SavedRun", "read_run", "render"]
