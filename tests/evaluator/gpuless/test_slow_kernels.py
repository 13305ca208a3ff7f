"""Right kernels that are too slow for the interpreter: what was left out is told, and held against nobody."""

import pytest

from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import read_entries
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, Hardware, KernelTask
from tests.paths import CORPUS
from tests.sample import thorough

pytestmark = pytest.mark.slow
TOO_SHORT = 40.0
"""Seconds for a forward; one of 98304 programs takes some 200 s, one of 7400 about 2 s."""
SCALAR_CONVOLUTION = """
import torch
import triton
import triton.language as tl


@triton.jit
def convolution_kernel(x_ptr, w_ptr, y_ptr, CHANNELS, FILTERS, WIDTH, TAPS, PLACES):
    place = tl.program_id(0) % PLACES
    filter = tl.program_id(0) // PLACES % FILTERS
    sample = tl.program_id(0) // PLACES // FILTERS
    total = tl.zeros((), dtype=tl.float32)
    for channel in range(CHANNELS):
        for tap in range(TAPS):
            x = tl.load(x_ptr + (sample * CHANNELS + channel) * WIDTH + place + tap)
            total += x * tl.load(w_ptr + (filter * CHANNELS + channel) * TAPS + tap)
    tl.store(y_ptr + tl.program_id(0), total)


class ModelNew(torch.nn.Module):
    def forward(self, x, w):
        (samples, channels, width), (filters, _, taps) = x.shape, w.shape
        y = torch.empty((samples, filters, width - taps + 1), device=x.device)
        convolution_kernel[(y.numel(),)](
            x.contiguous(), w.contiguous(), y, channels, filters, width, taps, width - taps + 1
        )
        return y
"""
CONVOLUTION = """
import torch

SAMPLES, CHANNELS, FILTERS, WIDTH, TAPS = 8, 64, 64, 1024, 5


class Model(torch.nn.Module):
    def forward(self, x, w):
        return torch.nn.functional.conv1d(x, w)


def get_inputs():
    return [torch.randn(SAMPLES, CHANNELS, WIDTH), torch.randn(FILTERS, CHANNELS, TAPS)]


def get_init_inputs():
    return []
"""
"""Its reduced shapes take a kernel of one number a program some minutes."""


def judged(evaluator: LocalEvaluator, name: str, target: Hardware) -> Evaluation:
    [entry] = read_entries([CORPUS / "right" / f"{name}.py"])
    return evaluator.evaluate(task_of(entry, target), candidate_of(entry))


@thorough
def test_of_a_forward_that_takes_too_long_a_part_of_the_programs_is_judged(h200: Hardware) -> None:
    with LocalEvaluator(device="none", timeout=TOO_SHORT) as impatient:
        found = judged(impatient, "one_element_a_program", h200)
    assert found.status == "correct", found.reason
    proven = {rung.name: rung.statement for rung in found.rungs if rung.outcome == "passed"}
    assert "other programs were left out for time" in proven["correctness_shrunk"]
    assert "every output element written" in proven["correctness_awkward"]


@thorough
def test_a_kernel_of_which_all_programs_are_too_slow_at_every_shape_is_not_right(h200: Hardware) -> None:
    with LocalEvaluator(device="none", timeout=0.5) as impatient:
        found = judged(impatient, "one_element_a_program", h200)
    assert found.status == "timeout", found.reason


@thorough
@pytest.mark.parametrize("wrong", [False, True])
def test_a_kernel_that_is_too_slow_at_every_shape_is_judged_whole_at_a_small_one(h200: Hardware, wrong: bool) -> None:
    source = SCALAR_CONVOLUTION.replace(
        "range(CHANNELS)", "range(tl.minimum(CHANNELS, 3))" if wrong else "range(CHANNELS)"
    )
    task = KernelTask(name="convolution", reference=CONVOLUTION, target=h200, precision="ieee")
    candidate = Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed")
    with LocalEvaluator(device="none", timeout=TOO_SHORT) as impatient:
        found = impatient.evaluate(task, candidate)
    assert found.status == ("incorrect" if wrong else "correct"), found.reason
    if not wrong:
        proven = {rung.name: rung.statement for rung in found.rungs if rung.outcome == "passed"}
        assert "every output element written" in proven["correctness_small_0"]


@thorough
def test_kernels_that_build_on_programs_left_out_are_not_blamed(evaluator: LocalEvaluator, h200: Hardware) -> None:
    found = judged(evaluator, "counting_sort", h200)
    assert found.status == "correct", found.reason
    long = next(rung for rung in found.rungs if rung.name == "correctness_long_0")
    assert long.outcome == "skipped"
    assert "others build on what they leave" in long.statement
