"""The protocol card of a bench: all that a reader needs to judge the figures and to measure them again."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from egg_graph.bench.statistics import DRAWS
from egg_graph.bench.suite import WORKLOADS
from egg_graph.bench.values import Results, Row
from egg_graph.context import Context

NOT_MEASURED = "not measured"


def protocol(results: Results) -> list[tuple[str, str]]:
    """Terms of the measurement and their values, as text, in the order of a card."""
    rows = results.rows
    return [
        ("command", results.command or "-"),
        ("egg-graph", _code(results)),
        ("started", results.started),
        ("team", results.model),
        *_machine(results),
        *([("judged by", results.judge)] if results.judge else []),
        ("at once", f"{results.workers} problems" + (f" on {results.gpus} GPUs" if results.gpus else "")),
        ("clocks", _clocks(rows)),
        (
            "policy",
            f"precision {results.precision}, domain {results.settings.get('domain', 'finite')}; it binds kernel and "
            "baselines alike",
        ),
        (
            "tolerance",
            "an error budget for every check, from PyTorch's own error against fp64 at the policy's precision",
        ),
        ("repeats", _repeats(rows)),
        ("seeds", f"secret until the verdict, then kept with the row ({_seeds(rows)})"),
        ("baselines", "eager and torch.compile (default mode) at the policy's precision, eager fp32 with TF32 off"),
        ("tuned PyTorch", _tuned(results.whole)),
        *_libraries(results),
        (
            "intervals",
            f"95 %: of a ratio by bootstrap over blocks of pairs, of a group by {DRAWS:,} draws over problems",
        ),
        ("runs a problem", "one"),
        ("memory", "off: no run was told what another one measured"),
        ("knobs", _knobs(results)),
    ]


def _tuned(rows: Sequence[Row]) -> str:
    """For how many problems tuned PyTorch was measured, and what that is."""
    measured = sum(row.tuned_ms is not None for row in rows)
    if not measured:
        return NOT_MEASURED
    return (
        f"measured for {measured} of {len(rows)} problems (a kernel without it counts as 1.0 against it): the fastest "
        "of eager and torch.compile as they come, with cudnn.benchmark, with channels_last and with both where there "
        "is a convolution, and of max-autotune with the fastest of these switches; each at the policy's precision and "
        "within its error budget, timed as eager and torch.compile are"
    )


def _libraries(results: Results) -> list[tuple[str, str]]:
    """Other libraries' kernels, for the suite of layers that they have."""
    if not results.suite.startswith(WORKLOADS):
        return []
    told = "PyTorch's fused attention is the eager baseline of both attentions; Liger-Kernel and others"
    return [("libraries", f"{told} {NOT_MEASURED}")]


def _code(results: Results) -> str:
    parts = [results.version, results.commit and f"commit {results.commit}", results.code and f"code {results.code}"]
    return ", ".join(filter(None, (*parts, results.evaluator and f"evaluator {results.evaluator}")))


def _machine(results: Results) -> list[tuple[str, str]]:
    found = results.environment
    if found is None:
        return [("machine", "not told")]
    versions = [f"torch {found.torch}", f"triton {found.triton}", f"Python {found.python}"]
    gpu = f"{found.gpu}, driver {found.driver}, CUDA {found.cuda}" if found.gpu else "none: nothing is timed"
    return [("GPU", gpu), ("written for", results.target), ("versions", ", ".join(versions)), ("host", found.machine)]


def _clocks(rows: Sequence[Row]) -> str:
    clocks = [row.sm_clock_mhz for row in rows if row.sm_clock_mhz]
    if not clocks:
        return NOT_MEASURED
    reasons = sorted({reason for row in rows for reason in row.throttled})
    held = f"; held down in {sum(bool(row.throttled) for row in rows)} ({', '.join(reasons)})" if reasons else ""
    middle = statistics.median(clocks)
    return f"SM {middle:.0f} MHz in the median after a measurement, {min(clocks):.0f} to {max(clocks):.0f}{held}"


def _seeds(rows: Sequence[Row]) -> str:
    return f"{sum(row.seed is not None for row in rows)} of {len(rows)}"


def _repeats(rows: Sequence[Row]) -> str:
    pairs = [row.pairs for row in rows if row.pairs]
    if not pairs:
        return NOT_MEASURED
    middle = statistics.median(pairs)
    return f"{min(pairs)} to {max(pairs)} interleaved pairs a problem, {middle:.0f} in the median; medians are told"


def _knobs(results: Results) -> str:
    """The knobs that are not at their defaults."""
    defaults = {**json.loads(json.dumps(asdict(Context()))), "memory": False}
    changed = {name: value for name, value in results.settings.items() if defaults.get(name) != value}
    return ", ".join(f"{name}={value}" for name, value in changed.items()) or "defaults"
