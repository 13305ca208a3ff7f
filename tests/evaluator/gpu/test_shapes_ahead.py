"""What is compiled ahead at every shape is what the process on the GPU looks for there: it compiles nothing again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import torch

from egg_graph.evaluator.gpu.correctness import reduced_names
from egg_graph.evaluator.gpu.shapes_ahead import ShapesAhead
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.pretended_gpu import call_on_pretended_gpu, compiling_ladder, kernels_in
from tests.paths import CORPUS
from tests.sample import thorough

PROBLEM = "softmax"


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpulessLadder]:
    with compiling_ladder(tmp_path_factory.mktemp("judge")) as made:
        yield made


@thorough
def test_every_shape_finds_its_kernels_compiled(ladder: GpulessLadder, h200: Hardware) -> None:
    source = (CORPUS / "right" / "softmax_online.py").read_text()
    name = source.partition('problem = "')[2].partition('"')[0]
    reference = (CORPUS / "problems" / f"{name}.py").read_text()
    task = KernelTask(name=name, reference=reference, target=h200, precision="tf32")
    problem = Problem(task, 1, torch.device("cpu"))
    candidate = Candidate(source=source, author="t", stage="tensor_tiling", mode="tune", config={})
    with ladder.jobs.job_folder(candidate) as folder:
        ahead = ShapesAhead(ladder, problem, candidate, folder)
        ahead.wait_for_reduced()
        ahead.wait_for_full()
        before = kernels_in(folder)
        assert before
        sizes = [{}, *(problem.overrides(name) for name in reduced_names(problem))]
        assert len(sizes) > 1
        call_on_pretended_gpu([(folder, reference, overrides) for overrides in sizes], h200)
        assert kernels_in(folder) == before, "nothing was compiled again"


def test_what_has_not_begun_is_given_up_at_the_end(h200: Hardware, tmp_path: Path) -> None:
    begun: list[str] = []

    class Slow:
        pool = ThreadPoolExecutor(1)

        def fake_call(self, problem: object, *, wall_seconds: float, shape: str) -> dict[str, str]:
            return {"shape": shape}

        def launches(self, task: object, candidate: object, call: dict[str, str], builder: object) -> None:
            begun.append(call["shape"])

    reference = (CORPUS / "problems" / f"{PROBLEM}.py").read_text()
    problem = Problem(KernelTask(name="x", reference=reference, target=h200, precision="tf32"), 1, torch.device("cpu"))
    candidate = Candidate(source="", author="t", stage="tensor_tiling", mode="tune", config={})
    closed = Event()
    with Slow.pool:
        Slow.pool.submit(closed.wait, 60.0)
        ahead = ShapesAhead(Slow(), problem, candidate, tmp_path)  # type: ignore[arg-type]
        ahead.close()
        closed.set()
    assert not begun
