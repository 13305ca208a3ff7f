"""NVIDIA machine code, read with the disassemblers that ship in Triton's wheel."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from egg_graph.evaluator.aot.binary import Binary
from egg_graph.schema import InfrastructureError

TENSOR_CORE = {"HGMMA", "QGMMA", "IGMMA", "HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA"}
SPILLS = {"LDL", "STL"}
BULK = {"LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "ATOMG", "ATOM", "RED", "REDG"}
WIDTHS = {"U8": "8", "S8": "8", "U16": "16", "S16": "16", "64": "64", "128": "128", "256": "256"}
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")


def read(cubin: bytes) -> Binary:
    """Count a cubin's instructions and read its resource usage.

    Raises:
        InfrastructureError: if the disassembler is missing or fails.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = _USAGE.search(_tool("cuobjdump", "-res-usage", file.name))
        listing = _tool("nvdisasm", "-c", "-ndf", file.name)  # counting needs no data flow, which takes long
    if usage is None:
        raise InfrastructureError("cuobjdump reported no resource usage for a compiled kernel")
    registers, stack, local = map(int, usage.groups())
    opcodes = _INSTRUCTION.findall(listing)
    names = Counter(opcode.split(".")[0] for opcode in opcodes)
    memory = Counter(label for opcode in opcodes if (label := _memory_label(opcode)) is not None)
    spills = any(names[name] for name in SPILLS)
    return Binary(
        registers=registers,
        spill_bytes=max(stack, local) if spills else 0,
        tensor_core={name: names[name] for name in sorted(TENSOR_CORE) if names[name]},
        memory=dict(sorted(memory.items())),
        instructions=len(opcodes),
    )


def _memory_label(opcode: str) -> str | None:
    """`LDG.128` of `LDG.E.128.CONSTANT`; None for what does not touch memory."""
    name, *modifiers = opcode.split(".")
    if name in ("LDG", "STG"):
        return f"{name}.{next((WIDTHS[m] for m in modifiers if m in WIDTHS), '32')}"
    return name if name in BULK or name in SPILLS else None


def _tool(name: str, *arguments: str) -> str:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise InfrastructureError(f"{path} is missing: reinstall triton")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise InfrastructureError(f"{name} failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return done.stdout + done.stderr
