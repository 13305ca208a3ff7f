"""Smaller shapes: small enough to interpret, still running, and awkward where they can be."""

import copy

import pytest
import torch

from egg_graph.evaluator import choose_shapes, forward_form, load_reference, shape_knobs
from egg_graph.evaluator.problem.aligned_shapes import choose_aligned_shapes
from egg_graph.evaluator.problem.case_builder import build_case
from egg_graph.evaluator.problem.input_reads import InputReads, fully_read_inputs
from egg_graph.evaluator.problem.knobs import override
from egg_graph.evaluator.problem.long_shapes import choose_long_shapes
from egg_graph.schema import BadInput
from tests.sample import thorough

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def reference(body: str, sizes: str, inputs: str, init: str = "[]", parameters: str = "") -> str:
    setup = f"    def __init__(self{', ' + parameters if parameters else ''}):\n        super().__init__()\n"
    return (
        f"{HEAD}\nclass Model(nn.Module):\n{setup}{body}\n{sizes}\n"
        f"def get_inputs():\n    return {inputs}\n\ndef get_init_inputs():\n    return {init}\n"
    )


def forward(*lines: str, setup: tuple[str, ...] = (), arguments: str = "x") -> str:
    before = "".join(f"        {line}\n" for line in setup)
    return before + f"    def forward(self, {arguments}):\n" + "".join(f"        {line}\n" for line in lines)


