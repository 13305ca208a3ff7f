"""`egg-graph spool`: judge what lies in a folder, for graphs on machines that cannot reach this one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.cli.judging_host import PROFILE, RAY, TIMEOUT, WORKERS, Host, log_to_stderr, tell_answer
from egg_graph.cli.options import DEVICE
from egg_graph.context import Device
from egg_graph.schema import BadInput

if TYPE_CHECKING:
    from egg_graph.evaluator.remote.questions import Answer, Question


def spool(
    folder: Annotated[Path, typer.Argument(help="Folder of questions and answers.")],
    watch: Annotated[bool, typer.Option("--watch", help="Go on with what is laid down later, until Ctrl-C.")] = False,
    device: Annotated[Device, DEVICE] = "auto",
    workers: Annotated[int, WORKERS] = 1,
    timeout: Annotated[float, TIMEOUT] = 60.0,
    profile: Annotated[bool, PROFILE] = True,
    ray: Annotated[str | None, RAY] = None,
) -> None:
    """Judge what lies in a folder as one batch, write the answers there, and end. With --watch the folder is made.

    Graphs elsewhere lay their questions there: egg-graph optimize --evaluator spool:FOLDER. Share the folder between
    the machines, or copy it to and fro. Whoever can write into it can make this machine run code: a reference runs with
    your rights.
    """
    from egg_graph.evaluator.remote.judge_queue import JudgeQueue, judge_spool
    from egg_graph.evaluator.remote.spool import Spool

    if not watch and not folder.is_dir():
        raise BadInput(f"{folder}: no such folder; name the one of --evaluator spool:FOLDER, or --watch to make it")
    log_to_stderr()
    judging = Host(device, workers, timeout, profile, ray)
    place = Spool(folder, judging.name)

    answered = 0

    def tell(key: str, question: Question | None, answer: Answer) -> None:
        nonlocal answered
        answered += 1
        tell_answer(key, question, answer)

    async def work() -> None:
        queue = JudgeQueue(place, pool, workers=pool.workers, on_answer=tell)
        async with queue.open():
            await judge_spool(queue, watch=watch)

    with place.held(), judging.make_pool() as pool:
        stdout().print(f"judges on {plain(judging.place)} what lies in {plain(folder)}", soft_wrap=True)
        asyncio.run(work())
        if not answered:
            stdout().print(f"0 questions waited in {plain(folder)}", soft_wrap=True)
