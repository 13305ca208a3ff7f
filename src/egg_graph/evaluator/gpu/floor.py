"""The memory floor: a time that no kernel can undercut, because its bytes must cross to or from DRAM.

It only raises an alarm, so it is too low rather than too high. An input counts if the reference certainly reads all of
it: it enters an operator that uses every element, the answer depends on the whole result, and its content has no
structure (zeros, symmetry, repetition) that would let a kernel read less. Weights do not count, because a kernel may
keep what it derived from them. Outputs count as far as they are larger than the L2 cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.problem.input_reads import InputReads, is_structured
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import Finding, Hardware

CERTAIN = 0.9
"""Part of the floor below which a time is impossible; data sheets round."""
CAPACITY_TOLERANCE = 0.15
"""Relative difference of memory capacity up to which a GPU is taken for the one of the data sheet."""
SMALLEST_INPUT = 1 << 20
"""Size below which an input does not count [bytes]."""


@dataclass(frozen=True)
class MemoryFloor:
    """What one forward must move to or from DRAM. A floor of 0 bytes allows every time."""

    bytes: float
    """Size of what must be moved [bytes]."""
    bandwidth: float
    """Peak bandwidth of the memory [bytes/s]."""

    @property
    def milliseconds(self) -> float:
        """Shortest possible time of one forward [ms]."""
        return 1e3 * self.bytes / self.bandwidth if self.bandwidth else 0.0

    def check(self, milliseconds: float) -> Finding | None:
        """Return a finding if a time [ms] is not possible."""
        if not self.bytes or milliseconds >= CERTAIN * self.milliseconds:
            return None
        rate = self.bytes / milliseconds / 1e6
        return Finding(
            kind="below_roofline",
            message=f"over-HBM-peak alarm: {milliseconds:.4g} ms for {self.bytes / 1e6:.1f} MB that must be moved is "
            f"{rate:.0f} GB/s, where the memory's peak is {self.bandwidth / 1e9:.0f} GB/s: the work was not done in "
            "the time that was measured",
        )


def memory_floor(model: Any, inputs: list[Any], hardware: Hardware) -> MemoryFloor:
    """Compute the memory floor of one forward on this machine's GPU.

    Args:
        model: the reference; it runs once.
        inputs: its arguments, on the device.
        hardware: the task's target; if this machine's GPU is another one, the floor is 0 bytes.
    """
    if not _is_this_gpu(hardware):
        return MemoryFloor(0.0, 0.0)
    tensors = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    reads = InputReads(tensors)
    with torch.no_grad(), reads:
        outputs = [x for x in flatten(model(*tensors))[1] if isinstance(x, torch.Tensor)]
    read = [
        inputs[i] for i in reads.positions(outputs) if inputs[i].numel() * inputs[i].element_size() >= SMALLEST_INPUT
    ]
    counted = [x for x in read if not is_structured(x)]
    written = sum(x.numel() * x.element_size() for x in outputs if not reads.owns(x))
    cached = torch.cuda.get_device_properties(0).L2_cache_size
    moved = sum(x.numel() * x.element_size() for x in counted) + max(0, written - cached)
    return MemoryFloor(float(moved), hardware.figure("dram_bandwidth"))


def _is_this_gpu(hardware: Hardware) -> bool:
    """Whether the target's data sheet describes this machine's GPU."""
    if not torch.cuda.is_available() or "dram_bandwidth" not in hardware.figures:
        return False
    properties = torch.cuda.get_device_properties(0)
    if hardware.arch != f"sm_{properties.major}{properties.minor}" or "dram_capacity" not in hardware.figures:
        return False
    capacity = hardware.figure("dram_capacity")
    return abs(properties.total_memory - capacity) < CAPACITY_TOLERANCE * capacity
