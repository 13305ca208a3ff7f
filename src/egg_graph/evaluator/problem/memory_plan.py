"""Plan, from sizes alone, how much GPU memory judging a task at full shape takes.

| who | holds at once, in sizes of inputs and answer together |
| --- | --- |
| judge, while a case is made | inputs and answer, both once more in fp64: 3 |
| judge, while PyTorch is timed | inputs as drawn and as packed, the answer, what fp32 takes for 16 bits: 3 to 4 |
| judge and candidate, while one is compared | those, the shared inputs and the candidate's answer: 4 to 5 |
| judge and candidate, while both sides are timed | encrypted, decrypted and plain inputs, both answers twice: 5 to 6 |

What the reference's own operators allocate on their way comes on top; it is not known before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST, USUAL = 3.0, 6.0
"""Memory for judging at full shape, in sizes of inputs, weights and answer together: what the judge's own part needs at
the least, and what it usually takes with both sides' forwards."""
BASELINE = 4.0
"""Memory for the reference alone, surveyed and timed, in the same sizes."""
GIB = float(1 << 30)
RESERVED = 8.0
"""Memory to reserve, in the same sizes: with what usual references allocate on their way."""
DRIVER_BYTES = 2 * GIB
"""What the driver and the compiled kernels of judge and candidate take [bytes]."""


@dataclass(frozen=True)
class MemoryPlan:
    """GPU memory that judging at full shape takes.

    Args:
        compulsory_bytes: inputs, weights and answer of one forward [bytes].
        capacity: of the GPU [bytes].
    """

    compulsory_bytes: float
    capacity: float

    @property
    def fits(self) -> bool:
        """Whether it may fit; if not, it is not tried."""
        return LEAST * self.compulsory_bytes <= self.capacity

    @property
    def usual_bytes(self) -> float:
        """What to reserve for judge and candidate, the driver's own part for both processes included [bytes].

        A task that would take most of the GPU keeps others from it: it gets what it usually takes, and more if that was
        too little (`judge.room`).
        """
        ample, usual = RESERVED * self.compulsory_bytes, USUAL * self.compulsory_bytes
        return DRIVER_BYTES + (ample if ample <= self.capacity / 2 else max(usual, self.capacity / 2))

    @property
    def baseline_bytes(self) -> float:
        """What to reserve for the reference alone, the driver's part included [bytes]."""
        return min(self.usual_bytes, BASELINE * self.compulsory_bytes + DRIVER_BYTES)

    @property
    def least_bytes(self) -> float:
        """What the judge's own part takes at the least, the driver's included [bytes]."""
        return LEAST * self.compulsory_bytes + DRIVER_BYTES

    def __str__(self) -> str:
        return (
            f"judging at full shape takes about {USUAL * self.compulsory_bytes / GIB:.0f} GiB, at the very least "
            f"{LEAST * self.compulsory_bytes / GIB:.0f}; the GPU has {self.capacity / GIB:.0f}"
        )
