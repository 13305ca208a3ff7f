"""Keep Python's garbage collection out of timed calls and out of large imports."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Switch Python's garbage collection off in the block, and afterwards on again if it was on.

    One collection during a forward takes longer than most kernels. Importing PyTorch and its tracer makes a million
    objects that stay; to look through all of them again and again is a third of the processor time of those imports.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
