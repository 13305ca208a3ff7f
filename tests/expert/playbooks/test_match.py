"""What the heavy playbooks recognise, what they leave alone, and the knobs they start from."""

import ast
import logging
import warnings
from dataclasses import replace
from functools import cache

import pytest
import torch

from egg_graph.expert.capture.decompose import decomposer
from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.plan import Plan
from egg_graph.expert.playbooks.convolution import tiles
from egg_graph.expert.playbooks.convolution.layout import prepare
from egg_graph.expert.playbooks.gemm.playbook import GemmPlaybook
from egg_graph.expert.playbooks.planner import make_plan, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS, playbooks_by_name
from egg_graph.knowledge import load_hardware
from egg_graph.schema import Figure, Hardware, Knob
from tests.expert.playbooks.cases import CASES, attention, module, product, scan
from tests.sample import in_sample, thorough

pytestmark = pytest.mark.slow

AB = "torch.randn(M, K), torch.randn(K, N)"


@cache
def capture(reference: str, precision: str = "tf32") -> CapturedGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.export's own
        return export_graph(reference, precision)


def planned(reference: str) -> Plan:
    return make_plan(capture(reference), PLAYBOOKS)


def kinds(plan: Plan) -> list[str]:
    return [group.playbook for group in plan.groups.values()]


def gemm(sizes: str, variant: str = "", precision: str = "tf32", target: Hardware | None = None) -> KernelCode:
    graph = capture(product("return a @ b", AB, sizes=sizes), precision)
    playbook = GemmPlaybook()
    group = playbook.match(graph, graph.nodes[0].name, frozenset(n.name for n in graph.nodes))
    assert group is not None
    return playbook.write(graph, replace(group, variant=variant or group.variant), "gemm", precision, target)  # type: ignore[arg-type]


MOMENTS = [(64, 64, True), (64, 128, False), (32, 128, True), (8, 128, True)]


@pytest.mark.parametrize("norm", in_sample(["nn.BatchNorm2d(n)", "nn.GroupNorm(8, n)"], ["nn.BatchNorm2d(n)"]))
@pytest.mark.parametrize(("few", "channels", "leaves"), in_sample(MOMENTS, MOMENTS[:2]))
def test_a_convolution_leaves_moments_where_they_cost_less_than_a_pass(
    norm: str, few: int, channels: int, leaves: bool
) -> None:
    reference = module(
        "return self.norm(self.conv(x))", f"B, C, N, H = 8, {few}, {channels}, 34", "torch.randn(B, C, H, H)",
        init=f"c, n; self.conv = nn.Conv2d(c, n, 3); self.norm = {norm}", init_args="C, N",
    )  # fmt: skip
    plan = make_plan(prepare(capture(reference)), PLAYBOOKS)
    written = write_kernels(plan, PLAYBOOKS, "tf32")
    assert (len(written["convolution"].returns) == 2) == leaves
    assert "join" in written if leaves else {"statistics", "row"} & set(written)


@pytest.mark.skipif(not decomposer.KNOWN, reason="this PyTorch has other halves of run_decompositions: all is plain")
@pytest.mark.parametrize("name", ["long_epilogue", "written_out"])
def test_overriding_only_what_the_first_shape_met_changes_no_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = capture(CASES[name].reference)
    monkeypatch.setattr(decomposer, "KNOWN", False)
    assert capture.__wrapped__(CASES[name].reference) == ours


