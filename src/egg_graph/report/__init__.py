"""What a person looks at: one self-contained HTML page for a run."""

from egg_graph.report.page import render
from egg_graph.report.record import Record, read_record
from egg_graph.report.writing import write_report

__all__ = ["Record", "read_record", "render", "write_report"]
