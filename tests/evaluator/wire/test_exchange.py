"""Values that cross process boundaries as bytes, and manifests that lie."""

import gc
import weakref

import pytest
import torch

from egg_graph.evaluator.wire.exchange import ExchangeError, flatten, load, save


def test_values_cross_processes_as_bytes(tmp_path) -> None:
    values = [
        torch.randn(3, 5).t(),
        torch.arange(4),
        torch.tensor(2.5, dtype=torch.bfloat16),
        torch.zeros(0, 3),
        [torch.ones(2, dtype=torch.bool), {"k": (1, None)}],
        torch.randn(4)[None].expand(3, 4),
        float("inf"),
    ]
    save(tmp_path, "values", values, structure="s")
    structure, back = load(tmp_path, "values")
    assert structure == "s"
    assert back[0].stride() == (1, 5)
    for a, b in zip(flatten(values)[1], flatten(back)[1], strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    with pytest.raises(ExchangeError, match="object"):
        save(tmp_path, "bad", [object()])


def test_an_answer_that_nobody_holds_is_freed_at_once() -> None:
    """Gigabytes of a GPU must not wait for Python's garbage collection, which is off during timed calls."""
    answer = torch.ones(3)
    watched = weakref.ref(answer)
    gc.disable()
    try:
        structure, leaves = flatten({"a": [answer]})
        assert (structure, len(leaves)) == ("{a: (*)}", 1)
        del answer, leaves
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "manifest",
    [
        "{",
        "[]",
        '{"structure": "*", "values": [{"tensor": {"dtype": "float32", "shape": [9], "stride": [1], "at": 0}}]}',
        '{"structure": "*", "values": [{"tensor": {"dtype": "float32", "shape": [1], "stride": [-1], "at": 0}}]}',
        '{"structure": "*", "values": [{"tensor": {"dtype": "os.system", "shape": [1], "stride": [1], "at": 0}}]}',
    ],
)
def test_a_manifest_that_lies_is_refused(tmp_path, manifest: str) -> None:
    (tmp_path / "v.bin").write_bytes(b"\0" * 8)
    (tmp_path / "v.json").write_text(manifest)
    with pytest.raises(ExchangeError):
        load(tmp_path, "v")
