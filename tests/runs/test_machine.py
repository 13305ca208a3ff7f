"""A run's folder that another process works in, that is damaged, or that cannot be written: one line, nothing lost."""

import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import egg_graph
from egg_graph import InfrastructureError, optimize, resume
from egg_graph.cli import app
from egg_graph.schema.errors import RunHeld
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam
from tests.paths import IMPORTABLE
from tests.runs.harness import SCRIPT
from tests.sample import thorough

pytestmark = pytest.mark.slow


class Stopped(Exception):
    """Ends a run from its listener, as a person does with Ctrl-C."""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def parts(log):
    return {"team": StatelessTeam(SCRIPT), "evaluator": ScriptedEvaluator(log=log), "principles": ()}


def start(runs, log, **options):
    options = {"target": "h100", "max_optimizations": 1, "runs_dir": runs, "name": "relu"} | parts(log) | options
    return optimize(REFERENCE, **options)


def stopped_run(runs, log):
    """The folder of a run that was stopped after its fourth attempt."""

    def stop(event):
        if event["event"] == "attempt" and event["attempt"] == 4:
            raise Stopped

    with pytest.raises(Stopped):
        start(runs, log, on_event=stop)
    (folder,) = runs.iterdir()
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Where a stopped run lies, to be copied: its folder in `runs`, and its `log`."""
    place = tmp_path_factory.mktemp("stopped")
    stopped_run(place / "runs", place / "log")
    return place


@pytest.fixture
def folder(stopped, tmp_path, log):
    """The folder of a run that was stopped; `log` holds what it evaluated."""
    shutil.copy(stopped / "log", log)
    (copied,) = shutil.copytree(stopped / "runs", tmp_path / "runs").iterdir()
    return copied


def finish(folder, log):
    return resume(folder.name, runs_dir=folder.parent, **parts(log))


def evaluated(log):
    return log.read_text().splitlines() if log.exists() else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an undisturbed run evaluates and hands over."""
    place = tmp_path_factory.mktemp("undisturbed")
    run = start(place, place / "log")
    return evaluated(place / "log"), run.kernel


def assert_finished_once(run, log, whole):
    assert (evaluated(log), run.kernel) == whole, "another end, or an evaluation repeated or lost"


def assert_one_line(error, *words):
    text = str(error.value)
    assert len(text.splitlines()) == 1 and all(word in text for word in words), text


# Two processes


def child(log, gate, *words, **options):
    command = [sys.executable, "-m", "tests.runs.child", str(log), str(gate), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, "COLUMNS": "300"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes, **options)


@contextmanager
def at_work(folder, log, gate):
    """A process that resumes the run and waits at the gate, in the middle of an evaluation."""
    process = child(log, gate, "optimize", "--resume", folder.name, "--runs", folder.parent)
    try:
        until = time.monotonic() + 60
        while not log.with_name("at_gate").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def go_on(folder):
    return f"stopped; go on with: egg-graph optimize --resume {folder.name} --runs {folder.parent}"


def test_a_resumed_run_that_is_interrupted_tells_how_to_go_on(tmp_path, folder, log, whole):
    with at_work(folder, log, tmp_path / "gate") as process:
        before = evaluated(log)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and said.strip() == go_on(folder)
    assert evaluated(log) == before, "it stopped while an evaluator that knows no cancelling was at work"
    assert_finished_once(finish(folder, log), log, whole)


def test_of_two_processes_that_resume_one_run_the_second_gets_one_line(tmp_path, folder, log, whole):
    gate = tmp_path / "gate"
    with at_work(folder, log, gate) as first:
        before = evaluated(log)
        second = child(log, "/", "optimize", "--resume", folder.name, "--runs", folder.parent)
        _, said = second.communicate(timeout=60)
        assert second.returncode == 3 and evaluated(log) == before
        (line,) = said.strip().splitlines()
        assert f"process {first.pid} on" in line and folder.name in line and "wait for its end" in line
        with pytest.raises(RunHeld, match=f"process {first.pid} on .* is at work on the run"):
            finish(folder, log)
        gate.touch()
        _, said = first.communicate(timeout=60)
        assert first.returncode == 0, said
    assert_finished_once(finish(folder, log), log, whole)


def test_a_killed_process_frees_its_run(tmp_path, folder, log, whole):
    with at_work(folder, log, tmp_path / "gate") as first:
        first.kill()
        first.wait()
        assert_finished_once(finish(folder, log), log, whole)


def test_a_run_is_its_processs_alone_from_the_start(tmp_path, log):
    runs, refused = tmp_path / "runs", []

    def intrude(event):
        (folder,) = runs.iterdir()
        with pytest.raises(InfrastructureError, match=f"process {os.getpid()} on") as error:
            finish(folder, tmp_path / "other.log")
        refused.append(error)

    assert start(runs, log, on_event=intrude).accepted
    assert len(refused) > 10 and not evaluated(tmp_path / "other.log")


# Damaged files


def cut(size):
    return lambda content: content[: size if size >= 0 else len(content) + size]


