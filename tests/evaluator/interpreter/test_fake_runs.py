"""Fake runs: counts at full shape equal closed forms, launches carry the launcher's specialisation."""

import pytest

from egg_graph.evaluator.wire.launches import FakeRun, Launch, decode_constant, encode_constant

pytestmark = pytest.mark.slow

N = 2048


def run_of(interpreted, case) -> FakeRun:
    outcome = interpreted["fake"][case]
    assert "launches" in outcome, outcome
    return FakeRun.model_validate(outcome)


def test_matmul_counts_equal_closed_forms(interpreted):
    (launch,) = run_of(interpreted, "matmul").launches
    assert launch.grid == (N // 64, N // 64, 1) and launch.executed == 6
    assert launch.load_bytes == (N // 64) ** 2 * (N // 32) * 2 * 64 * 32 * 4
    assert launch.store_bytes == N * N * 4
    assert launch.dot_flops == launch.least_dot_flops == {"fp32/tf32": 2 * N**3}
    assert launch.compulsory_bytes == 3 * N * N * 4


def test_softmax_counts_equal_closed_forms_without_memory(interpreted):
    run = run_of(interpreted, "softmax_wide")
    (launch,) = run.launches
    assert launch.load_bytes == launch.store_bytes == 4096 * 393216 * 4
    assert launch.compulsory_bytes == 2 * 4096 * 393216 * 4
    assert run.outputs == ("float32[4096, 393216]",) and run.triton_share == 1.0


def test_a_loop_variable_is_a_scalar_tensor_that_can_be_widened(interpreted):
    (launch,) = run_of(interpreted, "persistent").launches
    assert launch.load_bytes == pytest.approx(12 * 512 * 4) and launch.programs == launch.executed == 3


def test_descriptor_loads_are_counted_as_pointer_loads_are(interpreted):
    for case, block_n in (("host_descriptor", 32), ("device_descriptor", 64)):
        (launch,) = run_of(interpreted, case).launches
        tiles = (1024 // 64) * (512 // block_n)
        assert sum(launch.dot_flops.values()) == pytest.approx(2 * 1024 * 512 * 512, rel=0.2)
        assert launch.load_bytes == pytest.approx(tiles * 16 * (64 + block_n) * 32 * 4, rel=0.2)


def test_a_persistent_kernel_is_bounded_by_its_true_work(interpreted):
    (launch,) = run_of(interpreted, "host_descriptor").launches
    assert launch.executed < launch.programs == 132 < 256  # tiles: some programs take two, the others one
    (least,) = launch.least_dot_flops.values()
    assert least == 2 * 1024 * 512 * 512
    assert launch.compulsory_bytes == 4 * (1024 * 512 + 512 * 512 + 1024 * 512)


def test_a_launch_that_differs_in_its_tensors_alone_is_sampled_once_and_counted_each_time(interpreted):
    run = run_of(interpreted, "in_slices")
    first, *others = run.launches
    assert len(others) == 3 and max(launch.seconds for launch in others) < first.seconds / 3
    for launch in run.launches:
        assert launch.load_bytes == launch.store_bytes == 2**20 and launch.executed == 2
    assert {(reach.tensor, reach.most) for reach in run.reaches} == {("input", 2**22), ("output", 2**22)}


def test_a_launch_that_would_reach_out_of_its_own_tensor_is_told_though_one_like_it_did_not(interpreted, fault_lines):
    fault = interpreted["fake"]["last_slice"]["fault"]
    assert fault["kind"] == "out_of_bounds" and f"line {fault_lines['last_slice']}" in fault["where"]


def test_signature_is_the_launchers(interpreted):
    (launch,) = run_of(interpreted, "host_descriptor").launches
    assert launch.signature["a_desc"] == "tensordesc<fp32[64, 32]>"
    assert launch.signature["M"] == "i32" and launch.signature["BM"] == "constexpr"
    assert launch.options == {"num_warps": 4}
    (launch,) = run_of(interpreted, "misaligned").launches
    assert "n" not in launch.divisible_by_16 and "x_ptr" in launch.divisible_by_16
    assert launch.arguments["x_ptr"] == "float32[1000, 1001]"
    (launch,) = run_of(interpreted, "tuples").launches
    assert launch.signature["pointers"] == ["*fp32", "*fp32"]
    assert set(launch.divisible_by_16) == {"pointers.0", "pointers.1", "shape.0", "shape.1"}


def test_wrapper_sees_the_targets_properties(interpreted):
    (launch,) = run_of(interpreted, "host_descriptor").launches
    assert launch.programs == 132


def test_int32_overflow_is_found_at_full_shape(interpreted, fault_lines):
    fault = interpreted["fake"]["overflow"]["fault"]
    assert fault["kind"] == "out_of_bounds" and "computed in int32" in fault["message"]
    assert f"line {fault_lines['overflow']}" in fault["where"] and "int64" in fault["cure"]


def test_library_calls_are_recorded_and_views_are_free(interpreted):
    run = run_of(interpreted, "library")
    assert [call.name for call in run.library] == ["aten.clone", "aten.mm", "aten.copy_", "aten.sum"]
    product = run.library[1]
    assert product.flops == 2 * N**3 and product.bytes == 3 * N * N * 4
    own = 2 * N * N * 4
    assert run.triton_share == pytest.approx(own / (own + sum(call.bytes for call in run.library)))
    assert run.library[2].bytes == 2 * N * N * 4


def test_candidate_that_needs_values_is_not_called_faulty(interpreted):
    assert interpreted["fake"]["needs_values"]["error"].startswith("Unfakeable")


def test_launch_survives_json(interpreted):
    (launch,) = run_of(interpreted, "matmul").launches
    assert Launch.model_validate_json(launch.model_dump_json()) == launch


def test_constants_survive_json():
    def activation():
        pass

    value = (1, 2.5, "x", None, (True, activation))
    assert decode_constant(encode_constant(value), {"activation": activation}) == value
    with pytest.raises(TypeError, match="cannot be recorded"):
        encode_constant(object())
