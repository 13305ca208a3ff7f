"""The embedded expert as analyst, coder and debugger. Capturing is real; evaluations are written by hand."""

import ast

import pytest

from egg_graph.expert import EmbeddedExpert
from egg_graph.expert.codegen.plan import read_plan
from egg_graph.knowledge import load_hardware, load_principles
from egg_graph.schema import (
    Analysis,
    Attempt,
    Baseline,
    Bound,
    Brief,
    Candidate,
    Diagnosis,
    Evaluation,
    Finding,
    KernelResources,
    KernelTask,
    Sweep,
    Timing,
)
from egg_graph.team import Team
from egg_graph.tuning import read_knobs
from tests.expert.references import module
from tests.paths import EXAMPLES

pytestmark = pytest.mark.slow

REFERENCE = module(
    "return torch.softmax(F.gelu(self.linear(x)), dim=1)",
    init="self.linear = nn.Linear(C, 2 * C)",
    sizes="N, C = 128, 256",
)
TASK = KernelTask(name="case", reference=REFERENCE, target=load_hardware("h200"))
BASELINE = Baseline(task=TASK.digest, floor_ms=0.010, operators=("aten.linear.default", "aten.gelu.default"))
EXPERT = EmbeddedExpert()
GELU_MLP = EXAMPLES / "gelu_mlp.py"


def brief(stage="algorithmic_structure", mode="seed", **more) -> Brief:
    more = {"task": TASK, "baseline": BASELINE, **more}
    return Brief(stage=stage, objective="", mode=mode, **more)


def candidate(source: str, **more) -> Candidate:
    config, space, dropped = read_knobs(source)
    assert not dropped
    fields = {"author": EXPERT.name, "stage": "algorithmic_structure", "mode": "seed", "config": config, "space": space}
    return Candidate(source=source, **{**fields, **more})


def evaluation(kernel: Candidate, status="correct", findings=(), **more) -> Evaluation:
    return Evaluation(candidate=kernel.id, task=TASK.digest, status=status, reason="", findings=findings, **more)


def bound(ms: float) -> Bound:
    return Bound(dram_bytes=1e6, requested_bytes=1e6, dot_flops=0, milliseconds=ms, limiter="dram", launches=1)


def timing(ms: float) -> Timing:
    return Timing(candidate_ms=ms, eager_ms=ms, baseline="eager", ratio=1, ratio_low=1, ratio_high=1, pairs=30)


@pytest.fixture(scope="module")
def seed() -> Candidate:
    draft = EXPERT.write(brief())
    assert not draft.problem
    return candidate(draft.source)


def repair(broken: Candidate, *findings: Finding, status="incorrect", attempts=()) -> tuple[Diagnosis, Candidate]:
    """Debug, then write, as the graph does."""
    asked = brief(mode="repair", kernel=broken, evaluation=evaluation(broken, status, findings), attempts=attempts)
    diagnosis = EXPERT.debug(asked)
    draft = EXPERT.write(asked.model_copy(update={"diagnosis": diagnosis}))
    assert not draft.problem
    return diagnosis, candidate(draft.source)


def test_is_a_team():
    assert isinstance(EXPERT, Team)


def test_seed_is_a_module_by_the_contract(seed):
    tree = ast.parse(seed.source)
    names = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    assert "ModelNew" in names and not names & {"Model", "get_inputs", "get_init_inputs"}
    assert "self.linear = nn.Linear(C, 2 * C)" in seed.source
    assert read_plan(seed.source) == ({"gemm": "pointer", "row": "whole"}, ())
    assert set(seed.config) >= {"gemm_BLOCK_M", "row_num_warps"} and set(seed.space) >= {"parallel_mapping"}
    assert all(len(line) <= 120 for line in seed.source.splitlines())


def test_same_brief_same_answer(seed):
    assert EXPERT.write(brief()).source == seed.source


ROW_DROPPED = ({"gemm": "pointer", "pointwise_1": "", "pointwise_2": ""}, ("row",))
GEMM_DROPPED = ({"row": "whole"}, ("gemm",))


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (Finding(kind="wrong_values", message="differs", where="row_kernel line 12"), ROW_DROPPED),
        (Finding(kind="out_of_bounds", message="load outside", where="row_kernel"), ROW_DROPPED),
        (Finding(kind="kernel_compile_error", message="gemm_kernel: error"), GEMM_DROPPED),
        (Finding(kind="tf32_truncation", message="biased"), GEMM_DROPPED),
    ],
)
def test_a_failing_kernel_goes_back_to_pytorch(seed, finding, expected):
    _, repaired = repair(seed, finding)
    assert read_plan(repaired.source) == expected
    assert "Left to PyTorch" in repaired.source


