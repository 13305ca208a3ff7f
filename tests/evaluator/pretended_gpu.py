"""Call candidates as on a GPU, on a machine without one: kernels are compiled, and not launched."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from egg_graph.evaluator.gpuless.job_runner import JobRunner
from egg_graph.evaluator.gpuless.kept_code import KeptCode
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.schema import Hardware

CALLS = """
import json, os, sys
from pathlib import Path
import torch
from egg_graph.evaluator.device.simulated import simulate_gpu
from egg_graph.evaluator.host.candidate import construct, load_module
from egg_graph.schema import Hardware
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

asked = json.load(sys.stdin)
simulate_gpu(Hardware.model_validate(asked["hardware"]))
run = JITFunction.run
JITFunction.run = lambda self, *args, grid, warmup, **options: run(self, *args, grid=grid, warmup=True, **options)
Autotuner.do_bench = property(lambda self: lambda call, quantiles: [call() or 1.0] * len(quantiles))
for folder, reference, overrides in asked["jobs"]:
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    problem = {}
    exec(reference, problem)
    problem.update(overrides)
    module = load_module(Path(folder) / "candidate.py")
    construct(module, problem.get("get_init_inputs", list)(), {})(*problem["get_inputs"]())
"""
Job = tuple[Path, str, Mapping[str, int]]
"""Folder with `candidate.py`, source of the reference, and values for its sizes."""


@contextmanager
def compiling_ladder(folder: Path, code: KeptCode | None = None) -> Iterator[GpulessLadder]:
    """A ladder without a GPU, with fork servers of its own that end with the block."""
    jobs = ("egg_graph.evaluator.worker.jobs",)
    servers = [ForkServer(interpret=interpret, folder=folder, warm=jobs) for interpret in (True, False)]
    with ThreadPoolExecutor(4) as pool:
        yield GpulessLadder(JobRunner(*servers, folder, timeout=60.0, code=code), pool)
    for server in servers:
        server.stop()


def kernels_in(folder: Path) -> set[str]:
    """The compiled kernels in a candidate's folder, by their keys."""
    return {path.parent.name for path in (folder / "triton").glob("*/*.cubin")}


def call_on_pretended_gpu(jobs: Sequence[Job], hardware: Hardware) -> None:
    """Call each candidate once on its reference's inputs."""
    told = [(str(folder), reference, dict(overrides)) for folder, reference, overrides in jobs]
    asked = {"jobs": told, "hardware": hardware.model_dump()}
    environment = {**os.environ, **clean_environment()}
    environment.pop("TRITON_INTERPRET", None)
    subprocess.run(
        [sys.executable, "-c", CALLS], input=json.dumps(asked), text=True, env=environment, check=True, timeout=120
    )
