"""The GPU of the timing rung, played by this process."""

import ctypes

import numpy as np


class PretendGpu:
    """`bare_gpu.Gpu` on host memory; every forward takes a millisecond by its clock."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.now = 0

    def spin(self, nanoseconds: int) -> None:
        self.steps.append("spin")

    def unseal(self, source: int, target: int, nbytes: int, key: int) -> None:
        self.steps.append("unseal")
        stream = np.random.default_rng(key).integers(0, 256, nbytes, np.uint8)
        given = np.frombuffer(ctypes.string_at(source, nbytes), np.uint8)
        ctypes.memmove(target, (given ^ stream).tobytes(), nbytes)

    def fill(self, target: int, nbytes: int, value: int) -> None:
        self.steps.append("flush")
        ctypes.memmove(target, value.to_bytes(4, "little") * (nbytes // 4), nbytes)

    def stamp(self, where: int) -> None:
        self.steps.append("stamp")
        ctypes.memmove(where, self.now.to_bytes(8, "little"), 8)

    def mark(self, number: int) -> None:
        self.steps.append("mark")
        self.now += 1_000_000 * number

    def between(self) -> float:
        return 1.0

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.steps.append("copy")
        ctypes.memmove(target, source, nbytes)

    def wait(self) -> None:
        self.steps.append("wait")

    def forget_l2(self) -> None:
        pass
