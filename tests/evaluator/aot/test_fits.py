"""Programs of a cooperative launch start together, so a GPU must hold all of them at once."""

import pytest

from egg_graph.evaluator.aot import KernelFault, Launch
from egg_graph.evaluator.aot.fits import check_fits
from egg_graph.evaluator.evidence.statements import distinct
from egg_graph.schema import Hardware, KernelResources, Knob


def launch_of(programs: int, *, cooperative: bool = True) -> Launch:
    options: dict[str, Knob] = {"num_warps": 4, **({"launch_cooperative_grid": True} if cooperative else {})}
    grid = (programs, 1, 1)
    return Launch(kernel="k", line=17, grid=grid, signature={}, options=options, programs=programs, executed=3)


def resources_of(launch: Launch, registers: int) -> KernelResources:
    return KernelResources(
        kernel="k", target="sm_90", grid=launch.grid, num_warps=4, num_stages=1, registers=registers,
        shared_bytes=512, shared_limit=232_448,
    )  # fmt: skip


@pytest.mark.parametrize(("registers", "held"), [(29, 132 * 16), (128, 132 * 4), (255, 132 * 2)])
def test_more_programs_than_the_gpu_holds_cannot_start_together(h200: Hardware, registers: int, held: int) -> None:
    most, more = launch_of(held), launch_of(held + 1)
    check_fits(resources_of(most, registers), most, h200)
    with pytest.raises(KernelFault, match=f"holds {held} of them at once") as caught:
        check_fits(resources_of(more, registers), more, h200)
    assert caught.value.finding().kind == "programs_not_resident"
    one_after_the_other = launch_of(held + 1, cooperative=False)
    check_fits(resources_of(one_after_the_other, registers), one_after_the_other, h200)


def test_of_launches_that_compile_alike_the_largest_cooperative_one_is_compiled() -> None:
    grids = [64, 2048, 512]
    assert [one.programs for one in distinct([launch_of(n) for n in grids])] == [2048]
    assert [one.programs for one in distinct([launch_of(n, cooperative=False) for n in grids])] == [64]
