"""Ahead-of-time compilation: resources for three architectures, and the compiler's words where it refuses."""

import pytest

pytestmark = pytest.mark.slow

RESOURCES = [
    "softmax@sm_90", "softmax@sm_80", "softmax@gfx942", "matmul@sm_90", "matmul@sm_80", "matmul@gfx942",
    "matmul_rounded@sm_90", "matmul_bf16@sm_90", "host_descriptor@sm_90", "device_descriptor@sm_90", "tuned@sm_90",
    "tuples@sm_90", "by_property@sm_90", "aligned@sm_90", "misaligned@sm_90",
]  # fmt: skip


def resources(compiled, key):
    assert "resources" in compiled[key], compiled[key]
    return compiled[key]["resources"]


@pytest.mark.parametrize("key", RESOURCES)
def test_launch_compiles_with_plausible_resources(compiled, key):
    found = resources(compiled, key)
    assert found["target"] == key.partition("@")[2]
    assert 0 < found["registers"] <= 512 and found["spill_bytes"] == 0
    assert 0 < found["occupancy"] <= 1 and found["instructions"] > 10
    assert found["memory_instructions"]


def test_tensor_cores_are_counted_by_architecture(compiled):
    for key, name in (("matmul@sm_90", "HGMMA"), ("matmul@sm_80", "HMMA"), ("matmul@gfx942", "v_mfma")):
        assert any(op.startswith(name) for op in resources(compiled, key)["tensor_core_instructions"])
    assert resources(compiled, "softmax@sm_90")["tensor_core_instructions"] == {}


def test_descriptors_compile_to_bulk_loads(compiled):
    for case in ("host_descriptor", "device_descriptor"):
        assert resources(compiled, f"{case}@sm_90")["memory_instructions"].get("UTMALDG", 0) > 0


def test_alignment_decides_the_width_of_loads(compiled):
    """256 elements over 128 threads: two each, in one instruction where the addresses allow it."""
    assert resources(compiled, "aligned@sm_90")["memory_instructions"] == {"LDG.64": 2, "STG.64": 1}
    assert resources(compiled, "misaligned@sm_90")["memory_instructions"] == {"LDG.32": 4, "STG.32": 2}


def test_too_much_shared_memory_is_refused(compiled):
    fault = compiled["shared_memory_hog@sm_90"]["fault"]
    assert fault["kind"] == "shared_memory_exceeded"
    assert "393216 bytes" in fault["message"] and "232448" in fault["message"]
    assert "num_stages=4" in fault["where"] and fault["cure"]


def test_break_is_refused_with_its_line(compiled, fault_lines):
    fault = compiled["break_in_loop@sm_90"]["fault"]
    assert fault["kind"] == "unsupported_in_kernel" and "Break" in fault["message"]
    assert fault["where"].endswith(f"line {fault_lines['break_in_loop']}")
    assert "mask" in fault["cure"]


def test_missing_function_is_refused_in_the_function_that_calls_it(compiled, fault_lines):
    fault = compiled["no_such_function@sm_90"]["fault"]
    assert fault["kind"] == "kernel_compile_error" and "tanh" in fault["message"]
    assert fault["where"].endswith(f"line {fault_lines['no_such_function']}")


def test_inline_ptx_is_refused_on_amd(compiled):
    fault = compiled["matmul_rounded@gfx942"]["fault"]
    assert fault["kind"] == "kernel_compile_error" and "NVIDIA" in fault["cure"]
