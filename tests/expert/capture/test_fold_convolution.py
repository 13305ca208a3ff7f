"""A mean over spatial dimensions passes through the convolution before it. Graphs by hand, run by PyTorch in fp64."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from egg_graph.expert.capture.fold_convolution import fold_spatial_means
from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder
from egg_graph.expert.playbooks.planner import make_plan, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS

aten = torch.ops.aten
FULL = 128
"""Rows of each dimension at full shape, where the fold pays; it is computed at the smaller shapes alone."""


@dataclass(frozen=True)
class Case:
    """A convolution over x [B, C, *rows], its numbers by dimension, and the mean over `dims`."""

    op: str
    rows: tuple[tuple[int, ...], ...]
    """At the shapes that are computed; a second one is larger by two where it is missing."""
    numbers: tuple[Any, ...] = ()
    dims: tuple[int, ...] = (2, 3)
    taps: tuple[tuple[int, ...], ...] = ()
    """Of the filter, where they differ from 3; at full shape and at the others."""
    keep: bool = True
    mean: str = "mean.dim"
    steps: tuple[tuple[str, Any], ...] = ()
    bias: bool = True
    channels: int = 6
    """Of x at full shape."""


def graph(case: Case) -> CapturedGraph:
    """Make the graph with the shapes of tensors that hold nothing."""
    name = case.op.split(".")[0]
    rank = int(name[-2])
    small = case.rows if len(case.rows) > 1 else (*case.rows, tuple(n + 2 for n in case.rows[0]))
    sizes = ((4, case.channels, 4096, *(FULL,) * rank), *((2, 4, 5, *rows) for rows in small))
    taps = case.taps or ((3,) * rank,) * len(sizes)
    given: dict[str, list[tuple[int, ...]]] = {"x": [(s[0], s[1], *s[3:]) for s in sizes]}
    ends = [(s[1], s[2]) if "transpose" in name else (s[2], s[1]) for s in sizes]
    given["w"] = [(*channels, *each) for channels, each in zip(ends, taps, strict=True)]
    given["b"] = [(s[2],) for s in sizes]
    given["v"] = [(s[2], *(1,) * rank) for s in sizes]
    given["r"] = [(1, *(1,) * (rank - 1), s[-1]) for s in sizes]
    placeholders = tuple(
        Placeholder(name=n, kind="input", target=n, shapes=tuple(shapes), dtype="float32")
        for n, shapes in given.items()
    )
    calls = [("y", case.op, ({"node": "x"}, {"node": "w"}, {"node": "b"} if case.bias else None, *case.numbers))]
    for place, (op, other) in enumerate(case.steps):
        calls.append((f"s{place}", op, ({"node": calls[-1][0]}, {"node": other} if isinstance(other, str) else other)))
    calls.append(("end", case.mean, ({"node": calls[-1][0]}, list(case.dims), case.keep)))
    nodes: list[Node] = []
    tensors = [{n: torch.empty(s[i], device="meta") for n, s in given.items()} for i in range(len(sizes))]
    for n, op, args in calls:
        for held in tensors:
            held[n] = call(op, args, held)
        shapes = tuple(tuple(held[n].shape) for held in tensors)
        nodes.append(Node(name=n, op=f"aten.{op}", args=args, shapes=shapes, dtype="float32"))
    return CapturedGraph(placeholders=placeholders, nodes=tuple(nodes), outputs={"node": "end"})


def call(op: str, args: Any, held: dict[str, torch.Tensor], capture: int = 0) -> torch.Tensor:
    """Call an operator on named tensors and numbers."""

    def value(arg: Any) -> Any:
        if isinstance(arg, list):
            return [value(a) for a in arg]
        if isinstance(arg, dict):
            return held[arg["node"]] if "node" in arg else arg["sizes"][capture]
        return arg

    name, overload = op.removeprefix("aten.").split(".")
    return getattr(getattr(aten, name), overload)(*map(value, args))


def run(captured: CapturedGraph, capture: int) -> torch.Tensor:
    """Compute the graph at one capture's shape."""
    torch.manual_seed(capture)
    held = {p.name: torch.randn(p.shapes[capture], dtype=torch.float64) for p in captured.placeholders}
    for node in captured.nodes:
        held[node.name] = call(node.op, node.args, held, capture)
        assert tuple(held[node.name].shape) == node.shapes[capture], node.name
    return held["end"]


