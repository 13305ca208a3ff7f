"""What a kernel's machine code says: NVIDIA's through the disassemblers in Triton's wheel, AMD's from its assembly."""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from egg_graph.schema import InfrastructureError

TENSOR_CORE = {"HGMMA", "QGMMA", "IGMMA", "HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA"}
SPILLS = {"LDL", "STL"}
BULK = {"LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "ATOMG", "ATOM", "RED", "REDG"}
SASS_WIDTHS = {"U8": "8", "S8": "8", "U16": "16", "S16": "16", "64": "64", "128": "128", "256": "256"}
"""Modifier of `LDG` or `STG` -> width [bit]; without one it is 32."""
AMD_WIDTHS = {"dwordx4": 128, "dwordx3": 96, "dwordx2": 64, "dword": 32, "b128": 128, "b64": 64, "b32": 32}
"""Suffix of a memory instruction -> width [bit]."""
_SASS_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)")
_SASS_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
_AMD_INSTRUCTION = re.compile(r"^\s+[a-z]+_[a-z]\w+", re.M)
_AMD_MATRIX = re.compile(r"^\s+(v_(?:s?mfmac?|wmma)_\w+)", re.M)
_AMD_MEMORY = re.compile(
    r"^\s+(?:global|buffer|flat)_(load|store|atomic)_\w*?"
    r"(dwordx[234]|dword|b128|b64|b32|\w*short\w*|\w*byte\w*)?\b",
    re.M,
)


@dataclass
class MachineCode:
    """Resources and instruction counts of one kernel, whatever the vendor."""

    registers: int
    """Registers per thread."""
    spill_bytes: int
    """Spilled bytes per thread."""
    tensor_core: dict[str, int] = field(default_factory=dict)
    """Matrix instruction -> count, e.g. {"HGMMA": 4} or {"v_mfma_f32_32x32x8_bf16": 48}."""
    memory: dict[str, int] = field(default_factory=dict)
    """Memory instruction by width [bit] -> count, e.g. {"LDG.128": 4}."""
    instructions: int = 0


def read_cubin(cubin: bytes) -> MachineCode:
    """Count the instructions of an NVIDIA binary and read its resource usage.

    Raises:
        InfrastructureError: if the disassembler is missing or fails.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = _SASS_USAGE.search(_run_tool("cuobjdump", "-res-usage", file.name))
        listing = _run_tool("nvdisasm", "-c", "-ndf", file.name)  # without data flow analysis, which takes long
    if usage is None:
        raise InfrastructureError("cuobjdump reported no resource usage for a compiled kernel")
    registers, stack, local = map(int, usage.groups())
    opcodes = _SASS_INSTRUCTION.findall(listing)
    names = Counter(opcode.split(".")[0] for opcode in opcodes)
    memory = Counter(label for opcode in opcodes if (label := _sass_memory_label(opcode)) is not None)
    spills = any(names[name] for name in SPILLS)
    return MachineCode(
        registers=registers,
        spill_bytes=max(stack, local) if spills else 0,
        tensor_core={name: names[name] for name in sorted(TENSOR_CORE) if names[name]},
        memory=dict(sorted(memory.items())),
        instructions=len(opcodes),
    )


def _sass_memory_label(opcode: str) -> str | None:
    """Shorten `LDG.E.128.CONSTANT` to `LDG.128`; return None for an instruction that does not touch memory."""
    name, *modifiers = opcode.split(".")
    if name in ("LDG", "STG"):
        return f"{name}.{next((SASS_WIDTHS[m] for m in modifiers if m in SASS_WIDTHS), '32')}"
    return name if name in BULK or name in SPILLS else None


def _run_tool(name: str, *arguments: str) -> str:
    """Run one of the disassemblers in Triton's wheel and return what it prints.

    Raises:
        InfrastructureError: if it is missing or fails.
    """
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise InfrastructureError(f"{path} is missing: reinstall triton")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise InfrastructureError(f"{name} failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return done.stdout + done.stderr


def read_amdgcn(assembly: str) -> MachineCode:
    """Count the instructions of AMD assembly and read the kernel descriptor's metadata."""
    lanes_spilled = _amd_metadata(assembly, "vgpr_spill_count")
    scratch = _amd_metadata(assembly, "private_segment_fixed_size")
    return MachineCode(
        registers=max(_amd_metadata(assembly, "vgpr_count"), _amd_metadata(assembly, "agpr_count")),
        spill_bytes=max(scratch, 4 * lanes_spilled) if lanes_spilled else 0,
        tensor_core=dict(sorted(Counter(_AMD_MATRIX.findall(assembly)).items())),
        memory=dict(sorted(Counter(map(_amd_memory_label, _AMD_MEMORY.findall(assembly))).items())),
        instructions=len(_AMD_INSTRUCTION.findall(assembly)),
    )


def _amd_metadata(assembly: str, name: str) -> int:
    match = re.search(rf"\.{name}:\s+(\d+)", assembly)
    return int(match.group(1)) if match else 0


def _amd_memory_label(found: tuple[str, str]) -> str:
    """Name a memory instruction by verb and width [bit]: `load.128`."""
    verb, width = found
    bits = AMD_WIDTHS.get(width) or (16 if "short" in width else 8 if "byte" in width else 32)
    return f"{verb}.{bits}"
