"""Whose launch is left out when the candidate's kernels are silenced; without a GPU, on launchers that only count."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from triton.compiler.compiler import CompiledKernel

from egg_graph.evaluator.worker import cuda_graphs, recorder
from egg_graph.evaluator.worker.launches import ForwardRecord, intercept_launches, recording_launch
from egg_graph.schema import Hardware

MINE = Path("/job/candidate.py")


class Graph:
    """A CUDA graph that only tells of its replays."""

    replayed: ClassVar[list[Any]] = []

    def replay(self) -> None:
        self.replayed.append(self)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(Graph, "replay", Graph.replay)
    Graph.replayed.clear()
    cuda_graphs.make_replays_replaceable()


def compiled(file: Path, run: Callable[..., Any]) -> CompiledKernel:
    """A compiled kernel of a JIT function that `file` defines, whose launcher is `run`."""
    code = compile("def kernel(): pass", str(file), "exec")
    space: dict[str, Any] = {}
    exec(code, space)
    kernel: Any = CompiledKernel.__new__(CompiledKernel)
    function = SimpleNamespace(fn=space["kernel"], arg_names=["x_ptr", "shape", "BLOCK"])
    kernel.src = SimpleNamespace(fn=function, constants={(1, 0): 7, (2,): 64})
    kernel.metadata = SimpleNamespace(name="kernel", num_warps=4, num_stages=3, shared=128)
    kernel.n_regs, kernel.n_spills, kernel._run = 32, 0, run
    return kernel


def graph(record: ForwardRecord | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CUDA graph of which a capture recorded this."""
    made = torch.cuda.CUDAGraph()
    if record is not None:
        monkeypatch.setitem(cuda_graphs.captures, id(made), record)
    return made


def test_own_launches_do_nothing_and_others_run() -> None:
    ran: list[str] = []
    own = compiled(MINE, lambda *a, **k: ran.append("own"))
    other = compiled(Path("/site/inductor.py"), lambda *a, **k: ran.append("other"))

    def forward() -> str:
        own.run(4, 1, 1, 0)
        other.run(4, 1, 1, 0)
        return "answer"

    assert recorder.silence_kernels(forward, MINE) == "answer"
    assert ran == ["other"]
    forward()
    assert ran == ["other", "own", "other"], "the launcher is back in its place"


def test_what_a_silenced_forward_raises_comes_through() -> None:
    def forward() -> None:
        raise IndexError("needed what a kernel computes")

    with pytest.raises(IndexError):
        recorder.silence_kernels(forward, MINE)
    assert isinstance(CompiledKernel.__dict__["run"], property)


def test_launches_are_noted_with_their_grid_and_resources() -> None:
    record = ForwardRecord()
    own, other = (compiled(file, lambda *a, **k: None) for file in (MINE, Path("/site/inductor.py")))
    with intercept_launches(recording_launch(record, str(MINE), timed=False)):
        own.run(8, 2, 1, 0)
        other.run(1, 1, 1, 0)
    assert record.launches == [
        {
            "kernel": "kernel",
            "grid": [8, 2],
            "num_warps": 4,
            "num_stages": 3,
            "constexprs": {"BLOCK": 64},
            "registers": 32,
            "spills": 0,
            "shared": 128,
        }
    ]
    assert record.foreign == ["kernel"]


def test_a_launch_is_looked_at_before_it_is_made(h200: Hardware) -> None:
    ran: list[str] = []
    other = compiled(Path("/site/inductor.py"), lambda *a, **k: ran.append("other"))
    light, heavy = (compiled(MINE, lambda *a, name=name, **k: ran.append(name)) for name in ("light", "heavy"))
    other.n_spills, heavy.n_spills = 900, 130  # in registers: 520 bytes a thread

    def forward() -> None:
        for kernel in (other, light, light, heavy):
            kernel.run(4, 1, 1, 0)

    def forgiving() -> None:
        with suppress(Exception):
            forward()

    told = recorder.first_forward(forward, h200, MINE)
    assert ran == ["other", "light", "light"]
    assert [launch["spills"] for launch in told["launches"]] == [0, 130]
    assert told["pruned"] == "kernel: spills 520 bytes a thread, more than 512"
    assert recorder.first_forward(forgiving, h200, MINE) == told, "what catches exceptions is pruned all the same"
    ran.clear()
    assert recorder.first_forward(forward, None, MINE) == {**told, "pruned": ""}
    assert ran == ["other", "light", "light", "heavy"]
    with pytest.raises(ZeroDivisionError):
        recorder.first_forward(lambda: 1 / 0, h200, MINE)


LAUNCH = {"kernel": "kernel"}


def test_a_graph_of_own_kernels_alone_is_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    own = graph(ForwardRecord(launches=[LAUNCH], operators=["aten.empty.memory_format"]), monkeypatch)
    others = graph(ForwardRecord(operators=["aten.mm.default"]), monkeypatch)
    recorder.silence_kernels(lambda: (own.replay(), others.replay()), MINE)
    assert Graph.replayed == [others]


@pytest.mark.parametrize(
    "record", [None, ForwardRecord(launches=[LAUNCH], operators=["aten.mm.default"])], ids=["unseen", "mixed"]
)
def test_a_graph_that_cannot_be_silenced_alone_says_so(
    record: ForwardRecord | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = graph(record, monkeypatch)
    with pytest.raises(recorder.KernelsNotSeparable):
        recorder.silence_kernels(made.replay, MINE)
