"""The example that the coder is shown obeys the contract it is told, and is right."""

import pytest

from egg_graph.knowledge import load_hardware, prompt_text
from egg_graph.schema import Candidate, KernelTask
from egg_graph.tuning import read_knobs
from tests.sample import in_sample

pytestmark = pytest.mark.slow


def candidate() -> Candidate:
    source = prompt_text("fewshot_kernel.py.txt")
    return Candidate(source=source, author="prompts", stage="algorithmic_structure", mode="seed")


@pytest.mark.parametrize("precision", in_sample(["tf32", "bf16"], ["bf16"]))
def test_the_example_passes_the_evaluator(evaluator, precision):
    """At smaller sizes, which are soon interpreted: its verdict hangs on none of them."""
    reference = prompt_text("fewshot_reference.py.txt")
    for size, small in (("1024", "128"), ("2048", "256"), ("4096", "512")):
        assert reference.count(f" = {size}\n") == 1
        reference = reference.replace(f" = {size}\n", f" = {small}\n")
    task = KernelTask(
        name="fewshot",
        reference=reference,
        target=load_hardware("h200"),
        precision=precision,
    )
    evaluation = evaluator.evaluate(task, candidate())
    assert evaluation.findings == (), evaluation.findings
    assert evaluation.usable, evaluation.reason
    assert all(check.passed for check in evaluation.checks) and len(evaluation.checks) >= 2
    assert all(resources.fits and not resources.spill_bytes for resources in evaluation.resources)
    assert any(resources.tensor_core_instructions for resources in evaluation.resources)


def test_the_examples_knobs_can_be_tuned():
    config, space, dropped = read_knobs(candidate().source)
    assert not dropped
    assert set(space) == {"parallel_mapping", "tensor_tiling", "memory_optimization"}
    for knobs in space.values():
        for name, values in knobs.items():
            assert config[name] in values
