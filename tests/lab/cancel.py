"""Time how long a cancelled evaluation holds the machine: its coroutine, its processes and files, the GPU's memory."""

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.device.nvml import open_nvml
from egg_graph.schema import Candidate, InfrastructureError, KernelTask, Value
from tests.lab.processes import Process, descendants

AT_WORK = 2.0
"""Age of the candidate's process [s] at which its evaluation is cancelled: by then it is inside `forward`."""
POLL = 0.005
"""Seconds between two looks."""
PATIENCE = 120.0
"""Seconds to wait for the candidate to be at work, and for everything to be free."""
CONTEXT_BYTES = 64 << 20
"""GPU memory counts as free when no more than this is in use beyond what was in use before."""


class Cancelled(Value):
    """Seconds from one cancellation to each of its effects."""

    returned: float
    """The coroutine has ended."""
    ended: float
    """No process of the judge is alive: the candidate, its fork servers, the judge itself."""
    removed: float
    """Its folder is gone."""
    freed: float | None = None
    """The GPU's memory is free again; None without a GPU."""


class CancelResults(Value):
    """Cancellations of evaluations of one kernel that never returns."""

    terms: Provenance
    reference: str
    candidate: str
    cancelled: tuple[Cancelled, ...]

    @property
    def medians(self) -> dict[str, float]:
        """The median of each effect, over all repeats [s]."""
        return {name: median(times) for name, times in self.times.items()}

    @property
    def times(self) -> dict[str, list[float]]:
        """The seconds of each effect, by its name; without those that were not measured."""
        by_name = {name: [getattr(one, name) for one in self.cancelled] for name in Cancelled.model_fields}
        return {name: times for name, times in by_name.items() if None not in times}


def run_cancel(
    task: KernelTask,
    candidate: Candidate,
    name: str,
    out: Path | None = None,
    *,
    device: Device = "auto",
    repeats: int = 5,
) -> CancelResults:
    """Cancel evaluations of a kernel that never returns, all by one evaluator.

    Args:
        task: the task that the kernel is judged on.
        candidate: the kernel.
        name: name of its file.
        out: results file.
        device: where to judge.
        repeats: number of evaluations.

    Raises:
        InfrastructureError: if the kernel is not seen at work, or something is not free in time.
    """
    provenance = current_provenance()
    used = gpu_bytes()
    with LocalEvaluator(device=device) as local:
        environment = local.environment()
        cancelled = tuple(asyncio.run(_cancel(local, task, candidate, used)) for _ in range(repeats))
    terms = provenance.model_copy(update={"environment": environment})
    results = CancelResults(terms=terms, reference=task.name, candidate=name, cancelled=cancelled)
    if out is not None:
        write_results(out, results, cancel_page(results), summary=results.medians)
    return results


async def _cancel(local: LocalEvaluator, task: KernelTask, candidate: Candidate, used: int | None) -> Cancelled:
    await local.abaseline(task)
    call = asyncio.create_task(local.aevaluate(task, candidate))
    there = await _at_work(call)
    folders = [f for f in Path(tempfile.gettempdir()).glob("egg-evaluator-*") if any(p.holds(str(f)) for p in there)]
    started = time.monotonic()
    seconds: dict[str, float] = {}

    def gone(name: str, free: bool) -> None:
        if free:
            seconds.setdefault(name, time.monotonic() - started)

    call.cancel()
    while {"returned", "ended", "removed"} | ({"freed"} if used is not None else set()) > seconds.keys():
        await asyncio.sleep(POLL)
        gone("returned", call.done())
        gone("ended", not any(process.alive for process in there))
        gone("removed", not any(folder.exists() for folder in folders))
        if used is not None:
            gone("freed", (gpu_bytes() or 0) <= used + CONTEXT_BYTES)
        if time.monotonic() - started > PATIENCE:
            raise InfrastructureError(f"not free {PATIENCE:.0f} s after its cancellation; seconds: {seconds}")
    return Cancelled(**seconds)


async def _at_work(call: "asyncio.Task[object]") -> tuple[Process, ...]:
    """All processes of the evaluator, once the candidate's is old enough."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not call.done():
        there = descendants()
        if any(job_of(process) and process.age_seconds >= AT_WORK for process in there):
            return there
        await asyncio.sleep(POLL)
    raise InfrastructureError("the kernel was not seen at work: take one that never returns")


def job_of(process: Process) -> str:
    """The folder of the candidate's job that a process works in; empty where it works elsewhere."""
    try:
        folder = Path(f"/proc/{process.pid}/cwd").readlink()
    except OSError:
        return ""
    return next((str(one) for one in (folder, *folder.parents) if one.name.startswith("job-")), "")


def gpu_bytes() -> int | None:
    """Memory in use on the first GPU, by all processes [byte]; None without a GPU."""
    with open_nvml() as nvml:
        if nvml is None or not nvml.nvmlDeviceGetCount():
            return None
        return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).used)


def cancel_page(results: CancelResults) -> str:
    """The seconds as a Markdown page."""
    effects = {
        "returned": "the coroutine has ended",
        "ended": "no process of the judge is alive, the candidate's included",
        "removed": "its folder is gone",
        "freed": "the GPU's memory is free",
    }
    rows = [(effects[name], f"{median(times):.3f}", f"{max(times):.3f}") for name, times in results.times.items()]
    lines = [f"# cancelling the evaluation of {results.candidate} for {results.reference}", ""]
    lines += [f"{results.terms.line} {len(results.cancelled)} cancellations by one evaluator.", ""]
    lines += markdown_table(("seconds from the cancellation until", "median", "largest"), rows)
    return "\n".join(lines) + "\n"
