"""Errors as one line each, and the exit status that goes with them."""

from typing import Any

import typer
from typer.core import TyperGroup

from egg_graph.cli.console import plain, stderr
from egg_graph.schema import EggError, InfrastructureError

REJECTED, BAD_INPUT, MACHINE_FAILED = 1, 2, 3


class OneLineErrors(TyperGroup):
    """A command group that tells an expected error in one line; only a defect of ours ends in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            typer.Exit: with status 3 where the machine failed, 2 for every other `EggError`.
        """
        try:
            return super().invoke(ctx)
        except EggError as error:
            stderr().print(f"[bold red]egg-graph:[/] {plain(error)}", highlight=False, soft_wrap=True)
            raise typer.Exit(MACHINE_FAILED if isinstance(error, InfrastructureError) else BAD_INPUT) from error