def test_a_composite_operator_that_came_after_a_capture_stays_whole_too() -> None:
    """The rules are gathered once for the operators that there are, and a reference may register one."""
    capture(module("return x + 1.0", "N = 64", "torch.randn(N)"))
    library = torch.library.Library("of_this_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2.0 * x, "CompositeImplicitAutograd")
    graph = capture(module("return torch.ops.of_this_test.twice(x)", "N = 64", "torch.randn(N)"))
    assert graph.operators == ("of_this_test.twice.default",)


def test_whole_chain_joins_its_product() -> None:
    plan = planned(CASES["long_epilogue"].reference)
    assert logging.root.manager.disable == logging.NOTSET, "a capture leaves the log as it was"
    assert kinds(plan) == ["gemm"]
    assert plan.left == ()


def test_gated_unit_is_three_products_and_nothing_else() -> None:
    plan = planned(CASES["swiglu"].reference)
    assert kinds(plan) == ["gemm", "gemm", "gemm"]
    assert plan.left == ()


def test_value_needed_elsewhere_ends_the_chain() -> None:
    plan = planned(product("y = a @ b; return y, torch.relu(y)", AB))
    gemms = [group for group in plan.groups.values() if group.playbook == "gemm"]
    assert [len(group.nodes) for group in gemms] == [1]


def test_operand_broadcast_in_the_middle_stays_outside() -> None:
    inputs = "torch.randn(3, Z, M, K), torch.randn(3, Z, K, N), torch.randn(3, 1, M, N)"
    plan = planned(product("return torch.matmul(a, b) + c", inputs, "a, b, c"))
    assert kinds(plan)[0] == "gemm"
    assert len(next(iter(plan.groups.values())).nodes) == 1


def test_products_in_fp64_are_left_alone() -> None:
    graph = capture(product("return a @ b", "torch.randn(M, K).double(), torch.randn(K, N).double()"))
    free = frozenset(n.name for n in graph.nodes)
    assert all(GemmPlaybook().match(graph, name, free) is None for name in free)


def test_attention_written_out_is_one_group() -> None:
    plan = planned(CASES["written_out"].reference)
    assert kinds(plan).count("attention") == 1
    assert kinds(plan).count("gemm") == 1


@pytest.mark.parametrize("limit", [232_448, 101_376])
def test_wide_heads_by_descriptors_fit_in_shared_memory(h200: Hardware, limit: int) -> None:
    """Queries, and keys and values of every stage, lie there: 64 KiB and 64 KiB a stage at 128 wide in fp32."""
    figures = {**h200.figures, "shared_memory_per_block": Figure(value=limit, unit="byte", source="")}
    graph = capture(CASES["wide_head"].reference)
    groups = make_plan(graph, PLAYBOOKS).groups
    plan = make_plan(graph, PLAYBOOKS, dict.fromkeys(groups, "tma"))
    (code,) = write_kernels(plan, PLAYBOOKS, "tf32", h200.model_copy(update={"figures": figures})).values()
    stages = {name: v for space in code.space.values() for name, v in space.items() if name.endswith("num_stages")}
    ((name, values),) = stages.items()
    tiles = {key.rpartition("BLOCK_")[2]: value for key, value in code.config.items() if "BLOCK_" in key}
    needed = [4 * 128 * (tiles["M"] + 2 * stage * tiles["N"]) for stage in (*values, code.config[name])]
    assert max(needed) <= limit and len(values) >= 1


def test_scores_needed_elsewhere_are_no_attention() -> None:
    body = "s = torch.softmax(q @ k.transpose(-2, -1), dim=-1); return s @ v, s"
    assert "attention" not in kinds(planned(attention(body)))


def test_attention_with_dropout_stays_pytorch() -> None:
    plan = planned(attention("return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)"))
    assert "attention" not in kinds(plan)


@pytest.mark.parametrize(
    ("body", "reverse"),
    [
        ("return torch.cumsum(x.flip(1), dim=1).flip(1)", True),
        ("return torch.cumsum(x.flip(0), dim=1).flip(0)", False),
        ("return torch.cumsum(x.flip(1), dim=1)", False),
    ],
)
def test_only_flips_of_the_scanned_dimension_reverse(body: str, reverse: bool) -> None:
    plan = planned(scan(body, "torch.randn(B, N)"))
    name, group = next((n, g) for n, g in plan.groups.items() if g.playbook == "scan")
    source = playbooks_by_name()["scan"].write(plan.graph, group, name, "tf32").source
    assert ("reverse=True" in source) is reverse


@pytest.mark.parametrize(("cut", "exclusive"), [(":-1", True), ("1:", False)])
def test_only_a_sum_without_the_last_number_after_a_zero_is_exclusive(cut: str, exclusive: bool) -> None:
    body = f"return torch.cat([torch.zeros_like(x[:, :1]), torch.cumsum(x[:, {cut}], 1)], 1)"
    plan = make_plan(capture(scan(body, "torch.randn(B, N)")), PLAYBOOKS)
    assert ("cat" not in [node.base for node in plan.left]) == exclusive


@pytest.mark.parametrize(("columns", "structures"), [(64, ("whole",)), (20000, ("looped", "whole"))])
def test_a_short_row_is_never_walked(columns: int, structures: tuple[str, ...]) -> None:
    graph = capture(module("return torch.softmax(x, 1)", f"R, N = 65536, {columns}", "torch.randn(R, N)"))
    (group,) = make_plan(graph, PLAYBOOKS).groups.values()
    assert playbooks_by_name()["row"].structures(graph, group) == structures


def test_few_rows_get_a_low_tile() -> None:
    assert gemm("Z, M, K, N = 1, 8, 4096, 8192").config["gemm_BLOCK_M"] == 16


def test_long_sums_over_few_tiles_are_split() -> None:
    code = gemm("Z, M, K, N = 1, 128, 65536, 128")
    assert "gemm_SPLIT_K" in code.config
    assert "tl.atomic" not in code.source


@pytest.mark.parametrize("sizes", ["Z, M, K, N = 1, 2048, 1048576, 1", "Z, M, K, N = 1, 65536, 64, 1"])
def test_a_vector_keeps_off_the_tensor_cores(sizes: str) -> None:
    """Whose additions truncate, which biases a long sum."""
    code = gemm(sizes)
    assert "tl.dot" not in code.source and "gemm_BLOCK_N" not in code.config
    assert all(code.config[knob] in values for knobs in code.space.values() for knob, values in knobs.items())


def test_ieee_products_keep_off_the_tensor_cores() -> None:
    for variant in ("pointer", "tma", "tma_registers"):
        code = gemm("Z, M, K, N = 1, 512, 512, 512", variant, "ieee")
        assert 'input_precision="ieee"' in code.source
        assert "round_to_tf32" not in code.helpers


def test_other_vendors_get_no_nvidia_assembly(h200: Hardware) -> None:
    other = h200.model_copy(update={"vendor": "amd", "arch": "gfx942"})
    for variant in ("pointer", "tma", "tma_registers"):
        assert not {"round_to_tf32", "tensor_descriptor"} & set(
            gemm("Z, M, K, N = 1, 512, 512, 512", variant, target=other).helpers
        )


@pytest.mark.parametrize("variant", ["pointer", "tma", "tma_registers", "split_k"])
@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16"])
def test_every_structure_starts_inside_its_space(variant: str, precision: str) -> None:
    code = gemm("Z, M, K, N = 1, 1000, 777, 3001", variant, precision)
    ast.parse(code.source)
    assert all(knob.startswith("gemm_") for knob in code.config)
    for knobs in code.space.values():
        assert all(code.config[knob] in values for knob, values in knobs.items())


def test_linear_without_bias_needs_no_epilogue() -> None:
    body = module(
        "return self.linear(x)", "M, K, N = 64, 128, 256", "torch.randn(M, K)",
        init="k, n; self.linear = nn.Linear(k, n, bias=False)", init_args="K, N",
    )  # fmt: skip
    plan = planned(body)
    code = playbooks_by_name()["gemm"].write(plan.graph, plan.groups["gemm"], "gemm", "tf32")
    assert "epilogue(" not in code.source.replace("= epilogue(", "")


LAYERS = (
    "nn.Conv3d(3, 64, 3)", "nn.ConvTranspose3d(3, 16, 3, 2)", "nn.Conv2d(64, n, 3)", "nn.Conv1d(64, n, 3)",
    "nn.Conv2d(32, 32, 3, groups=32)", "nn.Conv3d(3, 64, (3, 3, 1))",
)  # fmt: skip
"""In this order: what a survey on an H200 knows a tile for."""


@cache
def convolutions() -> tuple[CapturedGraph, list[Group]]:
    init = "n; " + "; ".join(f"self.layer_{i} = {layer}" for i, layer in enumerate(LAYERS))
    inputs = [
        f"torch.randn(B, {layer.split('(')[1].split(',')[0]}{', S' * int(layer.split('d(')[0][-1])})"
        for layer in LAYERS
    ]
    names = [f"x_{i}" for i in range(len(LAYERS))]
    body = f"return {', '.join(f'self.layer_{i}(x_{i})' for i in range(len(LAYERS)))}"
    graph = capture(
        module(body, "B, S, N = 1024, 40, 128", ", ".join(inputs), ", ".join(names), init=init, init_args="N")
    )
    groups = make_plan(graph, PLAYBOOKS).groups.values()
    return graph, sorted(groups, key=lambda group: graph.position[group.nodes[0]])


def test_a_late_layer_of_a_small_batch_gets_tiles_that_fill_the_machine() -> None:
    large: dict[str, Knob] = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8}
    assert tiles.filling(large, 10 * 56 * 56, 256, 1, 132) == large
    small = tiles.filling(large, 10 * 7 * 7, 512, 1, 132)
    assert (small["BLOCK_M"], small["BLOCK_N"], small["num_warps"]) == (64, 32, 4)


