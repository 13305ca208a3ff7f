"""What a candidate changes in the libraries of its process is named."""

import threading
import time

import pytest
import torch

from egg_graph.evaluator.evidence.integrity import (
    judge_fingerprints,
)
from egg_graph.evaluator.host import library_state
from egg_graph.evaluator.host.library_state import fingerprint
from egg_graph.evaluator.worker import recorder
from egg_graph.schema import Finding


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


@pytest.fixture(autouse=True)
def first_fingerprint_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests of this process have patched for a while is nothing that a candidate changed."""
    monkeypatch.setattr(library_state, "_first", {})
    monkeypatch.setattr(library_state, "_overrides", set())
    for thread in threading.enumerate():
        if thread.name == "egg-graph-ticker":  # it ends by itself, soon after the last node of another test
            thread.join(timeout=30)


def test_an_honest_process_keeps_its_fingerprint() -> None:
    before = fingerprint()
    import torch._inductor.runtime.triton_heuristics
    import torch.utils.checkpoint
    import triton.testing  # noqa: F401

    import egg_graph.evaluator.tools.sanitizer_rung  # noqa: F401

    torch.randn(3).softmax(0)
    assert judge_fingerprints(before, fingerprint()) == []


PATCHES = [
    (torch.cuda.Event, "elapsed_time", lambda self, other: 0.0),
    (time, "perf_counter", lambda: 0.0),
    (torch, "allclose", lambda *a, **k: True),
    (torch.nn.functional, "softmax", lambda x, dim: x),
    (torch.nn.Module, "__call__", lambda self, *a: a[0]),
    (torch.Tensor, "__matmul__", lambda a, b: a),
    (recorder, "record_forward", lambda forward, **_: {}),
]


@pytest.mark.parametrize(("place", "name", "patch"), PATCHES, ids=[name for _, name, _ in PATCHES])
def test_a_replaced_function_is_named(monkeypatch: pytest.MonkeyPatch, place: object, name: str, patch: object) -> None:
    before = fingerprint()
    monkeypatch.setattr(place, name, patch)
    found = judge_fingerprints(before, fingerprint())
    assert kinds(found) == ["library_patched"]
    assert name in found[0].message


def test_a_function_with_another_body_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    target = torch.cuda.synchronize
    monkeypatch.setattr(target, "__code__", (lambda device=None: None).__code__)
    found = judge_fingerprints(before, fingerprint())
    assert "synchronize" in found[0].message


def test_switches_and_threads_are_told() -> None:
    before = fingerprint()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="deferred")
    thread.start()
    torch.use_deterministic_algorithms(True)
    try:
        found = judge_fingerprints(before, fingerprint())
    finally:
        torch.use_deterministic_algorithms(False)
        stop.set()
        thread.join()
    assert "deterministic: False became True" in found[0].message
    assert "deferred" in found[0].message
    assert judge_fingerprints(before, fingerprint()) == []
    torch.manual_seed(3)
    assert judge_fingerprints(before, fingerprint()) == [], "random numbers are anyone's"
