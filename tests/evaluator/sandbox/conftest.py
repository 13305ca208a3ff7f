"""Fixtures: one fork server of hostile jobs for the session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from egg_graph.evaluator.host.fork_server import ForkServer
from tests.evaluator.sandbox.hostile_server import Run, make, runner


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    made = make(tmp_path_factory.mktemp("nursery"))
    yield made
    made.stop()


@pytest.fixture
def run(fork_server: ForkServer, tmp_path: Path) -> Run:
    """`run("read", paths=[...])`: how the job ended."""
    return runner(fork_server, tmp_path)
