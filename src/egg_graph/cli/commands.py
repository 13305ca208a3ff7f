"""The command group, with the commands in the order of the help."""

import typer

from egg_graph.cli.bench import bench
from egg_graph.cli.console import OneLineErrors
from egg_graph.cli.doctor import doctor
from egg_graph.cli.evaluate import evaluate
from egg_graph.cli.knowledge import graph, hardware, principles
from egg_graph.cli.mcp import mcp
from egg_graph.cli.memory import memory
from egg_graph.cli.optimize import optimize
from egg_graph.cli.replay import replay
from egg_graph.cli.report import report
from egg_graph.cli.serve import serve
from egg_graph.cli.spool import spool
from egg_graph.cli.trust import trust
from egg_graph.cli.tune import tune

app = typer.Typer(
    name="egg-graph",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Expert-guided agents that write, prove and tune Triton kernels for PyTorch modules.",
    epilog="Start with [bold]egg-graph doctor[/bold], then [bold]egg-graph optimize examples/softmax.py[/bold].",
)
app.command()(optimize)
app.command()(tune)
app.command()(evaluate)
app.command()(replay)
app.command()(report)
app.command()(bench)
app.command()(mcp)
app.command()(serve)
app.command()(spool)
app.add_typer(trust, name="trust")
app.command()(doctor)
app.add_typer(memory, name="memory", rich_help_panel="What it knows")
app.command(rich_help_panel="What it knows")(hardware)
app.command(rich_help_panel="What it knows")(principles)
app.command(rich_help_panel="What it knows")(graph)
