"""AMD machine code, read from the assembly that Triton keeps."""

import re
from collections import Counter

from egg_graph.evaluator.aot.binary import Binary

_MATRIX = re.compile(r"^\s+(v_(?:s?mfmac?|wmma)_\w+)", re.M)
_MEMORY = re.compile(
    r"^\s+(?:global|buffer|flat)_(load|store|atomic)_\w*?"
    r"(dwordx[234]|dword|b128|b64|b32|\w*short\w*|\w*byte\w*)?\b",
    re.M,
)
_WIDTH = {"dwordx4": 128, "dwordx3": 96, "dwordx2": 64, "dword": 32, "b128": 128, "b64": 64, "b32": 32}
_OPCODE = re.compile(r"^\s+[a-z]+_[a-z]\w+", re.M)


def read(assembly: str) -> Binary:
    """Count the instructions and read the kernel descriptor's metadata."""
    lanes_spilled = _field(assembly, "vgpr_spill_count")
    scratch = _field(assembly, "private_segment_fixed_size")
    return Binary(
        registers=max(_field(assembly, "vgpr_count"), _field(assembly, "agpr_count")),
        spill_bytes=max(scratch, 4 * lanes_spilled) if lanes_spilled else 0,
        tensor_core=dict(sorted(Counter(_MATRIX.findall(assembly)).items())),
        memory=dict(sorted(Counter(map(_label, _MEMORY.findall(assembly))).items())),
        instructions=len(_OPCODE.findall(assembly)),
    )


def _field(assembly: str, name: str) -> int:
    match = re.search(rf"\.{name}:\s+(\d+)", assembly)
    return int(match.group(1)) if match else 0


def _label(found: tuple[str, str]) -> str:
    verb, width = found
    bits = _WIDTH.get(width) or (16 if "short" in width else 8 if "byte" in width else 32)
    return f"{verb}.{bits}"
