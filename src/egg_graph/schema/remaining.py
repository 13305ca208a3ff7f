"""What is left of a run's limits, and the words in which prompts tell it."""

import re
from collections.abc import Iterator

from egg_graph.schema.base import Value

_KERNELS = "{} more kernels may be evaluated in this run"
_TOKENS = ", with {} tokens"
_TIME = " (time left: {} s)"
_CALLS = " At most {} further requests to models."
_DOLLARS = " At most $ {} more."
_GPU = " At most {} s more of the GPU."


class Remaining(Value):
    """What is left of the run's limits before the answer."""

    attempts: int
    """Kernels that the run may still evaluate."""
    seconds: float
    """Work after which no new attempt starts [s]."""
    optimizations: int
    """Plans that this stage may still try, the one at hand included."""
    repairs: int
    """Repairs in a row that the kernel at hand may still have, the one at hand included."""
    tokens: int | None = None
    """Tokens after which no new attempt starts; None where there is no limit, here and below."""
    calls: int | None = None
    """Requests to models."""
    dollars: float | None = None
    """Money for models [$]."""
    gpu_seconds: float | None = None
    """Work of the GPU [s]."""

    @property
    def told(self) -> str:
        """All of it in words, as prompts tell it."""
        of_stage = (
            f"; this stage may try {self.optimizations} more plans, and a broken kernel {self.repairs} more repairs."
        )
        return "".join([*self._of_run(), of_stage, *self._further()])

    def _of_run(self) -> Iterator[str]:
        yield _KERNELS.format(self.attempts)
        if self.tokens is not None:
            yield _TOKENS.format(self.tokens)
        yield _TIME.format(f"{self.seconds:.0f}")

    def _further(self) -> Iterator[str]:
        if self.calls is not None:
            yield _CALLS.format(self.calls)
        if self.dollars is not None:
            yield _DOLLARS.format(f"{self.dollars:.2f}")
        if self.gpu_seconds is not None:
            yield _GPU.format(f"{self.gpu_seconds:.0f}")


def without_remaining(prompt: str) -> str:
    """A prompt without what it tells of the budgets that a resume may raise: of all but the stage's."""
    return _BUDGETS.sub("", prompt)


def _pattern(words: str) -> str:
    return r"\d+(?:\.\d+)?".join(map(re.escape, words.split("{}")))


_OF_RUN = f"{_pattern(_KERNELS)}(?:{_pattern(_TOKENS)})?{_pattern(_TIME)}"
_BUDGETS = re.compile("|".join([_OF_RUN, *map(_pattern, (_CALLS, _DOLLARS, _GPU))]))
