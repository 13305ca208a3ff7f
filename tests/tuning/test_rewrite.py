"""Baking and finishing: the text changes where it must and nowhere else."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egg_graph.schema import BadInput
from egg_graph.tuning import bake, finish, read_knobs

SOURCE = '''"""A kernel — ünïcode in front of positions."""
import triton  # the compiler

CONFIG = {
    "BLOCK": 1024,  # elements a program handles
    "num_warps": 4, "präfix_stages": (2),
}
SPACE = {"tensor_tiling": {"BLOCK": [512, 1024]}}  # swept


def launch(x):
    n = x.numel()  # CONFIG["BLOCK"] in a comment stays
    grid = lambda meta: (triton.cdiv(n, CONFIG["BLOCK"]),)
    note = 'é'; kernel[grid](x, n, BLOCK=CONFIG['BLOCK'], num_warps=CONFIG["num_warps"])
    return x
'''
FINISHED = '''"""A kernel — ünïcode in front of positions."""
import triton  # the compiler


def launch(x):
    n = x.numel()  # CONFIG["BLOCK"] in a comment stays
    grid = lambda meta: (triton.cdiv(n, 1024),)
    note = 'é'; kernel[grid](x, n, BLOCK=1024, num_warps=4)
    return x
'''
KNOB = st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6))
CONFIGS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), KNOB, max_size=5)


def test_bake_touches_the_values_alone():
    baked = bake(SOURCE, {"num_warps": 16, "präfix_stages": 3})
    assert baked == SOURCE.replace('"num_warps": 4', '"num_warps": 16').replace("(2)", "(3)")


def test_finish_reads_like_plain_code():
    assert finish(SOURCE) == FINISHED


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_other_line_ends_survive(newline):
    assert finish(SOURCE.replace("\n", newline)) == FINISHED.replace("\n", newline)
    assert bake(SOURCE.replace("\n", newline), {"BLOCK": 64}) == SOURCE.replace("1024,  #", "64,  #").replace(
        "\n", newline
    )


def test_without_literals_both_return_the_source():
    assert finish("x = 1\n") == "x = 1\n"
    assert bake("x = 1\n", {}) == "x = 1\n"


@pytest.mark.parametrize(
    ("use", "becomes"),
    [
        ("y = CONFIG['k'] ** 2", "y = (-8) ** 2"),
        ("y = CONFIG['n'].bit_length()", "y = (64).bit_length()"),
        ("y = 1 if CONFIG['n']else 2", "y = 1 if 64 else 2"),
        ("y = [CONFIG['n'],\n     CONFIG['n']]", "y = [64,\n     64]"),
        ("y = [0] * x[CONFIG['n']]", "y = [0] * x[64]"),
        ("y = CONFIG[CONFIG['s']]", None),
        ("y = CONFIG['missing']", None),
        ("y = dict(**CONFIG)", None),
        ("y = f'{CONFIG[\"n\"]}'", None),
    ],
)
def test_uses_of_every_shape(use, becomes):
    source = f"CONFIG = {{'n': 64, 'k': -8, 's': 'n'}}\nSPACE = {{}}\n{use}\n"
    done = finish(source)
    assert "SPACE" not in done
    if becomes is None:  # the module still needs CONFIG, so it stays
        assert done.startswith("CONFIG = {")
        ast.parse(done)
    else:
        assert done == becomes + "\n"


def test_literals_that_share_a_line_leave_their_neighbour():
    done = finish("a = 1; CONFIG = {'x': 1}; b = CONFIG['x']\n")
    assert done == "a = 1; pass; b = 1\n"


def test_finish_twice_is_finish():
    assert finish(finish(SOURCE)) == finish(SOURCE)


def test_a_malformed_literal_stays_and_the_rest_becomes_constants():
    assert finish("CONFIG = {'x': 1, 'y': None}\nSPACE = {'tiling': {}}\nv = CONFIG['x'], CONFIG['y']\n") == (
        "CONFIG = {'x': 1, 'y': None}\nv = 1, CONFIG['y']\n"
    )
    twice = "CONFIG = {'x': 1}\nCONFIG = {'x': 2}\nv = CONFIG['x']\n"
    assert finish(twice) == twice


def test_bake_refuses_what_it_cannot_write():
    with pytest.raises(BadInput, match="cannot bake 'BLOCK_N': CONFIG has BLOCK, num_warps"):
        bake(SOURCE, {"BLOCK_N": 1})
    with pytest.raises(BadInput, match="no literal"):
        bake(SOURCE, {"BLOCK": float("inf")})
    with pytest.raises(BadInput, match="CONFIG has no knobs"):
        bake("x = 1", {"BLOCK": 1})


def module(config, reads):
    lines = "".join(f"v{i} = g({key!r}, CONFIG[{key!r}])  # é {i}\n" for i, key in enumerate(reads))
    entries = "".join(f"    {key!r}: {value!r},  # ü\n" for key, value in config.items())
    return f"# top\nCONFIG = {{\n{entries}}}\n\n{lines}"


@given(CONFIGS, st.data())
def test_baked_values_are_read_back(config, data):
    source = module(config, config)
    turned = {key: data.draw(KNOB) for key in config if data.draw(st.booleans())}
    baked = bake(source, turned)
    assert repr(read_knobs(baked).config) == repr({**config, **turned})
    assert baked.count("# ü\n") == source.count("# ü\n")
    assert bake(baked, config) == source


@given(CONFIGS)
def test_a_finished_module_computes_the_same(config):
    source = module(config, config)
    before, after = [], []
    exec(source, {"g": lambda *values: before.append(values)})
    done = finish(source)
    assert "CONFIG =" not in done
    exec(done, {"g": lambda *values: after.append(values)})
    assert repr(after) == repr(before)
