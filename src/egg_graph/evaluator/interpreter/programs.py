"""Which programs of a launch are interpreted, what each of them did, and bounds of what all of them do."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from triton.runtime import interpreter

from egg_graph.evaluator.interpreter.cooperative import CooperativeLaunch, CooperativeProgram
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState
from egg_graph.evaluator.interpreter.while_loops import Waiting

REMAINDER_SAMPLE = 16
"""Programs that are interpreted of those that remain when a real run's step budget is spent."""
LAUNCH_BUDGETS = 3
"""A fake run that took this many times the seconds of a launch samples no more than `LEAST_SAMPLE` of further ones: a
forward may launch a thousand kernels."""
LEAST_SAMPLE = 2
Counts = dict[tuple[str, str | int], float]
"""("dot", operand type) -> floating-point operations; ("load" or "store", number of a region) -> bytes."""


@dataclass
class ProgramCounts:
    """Counts of one launch, program by program."""

    total: int
    """Number of programs of the launch."""
    programs: dict[int, Counts] = field(default_factory=dict)
    """Linear index of each interpreted program -> its counts."""
    sums: Counts = field(default_factory=dict)
    """Sums over the interpreted programs."""
    viewed: dict[int, int] = field(default_factory=dict)
    """Number of a region -> distinct bytes of it that the launch's tensor arguments cover."""

    def add(self, linear: int, sums: Counts) -> None:
        """Record one program: its counts are what the launch's counters (`sums`) have grown by."""
        self.programs[linear] = {key: value - self.sums.get(key, 0) for key, value in sums.items()}
        self.sums = sums

    def upper_bound(self, kind: str, name: str | int) -> float:
        """Bound a count of all programs from above: a program not interpreted counts as the largest interpreted one."""
        key = (kind, name)
        counts = [program.get(key, 0.0) for program in self.programs.values()]
        return self.sums.get(key, 0.0) + (self.total - len(counts)) * max(counts, default=0.0)

    def is_representative(self, kind: str, name: str | int) -> bool:
        """Whether the interpreted programs stand for the others: more than half of them have a count here."""
        counts = [program.get((kind, name), 0.0) for program in self.programs.values()]
        return len(counts) == self.total or 2 * sum(count > 0 for count in counts) > len(counts)

    def lower_bound(self, kind: str, name: str | int, written: Mapping[int, float] | None = None) -> float:
        """Bound a count of all programs from below, in two ways, of which the larger holds.

        A program that was not interpreted counts as the smallest interpreted one; a mean could exceed the truth,
        because programs may differ. And what the launch is known to write, but the interpreted programs did not, costs
        at least as much for each byte as with the interpreted program that got by with the least. The second way
        counts persistent kernels fairly: the first programs may take a tile more than the last, but all tiles cost the
        same.

        Args:
            kind, name: the count.
            written: number of a region -> bytes of it that this launch is known to write.
        """
        bounds = [self._least_by_program((kind, name))]
        bounds += [self._least_by_bytes((kind, name), region, nbytes) for region, nbytes in (written or {}).items()]
        return max(bounds)

    def _least_by_program(self, key: tuple[str, str | int]) -> float:
        """Bound a count by the smallest program.

        The last program may have a ragged tile, so it is left out of the minimum if the program before it was
        interpreted, too.
        """
        ragged = self.total - 1 if self.total - 2 in self.programs else -1
        inner = [counts.get(key, 0.0) for linear, counts in self.programs.items() if linear != ragged]
        missing = self.total - len(self.programs)
        return self.sums.get(key, 0.0) + (missing * min(inner) if inner else 0.0)

    def _least_by_bytes(self, key: tuple[str, str | int], region: int, nbytes: float) -> float:
        """Bound a count by the least that one byte written to a region costs."""
        stored = ("store", region)
        rates = [counts.get(key, 0.0) / counts[stored] for counts in self.programs.values() if counts.get(stored)]
        rest = max(0.0, nbytes - self.sums.get(stored, 0.0))
        return self.sums.get(key, 0.0) + rest * min(rates, default=0.0)


def run_programs(
    run: RunState, launch: LaunchState, body: Callable[[], Any], grid: tuple[int, int, int]
) -> ProgramCounts:
    """Interpret all programs of a launch (real run) or a sample of them (fake run).

    Args:
        run: the current run.
        launch: the current launch.
        body: executes the kernel for the program id that the builder holds.
        grid: number of programs along x, y and z.
    """
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*grid)
    total = grid[0] * grid[1] * grid[2]
    of_run = run.started + LAUNCH_BUDGETS * run.budget_seconds
    deadline = min(of_run, time.perf_counter() + run.budget_seconds)
    counts = ProgramCounts(total)
    if launch.cooperative and not run.fake:
        together = CooperativeLaunch(launch, body, lambda program: builder.set_grid_idx(*program))
        for linear in together.run([CooperativeProgram(linear, _place(linear, grid)) for linear in range(total)]):
            counts.add(linear, _launch_counts(run, launch))
        return counts
    for linear in _chosen(run, total):
        if run.fake and len(counts.programs) >= LEAST_SAMPLE and time.perf_counter() > deadline:
            break
        program = _place(linear, grid)
        launch.program, launch.linear, launch.acquired = program, linear, False
        launch.loaded_values = []
        launch.barrier()
        builder.set_grid_idx(*program)
        try:
            body()
        except Waiting:
            continue  # for a program that is left out
        counts.add(linear, _launch_counts(run, launch))
        if run.on_program is not None:
            run.on_program(len(counts.programs))
    return counts


def _place(linear: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the program id of a linear index; x varies fastest."""
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def _chosen(run: RunState, total: int) -> Iterable[int]:
    """Choose the programs to interpret: all (real run); or the first, the last two and random ones between (fake run).

    The range between is cut into equal shares and one program is drawn from each. So work that grows along the grid
    (causal attention) is averaged well.
    """
    if not run.fake:
        return _within_step_budget(run, total)
    if not run.sample:
        return ()
    if total <= run.sample:
        return range(total)
    return [0, total - 1, total - 2, *_draw_from_shares(1, total - 2, run.sample - 3)]


def _within_step_budget(run: RunState, total: int) -> Iterator[int]:
    """Yield all programs in order; once the step budget is spent, only a sample of those that remain, and the last."""
    for linear in range(total):
        spent = run.step_budget is not None and run.steps > run.step_budget
        if spent and total - linear > REMAINDER_SAMPLE:
            assert run.launch is not None
            run.launch.incomplete = True
            yield from _draw_from_shares(linear, total - 1, REMAINDER_SAMPLE - 1)
            yield total - 1
            return
        yield linear


def _draw_from_shares(first: int, last: int, number: int) -> list[int]:
    """Cut `range(first, last)` into `number` equal shares and draw one program from each."""
    draw = random.Random(0)
    edges = [first + (last - first) * i // number for i in range(number + 1)]
    return [draw.randrange(low, high) for low, high in pairwise(edges)]


def _launch_counts(run: RunState, launch: LaunchState) -> Counts:
    """Read the counters of the launch: operations and bytes of all programs so far."""
    counts: Counts = {("dot", name): flops for name, flops in launch.dot_flops.items()}
    for region in run.memory.regions.values():
        counts["load", region.number] = region.load_bytes
        counts["store", region.number] = region.store_bytes
    return counts
