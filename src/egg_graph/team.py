"""The Team as the graph knows it: three roles, whoever plays them."""

from typing import Protocol, runtime_checkable

from egg_graph.schema import Analysis, Brief, Diagnosis, Draft


@runtime_checkable
class Team(Protocol):
    """Analyst, coder and debugger. Each answers from its brief alone; none keeps state between calls."""

    name: str

    def analyze(self, brief: Brief) -> Analysis:
        """Find the bottleneck of `brief.kernel` and plan one optimization, or say that none is worth it."""
        ...

    def write(self, brief: Brief) -> Draft:
        """Write a module in `brief.mode`: seed, optimize (follow `brief.analysis`), or repair (follow `brief.diagnosis`)."""
        ...

    def debug(self, brief: Brief) -> Diagnosis:
        """Name the root cause of the failure in `brief.evaluation`."""
        ...
