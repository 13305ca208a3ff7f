"""What each role sees: the inter-stage and the intra-stage context."""

from egg_graph import Context, build_egg_graph
from egg_graph.knowledge import load_principles
from egg_graph.stages import PARALLEL_MAPPING, STAGES
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel


def briefs(script, **knobs):
    team = ScriptedTeam(script)
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator())
    graph.invoke({"reference": REFERENCE}, context=Context(target="h100", max_optimizations=1, **knobs))
    return team.briefs


def test_everyone_sees_task_baseline_objective_and_metrics():
    for _, brief in briefs([kernel("bad"), kernel("ok", 9), kernel("ok", 8)]):
        stage = next(s for s in STAGES if s.name == brief.stage)
        assert brief.task.reference == REFERENCE and brief.baseline.operators == ("aten.relu",)
        assert (brief.objective, brief.metrics) == (stage.objective, stage.metrics)


def test_the_seed_is_written_from_the_reference_and_the_principles():
    role, brief = briefs([kernel("ok")])[0]
    assert (role, brief.mode, brief.kernel, brief.best, brief.analysis) == ("coder", "seed", None, None, None)
    shipped = {p.id for p in load_principles() if "algorithmic_structure" in p.stages}
    assert brief.principles and {p.id for p in brief.principles} <= shipped


def test_the_debugger_and_the_repairing_coder_see_the_broken_kernel_and_why():
    (_, seed), (_, debugger), (_, coder), *_ = briefs([kernel("bad"), kernel("ok")])
    assert seed.attempts == ()
    for brief in (debugger, coder):
        assert brief.mode == "repair" and brief.kernel.source == kernel("bad")
        assert brief.evaluation.findings[0].cure == "check the mask"
        assert [a.number for a in brief.attempts] == [1]
    assert debugger.diagnosis is None and coder.diagnosis.modification_plan == "mend 1"


def test_the_second_diagnosis_sees_the_first():
    debuggers = [b for role, b in briefs([kernel("bad", 1), kernel("bad", 2), kernel("ok")]) if role == "debugger"]
    assert debuggers[1].diagnosis.modification_plan == "mend 1" and len(debuggers[1].attempts) == 2
    assert [step.attempt for step in debuggers[1].at_hand.steps] == [1, 2] and debuggers[1].dead_ends == ()


def test_the_optimizing_coder_follows_the_analysts_plan_on_the_best_kernel():
    (_, _), (role, analyst), (_, coder), *_ = briefs([kernel("ok", 9), kernel("ok", 8)])
    assert role == "analyst" and analyst.kernel.source == coder.kernel.source == kernel("ok", 9)
    assert analyst.analysis is None and coder.analysis.plan == "plan 1" and coder.mode == "optimize"


def test_a_later_stage_sees_summaries_and_none_of_the_earlier_stages_attempts():
    seen = briefs([kernel("ok", 9), kernel("bad"), kernel("ok", 7)], max_repairs=0)
    brief = next(b for role, b in seen if b.stage == PARALLEL_MAPPING.name)
    (summary,) = brief.summaries
    assert brief.attempts == () and brief.analysis is None and brief.diagnosis is None
    assert (summary.stage, summary.outcome, summary.attempts) == ("algorithmic_structure", "improved", 2)
    assert summary.paid[0].startswith("attempt 1 (seed)") and "incorrect: bad kernel" in summary.failed[0]
    assert summary.best == brief.best.id and summary.usage.calls == 3


def test_without_the_inter_stage_context_a_later_stage_sees_the_kernel_and_no_summary():
    seen = briefs([kernel("ok", 9), kernel("bad"), kernel("ok", 7)], max_repairs=0, inter_stage_context=False)
    later = [b for _, b in seen if b.stage != "algorithmic_structure"]
    assert later and all(b.summaries == () and b.best is not None for b in later)


def test_guidance_of_the_playbooks_reaches_analyst_and_coder_for_the_references_operators():
    told = {role: brief.guidance for role, brief in briefs([kernel("bad"), kernel("ok", 9), kernel("ok", 8)])}
    (_, seed), (_, debugger), (_, repair), *_ = briefs([kernel("bad"), kernel("ok")])
    assert list(seed.guidance) == ["pointwise"] and "fuse the whole chain" in seed.guidance["pointwise"]
    assert told["analyst"] == told["coder"] == seed.guidance
    assert debugger.guidance == repair.guidance == {}


def test_metrics_and_prompts_of_the_stages():
    from egg_graph.knowledge import prompt_files

    assert all(stage.prompt in prompt_files(".j2") for stage in STAGES)
    for stage in STAGES:
        assert len(set(stage.metrics)) == len(stage.metrics) > 5
        assert "smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct" not in stage.metrics
