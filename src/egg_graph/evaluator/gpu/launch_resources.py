"""The resources of a kernel's launch, from what the candidate's process told of it."""

from __future__ import annotations

from typing import Any

from egg_graph.evaluator.aot.resources import occupancy
from egg_graph.schema import KernelResources, KernelTask, Knob


def launch_resources(entry: dict[str, Any], task: KernelTask) -> KernelResources:
    """The resources of a launch as a worker tells it (`describe_launch`), with the occupancy on the task's target.

    Raises:
        KeyError, TypeError, ValueError: if the worker told no such thing.
    """
    grid = tuple(int(n) for n in entry["grid"])
    shared, registers = int(entry["shared"]), entry["registers"]
    return KernelResources(
        kernel=str(entry["kernel"]),
        target=task.target.arch,
        grid=grid,
        num_warps=int(entry["num_warps"]),
        num_stages=int(entry["num_stages"]),
        constexprs=_constexprs(entry.get("constexprs")),
        registers=registers,
        spill_bytes=4 * int(entry["spills"] or 0),
        shared_bytes=shared,
        shared_limit=int(task.target.figure("shared_memory_per_block")),
        occupancy=occupancy(task.target, warps=int(entry["num_warps"]), registers=int(registers), shared=shared)
        if registers
        else None,
    )


def _constexprs(told: object) -> dict[str, Knob]:
    """The constants of a launch as a worker tells them; nothing of what is none."""
    if not isinstance(told, dict):
        return {}
    return {str(name): value for name, value in told.items() if isinstance(value, int | str)}
