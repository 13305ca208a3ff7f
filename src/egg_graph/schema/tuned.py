"""Tuned PyTorch: the reference with PyTorch's own switches turned, a baseline beside eager and torch.compile."""

import math
from collections.abc import Iterator
from typing import Literal

from egg_graph.schema.base import Value

SWITCH_GAIN = 1.05
"""Gain of a switch from which a run advises to set it."""
Forward = Literal["eager", "compile", "max-autotune"]
_FORWARD_WORDS: dict[Forward, str] = {
    "eager": "eager",
    "compile": "torch.compile",
    "max-autotune": "torch.compile (max-autotune)",
}


class TunedTrial(Value):
    """The reference with some switches turned, before or after it was measured."""

    switches: tuple[str, ...] = ()
    """`cudnn.benchmark`, `channels_last` or `channels_last_3d`; empty where none is turned."""
    forward: Forward
    outcome: Literal["waiting", "timed", "wrong", "failed", "limit", "machine"] = "waiting"
    """Only a `timed` one counts. `wrong`: its answer is outside the policy's error budget. `failed`: PyTorch refuses
    it. `limit`: its time was up. `machine`: memory was short or its process was lost, which may not come again."""
    milliseconds: float | None = None
    """Median time, by the protocol of eager and torch.compile [ms]; None where it does not count."""
    error: float | None = None
    """Relative L2 error against fp64 (no unit); None where no answer was compared."""
    budget: float | None = None
    """Largest error allowed, as for a kernel at this policy (no unit)."""
    reason: str = ""
    """Why it does not count."""
    seconds: float = 0.0
    """What measuring it took, compilation included [s]."""

    @property
    def name(self) -> str:
        """In words: `torch.compile with cudnn.benchmark and channels_last`."""
        turned = f" with {' and '.join(self.switches)}" if self.switches else ""
        return _FORWARD_WORDS[self.forward] + turned


class TunedBaseline(Value):
    """The best that PyTorch's own switches make of a reference at the task's precision policy."""

    trials: tuple[TunedTrial, ...] = ()
    """What was tried, in order."""
    untried: tuple[str, ...] = ()
    """What was not tried, and why."""
    reason: str = ""
    """Why nothing was measured; empty where something was."""
    eager_ms: float | None = None
    """Time of eager PyTorch as it comes, measured beside the trials [ms]."""
    compile_ms: float | None = None
    """Time of `torch.compile` in its default mode as it comes, measured beside the trials [ms]."""
    measured: str = ""
    """When it was measured, UTC, ISO 8601."""
    kept: bool = False
    """Whether an earlier judge measured it on this GPU with these versions."""

    @property
    def best(self) -> TunedTrial | None:
        """The fastest trial that counts, if it is faster than PyTorch as it comes."""
        fastest = min(self._timed(), key=lambda trial: trial.milliseconds or math.inf, default=None)
        if fastest is None or (self._untuned or math.inf) <= (fastest.milliseconds or math.inf):
            return None
        return fastest

    @property
    def milliseconds(self) -> float | None:
        """Time of tuned PyTorch [ms]: without switches where none makes it faster; None where no trial counts."""
        if self.best is not None:
            return self.best.milliseconds
        return self._untuned if any(self._timed()) else None

    @property
    def gain(self) -> float | None:
        """Time of the better of eager and torch.compile as they come over that of tuned PyTorch; at least 1."""
        if self.milliseconds is None or self._untuned is None:
            return None
        return self._untuned / self.milliseconds

    @property
    def name(self) -> str:
        """The forward and the switches of the fastest, in words."""
        return "no switch makes it faster" if self.best is None else self.best.name

    def advice(self, ratio: float | None = None) -> str:
        """What to set, and what it gains: `set cudnn.benchmark: 2.10x without a kernel`.

        Empty where no switch gains `SWITCH_GAIN`, or less than half, on a logarithmic scale, of what a kernel gains.

        Args:
            ratio: the kernel's ratio over the better of eager and torch.compile; None where there is no kernel.
        """
        best, gain = self.best, self.gain
        if best is None or gain is None or gain < SWITCH_GAIN:
            return ""
        if ratio is not None and 2 * math.log(gain) < math.log(ratio):
            return ""
        compiled = {
            "eager": "" if self.eager_ms == self._untuned else "eager with ",
            "compile": "" if self.compile_ms == self._untuned else "torch.compile with ",
            "max-autotune": "torch.compile(mode='max-autotune-no-cudagraphs')" + (" with " if best.switches else ""),
        }[best.forward]
        return f"set {compiled}{' and '.join(best.switches)}: {gain:.2f}x without a kernel"

    def tell(self, candidate_ms: float | None = None) -> str:
        """One line: its time, with which switches, and a kernel's ratio to it.

        Args:
            candidate_ms: the kernel's time [ms]; None where there is none.
        """
        if self.milliseconds is None:
            return f"tuned PyTorch: not measured ({self.reason or '; '.join(self.failures)})"
        ratio = "" if candidate_ms is None else f": {self.milliseconds / candidate_ms:.2f}x against it"
        when = f", measured {self.measured}" if self.kept else ""
        return f"tuned PyTorch {self.milliseconds:.4g} ms ({self.name}{when}){ratio}"

    @property
    def failures(self) -> tuple[str, ...]:
        """Trials that do not count, and why."""
        return tuple(
            f"{trial.name}: {_OUTCOME_WORDS[trial.outcome]} ({trial.reason})"
            for trial in self.trials
            if trial.outcome != "timed"
        )

    @property
    def _untuned(self) -> float | None:
        """Time of the better of eager and torch.compile as they come [ms]."""
        return min(filter(None, (self.eager_ms, self.compile_ms)), default=None)

    def _timed(self) -> Iterator[TunedTrial]:
        return (trial for trial in self.trials if trial.outcome == "timed" and trial.milliseconds)


_OUTCOME_WORDS = {
    "waiting": "not measured",
    "wrong": "wrong",
    "failed": "failed",
    "limit": "not measured",
    "machine": "not measured",
}
