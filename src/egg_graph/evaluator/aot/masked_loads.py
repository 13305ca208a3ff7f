"""What PTX makes of the lanes that a load masks off."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.S)
_LOAD = re.compile(r"@!?%p\d+\s+ld\.global[.\w]*\s+\{?\s*([^}\[]*?)\s*\}?\s*,\s*\[")
_SET = re.compile(r"mov\.[.\w]+\s+(%\w+)\s*,")
_ASYNC = re.compile(r"@!?%p\d+\s+cp\.async\.c[ag][^;]*\]\s*,\s*\w+\s*;")


def leaves_lanes_undefined(ptx: str) -> bool:
    """Whether a load that a predicate masks off leaves its registers, or shared memory, as they were.

    Triton sets every register before a masked load, to `other` or to 0. A mask of an asynchronous copy is the number of
    bytes that are read, its last operand: the rest of the target is filled with zeros. A predicate skips the threads
    whose part another one copies; of a copy without that operand it may be the mask, and skips the filling.
    """
    if _ASYNC.search(ptx):
        return True
    for block in _BLOCK.findall(ptx):
        known = set(_SET.findall(block))
        for targets in _LOAD.findall(block):
            if not {target.strip() for target in targets.split(",")} <= known:
                return True
    outside = _BLOCK.sub("", ptx)
    return _LOAD.search(outside) is not None