@thorough
def test_a_convolution_starts_from_the_tile_that_won_for_its_class() -> None:
    graph, groups = convolutions()
    playbook = playbooks_by_name()["convolution"]
    assert [group.variant for group in groups] == [
        "padded", "phases", "channels_last", "planes", "depthwise", "planes"
    ]  # fmt: skip
    groups = [*(replace(group, variant="planes") for group in groups[:2]), *groups[2:]]
    found = [(group.variant, *list(playbook.write(graph, group, "c", "tf32").config.values())[:5]) for group in groups]
    assert found == [
        ("planes", 256, 64, 16, 4, 3),
        ("planes", 128, 16, 32, 4, 3),  # one phase has 3 channels times 8 taps: one step
        ("channels_last", 128, 128, 32, 4, 3),
        ("planes", 128, 128, 32, 4, 4),  # three taps of a line
        ("depthwise", 512, 8),
        ("planes", 128, 64, 32, 4, 3),  # one tap of a line: neighbouring outputs share no input
    ]
    fp32 = playbook.write(graph, groups[0], "c", "ieee").config
    assert fp32["c_num_warps"] == 8, "without tensor cores the accumulators need more threads"


def test_a_structure_counts_as_measured_only_where_the_survey_was_made() -> None:
    graph, groups = convolutions()
    playbook, h200, a100 = playbooks_by_name()["convolution"], load_hardware("h200"), load_hardware("a100")
    for group in groups:
        found = playbook.measured(graph, group, "tf32", h200)
        assert found.startswith("all phases as one product" if group.variant == "phases" else "survey of KernelBench")
        for precision, target in (("tf32", a100), ("ieee", h200), ("bf16", h200)):
            assert not playbook.measured(graph, group, precision, target)


