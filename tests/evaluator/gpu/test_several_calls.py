"""What a candidate keeps from one call to the next comes to light; the GPU is stood in for."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpu.correctness import GpuCorrectness
from egg_graph.evaluator.gpu.executor import GpuExecutor
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_builder import with_other_inputs
from egg_graph.evaluator.problem.outcome import Outcome
from egg_graph.evaluator.problem.plan import first_group, repeat_group, seed_group
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Finding, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE, InProcess

Open = Callable[..., object]
RIGHT = "return torch.relu(self.linear(x))"


def kinds(judged: Outcome) -> list[str]:
    return [finding.kind for finding in judged.findings]


@pytest.fixture
def case(problem: Problem) -> Case:
    return problem.cases("awkward")[0]


@pytest.fixture
def other(problem: Problem, case: Case) -> Case:
    from egg_graph.evaluator.problem.reference import load_reference

    reference = load_reference(problem.task.reference, case.overrides)
    return with_other_inputs(case, reference, "ieee", name=case.name, seed=99, device=problem.device)


def test_a_right_candidate_is_right_in_every_call(session_of: Open, problem: Problem, case: Case, other: Case) -> None:
    judged = GpuExecutor(session_of(RIGHT), problem, "stand-in").carry_out(first_group(case, other))
    assert judged.findings == []
    assert len(judged.checks) == 4
    assert judged.notes == ["so on other inputs at the same addresses and on the same ones at others"]


MEMO = """key = KEY
if getattr(self, "key", None) != key:
    self.key, self.kept = key, torch.relu(self.linear(x))
return self.kept.clone()"""
GRAPH = """if not hasattr(self, "x"):
    self.x = x
return torch.relu(self.linear(self.x))"""
FIRST = """if not hasattr(self, "seen"):
    self.seen = {}
y = torch.relu(self.linear(x))
return self.seen.setdefault(x.data_ptr(), y).clone()"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (MEMO.replace("KEY", "x.data_ptr()"), "replayed_output"),
        (MEMO.replace("KEY", "(id(x), x._version)"), "replayed_output"),
        (MEMO.replace("KEY", "x.shape"), "replayed_output"),
        (GRAPH, "replayed_output"),
        (FIRST, "replayed_output"),
        ("if not hasattr(self, 'y'):\n    self.y = torch.empty(x.shape[0], 0)\n" + RIGHT, None),
        ("self.y = torch.relu(self.linear(x)) + getattr(self, 'y', 0.0)\nreturn self.y", "wrong_values"),
        (
            "if not hasattr(self, 'y'):\n    self.y = torch.relu(self.linear(x))\n"
            "return self.y.copy_(torch.relu(self.linear(x)))",
            "aliased_output",
        ),
        ("x.zero_()\n" + RIGHT, "input_mutated"),
        ("y = torch.relu(self.linear(x))\nself.linear.bias.add_(1)\nreturn y", "parameter_mutated"),
        ("return torch.relu(self.linear(x)).tolist()", "wrong_structure"),
        ("return torch.relu(self.linear(x)).half()", "wrong_dtype"),
        ("return torch.relu(self.linear(x)).to('meta')", "wrong_structure"),
        ("y = torch.relu(self.linear(x))\ny.untyped_storage().resize_(0)\nreturn y", "wrong_structure"),
    ],
)
def test_what_a_candidate_does_between_calls_has_a_name(
    session_of: Open, problem: Problem, case: Case, other: Case, body: str, kind: str | None
) -> None:
    judged = GpuExecutor(session_of(body), problem, "stand-in").carry_out(first_group(case, other))
    if kind is None:
        assert judged.findings == []
    else:
        assert kind in kinds(judged), judged.findings
        assert kinds(judged)[0] == kind or kind == "wrong_values"


