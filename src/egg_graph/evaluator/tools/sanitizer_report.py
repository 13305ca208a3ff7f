"""What NVIDIA's compute-sanitizer reports, read as data: one entry per complaint, with the kernel it is about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from egg_graph.schema import Finding, FindingKind

Tool = Literal["memcheck", "racecheck", "initcheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck")
_MARK = "========="
_AT = re.compile(
    r"\bat (?:0x[0-9a-f]+ in )?(?P<kernel>[\w:<>~]+)(?:\([^)]*\))?(?:\+(?P<offset>0x[0-9a-f]+))?"
    r"(?: in (?P<file>\S+?):(?P<line>\d+))?"
)
_ADDRESS = re.compile(r"Address (?P<address>0x[0-9a-f]+) (?P<what>.*)")
_LAST = re.compile(r"ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard")
LONGEST = 300
"""Characters of a complaint that are kept."""


@dataclass(frozen=True)
class Complaint:
    """One report of a tool."""

    words: str
    """Its first line: `Invalid __global__ read of size 4 bytes`."""
    kernel: str
    where: str
    """Offset in the kernel, or file and line where the tool knows them."""
    about: str
    """What it says of the address."""


def complaints(text: str) -> Iterator[Complaint]:
    """Every complaint in a log that is about a kernel, in order."""
    block: list[str] = []
    for line in [*text.splitlines(), _MARK]:
        if not line.startswith(_MARK):
            continue
        body = line.removeprefix(_MARK)
        if body.startswith("     ") and block:  # a line of the complaint above
            block.append(body.strip())
            continue
        if found := _complaint(block):
            yield found
        block = [body.strip()] if body.strip() else []


def _complaint(block: list[str]) -> Complaint | None:
    if not block or not block[0].startswith(("Invalid", "Uninitialized", "Error:", "ERROR", "Misaligned", "Race")):
        return None
    place = next((found for line in block if (found := _AT.search(line)) is not None), None)
    if place is None:
        return None
    address = next((found for line in block if (found := _ADDRESS.search(line)) is not None), None)
    at = f"{place['file']}:{place['line']}" if place["file"] else place["offset"] or ""
    about = f"{address['address']} {address['what']}" if address else ""
    return Complaint(block[0][:LONGEST], place["kernel"], at[:LONGEST], about[:LONGEST])


def finished(text: str) -> bool:
    """Whether the tool came to its summary."""
    return _LAST.search(text) is not None


KINDS: dict[Tool, tuple[FindingKind, str]] = {
    "memcheck": ("out_of_bounds", "mask every load and store; look at offsets that may pass the end of a tensor"),
    "racecheck": ("write_race", "let no two threads write what another reads without a barrier between them"),
    "initcheck": ("uninitialised_read", "store before loading; start an accumulator or atomic at zeros, not at empty"),
}


def judge(tool: Tool, text: str, own: Collection[str]) -> tuple[list[Finding], int]:
    """Findings about the candidate's kernels, one per kernel and kind of complaint, and the number about others'.

    Hazards inside a library's own kernels are that library's affair (racecheck reports some in cuBLAS).
    """
    kind, cure = KINDS[tool]
    seen: dict[tuple[str, str], Finding] = {}
    others = 0
    for complaint in complaints(text):
        if complaint.kernel not in own:
            others += 1
            continue
        message = f"compute-sanitizer {tool}: {complaint.words}" + (f"; {complaint.about}" if complaint.about else "")
        place = f"kernel {complaint.kernel}" + (f", {complaint.where}" if complaint.where else "")
        seen.setdefault(
            (complaint.kernel, complaint.words), Finding(kind=kind, message=message, where=place, cure=cure)
        )
    return list(seen.values()), others
