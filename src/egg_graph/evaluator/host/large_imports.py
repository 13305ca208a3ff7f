"""Import large packages without looking for garbage meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch Python's garbage collection off in the block, and afterwards on again if it was on.

    Importing PyTorch and its tracer makes a million objects that stay. Python would look through all of them again and
    again: a third of the processor time of those imports.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
