"""Provoke faults one by one: each must get its own verdict in time, and leave the next right kernel undisturbed."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.corpus import candidate_of, finding_kinds, task_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device, choose_target
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.evidence.findings import status_of
from egg_graph.schema import USABLE, BadInput, Candidate, Evaluation, InfrastructureError, KernelTask, Value
from tests.lab.processes import Process, descendants, judges
from tests.paths import IMPORTABLE

SLACK = 30.0
"""Seconds that an evaluation may take beyond the limit of one run: for start, compilation and a second try."""
DENYING_NCU = """#!/bin/sh
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
exit 1
"""
"""A program that answers as Nsight Compute does where the driver keeps hardware counters from users."""


class Fault(Value):
    """The verdict on one fault, and on the right kernel judged after it."""

    name: str
    what: str
    status: str
    findings: tuple[str, ...]
    reason: str
    as_expected: bool
    seconds: float
    after: str
    """Status of the right kernel, judged next by the same evaluator."""
    same_answer: bool
    """Whether the right kernel's errors are bit for bit those it had before all faults."""


class FaultResults(Value):
    """All faults of one evaluator."""

    terms: Provenance
    ladder: str
    timeout: float
    reference: str
    candidate: str
    before: str = ""
    """Status of the right kernel before all faults."""
    faults: tuple[Fault, ...] = ()

    @property
    def complaints(self) -> tuple[str, ...]:
        """What went wrong, one line each; empty if nothing did."""
        lines = [
            f"{fault.name}: {fault.status} ({fault.reason[:80]})" for fault in self.faults if not fault.as_expected
        ]
        lines += [
            f"{fault.name}: took {fault.seconds:.0f} s" for fault in self.faults if fault.seconds > self.timeout + SLACK
        ]
        lines += [f"after {fault.name} the right kernel is {fault.after}" for fault in self.faults if not _good(fault)]
        lines += [
            f"after {fault.name} the right kernel has another answer"
            for fault in self.faults
            if _good(fault) and not fault.same_answer
        ]
        return tuple(lines)


def _good(fault: Fault) -> bool:
    return fault.after in USABLE


def run_faults(
    folders: Sequence[Path],
    right: Path,
    out: Path | None = None,
    *,
    device: Device = "auto",
    timeout: float = 10.0,
    on_fault: Callable[[Fault], None] | None = None,
) -> FaultResults:
    """Judge faulty kernels and break processes, with a right kernel after each.

    Args:
        folders: faulty kernels, with headers.
        right: a right kernel with a header.
        out: results file, rewritten after every fault.
        device: where to judge.
        timeout: seconds that one run of a kernel may take.
        on_fault: called after each fault.

    Raises:
        BadInput: for a bad header.
    """
    run = _Run(read_entries([right], None)[0], device, timeout)
    results = FaultResults(
        terms=current_provenance(),
        ladder="",
        timeout=timeout,
        reference=run.entry.header.problem,
        candidate=run.entry.path.name,
    )
    with LocalEvaluator(device=device, timeout=timeout, seed=1) as local:
        here = local.environment()
        gpu = here.gpu is not None and device != "none"
        first = run.judge_right(local)
        run.expected = errors(first)
        results = results.model_copy(
            update={
                "terms": results.terms.model_copy(update={"environment": here}),
                "ladder": "gpu" if gpu else "cpu",
                "before": str(first.status),
            }
        )
        for provoke in run.faults(read_entries(folders, None), local, gpu=gpu):
            fault = provoke()
            results = results.model_copy(update={"faults": (*results.faults, fault)})
            if on_fault is not None:
                on_fault(fault)
            if out is not None:
                write_results(out, results, faults_page(results), complaints=results.complaints)
    return results


def errors(evaluation: Evaluation) -> tuple[tuple[str, str, float, float], ...]:
    """The errors of every comparison but those of timed calls, whose inputs no seed fixes."""
    return tuple(
        (check.name, check.family, check.error, check.max_abs) for check in evaluation.checks if check.name != "timed"
    )