REFERENCES = {
    "softmax": reference(forward("return torch.softmax(x, dim=1)"), "B = 4096\nD = 393216", "[torch.rand(B, D)]"),
    "matmul": reference(
        forward("return a @ b", arguments="a, b"),
        "M = 2048\nK = 8192\nN = 4096",
        "[torch.rand(M, K), torch.rand(K, N)]",
    ),
    "square_matmul": reference(
        forward("return a @ b", arguments="a, b"), "N = 4096", "[torch.rand(N, N), torch.rand(N, N)]"
    ),
    "grouped_norm": reference(
        forward("return self.norm(x)", setup=("self.norm = nn.GroupNorm(groups, channels)",)),
        "batch = 112\nchannels = 64\ngroups = 8\nside = 512",
        "[torch.rand(batch, channels, side, side)]",
        "[groups, channels]",
        "groups, channels",
    ),
    "attention": reference(
        forward("return F.scaled_dot_product_attention(q, k, v)", arguments="q, k, v"),
        "batch = 32\nheads = 32\nsequence = 512\nwidth = 1024",
        "[torch.rand(batch, heads, sequence, width) for _ in range(3)]",
    ),
    "model_width_divides_by_heads": reference(
        forward(
            "b, t, c = x.shape",
            "q = self.project(x).view(b, t, self.heads, c // self.heads).transpose(1, 2)",
            "return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(b, t, c)",
            setup=("self.heads = heads", "self.project = nn.Linear(width, width)"),
        ),
        "batch = 16\nsequence = 1024\nwidth = 768\nheads = 12",
        "[torch.rand(batch, sequence, width)]",
        "[width, heads]",
        "width, heads",
    ),
    "literals": reference(
        forward("return self.conv(x)", setup=("self.conv = nn.Conv2d(3, 64, 7, stride=2, padding=3)",)),
        "",
        "[torch.rand(64, 3, 224, 224)]",
    ),
    "residual": reference(
        forward("return x + self.linear(x)", setup=("self.linear = nn.Linear(features, width)",)),
        "rows = 1024\nfeatures = 4096\nwidth = 4096",
        "[torch.rand(rows, features)]",
        "[features, width]",
        "features, width",
    ),
    "classes": reference(
        forward("return F.cross_entropy(x, y)", arguments="x, y"),
        "rows = 32768\nclasses = 4096",
        "[torch.rand(rows, classes), torch.randint(0, classes, (rows,))]",
    ),
    "tuple_of_sizes": reference(
        forward("return x.cumsum(1)"), "shape = (32768, 32768)\nbatch = 2", "[torch.rand(*shape)]"
    ),
    "embedding": reference(
        forward("return self.table(x)", setup=("self.table = nn.Embedding(vocabulary, width)",)),
        "vocabulary = 50000\nwidth = 1024\nrows = 4096",
        "[torch.randint(0, vocabulary, (rows,))]",
        "[vocabulary, width]",
        "vocabulary, width",
    ),
    "looks_at_values": reference(
        forward("return x * 2 if float(x.sum()) > 0 else x"), "rows = 512\nwidth = 512", "[torch.rand(rows, width)]"
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_shapes_are_small_and_run(name: str) -> None:
    import torch

    source = REFERENCES[name]
    shrunk, awkward = choose_shapes(source)
    assert shrunk
    for overrides in (shrunk, awkward):
        loaded = load_reference(source, overrides)
        inputs = loaded.inputs(0)
        assert sum(x.numel() for x in inputs) <= 260_000
        loaded.model(0)(*inputs)
        assert all(value <= shape_knobs(source)[knob] for knob, value in overrides.items())
    if name != "looks_at_values":
        odd = [x for x in awkward.values() if x % 2]
        assert odd, awkward
    assert torch.is_grad_enabled()


def test_matrix_sizes_span_more_than_one_tile_and_all_differ() -> None:
    shrunk, awkward = choose_shapes(REFERENCES["matmul"])
    assert all(value > 100 for value in (*shrunk.values(), *awkward.values()))
    assert all(value % 16 == 0 for value in shrunk.values())
    assert all(value % 2 for value in awkward.values())
    assert len(set(awkward.values())) == 3


def test_attention_spans_several_blocks_of_keys() -> None:
    shrunk, awkward = choose_shapes(REFERENCES["attention"])
    assert shrunk["sequence"] >= 64
    assert awkward["sequence"] >= 37
    assert shrunk["heads"] == 2
    assert max(*shrunk.values(), *awkward.values()) < 160


def test_rows_are_long_enough_to_loop_over() -> None:
    shrunk, awkward = choose_shapes(REFERENCES["softmax"])
    assert shrunk["D"] > 4096
    assert awkward["D"] > 4096


def test_a_group_that_is_normalised_keeps_several_channels() -> None:
    """With one channel in a group the answer is a constant, and any kernel that ignores its input would pass."""
    source = reference(
        forward("return self.norm(self.up(x))", setup=("self.up = nn.Linear(width, width)",
                                                       "self.norm = nn.GroupNorm(groups, width)")),
        "rows = 1024\nwidth = 8192\ngroups = 512",
        "[torch.rand(rows, width)]",
        "[width, groups]",
        "width, groups",
    )  # fmt: skip
    for overrides in choose_shapes(source):
        assert {"width": 8192, "groups": 512} | overrides == overrides
        assert overrides["width"] > overrides["groups"]
        loaded = load_reference(source, overrides)
        one, other = (loaded.model(0)(*loaded.inputs(seed)) for seed in (0, 1))
        assert (one - other).norm() > 0.1 * one.norm()


def test_a_shape_at_which_fp32_itself_is_far_off_is_refused() -> None:
    """A batch norm of two values answers with their order, which rounding turns round: no kernel is right there.

    Each block halves the image. No shape is small, for the module has too many weights.
    """
    source = reference(
        forward("return self.blocks(x).mean((2, 3))",
                setup=("ins = [3] + 4 * [160]",
                       "blocks = ([nn.Conv2d(n, 160, 3, 2, 1), nn.BatchNorm2d(160), nn.ReLU()] for n in ins)",
                       "self.blocks = nn.Sequential(*(layer for block in blocks for layer in block))")),
        "rows = 2\nside = 224",
        "[torch.rand(rows, 3, side, side)]",
    )  # fmt: skip
    for overrides in choose_shapes(source):
        loaded = load_reference(source, overrides)
        model, inputs = loaded.model(0), loaded.inputs(0)
        assert len(inputs[0]) == 2 and overrides["side"] < 224
        one, exact = model(*inputs), copy.deepcopy(model).double()(inputs[0].double())
        assert (one - exact).norm() < 1e-5 * exact.norm(), overrides


def test_a_shape_that_depends_on_the_data_is_found_by_running_it() -> None:
    source = reference(forward("return torch.bincount(x, minlength=50)"), "N = 4096", "[torch.randint(0, 50, (N,))]")
    shrunk, awkward = choose_shapes(source)
    assert shrunk["N"] < 4096
    assert awkward["N"] % 2


def test_the_width_of_a_head_stays_a_power_of_two() -> None:
    """Most attention kernels take it for a block size, which must be one."""
    source = reference(
        forward("return F.scaled_dot_product_attention(q, k, v)", arguments="q, k, v"),
        "batch = 32\nheads = 32\nsequence = 512\nhead_dim = 128",
        "[torch.rand(batch, heads, sequence, head_dim) for _ in range(3)]",
    )
    for overrides in choose_shapes(source):
        width = {"head_dim": 128, **overrides}["head_dim"]
        assert width & (width - 1) == 0


def test_a_window_stays_a_window() -> None:
    source = reference(
        forward("return self.pool(x)", setup=("self.pool = nn.AvgPool2d(window)",)),
        "batch = 16\nchannels = 64\nside = 2048\nwindow = 11",
        "[torch.rand(batch, channels, side, side)]",
        "[window]",
        "window",
    )
    for overrides in choose_shapes(source):
        assert {"window": 11, **overrides}["window"] > 1


def test_factors_and_terms_of_a_size_are_no_knobs() -> None:
    source = reference(
        forward("return x * s.repeat_interleave(128, 0)[: len(x)]", arguments="x, s"),
        "BLOCKS = 5\nN = 600",
        "[torch.rand(N, BLOCKS * 64) * 100, torch.rand((N + 127) // 128, 64 * 5), torch.rand(48)[:1]]",
    )
    assert shape_knobs(source) == {"BLOCKS": 5, "N": 600, "get_inputs.0": 320, "get_inputs.1": 48}


def test_bounds_of_values_are_no_sizes_unless_they_are_sizes_too() -> None:
    source = reference(
        forward("return x.sum(1)"),
        "N, LIMIT = 4096, 10**8\nhighest = 2 * LIMIT\nclasses = 50000\nlength = 512",
        "[torch.randint(LIMIT, highest, (N, 2048), dtype=torch.int32), torch.randint(0, classes, size=(N,)),\n"
        "            torch.randint(high=9000, size=(7, 1000)), torch.randint(0, 1000, (N, classes)),\n"
        "            torch.full((N, length), 512)]",
    )
    assert shape_knobs(source) == {
        "N": 4096, "classes": 50000, "length": 512, "get_inputs.0": 2048, "get_inputs.3": 7, "get_inputs.4": 1000,
        "get_inputs.6": 1000, "get_inputs.7": 512,
    }  # fmt: skip


def test_an_integer_sum_that_wraps_does_so_at_smaller_shapes() -> None:
    source = reference(
        forward("return x.sum(1)"),
        "ROWS = 4096\nCOLUMNS = 2048",
        "[torch.randint(100_000_000, 200_000_000, (ROWS, COLUMNS), dtype=torch.int32)]",
    )
    for overrides in choose_shapes(source):
        assert overrides
        assert set(overrides) <= {"ROWS", "COLUMNS"}
        assert int(load_reference(source, overrides).inputs(0)[0].min()) >= 100_000_000


def test_knobs_are_read_without_running_anything() -> None:
    source = (
        "raise SystemExit\nN, M = 64 * 64, 7\nshape: tuple = (3, 5)\nflag = True\nrate = 0.5\n"
        "unused = height = width = 9\n"
        "def get_inputs():\n    x = torch.rand(N, 2 * 512, height, width)\n    return [x[0], x.sum(-1), *made()]\n"
        "def made():\n    return [torch.rand(M, *shape)]\n"
    )
    known = {"N": 4096, "M": 7, "shape.0": 3, "shape.1": 5, "height": 9, "get_inputs.0": 1024}
    assert shape_knobs(source) == known
    assert "unused = height = width = 5\n" in override(source, {"height": 5})


def test_a_constant_that_only_the_model_reads_is_no_knob_and_never_changes() -> None:
    source = (
        "import torch\nfrom torch import nn\nTOKENS, WIDTH = 64, 48\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.up = nn.Linear(WIDTH, 32)\n    def forward(self, x):\n        return self.up(x[:, :WIDTH])\n"
        "def get_inputs():\n    return [torch.rand(TOKENS, 2 * 32)]\n"
    )
    assert shape_knobs(source) == {"TOKENS": 64, "get_inputs.0": 64}
    reference = load_reference(source, {"TOKENS": 5})
    assert reference.model(0).up.weight.shape == (32, 48) and reference.inputs(0)[0].shape == (5, 64)


def test_overrides_keep_line_numbers_and_comments() -> None:
    source = REFERENCES["softmax"].replace("B = 4096", "B = 4096  # rows é")
    loaded = load_reference(source, {"B": 3, "D": 5})
    assert loaded.source == source.replace("B = 4096", "B = 3").replace("D = 393216", "D = 5")
    assert [tuple(x.shape) for x in loaded.inputs(0)] == [(3, 5)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Model(:\n", "line 1"),
        ("import no_such_package\n", "line 1: it imports no_such_package, which is not installed here"),
        ("x = 1\n", "no class `Model"),
        ("import torch.nn as nn\nclass Model(nn.Module):\n    pass\n", "no `get_inputs()`"),
        (
            "import torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self, width):\n"
            "        super().__init__()\ndef get_inputs():\n    return []\n",
            "Model takes width",
        ),
    ],
)
def test_a_bad_reference_is_refused_in_one_clear_line(source: str, words: str) -> None:
    with pytest.raises(BadInput, match="reference") as refused:
        load_reference(source)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def form_kept(source: str) -> list[dict[str, int]]:
    """All shapes of a reference, which has the layers and steps of its own shape at each."""
    chosen = [*choose_shapes(source), *choose_aligned_shapes(source)]
    chosen += choose_long_shapes(source, *chosen[:2]).shapes
    own = forward_form(source, {})
    assert own is not None and chosen[0]
    assert all(forward_form(source, shape, own) is not None for shape in chosen), chosen
    return chosen


def test_a_layer_that_only_unequal_sizes_need_stays() -> None:
    source = reference(
        forward("return self.up(x).view(len(x), self.groups, -1).sum(1) + self.past(x)",
                setup=("self.groups = groups", "self.up = nn.Linear(narrow, groups * wide)",
                       "self.past = nn.Identity() if narrow == wide else nn.Linear(narrow, wide, bias=False)",
                       "assert wide % 24 == 0 and narrow % 24 == 0")),
        "rows = 1024\nnarrow = 240\nwide = 480\ngroups = 3",
        "[torch.rand(rows, narrow)]",
        "[narrow, wide, groups]",
        "narrow, wide, groups",
    )  # fmt: skip
    for shape in form_kept(source):
        assert {"narrow": 240, **shape}["narrow"] != {"wide": 480, **shape}["wide"]


def test_numbers_of_layers_do_not_shrink() -> None:
    source = reference(
        forward("for layer in self.layers:", "    x = x + layer(x).relu()", "return x",
                setup=("self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depths[0] + depths[1]))",)),
        "rows = 1024\nwidth = 512\ndepths = [3, 12]",
        "[torch.rand(rows, width)]",
        "[width, depths]",
        "width, depths",
    )  # fmt: skip
    assert not any({"depths.0", "depths.1"} & shape.keys() for shape in form_kept(source))


LOOP = reference(
    forward("for step in range(len(x)):", "    h = torch.tanh(self.mix(torch.cat((x[step], h), 1)))", "return h",
            setup=("self.mix = nn.Linear(2 * width, width)",), arguments="x, h"),
    "steps = 48\nrows = 256\nwidth = 512",
    "[torch.rand(steps, rows, width), torch.rand(rows, width)]",
    "[width]",
    "width",
)  # fmt: skip


@thorough
def test_steps_that_forward_takes_one_by_one_do_not_shrink_where_they_are_affordable() -> None:
    assert not any("steps" in shape for shape in form_kept(LOOP))
    shrunk, awkward = choose_shapes(LOOP.replace("steps = 48", "steps = 700"))
    assert shrunk["steps"] < 400 and awkward["steps"] < 400


def test_long_shapes_bring_each_size_to_its_full_value_or_say_how_far() -> None:
    rows = reference(forward("return torch.softmax(x, dim=1)"), "R = 1024\nC = 1536", "[torch.randn(R, C)]")
    shrunk, awkward = choose_shapes(rows)
    found = choose_long_shapes(rows, shrunk, awkward)
    assert found.not_full == {} and found.shapes == [{"C": 768}], found
    barely = reference(forward("return torch.softmax(x, dim=1)"), "R = 64\nC = 5000", "[torch.randn(R, C)]")
    tried = choose_shapes(barely)
    found = choose_long_shapes(barely, *tried)
    assert tried[0]["C"] > 4000 and found.not_full == {}, (tried, found)
    assert any("C" not in overrides for overrides in found.shapes), "a size short of its full value by little, too"
    huge = reference(forward("return torch.softmax(x, dim=1)"), "R = 1 << 20\nC = 512", "[torch.randn(R, C)]")
    found = choose_long_shapes(huge, *choose_shapes(huge))
    assert found.not_full == {"R": 2048} and found.shapes == [{"R": 2048}], found
    whole = reference(forward("return x + 1"), "N = 4096", "[torch.randn(N)]")
    assert choose_long_shapes(whole, *choose_shapes(whole)).shapes == [{}]


def test_what_a_reference_reads_as_a_whole_is_known_but_of_operators_that_may_leave_out() -> None:
    text = "return torch.nn.functional.conv2d(y, y[:, :, :1, :1], stride=2).sum() + x.sum() + x[z].sum()"
    inputs = "[torch.rand(4, 6), torch.rand(2, 2, 8, 8), torch.tensor([0, 1])]"
    source = reference(forward(text, arguments="x, y, z"), "A = 1", inputs)
    loaded = load_reference(source)
    case = build_case(loaded, "ieee", name="full", overrides={}, seed=1, device=torch.device("cpu"))
    assert fully_read_inputs(loaded, case) == {0}


@pytest.mark.parametrize(
    ("text", "wholly"),
    [
        ("return (x + 1)[:, 0]", False),
        ("y = (x + 1).relu()\n        return y[:, 0] * y[:, 1:3].sum(1)", False),
        ("y = x + 1\n        return y.index_select(1, torch.tensor([0, 1]))", False),
        ("y = x * 2\n        unused = y.sum()\n        return y[:, :2]", False),
        ("y = x * 2\n        return y[:, :4] * y[:, :4].reshape(-1, 2, 2).flatten(1)", False),
        ("return (x + 1)[:, 0] + x.sum(1)", True),
        ("a, b = (x + 1).chunk(2, dim=1)\n        return a * b.sigmoid()", True),
        ("y = x * 2\n        return y / y[:, :1]", True),
        (
            "y = torch.empty_like(x)\n        y[:, :3], y[:, 3:] = 0, (x + 1)[:, 3:]\n        return y",
            False,
        ),
        ("y = torch.zeros_like(x)\n        y.copy_(x * 2)\n        return y", True),
        ("return x if (x * 2).sum().item() > 0 else x + 1", True),
        ("return torch.view_as_real(torch.view_as_complex((x + 1).view(4, 4, 2)) * 2)", True),
    ],
)
def test_an_input_of_which_the_answer_needs_a_part_is_not_read_as_a_whole(text: str, wholly: bool) -> None:
    loaded = load_reference(reference(forward(text), "A = 1", "[torch.rand(4, 8)]"))
    case = build_case(loaded, "ieee", name="full", overrides={}, seed=1, device=torch.device("cpu"))
    if ".item()" in text:
        reads = InputReads(case.inputs)
        with reads:
            output = loaded.model(0)(*case.inputs)
        assert reads.positions(output) == {0}
    else:
        assert fully_read_inputs(loaded, case) == ({0} if wholly else set())


def test_an_unknown_knob_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match="it has: B, D"):
        load_reference(REFERENCES["softmax"], {"rows": 3})


def test_init_arguments_in_all_their_forms() -> None:
    def arguments(text: str) -> tuple[list, dict]:
        return load_reference(reference(forward("return x"), "", "[torch.rand(2)]", text, "a=0, b=0")).init_arguments()

    assert arguments("[1, 2]") == ([1, 2], {})
    assert arguments("{'b': 3}") == ([], {"b": 3})
    assert arguments("[[1], {'b': 3}]") == ([1], {"b": 3})
    assert arguments("[[1], {'other': 3}]") == ([[1], {"other": 3}], {})


PARTLY_TURNED = """
import torch

HEADS, TOKENS, HEAD_DIM, ROTARY_DIM = 16, 256, 96, 64


class Model(torch.nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.turned = turned

    def forward(self, x, angle):
        half = self.turned // 2
        a, b, rest = x[..., :half], x[..., half : self.turned], x[..., self.turned :]
        return torch.cat((a - angle * b, b + angle * a, rest), dim=-1)


def get_inputs():
    return [torch.randn(2, HEADS, TOKENS, HEAD_DIM), torch.rand(TOKENS, 1)]


def get_init_inputs():
    return [ROTARY_DIM]
"""


def test_the_part_of_a_head_that_is_turned_stays_a_part_of_it() -> None:
    """With 62 of 32 the second part is of width 1, which PyTorch repeats."""
    full = shape_knobs(PARTLY_TURNED)
    for shape in choose_shapes(PARTLY_TURNED):
        sizes = {**full, **shape}
        assert sizes["ROTARY_DIM"] <= sizes["HEAD_DIM"]


PICKED_BLOCKS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, picks):
        rows = x[picks.clamp(min=0).long() * 16].mean(1)
        return torch.where((picks >= 0).any(1)[:, None, None], rows, 0.0)