def test_an_answer_that_lies_in_an_input_is_aliased(
    session_of: Open, problem: Problem, case: Case, other: Case
) -> None:
    body = "y = torch.relu(self.linear(x))\nx.view(-1)[:1]\nreturn (y, self.linear.weight)"
    judged = GpuExecutor(session_of(body), problem, "stand-in").carry_out(first_group(case, other))
    assert kinds(judged) == ["wrong_structure"]
    expanded = "y = torch.relu(self.linear(x))\nreturn y[:1].expand_as(y)"
    assert "wrong_strides" in kinds(
        GpuExecutor(session_of(expanded), problem, "stand-in").carry_out(first_group(case, other))
    )


def test_bytes_beside_an_input_are_watched(session_of: Open, problem: Problem, case: Case, other: Case) -> None:
    wild = "import ctypes\nctypes.c_byte.from_address(x.data_ptr() + x.nbytes + 3).value = 7\n" + RIGHT
    judged = GpuExecutor(session_of(wild), problem, "stand-in").carry_out(first_group(case, other))
    assert kinds(judged) == ["out_of_bounds"]
    assert "after input x" in judged.findings[0].message


READS = """import ctypes
beside = ctypes.c_float.from_address(x.data_ptr() + x.nbytes).value
"""


def test_an_answer_that_changes_with_what_lies_beside_an_input_is_found(
    session_of: Open, problem: Problem, case: Case, other: Case
) -> None:
    plain = READS + "return torch.relu(self.linear(x)) + beside"
    judged = GpuExecutor(session_of(plain), problem, "stand-in").carry_out(first_group(case, other))
    assert kinds(judged)[0] == "out_of_bounds"
    assert judged.checks == []
    dropped = READS + "return torch.relu(self.linear(x)) + (0.0 if beside != beside else 1.0)"  # as a maximum drops NaN
    judged = GpuExecutor(session_of(dropped), problem, "stand-in").carry_out(first_group(case, other))
    assert kinds(judged)[0] == "out_of_bounds"
    assert len(judged.checks) == 3
    harmless = READS + RIGHT
    assert GpuExecutor(session_of(harmless), problem, "stand-in").carry_out(first_group(case, other)).findings == []


@pytest.mark.parametrize("odd", range(1, 8))
def test_an_answer_that_differs_in_one_call_does_not_hang_on_what_lies_beside_an_input(
    session_of: Open, problem: Problem, case: Case, other: Case, odd: int
) -> None:
    body = f"self.calls = getattr(self, 'calls', 0) + 1\n{RIGHT} + (2.0 if self.calls == {odd} else 1.0)"
    judged = GpuExecutor(session_of(body), problem, "stand-in").carry_out(first_group(case, other))
    assert "wrong_values" in kinds(judged) and "out_of_bounds" not in kinds(judged)


def test_weights_folded_at_the_first_call_are_stale_after_others_were_loaded(
    session_of: Open, problem: Problem
) -> None:
    first, second = problem.cases("shrunk")
    folded = "if not hasattr(self, 'w'):\n    self.w = self.linear.weight.t().contiguous()\n"
    folded += "return torch.relu(x @ self.w + self.linear.bias)"
    session = session_of(folded)
    assert GpuExecutor(session, problem, "stand-in").carry_out(first_group(first, None)).findings == []
    judged = GpuExecutor(session, problem, "stand-in").carry_out(seed_group(1, second))
    assert judged.findings[0].kind == "wrong_values"
    assert "loaded after the first call" in judged.findings[0].message
    honest = folded.replace("not hasattr(self, 'w')", "getattr(self, 'v', None) != self.linear.weight._version")
    honest = honest.replace("    self.w =", "    self.v = self.linear.weight._version\n    self.w =")
    session = session_of(honest)
    assert GpuExecutor(session, problem, "stand-in").carry_out(first_group(first, None)).findings == []
    assert GpuExecutor(session, problem, "stand-in").carry_out(seed_group(1, second)).findings == []


