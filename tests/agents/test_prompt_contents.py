"""What a model is told in a real run, and what it is spared: see recorded_run.py."""

from itertools import pairwise

import pytest

from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.coder import CODER
from egg_graph.agents.debugger import DEBUGGER
from egg_graph.agents.filters import changes
from egg_graph.agents.logs import own_frames
from egg_graph.knowledge import prompt_text
from egg_graph.schema import ROLES, Finding, group_findings
from egg_graph.stages import PARALLEL_MAPPING
from tests.agents.briefs import PROMPTS, make_brief, whole
from tests.agents.recorded_run import recorded_briefs
from tests.lab.briefs import measure_briefs, page
from tests.paths import ROOT

CHAT_ROLES = {"analyst": ANALYST, "coder": CODER, "debugger": DEBUGGER}


def sent(role):
    """Brief and whole prompt of each call of a role, in order."""
    return [(brief, whole(CHAT_ROLES[role], brief)) for other, brief in recorded_briefs() if other == role]


@pytest.mark.parametrize("role", ROLES)
def test_every_prompt_of_a_role_begins_with_the_same_fixed_part(role):
    """So that providers that keep the beginning of a prompt need not read it again."""
    prompts = sent(role)
    assert len(prompts) >= 3
    for (brief, prompt), (_, following) in pairwise(prompts):
        fixed = PROMPTS.fixed(role, brief)
        assert prompt.startswith(fixed) and following.startswith(fixed)
        assert brief.task.reference.strip() in fixed and "Present stage" not in fixed


def test_the_calls_of_a_role_cross_stages():
    assert {brief.stage for brief, _ in sent("analyst")} == {"algorithmic_structure", "parallel_mapping"}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_told_the_acceptance_rule_what_is_left_and_what_is_measured(role):
    for brief, prompt in sent(role):
        assert brief.ranked_by in prompt
        assert f"{brief.remaining.attempts} more kernels may be evaluated" in prompt
        assert ("can be checked: bound_ms, launches, dram_bytes," in prompt) is bool(brief.measurable)
    assert sent(role)[-1][0].measurable


def test_the_debugger_is_told_an_error_once_and_in_the_candidates_frames():
    brief, prompt = sent("debugger")[0]
    assert len(brief.evaluation.findings) == 2 and len(brief.evaluation.log) > 3000
    assert prompt.count(brief.evaluation.findings[0].message) == 1 and "(2 times)" in prompt
    assert "interpreter.py" not in prompt and "site-packages" not in prompt and "egg_graph" not in prompt
    assert 'File "candidate.py", line 14, in scale_kernel' in prompt


def test_the_debugger_is_told_constants_shapes_and_what_was_changed():
    first, second, fused = (prompt for _, prompt in sent("debugger"))
    assert "program (0, 0, 0), BLOCK=4096, num_warps=8" in first
    assert "x: float32[512, 4000]" in first and "rows = 16; rows = 29" in first
    assert "What it changed" not in first
    assert "the kernel before it, which failed too (attempt 1: runtime_error)" in second
    assert "+    w = tl.load(w_ptr + offsets, mask=offsets <= columns, other=1.0)" in second
    assert "the failure at hand, the same as of attempt 1 (2 times now)" in second
    assert "the last kernel that was right (attempt 3: correct)" in fused and "def scale_kernel(" in fused
    assert "x [16, 4000]" in fused and "compiled scaled_softmax_kernel for sm_90, BLOCK=4096" in fused


def test_passed_checks_and_missing_metrics_take_a_line_each():
    brief, prompt = sent("analyst")[-1]
    assert len(brief.evaluation.checks) == 20 and len(brief.metrics) == 23
    assert prompt.count("passed") < 6 and "- 20 checks passed (shrunk, awkward, " in prompt
    assert prompt.count("missing") == 0
    assert "15 of this stage's 23 metrics were not measured here: needs Nsight Compute on a GPU." in prompt


def test_the_analyst_is_told_chains_with_the_best_one_named():
    prompt = sent("analyst")[1][1]
    assert "attempts 4, 5 (optimize, operator_fusion): Fuse scale_kernel into softmax_kernel" in prompt
    assert "accepted; bound_ms 0.00683 to 0.003417 (-50 %), launches 2 to 1 (-50 %)" in prompt
    assert "THIS IS THE BEST KERNEL" in prompt and "Dead ends" not in prompt
    assert "predicted dram_bytes down: 3.278e+07 to 1.64e+07, held" in prompt
    last = sent("analyst")[2][1]
    assert "undecided without a clock: attempt 6 (optimize): Launch scaled_softmax_kernel with num_warps=16" in last


