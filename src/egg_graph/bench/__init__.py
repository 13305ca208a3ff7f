"""A suite of references, one run each: raw rows, honest statistics, a table. `trust`: how far verdicts can be trusted.

Names load on first use: `egg_graph.bench.trust` runs on a host with neither a model nor LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.bench.running import run_suite
    from egg_graph.bench.statistics import Summary, summarize
    from egg_graph.bench.suite import find_references
    from egg_graph.bench.table import markdown
    from egg_graph.bench.values import Results, Row

_HOMES = {
    "Results": "values",
    "Row": "values",
    "Summary": "statistics",
    "find_references": "suite",
    "markdown": "table",
    "run_suite": "running",
    "summarize": "statistics",
}

__all__ = ["Results", "Row", "Summary", "find_references", "markdown", "run_suite", "summarize"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egg_graph.bench' has no attribute {name!r}")
    value = getattr(import_module(f"egg_graph.bench.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
