"""Results that nobody measured, for tests of what is told about results."""

import math
import random

from egg_graph.bench.classes import CLASSES
from egg_graph.bench.values import Results, Row
from egg_graph.schema import Environment

GPU = Environment(machine="host", gpu="NVIDIA H200", driver="580.1", cuda="13.0", torch="2.11.0", triton="3.6.0")
HOSTILE = "</pre><script>alert('reason')</script>"


def made_up(count: int, *, timed: bool = True) -> Results:
    """Rows of all classes and ends, the same ones with every call."""
    draw = random.Random(0)
    rows = tuple(_row(number, draw, timed) for number in range(count))
    return Results(
        name="made_up", suite="kernelbench --path KernelBench", version="0.1.0", commit="abc", code="c0de",
        evaluator="e7a1", started="2026-01-01T00:00:00+00:00", model="embedded expert", precision="tf32",
        target="NVIDIA H200", settings={"domain": "finite", "precision": "tf32"}, gpus=4, workers=4, environment=GPU,
        problems=count, rows=rows,
    )  # fmt: skip


def _row(number: int, draw: random.Random, timed: bool) -> Row:
    known = {
        "name": f"level{1 + number % 2}/{number}_Problem_{number}",
        "section": f"level{1 + number % 2}",
        "operator_class": CLASSES[number % len(CLASSES)][0],
        "task": "",
        "source": str(number),
    }
    if number % 9 == 8:
        ends = ("reference_kept", "infra_error", "bad_input", "unevaluable")
        return Row(**known, status=ends[number // 9 % 4], reason=HOSTILE, cause="incorrect: wrong_values")
    if not timed:
        return Row(**known, status="correct", reason="right", bound_ms=0.2, floor_ms=0.1, attempts=2, seconds=30.0)
    ratio = math.exp(draw.gauss(0.2, 0.35))
    floor = math.exp(draw.gauss(-1, 1.5))
    baseline = floor * math.exp(abs(draw.gauss(0.6, 0.6)))
    return Row(
        **known,
        status="faster" if ratio > 1.02 else "slower",
        reason="right at every shape",
        kernel_ms=baseline / ratio, found_ms=baseline / ratio, found_right=True,
        eager_ms=1.2 * baseline, compile_ms=baseline, eager_fp32_ms=3 * baseline,
        ratio=ratio, ratio_low=0.99 * ratio, ratio_high=1.01 * ratio, pairs=40, error=1e-6, budget=1e-5,
        floor_ms=floor, triton_share=1.0, kernelbench=number % 7 != 0, seed=number, sm_clock_mhz=1980.0, attempts=3,
        seconds=30.0,
    )  # fmt: skip
