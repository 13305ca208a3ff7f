"""Input families: what they keep, what they show, and where they are not used."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from egg_graph.evaluator.problem import families
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import build_case
from egg_graph.evaluator.problem.comparison import judge_leaves
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.schema import Precision

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def reference(body: str, inputs: str, init: str = "pass") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, *x):\n        return {body}\n\n\ndef get_inputs():\n    return [{inputs}]\n"
    )


def on(source: str, family: str, precision: Precision = "ieee") -> Case:
    loaded = load_reference(source)
    base = build_case(loaded, precision, name="test", overrides={}, seed=3, device=torch.device("cpu"))
    return build_family_case(base, loaded, precision, family=family, seed=11)


def accepts(case: Case, got: torch.Tensor, precision: str = "ieee") -> bool:
    return compare_leaf(got, case.leaves[0], where="", precision=precision, emulated_error=lambda kind: None).passed


DRAWN = [torch.rand(32, 48).t(), torch.randint(5, (40,)), torch.rand(20) > 0.5, torch.tensor(2.5), 3]


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_family_keeps_forms_integers_and_numbers_and_repeats_itself(name: str) -> None:
    first, again = families.apply(name, DRAWN, 7), families.apply(name, DRAWN, 7)
    for old, new, other in zip(DRAWN[:4], first, again, strict=False):
        assert (old.shape, old.dtype, old.stride()) == (new.shape, new.dtype, new.stride())
        assert torch.equal(new, other)
    assert all(torch.equal(old, new) for old, new in zip(DRAWN[2:4], first[2:4], strict=True))
    assert first[4] == 3
    of_integers = families.FAMILIES[name].moves_integers
    assert torch.equal(DRAWN[0], first[0]) is of_integers
    assert torch.equal(DRAWN[1], first[1]) is not of_integers


def test_inputs_of_one_sign_get_both() -> None:
    (moved,) = families.apply("negated", [torch.rand(1000)], 1)
    assert 300 < int((moved < 0).sum()) < 700


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (torch.softmax(torch.randn(16, 32), 1), "kept"),
        (torch.softmax(torch.randn(16, 32), 0), "kept"),
        ((torch.randint(0, 2, (64,)) * 2 - 1).float(), "kept"),
        (torch.rand(16, 16).triu(), "pattern"),
        (torch.rand(16, 16) + torch.rand(16, 16).t(), "free"),
        ((lambda a: a + a.t())(torch.rand(16, 16)), "pattern"),
        (torch.randn(64), "free"),
        (torch.arange(64).float(), "counts"),
        (torch.arange(64), "whole"),
        (torch.arange(64) % 3, "whole"),
        (torch.arange(64) % 2, "kept"),
        (torch.zeros(64, dtype=torch.int32), "kept"),
        (torch.ones(64, dtype=torch.int32), "whole"),
    ],
)
def test_structure_is_seen(x: torch.Tensor, kind: str) -> None:
    assert families.structure(x) == kind


def test_structure_is_kept() -> None:
    a = torch.rand(16, 16)
    for name in families.families_of([a.triu()]):
        (moved,) = families.apply(name, [a.triu()], 5)
        assert torch.equal(moved, moved.triu())
    for name in families.families_of([a + a.t()]):
        (moved,) = families.apply(name, [a + a.t()], 5)
        assert torch.equal(moved, moved.t())
    assert set(families.families_of([torch.randint(9, (50,))])) == {"integers_negated", "integers_wide"}
    assert families.families_of([torch.rand(50) > 0.5]) == ()


def test_offsets_stay_in_order() -> None:
    offsets = torch.randint(0, 9, (40,)).cumsum(0)
    for name in families.families_of([offsets]):
        (moved,) = families.apply(name, [offsets], 5)
        assert not torch.equal(moved, offsets) and bool((moved.diff() >= 0).all())


def test_sorted_numbers_stay_sorted() -> None:
    keys = torch.randn(40).sort().values
    for name in families.families_of([keys]):
        (moved,) = families.apply(name, [keys], 5)
        assert not torch.equal(moved, keys) and bool((moved[1:] >= moved[:-1]).all())


def test_infinities_stay_where_they_are_while_the_rest_moves() -> None:
    x = torch.randn(16, 32)
    x[3, 4], x[5, 6] = torch.inf, -torch.inf
    for name in families.families_of([x]):
        (moved,) = families.apply(name, [x], 5)
        assert (moved[3, 4], moved[5, 6]) == (torch.inf, -torch.inf)
        assert not torch.equal(moved, x)


def test_a_softmax_without_its_maximum_overflows_on_large_inputs_alone() -> None:
    source = reference("torch.softmax(x[0], 1)", "torch.randn(8, 100)")
    for family, right in (("tiny", True), ("large", False)):
        case = on(source, family)
        e = torch.exp(case.inputs[0])
        assert accepts(case, e / e.sum(1, keepdim=True)) is right
        assert accepts(case, torch.softmax(case.inputs[0], 1))


ON = {
    "huge": ("x[0].logsumexp(1)", "torch.randn(8, 100)", lambda x: x.exp().sum(1).log()),
    "sunk": ("x[0].amax(1)", "torch.randn(8, 100)", lambda x: x.amax(1).clamp_min(-1e4)),
    "zero_rows": ("F.normalize(x[0], dim=1)", "torch.rand(24, 40)", lambda x: x / x.norm(dim=1, keepdim=True)),
    "integers_negated": (
        "x[0].sum(1)",
        "torch.randint(0, 9, (8, 40), dtype=torch.int32)",
        lambda x: (x.long() & 0xFFFFFFFF).sum(1),
    ),
    "integers_wide": (
        "x[0] + x[0]",
        "torch.randint(0, 9, (8, 40), dtype=torch.int8)",
        lambda x: (2 * x.int()).clamp(-128, 127).to(torch.int8),
    ),
}
"""By family: a reference, its inputs, and an answer that is right until then."""


@pytest.mark.parametrize("family", ON)
def test_what_goes_wrong_far_from_the_given_inputs_shows(family: str) -> None:
    answer, inputs, wrong = ON[family]
    source = reference(answer, inputs)
    loaded = load_reference(source)
    given = build_case(loaded, "ieee", name="test", overrides={}, seed=3, device=torch.device("cpu"))
    assert accepts(given, wrong(given.inputs[0]))
    case = on(source, family)
    assert not accepts(case, wrong(case.inputs[0]))
    assert accepts(case, case.leaves[0].pytorch)


def test_an_index_is_no_number() -> None:
    with pytest.raises(Unevaluable, match="indices"):
        on(reference("x[0][x[1]]", "torch.rand(50, 8), torch.randint(0, 50, (40,))"), "integers_wide")


def test_what_only_moves_numbers_is_exact() -> None:
    source = reference("x[0].t().contiguous()", "torch.rand(40, 24)")
    case = on(source, "negated")
    right = case.inputs[0].t().contiguous()
    assert accepts(case, right)
    assert not accepts(case, torch.nextafter(right, torch.zeros(())))


def test_a_weight_changes_its_sign_unless_the_reference_needs_it() -> None:
    def weights(expression: str) -> torch.Tensor:
        loaded = load_reference(reference(expression, "torch.rand(8, 400)", "self.w = nn.Parameter(torch.ones(400))"))
        case = build_case(loaded, "ieee", name="test", overrides={}, seed=3, device=torch.device("cpu"))
        return case.state["w"]

    assert bool((weights("x[0] * self.w") < 0).any())
    assert bool((weights("x[0] * self.w.sqrt()") > 0).all())


def test_a_relu_that_does_nothing_shows_on_negated_inputs() -> None:
    source = reference("torch.relu(x[0])", "torch.rand(40, 40)")
    case = on(source, "negated")
    assert not accepts(case, case.inputs[0])


def test_a_variance_by_difference_shows_on_shifted_inputs() -> None:
    source = reference("F.layer_norm(x[0], (256,))", "torch.randn(16, 256)")
    case = on(source, "shifted")
    x = case.inputs[0]
    mean = x.mean(1, keepdim=True)
    one_pass = (x.square().mean(1, keepdim=True) - mean.square() + 1e-5).rsqrt()
    two_pass = ((x - mean).square().mean(1, keepdim=True) + 1e-5).rsqrt()
    assert not accepts(case, (x - mean) * one_pass)
    assert accepts(case, (x - mean) * two_pass)


def test_products_of_few_bits_must_be_exact_and_others_need_not() -> None:
    linear = reference("self.f(x[0])", "torch.randn(16, 700)", "self.f = nn.Linear(700, 24)")
    case = on(linear, "integers", "tf32")
    assert case.leaves[0].budget == 0.0
    weight, bias = case.state["f.weight"], case.state["f.bias"]
    exact = case.inputs[0] @ weight.t() + bias
    assert accepts(case, exact, "tf32")
    halves = sum(
        (case.inputs[0][:, i : i + 7].half() @ weight.t()[i : i + 7].half() for i in range(0, 700, 7)),
        torch.zeros(16, 24, dtype=torch.float16),
    )
    result = compare_leaf(
        halves.float() + bias, case.leaves[0], where="", precision="tf32", emulated_error=lambda kind: None
    )
    assert [finding.kind for finding in result.findings] == ["precision_loss"]
    assert on(reference("torch.tanh(x[0])", "torch.randn(16, 70)"), "integers").leaves[0].budget > 0.0


def test_what_a_reference_computes_in_fp32_in_any_case_is_not_known_to_be_exact() -> None:
    """Rows that add up to 1 stay so in every family, and products of theirs are exact nowhere."""
    inputs = "torch.softmax(torch.randn(9, 4), 1), torch.randn(9, 4)"
    for body, exact in (("x[0].float() * x[1].float() + x[0].float()", False), ("x[1] + x[1].abs()", True)):
        assert (on(reference(body, inputs), "integers").leaves[0].budget == 0.0) == exact


def test_a_product_of_a_products_result_may_round_it_to_tf32() -> None:
    layers = "self.f, self.g = nn.Linear(700, 24), nn.Linear(24, 8)"
    source = reference("self.g(self.f(x[0]))", "torch.randn(16, 700)", layers)
    in_fp32, case = on(source, "integers"), on(source, "integers", "tf32")
    assert in_fp32.leaves[0].budget == 0.0 < case.leaves[0].budget
    (rounded,) = case.emulate("tf32") or ()
    assert accepts(case, rounded, "tf32")
    assert not accepts(case, rounded.to(torch.bfloat16).float(), "tf32")


@pytest.mark.parametrize(
    ("body", "inputs", "family", "words"),
    [
        ("torch.log(x[0])", "torch.rand(50) + 0.5", "negated", "NaN|finite"),
        ("torch.exp(x[0])", "torch.randn(500)", "large", "overflows|finite"),
        ("x[0] @ x[1]", "torch.rand(20, 20), torch.rand(20, 20)", "infinite", "matrix products"),
        ("torch.stack([x[0][:, i:].sum(1) for i in range(150)])", "torch.rand(9, 150)", "infinite", "recurrences"),
        (
            "(x[0] / x[1]).clamp(-9, 9).to(torch.int8)",
            "torch.rand(20, 20), torch.rand(20) + 1",
            "zero_rows",
            "integers",
        ),
        ("torch.topk(x[0], 3)", "torch.randn(16, 50)", "ties", "equal values"),
        ("torch.relu(-x[0])", "torch.rand(500)", "tiny", "zero everywhere"),
    ],
)
def test_a_family_is_dropped_where_pytorch_gives_no_answer_to_judge_by(
    body: str, inputs: str, family: str, words: str
) -> None:
    if "zero" in words:
        with pytest.raises(Unevaluable, match=words):
            build_case(
                load_reference(reference(body, inputs)),
                "ieee",
                name="",
                overrides={},
                seed=1,
                device=torch.device("cpu"),
            )
        return
    with pytest.raises(Unevaluable, match=words):
        on(reference(body, inputs), family)


def test_a_family_is_dropped_where_right_answers_may_be_far_off() -> None:
    """Products in TF32 of numbers far from zero: every bit of a score is a factor of its probability."""
    scores = reference("torch.softmax(x[0] @ x[1].T, 1)", "*torch.randn(2, 64, 64) * 3")
    with pytest.raises(Unevaluable, match="rounding decides"):
        on(scores, "shifted", "tf32")
    assert on(scores, "shifted", "ieee").leaves[0].budget < 0.1


def test_the_first_of_equal_values_is_pytorchs_word() -> None:
    case = on(reference("torch.argmax(x[0], 1)", "torch.randn(16, 50)"), "ties")
    assert accepts(case, torch.argmax(case.inputs[0], 1))
    last = 49 - torch.argmax(case.inputs[0].flip(1), 1)
    assert not accepts(case, last)


def test_a_new_family_is_one_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = families.InputFamily("doubled", "inputs twice as large", lambda x, generator: 2 * x, frozenset({"free"}))
    monkeypatch.setitem(families.FAMILIES, "doubled", row)
    source = reference("x[0].relu()", "torch.randn(8, 40)")
    case = on(source, "doubled")
    assert families.families_of(case.inputs)[-1] == "doubled"
    drawn = load_reference(source).inputs(12)[0]
    assert torch.equal(case.inputs[0], 2 * drawn)
    task: Any = SimpleNamespace(precision="ieee")
    (finding,), _ = judge_leaves(task, case, [case.inputs[0]], machine="here", source="")
    assert (finding.cure or "").startswith("inputs twice as large; ")


def test_a_loss_that_adds_up_in_another_order_is_right_on_every_seed() -> None:
    """Far from zero a scalar's error is one draw: so is that of PyTorch's own answer, which may be small by chance."""
    loaded = load_reference(reference("F.cross_entropy(*x)", "torch.randn(19, 500), torch.randint(0, 500, (19,))"))
    base = build_case(loaded, "tf32", name="test", overrides={}, seed=3, device=torch.device("cpu"))
    for seed in range(60):
        case = build_family_case(base, loaded, "tf32", family="sunk", seed=1000 * seed + 17)
        logits, labels = case.inputs
        got = (torch.logsumexp(logits, 1) - logits.gather(1, labels[:, None])[:, 0]).mean()
        assert accepts(case, got, "tf32"), seed


def test_scores_so_large_that_rounding_decides_may_be_added_up_one_after_another() -> None:
    """Far from zero few rows of a softmax hang on the last bits of the scores; of some seeds PyTorch errs on none."""
    inputs = ", ".join(f"torch.randn({rows}, 64) - 3e4" for rows in (19, 131, 131))
    loaded = load_reference(reference("torch.softmax(x[0] @ x[1].T / 8, 1) @ x[2]", inputs))
    for seed in range(38, 50):
        case = build_case(loaded, "ieee", name="test", overrides={}, seed=seed, device=torch.device("cpu"))
        queries, keys, values = case.inputs
        scores = torch.zeros(19, 131)
        for i in reversed(range(64)):
            scores = torch.addcmul(scores, queries[:, i : i + 1], keys[:, i])
        assert accepts(case, torch.softmax(scores / 8, 1) @ values), seed
        assert not accepts(case, torch.softmax((queries.half() @ keys.half().T).float() / 8, 1) @ values), seed


def test_a_division_may_be_an_ulp_off_for_all_elements() -> None:
    """Of vectors far from zero the cosine is next to 1, and what is left of 1 tells every ulp."""
    loaded = load_reference(reference("1 - F.cosine_similarity(*x).mean()", "*torch.randn(2, 128, 1024)"))
    base = build_case(loaded, "tf32", name="test", overrides={}, seed=3, device=torch.device("cpu"))
    for seed in range(12):
        case = build_family_case(base, loaded, "tf32", family="shifted", seed=1000 * seed + 17)
        a, b = (x.double() / x.double().norm(dim=1, keepdim=True) for x in case.inputs)
        answers = [(1 - (a * b * (1 + ulps * 2.0**-23) ** 2).sum(1).mean()).float() for ulps in (1, 16)]
        assert [accepts(case, got, "tf32") for got in answers] == [True, False], seed


def test_gradients_of_a_convolution_are_products() -> None:
    inputs = "torch.randn(4, 8, 8, 8), torch.randn(8, 6, 3, 3)"
    loaded = load_reference(reference("torch.nn.grad.conv2d_input((4, 6, 10, 10), x[1], x[0])", inputs))

    def budget(precision: Precision) -> float:
        case = build_case(loaded, precision, name="test", overrides={}, seed=3, device=torch.device("cpu"))
        return case.leaves[0].budget

    assert budget("ieee") < 1e-5 < 5e-4 < budget("tf32") < budget("tf32_truncated") < 5e-3
