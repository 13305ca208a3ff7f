"""Theoretical occupancy: resident warps over the most a multiprocessor can hold."""

from egg_graph.schema import Hardware

RESERVED_SHARED = 1024
"""Bytes that CUDA keeps of each block's shared memory (compute capability 8.0 and later)."""


def occupancy(hardware: Hardware, *, warps: int, registers: int, shared: int) -> float:
    """Occupancy of a kernel.

    Registers are allocated per warp, in units of 256 on NVIDIA (8 per thread) and of 8 per lane on AMD.

    Args:
        hardware: the target; AMD figures count a compute unit as the multiprocessor and a wavefront as the warp.
        warps: per block.
        registers: per thread.
        shared: dynamic shared memory per block [byte].
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
