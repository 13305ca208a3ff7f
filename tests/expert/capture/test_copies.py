"""Copies that change nothing, such as dropouts of probability 0, stand in no kernel's way."""

from egg_graph.expert.capture.copies import leave_copies_out
from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.playbooks.planner import make_plan
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from tests.expert.references import module

ATTENTION = module(
    "scores = (x @ y.transpose(-2, -1)) * D ** -0.5\n"
    "scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, float('-inf'))\n"
    "return self.dropout(torch.softmax(scores, -1)) @ z",
    init="self.dropout = nn.Dropout(0.0)\n"
    "self.register_buffer('bias', torch.tril(torch.ones(MOST, MOST)).view(1, 1, MOST, MOST))",
    arguments="x, y, z", inputs="torch.randn(B, 3, T, D), torch.randn(B, 3, T, D), torch.randn(B, 3, T, D)",
    sizes="B, T, D, MOST = 2, 48, 32, 64",
)  # fmt: skip


def bases(graph):
    return [node.base for node in graph.nodes]


def playbooks(graph):
    return [group.playbook for group in make_plan(graph, PLAYBOOKS).groups.values()]


def test_a_dropout_of_probability_0_parts_no_attention():
    captured = export_graph(ATTENTION, "ieee")
    assert "clone" in bases(captured) and "attention" not in playbooks(captured)
    graph = leave_copies_out(captured)
    assert "clone" not in bases(graph) and "attention" in playbooks(graph)
    assert len(graph.proofs) == 1


def test_copies_that_somebody_may_tell_from_their_source_stay():
    for body in ("y = torch.exp(x)\nreturn y, y.clone()", "return x.clone() * 2.0", "return x[1:].clone() * 2.0"):
        graph = export_graph(module(body, sizes="B, D = 4, 64", inputs="torch.randn(B, D)"), "ieee")
        assert "clone" in bases(graph)
        assert leave_copies_out(graph) is graph


def test_a_copy_in_another_order_stays():
    body = "return (torch.exp(x).t().contiguous() * 2.0).sum(0)"
    graph = export_graph(module(body, sizes="B, D = 4, 64", inputs="torch.randn(B, D)"), "ieee")
    assert leave_copies_out(graph) is graph
