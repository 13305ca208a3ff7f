import pytest

from egg_graph.schema import Candidate, KernelTask
from tests.graph.scripted import REFERENCE, kernel


@pytest.fixture(scope="session")
def task(h200):
    return KernelTask(name="relu", reference=REFERENCE, target=h200)


@pytest.fixture(scope="session")
def candidate():
    """A function: a candidate by its word and number."""

    def make(word, number=1.0, **fields):
        given = {"author": "me", "stage": "algorithmic_structure", "mode": "seed", **fields}
        return Candidate(source=kernel(word, number), **given)

    return make
