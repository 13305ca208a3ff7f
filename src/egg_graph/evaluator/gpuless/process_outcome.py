"""What the calls of one process of the guarded interpreter established."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from egg_graph.evaluator.problem.outcome import Outcome
from egg_graph.evaluator.problem.plan import Section
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Integrity, Tolerance


@dataclass
class ProcessOutcome:
    """All that the calls of one process established."""

    sections: dict[Section, Outcome] = field(default_factory=lambda: {name: Outcome() for name in get_args(Section)})
    """What the calls of each section of the plan established."""
    used: list[str] = field(default_factory=list)
    """Other uses that were tried, in words."""
    unused: list[str] = field(default_factory=list)
    """Other uses that were left out for time."""
    left_out: list[str] = field(default_factory=list)
    """Input families that were left out for time."""
    kernelbench: Tolerance | None = None
    integrity: Integrity | None = None
    launches: list[Launch] = field(default_factory=list)
    """Launches of the first call: kernels whose values were checked."""
    not_tried: str = ""
    """Why it is not known whether the answer rests on the candidate's kernels."""
    untried: int = 0
    """Number of tuning configurations that never ran."""
    cut_short: bool = False
    """Programs were left out for time, and what the answer lacks is not known."""
    many_programs: bool = False
    """Whether some launch had many of its programs done."""
    part: str = ""
    """The part of the answer that was compared, in words; empty for all of it."""
    undefined_loads: list[str] = field(default_factory=list)
    """Loads that masked lanes off and gave no `other` for them: kernel and line."""
    log: str = ""
    """Text that the process wrote."""

    @property
    def failed(self) -> bool:
        """Whether a finding of any section rejects the candidate."""
        return any(section.failed for section in self.sections.values())
