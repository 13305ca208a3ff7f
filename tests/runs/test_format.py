"""The format of saved evidence: files of an older format are read, those of an unknown one are refused."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph.cli import app
from egg_graph.report import read_run
from egg_graph.runs.evidence import read_evidence
from egg_graph.runs.results import write_report
from egg_graph.schema import BadInput
from egg_graph.schema.record import FORMAT, KEY_VARIABLE

FORMAT_1 = Path(__file__).parent / "saved" / "format_1"
"""A record and a run that were saved before evidence.json named its format."""
RECORD = FORMAT_1 / "record.json"
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
