"""Reading CONFIG and SPACE: what is accepted, and one clear line for what is not."""

import pytest

from egg_graph.schema import BadInput
from egg_graph.tuning import parse_space

WHOLE = """
CONFIG = {"BLOCK_M": 128, "num_warps": 8, "scale": -1.5, "tma": True, "order": "row"}  # as measured
SPACE: dict = {
    "parallel_mapping": {"num_warps": [4, 8]},
    "tensor_tiling": {"BLOCK_M": (64, 128)},
}
"""


def test_reads_both_literals_with_their_types():
    config, space = parse_space(WHOLE)
    assert config == {"BLOCK_M": 128, "num_warps": 8, "scale": -1.5, "tma": True, "order": "row"}
    assert isinstance(config["tma"], bool)
    assert space == {"parallel_mapping": {"num_warps": (4, 8)}, "tensor_tiling": {"BLOCK_M": (64, 128)}}


def test_a_source_without_literals_has_an_empty_space():
    assert parse_space("import torch\n") == ({}, {})
    assert parse_space("def f():\n    CONFIG = {'x': 1}\n    return CONFIG\n") == ({}, {})


def test_nothing_of_the_source_is_run(tmp_path):
    witness = tmp_path / "ran"
    parse_space(f"open({str(witness)!r}, 'w').close()\nCONFIG = {{'x': 1}}\n")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(:", "does not parse"),
        ("x = '\0'", "does not parse"),
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
        ("SPACE = {'tensor_tiling': {'x': [1]}}", "has no CONFIG"),
        ("CONFIG = {'x': 1}\nSPACE = {'tiling': {'x': [1]}}", "no stage 'tiling'"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': ['x']}", "must be a dict literal, knob"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'y': [1]}}", "a knob that CONFIG lacks"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': []}}", "at least one value"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': 4}}", "at least one value"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': [None]}}", "must be a finite number"),
        ("CONFIG = {'x': 1}\nSPACE = {'tensor_tiling': {'x': [g]}}", "must be a literal"),
    ],
)
def test_malformed_literals_get_one_line(source, says):
    with pytest.raises(BadInput) as caught:
        parse_space(source)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
