"""The format of saved evidence: files of an older format are read, those of an unknown one are refused."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph import resume
from egg_graph.cli import app
from egg_graph.report import read_run
from egg_graph.runs.checkpoints import open_checkpoints
from egg_graph.runs.evidence import read_evidence
from egg_graph.runs.results import write_report
from egg_graph.schema import BadInput
from egg_graph.schema.record import FORMAT, KEY_VARIABLE
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam, kernel
from tests.sample import thorough

FORMAT_1 = Path(__file__).parent / "saved" / "format_1"
"""A record and a run that were saved before evidence.json named its format."""
RECORD = FORMAT_1 / "record.json"
WHOLE_LISTS = Path(__file__).parent / "saved" / "whole_lists"
"""A run that stopped before its last step, when each checkpoint still held every attempt."""
UNKNOWN = [0, FORMAT + 1, 99, -1, "2", 1.5, True, None]


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.fixture
def run_folder(tmp_path):
    return shutil.copytree(FORMAT_1 / "run", tmp_path / "run")


def refused(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2 and result.stdout == ""
    return result.stderr.strip()


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return path


def test_a_record_of_format_1_is_verified():
    record = read_evidence(RECORD)
    assert record.format == 1 and record.evaluation.status == "correct" and len(record.evaluation.checks) == 19


@pytest.mark.slow
@thorough
def test_a_record_of_format_1_is_replayed():
    result = CliRunner().invoke(app, ["replay", str(RECORD), "--json"])
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["evaluation"]["status"] == "correct"
    assert answer["same"] or answer["other_machine"], answer["differs"]


def test_a_run_of_format_1_is_read_with_its_record_and_its_history(run_folder):
    run = read_run(run_folder)
    assert run.status == "correct" and len(run.attempts) == 2 and run.best == run.attempts[1].candidate
    assert read_evidence(run_folder / "evidence.json").candidate == run.best
    assert "Accepted as correct" in write_report(run_folder).read_text()


@pytest.mark.parametrize("key", ["task", "best", "evaluation"])
def test_what_stands_beside_the_record_has_to_be_the_same(run_folder, key):
    path = run_folder / "evidence.json"
    value = json.loads(path.read_text())[key]
    change(path, **{key: {**value, "status" if key == "evaluation" else "author": "faster"}})
    assert f"tampered with: its '{key}' is not the one of the record" in " ".join(refused("replay", path).split())


@pytest.mark.parametrize("found", UNKNOWN, ids=repr)
def test_a_record_of_an_unknown_format_is_refused_in_one_line(tmp_path, found):
    path = change(shutil.copy(RECORD, tmp_path) and tmp_path / "record.json", format=found)
    with pytest.raises(BadInput) as error:
        read_evidence(path)
    line = str(error.value)
    assert "\n" not in line and ("unknown format" in line or "no number under" in line)


@pytest.mark.parametrize("found", UNKNOWN, ids=repr)
def test_a_run_of_an_unknown_format_is_refused_in_one_line(run_folder, found):
    path = change(run_folder / "evidence.json", format=found)
    for read, given in ((read_run, run_folder), (read_evidence, path)):
        with pytest.raises(BadInput, match=f"unknown format .*reads formats 1 to {FORMAT}$"):
            read(given)


def test_the_commands_refuse_an_unknown_format_with_the_file_and_exit_2(run_folder):
    path = change(run_folder / "evidence.json", format=99)
    for arguments in (("replay", path), ("report", run_folder)):
        line = refused(*arguments)
        assert "unknown format 99" in " ".join(line.split()) and "evidence.json" in line


def go_on(folder):
    """Resume a run with the team and the evaluator of `whole_lists`."""
    team = StatelessTeam([kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)])
    return resume(folder.name, runs_dir=folder.parent, team=team, evaluator=ScriptedEvaluator(), principles=())


def test_a_run_whose_checkpoints_hold_whole_lists_is_resumed(tmp_path):
    run = go_on(shutil.copytree(WHOLE_LISTS, tmp_path / "old_run"))
    assert run.status == "correct" and run.kernel == kernel("ok", 8)
    assert [attempt.evaluation.status for attempt in run.attempts] == ["incorrect", "correct", "correct"]
    assert len(run.summaries) > 1 and len({summary.stage for summary in run.summaries}) == len(run.summaries)
    assert len([a for a in (run.folder / "history.jsonl").read_text().splitlines() if '"line"' not in a]) == 3


def test_a_run_that_stopped_at_a_step_of_another_version_is_refused_in_one_line(tmp_path):
    folder = shutil.copytree(WHOLE_LISTS, tmp_path / "old_run")
    with open_checkpoints(folder) as saver:
        (last,) = saver.list({"configurable": {"thread_id": folder.name}}, limit=1)
        for held in (last.checkpoint["channel_values"], last.checkpoint["channel_versions"]):
            held["branch:to:farewell"] = held.pop("branch:to:conclude")
        saver.put(last.parent_config, last.checkpoint, last.metadata, {})
    with pytest.raises(BadInput, match=r"^run .* stopped at a step that this egg-graph does not have: .*keeps$"):
        go_on(folder)
