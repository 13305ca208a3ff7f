"""Recordings of runs with models: they replay, they follow prompts that change, and they can leave a reference out."""

import gzip
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph.expert.roles.team import EmbeddedExpert
from egg_graph.runs.replay import replay_run
from egg_graph.schema import BadInput
from tests.cli.test_model_runs_lab import KNOBS, advance, answer, source, trip
from tests.graph.scripted import REFERENCE
from tests.lab.commands import lab
from tests.lab.model_runs import PlannedRun, begin_model_runs
from tests.lab.recordings import left_out, read_recording, refresh_recording, replay_recording, write_recording
from tests.paths import ROOT

TEXT = "# words of others\n" + REFERENCE.replace("16, 16", "16, 17")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs with a model of which the only one has ended."""
    place = tmp_path_factory.mktemp("recorded")
    problem = place / "problems" / "relu.py"
    problem.parent.mkdir()
    problem.write_text(TEXT)
    runs = begin_model_runs(place / "runs", [problem], KNOBS, expert=False)
    while (progress := advance(runs)).ended < progress.total:
        if progress.prompts:
            answer(progress, {"relu": source("timed", 3)})
        else:
            assert trip(runs, place)
    return runs


@pytest.fixture(scope="module")
def ended(runs):
    """The folder of the run that has ended."""
    return runs.run_folder(PlannedRun("relu", "model"))


def test_a_recording_replays_to_the_same_end(ended, tmp_path):
    file = tmp_path / "relu.json.gz"
    write_recording(ended, file)
    read_recording(file, tmp_path / "run")
    assert not replay_run(tmp_path / "run").differs
    assert left_out(file) == ""


@pytest.mark.parametrize("file", sorted((ROOT / "tests" / "recordings").glob("*.json.gz")), ids=lambda file: file.name)
def test_runs_of_a_capable_model_on_a_gpu_end_as_they_did(file):
    told = "a prompt is worded otherwise now: python -m tests.lab recordings --refresh tests/recordings/*.json.gz"
    assert not replay_recording(file), told


def test_a_replay_takes_the_contender_of_then(monkeypatch):
    def not_asked(*_):
        raise AssertionError("the embedded expert of today was asked")

    monkeypatch.setattr(EmbeddedExpert, "write", not_asked)
    assert not replay_recording(ROOT / "tests" / "recordings" / "cost_volume.json.gz")


def test_a_reference_that_is_left_out_is_nowhere_in_it_and_is_needed(ended, tmp_path):
    file = tmp_path / "relu.json.gz"
    write_recording(ended, file, left_out="suite relu.py")
    assert left_out(file) == "suite relu.py"
    assert b"words of others" not in gzip.decompress(file.read_bytes())
    with pytest.raises(BadInput, match=r"leaves the reference suite relu\.py out"):
        read_recording(file, tmp_path / "run")
    read_recording(file, tmp_path / "run", reference=TEXT)
    assert not replay_run(tmp_path / "run").differs


def test_prompts_that_changed_are_taken_over_with_the_answers_of_then(ended, tmp_path):
    file, then = tmp_path / "relu.json.gz", tmp_path / "then"
    write_recording(ended, file)
    read_recording(file, then)
    for request in (then / "requests").iterdir():  # as if every prompt had been worded otherwise when it was asked
        request.write_text(request.read_text().replace("You ", "Thou "))
    write_recording(then, file)
    with pytest.raises(BadInput, match="the replay asks what the run did not"):
        replay_run(then)
    refresh_recording(file)
    read_recording(file, tmp_path / "now")
    assert not replay_run(tmp_path / "now").differs


def test_the_commands_record_what_ended_and_replay_it(runs, tmp_path):
    told = CliRunner().invoke(lab, ["model_runs", str(runs.folder), "--status", "--record", str(tmp_path)]).output
    assert "1 runs recorded" in told
    file = tmp_path / "relu.json.gz"
    assert left_out(file) == "problems/relu.py", "the reference lies outside of this checkout"
    words = ["recordings", str(file), "--references", str(runs.folder.parent)]
    replayed = CliRunner().invoke(lab, [*words, "--refresh"])
    assert (replayed.exit_code, "relu.json.gz: ends as it did" in replayed.output) == (0, True)
    assert CliRunner().invoke(lab, words[:2]).exit_code == 2, "nobody said where the reference lies"


OF_KERNELBENCH = ROOT / "tests" / "recordings" / "kernelbench"


@pytest.mark.parametrize("file", sorted(OF_KERNELBENCH.glob("*.json.gz")), ids=lambda file: file.name)
def test_runs_at_kernelbench_end_as_they_did_where_it_is_at_hand(file):
    assert left_out(file).startswith("level"), "the benchmark's code is not ours to keep"
    folder = os.environ.get("EGG_KERNELBENCH")
    if not folder:
        pytest.skip("needs EGG_KERNELBENCH, the folder of KernelBench that holds level1, level2 and level3")
    assert not replay_recording(file, Path(folder))
