"""LocalEvaluator: baseline, screening, secrecy, threads, and what is the machine's fault rather than a kernel's."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from egg_graph.evaluator import Evaluator, LocalEvaluator, Progress, environment, gpu_present, hear_progress
from egg_graph.schema import BadInput, Candidate, Hardware, InfrastructureError, KernelTask, Memory, Spending
from tests.paths import read_source
from tests.sample import in_sample, thorough

pytestmark = pytest.mark.slow

RIGHT = read_source("right/softmax_one_block.py")
MATMUL = read_source("right/matmul_bias_gelu.py")
HEAD = "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n"
SOFTMAX = (
    f"{HEAD}    def forward(self, x):\n        return torch.softmax(x, dim=1)\n\nrows = 128\nwidth = 512\n\n"
    "def get_inputs():\n    return [torch.randn(rows, width)]\n"
)
LINEAR_GELU = (
    f"{HEAD}    def __init__(self, k, n):\n        super().__init__()\n        self.linear = nn.Linear(k, n)\n\n"
    "    def forward(self, x):\n        return nn.functional.gelu(self.linear(x))\n\nm = 1024\nk = 2048\nn = 4096\n\n"
    "def get_inputs():\n    return [torch.rand(m, k)]\n\ndef get_init_inputs():\n    return [k, n]\n"
)


def candidate(source: str, **config: int) -> Candidate:
    return Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed", config=config)


@pytest.fixture(scope="module")
def own() -> Iterator[LocalEvaluator]:
    """An impatient evaluator that these tests may break, in a process that holds secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-planted-secret")
        patch.setenv("MY_TOKEN", "planted-token")
        with LocalEvaluator(device="none", timeout=5.0) as local:
            yield local


def test_it_is_an_evaluator_and_needs_no_torch_in_its_owner() -> None:
    assert isinstance(LocalEvaluator(device="none"), Evaluator)
    code = (
        "import sys; from egg_graph.evaluator import LocalEvaluator, environment, gpu_present; "
        "LocalEvaluator(); environment(); gpu_present(); "
        "assert not {'torch', 'triton', 'numpy', 'langgraph'} & set(sys.modules), 'too much imported'"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


@pytest.mark.parametrize("options", [{"device": "tpu"}, {"timeout": 0}])
def test_options_that_make_no_sense_are_refused(options: dict) -> None:
    with pytest.raises(BadInput):
        LocalEvaluator(**options)


def test_baseline_counts_what_the_reference_does(evaluator: LocalEvaluator, h200: Hardware) -> None:
    baseline = evaluator.baseline(KernelTask(name="linear", reference=LINEAR_GELU, target=h200), tuned=True)
    assert baseline.operators == ("aten.addmm.default", "aten.gelu.default")
    assert baseline.inputs == {"x": "float32[1024, 2048]"}
    assert baseline.outputs == {"output": "float32[1024, 4096]"}
    assert baseline.parameters == 2048 * 4096 + 4096
    assert baseline.flops == 2 * 1024 * 2048 * 4096
    assert baseline.compulsory_bytes == 4 * (1024 * 2048 + 2048 * 4096 + 4096 + 1024 * 4096)
    assert baseline.eager_bytes > baseline.compulsory_bytes
    assert baseline.floor_ms == pytest.approx(1e3 * max(baseline.flops / 494e12, baseline.compulsory_bytes / 4.8e12))
    assert len(baseline.shrunk_shapes) == 2
    assert baseline.unevaluable == ""
    assert baseline.eager_ms is None
    assert baseline.tuned is not None and baseline.tuned.tell().endswith("not measured (there is no GPU here)")
    assert baseline.environment is not None
    assert baseline.environment.gpu is None


def test_the_floor_of_the_task_stands_beside_the_bound_of_a_kernel(evaluator: LocalEvaluator, h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    floor = evaluator.baseline(task).floor_ms
    evaluation = evaluator.evaluate(task, candidate(RIGHT))
    assert evaluation.status == "correct", evaluation.reason
    assert evaluation.bound is not None
    assert evaluation.bound.floor_ms == floor > 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return torch.softmax(x, dim=1) * 0", "zero everywhere"),
        ("return torch.nn.functional.dropout(x, 0.2)", "random"),
        ("return torch.ones_like(x)", "does not depend on the input"),
        ("return (x * 1e20).sin()", "off fp64"),
    ],
)
def test_a_reference_that_cannot_be_judged_is_unevaluable(
    evaluator: LocalEvaluator, h200: Hardware, line: str, words: str
) -> None:
    task = KernelTask(name="bad", reference=SOFTMAX.replace("return torch.softmax(x, dim=1)", line), target=h200)
    assert words in evaluator.baseline(task).unevaluable
    evaluation = evaluator.evaluate(task, candidate(RIGHT))
    kind = "stochastic_problem" if words == "random" else "degenerate_problem"
    assert (evaluation.status, evaluation.findings[0].kind) == ("unevaluable", kind)


