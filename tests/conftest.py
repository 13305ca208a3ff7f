"""What the tests of several rooms share: strict checkpoints, the order of the tests, and fixtures."""

import gc
import os
import signal
from collections.abc import Iterator

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so in a shell's background job, and inherited by children
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # read when langgraph is imported
os.environ.setdefault("LANGSMITH_TRACING", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # xdist's workers share the cores: threads would wait for each other
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import pytest

from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.schema import Figure, Hardware

collect_ignore = ["corpus"]
hypothesis.settings.register_profile("suite", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("suite")

WAITING_WORKERS = 2
"""Workers of xdist beyond one per core, for the time that tests wait. Each costs some 15 s of processor time: it
imports every module of tests, and starts an evaluator of its own."""

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


def pytest_sessionstart() -> None:
    """Collect no garbage while modules are imported: they make a million objects that stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, though seldom, and look at nothing that was imported."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts."""
    return len(os.sched_getaffinity(0)) + WAITING_WORKERS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the modules that hold a test marked `slow` first, and skip what needs a GPU where there is none.

    So no xdist worker ends long after the others; it needs `--dist loadfile --no-loadscope-reorder`.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if not gpu_present():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU, and there is none here"))


@pytest.fixture(scope="session", autouse=True)
def memory_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands of the tests learn into files of their own, never into the user's memory or store of winners."""
    folder = tmp_path_factory.mktemp("memory")
    os.environ["EGG_GRAPH_MEMORY"], os.environ["XDG_DATA_HOME"] = str(folder / "memory.sqlite"), str(folder)


@pytest.fixture(scope="session")
def h200() -> Hardware:
    """An H200 by its data sheet, made from literals: tests of a room need no other room."""
    figures = {name: Figure(value=value, unit="SI", source="NVIDIA H200 data sheet") for name, value in H200.items()}
    return Hardware(key="h200", name="NVIDIA H200", vendor="nvidia", arch="sm_90", figures=figures)


@pytest.fixture(scope="session")
def evaluator() -> Iterator[LocalEvaluator]:
    """One warm evaluator without a GPU for the whole session, as users make it, seeds of its own included.

    To start one takes eight seconds of processor time: a test makes its own only if it breaks it.
    """
    with LocalEvaluator(device="none") as local:
        yield local
