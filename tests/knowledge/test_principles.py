"""Expert principles: loading, matching, a folder of one's own, and scoring against what was measured."""

from typing import get_args

import pytest

from egg_graph.knowledge import (
    load_hardware,
    load_principles,
    match_principles,
    score_principles,
    structures_of,
)
from egg_graph.schema import (
    Analysis,
    Attempt,
    BadInput,
    Baseline,
    Candidate,
    Effect,
    Evaluation,
    Expectation,
    KernelTask,
    PrincipleScore,
    StageName,
)

STAGES = get_args(StageName)
DOWN = Expectation(metric="dram_bytes", direction="down")


def ids(stage, operators=(), target="h200", precision="tf32", folder=None):
    task = KernelTask(name="t", reference="", target=load_hardware(target), precision=precision)
    baseline = Baseline(task=task.digest, operators=tuple(operators))
    return [p.id for p in match_principles(load_principles(folder), task=task, stage=stage, baseline=baseline)]


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_rules_with_evidence(stage):
    rules = [p for p in load_principles() if stage in p.stages]
    assert len(rules) >= 7
    for rule in rules:
        assert rule.when and rule.do and len(rule.evidence) > 20, rule.id


def test_ids_are_unique_and_files_name_their_stage():
    found = [p.id for p in load_principles()]
    assert len(found) == len(set(found))


def test_operators_are_matched_by_prefix_however_they_are_spelt():
    for name in ("aten.softmax.int", "aten._softmax.default", "aten::softmax"):
        assert "online_softmax" in ids("algorithmic_structure", [name])
    assert "online_softmax" not in ids("algorithmic_structure", ["aten.relu.default"])
    assert "fuse_pointwise_chain" in ids("algorithmic_structure", ["aten.relu.default", "aten.mul.Tensor"])
    assert "online_softmax" in ids("algorithmic_structure", []), "no operators known: the agent judges"


def test_vendor_architecture_and_precision_are_matched():
    linear = ["aten.linear.default"]
    assert "tile_tf32_hopper" in ids("tensor_tiling", linear)
    assert "tile_tf32_hopper" not in ids("tensor_tiling", linear, target="a100")
    assert "tile_tf32_hopper" not in ids("tensor_tiling", linear, precision="bf16")
    assert "tile_half_hopper" in ids("tensor_tiling", linear, precision="bf16")
    assert "xcd_remap" in ids("parallel_mapping", linear, target="mi300x")
    assert "xcd_remap" not in ids("parallel_mapping", linear)
    assert "round_operands_rna" not in ids("memory_optimization", linear, target="mi300x")


def test_the_measured_lessons_are_there():
    by_id = {p.id: p for p in load_principles()}
    for rule, lesson in {
        "round_operands_rna": "24 times",
        "chunk_the_epilogue": "327 KB",
        "no_eviction_hints": "3 percent",
        "odd_row_length": "4095",
        "tile_tf32_hopper": "128x256x32",
    }.items():
        assert lesson in by_id[rule].evidence and "H200" in by_id[rule].evidence


RULE = """
stage = "tensor_tiling"

[[principle]]
id = "{id}"
title = "Ours"
when = "Always."
do = "As we do."
changes = {{ metric = "{metric}", direction = "{direction}" }}
{extra}
"""


def own(folder, id="ours", metric="registers", direction="down", extra=""):
    text = RULE.format(id=id, metric=metric, direction=direction, extra=extra)
    (folder / "principles_ours.toml").write_text(text)
    return folder


def test_a_folder_of_ones_own_adds_and_overrides(tmp_path):
    assert "ours" in ids("tensor_tiling", folder=own(tmp_path))
    assert "ours" not in ids("parallel_mapping", folder=tmp_path)
    overridden = {p.id: p for p in load_principles(own(tmp_path, id="no_spills"))}
    assert overridden["no_spills"].do == "As we do."
    assert len(overridden) == len(load_principles())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"direction": "sideways"}, r"principle ours: changes\.direction: .*'down' or 'up'.*got 'sideways'"),
        ({"extra": "priority = 3"}, r"principle ours: priority: .*remove it"),
        ({"extra": 'stages = ["tiling"]'}, r"principle ours: stages\.0: "),
        ({"extra": 'operators = "softmax"'}, r"principle ours: operators: "),
        ({"extra": "title = 2"}, r"not valid TOML"),
        ({"extra": '[[principle]]\nid = "ours"'}, r"principle ours: title: Field required; add it"),
        ({"extra": RULE.split("\n", 3)[3].format(id="ours", metric="x", direction="up", extra="")}, "id used twice"),
    ],
)
def test_a_bad_file_gives_one_clear_line(tmp_path, change, said):
    with pytest.raises(BadInput, match=said) as error:
        load_principles(own(tmp_path, **change))
    assert "\n" not in str(error.value) and "principles_ours.toml" in str(error.value)


