"""A family's budget allows for what every right kernel loses there, and for no more; integers read on the host stay."""

import pytest
import torch

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.roundings import RoundedOtherwise
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask, Precision

REFERENCE = """import torch
from torch.nn import functional as F

ROWS, WIDTH = 48, 256


class Model(torch.nn.Module):
    def forward(self, x, y):
        return ANSWER


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.SECOND]
"""
LABELS = "randint(0, WIDTH, (ROWS,))"


def cases(answer: str, second: str, precision: Precision) -> tuple[Problem, dict[str, Case]]:
    source = REFERENCE.replace("ANSWER", answer).replace("SECOND", second)
    task = KernelTask(reference=source, name="n", target=load_hardware("h200"), precision=precision)
    problem = Problem(task, 1, torch.device("cpu"))
    return problem, {case.family: case for case in problem.family_cases("shrunk")}


@pytest.mark.parametrize(
    ("answer", "wide"),
    [("F.cross_entropy(x.float(), y)", True), ("torch.softmax(x.float() + 0 * y[:, None], -1)", False)],
)
def test_a_logarithm_of_exponentials_far_below_zero_may_be_rounded_beside_the_largest(answer: str, wide: bool) -> None:
    """The loss of logits about -30000 is about ten; half a unit in the last place of one of those is 1e-3."""
    sunk = cases(answer, LABELS, "ieee")[1]["sunk"].leaves[0]
    loss = float(sunk.expected.abs().mean())
    assert (sunk.budget * loss > 1e-3) == wide


@pytest.mark.parametrize(("precision", "wide"), [("fp16", True), ("bf16", False), ("ieee", False)])
def test_products_of_thousandths_have_few_bits_in_fp16_alone(precision: Precision, wide: bool) -> None:
    tiny = cases("x @ y", "randn(WIDTH, 16)", precision)[1]["tiny"].leaves[0]
    assert (tiny.budget > 0.02) == wide
    negated = cases("x @ y", "randn(WIDTH, 16)", precision)[1]["negated"].leaves[0]
    assert negated.budget < 0.02


def test_integers_that_the_reference_reads_on_the_host_are_not_moved() -> None:
    """A negative place in a list counts from its end, which no kernel need know."""
    read = "torch.stack([x[place] for place in y.tolist()])"
    problem, families = cases(read, "randint(0, ROWS, (ROWS,))", "ieee")
    assert "integers_negated" not in families
    assert "indices" in problem.dropped_families["shrunk"]["integers_negated"]
    assert "integers_negated" in cases("x + 2 * y[:, None]", "randint(0, ROWS, (ROWS,))", "ieee")[1]


@pytest.mark.parametrize(("scale", "wide"), [(3e-6, True), (1e-8, False)])
def test_at_half_precision_what_another_rounding_in_fp32_changes_is_allowed(scale: float, wide: bool) -> None:
    """Sums of 2e7 are rounded to 2: how large an exponential is hangs on the order in which they are added up."""
    scores = f"{scale} * (x.half().float() @ y.half().float())"
    sunk = cases(f"torch.softmax({scores}, -1).square().sum(-1)", "randn(WIDTH, 64)", "fp16")[1]["sunk"].leaves[0]
    assert (sunk.budget > 0.01) == wide


def test_a_reference_that_casts_to_fp32_by_itself_has_budgets_of_other_roundings() -> None:
    """Scores of 1e4 are rounded to 1e-3 in fp32, so far may an exponential be off; the product behind it takes fp32."""
    exponentials = "(lambda s: torch.exp(s - s.amax(-1, keepdim=True)))(x.float() @ y.float())"
    answer = f"(lambda p: p.sum(-1) + 0 * (p @ y.float().T).sum(-1))({exponentials})"
    problem, families = cases(answer, "randn(WIDTH, 64)", "bf16")
    assert families["shifted"].leaves[0].budget > 1e-3
    assert "rounding decides" in problem.dropped_families["shrunk"]["sunk"]


def test_inputs_that_an_assertion_of_the_reference_refuses_are_not_tried() -> None:
    kept = "torch.log(positive(x)) + 0 * y\n\n\ndef positive(x):\n    assert bool((x > 0).all())\n    return x"
    source = REFERENCE.replace("torch.randn(ROWS, WIDTH)", "torch.rand(ROWS, WIDTH) + 0.5").replace("ANSWER", kept)
    task = KernelTask(
        reference=source.replace("SECOND", "rand(1)"), name="n", target=load_hardware("h200"), precision="ieee"
    )
    problem = Problem(task, 1, torch.device("cpu"))
    judged = {case.family for case in problem.family_cases("shrunk")}
    assert "huge" in judged and not judged & {"negated", "sunk", "zero_rows"}
    assert "AssertionError" in problem.dropped_families["shrunk"]["negated"]


@pytest.mark.parametrize(("rounded", "budget"), [("p.to(torch.float16).float()", 1e-3), ("p", 4e-6)])
def test_where_the_reference_rounds_on_its_way_a_kernel_may_round_other_numbers(rounded: str, budget: float) -> None:
    """An online softmax rounds exponentials beside the largest so far."""
    soft = f"(lambda p: {rounded}.sum(-1) + 0 * y.float().sum())(torch.exp(x.float()))"
    source = REFERENCE.replace("ANSWER", soft).replace("SECOND", "randn(WIDTH, 16)")
    task = KernelTask(reference=source, name="n", target=load_hardware("h200"), precision="fp16")
    leaf = Problem(task, 1, torch.device("cpu")).cases("shrunk")[0].leaves[0]
    assert leaf.dtype == torch.float32 and leaf.budget == pytest.approx(budget, rel=0.5)


@pytest.mark.parametrize("logarithm", [False, True])
def test_a_softmax_of_large_numbers_may_go_through_the_logarithm_of_their_sum(logarithm: bool) -> None:
    """Attention's gradients keep that logarithm, and exp(x - l) is off by up to half an ulp of l, in a whole row."""
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(1)).add(3000).double()
    softmax = torch.log_softmax if logarithm else torch.softmax
    with RoundedOtherwise(torch.Generator().manual_seed(2)):
        near = softmax(x, -1)
    off = (near - softmax(x, -1) if logarithm else near / softmax(x, -1) - 1).abs().amax(-1)
    assert 2.0**-15 < float(off.median()) < float(off.max()) < 2.0**-11


def test_a_row_whose_largest_number_is_far_above_the_others_is_exact_in_every_softmax() -> None:
    families = cases("torch.softmax(x.float() + 0 * y[:, None], -1)", LABELS, "ieee")[1]
    assert families["huge"].leaves[0].budget < 1e-4


@pytest.mark.parametrize("norm", ["F.layer_norm(x, (64,), w)", "F.group_norm(x, 16, w)", "F.group_norm(x, 16)"])
def test_norms_of_numbers_far_from_zero_may_have_a_mean_in_fp32(norm: str) -> None:
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)).add(30000).double()
    names = {"F": torch.nn.functional, "x": x, "w": torch.linspace(1, 2, 64, dtype=torch.float64)}
    with RoundedOtherwise(torch.Generator().manual_seed(2)):
        near = eval(norm, names)
    off = (near - eval(norm, names)).abs()
    assert 1e-4 < float(off.max()) < 1e-1
    names["x"] = x - 30000
    with RoundedOtherwise(torch.Generator().manual_seed(2)):
        near = eval(norm, names)
    assert float((near - eval(norm, names)).abs().max()) < 1e-5
