"""Roofline: a lower bound on the time of a forward at full shape. Never a speed."""

from egg_graph.evaluator.wire.launches import FakeRun, Launch, LibraryCall
from egg_graph.schema import Bound, Hardware, Precision

LAUNCH_FLOOR = 2e-6
"""Shortest time between the starts of two dependent kernels on one stream [s]."""


def bound(fake_run: FakeRun, hardware: Hardware, precision: Precision, floor_ms: float = 0.0) -> Bound:
    """The time below which no run of these launches can fall.

    Each launch and each library operator takes at least as long as its compulsory DRAM traffic, as its matrix
    products at the peak rate of their own precision, and as a launch; they run one after another. Only counts from
    below enter, never estimates (`requested_bytes` is one, and bounds nothing).

    Args:
        fake_run: launches and library operators at full shape.
        hardware: needs the figures dram_bandwidth and the peak of each precision in use.
        precision: the policy, for library operators on fp32.
        floor_ms: the task's own floor [ms], which is kept beside the bound.

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    bandwidth = hardware.figure("dram_bandwidth")
    steps = [(launch.compulsory_bytes / bandwidth, _dot_seconds(launch, hardware)) for launch in fake_run.launches]
    steps += [(call.bytes / bandwidth, _library_seconds(call, hardware, precision)) for call in fake_run.library]
    spent = {"dram": 0.0, "compute": 0.0, "launch": 0.0}
    for dram, compute in steps:
        slowest = max(dram, compute, LAUNCH_FLOOR)
        spent["dram" if slowest == dram else "compute" if slowest == compute else "launch"] += slowest
    moved = sum(launch.compulsory_bytes for launch in fake_run.launches) + sum(c.bytes for c in fake_run.library)
    products = sum(sum(launch.least_dot_flops.values()) for launch in fake_run.launches)
    products += sum(call.flops for call in fake_run.library)
    return Bound(
        dram_bytes=moved,
        requested_bytes=sum(x.requested_bytes for x in fake_run.launches) + sum(c.bytes for c in fake_run.library),
        dot_flops=sum(sum(x.least_dot_flops.values()) for x in fake_run.launches)
        + sum(c.flops for c in fake_run.library),
        milliseconds=1e3 * sum(spent.values()),
        limiter=max(("dram", "compute", "launch"), key=lambda name: spent[name]),
        launches=len(steps),
        floor_ms=floor_ms,
    )


def _dot_seconds(launch: Launch, hardware: Hardware) -> float:
    return sum(flops / dot_peak(hardware, name) for name, flops in launch.least_dot_flops.items())


def dot_peak(hardware: Hardware, name: str) -> float:
    """Rate of `tl.dot` [flop/s] for an operand type and precision as `Launch.dot_flops` names them.

    A product split into n TF32 or bfloat16 products runs at 1/n of their rate. Eight-bit types run at twice the fp16
    rate where the data sheet gives no figure of its own, fp64 at half the fp32 rate.
    """
    kind, _, split = name.partition("/")
    if kind == "fp32":
        figure, parts = {
            "tf32": ("peak_tf32", 1),
            "tf32x3": ("peak_tf32", 3),
            "bf16x3": ("peak_bf16", 3),
            "bf16x6": ("peak_bf16", 6),
        }.get(split, ("peak_fp32", 1))
        return hardware.figure(figure) / parts
    if kind in ("bf16", "fp16"):
        return hardware.figure(f"peak_{kind}")
    if kind == "fp64":
        return hardware.figure("peak_fp64") if "peak_fp64" in hardware.figures else hardware.figure("peak_fp32") / 2
    own = "peak_int8" if kind == "int8" else "peak_fp8"
    return hardware.figure(own) if own in hardware.figures else 2 * hardware.figure("peak_fp16")


def _library_seconds(call: LibraryCall, hardware: Hardware, precision: Precision) -> float:
    if call.flops == 0:
        return 0.0
    own: dict[str, Precision] = {"bfloat16": "bf16", "float16": "fp16"}
    return call.flops / hardware.peak(own.get(call.dtype, precision))
