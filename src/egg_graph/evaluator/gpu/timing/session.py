"""Buffers and calls by which candidate and baseline are timed: encrypted inputs, targets of answers, paired blocks.

One paired block: the judge draws one set of inputs per call and encrypts it; then, in random order, the candidate's
block and the baseline's block run on these same sets; then every answer of the candidate has the baseline's beside it.
While a block runs, no other process uses the GPU. A switch between processes slows the next calls down, so the first
calls of a block are warm-up calls, whose time is not recorded. In everything else they are like the others.

A set of inputs is packed into one piece of memory and XORed with the keystream of a random key (`device.ptx`). The key
comes with the command to call, and the process that calls decrypts the set on the stream, just before the forward.

    staging, owned by the judge:  | x ^ keystream, padded to 256 bytes | mask ^ keystream | ...
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
    SHORTEST_SPIN_MS,
    TIMESTAMP_BYTES,
    WARMUP_CALLS,
    CallTime,
    DeviceBuffer,
    flush_bytes,
    spin_ns_for,
)
from egg_graph.evaluator.gpu.arena import Arena
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.input_sets import InputSets
from egg_graph.evaluator.gpu.timing.timed_answers import TimedAnswer
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Finding

BLOCK_CALLS = 4
"""Recorded calls of one block."""
MOST_SETS = 16
"""Most sets of inputs that are held at once."""
LONG_MS = 20.0
"""Time of a forward above which blocks have no warm-up calls [ms]: it does not notice what came before it."""
SLOW_MS = 500.0
"""Time of a forward above which a block is a single call [ms]."""
MEMORY_PART = 0.35
"""Part of the GPU's free memory that all buffers together may take; the candidate needs the rest."""


@dataclass
class PairedBlock:
    """What one block of either side gave. The lists hold recorded calls only, but `answers` holds all."""

    answers: list[TimedAnswer] = field(default_factory=list)
    candidate_ms: list[float] = field(default_factory=list)
    """Time of each of the candidate's calls, by CUDA events [ms]."""
    baseline_ms: list[float] = field(default_factory=list)
    """Time of each of the baseline's calls, by CUDA events [ms]."""
    warmup_ms: list[float] = field(default_factory=list)
    """Time of each of the candidate's warm-up calls [ms]."""
    timestamps: list[tuple[int, int]] = field(default_factory=list)
    """The GPU's clock before and after each of the candidate's calls [ns]."""
    baseline_timestamps: list[tuple[int, int]] = field(default_factory=list)
    """The GPU's clock before and after each of the baseline's calls [ns]."""
    queue_ms: list[float] = field(default_factory=list)
    """Time until each of the candidate's forwards returned, by its host's clock [ms]."""
    baseline_queue_ms: list[float] = field(default_factory=list)
    """Time until each of the baseline's forwards returned [ms]."""


