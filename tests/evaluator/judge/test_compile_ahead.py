"""What is compiled ahead of a sweep is what the process on the GPU looks for: it compiles nothing again."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from egg_graph.evaluator.gpuless import cache_filling
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.judge.compile_ahead import compiled_ahead
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.pretended_gpu import Job, call_on_pretended_gpu, compiling_ladder, kernels_in
from tests.paths import CORPUS

PROBLEM = re.compile('problem = "(.+)"')


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpulessLadder]:
    with compiling_ladder(tmp_path_factory.mktemp("judge")) as made:
        yield made


def candidate_of(source: str) -> Candidate:
    return Candidate(source=source, author="t", stage="tensor_tiling", mode="tune", config={})


def test_processes_on_the_gpu_find_their_kernels_compiled(
    ladder: GpulessLadder, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_filling, "RECORD_SECONDS", 60.0)  # the first job waits for imports, long on a busy host
    jobs: list[Job] = []
    with ExitStack() as stack:
        for name in ("softmax_online", "matmul_by_descriptors", "softmax_autotuned"):
            source = (CORPUS / "right" / f"{name}.py").read_text()
            reference = (CORPUS / "problems" / f"{PROBLEM.search(source)[1]}.py").read_text()
            task = KernelTask(name=name, reference=reference, target=h200, precision="tf32")
            candidates = [candidate_of(source), candidate_of(source + "\nimport socket\n")]
            problem = Problem(task, 1, torch.device("cpu"))
            compiled = stack.enter_context(compiled_ahead(ladder, problem, candidates))
            assert compiled.rejected[0] is None and compiled.rejected[1] is not None
            assert not kernels_in(compiled.folders[1]), "what the gate rejects is not compiled"
            jobs.append((compiled.folders[0], reference, {}))
        before = [kernels_in(folder) for folder, *_ in jobs]
        assert all(before) and len(before[2]) > 1, "every tuning configuration is compiled"
        call_on_pretended_gpu(jobs, h200)
        assert [kernels_in(folder) for folder, *_ in jobs] == before, "nothing was compiled again"
    assert not any(folder.exists() for folder, *_ in jobs)
