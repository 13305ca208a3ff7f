"""Run a suite of references and tell the results. `egg_graph.bench.trust`: how far verdicts can be trusted.

Names load on first use, so that `egg_graph.bench.trust` runs on a host without LangGraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.bench.run import Display, run_bench
    from egg_graph.bench.statistics import Statistics, summarize
    from egg_graph.bench.suite import Problem, find_problems, find_references
    from egg_graph.bench.table import markdown
    from egg_graph.bench.values import Results, Row

_HOMES = {
    "Display": "run",
    "Problem": "suite",
    "Results": "values",
    "Row": "values",
    "Statistics": "statistics",
    "find_problems": "suite",
    "find_references": "suite",
    "markdown": "table",
    "run_bench": "run",
    "summarize": "statistics",
}

__all__ = [
    "Display",
    "Problem",
    "Results",
    "Row",
    "Statistics",
    "find_problems",
    "find_references",
    "markdown",
    "run_bench",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egg_graph.bench' has no attribute {name!r}")
    value = getattr(import_module(f"egg_graph.bench.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