def test_a_reference_that_fails_is_bad_input_with_its_line(evaluator: LocalEvaluator, h200: Hardware) -> None:
    broken = SOFTMAX.replace("torch.softmax(x, dim=1)", "x @ x")
    with pytest.raises(BadInput, match=r"forward fails|does not run"):
        evaluator.baseline(KernelTask(name="broken", reference=broken, target=h200))
    with pytest.raises(BadInput, match="line 1"):
        evaluator.baseline(KernelTask(name="broken", reference="import nothing_here\n", target=h200))


def test_screening_ranks_and_one_broken_configuration_spoils_nothing(evaluator: LocalEvaluator, h200: Hardware) -> None:
    little = LINEAR_GELU.replace("m = 1024\nk = 2048\nn = 4096", "m = 128\nk = 256\nn = 512")
    task = KernelTask(name="linear", reference=little, target=h200)
    small = MATMUL.replace('"BLOCK_M": 64, "BLOCK_N": 64', '"BLOCK_M": 16, "BLOCK_N": 16')
    broken = MATMUL.replace('"BLOCK_M": 64', '"BLOCK_M": 48')
    huge = MATMUL.replace('"num_stages": 3', '"num_stages": 30')
    sources = [MATMUL, small, broken, huge, "def ("]
    told: list[Progress] = []
    with hear_progress(told.append):
        trials = evaluator.screen(task, [candidate(source, number=i) for i, source in enumerate(sources)])
    assert sorted(one.number for one in told if one.number is not None and one.doing) == [0, 1, 2, 3, 4]
    before_the_end = [trial.model_copy(update={"spent": Spending()}) for trial in trials]
    assert {one.number: one.trial for one in told if one.trial is not None} == dict(enumerate(before_the_end))
    assert [trial.config["number"] for trial in trials] == [0, 1, 2, 3, 4]
    assert [trial.status for trial in trials[:2]] == ["correct", "correct"]
    assert trials[2].status in ("compile_error", "runtime_error")
    assert "power of 2" in trials[2].reason
    assert trials[3].status == "compile_error"
    assert "shared memory" in trials[3].reason
    assert trials[4].status == "compile_error"
    assert trials[0].merit == trials[1].merit < trials[2].merit == (2.0,), "no clock, no ranking of two that fit"
    assert trials[0].milliseconds is None
    assert trials[0].resources[0].registers and trials[0].resources[0].occupancy, "what the compiler says is told"
    assert trials[0].spent == trials[4].spent and trials[0].spent.seconds["compile"] > 0


@pytest.mark.parametrize("name", in_sample(["infinite_loop.py", "infinite_kernel.py"], ["infinite_kernel.py"]))
def test_a_candidate_that_never_ends_is_ended(own: LocalEvaluator, h200: Hardware, name: str) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    own.baseline(task)
    evaluation = own.evaluate(task, candidate(read_source(f"faults/{name}")))
    assert (evaluation.status, evaluation.findings[0].kind) == ("timeout", "timeout")
    assert "line" in evaluation.findings[0].where
    assert evaluation.seconds < 12, "the limit of 5 s, and what a busy host takes to begin and end the processes"
    assert own.evaluate(task, candidate(RIGHT)).status == "correct"


