"""`egg-graph mcp`: serve runs and verdicts to coding agents, by the Model Context Protocol."""

import os
from pathlib import Path
from typing import Annotated

import typer

from egg_graph.schema import BadInput

FROM_EGG_MODEL = "EGG_MODEL"


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="Address for HTTP; keep it on this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port for HTTP; the path is /mcp.")] = 8000,
    runs: Annotated[Path, typer.Option(help="Where the folders of runs are made.")] = Path("runs"),
    model: Annotated[
        str | None,
        typer.Option(
            help="Who writes where a client names nobody: expert, handoff (the client itself), or a chat model.",
            show_default="the embedded expert",
        ),
    ] = None,
) -> None:
    """Serve runs and verdicts to coding agents, by the Model Context Protocol (MCP).

    Tools: start a run and watch it, take its prompts and answer them, judge a kernel, read the evidence. Whoever can
    reach the server can make it run code. Set EGG_MODEL instead of --model to use the same model every time.
    """
    try:
        from egg_graph.mcp.server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise BadInput("the MCP SDK is not installed: pip install 'egg-graph[mcp]'") from error
    server = build_server(runs, model=model or os.environ.get(FROM_EGG_MODEL) or None)
    if http:
        server.run("streamable-http", host=host, port=port)
    else:
        server.run("stdio")