def test_too_much_shared_memory_takes_a_stage_off(seed):
    diagnosis, repaired = repair(
        seed,
        Finding(kind="shared_memory_exceeded", message="393216 > 232448", where="gemm_kernel"),
        status="compile_error",
    )
    assert repaired.config["gemm_num_stages"] == seed.config["gemm_num_stages"] - 1
    assert "gemm_num_stages" in diagnosis.modification_plan
    assert {k: v for k, v in repaired.config.items() if k != "gemm_num_stages"} == {
        k: v for k, v in seed.config.items() if k != "gemm_num_stages"
    }


def test_spilled_registers_get_more_warps(seed):
    _, repaired = repair(
        seed, Finding(kind="register_spill", message="512 bytes", where="row_kernel"), status="correct"
    )
    assert repaired.config["row_num_warps"] == 2 * seed.config["row_num_warps"]


def test_the_same_repair_is_not_tried_twice(seed):
    finding = Finding(kind="shared_memory_exceeded", message="too much", where="gemm_kernel")
    _, first = repair(seed, finding, status="compile_error")
    attempts = tuple(
        Attempt(number=i, candidate=k, evaluation=evaluation(k, "compile_error", (finding,)))
        for i, k in enumerate((seed, first), 1)
    )
    _, second = repair(seed, finding, status="compile_error", attempts=attempts)
    assert read_plan(second.source)[1] == ("gemm",)


def test_repairs_end_in_a_problem_when_nothing_is_left(seed):
    broken = seed
    for _ in range(6):
        asked = brief(mode="repair", kernel=broken, evaluation=evaluation(broken, "incorrect"))
        draft = EXPERT.write(asked)
        if draft.problem:
            assert "no playbook" in draft.problem
            return
        broken = candidate(draft.source)
    pytest.fail("the expert never ran out of kernels")


def test_somebody_elses_broken_module_is_written_anew(seed):
    foreign = Candidate(source="import torch\n", author="model", stage="algorithmic_structure", mode="seed")
    asked = brief(mode="repair", kernel=foreign, evaluation=evaluation(foreign, "invalid"))
    assert EXPERT.write(asked).source == seed.source


@pytest.mark.parametrize("kind", ["syntax_error", "write_race", "timeout", "memory_exceeded", "wrong_shape", "exited"])
def test_diagnosis_is_short_and_names_the_failure(seed, kind):
    message = "word " * 60
    asked = brief(
        mode="repair", kernel=seed, evaluation=evaluation(seed, "incorrect", (Finding(kind=kind, message=message),))
    )
    diagnosis = EXPERT.debug(asked)
    assert 3 <= len(diagnosis.critical_issue.split()) <= 30 and 3 <= len(diagnosis.modification_plan.split()) <= 30


def test_at_the_floor_no_structure_is_worth_it(seed):
    analysis = EXPERT.analyze(brief(mode="optimize", kernel=seed, evaluation=evaluation(seed, bound=bound(0.0101))))
    assert not analysis.worth_optimizing and "1.01x the floor" in analysis.bottleneck


def test_below_the_floor_it_says_why(seed):
    analysis = EXPERT.analyze(brief(mode="optimize", kernel=seed, evaluation=evaluation(seed, bound=bound(0.005))))
    assert "0.50x the floor, which counts all inputs, parameters and products; this kernel" in analysis.bottleneck


def test_a_slow_kernel_of_an_unmeasured_shape_gets_one_other_structure(seed):
    principles = tuple(p for p in load_principles() if "algorithmic_structure" in p.stages)
    slow = evaluation(seed, "slower", bound=bound(0.010), timing=timing(0.050))
    asked = brief(mode="optimize", kernel=seed, evaluation=slow, principles=principles)
    analysis = EXPERT.analyze(asked)
    assert analysis.plan.startswith("Switch gemm from pointer to tma:") and analysis.expected.metric == "milliseconds"
    assert analysis.category != "none" and set(analysis.principles) <= {p.id for p in principles}
    draft = EXPERT.write(asked.model_copy(update={"analysis": analysis}))
    other = candidate(draft.source, mode="optimize", plan=analysis.plan)
    assert read_plan(other.source)[0] == {"gemm": "tma", "row": "whole"}
    tried = Attempt(number=2, candidate=other, evaluation=slow, analysis=analysis)
    again = EXPERT.analyze(asked.model_copy(update={"attempts": (tried,)}))
    assert not again.worth_optimizing and "another structure was tried" in again.root_cause


