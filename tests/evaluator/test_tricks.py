"""Every trick is caught and every control passes: the gate on all files, the ladder on those that get past it.

The whole corpus takes minutes (`egg-graph trust tests/adversarial`); without a GPU this test climbs the ladder with a
part of it, one of each kind, and reads the text of the rest.
"""

from collections.abc import Iterator

import pytest

from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.gate import check
from egg_graph.schema import Hardware
from tests.paths import CORPUS

ENTRIES = {entry.path.stem: entry for entry in read_entries([CORPUS / "tricks", CORPUS / "right"])}
CLIMBED = (
    *("helpers", "workspace_reused", "heuristics_and_hooks", "device_properties"),
    *("half_written_kept", "shape_memo", "two_headed_answer", "persistent_buffer"),
    *("autotune_hook", "swallowed_failure", "custom_operator_hidden"),
    *("logarithm_then_copy", "second_configuration", "library_in_the_kernel", "half_a_character"),
    *("zero_and_restore", "patch_copy", "reads_with_torch_load", "traceback_walk", "keyboard_interrupt"),
)
"""On softmax for the most part: a problem's first candidate pays for finding its shapes."""


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if not entry.header.honest])
def test_what_the_gate_refuses_it_refuses_on_the_expected_grounds(name: str) -> None:
    header = ENTRIES[name].header
    findings = check(candidate_of(ENTRIES[name]))
    if findings:
        assert "invalid" in header.expect, findings
        assert not header.finding or {f.kind for f in findings} & set(header.finding), findings


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.header.honest])
def test_the_gate_is_open_for_honest_kernels(name: str) -> None:
    assert check(candidate_of(ENTRIES[name])) == ()


@pytest.fixture(scope="module")
def climbing() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="none", timeout=20.0) as local:
        yield local


@pytest.mark.xdist_group("adversarial")
@pytest.mark.parametrize("name", CLIMBED)
def test_without_a_gpu(climbing: LocalEvaluator, h200: Hardware, name: str) -> None:
    judged(climbing, h200, ENTRIES[name])


@pytest.fixture(scope="module")
def measuring() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="gpu", timeout=30.0) as local:
        yield local


@pytest.mark.gpu
@pytest.mark.xdist_group("adversarial_gpu")
@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if "gpu" in entry.header.where])
def test_on_a_gpu(measuring: LocalEvaluator, h200: Hardware, name: str) -> None:
    judged(measuring, h200, ENTRIES[name])


def judged(local: LocalEvaluator, hardware: Hardware, entry: Entry) -> None:
    evaluation = local.evaluate(task_of(entry, hardware), candidate_of(entry), finalist=entry.header.finalist)
    outcome = entry.header.outcome(evaluation)
    assert outcome in ("caught", "harmless", "right"), f"{evaluation.status}: {evaluation.reason}"
