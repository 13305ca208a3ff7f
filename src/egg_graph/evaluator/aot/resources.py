"""Registers, spills, shared memory and instruction mix of a compiled kernel, and its theoretical occupancy."""

from typing import Any

from egg_graph.evaluator.aot.machine_code import read_amdgcn, read_cubin
from egg_graph.evaluator.aot.masked_loads import leaves_lanes_undefined
from egg_graph.evaluator.device.residency import residency
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Hardware, KernelResources


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
        constexprs={name: value for name, value in launch.constexprs.items() if isinstance(value, int | str)},
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

    Args:
        hardware, warps, registers, shared: as `residency` takes them.

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    resident = residency(hardware, warps=warps, registers=registers, shared=shared).programs
    return min(1.0, resident * warps / int(hardware.figure("max_warps_per_multiprocessor")))