def test_a_broken_alternative_is_mended_only_where_it_stays_one(seed):
    """Taking its structure back leads to the kernel that it was made from; smaller tiles may make it fit."""
    plan = Analysis(worth_optimizing=True, bottleneck="", plan="Switch gemm from pointer to tma: persistent programs.")
    wished = EXPERT.write(brief(mode="optimize", kernel=seed, evaluation=evaluation(seed), analysis=plan))
    broken = candidate(wished.source, mode="optimize", plan=plan.plan)

    def mended(kind: str):
        found = evaluation(broken, "incorrect", (Finding(kind=kind, message="gemm_kernel", where="gemm_kernel"),))
        return EXPERT.write(brief(mode="repair", kernel=broken, evaluation=found, analysis=plan, best=seed))

    wrong, large = mended("wrong_values"), mended("shared_memory_exceeded")
    assert wrong.declined == "gemm as tma did not come out right; the kernel before it stands" and not wrong.source
    assert not large.declined and read_plan(large.source)[0] == {"gemm": "tma", "row": "whole"}


def test_products_change_their_structure_together():
    """A large MLP starts as TMA products on Hopper, and both products go to the library at once."""
    task = TASK.model_copy(update={"reference": GELU_MLP.read_text()})
    kernel = candidate(EXPERT.write(brief(task=task)).source)
    assert read_plan(kernel.source)[0] == {"gemm_1": "tma", "gemm_2": "tma"}
    slow = evaluation(kernel, "slower", bound=bound(2.2), timing=timing(5.0))
    asked = brief(mode="optimize", task=task, kernel=kernel, evaluation=slow)
    analysis = EXPERT.analyze(asked)
    assert analysis.plan.startswith("Switch gemm_1, gemm_2 from tma to library:")
    source = EXPERT.write(asked.model_copy(update={"analysis": analysis})).source
    assert read_plan(source) == ({"pointwise": ""}, ("gemm_1", "gemm"))


def test_few_long_rows_are_split_and_walked_only_where_nobody_measured_that():
    """16 rows would leave most multiprocessors idle, and no program holds 4 million numbers. A survey on an H200 says
    so; on an A100 one evaluation may tell otherwise."""
    source = module("return F.layer_norm(x, (x.shape[1],))", sizes="N, C = 16, 4194304")
    surveyed = TASK.model_copy(update={"reference": source})
    task = surveyed.model_copy(update={"target": load_hardware("a100")})
    kernel = candidate(EXPERT.write(brief(task=task)).source)
    assert read_plan(kernel.source)[0] == {"row": "split"}
    slow = evaluation(kernel, "slower", bound=bound(0.2), timing=timing(1.3))
    asked = brief(mode="optimize", task=task, kernel=kernel, evaluation=slow)
    settled = EXPERT.analyze(asked.model_copy(update={"task": surveyed}))
    assert not settled.worth_optimizing and "the structure of row was the fastest for others like" in settled.root_cause
    analysis = EXPERT.analyze(asked)
    assert "from split to looped" in analysis.plan
    looped = candidate(EXPERT.write(asked.model_copy(update={"analysis": analysis})).source, plan=analysis.plan)
    tried = Attempt(number=2, candidate=looped, evaluation=slow, analysis=analysis)
    assert not EXPERT.analyze(asked.model_copy(update={"attempts": (tried,)})).worth_optimizing, "the same structure"


def test_without_a_clock_spills_speak_for_the_looped_row():
    source = module("return torch.softmax(x, dim=1)", sizes="N, C = 128, 8192")
    task = TASK.model_copy(update={"reference": source})
    kernel = candidate(EXPERT.write(brief(task=task)).source)
    spilled = KernelResources(
        kernel="row_kernel", target="sm_90", grid=(1,), num_warps=4, num_stages=3, spill_bytes=64, shared_limit=1
    )
    unclocked = evaluation(kernel, bound=bound(0.05), resources=(spilled,))
    asked = brief(mode="optimize", task=task, kernel=kernel, evaluation=unclocked)
    analysis = EXPERT.analyze(asked)
    assert analysis.worth_optimizing and analysis.plan.startswith("Switch row from")
    draft = EXPERT.write(asked.model_copy(update={"analysis": analysis}))
    assert read_plan(draft.source)[0]["row"] == "looped"