def test_a_judge_that_was_lost_between_calls_is_replaced_and_nothing_survives(
    own: LocalEvaluator, h200: Hardware
) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    own.baseline(task)
    assert own._judge is not None
    first, lost = str(own._judge.folder), own._judge.process
    lost.kill()

    async def ask() -> tuple[str, int]:
        """Until the next call has a judge of its own, which need not answer: tests/cli/test_trust.py shows that."""
        call = asyncio.create_task(own.aevaluate(task, candidate(RIGHT)))
        while own._judge is None or own._judge.process is lost or not _processes_in(str(own._judge.folder)):
            assert not call.done()
            await asyncio.sleep(0.01)
        new = str(own._judge.folder), own._judge.process.pid
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return new

    folder, group = asyncio.run(ask())
    assert not Path(first).exists()
    own.close()
    deadline = time.monotonic() + 5
    while (left := _processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not Path(f"/proc/{group}").exists()


def test_a_judge_whose_answer_nobody_waited_for_answers_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Judge:
        """Takes a while: its caller loses patience."""

        def __init__(self, settings: dict) -> None:
            self.killed = False
            made.append(self)

        def ask(self, method: str, params: dict, seconds: float) -> dict:
            if len(made) == 1:
                raise KeyboardInterrupt
            return environment().model_dump(mode="json")

        def interrupt(self) -> None:
            """Nothing runs."""

        def kill(self) -> None:
            self.killed = True

    monkeypatch.setattr("egg_graph.evaluator.local.JudgeClient", Judge)
    impatient = LocalEvaluator(device="none")
    with pytest.raises(KeyboardInterrupt):
        impatient.environment()
    assert made[0].killed
    assert impatient.environment().torch
    assert len(made) == 2


def _processes_in(folder: str) -> list[str]:
    """Processes whose working directory lies in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                place = os.readlink(entry / "cwd")
            except OSError:
                continue
            if place.startswith(folder):
                found.append(entry.name)
    return found


@thorough
def test_threads_take_turns(evaluator: LocalEvaluator, h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    wrong = RIGHT.replace("numerator / tl.sum", "2.0 * numerator / tl.sum")
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = evaluator.evaluate(task, candidate(RIGHT if number % 2 else wrong)).status

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {0: "incorrect", 1: "correct"}


def test_the_same_seed_gives_the_same_evidence(evaluator: LocalEvaluator, h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    told: list[Progress] = []
    with hear_progress(told.append):
        first, again = (evaluator.evaluate(task, candidate(RIGHT)) for _ in range(2))
    doing = [progress.doing for progress in told]
    assert doing.count("makes inputs and expected answers") == doing.count("static gate passed") == 2
    assert first.checks == again.checks
    assert first.merit == again.merit
    for evaluation in (first, again):
        spent = evaluation.spent.seconds
        assert spent["correctness"] > 0 and spent["compile"] > 0
        assert evaluation.seconds - 0.01 < sum(spent.values()) < evaluation.seconds + 30
        assert evaluation.spent.memory == Memory(), "no GPU, nothing measured"


def test_further_shapes_are_checked_too_and_another_stage_gets_metrics(
    evaluator: LocalEvaluator, h200: Hardware
) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200, further_shapes=({"rows": 3, "width": 33},))
    evaluation = evaluator.evaluate(task, candidate(RIGHT))
    assert evaluation.status == "correct"
    assert any(check.shapes == {"x": (3, 33)} for check in evaluation.checks)
    profile = evaluator.profile(task, candidate(RIGHT), evaluation, stage="parallel_mapping")
    assert profile.source == "compiled" and profile.metrics["launch__waves_per_multiprocessor"].value
    assert profile.metrics["sm__cycles_active.avg"].missing == "needs Nsight Compute on a GPU"


def test_the_environment_tells_the_versions() -> None:
    here = environment()
    assert here.torch
    assert here.triton
    assert here.python.startswith("3.")
    assert (here.gpu is not None) == gpu_present()


@pytest.mark.skipif(gpu_present(), reason="there is a GPU here")
def test_asking_for_a_gpu_that_is_not_there(h200: Hardware) -> None:
    with LocalEvaluator(device="gpu") as own, pytest.raises(InfrastructureError, match="no GPU"):
        own.baseline(KernelTask(name="softmax", reference=SOFTMAX, target=h200))
