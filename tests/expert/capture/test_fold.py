"""A sum over the output features of a linear layer passes through the product. Graphs by hand, run by PyTorch."""

from typing import Any

import pytest
import torch

from egg_graph.expert.capture.fold import fold_feature_sums
from egg_graph.expert.capture.fold_activation import join_mish
from egg_graph.expert.capture.fold_average import fold_feature_averages
from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder
from egg_graph.expert.playbooks.planner import make_plan
from egg_graph.expert.playbooks.registry import PLAYBOOKS

SIZES = ((256, 96, 192), (64, 32, 48))
"""Rows, inner extent and features of each capture."""


def of(name: str) -> dict[str, str]:
    return {"node": name}


def tensor(target: str, *dims: int) -> Placeholder:
    shapes = tuple(tuple(sizes[d] for d in dims) for sizes in SIZES)
    stride = (shapes[0][1], 1) if len(dims) == 2 else (1,)
    return Placeholder(name=target, kind="input", target=target, shapes=shapes, dtype="float32", stride=stride)


def graph(*calls: tuple[Any, ...], returned: str = "end") -> CapturedGraph:
    """Make a graph of (name, operator, arguments, dimensions) over x [M, K], w [N, K], b [N] and v [N]."""
    nodes = []
    for name, op, args, dims in calls:
        shapes = tuple(tuple(sizes[d] if d >= 0 else 1 for d in dims) for sizes in SIZES)
        nodes.append(
            Node(name=name, op=f"aten.{op}", args=args, shapes=shapes, dtype="float32", stride=(1,) * len(dims))
        )
    tensors = (tensor("x", 0, 1), tensor("w", 2, 1), tensor("b", 2), tensor("v", 2), tensor("r", 0, 2))
    return CapturedGraph(placeholders=tensors, nodes=tuple(nodes), outputs=of(returned))


def run(captured: CapturedGraph, capture: int) -> torch.Tensor:
    """Compute the graph at one capture's shape, in fp64."""
    torch.manual_seed(capture)
    values = {p.name: torch.randn(p.shapes[capture], dtype=torch.float64) for p in captured.placeholders}
    for node in captured.nodes:
        args = [values[str(a["node"])] if isinstance(a, dict) else a for a in node.args]
        _, name, overload = node.op.split(".")
        values[node.name] = getattr(getattr(torch.ops.aten, name), overload)(*args)
        assert tuple(values[node.name].shape) == node.shapes[capture]
    return values[captured.outputs["node"]]  # type: ignore[index, call-overload]


