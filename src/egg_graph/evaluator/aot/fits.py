"""Whether a compiled kernel can be launched on the target: its shared memory, and programs that must be resident."""

from egg_graph.evaluator.device.residency import residency
from egg_graph.evaluator.wire.faults import KernelFault, programs_not_resident
from egg_graph.evaluator.wire.launches import Launch, describe_configuration
from egg_graph.schema import Hardware, KernelResources


def check_fits(resources: KernelResources, launch: Launch, hardware: Hardware) -> None:
    """Check that a launch fits on the target.

    Args:
        resources: of the compiled kernel.
        launch: the launch that was compiled.
        hardware: the target.

    Raises:
        KernelFault: `shared_memory_exceeded` or `programs_not_resident`.
        KeyError: if the target's data sheet lacks a figure.
    """
    where = f"kernel {launch.kernel}, line {launch.line}, {describe_configuration(launch.constexprs, launch.options)}"
    if not resources.fits:
        raise KernelFault(
            "shared_memory_exceeded",
            f"the kernel needs {resources.shared_bytes} bytes of shared memory, but {hardware.name} gives a block "
            f"at most {resources.shared_limit}",
            where,
            "Take smaller blocks or fewer num_stages.",
        )
    if not launch.cooperative:
        return
    held = residency(
        hardware, warps=resources.num_warps, registers=resources.registers, shared=resources.shared_bytes
    ).programs
    multiprocessors = int(hardware.figure("multiprocessors"))
    if launch.programs > held * multiprocessors:
        raise programs_not_resident(
            launch.programs,
            f"{hardware.name} holds {held * multiprocessors} of them at once, {held} on each of {multiprocessors} "
            f"multiprocessors ({resources.num_warps} warps of {resources.registers} registers a thread, "
            f"{resources.shared_bytes} bytes of shared memory)",
            where,
        )