def test_a_principles_record_stands_beside_it():
    prompt = sent("analyst")[1][1]
    assert "In this run: followed 1 times, the predicted effect held 1 times, was missed 0 times" in prompt


def test_lines_that_are_cited_are_quoted_where_the_kernel_has_no_numbers():
    plan = next(prompt for brief, prompt in sent("coder") if brief.mode == "optimize")
    assert "  15      tl.store(y_ptr + row * columns + offsets, x * w, mask=inside)" in plan
    repair = next(prompt for brief, prompt in sent("coder") if brief.mode == "repair")
    assert "  14      w = tl.load(w_ptr + offsets)" in repair
    assert all("   8  def " in prompt for role in ("analyst", "debugger") for _, prompt in sent(role))


def test_prompts_do_not_contradict_themselves():
    coder = PROMPTS.system("coder", make_brief())
    assert "A product that you leave to the library is no kernel of yours" in coder
    brief = make_brief()
    strict = brief.model_copy(update={"task": brief.task.model_copy(update={"triton_only": True})})
    assert "that you leave to the library" not in PROMPTS.system("coder", strict)
    assert "not once per use" not in coder and "inside the loop over K" in coder
    loop = prompt_text("fewshot_kernel.py.txt").partition("for k in range")[2].partition("bias = ")[0]
    assert "round_to_tf32(x)" in loop, "the example rounds where the rule says"
    assert "split" not in PARALLEL_MAPPING.objective and "number of kernels" in PARALLEL_MAPPING.objective


def test_a_reference_without_a_product_is_told_nothing_of_rounding_for_one():
    (_, seed), *_ = sent("coder")
    assert "exactly this helper" not in seed
    assert "exactly this helper" in PROMPTS.system("coder", make_brief())


def test_the_page_shows_the_briefs_as_they_are_sent():
    told = (ROOT / "docs" / "briefs.md").read_text(encoding="utf-8")
    assert told == page(), "run: python -m tests.lab.briefs > docs/briefs.md"


def test_no_prompt_of_the_recorded_run_is_large():
    assert all(row.total < 5000 for row in measure_briefs().rows)


def test_findings_of_one_failure_are_one():
    findings = [
        Finding(kind="out_of_bounds", message=f"element {n} of 7", where=f"kernel a, line {n}; the first call")
        for n in (8, 9)
    ]
    other = Finding(kind="out_of_bounds", message="element 8 of 7", where="kernel b, line 3")
    first, second = group_findings([*findings, other])
    assert (first.message, first.count, first.places) == ("element 8 of 7", 2, ("kernel a, line 8", "kernel a, line 9"))
    assert second.places == ("kernel b, line 3",)


def test_a_log_keeps_what_is_no_traceback():
    log = "warming up\nwarming up\nTraceback (most recent call last):\n" + (
        '  File "/x/triton/jit.py", line 3, in run\n    kernel()\n  File "/job-1/candidate.py", line 5, in forward\n'
        "    k[(1,)](x)\n    ^^^^^^^^^^\n"
    ) + "ValueError: no\nwhile compiling:\n    x = 1\n"  # fmt: skip
    assert own_frames(log).splitlines() == [
        "warming up  [2 times]", '  File "candidate.py", line 5, in forward', "    k[(1,)](x)", "    ^^^^^^^^^^",
        "ValueError: no", "while compiling:", "    x = 1",
    ]  # fmt: skip


def test_a_log_that_begins_inside_a_traceback_is_read_as_one():
    log = 'kwargs)\n    ^^^^\n  File "/a/core.py", line 4, in load\n    return x\nKernelFault: outside\n'
    assert own_frames(log) == "KernelFault: outside"


def test_a_rewrite_is_shown_by_the_source_that_it_replaced():
    assert changes("a\n" * 30, "b\nc\n").startswith("Almost everything. It was:\n```python\nb\nc")
    assert "the sources are the same" in changes("a\n", "a\n")