def test_repeats_are_compared_bit_by_bit_and_against_the_budget(session_of: Open, problem: Problem, case: Case) -> None:
    assert "bit for bit" in GpuExecutor(session_of(RIGHT), problem, "stand-in").carry_out(repeat_group(case)).notes[-1]
    noisy = "return torch.relu(self.linear(x)) * (1 + 1e-7 * torch.randn(()))"
    noisy = "self.n = getattr(self, 'n', 0) + 1\nreturn torch.relu(self.linear(x)) * (1 + 2e-7 * self.n)"
    assert (
        "differ between runs by at most"
        in GpuExecutor(session_of(noisy), problem, "stand-in").carry_out(repeat_group(case)).notes[-1]
    )
    racing = "self.n = getattr(self, 'n', 0) + 1\nreturn torch.relu(self.linear(x)) * (1 + (self.n == 3))"
    judged = GpuExecutor(session_of(racing), problem, "stand-in").carry_out(repeat_group(case))
    assert judged.findings[0].kind == "not_deterministic"
    assert "call 3 of 3" in judged.findings[0].message


def climb_of(
    session_of: Open, problem: Problem, body: str, setup: str = "", interpreted: Sequence[Finding] = ()
) -> EvaluationBuilder:
    builder = EvaluationBuilder()
    session = session_of(body, setup)
    correct = GpuCorrectness(
        session, problem, builder, "stand-in", lambda: session_of(body, setup), interpreted=lambda shape: interpreted
    )
    _ = correct.at_reduced_shapes() and correct.at_full_shape()
    return builder


def test_every_shape_and_other_inputs_have_rungs(session_of: Open, problem: Problem) -> None:
    builder = climb_of(session_of, problem, RIGHT)
    assert not builder.failed, builder.findings
    assert [rung.name for rung in builder.rungs] == [
        "correctness_awkward",
        "other_uses",
        "correctness_full",
        "other_inputs",
        "inputs_left_out",
    ]
    assert [rung.name for rung in builder.rungs if rung.outcome != "passed"] == ["inputs_left_out"]
    assert "weights loaded later" in builder.rungs[2].statement
    assert {"negated", "outlier"} <= {check.family for check in builder.checks}
    again = climb_of(session_of, problem, RIGHT)  # what was kept of the first serves the second
    assert [rung.statement for rung in again.rungs] == [rung.statement for rung in builder.rungs]


def test_a_candidate_that_takes_powers_of_two_alone_is_judged_at_those(session_of: Open, problem: Problem) -> None:
    builder = climb_of(session_of, problem, "assert x.shape[1] & (x.shape[1] - 1) == 0\n" + RIGHT)
    assert not builder.failed, builder.findings
    outcomes = {rung.name: rung.outcome for rung in builder.rungs}
    assert outcomes["correctness_awkward"] == "skipped"
    assert [name for name in outcomes if name.startswith("correctness_aligned_")]
    assert outcomes["other_inputs"] == outcomes["other_uses"] == "passed"
    wrong = "assert x.shape[1] & (x.shape[1] - 1) == 0\n" + RIGHT + " * (1.0 if x.shape[0] == 64 else 1.1)"
    assert climb_of(session_of, problem, wrong).failed


def test_where_no_shape_is_awkward_a_refusal_of_the_shrunk_one_is_noted(session_of: Open, h200: Hardware) -> None:
    reference = REFERENCE.replace("m = 64\nk = 32\nn = 48", "m = 512\nk = 256\nn = 512")
    problem = Problem(KernelTask(name="linear", reference=reference, target=h200, precision="ieee"), 7)
    problem.shapes = {"shrunk": problem.shapes["shrunk"]}
    assert problem.sizes("shrunk")["k"] % 32
    refuses = "assert x.shape[1] % 32 == 0, 'k must be a multiple of 32'\n"
    builder = climb_of(session_of, problem, refuses + RIGHT)
    assert not builder.failed, builder.findings
    outcomes = {rung.name: rung.outcome for rung in builder.rungs}
    assert outcomes["correctness_shrunk"] == "skipped"
    assert outcomes["correctness_aligned_0"] == outcomes["other_inputs"] == outcomes["other_uses"] == "passed"
    assert climb_of(session_of, problem, RIGHT + " * (1.0 if x.shape[1] == 512 else 1.1)").failed


