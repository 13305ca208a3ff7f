"""What the library itself costs, with no model and an evaluator that does nothing.

Run with `make bench`.
"""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.agents import Prompts
from egg_graph.agents.coder import CODER
from egg_graph.evaluator import LocalEvaluator
from egg_graph.knowledge import load_hardware, load_principles
from egg_graph.schema import Analysis, Baseline, Brief, Candidate, Diagnosis, KernelTask
from egg_graph.stages import ALGORITHMIC_STRUCTURE
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel
from tests.paths import read_source

pytestmark = pytest.mark.slow

INPUT = {"reference": REFERENCE}
CONTEXT = Context(target="h100")


def scripted_graph():
    return build_egg_graph(
        team=StatelessTeam([kernel("ok", 99 - n) for n in range(30)]), evaluator=ScriptedEvaluator(), principles=()
    )


def test_graph_construction(benchmark):
    graph = benchmark(build_egg_graph)
    assert "conclude" in graph.nodes


def test_full_run(benchmark):
    """One whole run: 4 stages, 9 attempts. `extra_info` holds the steps, so that the cost per step can be told."""
    graph = scripted_graph()
    steps = sum(1 for _ in graph.stream(INPUT, context=CONTEXT, stream_mode="updates", subgraphs=True))
    state = benchmark(graph.invoke, INPUT, context=CONTEXT)
    assert state["status"] == "correct" and len(state["attempts"]) == 9
    benchmark.extra_info["steps"] = steps
    if benchmark.enabled:  # beside other tests nothing is measured
        benchmark.extra_info["milliseconds_per_step"] = 1e3 * benchmark.stats.stats.median / steps


def test_full_run_with_checkpoints_on_disk(benchmark, tmp_path):
    """The same through `optimize`: every step saved, the run's folder written, its report page included."""
    from egg_graph import optimize

    def run():
        parts = {"team": StatelessTeam([kernel("ok", 99 - n) for n in range(30)]), "evaluator": ScriptedEvaluator()}
        return optimize(REFERENCE, runs_dir=tmp_path, target="h100", principles=(), **parts)

    assert benchmark.pedantic(run, rounds=3, warmup_rounds=1).status == "correct"


@pytest.mark.parametrize("mode", ["seed", "optimize", "repair"])
def test_prompt_rendering(benchmark, mode):
    prompts = Prompts()
    task = KernelTask(name="relu", reference=REFERENCE, target=load_hardware("h100"))
    candidate = Candidate(source=kernel("ok"), author="bench", stage="algorithmic_structure", mode="seed")
    brief = Brief(
        task=task,
        baseline=Baseline(task=task.digest),
        stage="algorithmic_structure",
        objective=ALGORITHMIC_STRUCTURE.objective,
        metrics=ALGORITHMIC_STRUCTURE.metrics,
        mode=mode,
        kernel=None if mode == "seed" else candidate,
        evaluation=None if mode == "seed" else ScriptedEvaluator().evaluate(task, candidate),
        analysis=Analysis(worth_optimizing=True, bottleneck="dram", plan="fuse"),
        diagnosis=Diagnosis(critical_issue="mask", modification_plan="mask the load"),
        principles=load_principles(),
    )
    assert "class ModelNew" in benchmark(lambda: prompts.system("coder", brief) + CODER.prompt(prompts, brief))


def test_evaluator_round_trip(benchmark, evaluator):
    """One question to a warm judge process and its answer."""
    evaluator.environment()
    assert benchmark(evaluator.environment).torch


@pytest.fixture(scope="module")
def kernel_and_task():
    """The expert-like kernel of the planted corpus, with its reference at a modest shape."""
    reference = (
        "import torch\nfrom torch import nn\n\nrows = 512\nwidth = 4096\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x):\n        return torch.softmax(x, dim=1)\n\n\n"
        "def get_inputs():\n    return [torch.randn(rows, width)]\n"
    )
    source = read_source("right/softmax_one_block.py")
    candidate = Candidate(source=source, author="bench", stage="algorithmic_structure", mode="seed")
    return candidate, KernelTask(name="softmax", reference=reference, target=load_hardware("h200"))


def test_one_evaluation_warm(benchmark, evaluator, kernel_and_task):
    """All that is proven of a kernel without a GPU, by a judge that knows the task."""
    candidate, task = kernel_and_task
    evaluator.baseline(task)
    evaluation = benchmark.pedantic(evaluator.evaluate, args=(task, candidate), rounds=2, warmup_rounds=1)
    assert evaluation.status == "correct"
    benchmark.extra_info["rungs"] = {rung.name: rung.seconds for rung in evaluation.rungs}


def test_one_evaluation_cold(request, benchmark, kernel_and_task):
    """The same from nothing: processes started, torch and triton imported, the reference run."""
    if not request.config.getoption("benchmark_only"):
        pytest.skip("costs seconds and proves nothing that other tests do not: `make bench` measures it")
    candidate, task = kernel_and_task

    def evaluate():
        with LocalEvaluator(device="none") as evaluator:
            return evaluator.evaluate(task, candidate)

    assert benchmark.pedantic(evaluate, rounds=1).status == "correct"
