"""Compile a candidate's launches for the target: what is launched, and every tuning configuration that may win."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.evidence.statements import code_key, count, distinct
from egg_graph.evaluator.gpuless.job_runner import JobRunner
from egg_graph.evaluator.host.fork_server import ChildExit, Limits
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Candidate, Finding, KernelResources, KernelTask

OTHERS_SECONDS = 12.0
"""No further tuning configuration is compiled after this time [s]."""
SHOWN = 3
"""Skipped configurations that a statement lists."""


@dataclass(frozen=True)
class Compiled:
    """What compiling some launches showed."""

    resources: tuple[KernelResources, ...]
    """Of each launch, under its first configuration that compiles and fits."""
    findings: list[Finding]
    log: str
    told: str = ""
    """What became of the other tuning configurations, as an end of a sentence."""
    untried: int = 0
    """Tuning configurations that there was no time for."""


@dataclass(frozen=True)
class TargetCompiler:
    """Compiles launches of one candidate in processes of their own."""

    jobs: JobRunner
    task: KernelTask
    candidate: Candidate

    def compile(self, launches: Sequence[Launch]) -> Compiled:
        """Compile each launch, then its other configurations, any of which the tuner may choose.

        A configuration that the tuner would skip is told and no fault, unless all of them are so.
        """
        groups = [[launch, *launch.alternatives] for launch in launches]
        answer, findings, log = self._run(groups, None)
        resources = tuple(KernelResources.model_validate(g["resources"]) for g in answer if g["resources"])
        findings += [Finding.model_validate(f) for group in answer for f in group["findings"]]
        skipped = [Finding.model_validate(f) for group in answer for f in group["passed_over"]]
        rest = [launch for group, done in zip(groups, answer, strict=False) for launch in group[done["chosen"] + 1 :]]
        others = distinct(rest)
        if findings or not others:
            return Compiled(resources, findings, log, _told(len(skipped), skipped))
        more, broken, further = self._run([[launch] for launch in others], OTHERS_SECONDS)
        if broken and broken[0].kind == "timeout":  # one that takes this long to compile is no fault
            return Compiled(resources, [], log, _told(len(skipped), skipped), untried=len(others))
        skipped += [Finding.model_validate(f) for group in more for f in group["passed_over"]]
        broken += [Finding.model_validate(f) for g in more if not g["passed_over"] for f in g["findings"]]
        tried = len(more) + len(skipped)
        return Compiled(resources, broken, log or further, _told(tried, skipped), untried=len(others) - len(more))

    def faults(self, launches: Sequence[Launch]) -> list[Finding]:
        """Return what the compiler refuses; a configuration of several may not fit, since the tuner skips it."""
        answer, findings, _ = self._run([[launch] for launch in launches], None)
        for launch, group in zip(launches, answer, strict=False):
            if not group["passed_over"] or len(launch.configs) < 2:
                findings += [Finding.model_validate(f) for f in group["findings"]]
        return findings

    def fill_cache(self, launches: Sequence[Launch], folder: Path, seconds: float, side_by_side: int) -> dict[str, str]:
        """Compile launches under all their configurations, for a process that runs the candidate on this machine's GPU.

        Args:
            launches: what to compile.
            folder: the candidate's, where that process runs; Triton's cache lies in it.
            seconds: no further one is compiled after this time [s].
            side_by_side: how many are compiled at a time.

        Returns:
            The fingerprint of the code of each that compiled, by its `code_key`.
        """
        end = time.monotonic() + seconds

        def compile_one(launch: Launch) -> str:
            if time.monotonic() >= end:
                return ""
            answer = (self._job("fill_cache", folder, launch=_entry(launch)).report or {}).get("answer")
            return str(answer["code"]) if answer else ""

        all_of_them = [launch for first in launches for launch in (first, *first.alternatives)]
        with ThreadPoolExecutor(side_by_side) as pool:
            codes = list(pool.map(compile_one, all_of_them))
        return {code_key(launch): code for launch, code in zip(all_of_them, codes, strict=True) if code}

    def _run(
        self, groups: Sequence[Sequence[Launch]], seconds: float | None
    ) -> tuple[list[dict[str, Any]], list[Finding], str]:
        """Run the job: its entries, what ended it, and the log."""
        with self.jobs.job_folder(self.candidate) as folder:
            entries = [[_entry(launch) for launch in group] for group in groups]
            end = self._job("compile_all", folder, launches=entries, seconds=seconds)
        finding = finding_of(end, limit=self.jobs.timeout)
        if finding is None:
            assert end.report is not None
            return end.report["answer"]["groups"], [], end.log
        timed_out = seconds is not None and finding.kind == "timeout"
        kind = "kernel_compile_error" if finding.kind in ("timeout", "crashed") and not timed_out else finding.kind
        message = f"compiling for {self.task.target.arch}: {finding.message}"
        return [], [finding.model_copy(update={"kind": kind, "message": message})], end.log

    def _job(self, name: str, folder: Path, **payload: Any) -> ChildExit:
        """Run a job of `compile_job`."""
        limits = Limits(wall_seconds=self.jobs.timeout)
        job = f"egg_graph.evaluator.worker.compile_job:{name}"
        return self.jobs.compiling.run(job, {**self.jobs.common(self.task), **payload}, folder, limits)


def _entry(launch: Launch) -> dict[str, Any]:
    return launch.model_dump(mode="json", exclude={"alternatives"})


def _told(tried: int, skipped: Sequence[Finding]) -> str:
    """Say which tuning configurations were skipped."""
    if not skipped:
        return f"; {count(tried, 'other tuning configuration')} compiled and fitting" if tried else ""
    places = [finding.where.partition(", ")[2].partition(", ")[2] or finding.where for finding in skipped[:SHOWN]]
    more = f" and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
    verb = "was" if len(skipped) == 1 else "were"
    return (
        f"; {count(len(skipped), 'tuning configuration')} {verb} skipped, as the tuner does, for it cannot be launched "
        f"({'; '.join(places)}{more})"
    )
