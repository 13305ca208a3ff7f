"""Which large products are left to the library, from the times expected of it and of our own kernel."""

from math import prod
from typing import Any

import pytest

from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder
from egg_graph.expert.playbooks.planner import expectations, make_plan, plan_seed
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from egg_graph.schema import Hardware


def tensor(name: str, *shape: int, turned: bool = False) -> dict[str, Any]:
    stride = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    if turned:
        stride = (*stride[:-2], 1, shape[-2])
    return {"name": name, "shapes": (shape,), "dtype": "float32", "stride": stride}


def product(m: int, n: int, k: int, tail: tuple[str, ...] = (), turned: bool = False) -> CapturedGraph:
    """a [M, K] times b [K, N], with one-operand operators behind it."""
    operands = tensor("a", m, k, turned=turned), tensor("b", k, n)
    named = tuple(Placeholder(**o, kind="input", target=o["name"]) for o in operands)
    nodes = [Node(**tensor("ab", m, n), op="aten.matmul.default", args=({"node": "a"}, {"node": "b"}))]
    for i, op in enumerate(tail):
        reduces = op.startswith("sum")
        args = ({"node": nodes[-1].name}, *(([1], True) if reduces else ()))
        nodes.append(Node(**tensor(f"tail_{i}", m, 1 if reduces else n), op=f"aten.{op}", args=args))
    return CapturedGraph(placeholders=named, nodes=tuple(nodes), outputs={"node": nodes[-1].name})


LARGE = (1024, 8192, 8192)
RELU, SIGMOID, SUM = "relu.default", "sigmoid.default", "sum.dim_IntList"


def seed(graph: CapturedGraph, target: Hardware, precision: Any = "tf32", library: bool = True) -> tuple[Any, ...]:
    plan = plan_seed(graph, PLAYBOOKS, precision, target, library)
    return tuple(f"{group.playbook}/{group.variant}".strip("/") for group in plan.groups.values())


@pytest.mark.parametrize(
    ("tail", "written"),
    [
        ((RELU,), ("pointwise",)),
        ((SIGMOID, RELU, SUM), ("row/whole",)),  # all of the tail in one kernel, which reads the product once
        ((), ("gemm/tma",)),  # nothing would be left: our own kernel is written
    ],
)
def test_a_large_product_is_the_librarys_where_a_tail_is_left(h200: Hardware, tail: Any, written: Any) -> None:
    assert seed(product(*LARGE, tail), h200) == written


def test_where_nothing_was_measured_or_nothing_may_be_left_the_product_is_ours(h200: Hardware) -> None:
    graph = product(*LARGE, (RELU,))
    assert seed(graph, h200, library=False) == ("gemm/tma",)
    assert seed(graph, h200, "bf16") == ("gemm/tma",)
    assert seed(graph, h200.model_copy(update={"arch": "sm_100"})) == ("gemm/tma",)
    assert seed(product(1024, 8192, 512, (RELU,)), h200) == ("gemm/tma",)


def test_a_product_whose_large_tiles_leave_most_multiprocessors_idle_begins_with_small_ones(h200: Hardware) -> None:
    assert seed(product(1024, 1024, 1024, (RELU,)), h200) == ("gemm/pointer",)


@pytest.mark.parametrize(
    ("graph", "measured"),
    [
        (product(8205, 5921, 2949), 0.91 / 2.407),  # rows that are no multiple of 16 bytes
        (product(2048, 1, 1048576), 2.087 / 2.309),  # a matrix times a vector
        (product(2048, 4096, 8192, turned=True), 0.6046 / 0.540),
        (product(2048, 4096, 8192), 0.5187 / 0.365),
        (product(256, 256, 524288), 0.6078 / 0.365),
        (product(32768, 32768, 64), 1.892 / 1.389),
    ],
)
def test_expected_times_have_the_measured_ratio(h200: Hardware, graph: CapturedGraph, measured: float) -> None:
    groups = make_plan(graph, PLAYBOOKS).groups
    (expected,) = expectations(graph, groups, PLAYBOOKS, "tf32", h200).values()
    assert expected.own_ms / expected.library_ms == pytest.approx(measured, rel=0.2)
    assert expected.library_wins == (measured > 1) and expected.hopeless == (measured > 1.2)
