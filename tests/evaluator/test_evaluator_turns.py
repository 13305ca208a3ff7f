"""Timing in turns and the GPU ladder's order of events, with stand-ins for the GPU: clocks, buffers and the worker's
process. What a GPU answers is tested on one."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from egg_graph.evaluator import gpu_answers, gpu_clock, gpu_ladder, gpu_timing, gpu_worker, screen
from egg_graph.evaluator.child import describe_failure
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpu_ladder import GpuLadder
from egg_graph.evaluator.gpu_session import CandidateFailed
from egg_graph.evaluator.gpu_timing import BLOCK, FEWEST_PAIRS, PAIRS, Turns
from egg_graph.evaluator.interpreter.device import PretendCuda
from egg_graph.evaluator.opponent import Opponent
from egg_graph.evaluator.timing import ratio_interval
from egg_graph.schema import Candidate, Finding, Hardware, KernelTask

REFERENCE = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self, k, n):\n"
    "        super().__init__()\n        self.linear = nn.Linear(k, n)\n\n    def forward(self, x):\n"
    "        return torch.relu(self.linear(x))\n\nm = 64\nk = 32\nn = 48\n\n"
    "def get_inputs():\n    return [torch.randn(m, k)]\n\ndef get_init_inputs():\n    return [k, n]\n"
)
RIGHT = REFERENCE.split("m = 64")[0].replace("class Model(", "class ModelNew(")
STALE = RIGHT.replace(
    "return torch.relu(self.linear(x))",
    "if not hasattr(self, 'kept'):\n            self.kept = torch.relu(self.linear(x))\n        return self.kept",
)
LAUNCH = {
    "kernel": "k", "grid": [4], "num_warps": 4, "num_stages": 2, "registers": 32, "spills": 0, "shared": 0,
}  # fmt: skip


def test_turns_go_abba_and_pair_enough_calls() -> None:
    order: list[str] = []

    def block(name: str) -> list[float]:
        order.append(name)
        return [1.0] * BLOCK

    turns = Turns()
    turns.take(lambda turn: block("C"), lambda turn: block("B"))
    assert "".join(order).startswith("CBBCCBBC")
    assert len(turns.mine) == len(turns.theirs) == PAIRS


def test_the_time_box_ends_the_turns_but_not_before_there_are_enough_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(float(second) for second in range(10_000))
    monkeypatch.setattr(gpu_timing.time, "monotonic", lambda: next(now))
    turns = Turns()
    turns.take(lambda turn: [1.0] * BLOCK, lambda turn: [1.0] * BLOCK)
    assert len(turns.mine) == FEWEST_PAIRS
    now = iter(100.0 * second for second in range(10_000))
    slow = Turns(slow=True)
    slow.take(lambda turn: [9.0], lambda turn: [9.0])
    assert len(slow.mine) == 5


def test_disturbance_of_whole_blocks_widens_the_interval() -> None:
    random = np.random.default_rng(0)
    baseline = 1 + 0.01 * random.standard_normal(64)
    disturbed = np.repeat(1 + 0.2 * random.standard_normal(16), 4) + 0.01 * random.standard_normal(64)
    ratio, low, high = ratio_interval(disturbed, baseline, block=4)
    alone = ratio_interval(disturbed, baseline)
    assert low < ratio < high
    assert high - low > 1.2 * (alone[2] - alone[1])


def test_a_block_flushes_spins_and_only_then_starts_the_clock(cuda: list[str]) -> None:
    class Flush:
        def zero_(self) -> None:
            cuda.append("flush")

    taken: list[int] = []
    times = gpu_clock.time_block(
        lambda: cuda.append("forward"), Flush(), calls=2, spin_cycles=7, lead=1, take=lambda n, _: taken.append(n)
    )
    once = ["flush", "spin 7", "event", "forward", "event"]
    assert [step for step in cuda if step != "idle"] == 3 * once
    assert times == [1.0, 1.0]
    assert taken == [0, 1]


def test_the_spin_outlasts_the_queueing_of_a_forward() -> None:
    assert gpu_clock.Pace(0.001, 1.0).spin_cycles == 0.25 * gpu_clock.CYCLES_PER_MS
    assert gpu_clock.Pace(2.0, 3.0).spin_cycles == 6 * gpu_clock.CYCLES_PER_MS
    assert gpu_clock.Pace(900.0, 900.0).spin_cycles == 20 * gpu_clock.CYCLES_PER_MS


# ------------------------------------------------------------------------------------- the ladder, GPU stood in for


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """CUDA's part is played: a list of what was asked of it."""
    steps: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            steps.append("event")

        def elapsed_time(self, other: "Event") -> float:
            return 1.0

    properties = SimpleNamespace(L2_cache_size=1024, total_memory=1 << 30)
    for name, value in {
        "Event": Event,
        "synchronize": lambda device=None: steps.append("idle"),
        "_sleep": lambda cycles: steps.append(f"spin {cycles}"),
        "set_device": lambda device: None,
        "set_per_process_memory_fraction": lambda fraction: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (64 << 30, 64 << 30),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return steps


class Memory:
    """`gpu_memory.Arena` within one process."""

    tensors: dict[str, torch.Tensor] = {}

    def __init__(self) -> None:
        self.handles: list[str] = []

    def share(self, tensor: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
        mine, form = self.empty(tensor.shape, tensor.dtype)
        mine.copy_(tensor)
        return mine, form

    def empty(self, shape: Any, dtype: torch.dtype) -> tuple[torch.Tensor, dict[str, Any]]:
        mine = torch.empty(shape, dtype=dtype)
        self.handles.append(str(len(self.tensors)))
        self.tensors[self.handles[-1]] = mine
        name = str(dtype).removeprefix("torch.")
        return mine, {"dtype": name, "shape": list(shape), "stride": list(mine.stride()), "handle": self.handles[-1]}

    def free(self) -> None:
        pass


class InProcess:
    """A session whose worker lives here."""

    def __init__(self, nursery: Any, folder: Path, timeout: float) -> None:
        self.folder, self.alive = folder, True
        self.worker = gpu_worker.Worker(folder)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        try:
            with PretendCuda():
                return json.loads(json.dumps(self.worker.obey(json.loads(json.dumps({"do": do, **arguments})))))
        except Exception as error:
            self.alive = False
            raise CandidateFailed(Finding.model_validate(describe_failure(error, self.folder)), "") from error

    def close(self) -> None:
        self.alive = False


class Base:
    """The part of `Ladder` that a GPU ladder uses, without gate and interpreter."""

    timeout = 60.0
    compiling = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = ThreadPoolExecutor(2)

    def gate(self, candidate: Candidate, climb: Climb) -> bool:
        return True

    def fake_call(self, docket: Docket, budget: float, wall: float) -> dict[str, Any]:
        return {}

    def launches(self, task: KernelTask, candidate: Candidate, call: dict[str, Any], climb: Climb) -> None:
        climb.fail("full_shape_launches", [Finding(kind="exception", message="unknown instruction")], 0.5)

    @contextmanager
    def job_folder(self, candidate: Candidate) -> Iterator[Path]:
        folder = self.folder / candidate.id
        folder.mkdir(exist_ok=True)
        (folder / "candidate.py").write_text(candidate.source)
        yield folder


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch, cuda: list[str], tmp_path: Path) -> GpuLadder:
    monkeypatch.setattr(gpu_answers, "Arena", Memory)
    monkeypatch.setattr(gpu_ladder, "Session", InProcess)
    monkeypatch.setattr(screen, "Session", InProcess)
    monkeypatch.setattr(gpu_worker.Worker, "_tensor", lambda self, form: Memory.tensors[form["handle"]])
    monkeypatch.setattr(
        gpu_worker.Worker, "record", lambda self, command: {"launches": [LAUNCH], "share": 1.0, "total_ms": 1.0}
    )
    monkeypatch.setattr(Opponent, "_compiled", lambda self, model, inputs: None)
    for module in (gpu_worker, gpu_clock, gpu_timing):
        monkeypatch.setattr(module, "flush_bytes", lambda: 1024)
    monkeypatch.setattr("egg_graph.evaluator.opponent.flush_bytes", lambda: 1024)
    monkeypatch.setattr("egg_graph.evaluator.opponent.WARM_SECONDS", 0.0)
    monkeypatch.setattr(gpu_timing, "WARM_SECONDS", 0.0)
    return GpuLadder(Base(tmp_path), "stand-in", profiling=True)  # type: ignore[arg-type]


@pytest.fixture
def docket(h200: Hardware) -> Docket:
    return Docket(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


def candidate(source: str) -> Candidate:
    return Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed")


def test_a_right_kernel_is_timed_and_one_timed_answer_compared(ladder: GpuLadder, docket: Docket) -> None:
    climb, verdict = ladder.climb(docket, candidate(RIGHT), None)
    assert not climb.failed, climb.findings
    assert verdict is not None
    assert verdict[0] == "inconclusive"  # every call takes 1 ms here
    timing = climb.timing
    assert timing is not None
    assert timing.pairs == len(timing.candidate_calls_ms) == len(timing.baseline_calls_ms) >= FEWEST_PAIRS
    assert timing.block == BLOCK
    assert climb.checks[-1].name == "timed"
    outcomes = {rung.name: rung.outcome for rung in climb.rungs}
    assert outcomes["process"] == outcomes["correctness_full"] == outcomes["timing"] == "passed"
    assert outcomes["full_shape_launches"] == outcomes["roofline"] == "skipped"
    assert "unknown instruction" in next(r.statement for r in climb.rungs if r.name == "full_shape_launches")


def test_only_a_faster_kernel_is_profiled(ladder: GpuLadder, docket: Docket, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled: list[float] = []
    monkeypatch.setattr(gpu_ladder.gpu_profile, "profile", lambda *a: profiled.append(a[4].timing.candidate_ms))
    ladder.climb(docket, candidate(RIGHT), None)
    climb, _ = ladder.climb(docket, candidate(RIGHT + "\n"), None)
    assert profiled == [1.0]
    assert climb.profile.source == "compiled"
    ladder.profiling = False
    climb, _ = ladder.climb(docket, candidate(RIGHT), None)
    assert "profile" not in {rung.name for rung in climb.rungs}


def test_an_answer_kept_from_earlier_calls_is_found_out_in_the_timed_ones(ladder: GpuLadder, docket: Docket) -> None:
    climb, verdict = ladder.climb(docket, candidate(STALE), None)
    assert verdict is None
    assert climb.timing is None
    assert [rung.outcome for rung in climb.rungs if rung.name == "timing"] == ["failed"]
    assert climb.findings[-1].kind == "wrong_values"
    assert {check.name: check.passed for check in climb.checks}["full"]


def test_no_speed_is_told_where_the_full_shape_could_not_be_compared(
    ladder: GpuLadder, docket: Docket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_cases() -> Any:
        raise torch.OutOfMemoryError("140 GiB")

    monkeypatch.setattr(docket, "full_cases", full_cases)
    climb, verdict = ladder.climb(docket, candidate(RIGHT), None)
    assert not climb.failed
    assert verdict is not None
    assert verdict[0] == "correct"
    assert "140 GiB" in verdict[1]
    assert climb.timing is None


def test_screening_ranks_right_configurations_and_names_what_is_wrong(ladder: GpuLadder, docket: Docket) -> None:
    wrong = candidate(RIGHT.replace("torch.relu(", "torch.neg("))
    broken = candidate(RIGHT.replace("torch.relu(", "torch.missing("))
    trials = screen.screen_on_gpu(ladder, docket, [candidate(RIGHT), wrong, broken])
    assert [trial.status for trial in trials] == ["correct", "incorrect", "runtime_error"]
    assert trials[0].merit == (0.0, 1.0)
