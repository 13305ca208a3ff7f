"""The numbers of a transposed convolution whose average pooling went into its filter.

They follow from the numbers of both. A written module holds the function as it stands here, so that it needs nothing
from outside.
"""


def averaged_axis(
    taps: int, stride: int, padding: int, more: int, window: int, apart: int
) -> tuple[int, int, int, int]:
    """Of a transposed convolution whose windows of outputs, `apart`, are averaged: how many zeros come before and after
    its turned filter, of which windows are averaged; and stride and padding of the convolution with these averages."""
    first, last = -((taps - 1 - padding) // stride), (window - 1 + padding) // stride
    fewer = (taps - 2 * padding + more - window) // stride
    pad = max(0, -first, last + fewer)
    return stride * pad + padding + window - taps, stride * (pad - fewer) - padding, apart // stride, pad
