"""A suite of references, one run each: raw rows, honest statistics, a table."""

from egg_graph.bench.running import run_suite
from egg_graph.bench.statistics import Summary, summarize
from egg_graph.bench.suite import find_references
from egg_graph.bench.table import markdown
from egg_graph.bench.values import Results, Row

__all__ = ["Results", "Row", "Summary", "find_references", "markdown", "run_suite", "summarize"]
