"""Stand-ins for the GPU: memory of this process is shared memory, and the worker lives in the judge's process."""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.device.shared_memory import shaped
from egg_graph.evaluator.gpu.worker_session import CandidateFailed
from egg_graph.evaluator.host.child import describe_failure
from egg_graph.evaluator.interpreter.cuda_mode import SimulatedCudaMode
from egg_graph.evaluator.worker import gpu_worker as gpu_worker
from egg_graph.schema import Finding

REFERENCE = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self, k, n):\n"
    "        super().__init__()\n        self.linear = nn.Linear(k, n)\n\n    def forward(self, x):\n"
    "        return torch.relu(self.linear(x))\n\nm = 64\nk = 32\nn = 48\n\n"
    "def get_inputs():\n    return [torch.randn(m, k)]\n\ndef get_init_inputs():\n    return [k, n]\n"
)


@dataclass
class HostBuffer:
    """Stands for shared device memory."""

    nbytes: int

    def __post_init__(self) -> None:
        self.memory = torch.zeros(self.nbytes, dtype=torch.uint8)
        BUFFERS[self.handle()] = self

    def handle(self) -> str:
        return f"{id(self):x}"

    def raw(self, offset: int, nbytes: int) -> torch.Tensor:
        # From the address, as another process would: no storage is shared that a candidate could look along.
        return (
            torch.frombuffer(self.memory.numpy(), dtype=torch.uint8, offset=offset, count=nbytes) if nbytes else EMPTY
        )

    def free(self) -> None:
        self.memory = torch.zeros(0, dtype=torch.uint8)


BUFFERS: dict[str, HostBuffer] = {}
EMPTY = torch.empty(0, dtype=torch.uint8)


class InProcess:
    """A session whose worker lives here."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.alive = folder, True
        self.worker = gpu_worker.GpuWorker(folder)
        self.asked: list[str] = []

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(do)
        try:
            with SimulatedCudaMode():
                return json.loads(json.dumps(self.worker.obey(json.loads(json.dumps({"do": do, **arguments})))))
        except Exception as error:
            self.alive = False
            raise CandidateFailed(Finding.model_validate(describe_failure(error, self.folder)), "") from error

    def start(self, memory_fraction: float) -> None:
        self.ask("start", memory_fraction=memory_fraction)

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    @property
    def has_processes(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.alive = False


def tensor_of(worker: Any, form: dict[str, Any]) -> torch.Tensor:
    nbytes = torch.Size(form["shape"]).numel() * gpu_worker.DTYPES[form["dtype"]].itemsize
    return shaped(BUFFERS[form["handle"]].raw(form["offset"], nbytes), form)
