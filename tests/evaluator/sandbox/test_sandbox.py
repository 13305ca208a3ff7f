"""What a hostile job can reach: nothing but its own folder, itself, and the libraries."""

import errno
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.sandbox.isolation import isolation
from egg_graph.evaluator.wire import exchange
from tests.evaluator.sandbox.hostile_server import HERE, Run, answer, make, runner

HOLDS, LACKS = isolation()
pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"not everything can be confined here: {'; '.join(LACKS)}")
DENIED = f"PermissionError {errno.EACCES}"
REFUSED = f"PermissionError {errno.EPERM}"


def test_files_of_the_user_of_the_reference_and_of_other_jobs_cannot_be_read(
    run: Run, fork_server: ForkServer, tmp_path: Path
) -> None:
    other = tmp_path / "job-other"
    reference = tmp_path / "egg-reference-x" / "reference.py"
    for path in (other / "candidate.py", reference, tmp_path / ".ssh" / "id_ed25519"):
        path.parent.mkdir()
        path.write_text("secret")
    paths = [
        *(str(other / "candidate.py"), str(reference), str(tmp_path / ".ssh" / "id_ed25519")),
        *(
            str(tmp_path),
            str(fork_server.folder),
            "/tmp",
            str(Path.home()),
            str(Path(__file__)),
            "/etc/shadow",
            "/var",
            "/",
        ),
    ]
    told = answer(run("read", paths=paths))
    # where a path names what the job has itself, it is not denied: home may be a prefix of Python's own
    assert {path: word for path, word in told.items() if word != DENIED} == {}


def test_nothing_outside_its_folder_can_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("mine")
    paths = [str(tmp_path / "there.txt"), str(tmp_path / "new.txt"), "/tmp/new-of-a-job", f"{sys.prefix}/new.txt",
             "/dev/new", "/proc/sys/kernel/core_pattern", f"{HERE}/hostile_jobs.py"]  # fmt: skip
    for tools in (False, True):
        told = answer(run("write", Limits(wall_seconds=20, tools=tools), paths=paths))
        assert set(told.values()) <= {DENIED, REFUSED, f"OSError {errno.EROFS}"}, told
    assert (tmp_path / "there.txt").read_text() == "mine"