WINDOWS = [
    ("3, 16, 3, 2, 1", "return F.max_pool3d(F.relu(y) * 2, 2) + 1", True),
    ("3, 24, (4, 3, 2), (2, 1, 2)", "return F.max_pool3d(y, (2, 1, 2)).mean((2, 3, 4))", True),
    ("3, 16, 3, 2, 1", "return F.max_pool3d(y, 3, 2)", False),  # windows overlap
    ("3, 16, 3, 2, 1", "return F.max_pool3d(y, 2, padding=1)", False),
    ("3, 16, 3, 2, 1", "return F.max_pool3d(y, 4)", False),
    ("3, 16, 3, 2, 1", "return F.max_pool3d(y, 2), y", False),
    ("3, 16, 3, 2, 1", "return F.max_pool3d(torch.softmax(y, 1), 2)", False),
    ("3, 16, 3, 2, 1", "return torch.tanh(y).mean((2, 3, 4))", False),
    ("3, 16, 3, 3, 1", "return F.max_pool3d(y, 3)", False),  # 27 phases are no power of two
    ("3, 64, 3, 2, 1", "return F.max_pool3d(y, 2)", False),  # too many sums for a tile
    ("64, 16, 3, 2, 1", "return F.max_pool3d(y, 2)", False),  # too many products with zero
    ("4, 16, 3, 2, 1, groups=2", "return F.max_pool3d(y, 2)", False),
]


