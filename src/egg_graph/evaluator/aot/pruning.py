"""Which launches are not worth making, by what the compiler made of the kernel.

Both limits are far from what a fast kernel needs, and a sweep applies them only where the kernel's own configuration
keeps within them: what low occupancy or a small spill costs, only a measurement tells.
"""

from egg_graph.evaluator.device.residency import residency
from egg_graph.schema import Hardware, KernelResources

MOST_SPILLED = 512
"""Most bytes that a thread may spill: 128 registers, of at most 255."""
LEAST_WARPS = 4
"""Least warps that are resident on a multiprocessor: it has as many schedulers, and with fewer one always idles."""


def why_pruned(hardware: Hardware, *, warps: int, registers: int | None, shared: int, spill_bytes: int) -> str:
    """Say what speaks against a launch; empty where nothing does.

    Args:
        hardware: the target.
        warps: warps per program.
        registers: registers per thread; None where that is not known.
        shared: shared memory per program [byte].
        spill_bytes: spilled registers [byte per thread].

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    if spill_bytes > MOST_SPILLED:
        return f"spills {spill_bytes} bytes a thread, more than {MOST_SPILLED}"
    resident = residency(hardware, warps=warps, registers=registers, shared=shared).programs * warps
    if resident >= LEAST_WARPS:
        return ""
    return (
        f"{registers} registers a thread and {shared} bytes of shared memory leave {resident} warps resident on a "
        f"multiprocessor, which has {LEAST_WARPS} schedulers"
    )


def any_pruned(hardware: Hardware, kernels: tuple[KernelResources, ...]) -> bool:
    """Whether something speaks against one of these kernels."""
    return any(
        why_pruned(
            hardware,
            warps=kernel.num_warps,
            registers=kernel.registers,
            shared=kernel.shared_bytes,
            spill_bytes=kernel.spill_bytes,
        )
        for kernel in kernels
    )
