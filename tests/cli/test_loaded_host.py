"""What the load of a host changes, as the laboratory tells it."""

from egg_graph.bench.provenance import current_provenance
from tests.lab.loaded_host import Kernel, LoadedHostResults, Verdict, busy_host, loaded_host_page


def verdict(status: str, *, loaded: bool, ratio: float | None = 1.2) -> Verdict:
    return Verdict(
        loaded=loaded, status=status, reason="why", ratio=ratio, candidate_host_ms=0.1, clock="events", seconds=1.0
    )


def results(*kernels: Kernel) -> LoadedHostResults:
    return LoadedHostResults(terms=current_provenance(), repeats=2, busy_processes=8, asked=3, kernels=kernels)


def test_a_verdict_that_the_idle_host_never_gives_is_a_change() -> None:
    near_one = Kernel(
        file="right/softmax.py",
        verdicts=(
            verdict("faster", loaded=False),
            verdict("inconclusive", loaded=False),
            verdict("inconclusive", loaded=True, ratio=1.1),
            verdict("invalid", loaded=True, ratio=None),
        ),
    )
    steady = Kernel(
        file="right/gelu.py", verdicts=(verdict("faster", loaded=False), verdict("faster", loaded=True, ratio=1.3))
    )
    found = results(near_one, steady)
    assert found.evaluations == 6
    assert found.complaints == ("right/softmax.py: invalid where the idle host says faster or inconclusive: why",)
    page = loaded_host_page(found)
    assert "6 evaluations of 2 of 3 right kernels" in page and "**1 verdicts changed.**" in page
    assert "| right/gelu.py | faster | faster | 1.200 | 1.300 | 0 of 1 |" in page
    assert results(steady).complaints == ()


def test_the_load_ends_with_its_block() -> None:
    with busy_host(1) as busy:
        assert [process.poll() for process in busy] == [None]
    assert all(process.poll() is not None for process in busy)
