"""What a kernel that was launched, or warmed up, answers with."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Warmed:
    """What `kernel.warmup(...)` and `kernel[grid](...)` return: figures to choose a grid by, and a launcher. Nothing is
    compiled here, so the figures are those of a kernel that leaves room for several programs on a multiprocessor."""

    kernel: Any
    options: dict[str, Any]
    n_regs: int = 64
    n_spills: int = 0

    def _init_handles(self) -> None:
        """Nothing to load."""

    @property
    def metadata(self) -> SimpleNamespace:
        """As far as kernels ask it."""
        defaults = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
        return SimpleNamespace(**{**defaults, **self.options}, shared=0, name=self.kernel.__name__)

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args: self.kernel[grid](*args, **self.options)
