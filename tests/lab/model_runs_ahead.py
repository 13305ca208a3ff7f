"""Judge ahead: a GPU host lets runs go on by themselves until each needs a prompt answered, in one trip.

What a run asks behind the answer that it waits for (a sweep, its winner, a finalist) follows from that answer, without
a model. So copies of the runs go to the host with their questions; they go on there beside the judges, as far as the
next prompt, and the answers alone come back. The runs themselves then ask the same questions, and find them answered.
A question that they ask otherwise costs no more than a further trip.
"""

import asyncio
import io
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath

from egg_graph.cli.judging_host import Host
from egg_graph.evaluator.remote.judge_queue import JudgeQueue, judge_spool
from egg_graph.evaluator.remote.questions import KEY, Answer, Question
from egg_graph.evaluator.remote.spool import Spool
from egg_graph.runs.checkpoints import FILE as CHECKPOINTS
from egg_graph.schema import BadInput, Baseline, InfrastructureError
from tests.lab.first_kernel import first_kernel
from tests.lab.model_runs import BEGUN, RUNS, SPOOL, TERMS, ModelRuns, RunsProgress

ANSWERS, QUESTIONS = f"{SPOOL}/answers", f"{SPOOL}/questions"
Listener = Callable[[str, Question | None, Answer], None]


def ask_contenders(runs: ModelRuns) -> None:
    """Ask for the evaluation of each contender beside the baseline that its run waits for.

    The run would ask for it next. The embedded expert's seed hangs on whether kernels are timed, and on no time, so it
    can be written now; on the host the copy of the run may write another one, where other versions capture otherwise.
    A seed that the expert cannot write is left to the run, which tells why.
    """
    if not runs.terms.expert and not runs.terms.knobs.get("expert_seed", True):
        return
    spool = Spool(runs.folder / SPOOL)
    milliseconds = None if runs.terms.knobs.get("device") == "none" else 1.0
    for question in runs.progress().questions:
        if question.kind != "baseline" or question.task is None:
            continue
        with suppress(InfrastructureError):
            seed = first_kernel(question.task, Baseline(task=question.task.digest, eager_ms=milliseconds))
            if seed is not None:
                spool.ask(Question(kind="evaluate", task=question.task, candidates=(seed,), stage=seed.stage))


def pack(runs: ModelRuns, file: Path) -> None:
    """Write all that a host needs to let the unfinished runs go on: a .tar.gz file."""
    with tarfile.open(file, "w:gz") as archive:
        archive.add(runs.folder / TERMS, TERMS)
        unfinished: dict[str, str] = {}
        for planned in runs.planned_runs:
            folder = runs.run_folder(planned)
            if folder is not None and not runs.ended(planned):
                unfinished[planned.key] = folder.name
                archive.add(folder / "run.json", f"{RUNS}/{folder.name}/run.json")
                with closing(sqlite3.connect(folder / CHECKPOINTS)) as database:  # a copy holds all that is committed
                    _add(archive, f"{RUNS}/{folder.name}/{CHECKPOINTS}", database.serialize())
        _add(archive, BEGUN, json.dumps(unfinished).encode())
        for place in (QUESTIONS, ANSWERS):
            for path in sorted((runs.folder / place).glob("*.json")):
                archive.add(path, f"{place}/{path.name}")


def judge_ahead(
    packed: Path, out: Path, host: Host, *, seconds: float, on_answer: Listener = lambda key, question, answer: None
) -> RunsProgress:
    """Judge what packed runs ask until each of them waits for a prompt or has ended; write the new answers.

    Args:
        packed: what `pack` wrote.
        out: .tar.gz file of the answers; written whatever happens.
        host: how this machine judges.
        seconds: break off after this long; what was judged is kept.
        on_answer: called with every new answer.
    """
    with tempfile.TemporaryDirectory(prefix="egg-graph-ahead-") as name:
        folder = Path(name)
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        spool = Spool(folder / SPOOL, host.name)
        known = {path.name for path in spool.answers.iterdir()}
        try:
            with spool.held(), host.make_pool() as pool:
                queue = JudgeQueue(spool, pool, workers=pool.workers, on_answer=on_answer)
                return asyncio.run(_advance(ModelRuns(folder, begin=False), queue, seconds))
        finally:
            with tarfile.open(out, "w:gz") as archive:
                for path in sorted(spool.answers.glob("*.json")):
                    if path.name not in known:
                        archive.add(path, path.name)


def take_answers(runs: ModelRuns, file: Path) -> int:
    """Put the answers of a host beside the questions; return how many there are.

    Raises:
        BadInput: if the file holds anything else.
    """
    spool, taken = Spool(runs.folder / SPOOL), 0
    with tarfile.open(file) as archive:
        for member in archive:
            key = PurePosixPath(member.name).stem
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or member.name != f"{key}.json" or not KEY.fullmatch(key):
                raise BadInput(f"{file}: holds {member.name!r}, which is no answer")
            answer = Answer.model_validate_json(content.read())
            if answer.lasting:
                spool.keep(answer)
                taken += 1
    return taken


async def _advance(runs: ModelRuns, queue: JudgeQueue, seconds: float) -> RunsProgress:
    """Let the runs go on beside the judges."""
    async with queue.open():
        judging = asyncio.create_task(judge_spool(queue, watch=True))
        going = asyncio.create_task(runs.advance(wait=None, at_once=None))
        try:
            await asyncio.wait({judging, going}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                return going.result()
            if judging.done():
                judging.result()
            return runs.progress()
        finally:
            for task in (going, judging):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
