"""Problems are judged before candidates: what an answer without computing could get away with is told."""

import json
from pathlib import Path

import pytest

from egg_graph.bench.provenance import current_provenance
from egg_graph.bench.trust.probe import Probe, ProbeResults, probe_page, probe_suite
from egg_graph.evaluator import environment
from egg_graph.evaluator.device.detect import visible_gpus
from egg_graph.schema import BadInput
from tests.sample import thorough

pytestmark = pytest.mark.slow

SOUND = """
import torch
from torch import nn
N = 8
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
def get_inputs():
    return [torch.rand(4, N)]
"""
ZERO = SOUND.replace("torch.softmax(x, dim=1)", "torch.relu(x - x)")
BROKEN = SOUND.replace("torch.softmax(x, dim=1)", "no_such_name(x)")


@thorough
def test_each_problem_gets_its_verdict_and_the_page_names_what_was_reported(tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    for name, source in (("1_sound", SOUND), ("2_zero", ZERO), ("3_broken", BROKEN)):
        (folder / f"{name}.py").write_text(source)
    told = tmp_path / "reported.toml"
    told.write_text('[problem]\n"L1/2" = { says = "identically zero", at = 1e-4, source = "executed" }\n')
    out = tmp_path / "probe.json"

    results = probe_suite(sorted(folder.glob("*.py")), out, device="none", reported=told)

    sound, zero, broken = results.rows
    assert sound.verdict == "evaluable"
    assert "as given" in sound.families
    assert zero.verdict == "unevaluable"
    assert "zero everywhere" in zero.reason
    assert broken.verdict == "unevaluable"
    assert "no_such_name" in broken.reason
    assert json.loads(out.read_text())["summary"]["unevaluable"] == 2
    page = out.with_suffix(".md").read_text()
    assert "identically zero at 0.0001 (executed)" in page
    assert "At their own shapes" not in page


def test_the_page_tells_memory_and_seconds_at_full_shape() -> None:
    terms = current_provenance(environment(use_gpu=False))
    rows = (
        Probe(problem="level1/1_a", verdict="evaluable", full_shape="judged", peak_bytes=3 << 30, seconds=4.25),
        Probe(problem="level1/2_b", verdict="evaluable", full_shape="does not fit: 360 GiB", peak_bytes=9 << 30),
        Probe(problem="level1/3_c", verdict="unevaluable", reason="it is random", peak_bytes=1 << 30),
    )
    page = probe_page(ProbeResults(terms=terms, precision="tf32", asked=3, rows=rows), {})
    assert "1 problems have inputs and an answer that can be judged at their own shape, 1 do not fit" in page
    table = [line for line in page.split("## At their own shapes")[1].splitlines() if line.startswith("| level1")]
    assert table == [
        "| level1/2_b | does not fit: 360 GiB | 9.0 | 0.0 |",
        "| level1/1_a | judged | 3.0 | 4.2 |",
        "| level1/3_c | unevaluable | 1.0 | 0.0 |",
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not visible_gpus(), reason="no CUDA GPU on this machine")
def test_on_a_gpu_the_own_shape_is_judged_too(tmp_path: Path) -> None:
    (tmp_path / "1_sound.py").write_text(SOUND.replace("N = 8", "N = 1 << 20"))
    (row,) = probe_suite([tmp_path / "1_sound.py"], device="gpu").rows
    assert (row.verdict, row.full_shape) == ("evaluable", "judged")
    assert row.peak_bytes is not None and row.peak_bytes > 3 * 4 * (4 << 20)


def test_reports_that_cannot_be_read_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "reported.toml").write_text("problem = 3 = 4")
    with pytest.raises(BadInput, match="TOML table"):
        probe_suite([], device="none", reported=tmp_path / "reported.toml")
