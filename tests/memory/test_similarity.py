"""Which lessons are told: few, the nearest first, winners and losers, and the same ones if chosen again."""

import random

import pytest

from egg_graph.memory import choose
from egg_graph.memory.similarity import Topic, bottleneck_of, computing, place_of, structure_of
from egg_graph.schema import Baseline, KernelTask
from tests.memory.test_hostile_text import lesson

TOPIC = Topic("h200", "row_reduction", ("_softmax", "mul"), "dram", "tf32", 0.5)


def test_the_nearest_come_first_and_losers_keep_their_place():
    known = [
        *(lesson(plan=f"near {n}", kernel=f"n{n}", operators=TOPIC.operators, after_ms=2 + n / 10) for n in range(4)),
        *(lesson(plan=f"lost {n}", kernel=f"l{n}", outcome="no_better", after_ms=3 + n) for n in range(3)),
        lesson(plan="near 0", kernel="again", operators=TOPIC.operators, after_ms=2.05, floor_ms=0.6),
        lesson(plan="small", kernel="s", operators=TOPIC.operators, floor_ms=0.01, after_ms=1),
        lesson(plan="compute", kernel="c", bottleneck="compute"),
        lesson(plan="tuned", kernel="t", stage="tensor_tiling"),
    ]
    random.Random(1).shuffle(known)
    told = choose(known, TOPIC)
    assert [one.plan for one in told] == ["near 0", "near 1", "near 2", "lost 0", "lost 1", "tuned"]
    assert choose(reversed(told), TOPIC) == told, "as a replay chooses"


@pytest.mark.parametrize("other", [{"structure": "scan"}, {"bottleneck": "compute"}, {"precision": "ieee"}])
def test_lessons_about_another_structure_bottleneck_or_precision_are_not_told(other):
    """Nor where there are few, and they are alike in all else."""
    known = [lesson(plan="alike", kernel="a"), lesson(plan="other", kernel="o", **other)]
    assert [one.plan for one in choose(known, TOPIC)] == ["alike"]


def test_of_unknown_structures_those_with_half_of_their_operators_in_common_are_alike():
    topic = TOPIC._replace(structure="unknown", operators=("lgamma", "mul"))
    known = [
        lesson(structure="unknown", operators=ops, kernel=ops[0], plan=ops[0]) for ops in (("lgamma",), ("digamma",))
    ]
    assert [one.plan for one in choose(known, topic)] == ["lgamma"]


@pytest.mark.parametrize(
    ("operators", "structure"),
    [
        (("aten.mm.default", "aten.relu.default", "aten.sum.dim_IntList"), "product_reduction"),
        (("aten.convolution.default", "aten.relu.default"), "convolution"),
        (("aten.relu.default",), "pointwise"),
        (("aten.frobnicate.default", "aten.mm.default"), "unknown"),
    ],
)
def test_the_heaviest_structure_counts(operators, structure):
    assert structure_of(operators) == structure
    assert computing(("aten.view.default", "aten.mul.Tensor", "aten.mul.Tensor")) == ("mul",)


def test_bottleneck_and_place(h200):
    task = KernelTask(name="t", reference="", target=h200)
    floors = {"launch": (0.001, 4.8e6), "dram": (1.0, 4.8e9), "compute": (2.0, 4.8e9)}
    for expected, (floor, nbytes) in floors.items():
        assert bottleneck_of(task, Baseline(task="t", floor_ms=floor, compulsory_bytes=nbytes)) == expected
    assert (place_of("NVIDIA H200"), place_of("NVIDIA H200 MIG 1g.18gb")) == ("h200", "nvidia_h200_mig_1g_18gb")
