"""Reading CONFIG and SPACE: what is accepted, and one clear line for what is not."""

import pytest

from egg_graph.tuning import read_knobs, unread

WHOLE = """
CONFIG = {"BLOCK_M": 128, "num_warps": 8, "scale": -1.5, "tma": True, "order": "row"}  # as measured
SPACE: dict = {
    "parallel_mapping": {"num_warps": [4, 8]},
    "tensor_tiling": {"BLOCK_M": (64, 128)},
}
"""


def test_reads_both_literals_with_their_types():
    config, space, dropped = read_knobs(WHOLE)
    assert not dropped
    assert config == {"BLOCK_M": 128, "num_warps": 8, "scale": -1.5, "tma": True, "order": "row"}
    assert isinstance(config["tma"], bool)
    assert space == {"parallel_mapping": {"num_warps": (4, 8)}, "tensor_tiling": {"BLOCK_M": (64, 128)}}


def test_a_source_without_literals_has_an_empty_space():
    assert read_knobs("import torch\n") == ({}, {}, ())
    assert read_knobs("def f():\n    CONFIG = {'x': 1}\n    return CONFIG\n") == ({}, {}, ())


def test_nothing_of_the_source_is_run(tmp_path):
    witness = tmp_path / "ran"
    read_knobs(f"open({str(witness)!r}, 'w').close()\nCONFIG = {{'x': 1}}\n")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("CONFIG = dict(x=1)", "must be a dict literal"),
        ("CONFIG = [1]", "must be a dict literal"),
        ("CONFIG = {'x': 1}\nCONFIG = {'x': 2}", "bound once"),
        ("CONFIG = {'x': 1}\nCONFIG['x'] = 2", "bound once"),
        ("CONFIG = {'x': 1}\ndef f(CONFIG): return CONFIG['x']", "bound once"),
        ("CONFIG = {'x': 1}\nfrom m import y as CONFIG", "bound once"),
        ("CONFIG = A = {'x': 1}", "bound once, alone"),
        ("CONFIG = {'x': 1, 'x': 2}", "'x' stands twice"),
        ("CONFIG = {1: 1}", "key must be a text"),
        ("CONFIG = {**A}", "key must be a text"),
        ("CONFIG = {'x': f()}", "CONFIG['x'] at line 1 must be a literal"),
        ("CONFIG = {'x': [1]}", "must be a finite number"),
        ("CONFIG = {'x': 1e999}", "must be a finite number"),
        ("CONFIG = {'x': None}", "must be a finite number"),
        ("SPACE = {'tensor_tiling': {'x': [1]}}", "has no usable CONFIG"),
        ("CONFIG = {'x': 1}\nSPACE = {'tiling': {'x': [1]}}", "no stage 'tiling'"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': ['x']}", "must be a dict literal, knob"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'y': [1]}}", "a knob that CONFIG lacks"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': []}}", "at least one value"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': 4}}", "at least one value"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': [None]}}", "must be a finite number"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': [g]}}", "must be a literal"),
    ],
)
def test_what_is_malformed_is_dropped_with_one_line(source, says):
    assert [says in line and "\n" not in line for line in read_knobs(source).dropped] == [True]


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "(" * 5000])
def test_what_is_no_python_has_no_knobs_and_is_left_to_the_evaluator(source):
    assert read_knobs(source) == ({}, {}, ())


@pytest.mark.parametrize(
    ("use", "idle"),
    [
        ('CONFIG["BLOCK_M"]', ["num_warps"]),
        ("f\"{CONFIG['num_warps']} {CONFIG['BLOCK_M']}\"", []),
        ("dict(**CONFIG)", []),
        ("[CONFIG[name] for name in CONFIG]", []),
        ("cfg = CONFIG", []),
        ("other['BLOCK_M']", ["num_warps", "BLOCK_M"]),
    ],
)
def test_a_knob_that_nobody_reads_is_found(use, idle):
    source = f"{WHOLE}{use}\n"
    assert list(unread(source, read_knobs(source).space)) == idle


def test_one_bad_knob_costs_no_other():
    bad = WHOLE.replace('"tma": True', '"tma": None').replace("[4, 8]", "[4, 8, run()]").replace(
        '"tensor_tiling": {', '"tiling": {}, "tensor_tiling": {"lost": [1], '
    )  # fmt: skip
    config, space, dropped = read_knobs(bad)
    assert config == {"BLOCK_M": 128, "num_warps": 8, "scale": -1.5, "order": "row"}
    assert space == {"parallel_mapping": {}, "tensor_tiling": {"BLOCK_M": (64, 128)}}
    assert [line.partition(" at line")[0] for line in dropped] == [
        "CONFIG['tma']", "SPACE['parallel_mapping']['num_warps']", "SPACE", "SPACE['tensor_tiling']['lost']"
    ]  # fmt: skip
