"""Read the text report of NVIDIA's compute-sanitizer: one `Complaint` per entry, with the kernel that it is about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from egg_graph.evaluator.worker.planted_fault import KERNEL as PLANTED
from egg_graph.schema import Finding, FindingKind

Tool = Literal["memcheck", "racecheck", "initcheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck")
_MARK = "========="
"""Beginning of every line that the tool itself wrote."""
_AT = re.compile(
    r"\bat (?:0x[0-9a-f]+ in )?(?P<kernel>[\w:<>~]+)(?:\([^)]*\))?(?:\+(?P<offset>0x[0-9a-f]+))?"
    r"(?: in (?P<file>\S+?):(?P<line>\d+))?"
)
_ADDRESS = re.compile(r"Address (?P<address>0x[0-9a-f]+) (?P<what>.*)")
_LAST = re.compile(r"ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard")
LONGEST_FIELD = 300
"""Characters of each field of a complaint that are kept."""


@dataclass(frozen=True)
class Complaint:
    """One entry of a report."""

    message: str
    """First line, as `Invalid __global__ read of size 4 bytes`."""
    kernel: str
    """Name of the kernel."""
    where: str
    """File and line if the tool knows them, else the offset in the kernel."""
    address: str
    """The address and what the tool says about it; empty if it says nothing."""


def parse_complaints(text: str) -> Iterator[Complaint]:
    """Yield every complaint of a report that is about a kernel, in order."""
    block: list[str] = []
    for line in [*text.splitlines(), _MARK]:
        if not line.startswith(_MARK):
            continue
        body = line.removeprefix(_MARK)
        if body.startswith("     ") and block:  # a line of the complaint above
            block.append(body.strip())
            continue
        if found := _parse_block(block):
            yield found
        block = [body.strip()] if body.strip() else []


def _parse_block(block: list[str]) -> Complaint | None:
    if not block or not block[0].startswith(("Invalid", "Uninitialized", "Error:", "ERROR", "Misaligned", "Race")):
        return None
    place = next((found for line in block if (found := _AT.search(line)) is not None), None)
    if place is None:
        return None
    address = next((found for line in block if (found := _ADDRESS.search(line)) is not None), None)
    at = f"{place['file']}:{place['line']}" if place["file"] else place["offset"] or ""
    said = f"{address['address']} {address['what']}" if address else ""
    return Complaint(block[0][:LONGEST_FIELD], place["kernel"], at[:LONGEST_FIELD], said[:LONGEST_FIELD])


def is_complete(text: str) -> bool:
    """Whether the tool wrote its summary, the last part of a report."""
    return _LAST.search(text) is not None


def saw_planted(text: str) -> bool:
    """Whether the report holds the fault that was planted for the tool."""
    return any(complaint.kernel == PLANTED for complaint in parse_complaints(text))


FINDINGS: dict[Tool, tuple[FindingKind, str]] = {
    "memcheck": ("out_of_bounds", "mask every load and store; look at offsets that may pass the end of a tensor"),
    "racecheck": ("write_race", "let no two threads write what another reads without a barrier between them"),
    "initcheck": ("uninitialised_read", "store before loading; start an accumulator or atomic at zeros, not at empty"),
}
"""Kind and cure of each tool's findings."""


def judge_report(tool: Tool, text: str, own: Collection[str]) -> tuple[list[Finding], int]:
    """Judge a report.

    Complaints about a library's kernels do not count (racecheck reports some in cuBLAS), nor does the planted fault.

    Args:
        tool: wrote the report.
        text: the report.
        own: names of the candidate's kernels.

    Returns:
        Findings, one per own kernel and kind of complaint, and the number of complaints about other kernels.
    """
    kind, cure = FINDINGS[tool]
    seen: dict[tuple[str, str], Finding] = {}
    others = 0
    for complaint in parse_complaints(text):
        if complaint.kernel not in own:
            others += complaint.kernel != PLANTED
            continue
        message = f"compute-sanitizer {tool}: {complaint.message}" + (
            f"; {complaint.address}" if complaint.address else ""
        )
        place = f"kernel {complaint.kernel}" + (f", {complaint.where}" if complaint.where else "")
        seen.setdefault(
            (complaint.kernel, complaint.message), Finding(kind=kind, message=message, where=place, cure=cure)
        )
    return list(seen.values()), others
