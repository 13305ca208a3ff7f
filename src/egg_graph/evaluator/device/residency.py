"""How many programs of a kernel a multiprocessor holds at once, what limits them, and how its grid fills the GPU."""

from dataclasses import dataclass

from egg_graph.schema import Hardware

RESERVED_SHARED = 1024
"""Bytes of each block's shared memory that CUDA keeps for itself (compute capability 8.0 and later)."""
REGISTER_UNIT = 8
"""Registers per thread are allocated in units of this many: 256 per warp on NVIDIA, 8 per lane on AMD."""


@dataclass(frozen=True)
class Residency:
    """Most programs of one kernel that fit on a multiprocessor at once, by what they need."""

    by_blocks: int
    """By the number of blocks that a multiprocessor takes."""
    by_warps: int
    by_registers: int | None
    """None where the registers are not known."""
    by_shared_memory: int | None
    """None where the kernel needs no shared memory and none is reserved."""

    @property
    def programs(self) -> int:
        """Programs that are resident at once: the smallest of the limits."""
        limits = (self.by_blocks, self.by_warps, self.by_registers, self.by_shared_memory)
        return min(limit for limit in limits if limit is not None)


def residency(hardware: Hardware, *, warps: int, registers: int | None, shared: int) -> Residency:
    """Count the resident programs of a kernel.

    Args:
        hardware: the target; AMD figures count a compute unit as the multiprocessor and a wavefront as the warp.
        warps: warps per program.
        registers: registers per thread; None where that is not known.
        shared: dynamic shared memory per program [byte].

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    by_registers = None
    if registers is not None:
        per_warp = -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT * int(hardware.figure("warp_size"))
        by_registers = int(hardware.figure("registers_per_multiprocessor")) // (per_warp * warps)
    needed = shared + (RESERVED_SHARED if hardware.vendor == "nvidia" else 0)
    return Residency(
        by_blocks=int(hardware.figure("max_blocks_per_multiprocessor")),
        by_warps=int(hardware.figure("max_warps_per_multiprocessor")) // warps,
        by_registers=by_registers,
        by_shared_memory=int(hardware.figure("shared_memory_per_multiprocessor")) // needed if needed else None,
    )


def waves(hardware: Hardware, programs: int, resident: int) -> tuple[float, float] | None:
    """Count the waves in which a grid runs, and how full the last one is.

    Args:
        hardware: the target.
        programs: programs of the grid.
        resident: programs that a multiprocessor holds at once.

    Returns:
        The waves, and the part of the GPU's places that the last wave fills, 0 to 1; None where no program fits, or the
        grid is empty.

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    if resident < 1 or programs < 1:
        return None
    places = int(hardware.figure("multiprocessors")) * resident
    return programs / places, (programs % places or places) / places
