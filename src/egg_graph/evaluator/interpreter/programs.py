"""What each interpreted program of a launch did, and the least that all programs together must do."""

from dataclasses import dataclass, field

Counts = dict[tuple[str, str | int], float]
"""("dot", operand type) -> flops; ("load" or "store", number of a region) -> bytes."""


@dataclass
class Work:
    """Counts of a launch, program by program."""

    total: int
    """Programs of the launch."""
    programs: dict[int, Counts] = field(default_factory=dict)
    """By linear index; of those that were interpreted."""
    sums: Counts = field(default_factory=dict)

    def add(self, linear: int, sums: Counts) -> None:
        """Note what one program did: what the counters of the launch (`sums`) have grown by."""
        self.programs[linear] = {key: value - self.sums.get(key, 0) for key, value in sums.items()}
        self.sums = sums

    def most(self, kind: str, name: str | int) -> float:
        """What was counted, and for each program not interpreted the most of those that were."""
        key = (kind, name)
        counts = [program.get(key, 0.0) for program in self.programs.values()]
        return self.sums.get(key, 0.0) + (self.total - len(counts)) * max(counts, default=0.0)

    def alike(self, kind: str, name: str | int) -> bool:
        """Whether programs that were not interpreted may be judged by those that were: most of them count."""
        counts = [program.get((kind, name), 0.0) for program in self.programs.values()]
        return len(counts) == self.total or 2 * sum(count > 0 for count in counts) > len(counts)

    def least(self, kind: str, name: str | int) -> float:
        """What was counted, and for each program not interpreted the least of those that were.

        Programs need not be alike (a persistent kernel's first ones take a tile more), so a mean may exceed the truth.
        The last program alone may be a ragged end: it is left out of the least where the one before it was run too.
        """
        key = (kind, name)
        ragged = self.total - 1 if self.total - 2 in self.programs else -1
        inner = [counts.get(key, 0.0) for linear, counts in self.programs.items() if linear != ragged]
        missing = self.total - len(self.programs)
        return self.sums.get(key, 0.0) + (missing * min(inner) if inner else 0.0)
