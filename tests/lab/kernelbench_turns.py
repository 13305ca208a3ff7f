"""Let one process of KernelBench judge several kernels in turn."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from egg_graph.schema import Precision
from tests.lab.cost import KERNELBENCH_PRECISION, KERNELBENCH_SECONDS, PROGRAM, KernelBenchCost, both_sources

Kernel = tuple[str, str]
"""A reference's source, and a kernel's. The kernel was found right: it runs unconfined."""


def judge_in_turn(
    kernels: Sequence[Kernel],
    checkout: Path,
    precision: Precision,
    *,
    warm: int = 2,
    gpu: str | None = None,
    end: float = float("inf"),
) -> Generator[KernelBenchCost, None, None]:
    """Yield KernelBench's cost of each kernel, in order. Behind one that it fails on, a new process goes on.

    Cold seconds are those of the process's start and of the kernel's first call.

    Args:
        kernels: references and kernels.
        checkout: a checkout of KernelBench.
        precision: the policy.
        warm: calls of each kernel beyond its first.
        gpu: UUID of the GPU; None for the first.
        end: begin no further kernel after this, by the monotonic clock.
    """
    request = {"checkout": str(checkout.absolute()), "precision": KERNELBENCH_PRECISION[precision], "warm": warm}
    left = list(kernels)
    while left and time.monotonic() < end:
        sources = [both_sources(*kernel) for kernel in left]
        for cost in _one_process({**request, "kernels": sources}, gpu):
            yield cost
            del left[0]
            if time.monotonic() >= end:
                return


def _one_process(request: dict[str, Any], gpu: str | None) -> Iterator[KernelBenchCost]:
    """Yield the costs that one process tells; the last one says why it is none, if the process fails."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ |= {"CUDA_VISIBLE_DEVICES": gpu} if gpu is not None else {}
    begun, start, answers = time.monotonic(), 0.0, 0
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environ,
        ) as process,
    ):
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(request))
            while (answer := _next_answer(process)) is not None:
                if "started" in answer:
                    start = time.monotonic() - begun
                    continue
                yield KernelBenchCost(cold_seconds=start + answer["first_seconds"], **answer)
                answers += 1
        finally:
            process.kill()
        if answers < len(request["kernels"]):
            errors.seek(0)
            output = errors.read().strip().splitlines()
            yield KernelBenchCost(not_measured=f"it failed: {output[-1][:300] if output else 'without a word'}")


def _next_answer(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """The next line that is an answer, in between what KernelBench prints; None at the end or when time is up."""
    limit = threading.Timer(KERNELBENCH_SECONDS, process.kill)
    limit.start()
    try:
        for line in process.stdout or ():
            with suppress(ValueError):
                answer = json.loads(line) if line.startswith("{") else None
                if isinstance(answer, dict) and answer.keys() & {"started", "first_seconds"}:
                    return answer
        return None
    finally:
        limit.cancel()
