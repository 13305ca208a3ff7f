"""What the expert makes of layers of language models: how many launches, and how often the largest tensor is read."""

import re
import warnings
from pathlib import Path

import pytest

import egg_graph.bench.workloads as workloads
from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.codegen.module import write_module
from egg_graph.expert.playbooks.planner import plan_seed, write_kernels
from egg_graph.expert.playbooks.registry import PLAYBOOKS
from egg_graph.schema import Hardware

pytestmark = pytest.mark.slow


def written(name: str, target: Hardware) -> tuple[str, tuple[str, ...]]:
    """The module for one workload at bf16, and the operators that stay PyTorch."""
    reference = (Path(workloads.__path__[0]) / f"{name}.py").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.export's own
        graph = export_graph(reference, "bf16")
    plan = plan_seed(graph, PLAYBOOKS, "bf16", target)
    source = write_module(reference, plan, write_kernels(plan, PLAYBOOKS, "bf16", target), {})
    return source, tuple(node.base for node in plan.left)


@pytest.mark.parametrize(
    ("name", "launches", "largest", "loops"),
    [
        ("cross_entropy", 2, "logits", 2),  # a row's one loop, and that over all rows' losses
        ("int4_linear", 1, "packed", 1),
        ("kv_cache_write", 1, "old_0", 2),  # over places, and over a row
        ("rotary_embedding", 2, "query", 0),
        ("swiglu", 1, "gate_up", 0),
    ],
)
def test_the_largest_tensor_is_read_in_one_pass(
    h200: Hardware, name: str, launches: int, largest: str, loops: int
) -> None:
    source, left = written(name, h200)
    assert left == ()
    forward = source[source.rindex("def forward") :]
    calls = [f for f in re.findall(r"^def (\w+)\(", source, re.M) for _ in range(forward.count(f" {f}("))]
    assert sum(source.count(f"\n    {f}_kernel[") for f in calls) == launches
    assert source.count("in tl.range(") == loops
    assert f"tl.load({largest}_ptr" in source


def test_heads_that_share_keys_read_them_once_in_a_decoding_step(h200: Hardware) -> None:
    source, left = written("attention_decode", h200)
    assert left == () and '"attention_PIECES": 1,' in source
    assert "attention_kernel[(B * H_K * " in source, "a program for each head of the keys, not of the queries"


def test_short_chains_of_16_bit_elements_are_loaded_16_bytes_at_once(h200: Hardware) -> None:
    source, _ = written("swiglu", h200)
    block, warps = (int(re.search(rf'"pointwise_{k}": (\d+)', source)[1]) for k in ("BLOCK", "num_warps"))  # type: ignore[index]
    assert 2 * block // (32 * warps) == 16
