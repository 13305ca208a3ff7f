"""What several rooms' tests share: strict checkpoints, the scripted doubles of tests/graph, and fixtures."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # read when langgraph is imported
os.environ.setdefault("LANGSMITH_TRACING", "false")
sys.path.insert(0, str(Path(__file__).parent / "graph"))

import pytest
from workers import share_out

from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.schema import Figure, Hardware

collect_ignore = ["planted", "bugs", "right", "problems", "faults"]

H200 = {
    "dram_bandwidth": 4.8e12,
    "l2_bandwidth": 10e12,
    "dram_capacity": 141e9,
    "l2_capacity": 50 * 2**20,
    "shared_memory_per_block": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "multiprocessors": 132,
    "registers_per_multiprocessor": 65536,
    "max_warps_per_multiprocessor": 64,
    "max_blocks_per_multiprocessor": 32,
    "warp_size": 32,
    "peak_fp32": 67e12,
    "peak_tf32": 494e12,
    "peak_bf16": 989e12,
    "peak_fp16": 989e12,
    "power": 700.0,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first. What needs a GPU is skipped, with the reason, where there is none."""
    share_out(items)
    if not gpu_present():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU, and there is none here"))


@pytest.fixture(scope="session")
def h200() -> Hardware:
    """An H200 by its data sheet, made from literals: tests of a room need no other room."""
    figures = {name: Figure(value=value, unit="SI", source="NVIDIA H200 data sheet") for name, value in H200.items()}
    return Hardware(key="h200", name="NVIDIA H200", vendor="nvidia", arch="sm_90", figures=figures)


@pytest.fixture(scope="session")
def evaluator() -> Iterator[LocalEvaluator]:
    """One warm evaluator without a GPU for the whole session; a lost child must not disturb the next test."""
    with LocalEvaluator(device="none", timeout=20.0, seed=20261121) as local:
        yield local


@pytest.fixture(scope="session")
def warm() -> Iterator[LocalEvaluator]:
    """One as users make it, seeds of its own included: it judges finalists, which gives it a fresh seed each time."""
    with LocalEvaluator(device="none") as local:
        yield local
