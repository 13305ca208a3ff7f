"""Tuned PyTorch: what is tried, what counts, within which time, and what is kept of it."""

import io
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from egg_graph.evaluator.device import interference
from egg_graph.evaluator.gpu.tuned import establish, measurement, plan, process, switched_forwards
from egg_graph.evaluator.gpu.tuned.establish import channels_last_layout, establish_tuned
from egg_graph.evaluator.gpu.tuned.kept import KeptBaselines
from egg_graph.evaluator.gpu.tuned.measurement import TunedProcess, measure_tuned
from egg_graph.evaluator.gpu.tuned.switched_forwards import SwitchedForwards
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Environment, Hardware, KernelTask, TunedBaseline, TunedTrial
from tests.evaluator.gpu.timing.pretend_driver import PretendDriver

CONVOLUTION = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self, c):\n"
    "        super().__init__()\n        self.conv = nn.Conv2d(c, 4, 3)\n\n    def forward(self, x):\n"
    "        return self.conv(x)\n\nc = 3\n\ndef get_inputs():\n    return [torch.randn(2, c, 8, 8)]\n\n"
    "def get_init_inputs():\n    return [c]\n"
)
ECHO = (
    "import json, sys, time\nnext(sys.stdin)\nfor line in sys.stdin:\n    trial = json.loads(line)\n"
    "    if trial['forward'] == 'max-autotune':\n        time.sleep(60)\n"
    "    if trial['switches']:\n        sys.exit(3)\n"
    "    print(json.dumps({**trial, 'outcome': 'timed', 'milliseconds': 2.0}), flush=True)\n"
)
H200 = Environment(machine="host", gpu="NVIDIA H200", driver="580.1", cuda="13.0", torch="2.11.0", triton="3.6.0")


@pytest.fixture(scope="module")
def task(h200: Hardware) -> KernelTask:
    return KernelTask(name="convolution", reference=CONVOLUTION, target=h200, precision="ieee")


@pytest.fixture(scope="module")
def convolution(task: KernelTask) -> Problem:
    return Problem(task, 7)


@pytest.fixture
def forwards(stand_in: None, convolution: Problem, monkeypatch: pytest.MonkeyPatch) -> SwitchedForwards:
    for name, value in {"CudaDriver": PretendDriver, "flush_bytes": lambda: 1024, "WARMUP_SECONDS": 0.0}.items():
        monkeypatch.setattr(switched_forwards, name, value)
    return SwitchedForwards(convolution)