class TimingSession:
    """All buffers by which one candidate is timed, and the calls on them.

    Args:
        problem: the task.
        baseline: PyTorch's forwards.
        shared: memory that the candidate's process can open.
        slower_ms: time of the slower side's forward [ms].

    Raises:
        torch.OutOfMemoryError: if not even one set fits.
    """

    def __init__(self, problem: Problem, baseline: PyTorchBaseline, shared: Arena, *, slower_ms: float) -> None:
        self.baseline = baseline
        self.random = random.Random(secrets.randbits(64))
        sets = self._affordable_sets(
            baseline, most=1 if slower_ms > SLOW_MS else BLOCK_CALLS if slower_ms > LONG_MS else MOST_SETS
        )
        self.warmup_calls = _warmup_calls(sets, slower_ms)
        self.block_calls = min(BLOCK_CALLS, sets - self.warmup_calls)
        self.input_sets = InputSets(problem, baseline.case, self.warmup_calls + self.block_calls, baseline.seed_numbers)
        self.forms = self._allocate(shared, sets)
        """Arguments of the worker's `open_timing`."""
        self.seeds: list[int | None] = [None] * sets
        """Seed of each set; None for the case's own inputs."""
        self.keys = [0] * sets
        """64-bit key of each set."""
        self.flush_value = 0
        """What the candidate's process was told to write as a flush, in its latest call."""
        self.spin_ns = int(1e6 * SHORTEST_SPIN_MS)
        """Spin before each of the candidate's calls [ns]."""
        self.baseline_spin_ns = baseline.latencies[baseline.best].spin_ns
        """Spin before each of the baseline's calls [ns]."""

    def _allocate(self, shared: Arena, sets: int) -> dict[str, Any]:
        """Allocate all shared buffers; returns their forms by name."""
        nbytes = self.baseline.layout.nbytes
        self.staging, staging_forms = zip(*(_flat(shared, nbytes) for _ in range(sets)), strict=True)
        self.input_buffers, input_forms = zip(
            *(shared.empty((nbytes,), torch.uint8, name="the inputs") for _ in range(2 if sets > 2 else 1)),
            strict=True,
        )
        self.flush, flush_form = _flat(shared, flush_bytes())
        self.timestamps, timestamp_form = shared.empty((sets, TIMESTAMP_BYTES // 8), torch.int64, guarded=False)
        self.baseline_timestamps = torch.zeros_like(self.timestamps)  # which no candidate can write to
        self.targets: list[list[torch.Tensor]] = []
        target_forms: list[list[Any]] = []
        leaves = self.baseline.case.leaves
        for _ in range(sets):
            pairs = [shared.empty(leaf.expected.shape, leaf.dtype, guarded=False) for leaf in leaves]
            self.targets.append([tensor for tensor, _ in pairs])
            target_forms.append([form for _, form in pairs])
        self.expected = [[torch.empty_like(target) for target in targets] for targets in self.targets]
        return {
            "flush": flush_form,
            "timestamps": timestamp_form,
            "staging": list(staging_forms),
            "input_buffers": list(input_forms),
            "layout": self.baseline.layout.forms,
            "targets": target_forms,
        }

    @property
    def sets(self) -> int:
        """How many sets of inputs are held at once."""
        return len(self.staging)

    @property
    def was_flushed(self) -> bool:
        """Whether the candidate's process made the flush of its latest call as it was told."""
        words = self.flush.view(torch.int32)
        ends = words[[0, words.numel() // 2, -1]].tolist()
        return all(word & 0xFFFFFFFF == self.flush_value for word in ends)

    def prepare_sets(self, count: int) -> None:
        """Encrypt new inputs into the first `count` sets, and poison the targets of their answers."""
        driver, nbytes = self.baseline.driver, self.baseline.layout.nbytes
        for number in range(count):
            plaintext = torch.empty(nbytes, dtype=torch.uint8, device=self.baseline.problem.device)
            self.seeds[number], inputs = self.input_sets.next()
            self.keys[number] = secrets.randbits(64)
            self.baseline.layout.pack(inputs, plaintext)
            torch.cuda.synchronize()
            driver.xor_keystream(plaintext.data_ptr(), self.staging[number].data_ptr(), nbytes, self.keys[number])
            self._poison_targets(number)
            del plaintext, inputs  # gigabytes, of which the baseline's forward may take the place

    def take_the_gpu(self) -> None:
        """Have the GPU work for this process, as it does before every burst of a candidate.

        A process that gets it back is slower at first (0.06 to 0.1 ms a call on an H200): bursts that are compared must
        all begin so.
        """
        self.call_baseline(range(self.warmup_calls))
        if not self.warmup_calls:
            self._poison_targets(0)

    def _poison_targets(self, number: int) -> None:
        """Poison the targets of a set's answers, and wait for it."""
        for target in self.targets[number]:
            poison_(target)
        self.baseline.driver.synchronize()

    def measure_block(self, worker: WorkerSession) -> PairedBlock:
        """Measure one block of the candidate and one of the baseline on the same inputs, in random order."""
        numbers = range(self.warmup_calls + self.block_calls)
        self.prepare_sets(len(numbers))
        block = PairedBlock()
        if self.random.random() < 0.5:
            forms = self._measure_candidate(worker, numbers, block)
            self._measure_baseline(numbers, block)
        else:
            self._measure_baseline(numbers, block)
            forms = self._measure_candidate(worker, numbers, block)
        block.answers = [self.answer(number, *forms[number]) for number in numbers]
        return block

    def answer(self, number: int, structure: Any, forms: Any) -> TimedAnswer:
        """Return the candidate's answer on a set with PyTorch's beside it."""
        return TimedAnswer(self.seeds[number], structure, forms, self.targets[number], self.expected[number])

    def call_candidate(
        self,
        worker: WorkerSession,
        number: int,
        *,
        first: bool = False,
        buffer: int | None = None,
        null_ns: int = 0,
    ) -> dict[str, Any]:
        """Time one call of the candidate.

        Args:
            worker: the candidate's process.
            number: set of inputs.
            first: whether the call is the first of a block.
            buffer: number of the buffer for the decrypted inputs; None takes a random one.
            null_ns: a null kernel is called in place of the forward, which takes this long and does nothing [ns].
        """
        self.flush_value = secrets.randbits(32)
        return worker.ask(
            "time_call",
            set=number,
            key=f"{self.keys[number]:x}",
            buffer=self.random.randrange(len(self.input_buffers)) if buffer is None else buffer,
            fresh=self.random.random() < 0.5,
            spin_ns=self.spin_ns,
            flush_value=self.flush_value,
            first=first,
            null_ns=null_ns,
        )

    def call_baseline(self, numbers: Sequence[int]) -> list[CallTime]:
        """Time one call of the baseline on each set, and keep its answers in `expected`."""
        if not numbers:
            return []
        self.baseline.driver.reset_persisting_l2()
        times = []
        for number in numbers:
            expected = self.expected[number]

            def deliver(result: Any, expected: list[torch.Tensor] = expected) -> None:
                for target, leaf in zip(expected, flatten(result)[1], strict=True):
                    target.copy_(leaf)

            times.append(
                self.baseline.time_call(
                    DeviceBuffer.of(self.staging[number]),
                    self.keys[number],
                    spin_ns=self.baseline_spin_ns,
                    flush_value=0,
                    timestamps=self.baseline_timestamps[number].data_ptr(),
                    deliver=deliver,
                )
            )
        return times

    def run_burst(
        self, worker: WorkerSession, numbers: Sequence[int], *, spin_ns: int, forward: bool = True, null_ns: int = 0
    ) -> tuple[Burst, list[Any]]:
        """Call a worker on several sets in one burst, timed by this process's clock.

        Args:
            worker: a worker that has these buffers open.
            numbers: sets of inputs.
            spin_ns: spin before the burst [ns].
            forward: whether forwards are called; otherwise all but them is done.
            null_ns: without forwards, null kernels that take this long are called in their place [ns]; 0 calls none.

        Returns:
            The burst, and structure and forms of every answer as the worker tells them.
        """
        self.flush_value = secrets.randbits(32)
        calls = len(numbers)
        began = time.monotonic()
        queued = worker.ask(
            "queue_burst",
            sets=list(numbers),
            keys=[f"{self.keys[number]:x}" for number in numbers],
            buffers=[self.random.randrange(len(self.input_buffers)) for _ in numbers],
            spin_ns=spin_ns,
            flush_value=self.flush_value,
            forward=forward,
            null_ns=null_ns,
        )
        queued_at = time.monotonic()
        worker.ask("synchronize")
        return _burst(calls, spin_ns, began, queued_at, time.monotonic()), queued["answers"]

    def run_baseline_burst(self, numbers: Sequence[int], *, spin_ns: int, forward: bool = True) -> Burst:
        """Call the baseline on several sets in one burst; the arguments are those of `run_burst`."""
        baseline, places = self.baseline, iter(numbers)

        def deliver(result: Any) -> None:
            number = next(places)
            leaves = flatten(result)[1] if forward else self.targets[number]
            for target, leaf in zip(self.expected[number], leaves, strict=True):
                target.copy_(leaf)

        sources = [(DeviceBuffer.of(self.staging[number]), self.keys[number]) for number in numbers]
        began = time.monotonic()
        baseline.queue_burst(sources, spin_ns=spin_ns, forward=forward, deliver=deliver)
        queued_at = time.monotonic()
        baseline.driver.synchronize()
        return _burst(len(numbers), spin_ns, began, queued_at, time.monotonic())

    def adjust_spins(self, block: PairedBlock) -> bool:
        """Choose both sides' spins from a block's calls; returns whether the candidate's is settled."""
        self.baseline_spin_ns, _ = _adjusted(self.baseline_spin_ns, block.baseline_queue_ms)
        self.spin_ns, settled = _adjusted(self.spin_ns, block.queue_ms)
        return settled

    def _measure_candidate(
        self, worker: WorkerSession, numbers: Sequence[int], block: PairedBlock
    ) -> dict[int, tuple[Any, Any]]:
        """Add the candidate's part to a block; returns structure and forms of each answer."""
        forms: dict[int, tuple[Any, Any]] = {}
        for number in numbers:
            answer = self.call_candidate(worker, number, first=number == numbers[0])
            forms[number] = answer.get("structure"), answer.get("leaves")
            event_ms = _readable_time(answer, "event_ms")
            if number < self.warmup_calls:
                block.warmup_ms.append(event_ms)
                continue
            block.candidate_ms.append(event_ms)
            block.queue_ms.append(_readable_time(answer, "queue_ms"))
        timestamps = self.timestamps.tolist()
        block.timestamps = [
            (timestamps[number][0], timestamps[number][1]) for number in numbers if number >= self.warmup_calls
        ]
        return forms

    def _measure_baseline(self, numbers: Sequence[int], block: PairedBlock) -> None:
        calls = self.call_baseline(numbers)[self.warmup_calls :]
        block.baseline_ms = [call.event_ms for call in calls]
        block.baseline_queue_ms = [call.queue_ms for call in calls]
        stamps = self.baseline_timestamps.tolist()
        block.baseline_timestamps = [(stamps[n][0], stamps[n][1]) for n in numbers if n >= self.warmup_calls]

    def _affordable_sets(self, baseline: PyTorchBaseline, *, most: int) -> int:
        """Return how many sets of inputs and answers fit into the GPU's memory, at least 1 and at most `most`."""
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        answers = sum(leaf.expected.numel() * leaf.dtype.itemsize for leaf in baseline.case.leaves)
        fixed = 4 * baseline.layout.nbytes + flush_bytes()
        each = baseline.layout.nbytes + 2 * answers
        sets = min(most, max(0, int(MEMORY_PART * free) - fixed) // each)
        if sets < 1 and free < fixed + each:
            raise torch.OutOfMemoryError(f"one set of inputs and answers takes {(fixed + each) >> 20} MiB")
        return max(1, sets)


def _burst(calls: int, spin_ns: int, began: float, queued_at: float, done_at: float) -> Burst:
    """Return a burst from the judge's clock at its begin, when all was queued, and when it was done [s]."""
    spin_ms = spin_ns / 1e6
    return Burst(calls, 1e3 * (done_at - began) - spin_ms, 1e3 * (queued_at - began) - spin_ms)


def _adjusted(spin_ns: int, queue_ms: Sequence[float]) -> tuple[int, bool]:
    """Return the spin [ns] for calls that took so long to queue under another [ms], and whether it is settled.

    A forward that waits for the GPU takes longer than the spin, whatever the spin is. It gets the shortest.
    """
    typical_ms = sorted(queue_ms)[len(queue_ms) // 2]
    if typical_ms < spin_ns / 1e6:
        return spin_ns_for(typical_ms), True
    if spin_ns / 1e6 > 3 * SHORTEST_SPIN_MS:
        return int(1e6 * SHORTEST_SPIN_MS), True
    return spin_ns_for(typical_ms), False


def _warmup_calls(sets: int, slower_ms: float) -> int:
    """Return the number of warm-up calls of a block, given the number of sets and the forward's time [ms]."""
    if slower_ms > LONG_MS:
        return 0
    if sets >= WARMUP_CALLS + BLOCK_CALLS:
        return WARMUP_CALLS
    return 1 if sets > 1 else 0


def _flat(shared: Arena, nbytes: int) -> tuple[torch.Tensor, dict[str, Any]]:
    return shared.empty((nbytes,), torch.uint8, guarded=False)


def _readable_time(answer: dict[str, Any], key: str) -> float:
    """Return a time that the candidate's process told [ms].

    Raises:
        CandidateFailed: if it is no positive number.
    """
    value = answer.get(key)
    if not isinstance(value, int | float) or not 0 < value < 1e8:
        raise CandidateFailed(Finding(kind="exited", message=f"the process gave no readable time: {value!r}"), "")
    return float(value)
