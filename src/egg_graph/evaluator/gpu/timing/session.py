"""The ground on which candidate and baseline are timed: sealed sets of inputs, buffers for answers, and turns.

One turn: the judge draws as many sets of inputs as there are calls in a block and seals them; then, in either order,
the candidate's block and the baseline's run on these sets; then every answer of the one is compared with the other's.
While a block runs, no other process uses the GPU: a switch between processes costs the next calls dear, which is what
the unrecorded calls at the head of a block are for. They are like the others in everything else.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from egg_graph.evaluator.device.stream_timer import (
    LEAD,
    SHORTEST_SPIN,
    STAMP_BYTES,
    Place,
    Reading,
    flush_bytes,
    spin_for,
)
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.input_sets import Draws
from egg_graph.evaluator.gpu.timing.timed_answers import TimedAnswer
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Finding

BLOCK = 4
"""Recorded calls of one block."""
SETS = 16
"""Sets of inputs held at once, where memory allows."""
LONG_MS = 20.0
"""A forward that takes longer does not notice what comes before it: no unrecorded calls."""
SLOW_MS = 500.0
"""A forward that takes longer is measured in blocks of one call."""
MEMORY_PART = 0.35
"""Of the GPU's free memory that they may take; the candidate needs the rest."""


@dataclass
class Turn:
    """What one turn gave; the lists hold recorded calls alone, `answers` all."""

    answers: list[TimedAnswer] = field(default_factory=list)
    mine: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    lead_ms: list[float] = field(default_factory=list)
    """The candidate's unrecorded calls."""
    stamps: list[tuple[int, int]] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)


