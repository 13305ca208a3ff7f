"""`tl.map_elementwise`, which Triton's interpreter lacks: a function of scalars, called for every element."""

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter.conditions import unwrap
from egg_graph.evaluator.interpreter.handles import is_uniform, make
from egg_graph.evaluator.interpreter.run_state import is_fake


def map_elementwise(function: Any, *blocks: Any, pack: Any = 1, **_: Any) -> Any:
    """Replace `tl.map_elementwise`. In a fake run, where all elements are the same, the function is called once.

    Raises:
        NotImplementedError: for a `pack` that gives the function several elements, which the layout chooses.
    """
    if unwrap(pack) != 1:
        raise NotImplementedError("tl.map_elementwise of several elements at once")
    blocks = interpreter.interpreter_semantic.broadcast_tensors(*blocks)
    arrays = [block.handle.data for block in blocks]
    alike = is_fake() and all(is_uniform(x) or x.size == 1 for x in arrays)
    columns = [x.reshape(-1)[:1] if alike else x.reshape(-1) for x in arrays]
    rows = [_call(function, row, blocks) for row in zip(*columns, strict=True)]
    results = tuple(_block([row[place] for row in rows], blocks[0]) for place in range(len(rows[0])))
    return results if len(results) > 1 else results[0]


def _call(function: Any, row: tuple[Any, ...], blocks: Any) -> tuple[Any, ...]:
    """Call the function with one element of each block."""
    scalars = [tl.tensor(make(np.array([x]), b.type.scalar), b.type.scalar) for x, b in zip(row, blocks, strict=True)]
    result = function(*scalars)
    return tuple(result) if isinstance(result, tuple | tl.tuple) else (result,)


def _block(scalars: list[Any], like: Any) -> Any:
    """Put the results of all elements together, as a block of the operands' shape."""
    kind = scalars[0].type.scalar
    data = np.concatenate([scalar.handle.data.reshape(-1) for scalar in scalars])
    shape = like.handle.data.shape
    data = data.reshape(shape) if data.size > 1 else np.broadcast_to(data, shape)
    return tl.tensor(make(data, kind), like.type.with_element_ty(kind))
