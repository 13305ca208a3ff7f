"""`python -m egg_graph`: the same as the `egg-graph` command."""

from egg_graph.cli import app

app(prog_name="egg-graph")
