"""An average pooling passes through a convolution into its filter. Graphs by hand, run by PyTorch."""

import itertools
from typing import Any

import pytest
import torch

from egg_graph.expert.capture.average import join_averages
from egg_graph.expert.capture.fold_pooling import fold_pooled_convolutions
from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder

F64 = torch.float64


def of(name: str) -> dict[str, str]:
    return {"node": name}


def graph(*calls: tuple[str, str, tuple[Any, ...]], **tensors: tuple[int, ...]) -> CapturedGraph:
    """Make a graph of (name, operator, arguments) over tensors of these shapes, captured at one shape."""
    values = {name: torch.zeros(shape, dtype=F64) for name, shape in tensors.items()}
    given = [
        Placeholder(name=n, kind="input", target=n, shapes=(tuple(v.shape),), dtype="float32", stride=v.stride())
        for n, v in values.items()
    ]
    nodes = []
    for name, op, args in calls:
        value = values[name] = call(f"aten.{op}", args, values)
        shapes = (tuple(value.shape),)
        nodes.append(Node(name=name, op=f"aten.{op}", args=args, shapes=shapes, dtype="float32", stride=value.stride()))
    return CapturedGraph(placeholders=tuple(given), nodes=tuple(nodes), outputs=of(calls[-1][0]))


def call(op: str, args: tuple[Any, ...], values: dict[str, torch.Tensor]) -> torch.Tensor:
    _, name, overload = op.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)(
        *(values[a["node"]] if isinstance(a, dict) else a for a in args)
    )


def run(captured: CapturedGraph, values: dict[str, torch.Tensor]) -> torch.Tensor:
    """Compute the graph in fp64."""
    values = dict(values)
    for node in captured.nodes:
        values[node.name] = call(node.op, node.args, values)
        assert tuple(values[node.name].shape) == node.shape, node
    return values[captured.nodes[-1].name]


def random(captured: CapturedGraph) -> dict[str, torch.Tensor]:
    return {p.name: torch.randn(p.shape, dtype=F64) for p in captured.placeholders}


def layer(rank: int, transposed: bool, *numbers: Any) -> tuple[str, str, tuple[Any, ...]]:
    op = f"conv_transpose{rank}d.{'input' if rank > 1 else 'default'}" if transposed else f"conv{rank}d.default"
    return ("y", op, (of("x"), of("w"), of("b"), *numbers))


def pool(rank: int, source: str, *numbers: Any) -> tuple[str, str, tuple[Any, ...]]:
    return ("end", f"avg_pool{rank}d.default", (of(source), *numbers))


PLAIN = [(k, p, q, r) for k, p, q, r in itertools.product((1, 2, 3, 5), (0, 1, 2), (2, 3, 4), (1, 2, 4)) if p < k]
TRANSPOSED = [
    (k, s, p, o, q, m)
    for k, s, p, o, q, m in itertools.product((1, 2, 3, 4, 5), (1, 2, 3), (0, 1, 2), (0, 1), (1, 2, 3, 4), (1, 2))
    if p < k + 1 and o < s and 10 * s - 2 * p + k + o >= q
]


@pytest.fixture
def always_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egg_graph.expert.capture.fold_pooling._Fold.pays", lambda self: True)


def test_a_line_of_any_length_is_folded(always_pays: None) -> None:
    for i, (k, p, q, r) in enumerate(PLAIN):
        made = graph(layer(1, False, [1], [p]), pool(1, "y", [q], [r]), x=(2, 3, 17 + i % 4), w=(4, 3, k), b=(4,))
        after = fold_pooled_convolutions(made)
        assert [node.base for node in after.nodes][-1] == "conv1d" and len(after.proofs) == 1
        values = random(made)
        torch.testing.assert_close(run(after, values), run(made, values), msg=f"{k, p, q, r}")


def test_a_transposed_line_of_any_length_is_folded(always_pays: None) -> None:
    for i, (k, s, p, o, q, m) in enumerate(TRANSPOSED):
        numbers = ([s], [p], [o])
        sizes = {"x": (1, 2, 11 + i % 4), "w": (2, 3, k), "b": (3,)}
        made = graph(layer(1, True, *numbers), pool(1, "y", [q], [s * m]), **sizes)
        after = fold_pooled_convolutions(made)
        if q < s and after is made:  # between windows apart, every tap may be lost
            continue
        assert after.nodes[-1].base == "conv1d", (k, s, p, o, q, m)
        values = random(made)
        torch.testing.assert_close(run(after, values), run(made, values), msg=f"{k, s, p, o, q, m}")


