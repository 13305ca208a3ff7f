"""The terminal: consoles, harmless text, errors in one line each, and the exit status that goes with them."""

import os
import re
import sys
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from egg_graph.schema import AnswerPending, EggError, InfrastructureError

REJECTED, BAD_INPUT, MACHINE_FAILED, PENDING = 1, 2, 3, 4
FILE_WIDTH = 160
"""Columns of what is written into a file or a pipe, where COLUMNS says nothing else."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def stdout() -> Console:
    """A console on standard output; made per use, so that a redirected stream is honoured."""
    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=FILE_WIDTH if wide else None)


def stderr() -> Console:
    """A console on standard error."""
    return Console(stderr=True, highlight=False)


def plain(text: object) -> str:
    """Make untrusted text harmless: one line, no terminal control sequences, no markup."""
    return escape(" ".join(_CONTROL.sub("", str(text)).split()))


class OneLineErrors(TyperGroup):
    """A command group that tells an expected error in one line; only a defect of ours ends in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            typer.Exit: with status 3 where the machine failed, 4 where an answer is not there yet, 2 for every other
                `EggError`.
        """
        try:
            return super().invoke(ctx)
        except EggError as error:
            stderr().print(f"[bold red]egg-graph:[/] {plain(error)}", highlight=False, soft_wrap=True)
            raise typer.Exit(_status(error)) from error


def _status(error: EggError) -> int:
    if isinstance(error, InfrastructureError):
        return MACHINE_FAILED
    return PENDING if isinstance(error, AnswerPending) else BAD_INPUT
