"""Registers, spills, shared memory and instruction mix of a compiled kernel, and the occupancy that follows."""

from typing import Any

from egg_graph.evaluator.aot import amdgcn, machine_code
from egg_graph.evaluator.aot.occupancy import occupancy
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Hardware, KernelResources


def read_resources(compiled: Any, launch: Launch, hardware: Hardware, seconds: float) -> KernelResources:
    """What Triton's metadata and the machine code say.

    Args:
        compiled: Triton's `CompiledKernel`.
        launch: what was compiled.
        hardware: for which target.
        seconds: how long compilation took.
    """
    binary = (
        amdgcn.read(compiled.asm["amdgcn"]) if "amdgcn" in compiled.asm else machine_code.read(compiled.asm["cubin"])
    )
    metadata = compiled.metadata
    shared = int(metadata.shared)
    return KernelResources(
        kernel=launch.kernel,
        target=hardware.arch,
        grid=launch.grid,
        num_warps=int(metadata.num_warps),
        num_stages=int(metadata.num_stages),
        registers=binary.registers,
        spill_bytes=binary.spill_bytes,
        shared_bytes=shared,
        shared_limit=int(hardware.figure("shared_memory_per_block")),
        occupancy=occupancy(hardware, warps=int(metadata.num_warps), registers=binary.registers, shared=shared),
        tensor_core_instructions=binary.tensor_core,
        memory_instructions=binary.memory,
        instructions=binary.instructions,
        compile_seconds=round(seconds, 3),
    )