@pytest.mark.parametrize(("layer", "body", "joined"), in_sample(WINDOWS, WINDOWS[1:4]))
def test_phases_are_joined_where_a_place_makes_a_window(layer: str, body: str, joined: bool) -> None:
    channels, init = layer.split(",")[0], f"n; self.conv = nn.ConvTranspose3d({layer})"
    inputs = f"torch.randn(B, {channels}, H, H, H + 1)"
    plan = planned(module(f"y = self.conv(x); {body}", "B, H = 4, 12", inputs, init=init, init_args="0"))
    group = next(group for group in plan.groups.values() if group.playbook == "convolution")
    assert (group.variant == "pooled_phases") == joined == any("max_pool" in name for name in group.nodes)


PHASES = [
    ("3, 16, 32, 3, 2, 1", True),  # 2.4 products for each that counts
    ("3, 64, 64, 4, 2, 1", True),  # every phase has two taps along each dimension: no product with zero
    ("2, 32, 64, 3, 5, 1, dilation=2", True),  # lines with gaps
    ("3, 32, 64, 3, 2, 1", True),  # lines of odd length
    ("3, 32, 64, 3, 2, 1, 1", False),
    ("3, 64, 128, 4, 2, 1", False),  # many columns
    ("3, 16, 32, 3, 2, 1, 1, dilation=2", False),  # one of eight phases has taps
    ("3, 16, 32, 3, 1, 1", False),  # one phase
]


@pytest.mark.parametrize(("layer", "joined"), in_sample(PHASES, PHASES[::4]))
def test_all_phases_are_one_product_where_few_are_zeros(layer: str, joined: bool) -> None:
    rank, channels, numbers = layer.split(", ", 2)
    init = f"n; self.conv = nn.ConvTranspose{rank}d({channels}, {numbers})"
    inputs = f"torch.randn(B, {channels}, {'H, ' * (int(rank) - 1)}H + 1)"
    plan = planned(module("return torch.tanh(self.conv(x))", "B, H = 4, 12", inputs, init=init, init_args="0"))
    (group,) = plan.groups.values()
    assert (group.variant == "phases") == joined
    source = playbooks_by_name()["convolution"].write(plan.graph, group, "c", "tf32").source
    assert ("phases_by_program(" in source) == joined


def test_only_structures_that_differ_are_proposed_for_a_convolution() -> None:
    graph, groups = convolutions()
    playbook = playbooks_by_name()["convolution"]
    for group in groups:
        proposed = playbook.structures(graph, group)
        sources = {v: playbook.write(graph, replace(group, variant=v), "c", "tf32").source for v in playbook.variants}
        assert group.variant in proposed
        assert len({sources[v] for v in proposed}) == len(proposed) == len(set(sources.values()))
    assert playbook.remedy("wrong_result", "c", "depthwise", {}).action == "drop", "its plainest structure has failed"
