"""Shapes for kernels that refuse others: the sizes keep what those of the reference promise."""

from egg_graph.evaluator.problem.aligned_shapes import choose_aligned_shapes, choose_halved_shapes
from egg_graph.evaluator.problem.knobs import shape_knobs
from tests.paths import read_source

FLAT = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(x.view(-1, x.shape[-1]), y.view(-1))


def get_inputs():
    return [torch.randn(16, 64, 96), torch.randint(0, 96, (16, 64))]


def get_init_inputs():
    return []
"""
"""A reference that bears rows of its two inputs which differ in all but their number; its sizes are literals."""


def test_some_shapes_keep_equal_what_is_equal() -> None:
    full = shape_knobs(FLAT)
    chosen = [{**full, **overrides} for overrides in choose_aligned_shapes(FLAT)]
    kept = [
        sizes
        for sizes in chosen
        if sizes != full and all(sizes[a] == sizes[b] for a in full for b in full if full[a] == full[b])
    ]
    assert len(kept) >= 2
    assert all(size <= full[name] for sizes in chosen for name, size in sizes.items())


GROUPED = """
import torch
import torch.nn as nn

BATCH, HEADS, SEQUENCE, DIM = 4, 8, 200, 64

class Model(nn.Module):
    def forward(self, q, k):
        return q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2)

def get_inputs():
    return [torch.randn(BATCH, HEADS, SEQUENCE, DIM), torch.randn(BATCH, HEADS // 4, SEQUENCE, DIM)]
"""


def test_heads_are_as_many_as_run():
    shapes = choose_aligned_shapes(GROUPED)
    assert shapes and all(shape.get("HEADS", 8) in (4, 8) and shape.get("DIM", 64) & 15 == 0 for shape in shapes)


PACKED = """
import torch

SEQUENCES, TOKENS, HEADS, DIM, BLOCK = 6, 1024, 16, 64, 32

class Model(torch.nn.Module):
    def forward(self, q, cache, table):
        at = torch.arange(q.shape[0], device=q.device)
        return q * cache[table[0][at // cache.shape[1]], at % cache.shape[1]]

def get_inputs():
    blocks = TOKENS // BLOCK
    cache = torch.randn(SEQUENCES * blocks, BLOCK, HEADS, DIM)
    return [torch.randn(TOKENS, HEADS, DIM), cache, torch.randperm(SEQUENCES * blocks).view(SEQUENCES, blocks)]
"""
"""Tokens of several sequences, with a cache in blocks of some tokens each."""


def test_leading_tokens_make_whole_blocks():
    shapes = [{**shape_knobs(PACKED), **shape} for shape in choose_aligned_shapes(PACKED)]
    whole = [shape for shape in shapes if shape["BLOCK"] >= 16 and shape["DIM"] >= 32]
    assert len(whole) >= 2 and all(shape["TOKENS"] % shape["BLOCK"] == 0 for shape in whole)


RECURRENT = """
import torch

BATCH, STEPS, CHANNELS = 64, 40, 768


class Model(torch.nn.Module):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = 0.5 * state + x[:, t]
            states.append(state)
        return torch.stack(states, 1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, CHANNELS)]
"""


def test_some_shapes_keep_one_size_whole() -> None:
    full = shape_knobs(RECURRENT)
    kept = [shape for shape in choose_aligned_shapes(RECURRENT) if "CHANNELS" not in shape]
    assert len(kept) >= 2 and all({**full, **shape}["BATCH"] < full["BATCH"] for shape in kept)


def test_some_shapes_keep_equal_lengths_large_together() -> None:
    source = read_source("problems/strided_scores.py")
    large = [shape for shape in choose_aligned_shapes(source) if shape["QUERIES"] == shape["KEYS"] >= 1024]
    assert len(large) >= 2 and all(shape.get("WIDTH", 128) <= 64 for shape in large[:2])


def test_some_shapes_keep_two_lengths_large_together() -> None:
    """A kernel that wants whole blocks of both lengths takes no shape in which one of them is small."""
    source = read_source("problems/strided_scores.py").replace("\nKEYS = 4096", "\nKEYS = 8192")
    both = [shape for shape in choose_aligned_shapes(source) if min(shape["QUERIES"], shape["KEYS"]) >= 1024]
    assert any(shape.get("WIDTH", 128) <= 64 for shape in both)


def test_some_shapes_keep_a_width_whole_beside_whole_blocks_of_rows() -> None:
    blocks = [
        shape
        for shape in choose_aligned_shapes(read_source("problems/image_attention.py"))
        if "HEAD_DIM" not in shape and shape["SIDE"] % 16 == 0 and "IMAGES" not in shape
    ]
    assert len(blocks) >= 2


def test_heads_and_images_are_halved_for_a_gpu() -> None:
    halved = choose_halved_shapes(read_source("problems/image_attention.py"))
    assert {"HEADS": 2} in halved and {"IMAGES": 1} in halved


def test_for_a_gpu_there_are_shapes_of_half_the_size() -> None:
    assert choose_halved_shapes(RECURRENT) == [{"CHANNELS": 384}, {"BATCH": 32}], "its steps stay"
    assert {"SEQUENCE": 100, "DIM": 32} in choose_halved_shapes(GROUPED)


def test_some_shapes_are_of_whole_blocks_of_rows_that_an_interpreter_can_bear() -> None:
    """As a backward pass of attention, whose saved sums are padded to whole blocks."""
    source = """
import torch

BATCH, ROWS, HEADS, DIM = 2, 512, 8, 64

class Model(torch.nn.Module):
    def forward(self, q, k, v):
        scores = torch.einsum("bihd,bjhd->bhij", q, k)
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)

def get_inputs():
    return [torch.randn(BATCH, ROWS, HEADS, DIM) for _ in range(3)]
"""
    rows = [shape.get("ROWS", 512) for shape in choose_aligned_shapes(source)]
    assert {256, 512} <= set(rows)


COLLIDING = """
import torch
import torch.nn as nn

N, D, ROWS = 40000, 96, 1900

class Model(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, x, index):
        return torch.zeros(self.rows, x.shape[1], device=x.device).index_add(0, index, x)

def get_inputs():
    return [torch.randn(N, D), torch.randint(0, ROWS, (N,))]

def get_init_inputs():
    return [ROWS]
"""


def test_some_shapes_keep_the_proportion_of_sizes() -> None:
    """A kernel may leave the work to PyTorch where few rows are added to one."""
    full = shape_knobs(COLLIDING)
    chosen = [{**full, **overrides} for overrides in choose_aligned_shapes(COLLIDING)]
    assert sum(sizes["N"] < full["N"] and 19 < sizes["N"] / sizes["ROWS"] < 23 for sizes in chosen) >= 2
