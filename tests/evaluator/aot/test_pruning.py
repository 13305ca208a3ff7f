"""What of a compiled kernel speaks against running it: only what is far from any fast kernel."""

import pytest

from egg_graph.evaluator.aot.pruning import any_pruned, why_pruned
from egg_graph.schema import Hardware, KernelResources


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "spilled", "why"),
    [
        (8, 255, 232_448, 8, ""),  # a fast product on an H200: one program, 12 % occupancy
        (4, 255, 100_000, 512, ""),
        (4, 128, 4_096, 516, "spills 516 bytes a thread, more than 512"),
        (1, 32, 0, 0, ""),
        (2, 64, 200_000, 0, "leave 2 warps resident on a multiprocessor, which has 4 schedulers"),
        (1, 64, 80_000, 0, "leave 2 warps resident"),
        (16, 255, 0, 0, "leave 0 warps resident"),  # more registers than there are
        (4, None, 0, 0, ""),
    ],
)
def test_what_speaks_against_a_launch(
    h200: Hardware, warps: int, registers: int | None, shared: int, spilled: int, why: str
) -> None:
    said = why_pruned(h200, warps=warps, registers=registers, shared=shared, spill_bytes=spilled)
    assert (why in said) if why else not said
    kernel = KernelResources(
        kernel="k", target="sm_90", grid=(1,), num_warps=warps, num_stages=1, registers=registers,
        shared_bytes=shared, spill_bytes=spilled,
    )  # fmt: skip
    light = kernel.model_copy(update={"num_warps": 4, "registers": 32, "shared_bytes": 0, "spill_bytes": 0})
    assert any_pruned(h200, (light, kernel)) is bool(why)
