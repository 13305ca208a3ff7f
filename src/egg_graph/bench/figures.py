"""All figures of a bench, computed once for everything that shows them."""

from typing import Any, NamedTuple

from egg_graph.bench.ablation import Ablation, ablations
from egg_graph.bench.statistics import KernelBenchNumbers, Statistics, by_group, kernelbench_numbers
from egg_graph.bench.values import Results


class Figures(NamedTuple):
    """What the rows of a bench come to."""

    groups: tuple[Statistics, ...]
    """The statistics of all rows, then those of each group."""
    kernelbench: KernelBenchNumbers | None
    ablations: tuple[Ablation, ...]

    @classmethod
    def of(cls, results: Results) -> "Figures":
        """The figures of some results."""
        whole = results.whole
        return cls(by_group(whole), kernelbench_numbers(whole), ablations(results.rows, results.without))

    def summary(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return {
            "groups": [group.model_dump(mode="json") for group in self.groups],
            "kernelbench": self.kernelbench and self.kernelbench.model_dump(mode="json"),
            "ablations": [one.model_dump(mode="json") for one in self.ablations],
        }