def test_a_shape_that_the_hardware_cannot_align_is_refused_if_the_interpreter_says_so(
    session_of: Open, problem: Problem
) -> None:
    """The GPU says that an instruction is illegal, and ends the process; the interpreter says which access it was."""
    fault = "RuntimeError('CUDA error: an illegal instruction was encountered')"
    body = f"if x.shape[1] % 4:\n    (_ for _ in ()).throw({fault})\n"  # no statement of the candidate's own
    message = "a tensor descriptor block starts at element 101 of its last dimension, not at a multiple of 16 bytes"
    unaligned = [Finding(kind="unsupported_in_kernel", message=message, where="line 9, in k")]
    builder = climb_of(session_of, problem, body + RIGHT, interpreted=unaligned)
    assert not builder.failed, builder.findings
    skipped = next(rung for rung in builder.rungs if rung.name == "correctness_awkward")
    assert skipped.outcome == "skipped" and message in skipped.statement
    assert climb_of(session_of, problem, body + RIGHT).failed, "without that it is a fault"
    assert climb_of(session_of, problem, body + RIGHT + " * 1.1", interpreted=unaligned).failed
    other = [Finding(kind="out_of_bounds", message="a load beyond x")]
    assert climb_of(session_of, problem, body + RIGHT, interpreted=other).failed


def test_a_candidate_made_for_one_shape_is_told_as_that(session_of: Open, problem: Problem) -> None:
    for body in (
        "assert x.shape == (64, 32)\n" + RIGHT,
        RIGHT + " * (1.0 if x.shape[0] == 64 else 1.1)",
    ):
        builder = climb_of(session_of, problem, body)
        assert builder.findings[0].kind == "specialised_to_shape"
        assert "awkward shape {" in builder.findings[0].message
    builder = climb_of(session_of, problem, RIGHT + " * 1.1")
    assert builder.findings[0].kind == "wrong_values"


def test_a_shortcut_that_only_own_inputs_allow_is_found_on_others(session_of: Open, problem: Problem) -> None:
    builder = climb_of(session_of, problem, "return torch.relu(self.linear(x)).clamp(max=50.0)")
    assert builder.findings, builder.rungs
    assert builder.rungs[-1].name == "other_inputs"
    assert "inputs: " in builder.findings[0].message
    assert torch.is_tensor(problem.cases("awkward")[0].inputs[0])


NORM = """
import torch
from torch import nn

N, K = 64, 32

class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.norm = nn.BatchNorm1d(k)

    def forward(self, x):
        BODY

def get_inputs():
    return [torch.randn(N, K)]

def get_init_inputs():
    return [K]
"""
AS_PYTORCH = "return self.norm(x)"
FROZEN = "n = self.norm; return torch.nn.functional.batch_norm(x, None, None, n.weight, n.bias, True)"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (AS_PYTORCH, ""),
        (FROZEN, "updates norm.running_mean (train mode), and this one leaves it as it was"),
        (
            "y = self.norm(x); self.norm.running_var *= 1.01; return y",
            "updates norm.running_var (train mode), and this",
        ),
        ("y = self.norm(x); self.norm.running_var *= float('nan'); return y", "is off by nan"),
        ("y = self.norm(x); del self.norm.running_mean; return y", "holds it no longer"),
        ("y = self.norm(x); self.norm.running_mean = y; return y * 1", "forward makes float32["),
        ("y = self.norm(x); self.norm.bias.data.add_(1e-3); return y", "forward changes norm.bias, which"),
    ],
)
def test_the_state_a_forward_leaves_is_the_references(
    stand_in: None, h200: Hardware, tmp_path: Path, body: str, message: str
) -> None:
    reference = NORM.replace("BODY", AS_PYTORCH)
    problem = Problem(KernelTask(name="norm", reference=reference, target=h200, precision="ieee"), 7)
    (tmp_path / "candidate.py").write_text(NORM.replace("BODY", body).replace("class Model(", "class ModelNew("))
    judged = GpuExecutor(InProcess(tmp_path), problem, "stand-in").carry_out(
        first_group(problem.cases("awkward")[0], None)
    )
    assert set(kinds(judged)) == ({"parameter_mutated"} if message else set()), judged.findings
    assert not message or message in judged.findings[0].message
