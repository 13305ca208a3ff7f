"""Registers, spills, shared memory and instruction mix of a compiled kernel, and its theoretical occupancy."""

from typing import Any

from egg_graph.evaluator.aot.machine_code import read_amdgcn, read_cubin
from egg_graph.evaluator.aot.masked_loads import leaves_lanes_undefined
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Hardware, KernelResources

RESERVED_SHARED = 1024
"""Bytes of each block's shared memory that CUDA keeps for itself (compute capability 8.0 and later)."""


def read_resources(compiled: Any, launch: Launch, hardware: Hardware, seconds: float) -> KernelResources:
    """Read a compiled kernel's resources from Triton's metadata and from the machine code.

    Args:
        compiled: Triton's `CompiledKernel`.
        launch: the launch that was compiled.
        hardware: the target it was compiled for.
        seconds: how long compilation took.

    Raises:
        InfrastructureError: if the disassembler is missing or fails.
        KeyError: if the target's data sheet lacks a figure.
    """
    asm, metadata = compiled.asm, compiled.metadata
    code = read_amdgcn(asm["amdgcn"]) if "amdgcn" in asm else read_cubin(asm["cubin"])
    shared = int(metadata.shared)
    return KernelResources(
        kernel=launch.kernel,
        target=hardware.arch,
        grid=launch.grid,
        num_warps=int(metadata.num_warps),
        num_stages=int(metadata.num_stages),
        registers=code.registers,
        spill_bytes=code.spill_bytes,
        shared_bytes=shared,
        shared_limit=int(hardware.figure("shared_memory_per_block")),
        occupancy=occupancy(hardware, warps=int(metadata.num_warps), registers=code.registers, shared=shared),
        tensor_core_instructions=code.tensor_core,
        memory_instructions=code.memory,
        instructions=code.instructions,
        undefined_lanes=leaves_lanes_undefined(asm["ptx"]) if "ptx" in asm else None,
        compile_seconds=round(seconds, 3),
    )


def occupancy(hardware: Hardware, *, warps: int, registers: int, shared: int) -> float:
    """Compute theoretical occupancy: resident warps over the most that a multiprocessor can hold.

    Registers are allocated per warp, in units of 256 on NVIDIA (8 per thread) and of 8 per lane on AMD.

    Args:
        hardware: the target; AMD figures count a compute unit as the multiprocessor and a wavefront as the warp.
        warps: warps per block.
        registers: registers per thread.
        shared: dynamic shared memory per block [byte].

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    lanes = int(hardware.figure("warp_size"))
    per_warp = -(-max(registers, 1) // 8) * 8 * lanes
    reserved = RESERVED_SHARED if hardware.vendor == "nvidia" else 0
    most_warps = int(hardware.figure("max_warps_per_multiprocessor"))
    blocks = min(
        int(hardware.figure("registers_per_multiprocessor")) // (per_warp * warps),
        int(hardware.figure("max_blocks_per_multiprocessor")),
        most_warps // warps,
    )
    if shared + reserved > 0:
        blocks = min(blocks, int(hardware.figure("shared_memory_per_multiprocessor")) // (shared + reserved))
    return min(1.0, blocks * warps / most_warps)