T1, T2, T3 = "conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"
C1, C2, C3 = "conv1d.default", "conv2d.default", "conv3d.default"
CASES = {
    "no_border": Case(T2, ((5, 7), (6, 4))),
    "matrix_product": Case(T2, ((5, 7),), ([2, 2], [1, 1]), channels=2048),
    "steps": Case(
        T2, ((5, 7),), keep=False,
        steps=(("mul.Tensor", 0.5), ("sub.Tensor", "v"), ("div.Tensor", 3.0), ("add.Tensor", 1.5)),
    ),
    "stride_and_output_padding": Case(T2, ((5, 7), (6, 4)), ([2, 2], [1, 1], [1, 1])),
    "two_dimensions_that_differ": Case(T2, ((5, 9),), ([3, 1], [2, 3], [1, 0], 1, [1, 2])),
    "dilation_that_skips_rows": Case(T1, ((11,), (8,)), ([2], [3], [0], 1, [3]), (2,)),
    "sum": Case(T1, ((9,),), ([1], [1]), (2,), mean="sum.dim_IntList", steps=(("add.Tensor", 2.0),), keep=False),
    "first_of_three": Case(T3, ((5, 4, 6), (6, 3, 3)), ([1, 1, 1], [1, 1, 1]), (2,)),
    "filters_that_grow": Case(
        T2, ((6, 4), (7, 5), (9, 4)), ([1, 1], [1, 1]), (2,), taps=((3, 3), (2, 2), (4, 3), (3, 3))
    ),
    "first_and_last": Case(T3, ((5, 4, 7),), ([2, 2, 1], [1, 0, 2], [1, 1, 0]), (2, 4), bias=False, keep=False),
    "last_of_two": Case(T2, ((4, 6),), ([2, 1], [1, 1]), (3,), steps=(("mul.Tensor", "v"),)),
    "plain": Case(C2, ((6, 7),), ([1, 1], [1, 1])),
    "plain_without_padding": Case(C2, ((8, 7),), steps=(("mul.Tensor", 2.0),), keep=False),
    "plain_wide": Case(C2, ((19, 20),), ([1, 1], [1, 3], [2, 3]), taps=((5, 4),) * 3),
    "plain_strides_where_it_stays": Case(C3, ((6, 7, 9),), ([1, 2, 3], [1, 1, 0]), (2,)),
    "plain_more_padding_than_taps": Case(C1, ((9,),), ([1], [4]), (2,)),
    "step_along_what_stays": Case(C2, ((7, 6),), ([1, 1], [1, 1]), (2,), steps=(("add.Tensor", "r"),)),
}  # fmt: skip
LEFT = {
    "plain_strides": Case(C2, ((9, 9),), ([2, 2],)),
    "groups": Case(T1, ((9,),), ([1], [0], [0], 2), (2,), bias=False),
    "step_that_varies": Case(C2, ((7, 6),), ([1, 1], [0, 1]), (3,), steps=(("add.Tensor", "r"),)),
    "curved": Case(T2, ((5, 7),), steps=(("pow.Tensor_Scalar", 2.0),)),
    "over_channels": Case(T2, ((5, 7),), dims=(1, 2)),
    "filters_that_grow": Case(C1, ((9,),), (), (2,), taps=((3,), (2,), (2,))),
    "ends_that_meet": Case(T2, ((1, 1),), ([1, 1], [1, 1])),
    "little_saved": Case(C1, ((70,),), (), (2,), taps=((33,),) * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_the_fold_computes_the_same(name: str) -> None:
    before = graph(CASES[name])
    after = fold_spatial_means(before)
    assert len(after.proofs) == 1
    assert not [n for n in after.nodes if n.numel[0] >= before["y"].numel[0]], "nothing of full size is left"
    for capture in range(1, len(before["x"].shapes)):
        torch.testing.assert_close(run(after, capture), run(before, capture))


@pytest.mark.parametrize(("name", "playbook"), [("first_of_three", "convolution"), ("matrix_product", "gemm")])
def test_sums_are_multiplied_with_all_digits(name: str, playbook: str) -> None:
    """Rounded once to TF32, a sum errs by one rounding; those of the reference's terms average out."""
    plan = make_plan(fold_spatial_means(graph(CASES[name])), PLAYBOOKS)
    dots = {}
    for precision in ("tf32", "ieee"):
        code = write_kernels(plan, PLAYBOOKS, precision)[playbook]
        assert "round_to_tf32" not in code.source
        dots[precision] = re.findall(r'input_precision="(\w+)"', code.source)
    assert dots == {"tf32": ["tf32x3"], "ieee": ["ieee"]}


@pytest.mark.parametrize("name", LEFT)
def test_what_does_not_pass_through_or_does_not_pay_is_left_alone(name: str) -> None:
    captured = graph(LEFT[name])
    assert fold_spatial_means(captured) is captured
