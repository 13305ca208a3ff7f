"""The numbers of a transposed convolution's phases: planners choose by them, and generated modules compute them."""

from math import prod


def reached_inputs(stride: int, padding: int, dilation: int, taps: int, *shifts: int) -> tuple[int, int, int]:
    """Which inputs make `stride` outputs side by side along one dimension of a transposed convolution: by how much
    those outputs begin ahead of a multiple of the stride so that they need the fewest, the first input, the number."""
    found = []
    for shift in shifts:
        whole = padding - shift
        low = min(0, -((dilation * (taps - 1) - whole) // stride))
        found.append((-(-whole // stride) - low + 1, shift, low))
    reach, shift, low = min(found)
    return shift, low, reach


def phases_by_program(
    strides: tuple[int, ...], channels: int, columns: int, avoided: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """By dimension of a transposed convolution, phases that programs of their own compute, and phases that are columns
    of one product: those of the trailing dimensions that, times the channels, fit so many columns, filled up to powers
    of two. The last dimension has not `avoided` of them."""
    apart, joined = list(strides), [1] * len(strides)
    for d in reversed(range(len(strides))):
        count = 1 << (strides[d] - 1).bit_length()
        if d + 1 < len(strides) and count * prod(joined) * channels > columns:
            break
        apart[d], joined[d] = 1, count
    joined[-1] = max(joined[-1], 16 // channels)  # tensor cores take 16 columns
    if joined[-1] == avoided:
        joined[-1] *= 2
    return tuple(apart), tuple(joined)
