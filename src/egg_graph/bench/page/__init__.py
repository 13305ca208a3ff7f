"""One self-contained HTML page about a bench: no script, no request, light and dark, readable on paper."""

from egg_graph.bench.page.page import render
from egg_graph.bench.page.trajectory import Trajectories

__all__ = ["Trajectories", "render"]
