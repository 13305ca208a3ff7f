"""What some calls of one candidate established, on either ladder."""

from __future__ import annotations

from dataclasses import dataclass, field

from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.schema import Check, Finding, Tolerance


@dataclass
class Outcome:
    """Findings and checks of some calls."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was seen beside right answers, in words."""
    kernelbench: Tolerance | None = None
    """KernelBench's criterion on the first answer."""

    @property
    def failed(self) -> bool:
        """Whether a finding rejects the candidate."""
        return bool(rejecting(self.findings))

    def add(self, other: Outcome) -> None:
        """Append what other calls established; notes appear once."""
        self.findings += other.findings
        self.checks += other.checks
        self.notes += [note for note in other.notes if note not in self.notes]
        self.kernelbench = other.kernelbench or self.kernelbench