class TimingSession:
    """All buffers of one race.

    Args:
        problem: of the task.
        baseline: the baseline.
        shared: memory that the candidate's process can open.
        slow_ms: milliseconds of the slower side's forward.

    Raises:
        torch.OutOfMemoryError: if not even one set fits.
    """

    def __init__(self, problem: Problem, baseline: PyTorchBaseline, shared: Arena, *, slow_ms: float) -> None:
        self.baseline = baseline
        self.random = random.Random(secrets.randbits(64))
        sets = self._sets(baseline, most=1 if slow_ms > SLOW_MS else BLOCK if slow_ms > LONG_MS else SETS)
        self.lead = 0 if slow_ms > LONG_MS else LEAD if sets >= LEAD + BLOCK else 1 if sets > 1 else 0
        self.block = min(BLOCK, sets - self.lead)
        self.draws = Draws(problem, baseline.case, self.lead + self.block, baseline.numbers)
        nbytes = baseline.layout.nbytes
        self.plain = torch.empty(nbytes, dtype=torch.uint8, device=problem.device)
        self.staging, staging_forms = zip(*(_flat(shared, nbytes) for _ in range(sets)), strict=True)
        places = 2 if sets > 2 else 1
        self.places, place_forms = zip(
            *(shared.empty((nbytes,), torch.uint8, name="the inputs") for _ in range(places)), strict=True
        )
        self.flush, flush_form = _flat(shared, flush_bytes())
        self.stamps, stamp_form = shared.empty((sets, STAMP_BYTES // 8), torch.int64, guarded=False)
        self.targets: list[list[torch.Tensor]] = []
        target_forms: list[list[Any]] = []
        for _ in range(sets):
            pairs = [shared.empty(leaf.expected.shape, leaf.dtype, guarded=False) for leaf in baseline.case.leaves]
            self.targets.append([tensor for tensor, _ in pairs])
            target_forms.append([form for _, form in pairs])
        self.expected = [[torch.empty_like(target) for target in targets] for targets in self.targets]
        self.forms = {
            "flush": flush_form,
            "stamps": stamp_form,
            "staging": list(staging_forms),
            "buffers": list(place_forms),
            "layout": baseline.layout.forms,
            "targets": target_forms,
        }
        self.seeds: list[int | None] = [None] * sets
        self.keys = [0] * sets
        self.filling = 0
        self.spin_ns = int(1e6 * SHORTEST_SPIN)
        """Before each of the candidate's calls."""

    @property
    def sets(self) -> int:
        return len(self.staging)

    @property
    def flushed(self) -> bool:
        """Whether the flush of the last call was made as told."""
        words = self.flush.view(torch.int32)
        ends = words[[0, words.numel() // 2, -1]].tolist()
        return all(word & 0xFFFFFFFF == self.filling for word in ends)

    def deal(self, count: int) -> None:
        """Seal new inputs into the first `count` sets and poison their targets."""
        for number in range(count):
            self.seeds[number], inputs = self.draws.next()
            self.keys[number] = secrets.randbits(64)
            self.baseline.layout.pack(inputs, self.plain)
            torch.cuda.synchronize()
            staging = self.staging[number]
            nbytes = self.plain.numel()
            self.baseline.gpu.unseal(self.plain.data_ptr(), staging.data_ptr(), nbytes, self.keys[number])
            for target in self.targets[number]:
                poison_(target)
            self.baseline.gpu.wait()

    def turn(self, session: WorkerSession) -> Turn:
        """One block of each, whichever first."""
        numbers = range(self.lead + self.block)
        self.deal(len(numbers))
        found = Turn()
        if self.random.random() < 0.5:
            told = self._candidate(session, numbers, found)
            self._baseline(numbers, found)
        else:
            self._baseline(numbers, found)
            told = self._candidate(session, numbers, found)
        found.answers = [self.answer(number, *told[number]) for number in numbers]
        return found

    def answer(self, number: int, structure: Any, forms: Any) -> TimedAnswer:
        """One set's answer beside PyTorch's."""
        return TimedAnswer(self.seeds[number], structure, forms, self.targets[number], self.expected[number])

    def call(
        self, session: WorkerSession, number: int, *, first: bool = False, place: int | None = None
    ) -> dict[str, Any]:
        """One call of the candidate on a set, its inputs in one of the places (None: any)."""
        self.filling = secrets.randbits(32)
        return session.ask(
            "time",
            set=number,
            key=f"{self.keys[number]:x}",
            buffer=self.random.randrange(len(self.places)) if place is None else place,
            fresh=self.random.random() < 0.5,
            spin_ns=self.spin_ns,
            filling=self.filling,
            first=first,
        )

    def expect(self, numbers: Sequence[int]) -> list[Reading]:
        """The baseline's answers, and how long they took."""
        if not numbers:
            return []
        self.baseline.gpu.forget_l2()
        readings = []
        spin_ns = self.baseline.paces[self.baseline.best].spin_ns
        for number in numbers:
            mine = self.expected[number]

            def deliver(result: Any, mine: list[torch.Tensor] = mine) -> None:
                for target, leaf in zip(mine, flatten(result)[1], strict=True):
                    target.copy_(leaf)

            readings.append(
                self.baseline.once(
                    _place(self.staging[number]),
                    self.keys[number],
                    spin_ns=spin_ns,
                    filling=0,
                    stamps=self.stamps[number].data_ptr(),
                    deliver=deliver,
                )
            )
        return readings

    def burst(
        self, session: WorkerSession, numbers: Sequence[int], *, spin_ns: int, forward: bool = True
    ) -> tuple[Burst, list[Any]]:
        """Some sets in one burst, by this process's clock, and what the worker says of the answers."""
        self.filling = secrets.randbits(32)
        calls = len(numbers)
        began = time.monotonic()
        told = session.ask(
            "burst",
            sets=list(numbers),
            keys=[f"{self.keys[number]:x}" for number in numbers],
            buffers=[self.random.randrange(len(self.places)) for _ in numbers],
            spin_ns=spin_ns,
            filling=self.filling,
            forward=forward,
        )
        queued = time.monotonic()
        session.ask("finish")
        done = time.monotonic()
        spin = spin_ns / 1e6
        return Burst(calls, 1e3 * (done - began) - spin, 1e3 * (queued - began) - spin), told["answers"]

    def settle_spin(self, queued_ms: Sequence[float]) -> bool:
        """Choose the spin from what queueing took under the present one; whether it is settled.

        A forward that waits for the GPU takes as long as the spin and more, whatever the spin: it gets the shortest.
        """
        longest = sorted(queued_ms)[len(queued_ms) // 2]
        now = self.spin_ns / 1e6
        if longest < now:
            self.spin_ns = spin_for(longest)
            return True
        if now > 3 * SHORTEST_SPIN:
            self.spin_ns = int(1e6 * SHORTEST_SPIN)
            return True
        self.spin_ns = spin_for(longest)
        return False

    def _candidate(self, session: WorkerSession, numbers: Sequence[int], found: Turn) -> dict[int, tuple[Any, Any]]:
        told: dict[int, tuple[Any, Any]] = {}
        for number in numbers:
            answer = self.call(session, number, first=number == numbers[0])
            told[number] = answer.get("structure"), answer.get("leaves")
            milliseconds = _number(answer, "ms")
            if number < self.lead:
                found.lead_ms.append(milliseconds)
                continue
            found.mine.append(milliseconds)
            found.queued.append(_number(answer, "queued_ms"))
        stamps = self.stamps.tolist()
        found.stamps = [(stamps[number][0], stamps[number][1]) for number in numbers if number >= self.lead]
        return told

    def _baseline(self, numbers: Sequence[int], found: Turn) -> None:
        found.theirs = [reading.milliseconds for reading in self.expect(numbers)][self.lead :]

    def _sets(self, baseline: PyTorchBaseline, *, most: int) -> int:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        answers = sum(leaf.expected.numel() * leaf.dtype.itemsize for leaf in baseline.case.leaves)
        fixed = 4 * baseline.layout.nbytes + flush_bytes()
        each = baseline.layout.nbytes + 2 * answers
        sets = min(most, max(0, int(MEMORY_PART * free) - fixed) // each)
        if sets < 1 and free < fixed + each:
            raise torch.OutOfMemoryError(f"one set of inputs and answers takes {(fixed + each) >> 20} MiB")
        return max(1, sets)


def _flat(shared: Arena, nbytes: int) -> tuple[torch.Tensor, dict[str, Any]]:
    return shared.empty((nbytes,), torch.uint8, guarded=False)


def _place(tensor: torch.Tensor) -> Place:
    return Place(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _number(answer: dict[str, Any], key: str) -> float:
    """A positive number that the candidate's process told."""
    value = answer.get(key)
    if not isinstance(value, int | float) or not 0 < value < 1e8:
        raise CandidateFailed(Finding(kind="exited", message=f"the process gave no readable time: {value!r}"), "")
    return float(value)
