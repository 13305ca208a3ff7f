"""A stand-in for the CUDA driver, and one for the clock of the host."""

import ctypes
import time

import numpy as np


class PretendDriver:
    """`StreamDriver` on host memory; every forward takes one millisecond by its clock."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        """What was asked for, in order."""
        self.now_ns = 0
        """The GPU's own clock [ns]."""

    def spin(self, nanoseconds: int) -> None:
        self.steps.append("spin")

    def xor_keystream(self, source: int, target: int, nbytes: int, key: int) -> None:
        self.steps.append("decrypt")
        stream = np.random.default_rng(key).integers(0, 256, nbytes, np.uint8)
        given = np.frombuffer(ctypes.string_at(source, nbytes), np.uint8)
        ctypes.memmove(target, (given ^ stream).tobytes(), nbytes)

    def fill(self, target: int, nbytes: int, value: int) -> None:
        self.steps.append("flush")
        ctypes.memmove(target, value.to_bytes(4, "little") * (nbytes // 4), nbytes)

    def write_timestamp(self, address: int) -> None:
        self.steps.append("timestamp")
        ctypes.memmove(address, self.now_ns.to_bytes(8, "little"), 8)

    def record_event(self, number: int) -> None:
        self.steps.append("event")
        self.now_ns += 1_000_000 * number

    def elapsed_ms(self) -> float:
        return 1.0

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.steps.append("copy")
        ctypes.memmove(target, source, nbytes)

    def synchronize(self) -> None:
        self.steps.append("synchronize")

    def reset_persisting_l2(self) -> None:
        pass


class SteadyTime:
    """Stands in for the module `time`: every look at a clock takes ten microseconds, however busy the machine is.

    Only `sleep` is real, for candidates that leave work to a thread.
    """

    LOOK_SECONDS = 1e-5

    def __init__(self) -> None:
        self.looks = 0

    def perf_counter(self) -> float:
        self.looks += 1
        return self.LOOK_SECONDS * self.looks

    monotonic = perf_counter
    sleep = staticmethod(time.sleep)
