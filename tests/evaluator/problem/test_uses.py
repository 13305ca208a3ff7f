"""Other uses of a module: inputs that change in a few elements keep what the reference's own inputs promise."""

import pytest
import torch

from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.knowledge import load_hardware
from egg_graph.schema import KernelTask

CHOSEN = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, chosen):
        taken = torch.where(chosen < 0, 0.0, x.gather(1, chosen.clamp(min=0)))
        return torch.zeros_like(x).scatter_add(1, chosen.clamp(min=0), taken) + chosen[:, :1]

def get_inputs():
    chosen = torch.stack([torch.randperm(32)[:8] for _ in range(16)])
    CHANGE
    return [torch.randn(16, 32), chosen]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("change", ["pass", "chosen[::2, 5:] = -1"], ids=["whole rows", "rows filled up with -1"])
def test_what_was_chosen_without_putting_back_stays_so_in_every_row(change: str) -> None:
    task = KernelTask(reference=CHOSEN.replace("CHANGE", change), name="chosen", target=load_hardware("h200"))
    seen = 0
    for seed in range(6):
        problem = Problem(task, seed, torch.device("cpu"))
        first = problem.cases("shrunk")[0]
        for case in problem.uses("shrunk").changed_inputs:
            before, now = first.inputs[1], case.inputs[1]
            assert torch.equal(before.sort(-1).values, now.sort(-1).values), "a row holds an element twice"
            assert torch.equal(before < 0, now < 0), "an element took the place of what fills up a row"
            seen += not torch.equal(before, now)
    assert seen, "the chosen elements never changed"


SEGMENTS = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, offsets):
        total = torch.cat([x.new_zeros(1, 8), x.cumsum(0)])
        return total[offsets[1:]] - total[offsets[:-1]]

def get_inputs():
    return [torch.rand(200, 8), OFFSETS]

def get_init_inputs():
    return []
"""
OFFSETS = {
    "lengths that differ": "torch.cat([torch.zeros(1).long(), torch.randint(0, 9, (32,)).cumsum(0).clamp(max=200)])",
    "lengths of one or more": "torch.cat([torch.zeros(1).long(), torch.randint(1, 7, (32,)).cumsum(0)])",
    "equal lengths": "torch.arange(33, dtype=torch.int32) * 6",
}


@pytest.mark.parametrize("drawn", OFFSETS.values(), ids=OFFSETS)
def test_offsets_stay_in_order_and_between_their_ends(drawn: str) -> None:
    """Nor does a segment become empty, or longer than the longest, where the lengths as drawn tell that."""
    task = KernelTask(reference=SEGMENTS.replace("OFFSETS", drawn), name="segments", target=load_hardware("h200"))
    seen = 0
    for seed in range(4):
        problem = Problem(task, seed, torch.device("cpu"))
        first = problem.cases("shrunk")[0]
        for case in problem.uses("shrunk").changed_inputs:
            before, now = first.inputs[1], case.inputs[1]
            assert (now[0], now[-1]) == (before[0], before[-1])
            assert now.diff().min() >= min(1, before.diff().min())
            assert now.diff().max() <= before.diff().max() or before.diff().min() == before.diff().max()
            seen += not torch.equal(before, now)
    assert seen, "the offsets never changed"


MERGED = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, keys, others):
        return torch.cat([keys, others]).sort().values

def get_inputs():
    return [torch.randn(300).sort().values, torch.randn(200).sort().values]
"""


def test_sorted_keys_stay_sorted() -> None:
    problem = Problem(KernelTask(reference=MERGED, name="merge", target=load_hardware("h200")), 1, torch.device("cpu"))
    changed = problem.uses("shrunk").changed_inputs
    assert changed
    assert all(bool((keys.diff() >= 0).all()) for case in changed for keys in case.inputs)


PAGED = """import torch
import torch.nn as nn

PAGES = 64
ROWS = 512

class Model(nn.Module):
    def forward(self, pages, table):
        return pages[table].cumsum(0)

def get_inputs():
    return [torch.randn(PAGES, 8), torch.randint(0, 48, (ROWS,))]

def get_init_inputs():
    return []
"""


def test_no_shape_at_which_an_index_is_out_of_range_is_built_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it would be a device's assertion, after which the process can compute no more."""
    task = KernelTask(reference=PAGED, name="paged", target=load_hardware("h200"))
    problem = Problem(task, 0, torch.device("cpu"))
    name, built = list(problem.shapes)[-1], []

    def build(name: str, overrides: dict[str, int], index: int) -> None:
        built.append(overrides)
        raise Unevaluable("there is no GPU here")

    problem.cases(name)
    monkeypatch.setattr(problem, "device", torch.device("cuda"))
    monkeypatch.setattr(problem, "build", build)
    assert problem.uses(name).resized is None
    assert built and all(sizes.get("PAGES", 64) >= 48 for sizes in built)
    assert any(sizes["ROWS"] < problem.sizes(name)["ROWS"] for sizes in built)


POINTS = """import torch
import torch.nn as nn

COUNT = 4096

class Model(nn.Module):
    def forward(self, points):
        return (points[:, None] - points[None]).square().sum(-1)

def get_inputs():
    return [torch.randn(COUNT, 3)]

def get_init_inputs():
    return []
"""


def test_another_shape_keeps_a_number_as_small_as_that_of_coordinates() -> None:
    problem = Problem(KernelTask(reference=POINTS, name="points", target=load_hardware("h200")), 1, torch.device("cpu"))
    resized = problem.uses("shrunk").resized
    assert resized is not None and resized.inputs[0].shape[1] == 3
    assert resized.inputs[0].shape[0] < problem.cases("shrunk")[0].inputs[0].shape[0]


SCALED = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, query, key, decay):
        return (query * torch.exp(decay)).cumsum(0) + 3 * key

def get_inputs():
    return [torch.randn(64, 32), KEY, -torch.rand(64, 32)]
"""


@pytest.mark.parametrize(("key", "tied"), [("torch.randn(64, 32)", (0, 1)), ("torch.randn(64, 32) / 8", ())])
def test_one_tensor_stands_for_inputs_of_the_same_signs_and_size_alone(key: str, tied: tuple[int, ...]) -> None:
    task = KernelTask(reference=SCALED.replace("KEY", key), name="scaled", target=load_hardware("h200"))
    problem = Problem(task, 1, torch.device("cpu"))
    problem.cases("shrunk")
    assert tuple(problem.uses("shrunk").tied) == tied


BLOCKS = """import torch
import torch.nn as nn

ROWS = 64
WIDTH = 512
HIDDEN = 512

class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x):
        return x[:, : self.blocks].cumsum(1)

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [HIDDEN // 128]
"""


def test_inputs_of_another_shape_have_the_constructor_arguments_that_they_were_made_for() -> None:
    """512 and 513 make four blocks; a quarter of it makes one, and the module at hand has four."""
    problem = Problem(KernelTask(reference=BLOCKS, name="blocks", target=load_hardware("h200")), 0, torch.device("cpu"))
    for name in problem.shapes:
        resized, first = problem.uses(name).resized, problem.cases(name)[0]
        assert resized is not None
        assert problem.arguments(resized.overrides) == problem.arguments(first.overrides)