LINEAR = ("y", "linear.default", (of("x"), of("w"), of("b")), (0, 2))
CHAINS = {
    "sum": (LINEAR, ("end", "sum.dim_IntList", (of("y"), [1], True), (0, -1))),
    "shifted_mean": (
        LINEAR,
        ("s", "sub.Tensor", (of("y"), of("v")), (0, 2)),
        ("t", "mul.Tensor", (of("s"), 1.5), (0, 2)),
        ("u", "add.Tensor", (of("t"), 0.25), (0, 2)),
        ("end", "mean.dim", (of("u"), [-1]), (0,)),
    ),
    "transposed_operand": (
        ("wt", "permute.default", (of("w"), [1, 0]), (1, 2)),
        ("y", "matmul.default", (of("x"), of("wt")), (0, 2)),
        ("h", "div.Tensor", (of("y"), 2), (0, 2)),
        ("end", "sum.dim_IntList", (of("h"), [1], True), (0, -1)),
    ),
    "late_bias": (
        ("y", "linear.default", (of("x"), of("w")), (0, 2)),
        ("s", "sub.Tensor", (of("y"), of("v")), (0, 2)),
        ("end", "sum.dim_IntList", (of("s"), [1]), (0,)),
    ),
}
NO_FOLD = {
    "not_linear": (
        LINEAR,
        ("s", "sigmoid.default", (of("y"),), (0, 2)),
        ("end", "sum.dim_IntList", (of("s"), [1]), (0,)),
    ),
    "over_rows": (LINEAR, ("end", "sum.dim_IntList", (of("y"), [0]), (2,))),
    "read_elsewhere": (
        LINEAR,
        ("s", "sum.dim_IntList", (of("y"), [1], True), (0, -1)),
        ("end", "sub.Tensor", (of("y"), of("s")), (0, 2)),
    ),
    "a_value_for_each_element": (
        LINEAR,
        ("s", "add.Tensor", (of("y"), of("r")), (0, 2)),
        ("end", "sum.dim_IntList", (of("s"), [1]), (0,)),
    ),
    "a_number_that_counts_features": (
        ("y", "linear.default", (of("x"), of("w")), (0, 2)),
        ("s", "add.Tensor", (of("y"), 1.0), (0, 2)),
        ("end", "sum.dim_IntList", (of("s"), [1]), (0,)),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_fold_computes_the_same_without_a_product(name: str) -> None:
    before = graph(*CHAINS[name])
    after = fold_feature_sums(before)
    assert not {node.base for node in after.nodes} & {"linear", "matmul", "permute"} and len(after.proofs) == 1
    for capture in range(len(SIZES)):
        torch.testing.assert_close(run(after, capture), run(before, capture))
    plan = make_plan(after, PLAYBOOKS)
    assert not plan.left and plan.groups["row"].nodes[0] == "end_product", "the rows of x are read once, never written"


@pytest.mark.parametrize("name", NO_FOLD)
def test_what_is_not_linear_or_is_needed_elsewhere_is_left_alone(name: str) -> None:
    captured = graph(*NO_FOLD[name])
    assert fold_feature_sums(captured) is captured


def pooled(*sizes: int) -> CapturedGraph:
    """Windows of the features behind the layer, averaged; the last, which is not full, is left out."""
    shapes = tuple((m, 1, n) for m, _, n in SIZES)
    view = Node(name="v1", op="aten.unsqueeze.default", args=(of("y"), 1), shapes=shapes, dtype="float32")
    counts = tuple((m, 1, n // sizes[0]) for m, _, n in SIZES)
    pool = Node(name="end", op="aten.avg_pool1d.default", args=(of("v1"), *([n] for n in sizes)), shapes=counts)
    linear = graph(LINEAR, returned="end")
    return CapturedGraph(
        placeholders=linear.placeholders, nodes=(*linear.nodes, view, pool), outputs=linear.outputs
    )  # fmt: skip


def test_an_average_of_features_makes_a_smaller_product() -> None:
    before = pooled(5, 5)
    after = fold_feature_averages(before)
    assert [node.of_sums for node in after.nodes if node.base == "linear"] == [True], "one rounding stands for many"
    (linear,) = (node for node in after.nodes if node.base == "linear")
    assert linear.shape == (256, 192 // 5) and "avg_pool1d" not in {node.base for node in after.nodes}
    for capture in range(len(SIZES)):
        torch.testing.assert_close(run(after, capture), run(before, capture))
    overlapping = pooled(5, 2)
    assert fold_feature_averages(overlapping) is overlapping


def chain(*softplus: Any, factors: tuple[str, str] = ("x", "t"), returned: str = "end") -> CapturedGraph:
    """Make the graph of x tanh(softplus(x)), or of what differs a little."""
    rows = (0, 1)
    return graph(
        ("s", "softplus.default", (of("x"), *softplus), rows),
        ("t", "tanh.default", (of("s"),), rows),
        ("end", "mul.Tensor", tuple(of(name) for name in factors), rows),
        returned=returned,
    )


@pytest.mark.parametrize("captured", [chain(), chain(1.0, 20.0, factors=("t", "x"))])
def test_a_chain_that_is_mish_becomes_mish(captured: CapturedGraph) -> None:
    joined = join_mish(captured)
    assert [node.op for node in joined.nodes] == ["aten.mish.default"] and len(joined.proofs) == 1
    torch.testing.assert_close(run(joined, 0), run(captured, 0), atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("captured", [chain(2.0), chain(1.0, 5.0), chain(returned="t"), chain(factors=("s", "t"))])
def test_a_chain_that_is_nearly_mish_is_left_alone(captured: CapturedGraph) -> None:
    assert join_mish(captured) is captured