class _Run:
    """The right kernel, its errors before all faults, and the faults to provoke."""

    def __init__(self, entry: Entry, device: Device, timeout: float) -> None:
        self.entry, self.device, self.timeout = entry, device, timeout
        self.task: KernelTask = task_of(entry, choose_target("auto"))
        self.candidate: Candidate = candidate_of(entry)
        self.expected: tuple[tuple[str, str, float, float], ...] = ()

    def judge_right(self, local: LocalEvaluator) -> Evaluation:
        return local.evaluate(self.task, self.candidate)

    def faults(self, entries: Sequence[Entry], local: LocalEvaluator, *, gpu: bool) -> Iterator[Callable[[], Fault]]:
        """Each fault as a function that provokes it."""
        ladder = "gpu" if gpu else "cpu"
        for entry in entries:
            if not entry.header.honest and ladder in entry.header.where:
                yield lambda entry=entry: self.judge_faulty(local, entry)  # type: ignore[misc]
        yield lambda: self.fork_bomb(local)
        yield lambda: self.kill(local, "worker killed", workers)
        yield lambda: self.kill(local, "fork servers killed", fork_servers)
        yield lambda: self.kill(local, "judge killed", judges_at_work)
        if gpu:
            yield lambda: self.deny_counters(local)

    def judge_faulty(self, local: LocalEvaluator, entry: Entry) -> Fault:
        """Judge a candidate that misbehaves."""
        header = entry.header
        task = task_of(entry, choose_target("auto"))
        begun = time.monotonic()
        evaluation = _evaluate_safely(lambda: local.evaluate(task, candidate_of(entry)))
        return self._fault(
            local, header.name, entry.path.name, evaluation, begun, header.outcome(evaluation) == "caught"
        )

    def fork_bomb(self, local: LocalEvaluator) -> Fault:
        """Run a fork bomb that no gate has seen in the sandbox that candidates run in."""
        from egg_graph.evaluator.host.fork_server import ForkServer, Limits
        from egg_graph.evaluator.host.outcome import finding_of

        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            fork_server = ForkServer(
                interpret=False,
                folder=Path(name),
                warm=("tests.lab.fault_jobs",),
                environment={"PYTHONPATH": IMPORTABLE},
            )
            folder = Path(name) / "job"
            folder.mkdir()
            try:
                limits = Limits(wall_seconds=self.timeout)
                end = fork_server.run("tests.lab.fault_jobs:fork_bomb", {}, folder, limits)
            finally:
                fork_server.stop()
        finding = finding_of(end, limit=self.timeout)
        found = () if finding is None else (finding,)
        reason = found[0].message if found else "it came to an end"
        evaluation = Evaluation(candidate="", task="", status=status_of(found), reason=reason, findings=found)
        expected = "too_many_processes" in finding_kinds(evaluation)
        return self._fault(local, "fork bomb behind the gate", "in the sandbox alone", evaluation, begun, expected)

    def kill(self, local: LocalEvaluator, name: str, find: Callable[[Sequence[Process]], Sequence[Process]]) -> Fault:
        """Kill some of our processes in the middle of the right kernel's evaluation; the evaluation must survive it."""
        begun, idle = time.monotonic(), descendants()
        found: list[Evaluation] = []
        thread = threading.Thread(target=lambda: found.append(_evaluate_safely(lambda: self.judge_right(local))))
        thread.start()
        victims: Sequence[Process] = ()
        while thread.is_alive() and not victims:
            time.sleep(0.05)
            victims = find(idle)
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        thread.join()
        expected = bool(victims) and found[0].usable and errors(found[0]) == self.expected
        return self._fault(local, name, f"{len(victims)} ended by SIGKILL", found[0], begun, expected)

    def deny_counters(self, local: LocalEvaluator) -> Fault:
        """Deny hardware counters, as some drivers do: the profile must come from another source and say so."""
        begun = time.monotonic()
        with _denying_ncu(), LocalEvaluator(device=self.device, timeout=self.timeout, profile=True) as other:
            evaluation = _evaluate_safely(lambda: other.evaluate(self.task, self.candidate, stage="tensor_tiling"))
        profile = evaluation.profile
        expected = evaluation.usable and profile.source not in ("none", "ncu") and "ERR_NVGPUCTRPERM" in profile.why
        what = f"profile from {profile.source}: {profile.why}"
        return self._fault(local, "ncu denied", what, evaluation, begun, expected)

    def _fault(
        self, local: LocalEvaluator, name: str, what: str, evaluation: Evaluation, begun: float, expected: bool
    ) -> Fault:
        seconds = time.monotonic() - begun
        after = _evaluate_safely(lambda: self.judge_right(local))
        return Fault(
            name=name,
            what=what,
            status=evaluation.status,
            findings=finding_kinds(evaluation),
            reason=evaluation.reason,
            as_expected=expected,
            seconds=seconds,
            after=after.status,
            same_answer=errors(after) == self.expected,
        )


def workers(idle: Sequence[Process]) -> tuple[Process, ...]:
    """Processes of candidates at work: they were not there before, and they use the processor."""
    return tuple(process for process in descendants() if process not in idle and process.cpu_seconds > 0.1)


def fork_servers(idle: Sequence[Process]) -> tuple[Process, ...]:
    """The processes that candidates' processes are forked from, once there are some."""
    parents = {worker.parent for worker in workers(idle)}
    return tuple(process for process in idle if process.pid in parents)


def judges_at_work(idle: Sequence[Process]) -> tuple[Process, ...]:
    """The judge of the candidates at work, once there are some; other evaluators of this process keep theirs."""
    busy = set(workers(idle))
    return tuple(judge for judge in judges() if busy & set(descendants(judge.pid)))


def _evaluate_safely(evaluate: Callable[[], Evaluation]) -> Evaluation:
    try:
        return evaluate()
    except (InfrastructureError, BadInput) as error:
        return Evaluation(candidate="", task="", status="infra_error", reason=" ".join(str(error).split()))


@contextmanager
def _denying_ncu() -> Iterator[None]:
    """Put an `ncu` that refuses first on PATH."""
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ncu"
        program.write_text(DENYING_NCU)
        program.chmod(0o755)
        Path(folder).chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before


def faults_page(results: FaultResults) -> str:
    """The faults as a Markdown page."""
    rows = [
        (
            *(fault.name, fault.what, fault.status, ", ".join(fault.findings) or "-"),
            *("yes" if fault.as_expected else "**no**", f"{fault.seconds:.1f}"),
            f"{fault.after}, {'same answer' if fault.same_answer else '**another answer**'}",
        )
        for fault in results.faults
    ]
    complaints = [f"- {complaint}" for complaint in results.complaints] or ["Nothing to complain of."]
    lines = ["# faults", "", results.terms.line, ""]
    lines += [
        f"{results.candidate} for {results.reference} was `{results.before}` before; a run of a kernel may take "
        f"{results.timeout:g} s. Same answer: errors against the reference equal bit for bit, on the same seed.",
        "",
        *complaints,
        "",
    ]
    header = ("fault", "what", "verdict", "findings", "as expected", "s", "right kernel judged next")
    return "\n".join([*lines, *markdown_table(header, rows)]) + "\n"
