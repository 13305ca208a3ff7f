"""A run's database in which bytes were flipped: the run ends as it would have, or one line tells what is damaged."""

import random
import shutil
import sqlite3

import pytest

from egg_graph import InfrastructureError, resume
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam
from tests.runs.harness import SCRIPT, state_of
from tests.runs.test_machine import stopped_run

FILE = "checkpoints.sqlite"
SEEDS = range(8)


def finish(folder):
    return resume(folder.name, runs_dir=folder.parent, team=StatelessTeam(SCRIPT), evaluator=ScriptedEvaluator())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a run that was stopped in the middle, and how it ends."""
    base = tmp_path_factory.mktemp("flipped")
    folder = stopped_run(base / "runs", base / "log")
    shutil.copytree(base / "runs", base / "whole")
    return folder, state_of(finish(base / "whole" / folder.name))


@pytest.fixture
def resume_with(stopped, tmp_path):
    """Resume a copy of the run whose database has another content: how it ends."""
    folder, _ = stopped

    def work(content):
        shutil.copytree(folder, tmp_path / folder.name)
        (tmp_path / folder.name / FILE).write_bytes(content)
        return state_of(finish(tmp_path / folder.name))

    return work


def newest(folder):
    """The newest checkpoint's name and its parent's, as they stand beside each other in the file."""
    connection = sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True)
    names = "SELECT checkpoint_id || parent_checkpoint_id FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1"
    (found,) = connection.execute(names).fetchone()
    connection.close()
    return found.encode()


PLACES = {
    "the kind of a value": lambda folder: (b"msgpack+zlib", 3),
    "a value's bytes": lambda folder: (b"msgpack+zlib", 20),
    "a step's number": lambda folder: (b'"step"', 2),
    "a checkpoint's name": lambda folder: (newest(folder), 5),
    "its parent's name": lambda folder: (newest(folder), 41),
    "the channel of an attempt": lambda folder: (b"attemptsmsgpack", 4),
    "the layout of a table": lambda folder: (b"CREATE TABLE", 8),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_flipped_byte_is_told_in_one_line(stopped, resume_with, place):
    folder, _ = stopped
    text, offset = PLACES[place](folder)
    content = bytearray((folder / FILE).read_bytes())
    at = bytes(content).rindex(text) + offset
    content[at] ^= 0x80 if place == "the layout of a table" else 1
    with pytest.raises(InfrastructureError) as error:
        resume_with(content)
    assert f"{FILE} is damaged" in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_with_a_flipped_byte_anywhere_ends_as_without_it_or_in_one_line(stopped, resume_with, seed):
    folder, whole = stopped
    content, draw = bytearray((folder / FILE).read_bytes()), random.Random(seed)
    content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    try:
        ended = resume_with(content)
    except InfrastructureError as error:
        assert f"{FILE} is damaged" in str(error) and len(str(error).splitlines()) == 1
    else:
        assert ended == whole
