"""The workloads that ship: references in KernelBench's form that run, here at small sizes, under the policies."""

import ast

import pytest
import torch

from egg_graph.bench import find_problems
from egg_graph.bench.classes import ELEMENTWISE

SMALL = {
    "BATCH": 2, "QUERY_HEADS": 4, "KEY_HEADS": 2, "TOKENS": 6, "CACHED": 10, "HEAD_DIM": 8, "HIDDEN": 16, "INNER": 24,
    "EXPERTS": 8, "CHOSEN": 2, "VOCABULARY": 50, "SLOTS": 12, "INPUT": 16, "OUTPUT": 20, "GROUP": 8,
}  # fmt: skip
"""Sizes for a CPU, by the names that all workloads share."""
CLASSES = {
    "attention_decode": "attention",
    "attention_prefill": "attention",
    "cross_entropy": "loss",
    "int4_linear": "matrix product",
    "kv_cache_write": "gather and scatter",
    "moe_gate": "matrix product",
    "residual_rms_norm": "normalization",
    "rms_norm": "normalization",
    "rotary_embedding": ELEMENTWISE,
    "swiglu": ELEMENTWISE,
}
WORKLOADS = find_problems("workloads")


def test_the_workloads_and_their_classes():
    assert {problem.name: problem.operator_class for problem in WORKLOADS} == CLASSES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("problem", WORKLOADS, ids=lambda problem: problem.name)
def test_a_workload_runs_and_leaves_its_inputs_alone(problem, dtype):
    module = at_small_size(problem.path.read_text())
    torch.manual_seed(0)
    model = module["Model"](*module["get_init_inputs"]()).to(dtype)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in module["get_inputs"]()]
    before = [x.clone() for x in inputs]
    outputs = model(*inputs)
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        assert output.numel() and (not output.is_floating_point() or output.isfinite().all())
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


def at_small_size(source):
    """The module of a reference, with its integers replaced."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(SMALL[node.targets[0].id])
    module = {}
    exec(compile(ast.fix_missing_locations(tree), "<workload>", "exec"), module)
    return module


def test_int4_weights_are_unpacked_as_they_are_stored():
    """Low four bits first, minus eight, times the scale of the group."""
    module = at_small_size(next(p.path for p in WORKLOADS if p.name == "int4_linear").read_text())
    model = module["Model"](16, 20, 8)
    x = torch.randn(6, 16)
    weight = torch.empty(20, 16)
    for row in range(20):
        for column in range(16):
            byte = int(model.packed[row, column // 2])
            four = byte >> 4 if column % 2 else byte & 15
            weight[row, column] = (four - 8) * model.scale[row, column // 8]
    torch.testing.assert_close(model(x), x @ weight.T)
