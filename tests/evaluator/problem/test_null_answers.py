"""Problems that cannot tell a kernel from an empty one are refused, or judged more narrowly, before any kernel is."""

import pytest
import torch

from egg_graph.evaluator.problem.case_builder import with_other_inputs
from egg_graph.evaluator.problem.kernelbench_criterion import accepts, tolerance_of
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf
from egg_graph.evaluator.problem.null_answers import is_accepted, null_answers
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.shape_trials import ShapeTrials
from egg_graph.evaluator.problem.shapes import choose_shapes
from egg_graph.schema import BadInput, KernelTask, Precision

pytestmark = pytest.mark.slow

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\nN, M = 128, 96\n\n\n"


def problem(h200, body: str, inputs: str, init: str = "pass", precision: Precision = "tf32") -> Problem:
    source = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, *x):\n        return {body}\n\n\ndef get_inputs():\n    return [{inputs}]\n"
    )
    return Problem(KernelTask(name="null", reference=source, target=h200, precision=precision), 5)


@pytest.mark.parametrize(
    ("body", "inputs", "init", "precision", "words"),
    [
        # as KernelBench L2/80: the mean of one column, less itself
        ("F.gelu((y := x[0].max(1, keepdim=True).values) - y.mean(1, keepdim=True))", "torch.rand(N, M)", "pass",
         "tf32", "zero everywhere"),
        # L2/9: nothing survives the ReLU
        ("torch.relu(x[0] - 2)", "torch.rand(N, M)", "pass", "tf32", "zero everywhere"),
        # L2/36: only the bias is left
        ("F.gelu(-100 - x[0].sum(1, keepdim=True)) + self.b", "torch.rand(N, M)",
         "self.b = nn.Parameter(torch.randn(M))", "tf32", "does not depend on the input"),
        # L1/100 under bf16: the loss is 1 within its precision
        ("torch.mean(torch.clamp(1 - x[0] * x[1], min=0))",
         "torch.rand(N, M), torch.randint(0, 2, (N, M)).float() * 2 - 1", "pass", "bf16", "does not depend|off fp64"),
        ("torch.full_like(x[0], 7.0)", "torch.rand(N, M)", "pass", "ieee", "does not depend on the input"),
        ("x[0] * 1.0", "torch.rand(N, M)", "pass", "ieee", "copy of input 0"),
    ],
)  # fmt: skip
def test_degenerate_problems_are_refused(h200, body, inputs, init, precision, words) -> None:
    sound = problem(h200, body, inputs, init, precision).validity
    assert sound.kind == "degenerate_problem"
    assert any(word in sound.unevaluable for word in words.split("|")), sound.unevaluable


def test_a_mask_of_zeros_and_infinities_beside_the_answer_can_be_judged(h200) -> None:
    mask = "torch.zeros_like(x[0]).masked_fill(x[0] > 0.5, -torch.inf)"
    known = problem(h200, f"(x[0] * 2, {mask})", "torch.rand(N, M)", precision="ieee")
    assert known.validity.unevaluable == ""
    mask = known.cases("shrunk")[0].leaves[1]
    got = mask.expected.float()

    def refused(x: torch.Tensor) -> bool:
        judged = compare_leaf(x, mask, where="mask", precision="ieee", emulated_error=lambda way: None)
        return bool(judged.findings)

    assert [refused(x) for x in (got, got.roll(1), got + 1)] == [False, True, True]


@pytest.mark.parametrize(("kept", "good"), [("torch.rand(1) > 0.6", False), ("torch.rand(1) < 2", True)])
def test_a_shape_at_which_one_of_two_answers_is_zero_is_none(kept: str, good: bool) -> None:
    """A sparse product of which few blocks are left is zero for most draws; here it is for the first of two."""
    inputs = f"def get_inputs():\n    return [({kept}).float() * torch.randn(64)]\n"
    model = "class Model(nn.Module):\n    def forward(self, x):\n        return 2 * x\n\n\n"
    assert ShapeTrials(HEAD + model + inputs, 60.0).runs({}) == good


def test_a_small_reference_whose_answer_moves_at_its_own_shape_alone_stays_at_that() -> None:
    forward = "    def forward(self, x):\n        return 2 * x * (len(x) == 24)\n\n\n"
    model = f"ROWS = 24\n\n\nclass Model(nn.Module):\n{forward}"
    shrunk, _ = choose_shapes(HEAD + model + "def get_inputs():\n    return [torch.randn(ROWS, 64)]\n")
    assert shrunk == {}


def test_a_draw_at_which_the_answer_hangs_on_nothing_is_replaced(h200) -> None:
    """As KernelBench L2/58: one random bias pushes every answer past a clamp, for some draws of it."""
    for seed in range(3):
        task = problem(
            h200, "torch.clamp(x[0] + self.b, 0, 1)", "torch.rand(N, M)", "self.b = nn.Parameter(4 * torch.randn(1))"
        ).task
        known = Problem(task, seed)
        assert known.validity.unevaluable == ""
        assert all(case.leaves[0].expected.std() > 0 for name in known.shapes for case in known.cases(name))


BLOCKED = """
import torch

ROWS, BLOCK, WIDTH = 512, 16, 32

class Model(torch.nn.Module):
    def forward(self, x, scales, at):
        return x[at] * scales[at // (x.shape[0] // scales.shape[0])]

def get_inputs():
    return [torch.rand(ROWS, WIDTH), torch.rand(ROWS // BLOCK, WIDTH), torch.randint(ROWS - 4, ROWS, (1,))]
"""
"""Some draws at sizes that are not whole blocks ask for a block that is not there."""


