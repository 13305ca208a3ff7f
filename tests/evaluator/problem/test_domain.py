"""Infinities that a reference neither draws nor makes are a property that is told, and no reason to reject."""

from typing import Any

import pytest
import torch

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_builder import build_case
from egg_graph.evaluator.problem.comparison import Answer, judge_answer
from egg_graph.evaluator.problem.domain import makes_non_finite
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Candidate, Check, Domain, Environment, Finding, Hardware, KernelTask
from tests.evaluator.problem.test_families import reference

CPU = torch.device("cpu")
MASK = "torch.zeros(40).masked_fill(torch.arange(40) > 30, -torch.inf)"
SOFTMAX = reference("torch.softmax(x[0], 1)", "torch.randn(32, 40)")


def on(source: str, family: str) -> Case:
    loaded = load_reference(source)
    base = build_case(loaded, "ieee", name="test", overrides={}, seed=3, device=CPU)
    return build_family_case(base, loaded, "ieee", family=family, seed=11)


@pytest.mark.parametrize(
    ("body", "inputs", "init", "makes"),
    [
        ("torch.softmax(x[0], 1)", "torch.randn(8, 40)", "pass", False),
        ("torch.empty(8, 40).fill_(1.0) * x[0]", "torch.randn(8, 40)", "pass", False),
        ("x[0].masked_fill(x[0] > 0, -torch.inf).amax(1)", "torch.randn(8, 40)", "pass", True),
        ("torch.log(x[0].relu()).exp()", "torch.randn(8, 40)", "pass", True),
        ("torch.softmax(x[0] + self.m, 1)", "torch.randn(8, 40)", f"self.m = nn.Buffer({MASK})", True),
        ("x[0].amax(1)", "torch.randn(8, 40).masked_fill(torch.eye(8, 40) > 0, -torch.inf)", "pass", True),
    ],
)
def test_infinities_belong_to_a_reference_that_draws_or_makes_them(
    body: str, inputs: str, init: str, makes: bool
) -> None:
    source = reference(body, inputs, init)
    base = build_case(load_reference(source), "ieee", name="test", overrides={}, seed=3, device=CPU)
    assert makes_non_finite(base, "ieee") is makes


def judged(
    case: Case, got: torch.Tensor, hardware: Hardware, domain: Domain = "finite"
) -> tuple[list[Finding], Check | None]:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=hardware, precision="ieee", domain=domain)
    form: dict[str, Any] = {"shape": list(got.shape), "stride": list(got.stride()), "dtype": "float32"}
    answer = Answer(case.structure, [form], [got], case.inputs, machine="here", source="")
    return judge_answer(Problem(task, 1), case, answer)


def with_nan_rows(case: Case) -> torch.Tensor:
    """The right answer, but NaN in every row that holds an infinity: an online softmax that begins at -inf."""
    got = case.leaves[0].expected.float()
    got[torch.isinf(case.inputs[0]).any(1)] = torch.nan
    return got


def test_a_kernel_that_differs_on_infinities_alone_is_told_and_not_rejected(h200: Hardware) -> None:
    case = on(SOFTMAX, "minus_infinite")
    findings, check = judged(case, with_nan_rows(case), h200)
    assert [finding.kind for finding in findings] == ["not_preserved"]
    assert findings[0].message.startswith("infinities (minus_infinite inputs, test shape: ")
    assert check is None, "no check passed, and none failed"
    findings, check = judged(case, case.leaves[0].expected.float(), h200)
    assert not findings and check is not None and check.passed


def test_the_domain_nonfinite_is_strict(h200: Hardware) -> None:
    case = on(SOFTMAX, "minus_infinite")
    assert [f.kind for f in judged(case, with_nan_rows(case), h200, "nonfinite")[0]] == ["non_finite"]


def test_what_is_wrong_beside_infinities_is_wrong(h200: Hardware) -> None:
    case = on(SOFTMAX, "minus_infinite")
    wrong, unwritten = with_nan_rows(case), with_nan_rows(case)
    wrong[torch.isfinite(wrong)] *= 1.01
    assert [f.kind for f in judged(case, wrong, h200)[0]] == ["non_finite"]
    poison_(unwritten[:1])
    assert [f.kind for f in judged(case, unwritten, h200)[0]] == ["unwritten_output"]


def test_what_infinities_reach_is_excused_though_it_is_finite_and_nothing_else(h200: Hardware) -> None:
    """The sign of an infinity is finite; an optimizer by signs may step either way there."""
    case = on(reference("1 - 0.01 * torch.sign(x[0])", "torch.randn(32, 40)"), "infinite")
    reached = torch.isinf(case.inputs[0])
    for wrong, kinds in ((reached, ["not_preserved"]), (reached | (torch.arange(40) == 7), ["wrong_values"])):
        got = torch.where(wrong, 2 - case.leaves[0].expected, case.leaves[0].expected).float()
        assert [finding.kind for finding in judged(case, got, h200)[0]] == kinds


def test_infinities_that_the_reference_makes_stay_strict(h200: Hardware) -> None:
    masked = reference("torch.softmax(x[0].masked_fill(x[0] > 1, -torch.inf), 1)", "torch.randn(32, 40)")
    case = on(masked, "minus_infinite")
    assert [f.kind for f in judged(case, with_nan_rows(case), h200)[0]] == ["non_finite"]


def test_nan_that_a_finite_family_brings_out_is_wrong(h200: Hardware) -> None:
    case = on(SOFTMAX, "large")
    got = case.leaves[0].expected.float()
    got[0] = torch.nan
    assert [f.kind for f in judged(case, got, h200)[0]] == ["non_finite"]


def test_the_default_domain_leaves_the_digest_of_earlier_records(h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    assert task.digest == KernelTask.model_validate(task.model_dump(exclude={"domain"})).digest
    assert task.digest != task.model_copy(update={"domain": "nonfinite"}).digest


def test_what_is_not_preserved_leaves_the_verdict(h200: Hardware) -> None:
    case = on(SOFTMAX, "minus_infinite")
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    candidate = Candidate(source="", author="test", stage="algorithmic_structure", mode="seed")
    builder = EvaluationBuilder(findings=judged(case, with_nan_rows(case), h200)[0])
    evaluation = builder.conclude(task, candidate, environment=Environment(machine="here"), seconds=0.0)
    assert (evaluation.status, evaluation.findings) == ("correct", ())
    assert [line.startswith("infinities (") for line in evaluation.not_preserved] == [True]


@pytest.mark.parametrize(("body", "overflows"), [("1 / (50 - x[0]).relu()", True), ("1 / (x[0] - 50)", False)])
def test_an_answer_that_overflows_on_other_inputs_is_no_part_of_the_contract(body: str, overflows: bool) -> None:
    assert on(reference(body, "torch.randn(8, 40)"), "large").beyond_finite == overflows
