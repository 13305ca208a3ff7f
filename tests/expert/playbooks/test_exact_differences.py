"""Where products lose their largest, the compiler is told to round the products first; elsewhere it may fuse."""

import pytest

from egg_graph.expert.playbooks.planner import make_plan, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from tests.expert.playbooks.cases import module, wide_row
from tests.expert.playbooks.test_match import capture
from tests.sample import in_sample

pytestmark = pytest.mark.slow

ROWS = {"sizes": "R, N = 64, 1000", "inputs": "torch.randn(R, N)"}
PIXELS = {"sizes": "B, C, H = 4, 40, 128", "inputs": "torch.randn(B, C, H, H)"}
UNFUSED = "enable_fp_fusion=False"


def launches(reference: str, variant: str = "") -> tuple[int, int]:
    """How many kernels a reference's module launches, and at how many launches nothing is fused."""
    plan = make_plan(graph := capture(reference), PLAYBOOKS)
    if variant:
        plan = make_plan(graph, PLAYBOOKS, dict.fromkeys(plan.groups, variant))
    text = "\n".join(code.source for code in write_kernels(plan, PLAYBOOKS, "tf32").values())
    return text.count("num_warps="), text.count(UNFUSED)


SCALED = [
    module("return torch.softmax(0.3 * x, dim=1)", **ROWS),
    module("y = 0.3 * x; return torch.exp(y - y.amax(dim=1, keepdim=True))", **ROWS),
    module("return torch.log_softmax(x * 0.3 + 1.0, dim=1)", **ROWS),
    module("return torch.logsumexp(0.3 * x, dim=1)", **ROWS),
    module("return torch.softmax(0.3 * x, dim=1)", **PIXELS),
]


@pytest.mark.parametrize("reference", in_sample(SCALED, SCALED[:2]))
def test_products_are_rounded_before_their_largest_is_taken_off(reference: str) -> None:
    kernels, unfused = launches(reference)
    assert kernels == unfused == 1


def test_a_row_cut_into_pieces_is_rounded_alike_in_both_of_its_kernels() -> None:
    assert launches(wide_row("return torch.softmax(0.3 * x, dim=1)"), "split")[1] == 2


@pytest.mark.parametrize(
    "body", ["return torch.softmax(x, dim=1)", "return x * x.amax(dim=1, keepdim=True) - x.sum(dim=1, keepdim=True)"]
)
def test_what_is_read_from_memory_is_rounded_already(body: str) -> None:
    assert launches(module(body, **ROWS))[1] == 0
