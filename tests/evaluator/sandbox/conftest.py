"""Fixtures: one nursery of hostile jobs for the session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from egg_graph.evaluator.sandbox.nursery import Nursery
from tests.evaluator.sandbox.hostile_nursery import Run, make, runner


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = make(tmp_path_factory.mktemp("nursery"))
    yield made
    made.stop()


@pytest.fixture
def run(nursery: Nursery, tmp_path: Path) -> Run:
    """`run("read", paths=[...])`: how the job ended."""
    return runner(nursery, tmp_path)
