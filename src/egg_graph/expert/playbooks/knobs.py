"""What playbooks share when they choose knobs: figures of the target GPU, powers of two, values worth trying."""

from egg_graph.schema import Hardware, Knob

MULTIPROCESSORS = 132
"""Multiprocessors of an H100 or H200, where no target is given."""
SHARED_BYTES = 232448
"""Shared memory per block of an H100 or H200 [byte], where no target is given."""
TMA_ARCHITECTURES = ("sm_90", "sm_100", "sm_103", "sm_120")
"""Architectures with a tensor memory accelerator."""


def multiprocessors(target: Hardware | None) -> int:
    """Return the target's number of multiprocessors."""
    return MULTIPROCESSORS if target is None else int(target.figure("multiprocessors"))


def shared_bytes(target: Hardware | None) -> int:
    """Return the shared memory that one block can have on the target [byte]."""
    return SHARED_BYTES if target is None else int(target.figure("shared_memory_per_block"))


def power_of_two(n: int, least: int = 1, most: int | None = None) -> int:
    """Return the smallest power of two that covers n, within bounds that are powers of two."""
    result = least
    while result < n and (most is None or result < most):
        result *= 2
    return result


def half_and_double(value: int, least: int, most: int) -> tuple[Knob, ...]:
    """Return half the value, the value and its double, within bounds."""
    return tuple(v for v in (value // 2, value, value * 2) if least <= v <= most)


def nearby(value: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """Return the choices within a factor of four of a value."""
    return tuple(c for c in choices if value // 4 <= c <= value * 4)