@pytest.mark.parametrize("stage", ["parallel_mapping", "tensor_tiling", "memory_optimization"])
def test_tuning_stages_name_their_knobs_and_leave_the_source(seed, stage):
    asked = brief(stage=stage, mode="optimize", kernel=seed, evaluation=evaluation(seed, bound=bound(0.05)))
    analysis = EXPERT.analyze(asked)
    assert analysis.worth_optimizing == bool(seed.space.get(stage))
    assert all(knob in analysis.plan for knob in seed.space.get(stage, {}))
    assert EXPERT.write(asked.model_copy(update={"analysis": analysis})).source == seed.source


def test_knobs_that_were_swept_with_all_others_are_not_swept_again(seed):
    knobs = {knob: (seed.config[knob],) for knobs in seed.space.values() for knob in knobs}
    whole = Sweep(stage="algorithmic_structure", kernel=seed.id, knobs=knobs, trials=())
    asked = brief(stage="tensor_tiling", mode="optimize", kernel=seed, evaluation=evaluation(seed), sweeps=(whole,))
    analysis = EXPERT.analyze(asked)
    assert not analysis.worth_optimizing and analysis.root_cause == "all knobs were swept together in an earlier stage"


def test_tuning_stage_without_knobs_is_not_worth_it(seed):
    bare = seed.model_copy(update={"space": {}})
    asked = brief(stage="tensor_tiling", mode="optimize", kernel=bare, evaluation=evaluation(bare))
    assert not EXPERT.analyze(asked).worth_optimizing


def test_a_reference_without_a_matching_operator_is_a_problem_not_a_crash():
    task = TASK.model_copy(update={"reference": module("return torch.sort(x)[0]")})
    draft = EXPERT.write(Brief(task=task, baseline=BASELINE, stage="algorithmic_structure", objective="", mode="seed"))
    assert "no playbook matches" in draft.problem and not draft.source and draft.declined == draft.problem


def test_the_plan_of_a_model_is_not_misread(seed):
    asked = brief(mode="optimize", kernel=seed, evaluation=evaluation(seed))
    foreign = Analysis(worth_optimizing=True, bottleneck="?", plan="Switch to fp8 everywhere.")
    draft = EXPERT.write(asked.model_copy(update={"analysis": foreign}))
    assert draft.source == seed.source and draft.declined.startswith("the embedded expert follows no plan")


TIMED = BASELINE.model_copy(update={"eager_ms": 0.37, "floor_ms": 0.305})
LARGE = "N, C = 1024, 8192"


def test_with_a_clock_a_large_product_is_left_to_the_library_and_its_tail_written():
    """Without one, and where only Triton may run, the product is ours."""
    task = TASK.model_copy(update={"reference": module(
        "return torch.relu(self.linear(x))", init="self.linear = nn.Linear(C, C)", sizes=LARGE
    )})  # fmt: skip
    draft = EXPERT.write(brief(task=task, baseline=TIMED))
    assert read_plan(draft.source) == ({"pointwise": ""}, ("gemm",)) and "0.33 ms" in draft.note
    only = task.model_copy(update={"triton_only": True})
    for asked in (brief(task=task), brief(task=only, baseline=TIMED)):
        assert read_plan(EXPERT.write(asked).source) == ({"gemm": "tma"}, ())
    kernel = candidate(draft.source)
    for ms, worth in ((0.345, "library's product takes about 0.329"), (0.6, "no playbook offers")):
        told = evaluation(kernel, "slower", bound=bound(0.3), timing=timing(ms))
        assert worth in EXPERT.analyze(brief(mode="optimize", task=task, kernel=kernel, evaluation=told)).root_cause


def test_a_bare_product_that_must_lose_gets_one_structure_and_no_sweep():
    task = TASK.model_copy(update={"reference": module("return x @ x.T", sizes="N, C = 4096, 4096")})
    kernel = candidate(EXPERT.write(brief(task=task, baseline=TIMED)).source)
    assert read_plan(kernel.source) == ({"gemm": "tma"}, ())
    slow = evaluation(kernel, "slower", bound=bound(0.305), timing=timing(0.53))
    for stage in ("algorithmic_structure", "tensor_tiling"):
        asked = brief(stage=stage, mode="optimize", task=task, kernel=kernel, evaluation=slow)
        analysis = EXPERT.analyze(asked)
        assert not analysis.worth_optimizing and "0.33 ms by the library, 0.49 ms by ours" in analysis.root_cause
    only = task.model_copy(update={"triton_only": True})
    asked = brief(mode="optimize", task=only, kernel=kernel, evaluation=slow)
    assert "the structure of gemm was the fastest for others like it (survey" in EXPERT.analyze(asked).root_cause
