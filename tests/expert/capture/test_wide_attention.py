"""Attention over heads that no kernel holds whole is written out. Run by PyTorch."""

import pytest
import torch

from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.capture.wide_attention import LARGEST_HEAD, write_out_wide_attention
from egg_graph.expert.playbooks.planner import make_plan
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from tests.expert.references import module


def attention(width: int, options: str = "") -> str:
    return module(
        f"return F.scaled_dot_product_attention(x, y, z{options})", arguments="x, y, z",
        inputs="torch.randn(B, 3, T, D), torch.randn(B, 3, T + 5, D), torch.randn(B, 3, T + 5, 24)",
        sizes=f"B, T, D = 2, 12, {width}",
    )  # fmt: skip


def test_wide_heads_are_written_out_at_every_shape():
    graph = write_out_wide_attention(export_graph(attention(LARGEST_HEAD + 64, ", scale=0.3"), "ieee"))
    plain = write_out_wide_attention(export_graph(attention(LARGEST_HEAD + 64), "ieee"))
    assert [group.playbook for group in make_plan(plain, PLAYBOOKS).groups.values()] == ["gemm", "row", "gemm"]
    for written, scale in ((graph, 0.3), (plain, None)):
        assert len(written.proofs) == 1
        for capture in range(len(written.knobs[:3])):
            values = {p.name: torch.randn(p.shapes[capture], dtype=torch.float64) for p in written.placeholders}
            expected = torch.nn.functional.scaled_dot_product_attention(*values.values(), scale=scale)
            for node in written.nodes:
                args = [of(arg, values, capture) for arg in node.args]
                _, name, overload = node.op.split(".")
                values[node.name] = getattr(getattr(torch.ops.aten, name), overload)(*args)
                assert values[node.name].shape == node.shapes[capture], node
            torch.testing.assert_close(values[written.nodes[-1].name], expected)


def of(arg, values, capture):
    """An argument of a node in one capture."""
    if not isinstance(arg, dict):
        return arg
    return values[arg["node"]] if "node" in arg else arg["floats"][capture]


@pytest.mark.parametrize(("width", "options"), [(LARGEST_HEAD, ""), (LARGEST_HEAD + 64, ", is_causal=True")])
def test_others_stay_one_operator(width, options):
    graph = export_graph(attention(width, options), "ieee")
    assert write_out_wide_attention(graph) is graph
