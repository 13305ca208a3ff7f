"""A GPU that is stood in for, a task, and sessions with candidates on it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import pytest
import torch

from egg_graph.evaluator.gpu import answers as gpu_answers
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.worker import gpu_worker
from egg_graph.schema import Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE, HostBuffer, InProcess, tensor_of


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's part is played by this process."""
    for name, value in {
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda device=None: SimpleNamespace(total_memory=1 << 30),
        "mem_get_info": lambda device=None: (64 << 20, 64 << 20),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(gpu_answers, "Arena", lambda: Arena(HostBuffer))
    monkeypatch.setattr(gpu_worker, "poison_free_memory", lambda sizes: 0)
    monkeypatch.setattr(gpu_worker.recorder, "record_captures", lambda: None)
    monkeypatch.setattr(gpu_worker.GpuWorker, "_tensor", tensor_of)


@pytest.fixture(scope="session")
def shared_problem(h200: Hardware) -> Problem:
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


@pytest.fixture
def problem(shared_problem: Problem) -> Iterator[Problem]:
    """The task whose cases are built once for all tests, of which none may change a number."""
    before = {id(case): numbers_of(case) for case in all_cases(shared_problem)}
    yield shared_problem
    for case in all_cases(shared_problem):
        if id(case) in before:
            assert all(map(torch.equal, before[id(case)], numbers_of(case)))


def all_cases(problem: Problem) -> list[Case]:
    return [case for cases in problem.cached_cases.values() for case in cases]


def numbers_of(case: Case) -> list[torch.Tensor]:
    """Copies of a case's inputs and weights."""
    return [x.clone() for x in (*case.inputs, *case.state.values())]


@pytest.fixture
def session_of(stand_in: None, tmp_path: Path) -> Callable[[str], InProcess]:
    """A session of a candidate whose forward has this body; `self.linear` and `x` are at hand, torch and `time`."""

    def opened(body: str, setup: str = "") -> InProcess:
        source = (
            "import torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    def __init__(self, k, n):\n"
            "        super().__init__()\n        self.linear = nn.Linear(k, n)\n"
            + "".join(f"        {line}\n" for line in setup.splitlines())
            + "\n    def forward(self, x):\n"
            + "".join(f"        {line}\n" for line in body.splitlines())
        )
        folder = Path(mkdtemp(dir=tmp_path))  # Python may take a source of the same second and size for the last one
        (folder / "candidate.py").write_text(source)
        return InProcess(folder)

    return opened