def test_a_stray_key_at_the_top_is_named(tmp_path):
    (tmp_path / "principles_x.toml").write_text('author = "me"\n')
    with pytest.raises(BadInput, match="author: unknown key"):
        load_principles(tmp_path)


def attempt(number, principles, held, improved=False):
    candidate = Candidate(source=f"# {number}", author="t", stage="tensor_tiling", mode="optimize")
    return Attempt(
        number=number,
        candidate=candidate,
        evaluation=Evaluation(candidate=candidate.id, task="t", status="correct", reason=""),
        analysis=Analysis(worth_optimizing=True, bottleneck="b", expected=DOWN, principles=principles),
        effect=Effect(expected=DOWN, held=held),
        improved=improved,
    )


def test_principles_are_scored_by_predicted_against_measured():
    attempts = [
        attempt(1, ("a", "b"), True, improved=True),
        attempt(2, ("a",), False),
        attempt(3, ("a", "a"), None),
        attempt(4, (), True),
        attempt(5, ("c",), None).model_copy(update={"analysis": None}),
    ]
    first, second = score_principles(attempts)
    assert first == PrincipleScore(principle="a", applied=3, held=1, missed=1, unmeasured=1, improved=1)
    assert first.rate == 0.5
    assert second == PrincipleScore(principle="b", applied=1, held=1, improved=1)
    assert score_principles([attempt(1, ("a",), None)])[0].rate is None
    assert score_principles([]) == ()


@pytest.mark.parametrize(
    ("operators", "found"),
    [
        (["aten.relu.default"], set()),
        (["aten.mul.Tensor", "aten.view.default", "aten.relu_.default"], {"pointwise_chain"}),
        (["aten.mm.default"], {"plain_product"}),
        (["aten.addmm.default", "aten.gelu.default", "aten.sum.dim_IntList"], {"product_tail", "product_reduction"}),
        (["aten.bmm", "aten._softmax.default", "aten.bmm"], {"product_reduction", "attention"}),
        (["aten.convolution.default", "aten.native_group_norm.default"], {"convolution", "product_reduction"}),
        (["aten.cumsum.default"], {"scan"}),
    ],
)
def test_structures_are_read_from_the_operators(operators, found):
    assert (structures_of(operators) or frozenset()) - {"row_reduction"} == found


def test_structures_narrow_what_the_operators_let_through():
    linear = "aten.linear.default"
    assert "leave_plain_gemm_to_library" in ids("algorithmic_structure", [linear])
    assert "leave_plain_gemm_to_library" not in ids("algorithmic_structure", [linear, "aten.relu.default"])
    assert "flash_attention" not in ids("algorithmic_structure", ["aten._softmax.default"])
    unknown = ids("algorithmic_structure", [linear, "aten.some_new_operator.default"])
    assert {"leave_plain_gemm_to_library", "fuse_pointwise_epilogue"} <= set(unknown), "what is not known excludes none"


def ranked(values=None, scores=(), stage="tensor_tiling"):
    task = KernelTask(name="t", reference="", target=load_hardware("h200"))
    baseline = Baseline(task=task.digest, operators=("aten.linear.default",))
    found = match_principles(
        load_principles(), task=task, stage=stage, baseline=baseline, values=values or {}, scores=scores
    )
    return [principle.id for principle in found]


def test_measurements_bring_a_principle_forward_or_leave_it_out():
    assert ranked({"spill_bytes": 4000.0})[0] == "no_spills"
    assert "no_spills" not in ranked({"spill_bytes": 8.0, "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": 0.0})
    assert "no_spills" in ranked({"spill_bytes": 0.0}), "one of its two metrics was not measured"
    assert "no_spills" in ranked()


def test_a_principle_whose_prediction_was_missed_comes_last_and_one_that_held_first():
    missed = PrincipleScore(principle="tile_tf32_hopper", applied=1, missed=1)
    held = PrincipleScore(principle="fit_shared_memory", applied=1, held=1)
    order = ranked(scores=(missed, held))
    assert order[0] == "fit_shared_memory" and order[-1] == "tile_tf32_hopper"


def test_a_kernel_and_its_repairs_count_as_one_attempt_at_a_principle():
    broken = attempt(1, ("a",), None)
    repair = attempt(2, ("a",), True, improved=True)
    repair = repair.model_copy(update={"candidate": repair.candidate.model_copy(update={"mode": "repair"})})
    assert score_principles([broken, repair]) == (PrincipleScore(principle="a", applied=1, held=1, improved=1),)


def test_an_unknown_structure_is_refused(tmp_path):
    with pytest.raises(BadInput, match="structures: no 'gemm_tail'; the structures are pointwise_chain"):
        load_principles(own(tmp_path, extra='structures = ["gemm_tail"]'))
