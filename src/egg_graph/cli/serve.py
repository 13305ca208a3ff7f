"""`egg-graph serve`: judge for graphs that run on other machines, over HTTP."""

import os
from pathlib import Path
from typing import Annotated

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.judging_host import PROFILE, RAY, TIMEOUT, WORKERS, Host, log_to_stderr, tell_answer
from egg_graph.cli.options import DEVICE
from egg_graph.cli.stopping import stoppable
from egg_graph.context import Device
from egg_graph.schema import BadInput

GRACE_SECONDS = 5
"""Time for open requests when the server is stopped."""


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; keep it on this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8642,
    folder: Annotated[Path, typer.Option(help="Where questions and answers are kept.")] = Path("judged"),
    token_file: Annotated[
        Path | None, typer.Option(help="File that holds the token.", show_default="the variable EGG_GRAPH_TOKEN")
    ] = None,
    keep_days: Annotated[float, typer.Option(min=0, help="Days after which an answer is deleted.")] = 30.0,
    device: Annotated[Device, DEVICE] = "auto",
    workers: Annotated[int, WORKERS] = 1,
    timeout: Annotated[float, TIMEOUT] = 60.0,
    profile: Annotated[bool, PROFILE] = True,
    ray: Annotated[str | None, RAY] = None,
) -> None:
    """Judge for graphs that run on other machines: egg-graph optimize --evaluator URL.

    Whoever has the token can make this machine run code: a reference runs with your rights. It listens on this machine
    alone; reach it through a tunnel (ssh -L), or a proxy that speaks TLS.
    """
    try:
        import uvicorn

        from egg_graph.evaluator.remote.server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise BadInput("the server is not installed: pip install 'egg-graph[serve]'") from error
    from egg_graph.evaluator.remote.judge_queue import JudgeQueue
    from egg_graph.evaluator.remote.spool import Spool

    log_to_stderr()
    judging = Host(device, workers, timeout, profile, ray)
    token = _token(token_file)
    spool = Spool(folder, judging.name)
    with spool.held(), judging.make_pool() as pool:

        def make_queue() -> JudgeQueue:
            return JudgeQueue(spool, pool, workers=pool.workers, on_answer=tell_answer)

        app = build_server(make_queue, token, keep_days=keep_days)
        place = f"http://{plain(host)}:{port} judges on {plain(judging.place)}"
        stdout().print(f"{place}; answers are kept in {plain(folder)}", soft_wrap=True)
        with stoppable():
            uvicorn.run(
                app,
                host=host,
                port=port,
                ws="none",
                access_log=False,
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
    stdout().print(
        f"stopped; what was asked and not answered is judged when it is started again on {plain(folder)}",
        soft_wrap=True,
    )


def _token(file: Path | None) -> str:
    """The token, from a file or the environment: on a command line every user of the machine could read it."""
    if file is None:
        token = os.environ.get("EGG_GRAPH_TOKEN", "")
        if not token:
            raise BadInput("set EGG_GRAPH_TOKEN, or give --token-file; openssl rand -hex 32 makes a token")
        return token
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: the token cannot be read: {error}") from error
