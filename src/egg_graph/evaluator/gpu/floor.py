"""The time that no kernel can undercut, from counts that are certain: an alarm, so rather too low than too high.

Only inputs that the reference certainly reads as a whole count: those that enter an operator which uses every element,
and whose content has no structure (zeros, symmetry, repetition) that would let a kernel read less of them. Weights do
not count, for what is derived from them may be kept; of the outputs, only what the L2 cache cannot hold back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.problem.input_reads import InputReads, is_structured
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import Finding, Hardware

CERTAIN = 0.9
"""Part of the floor below which a time is impossible: data sheets round."""
SIMILAR_MEMORY = 0.15
SMALL = 1 << 20
"""Bytes; an input smaller than that does not matter."""


@dataclass(frozen=True)
class Floor:
    """Bytes that must cross to or from DRAM in one forward, and the rate at which they can."""

    bytes: float
    bandwidth: float

    @property
    def milliseconds(self) -> float:
        return 1e3 * self.bytes / self.bandwidth if self.bandwidth else 0.0

    def alarm(self, milliseconds: float) -> Finding | None:
        """A finding where a time is not possible."""
        if not self.bytes or milliseconds >= CERTAIN * self.milliseconds:
            return None
        rate = self.bytes / milliseconds / 1e6
        return Finding(
            kind="below_roofline",
            message=f"over-HBM-peak alarm: {milliseconds:.4g} ms for {self.bytes / 1e6:.1f} MB that must be moved is "
            f"{rate:.0f} GB/s, where the memory's peak is {self.bandwidth / 1e9:.0f} GB/s: the work was not done in "
            "the time that was measured",
        )


def floor_of(model: Any, inputs: list[Any], hardware: Hardware) -> Floor:
    """The floor of one forward on the GPU at hand.

    Args:
        model: the reference; it is run once.
        inputs: its arguments, on the device.
        hardware: the task's target; where the GPU at hand is another one, there is no floor.
    """
    if not _is_at_hand(hardware):
        return Floor(0.0, 0.0)
    tensors = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    reads = InputReads(tensors)
    with torch.no_grad(), reads:
        outputs = [x for x in flatten(model(*tensors))[1] if isinstance(x, torch.Tensor)]
    read = [inputs[i] for i in reads.positions if inputs[i].numel() * inputs[i].element_size() >= SMALL]
    given = [x for x in read if not is_structured(x)]
    written = sum(x.numel() * x.element_size() for x in outputs if not reads.owns(x))
    held_back = torch.cuda.get_device_properties(0).L2_cache_size
    moved = sum(x.numel() * x.element_size() for x in given) + max(0, written - held_back)
    return Floor(float(moved), hardware.figure("dram_bandwidth"))


def _is_at_hand(hardware: Hardware) -> bool:
    """Whether the target's data sheet describes this GPU."""
    if not torch.cuda.is_available() or "dram_bandwidth" not in hardware.figures:
        return False
    properties = torch.cuda.get_device_properties(0)
    if hardware.arch != f"sm_{properties.major}{properties.minor}" or "dram_capacity" not in hardware.figures:
        return False
    capacity = hardware.figure("dram_capacity")
    return abs(properties.total_memory - capacity) < SIMILAR_MEMORY * capacity