DAMAGE = {
    "empty": cut(0),
    "within the header": cut(50),
    "one page": cut(4096),
    "half of its pages": lambda content: content[: len(content) // 8192 * 4096],
    "the last page absent": cut(-4096),
    "within the last page": cut(-1000),
    "no database": lambda content: b"none" * (len(content) // 4),
    "a page of zeros": lambda content: content[:4096] + bytes(4096) + content[8192:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_told_and_left_alone(folder, log, whole, damage, monkeypatch):
    path, before = folder / "checkpoints.sqlite", evaluated(log)
    content = path.read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    with pytest.raises(InfrastructureError) as error:
        finish(folder, log)
    assert_one_line(error, f"{path} is damaged", "put a copy of it in its place", "start a new run")
    assert evaluated(log) == before and path.read_bytes() == DAMAGE[damage](content)
    monkeypatch.setattr(egg_graph, "resume", functools.partial(resume, **parts(log)))
    told = CliRunner().invoke(app, ["optimize", "--resume", folder.name, "--runs", str(folder.parent)])
    assert told.exit_code == 3 and len(told.stderr.splitlines()) == 1 and "is damaged" in told.stderr
    path.write_bytes(content)
    assert_finished_once(finish(folder, log), log, whole)


@thorough
def test_a_killed_runs_database_that_was_emptied_keeps_its_log(tmp_path, folder, log, whole):
    with at_work(folder, log, tmp_path / "gate") as process:
        process.kill()
        process.wait()
    path = folder / "checkpoints.sqlite"
    content = path.read_bytes()
    assert path.with_name("checkpoints.sqlite-wal").stat().st_size, "a killed run leaves its newest steps here"
    path.write_bytes(b"")
    with pytest.raises(InfrastructureError, match="is damaged"):
        finish(folder, log)
    path.write_bytes(content)
    assert_finished_once(finish(folder, log), log, whole)


@pytest.mark.parametrize("ended", [False, True])
def test_a_lost_database_does_not_start_the_run_anew(folder, log, ended):
    if ended:
        finish(folder, log)
    (folder / "checkpoints.sqlite").unlink()
    before = evaluated(log)
    with pytest.raises(InfrastructureError) as error:
        finish(folder, log)
    assert_one_line(error, "checkpoints.sqlite is damaged", "No such file")
    assert evaluated(log) == before and not (folder / "checkpoints.sqlite").exists()


def test_a_damaged_request_is_told_in_one_line(folder, log):
    (folder / "run.json").write_text((folder / "run.json").read_text()[:100])
    with pytest.raises(InfrastructureError) as error:
        finish(folder, log)
    assert_one_line(error, "run.json is damaged")


# Folders that cannot be written


@pytest.mark.parametrize("attempt", [1, 4, None])
def test_a_folder_that_goes_away_in_mid_run(tmp_path, log, whole, attempt):
    runs, away = tmp_path / "runs", tmp_path / "away"

    def replace(event):
        if event.get("attempt") == attempt and event["event"] == ("verdict" if attempt is None else "attempt"):
            (folder,) = runs.iterdir()
            folder.rename(away)
            folder.write_text("a file in the folder's place")

    with pytest.raises(InfrastructureError) as error:
        start(runs, log, on_event=replace)
    assert_one_line(
        error, "cannot write the run's folder", "can be written", "then resume the run: what was done is kept"
    )
    (folder,) = runs.iterdir()
    folder.unlink()
    away.rename(folder)
    assert_finished_once(finish(folder, log), log, whole)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of its own. The test sets its size [KiB] and how many files it holds."""
    place = tmp_path / "small"
    place.mkdir()

    def resize(size, files=100):
        how = f"{'remount,' if place.is_mount() else ''}size={size}k,nr_inodes={files}"
        command = ["mount", "-t", "tmpfs", "-o", how, "none", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this process may not mount a file system")
        return place

    yield resize
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def assert_nothing_saved_was_repeated(run, log, whole, unsaved):
    """Check that a run evaluated nothing twice but `unsaved`, whose answers could not be saved."""
    every = evaluated(log)
    assert (list(dict.fromkeys(every)), run.kernel) == whole
    assert {line for line in every if every.count(line) > 1} <= set(unsaved)


@pytest.mark.parametrize("size", [100, 200, 300, 500, 700, 900, 1200])
def test_a_disk_that_fills_up_in_mid_run(small_disk, log, whole, size):
    runs = small_disk(size)
    with pytest.raises(InfrastructureError) as error:
        start(runs, log)
    assert_one_line(error, "cannot write the run's folder", "free space on its disk", "what was done is kept")
    (folder,) = runs.iterdir()
    unsaved = evaluated(log)[-1:]
    with pytest.raises(InfrastructureError) as error:
        finish(folder, log)
    assert_one_line(error, "cannot write the run's folder", "free space on its disk")
    unsaved += evaluated(log)[-1:]
    small_disk(30_000)
    assert_nothing_saved_was_repeated(finish(folder, log), log, whole, unsaved)


@pytest.mark.parametrize(("size", "files"), [(12, 100), (1000, 1), (1000, 3)])
def test_a_disk_that_is_full_at_once_keeps_no_folder(small_disk, log, size, files):
    runs = small_disk(size, files)
    with pytest.raises(InfrastructureError) as error:
        start(runs, log)
    assert_one_line(error, "free space on its disk, then start the run again")
    assert not list(runs.iterdir()) and not evaluated(log)


@pytest.mark.parametrize("limit", [60_000, 400_000])
def test_the_command_says_in_one_line_that_a_file_cannot_grow(tmp_path, log, whole, limit):
    """A process whose files may not grow beyond a limit [bytes] meets the same faults as one on a full disk."""
    (tmp_path / "relu.py").write_text(REFERENCE)
    (tmp_path / "gate").touch()
    words = ["optimize", tmp_path / "relu.py", "--target", "h100", "--max-optimizations", "1"]
    stopped = child(
        log,
        tmp_path / "gate",
        *words,
        "--runs",
        tmp_path / "runs",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    _, said = stopped.communicate(timeout=60)
    (folder,) = (tmp_path / "runs").iterdir()
    hint, line = said.strip().splitlines()
    assert stopped.returncode == 3 and hint == go_on(folder)
    assert "cannot write the run's folder" in line and "what was done is kept" in line
    unsaved = evaluated(log)[-1:]
    assert_nothing_saved_was_repeated(finish(folder, log), log, whole, unsaved)