def test_a_draw_at_which_the_reference_fails_is_replaced_at_a_reduced_shape(h200) -> None:
    task = KernelTask(name="blocks", reference=BLOCKED, target=h200, precision="ieee")
    partial = 0
    for seed in range(12):
        known = Problem(task, seed)
        assert known.validity.unevaluable == ""
        partial += sum(known.sizes(name)["ROWS"] % known.sizes(name)["BLOCK"] != 0 for name in known.shapes)
    assert partial, "no shape has a partial block"
    asked = task.model_copy(update={"further_shapes": ({"ROWS": 15},)})
    with pytest.raises(BadInput, match="forward fails"):
        Problem(asked, 0).cases("further_0")


def test_active_dropout_is_named_and_its_cure_told(h200) -> None:
    known = problem(h200, "self.d(x[0])", "torch.rand(N, M)", "self.d = nn.Dropout(0.2)").validity
    assert known.kind == "stochastic_problem"
    assert "d = Dropout(p=0.2" in known.unevaluable
    assert ".eval()" in known.unevaluable
    assert not problem(h200, "self.d(x[0])**2", "torch.rand(N, M)", "self.d = nn.Dropout(0.0)").validity.unevaluable


def test_a_tiny_answer_is_judged_and_what_a_fixed_tolerance_would_accept_is_told(h200) -> None:
    """A softmax over many columns: zeros are within 1e-2 of it everywhere."""
    plain = problem(h200, "torch.softmax(x[0], 1)", "torch.rand(N, 512)", precision="bf16")
    assert plain.validity.unevaluable == ""
    weak = " ".join(plain.untimed_baseline.weaknesses)
    for name in ("zeros", "one constant", "the answer to other inputs"):
        assert f"{name} would pass a fixed tolerance of 0.01" in weak
    assert plain.untimed_baseline.families[0] == "as given"
    assert "large" in plain.untimed_baseline.families
    case = plain.cases("shrunk")[0]
    other = with_other_inputs(case, plain.reference, "bf16", name="other", seed=9, device=plain.device) \
        if not plain.shapes["shrunk"] else case  # fmt: skip
    assert not any(is_accepted(null, case) for null in null_answers(case, other) if null.name in ("zeros", "ones"))


def test_ignored_affine_parameters_are_a_weakness_of_a_fixed_tolerance_only(h200) -> None:
    norm = problem(h200, "self.n(x[0])", "torch.rand(N, M)", "self.n = nn.LayerNorm(M)")
    assert any(w.startswith("the answer under other weights") for w in norm.untimed_baseline.weaknesses)
    case = norm.cases(next(iter(norm.shapes)))[0]
    plain = torch.nn.functional.layer_norm(case.inputs[0], case.inputs[0].shape[1:])
    null = next(iter(null_answers(case, case)))
    assert not is_accepted(type(null)("no affine", [plain]), case)


def test_integer_targets_stay_integers(h200) -> None:
    loss = problem(h200, "F.cross_entropy(x[0], x[1])", "torch.randn(N, M), torch.randint(0, M, (N,))")
    assert loss.validity.unevaluable == ""
    for case in (*loss.cases("shrunk"), *loss.family_cases("shrunk")):
        assert case.inputs[1].dtype == torch.int64


def test_running_statistics_are_part_of_the_contract(h200) -> None:
    case = problem(h200, "self.n(x[0])", "torch.rand(N, M)", "self.n = nn.BatchNorm1d(M)").cases("shrunk")[0]
    assert set(case.updates) == {"n.running_mean", "n.running_var", "n.num_batches_tracked"}


def test_kernelbenchs_criterion_scales_with_the_candidates_value() -> None:
    """allclose(reference, candidate): 1e-4 + 1e-4 * |candidate|."""
    reference = torch.tensor([1.0])
    assert accepts(reference, torch.tensor([1.00019]), 1e-4)[0]
    assert not accepts(reference, torch.tensor([1.00021]), 1e-4)[0]
    assert accepts(torch.tensor([99.99]), torch.tensor([100.0]), 1e-4)[0]
    assert not accepts(torch.tensor([100.0102]), torch.tensor([100.0]), 1e-4)[0]
    assert not accepts(torch.tensor([float("nan")]), torch.tensor([float("nan")]), 1e-4)[0]
    assert not accepts(reference, torch.tensor([1.0], dtype=torch.float64), 1e-4)[0]
    close, difference = accepts(torch.tensor([float("inf"), 1.0]), torch.tensor([float("inf"), 1.5]), 1e-4)
    assert not close
    assert difference == 0.5


def test_kernelbenchs_criterion_compares_with_pytorchs_own_answer(h200) -> None:
    case = problem(h200, "x[0] @ x[1]", "torch.randn(N, M), torch.randn(M, N)").cases("shrunk")[0]
    assert case.leaves[0].pytorch is not None
    told = tolerance_of(case, [case.leaves[0].pytorch], "tf32")
    assert told is not None
    assert (told.passed, told.max_difference, told.tolerance) == (True, 0.0, 1e-4)
    told = tolerance_of(case, [case.inputs[0] @ case.inputs[1]], "tf32")
    assert told is not None
    assert not told.passed  # fp32 products are further than 1e-4 from TF32 ones