CASES = {
    "a plane, the steps between in either order": graph(
        layer(2, False, [1, 1], [1, 0]),
        ("s", "sub.Tensor", (of("v"), of("y"))),
        ("t", "mul.Tensor", (of("s"), of("one"))),
        ("u", "add.Tensor", (of("t"), 0.25)),
        pool(2, "u", [4, 2], [4, 2]),
        x=(2, 3, 39, 27), w=(5, 3, 3, 2), b=(5,), v=(5, 1, 1), one=(),
    ),
    "one tap": graph(
        layer(2, False), ("s", "add.Tensor", (of("y"), of("v"))), pool(2, "s", [3, 2], [2, 2]),
        x=(2, 3, 40, 27), w=(5, 3, 1, 1), b=(5,), v=(5, 1, 1),
    ),
    "a transposed volume": graph(
        layer(3, True, [2, 2, 2], [1, 1, 1]),
        ("s", "div.Tensor", (of("y"), of("v"))),
        pool(3, "s", [2, 2, 2]),
        x=(2, 3, 8, 11, 7), w=(3, 4, 3, 3, 3), b=(4,), v=(1, 4, 1, 1, 1),
    ),
    "sides that differ": graph(
        layer(2, True, [3, 2], [0, 2], [1, 1]), pool(2, "y", [4, 5], [6, 2]),
        x=(2, 3, 22, 23), w=(3, 4, 5, 4), b=(4,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_fold_computes_the_same_after_the_filter_changed(name: str) -> None:
    before = CASES[name]
    after = fold_pooled_convolutions(before)
    assert "conv_transpose" not in str([n.base for n in after.nodes]) and len(after.proofs) == 1
    values = random(before)
    torch.testing.assert_close(run(after, values), run(before, values))
    values["w"].mul_(-2).add_(0.5)
    torch.testing.assert_close(run(after, values), run(before, values))


PLANE = {"x": (2, 3, 40, 40), "w": (4, 3, 3, 3), "b": (4,)}
NO_FOLD = {
    "not_linear": graph(layer(2, False), ("s", "relu.default", (of("y"),)), pool(2, "s", [2, 2]), **PLANE),
    "a_value_for_each_place": graph(
        layer(2, False), ("s", "add.Tensor", (of("y"), of("v"))), pool(2, "s", [2, 2]), **PLANE, v=(38, 38)
    ),
    "divided_into": graph(
        layer(2, False), ("s", "div.Tensor", (of("v"), of("y"))), pool(2, "s", [2, 2]), **PLANE, v=()
    ),
    "its_own_factor": graph(
        layer(2, False), ("s", "mul.Tensor", (of("y"), of("y"))), pool(2, "s", [2, 2]), **PLANE
    ),
    "padded": graph(layer(2, False), pool(2, "y", [2, 2], [2, 2], [1, 1]), **PLANE),
    "beyond_the_end": graph(layer(2, False), pool(2, "y", [3, 3], [3, 3], [0, 0], True), **PLANE),
    "strided": graph(layer(2, False, [2, 2]), pool(2, "y", [2, 2]), **PLANE),
    "more_products": graph(layer(2, False), pool(2, "y", [3, 3], [1, 1]), **PLANE),
    "more_to_average": graph(
        layer(2, False), pool(2, "y", [2, 2]), x=(2, 20, 40, 40), w=(4, 20, 1, 1), b=(4,)
    ),
    "read_elsewhere": graph(
        layer(2, False), pool(2, "y", [2, 2]), ("last", "sum.default", (of("y"),)), **PLANE
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FOLD)
def test_what_is_no_convolution_or_does_not_pay_is_left_alone(name: str) -> None:
    assert fold_pooled_convolutions(NO_FOLD[name]) is NO_FOLD[name]


def test_an_average_of_averages_is_one() -> None:
    for size, (q, apart) in itertools.product((12, 13, 14, 17), ((2, 2), (3, 1), (2, 3))):
        made = graph(
            ("first", "avg_pool2d.default", (of("x"), [2, 3])), pool(2, "first", [q, q], [apart, apart]),
            x=(1, 2, size, size + 5),
        )  # fmt: skip
        after = join_averages(made)
        assert len(after.nodes) == 1 and len(after.proofs) == 1
        values = random(made)
        torch.testing.assert_close(run(after, values), run(made, values))
    overlapping = graph(
        ("first", "avg_pool1d.default", (of("x"), [3], [2])), pool(1, "first", [2]), x=(1, 2, 17)
    )  # fmt: skip
    assert join_averages(overlapping) is overlapping
