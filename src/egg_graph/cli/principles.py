"""`egg-graph principles`: the expert rules that guide every decision."""

from typing import Annotated, get_args

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.schema import BadInput, StageName


def principles(
    stage: Annotated[str | None, typer.Option(help="Only those of one stage.")] = None,
    folder: Annotated[
        str | None, typer.Option("--knowledge", help="Folder with principles_*.toml files of your own.")
    ] = None,
) -> None:
    """List the expert principles: when each applies, what to do, what it should change, and the evidence for it."""
    from egg_graph.knowledge import load_principles

    stages = get_args(StageName)
    if stage is not None and stage not in stages:
        raise BadInput(f"no stage {stage!r}; the stages are {', '.join(stages)}")
    console = stdout()
    for principle in load_principles(folder):
        if stage is not None and stage not in principle.stages:
            continue
        console.print(
            f"[bold]{plain(principle.id)}[/]  {plain(principle.title)}  [dim]{', '.join(principle.stages)}[/]"
        )
        console.print(f"  when      {plain(principle.when)}")
        console.print(f"  do        {plain(principle.do)}")
        console.print(f"  changes   {plain(principle.changes.metric)} {principle.changes.direction}")
        if principle.evidence:
            console.print(f"  evidence  {plain(principle.evidence)}")
        console.print()