def test_links_that_a_job_leaves_lead_the_next_one_and_the_judge_nowhere(run: Run, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.txt"
    theirs.write_text("as it was")
    names = ["log.txt", "inputs.bin", "inputs.json"]
    assert answer(run("plant_links", target=str(theirs), names=names)) == {}
    exchange.save(tmp_path / "job", "inputs", [torch.zeros(3)])
    assert "a line for" in run("shout").log
    assert theirs.read_text() == "as it was"


def test_it_sees_itself_and_an_environment_without_secrets(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    inherited, _ = os.pipe()
    os.set_inheritable(inherited, True)
    fork_server = make(tmp_path_factory.mktemp("fork-server"))
    try:
        seen = answer(runner(fork_server, tmp_path)("look_around"))
    finally:
        fork_server.stop()
    assert "OPENAI_API_KEY" not in seen["environment"]
    assert seen["environment"]["HOME"] == str(tmp_path / "job")
    assert seen["descriptors"] == [0, 1, 2, 3]
    assert seen["processes"] == [1, 2]
    assert set(seen["capabilities"]) == {"0" * 16}
    assert seen["limits"]["RLIMIT_CORE"] == [0, 0]
    assert seen["own"] == "mine"
    assert seen["child"] == "42\n"


def test_no_server_no_resolver_and_no_local_socket_is_reached(run: Run, tmp_path: Path) -> None:
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as local, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(("127.0.0.1", 0))
        local.bind(str(tmp_path / "socket"))
        abstract.bind(f"\0egg-test-{os.getpid()}")
        for listening in (server, local, abstract):
            listening.listen()
        payload = {"port": server.getsockname()[1], "path": str(tmp_path / "socket")}
        payload["abstract"] = f"egg-test-{os.getpid()}"
        told = answer(run("connect", **payload))
        assert "done" not in told.values()
        told = answer(run("connect", Limits(wall_seconds=20, tools=True), **payload))
        assert {name for name, word in told.items() if word == "done"} <= {"local"}  # known: see the threat model


def test_nobody_outside_can_be_signalled_and_a_job_cannot_kill_itself_by_force(run: Run) -> None:
    told = answer(run("signals", pids=[os.getpid(), os.getppid()]))
    assert all(word.startswith(("ProcessLookupError", "PermissionError")) for word in told["others"])
    assert told["guard"] == REFUSED
    assert told["parent"] == 0  # it cannot even name it
    assert told["itself"] == REFUSED


def test_calls_that_reach_into_others_are_refused(run: Run) -> None:
    told = answer(run("system_calls", pid=os.getpid()))
    assert set(told.values()) == {errno.EPERM}, told


def test_daemons_do_not_outlive_their_job(run: Run, tmp_path: Path) -> None:
    answer(run("leave_daemons"))
    assert _processes_in(tmp_path / "job") == []


@pytest.mark.parametrize("job", ["bomb", "many_threads"])
def test_a_bomb_is_ended_soon_and_the_next_job_is_right(run: Run, tmp_path: Path, job: str) -> None:
    started = time.monotonic()
    end = run(job, Limits(wall_seconds=60))
    finding = finding_of(end, limit=60)
    assert finding is not None and finding.kind == "too_many_processes", end
    assert time.monotonic() - started < 10
    assert _processes_in(tmp_path / "job") == []
    assert answer(run("answer", value=3)) == {"value": 3}


@pytest.mark.parametrize("how", ["named", "deleted", "nameless"])
def test_a_job_that_fills_the_disk_is_ended(run: Run, how: str) -> None:
    end = run("fill_disk", Limits(wall_seconds=20, disk_bytes=64 << 20), how=how)
    finding = finding_of(end, limit=20)
    assert finding is not None and finding.kind == "memory_exceeded" and "disk" in finding.message, end


def test_a_job_that_eats_memory_is_ended(run: Run) -> None:
    end = run("eat_memory", Limits(wall_seconds=20, memory_bytes=None, resident_bytes=256 << 20))
    finding = finding_of(end, limit=20)
    assert finding is not None and finding.kind == "memory_exceeded", end


@pytest.mark.parametrize(
    ("how", "kind", "word"),
    [("abort", "crashed", "SIGABRT"), ("segfault", "crashed", "SIGSEGV"), ("exit", "exited", "status 3"),
     ("processor time", "timeout", "processor time")],
)  # fmt: skip
def test_how_a_job_dies_is_told_truly(run: Run, how: str, kind: str, word: str) -> None:
    finding = finding_of(run("die", how=how), limit=20)
    assert finding is not None and finding.kind == kind and word in finding.message


def test_a_job_killed_from_outside_is_nobodys_fault(fork_server: ForkServer, tmp_path: Path) -> None:
    def kill() -> None:
        _wait_until(lambda: _processes_in(tmp_path / "job") != [])
        for pid in _processes_in(tmp_path / "job"):
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    finding = finding_of(runner(fork_server, tmp_path)("die", how="wait"), limit=20)
    killer.join()
    assert finding is not None and finding.kind == "infrastructure", finding


def test_a_job_dies_with_its_fork_server_and_so_do_its_daemons(tmp_path: Path) -> None:
    (tmp_path / "fork-server").mkdir()
    fork_server = make(tmp_path / "fork-server")
    with (tmp_path / "channel").open("wb") as channel:
        fate = fork_server.launch("hostile_jobs:die", {"how": "wait"}, tmp_path / "job", Limits(), channel.fileno())
        _wait_until(lambda: len(_processes_in(tmp_path / "job")) == 1)
        fork_server.stop()
        _wait_until(lambda: _processes_in(tmp_path / "job") == [])
        fate.close()


def test_what_is_missing_is_said_and_the_rest_still_holds(tmp_path: Path) -> None:
    """Each mechanism switched off alone, then all: what it held is open, what the others hold is not."""
    (tmp_path / "secret.txt").write_text("secret")
    payload = {"paths": [str(tmp_path / "secret.txt")]}
    for number, without in enumerate([("files",), ("processes", "calls"), ALL]):
        (tmp_path / f"fork-server{number}").mkdir()
        fork_server = make(tmp_path / f"fork-server{number}", *without)
        try:
            run = runner(fork_server, tmp_path)
            opened = answer(run("read", **payload))[payload["paths"][0]] == "done"
            assert opened == ("files" in without)
            answer(run("leave_daemons"))
            _wait_until(lambda: _processes_in(tmp_path / "job") == [])
            finding = finding_of(run("bomb", Limits(wall_seconds=30)), limit=30)
            assert finding is not None and finding.kind == "too_many_processes"
            _wait_until(lambda: _processes_in(tmp_path / "job") == [])
        finally:
            fork_server.stop()
        assert len(isolation(without)[1]) >= len([name for name in without if name != "network"])


ALL = ("files", "processes", "network", "calls")


def test_isolation_is_told_in_plain_sentences() -> None:
    assert any("Landlock" in sentence for sentence in HOLDS)
    holds, lacks = isolation(ALL)
    assert len(holds) == 1
    assert all("switched off" in sentence or "signal" in sentence for sentence in lacks)


def _processes_in(folder: Path) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
        except OSError:
            continue
    return found


def _wait_until(true: object, seconds: float = 5.0) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
