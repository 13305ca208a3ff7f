"""Problems are judged before candidates: what an answer without computing could get away with is told."""

import json
from pathlib import Path

import pytest

from egg_graph.bench.trust.probe import probe_suite
from egg_graph.schema import BadInput

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


def test_reports_that_cannot_be_read_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "reported.toml").write_text("problem = 3 = 4")
    with pytest.raises(BadInput, match="TOML table"):
        probe_suite([], device="none", reported=tmp_path / "reported.toml")
