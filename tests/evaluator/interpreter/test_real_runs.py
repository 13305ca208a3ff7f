"""Real runs: right kernels give right numbers at the precision they ask for; wrong ones are named exactly."""

import importlib.util
import math

import pytest

from tests.paths import CORPUS

pytestmark = pytest.mark.slow

CASES = CORPUS / "right" / "_cases"
TOLERANCES = {
    "add": 1e-7, "add_bf16": 4e-3, "add_fp16": 1e-3, "gelu": 1e-6, "silu": 1e-6, "relu": 0.0, "libdevice_tanh": 1e-6,
    "cuda_tanh": 1e-6, "tanh_approx": 1e-3, "exp2_pairs": 1e-6, "fp8e4nv": 0.0, "fp8e5": 0.0, "bf16": 0.0,
    "dropout": 1e-6, "softmax": 1e-6, "layer_norm": 1e-6, "max": 0.0, "argmax": 0.0, "log_sum_exp": 1e-6,
    "cumsum": 1e-6, "reverse_cumsum": 1e-6, "cumprod": 1e-6, "sort": 0.0, "cross_entropy": 1e-6, "column_sum": 1e-6,
    "persistent": 1e-6, "everyone_waits": 1e-6, "in_slices": 0.0,
    "matmul_ieee": 1e-6, "matmul_tf32": 1e-3, "matmul_tf32_rounded": 6e-5, "matmul_tf32x3": 2e-6, "matmul_bf16": 4e-3,
    "matmul_fp16": 5e-4, "bmm": 1e-6, "host_descriptor": 1e-4, "device_descriptor": 1e-4, "conv": 1e-6,
    "attention": 1e-6, "attention_bf16": 1e-2, "atomic_sum": 1e-6, "histogram": 0.0, "last_block": 1e-6, "tuned": 0.0,
    "block_pointer": 0.0, "interleave": 0.0, "flip": 0.0, "gather": 0.0, "histogram_of_block": 0.0, "int8_dot": 0.0,
    "fp8_dot": 1e-6, "descriptor_atomic": 1e-6, "overlapping": 0.0, "heuristic": 0.0, "tuples": 0.0, "by_property": 0.0,
    "warmed_up": 0.0, "words": 0.0, "numbers": 0.0, "captured": 1e-7, "members": 1e-6, "bits": 0.0, "roundings": 0.0,
    "unsigned": 0.0, "narrow_sum": 0.0, "rounded_once": 0.0, "mapped": 1e-7, "as_compiled": 1e-7,
}  # fmt: skip
"""Largest relative L2 error against fp64, by case."""
FAULTS = {
    "load_past_end": ("out_of_bounds", "element 130"),
    "store_past_end": ("out_of_bounds", "element 130"),
    "load_before_start": ("out_of_bounds", "element -1"),
    "unknown_libdevice": ("unsupported_in_kernel", "'jn'"),
    "unknown_assembly": ("unsupported_in_kernel", "bfe.u32"),
    "missing_import": ("exception", "name 'math' is not defined"),
    "no_such_function": ("exception", "has no attribute 'tanh'"),
    "branch_on_block": ("unsupported_in_kernel", "one answer for 64 elements"),
    "while_on_block": ("unsupported_in_kernel", "one answer for 64 elements"),
    "asks_python": ("unsupported_in_kernel", "Python's `sorted`"),
    "chain_of_comparisons": ("unsupported_in_kernel", "a chain of comparisons"),
    "counts_down": ("unsupported_in_kernel", "a loop with the step -1"),
    "numbers_in_words": ("unsupported_in_kernel", "`not` of a tensor"),
    "waits_for_the_next": ("timeout", "program (0, 0, 0) waits"),
    "everyone_waits_first": ("timeout", "all that have not ended wait for each other"),
}
RACES = ["no_barrier", "wrote_after_its_ticket", "accumulate", "everyone_stores", "shift_in_place", "lanes_collide",
         "reads_before_all_arrive"]  # fmt: skip


@pytest.mark.parametrize("case", TOLERANCES)
def test_right_kernel_gives_right_numbers_and_no_findings(interpreted, case):
    outcome = interpreted["real"][case]
    assert "error_norm" in outcome, outcome
    assert outcome["error_norm"] <= TOLERANCES[case]
    assert outcome["finite"] and outcome["races"] == [] and outcome["unwritten"] == []


def test_plain_dot_on_fp32_shows_the_truncation_bias_and_rounding_cures_it(interpreted):
    """All operands are positive, so truncation is a bias that no averaging hides."""
    truncated = interpreted["real"]["matmul_tf32"]["error_norm"]
    rounded = interpreted["real"]["matmul_tf32_rounded"]["error_norm"]
    assert truncated > 10 * rounded > 0


@pytest.mark.parametrize("case", FAULTS)
def test_fault_is_named_with_its_line(interpreted, fault_lines, case):
    kind, words = FAULTS[case]
    fault = interpreted["faulty"][case]["fault"]
    assert fault["kind"] == kind
    assert words in fault["message"]
    assert f"line {fault_lines[case]}" in fault["where"].split(", ")


def test_out_of_bounds_names_argument_and_program(interpreted):
    fault = interpreted["faulty"]["store_past_end"]["fault"]
    assert "argument 'out_ptr'" in fault["where"] and "program (2, 0, 0)" in fault["where"]
    assert fault["where"].endswith(", BLOCK=64"), "the constants of the launch that failed"
    assert "1 of 64 lanes" in fault["message"] and fault["cure"]


@pytest.mark.parametrize("case", RACES)
def test_race_is_found_at_its_line(interpreted, fault_lines, case):
    first = interpreted["faulty"][case]["races"][0]
    assert first["kind"] == "write_race"
    assert f"line {fault_lines[case]}" in first["where"].split(", ")


def test_unwritten_elements_are_counted_exactly(interpreted):
    for case, count, index in (("off_by_one_mask", 1, 129), ("uncovered", 2, 128)):
        (finding,) = interpreted["faulty"][case]["unwritten"]
        assert finding["kind"] == "unwritten_output"
        assert finding["message"].startswith(f"{count} of 130 elements") and f"[{index}]" in finding["message"]
        assert not interpreted["faulty"][case]["finite"], "unwritten memory must not look like numbers"


def test_masked_off_lanes_without_other_spoil_a_maximum(interpreted):
    """A NaN alone would lose against any number; an undefined value may be larger than all of them."""
    assert not interpreted["faulty"]["max_of_undefined"]["finite"]


def test_launcher_refuses_what_the_gpu_would_refuse(interpreted):
    assert "num_warp was specified but unrecognised" in interpreted["faulty"]["unknown_option"]["error"]
    assert "65535" in interpreted["faulty"]["huge_grid"]["fault"]["message"]


def test_autotune_runs_the_first_configuration_and_records_all(interpreted):
    (launch,) = interpreted["real"]["tuned"]["launches"]
    assert launch["constexprs"] == {"BLOCK": 256} and launch["options"]["num_warps"] == 2
    assert [config["BLOCK"] for config in launch["configs"]] == [256, 1024]


def test_every_case_of_the_candidates_is_tested():
    for file in ("pointwise.py", "rows.py", "matmuls.py", "launching.py", "shuffling.py", "python.py"):
        spec = importlib.util.spec_from_file_location(f"listed_{file[:-3]}", CASES / file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert set(module.CASES) - {"shared_memory_hog"} <= set(TOLERANCES)
        assert all(math.isfinite(TOLERANCES[name]) for name in module.CASES if name in TOLERANCES)
