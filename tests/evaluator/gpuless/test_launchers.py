"""What launches kernels is built once for each list of parameter types, and found by Triton where it looks for it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from egg_graph.evaluator import gpu_present
from egg_graph.evaluator.aot.launcher import is_built_by_types
from egg_graph.evaluator.gpuless import launchers as module
from egg_graph.evaluator.gpuless.kept_code import KeptCode
from egg_graph.evaluator.gpuless.launchers import Launchers
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Hardware

TYPES = ["*fp32", "i32", "constexpr", ["*bf16", "u64"], "tensordesc<fp32[128, 32]>"]


def launch_of(types: list[object]) -> Launch:
    signature = {f"p{i}": kind for i, kind in enumerate(types)}
    return Launch(kernel="k", line=1, grid=(1, 1, 1), signature=signature, programs=1, executed=0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    server = ForkServer(interpret=False, folder=tmp_path, warm=("egg_graph.evaluator.worker.jobs",))
    yield server
    server.stop()


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")
@pytest.mark.skipif(not is_built_by_types(), reason="since Triton 3.7 one module launches all kernels")
def test_triton_finds_what_was_built_once_for_all(
    server: ForkServer, tmp_path: Path, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.backends.nvidia import driver

    launches = [launch_of(TYPES), launch_of(TYPES[1:]), launch_of(TYPES)]
    launchers, caches = Launchers(server, tmp_path, KeptCode(tmp_path / "kept")), [tmp_path / f"c{i}" for i in range(4)]
    with ThreadPoolExecutor(len(caches)) as pool:
        list(pool.map(lambda cache: launchers.give(launches, h200, cache), caches))
    assert len(os.listdir(tmp_path / "kept")) == 2
    monkeypatch.setenv("TRITON_CACHE_DIR", str(caches[0]))
    given = sorted(os.listdir(caches[0]))
    for launch in launches:
        signature = {name: tuple(kind) if isinstance(kind, list) else kind for name, kind in launch.signature.items()}
        source = SimpleNamespace(fn=SimpleNamespace(arg_names=list(signature)), constants={}, signature=signature)
        about = dict.fromkeys(("global_scratch_size", "global_scratch_align"), 1)
        about |= dict.fromkeys(("profile_scratch_size", "profile_scratch_align"), 1)
        about |= {"launch_cooperative_grid": False, "launch_pdl": False, "tensordesc_meta": [{"swizzle": 1}]}
        driver.CudaLauncher(source, SimpleNamespace(**about))
    assert len(given) == 2 and sorted(os.listdir(caches[0])) == given, "Triton built nothing again"


def test_what_cannot_be_built_is_left_to_the_process_that_launches(
    server: ForkServer, tmp_path: Path, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_built_by_types", lambda: True)
    launchers = Launchers(server, tmp_path, KeptCode(tmp_path / "kept"))
    launchers.give([launch_of(["no type"])], h200, tmp_path / "cache")
    assert not (tmp_path / "cache").exists() and not (tmp_path / "kept").exists()