ROWS, HEADS, WIDTH = 320, 2, 64

def get_inputs():
    return [torch.randn(ROWS, HEADS, WIDTH), torch.randint(-1, ROWS // 64, (ROWS, 3), dtype=torch.int32)]
"""


def test_so_few_rows_that_no_block_is_picked_are_no_shape() -> None:
    for shape in choose_shapes(PICKED_BLOCKS):
        assert 64 <= shape["ROWS"] < 320


CACHE = """
import torch

class Model(torch.nn.Module):
    def forward(self, key, cache, slots):
        out = cache.clone()
        kept = slots >= 0
        out[slots[kept]] = key[kept]
        return out

TOKENS, WIDTH, SLOTS, SKIPPED = 300, 64, 640, 37

def get_inputs():
    slots = torch.randperm(SLOTS)[:TOKENS]
    slots[torch.randperm(TOKENS)[:SKIPPED]] = -1
    return [torch.randn(TOKENS, WIDTH), torch.randn(SLOTS, WIDTH), slots]
"""


def test_a_cache_to_which_nothing_is_written_is_no_shape() -> None:
    full = shape_knobs(CACHE)
    for shape in choose_shapes(CACHE):
        sizes = {**full, **shape}
        assert sizes["TOKENS"] > sizes["SKIPPED"]