def test_a_switch_is_turned_for_its_trial_alone_in_a_thread_of_its_own(
    forwards: SwitchedForwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    plain = nn.Conv2d.forward

    def forward(self: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        weights = self.weight.is_contiguous(memory_format=torch.channels_last)
        seen.append((threading.get_ident(), torch.backends.cudnn.benchmark, last and weights))
        return plain(self, x)

    monkeypatch.setattr(nn.Conv2d, "forward", forward)
    layout = channels_last_layout(forwards.case.state.values())
    trials = [trial for trial in plan.cheap_trials(layout) if trial.forward == "eager"]
    measured = [forwards.measure(trial) for trial in trials]
    assert [trial.outcome for trial in measured] == ["timed"] * 3, measured
    assert all(trial.milliseconds == 1.0 and trial.error <= trial.budget for trial in measured)
    assert {(benchmark, last) for _, benchmark, last in seen} == {(True, False), (False, True), (True, True)}
    assert threading.get_ident() not in {thread for thread, *_ in seen}
    assert not torch.backends.cudnn.benchmark
    assert forwards.case.model.conv.weight.is_contiguous(), "the case's own module stays as it is"


def test_a_wrong_or_failing_trial_does_not_count(forwards: SwitchedForwards, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []

    def compile(module: nn.Module, mode: str) -> nn.Module:
        modes.append(mode)
        if mode == "default":
            raise RuntimeError("no such layout")
        return nn.Sequential(module, nn.Softplus())

    monkeypatch.setattr(torch, "compile", compile)
    failed = forwards.measure(TunedTrial(forward="compile", switches=(plan.BENCHMARK,)))
    wrong = forwards.measure(TunedTrial(forward="max-autotune"))
    assert (failed.outcome, failed.reason) == ("failed", "RuntimeError: no such layout")
    assert wrong.outcome == "wrong" and wrong.milliseconds is None and wrong.error > wrong.budget
    assert modes == ["default", switched_forwards.AUTOTUNE_MODE]
    assert not torch.backends.cudnn.benchmark
    tuned = TunedBaseline(trials=(failed, wrong), eager_ms=2.0)
    assert tuned.milliseconds is None and "no such layout" in tuned.tell(1.0) and "not measured" in tuned.tell(1.0)


def answers(**milliseconds: float) -> "measurement.Ask":
    """Answers by the trial's name with underscores in place of what is no letter."""

    def ask(trial: TunedTrial, seconds: float) -> TunedTrial:
        name = "_".join((trial.forward.replace("-", "_"), *(s.replace(".", "_") for s in trial.switches)))
        return trial.model_copy(update={"outcome": "timed", "milliseconds": milliseconds.get(name, 9.0)})

    return ask


def test_max_autotune_comes_last_with_the_switches_of_the_fastest_compiled_forward() -> None:
    times = {"eager_ms": 3.0, "compile_ms": 2.5, "convolution": True, "layout": "channels_last_3d"}
    tuned = measure_tuned(answers(compile_channels_last_3d=1.5, max_autotune_channels_last_3d=1.25), **times)
    assert [trial.name for trial in tuned.trials] == [
        "eager with cudnn.benchmark",
        "eager with channels_last_3d",
        "eager with cudnn.benchmark and channels_last_3d",
        "torch.compile with cudnn.benchmark",
        "torch.compile with channels_last_3d",
        "torch.compile with cudnn.benchmark and channels_last_3d",
        "torch.compile (max-autotune) with channels_last_3d",
    ]
    assert (tuned.milliseconds, tuned.gain, tuned.untried) == (1.25, 2.0, ())
    slower = measure_tuned(answers(), **times)
    assert slower.trials[-1].name == "torch.compile (max-autotune)"
    assert (slower.milliseconds, slower.gain, slower.best) == (2.5, 1.0, None)


def test_without_a_convolution_only_max_autotune_is_tried_and_that_is_told() -> None:
    tuned = measure_tuned(answers(max_autotune=1.0), eager_ms=3.0, compile_ms=None, convolution=False, layout="")
    assert [trial.forward for trial in tuned.trials] == ["max-autotune"]
    assert tuned.untried == ("cudnn.benchmark and channels_last: only convolutions gain from them",)
    assert plan.is_convolution(("aten.convolution.default",)) and not plan.is_convolution(("aten.mm.default",))
    assert channels_last_layout([torch.empty(2, 2, 3)]) == "" and "one dimension" in plan.untried(True, "")[0]


def test_advice_comes_where_a_switch_gives_most_of_the_gain() -> None:
    trial = TunedTrial(forward="eager", switches=(plan.BENCHMARK,), outcome="timed", milliseconds=1.0)
    tuned = TunedBaseline(trials=(trial,), eager_ms=2.0, compile_ms=2.1)
    assert tuned.advice() == tuned.advice(2.5) == "set cudnn.benchmark: 2.00x without a kernel"
    assert tuned.advice(8.0) == "", "a kernel gains far more"
    assert tuned.tell(0.5) == "tuned PyTorch 1 ms (eager with cudnn.benchmark): 2.00x against it"
    compiled = TunedBaseline(trials=(trial,), eager_ms=2.0, compile_ms=1.5)
    assert compiled.advice() == "set eager with cudnn.benchmark: 1.50x without a kernel"
    assert TunedBaseline(trials=(trial,), eager_ms=1.04).advice() == ""


def test_a_trial_that_takes_too_long_is_cut_and_a_lost_process_is_told(task: KernelTask, tmp_path: Path) -> None:
    with TunedProcess(task, tmp_path, (sys.executable, "-S", "-c", ECHO)) as asked:
        first = asked.ask(TunedTrial(forward="eager"), 30.0)
        began = time.monotonic()
        cut = asked.ask(TunedTrial(forward="max-autotune"), 0.05)
        assert time.monotonic() - began < 5
        lost = asked.ask(TunedTrial(forward="eager", switches=("channels_last",)), 30.0)
    assert (first.outcome, first.milliseconds) == ("timed", 2.0)
    assert (cut.outcome, cut.milliseconds) == ("limit", None)
    assert (lost.outcome, lost.reason) == ("machine", "its process ended (exit status 3)")
    tuned = TunedBaseline(trials=(cut,), eager_ms=1.0)
    assert tuned.tell() == "tuned PyTorch: not measured (torch.compile (max-autotune): not measured (limit: 0 s))"


def test_the_process_answers_trial_after_trial_of_its_task(task: KernelTask) -> None:
    trials = plan.cheap_trials("")
    questions = io.StringIO("".join(f"{value.model_dump_json()}\n" for value in (task, *trials)))
    told, answered = [], io.StringIO()

    def make(given: KernelTask) -> process.Measure:
        told.append(given)
        return lambda trial: trial.model_copy(update={"outcome": "timed", "milliseconds": 1.0})

    process.serve(questions, answered, make)
    assert told == [task]
    found = [TunedTrial.model_validate_json(line) for line in answered.getvalue().splitlines()]
    assert [(trial.name, trial.milliseconds) for trial in found] == [(trial.name, 1.0) for trial in trials]


def test_a_process_that_never_answers_is_started_once(task: KernelTask, tmp_path: Path) -> None:
    log = tmp_path / "log"
    dying = f"import sys; open({str(log)!r}, 'a').write('x'); sys.exit(1)"
    with TunedProcess(task, tmp_path, (sys.executable, "-S", "-c", dying)) as asked:
        spoiled = [asked.ask(trial, 30.0) for trial in plan.cheap_trials("")]
    assert {trial.outcome for trial in spoiled} == {"machine"} and log.read_text() == "x"


def test_what_was_measured_is_kept_by_content_while_pytorchs_times_stay(
    task: KernelTask, convolution: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(self: TunedProcess, trial: TunedTrial, seconds: float) -> TunedTrial:
        asked.append(trial)
        return answers(eager_cudnn_benchmark=1.0)(trial, seconds)

    monkeypatch.setattr(TunedProcess, "ask", ask)
    monkeypatch.setattr(interference, "wait_until_idle", lambda driver: "")
    monkeypatch.setattr(establish.torch.cuda, "empty_cache", lambda: None)

    def establish_at(eager_ms: float, gpu: Environment = H200) -> TunedBaseline:
        baseline = SimpleNamespace(
            problem=convolution, driver=None, milliseconds={"eager": eager_ms}, case=next(convolution.full_cases())
        )
        return establish_tuned(baseline, ("aten.convolution.default",), tmp_path, KeptBaselines(tmp_path, gpu))  # type: ignore[arg-type]

    first = establish_at(2.0)
    assert (first.milliseconds, first.kept, len(asked)) == (1.0, False, 7)
    again = establish_at(2.05)
    assert again == first.model_copy(update={"kept": True}) and len(asked) == 7
    assert f"measured {first.measured}" in again.tell()
    establish_at(2.5)
    establish_at(2.0, H200.model_copy(update={"driver": "590.1"}))
    assert len(asked) == 21, "other times, or another driver, are measured anew"


def test_a_busy_gpu_and_what_the_machine_spoiled_are_not_kept(
    task: KernelTask, convolution: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptBaselines(tmp_path, H200)
    spoiled = TunedTrial(forward="eager", outcome="machine", reason="no memory")
    kept.keep(task, TunedBaseline(trials=(spoiled,), eager_ms=1.0))
    monkeypatch.setattr(interference, "wait_until_idle", lambda driver: "the GPU is busy with other work")
    baseline = SimpleNamespace(problem=convolution, driver=None, milliseconds={"eager": 1.0})
    busy = establish_tuned(baseline, (), tmp_path, kept)  # type: ignore[arg-type]
    assert busy.tell() == "tuned PyTorch: not measured (the GPU is busy with other work)"
    assert kept.find(task, 1.0, None) is None and not list(tmp_path.iterdir())
