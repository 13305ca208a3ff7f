"""The commands of a host that judges with the judges that they start: no GPU, one right kernel and one wrong one."""

import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from egg_graph.evaluator import RemoteEvaluator, SpoolEvaluator
from egg_graph.schema import AnswerPending
from tests.evaluator.remote.commands import TOKEN, ended, free_port, listens, start, until
from tests.evaluator.slow_candidate import RIGHT, candidate, task
from tests.lab.processes import judges
from tests.sample import thorough

pytestmark = pytest.mark.slow

WRONG = RIGHT.replace("2.0 *", "2.1 *")
SECONDS = 200
"""Longest time for one start or answer, on a machine where much else runs."""


@contextmanager
def served(folder, *words, **variables):
    """`egg-graph serve` without a GPU, as long as the block lasts: its process, and who asks it."""
    port = free_port()
    command = ("egg_graph", "serve", "--device", "none", "--port", port, "--folder", folder, *words)
    with ended(start(*command, **variables)) as server:
        until(lambda: listens(port), server, SECONDS)
        yield server, RemoteEvaluator(f"http://127.0.0.1:{port}", token=TOKEN)


def gone(processes):
    return lambda: not any(process.alive for process in processes)


def test_a_host_judges_over_http_and_ends_in_order_with_its_judge(tmp_path, h200):
    with served(tmp_path / "judged") as (server, remote):
        assert remote.environment().gpu is None
        assert "aten.relu.default" in remote.baseline(task(h200)).operators
        right, wrong = (remote.evaluate(task(h200), candidate(source)) for source in (RIGHT, WRONG))
        started = judges(server.pid)
    said, complaint = server.said
    assert right.status == "correct" and right.checks and all(check.passed for check in right.checks)
    assert wrong.status == "incorrect" and {finding.kind for finding in wrong.findings} == {"wrong_values"}
    assert (server.returncode, complaint) == (0, "")
    first, *answers, last = said.splitlines()
    assert first.startswith(f"{remote.url} judges on this machine, without a GPU")
    assert [line.split(" (")[0].split("  ")[1] for line in answers] == [
        "environment: answered",
        "baseline twice_relu: answered",
        f"evaluate twice_relu {right.candidate}: correct",
        f"evaluate twice_relu {wrong.candidate}: incorrect",
    ]
    assert last.startswith("stopped;") and not list(tmp_path.glob("judged/questions/*"))
    assert len(started) == 1
    until(gone(started), seconds=10)


@thorough
def test_a_host_that_nobody_reaches_judges_what_lies_in_its_folder_as_one_batch_and_ends(tmp_path, h200):
    evaluator = SpoolEvaluator(tmp_path, wait=0)

    def ask():
        yield lambda: evaluator.baseline(task(h200))
        yield lambda: evaluator.evaluate(task(h200), candidate(RIGHT))
        yield lambda: evaluator.evaluate(task(h200), candidate(WRONG))

    for question in ask():
        with pytest.raises(AnswerPending):
            question()
    with ended(start("egg_graph", "spool", tmp_path, "--device", "none")) as host:
        until(lambda: judges(host.pid), host, SECONDS)
        started = judges(host.pid)
        host.wait(SECONDS)
    said, complaint = host.said
    assert (host.returncode, complaint) == (0, ""), said
    assert len(said.splitlines()) == 4 and "judges on this machine, without a GPU what lies in" in said
    baseline, right, wrong = (question() for question in ask())
    assert "aten.relu.default" in baseline.operators and baseline.eager_ms is None
    assert (right.status, wrong.status) == ("correct", "incorrect")
    until(gone(started), seconds=10)


@contextmanager
def ray_cluster():
    """A Ray cluster of this machine alone, with a token of its own: its process, its address, and its variables."""
    port, variables = free_port(), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    words = ("--head", "--block", "--port", port, "--num-cpus", 1, "--num-gpus", 0, "--include-dashboard", "false")
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:  # a socket's path is short
        command = ("ray.scripts.scripts", "start", *words, "--disable-usage-stats", "--temp-dir", folder)
        log = Path(folder) / "log"
        with log.open("w") as said, ended(start(*command, stdout=said, PYTHONUNBUFFERED="1", **variables)) as cluster:
            until(lambda: "Ray runtime started" in log.read_text(), cluster, SECONDS)
            yield cluster, f"127.0.0.1:{port}", variables


@thorough
def test_a_host_judges_on_a_ray_cluster_and_leaves_it_as_it_was(tmp_path, h200):
    pytest.importorskip("ray", reason="Ray is not installed")
    with ray_cluster() as (cluster, address, variables):
        with served(tmp_path / "judged", "--ray", address, **variables) as (server, remote):
            assert remote.evaluate(task(h200), candidate(RIGHT)).status == "correct"
            assert not judges(server.pid), "it judges by itself"
            started = judges(cluster.pid)
        said, complaint = server.said
        assert server.returncode == 0 and "Traceback" not in complaint
        assert f"judges on a Ray cluster ({address})" in said and said.splitlines()[-1].startswith("stopped;")
        assert len(started) == 1
        until(gone(started), cluster, 30)
