"""Build an `Evaluation` rung by rung."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from egg_graph.evaluator.evidence.findings import reason_of, rejecting, status_of
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.evidence.statements import count, worst_check
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import (
    Bound,
    Candidate,
    Check,
    Environment,
    Evaluation,
    Finding,
    Integrity,
    KernelResources,
    KernelTask,
    Profile,
    Rung,
    Status,
    Timing,
    Tolerance,
)

NO_SPEED = "no speed was measured: there is no GPU here, and a lower bound is not a speed"
NOT_AT_FULL_SHAPE = "answers at full shape were not compared, but for those named above; nothing ran on GPU hardware"


@dataclass
class EvaluationBuilder:
    """Collects what an evaluation has established so far."""

    findings: list[Finding] = field(default_factory=list)
    rungs: list[Rung] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    resources: tuple[KernelResources, ...] = ()
    bound: Bound | None = None
    timing: Timing | None = None
    triton_share: float | None = None
    profile: Profile = field(default_factory=lambda: Profile(source="none"))
    kernelbench: Tolerance | None = None
    integrity: Integrity | None = None
    log: str = ""
    launched: tuple[Launch, ...] = ()
    """Launches at full shape, as far as they are known without a GPU."""
    short_of_memory: str = ""
    """What the GPU's memory did not hold; empty where it held everything."""
    late_families: list[str] = field(default_factory=list)
    """Input families that were left out for time."""

    @property
    def failed(self) -> bool:
        return bool(rejecting(self.findings))

    def passed(self, rung: RungName, statement: str, seconds: float = 0.0, *, shape: str = "") -> None:
        """Enter a rung that proved what it is for."""
        self._enter(rung, shape, "passed", statement, seconds)

    def skipped(self, rung: RungName, statement: str, seconds: float = 0.0, *, shape: str = "") -> None:
        """Enter a rung that proved nothing, and why."""
        self._enter(rung, shape, "skipped", statement, seconds)

    def fail(
        self, rung: RungName, findings: Sequence[Finding], seconds: float = 0.0, log: str = "", *, shape: str = ""
    ) -> None:
        """Enter a rung that findings reject."""
        self.findings += findings
        self._enter(rung, shape, "failed", reason_of((*rejecting(findings), *findings)[0]), seconds)
        self.log = self.log or log

    def outcome_of(self, rung: RungName, *, shape: str = "") -> Rung | None:
        """The entry of a rung; None where the evaluation did not come to it."""
        name = _full_name(rung, shape)
        return next((entry for entry in self.rungs if entry.name == name), None)

    def _enter(
        self,
        rung: RungName,
        shape: str,
        outcome: Literal["passed", "failed", "skipped"],
        statement: str,
        seconds: float,
    ) -> None:
        name = _full_name(rung, shape)
        self.rungs.append(Rung(name=name, outcome=outcome, statement=statement, seconds=round(seconds, 3)))
        report_progress(f"{name.replace('_', ' ')} {outcome}")

    def absorb(self, other: EvaluationBuilder) -> None:
        """Append what a concurrent part of the ladder established."""
        self.findings += other.findings
        self.rungs += other.rungs
        self.checks += other.checks
        self.resources = self.resources or other.resources
        self.bound = self.bound or other.bound
        self.triton_share = other.triton_share if self.triton_share is None else self.triton_share
        self.kernelbench = self.kernelbench or other.kernelbench
        self.integrity = self.integrity or other.integrity
        self.log = self.log or other.log
        self.late_families += other.late_families

    def conclude(
        self,
        task: KernelTask,
        candidate: Candidate,
        *,
        environment: Environment,
        seconds: float,
        verdict: tuple[Status, str] | None = None,
        seed: int | None = None,
    ) -> Evaluation:
        """The Evaluation. `verdict` is what a kernel without rejecting findings gets (`correct` if not given); `seed`
        is the root of all seeds, told from here on."""
        rejected = rejecting(self.findings)
        if rejected:
            status, reason = status_of(self.findings), reason_of(rejected[0])
        elif verdict is not None:
            status, reason = verdict
        else:
            status, reason = "correct", self._worst_check()
        return Evaluation(
            candidate=candidate.id,
            task=task.digest,
            status=status,
            reason=reason,
            findings=tuple(finding for finding in self.findings if finding.kind != "not_preserved"),
            not_preserved=tuple(finding.message for finding in self.findings if finding.kind == "not_preserved"),
            rungs=tuple(self.rungs),
            checks=tuple(self.checks),
            resources=self.resources,
            bound=self.bound,
            timing=self.timing,
            triton_share=self.triton_share,
            profile=self.profile,
            environment=environment,
            seed=seed,
            kernelbench=self.kernelbench,
            integrity=self.integrity,
            log=self.log,
            seconds=round(seconds, 3),
        )

    def _worst_check(self) -> str:
        if not self.checks:
            return "nothing spoke against it"
        worst = worst_check(self.checks)
        families = count(len(self.late_families), "family", "families")
        late = f"; no time for {families} of inputs" if self.late_families else ""
        return (
            f"right in {len(self.checks)} checks: worst error {worst.error:.1e} of a budget of {worst.budget:.1e} "
            f"({worst.label}); not timed{late}"
        )


def _full_name(rung: RungName, shape: str) -> str:
    return f"{rung}_{shape}" if shape else rung


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Yield a list whose one element is, after the block, the seconds it took."""
    started, took = time.monotonic(), [0.0]
    try:
        yield took
    finally:
        took[0] = time.monotonic() - started
