"""Guard bands round shared tensors. The layout needs no GPU: memory of this process stands for the device's."""

import pytest
import torch

from egg_graph.evaluator.device.shared_memory import shaped
from egg_graph.evaluator.gpu.arena import ALIGNMENT, BAND, GRANULE, SLAB, Arena, from_a_band
from tests.evaluator.gpu.stand_ins import HostBuffer

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8]
DTYPES += [torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7, 13), (1,), (), (0, 3), (64, 64)], ids=str)
def test_bands_keep_what_a_tensor_holds_and_see_one_byte_on_either_side(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    arena = Arena(HostBuffer)
    value = torch.randint(0, 2, shape).to(dtype)
    mine, form = arena.share(value, name="x")
    assert torch.equal(mine, value)
    assert arena.overruns() == []
    assert form["offset"] % ALIGNMENT == 0
    buffer = arena.buffers[0]
    nbytes = value.numel() * dtype.itemsize
    assert torch.equal(shaped(buffer.raw(form["offset"], nbytes), form), value)
    buffer.raw(form["offset"] - 1, 1).bitwise_not_()
    buffer.raw(form["offset"] + nbytes + 2, 1).bitwise_not_()
    found = {overrun.side: overrun for overrun in arena.overruns()}
    assert set(found) == {"before", "after"}
    assert (found["before"].nearest, found["before"].changed, found["before"].name) == (0, 1, "x")
    assert found["after"].nearest == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_elements_next_to_a_tensor_are_told_apart(dtype: torch.dtype) -> None:
    arena = Arena(HostBuffer)
    _, form = arena.share(torch.ones(5, dtype=dtype))
    raw = arena.buffers[0].raw(form["offset"] - 8 * dtype.itemsize, 21 * dtype.itemsize).clone().view(dtype)
    assert from_a_band(raw).tolist() == [True] * 8 + [False] * 5 + [True] * 8
    assert raw[:8].isnan().all()


def test_strides_of_a_dense_tensor_survive() -> None:
    arena = Arena(HostBuffer)
    value = torch.randn(4, 6).t()
    mine, form = arena.share(value)
    assert form["stride"] == [1, 6]
    assert torch.equal(mine, value)


def test_small_tensors_share_a_slab_and_large_ones_fill_whole_granules() -> None:
    arena = Arena(HostBuffer)
    for _ in range(40):
        arena.share(torch.ones(1000))
    assert [buffer.nbytes for buffer in arena.buffers] == [SLAB]
    arena.share(torch.ones(SLAB // 4))
    assert arena.buffers[-1].nbytes == SLAB + GRANULE
    _, form = arena.share(torch.ones(3), guarded=False)
    assert form["handle"] == arena.handles[0]
    assert len(arena.guards) == 41
    assert arena.overruns() == []
    arena.buffers[1].raw(BAND + SLAB, BAND)[5] = 0
    assert [overrun.nearest for overrun in arena.overruns()] == [5]
    arena.fill_bands("large")
    assert arena.overruns() == []
    arena.buffers[1].raw(BAND + SLAB, BAND)[5] = 1
    assert [overrun.nearest for overrun in arena.overruns()] == [5]
    arena.free()
    assert arena.overruns() == []
