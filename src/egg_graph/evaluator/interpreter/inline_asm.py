"""`tl.inline_asm_elementwise`, which the interpreter of Triton lacks, for PTX without branches, of what is listed here.

An approximate instruction errs as much as the PTX ISA manual allows (see `approximate`).
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import approximate
from egg_graph.evaluator.interpreter.exact_arithmetic import fused
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype
from egg_graph.evaluator.interpreter.number_formats import round_to_tf32
from egg_graph.evaluator.interpreter.run_state import current_run, is_fake
from egg_graph.evaluator.wire.faults import KernelFault

Instruction = Callable[..., np.ndarray]


def _f32(operation: Instruction) -> Instruction:
    """Make an instruction that reads its registers as fp32, whatever type they were declared with."""
    return lambda *sources: operation(*[_as(x, np.float32) for x in sources]).astype(np.float32, copy=False)


def _b32(operation: Instruction) -> Instruction:
    """Make an instruction that reads its registers as 32-bit integers."""
    return lambda *sources: operation(*[_as(x, np.uint32) for x in sources]).astype(np.uint32, copy=False)


def _as(register: np.ndarray, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(register).view(dtype)


def _tf32_nearest_even(x: np.ndarray) -> np.ndarray:
    """Round float32 to TF32, to nearest even (`cvt.rn.tf32.f32`)."""
    u = x.view(np.uint32)
    even = ((u + np.uint32(0xFFF) + ((u >> 13) & np.uint32(1))) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), even, x)


INSTRUCTIONS: dict[str, Instruction] = {
    "cvt.rna.tf32.f32": _f32(round_to_tf32),
    "cvt.rn.tf32.f32": _f32(_tf32_nearest_even),
    "tanh.approx.f32": _f32(approximate.tanh),
    "ex2.approx.f32": _f32(approximate.exp2),
    "lg2.approx.f32": _f32(approximate.log2),
    "rsqrt.approx.f32": _f32(approximate.reciprocal_root),
    "sqrt.approx.f32": _f32(approximate.root),
    "sqrt.rn.f32": _f32(np.sqrt),
    "rcp.approx.f32": _f32(approximate.reciprocal),
    "rcp.rn.f32": _f32(lambda x: 1 / x),
    "sin.approx.f32": _f32(approximate.sine),
    "cos.approx.f32": _f32(approximate.cosine),
    "div.approx.f32": _f32(approximate.quotient),
    "div.full.f32": _f32(approximate.full_quotient),
    "div.rn.f32": _f32(np.divide),
    "add.f32": _f32(np.add),
    "add.rn.f32": _f32(np.add),
    "sub.f32": _f32(np.subtract),
    "mul.f32": _f32(np.multiply),
    "mul.rn.f32": _f32(np.multiply),
    "fma.rn.f32": _f32(fused),
    "max.f32": _f32(np.fmax),
    "min.f32": _f32(np.fmin),
    "neg.f32": _f32(np.negative),
    "abs.f32": _f32(np.abs),
    "mov.b32": _b32(lambda x: x),
    "mov.f32": _f32(lambda x: x),
    "and.b32": _b32(np.bitwise_and),
    "or.b32": _b32(np.bitwise_or),
    "xor.b32": _b32(np.bitwise_xor),
    "add.u32": _b32(np.add),
    "shl.b32": _b32(np.left_shift),
    "shr.u32": _b32(np.right_shift),
}
COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""Comparisons of `setp`; all are false of NaN."""
COMPARED = {"f32": np.float32, "s32": np.int32, "u32": np.uint32, "b32": np.uint32}
UNDEFINED = np.array([0x7FC0DEAD], np.uint32)
"""What a register holds that was written under a predicate alone, where that is false: NaN."""
_PREDICATE = re.compile(r"@(!?)([%$\w]+)\s+(.*)", re.DOTALL)
_INSTRUCTION = re.compile(r"([a-z][\w.]*)\s+([^;]+)")
_DECIMAL_FLOAT = re.compile(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?$")
_HEX_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})$")


class AsmResult:
    """Stands for the operation that `create_inline_asm` returns: it has one handle per output."""

    def __init__(self, handles: list[Any]) -> None:
        self.handles = handles

    def get_result(self, index: int) -> Any:
        """Return the handle of one output."""
        return self.handles[index]


def inline_asm(self: Any, asm: str, constraints: str, values: list[Any], types: Any, is_pure: bool, pack: int) -> Any:
    """Replace `create_inline_asm`: execute the instructions on all elements at once.

    Args:
        self: the builder.
        asm: PTX text.
        constraints: ignored; every register has 32 bits.
        values: operands.
        types: types of the outputs, one or several.
        is_pure: ignored.
        pack: elements per execution of the text; it numbers their registers one after the other.

    Raises:
        KernelFault: `unsupported_in_kernel` for an instruction or operand that is not known here.
    """
    result_types = types if isinstance(types, list | tuple) else [types]
    shape = np.broadcast_shapes(*[v.data.shape for v in values]) if values else (1,)
    if is_fake():  # one execution shows whether the instructions are known
        columns = [np.broadcast_to(v.data.reshape(-1)[:1], (1, pack)) for v in values]
    else:
        columns = [np.broadcast_to(v.data, shape).reshape(-1, pack) for v in values]
    if any(c.dtype.itemsize != 4 for c in columns) or any(numpy_dtype(t.scalar).itemsize != 4 for t in result_types):
        raise _unknown(asm, "registers that pack several narrow elements")
    outputs = len(result_types)
    registers: dict[str, np.ndarray] = {}
    for index, column in enumerate(columns):
        for element in range(pack):
            registers[f"${(outputs + index) * pack + element}"] = column[:, element]
    execute(asm, registers)
    handles = []
    for index, result_type in enumerate(result_types):
        parts = [_register(asm, registers, f"${index * pack + element}") for element in range(pack)]
        bits = np.stack([_as(p, np.uint32) for p in np.broadcast_arrays(*parts)], axis=-1)
        bits = bits.view(numpy_dtype(result_type.scalar))
        data = np.broadcast_to(bits[0, :1], shape) if is_fake() else bits.reshape(shape)
        handles.append(make(data, result_type.scalar))
    return AsmResult(handles)


def execute(asm: str, registers: dict[str, np.ndarray]) -> None:
    """Execute each statement on the registers, in place."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", asm, flags=re.S).replace("{", " ").replace("}", " ")
    for statement in filter(None, (s.strip() for s in text.split(";"))):
        if statement.startswith(".reg"):
            continue
        guard = _PREDICATE.fullmatch(statement)
        match = _INSTRUCTION.fullmatch(statement if guard is None else guard.group(3))
        mnemonic = match.group(1).replace(".ftz", "") if match else ""
        instruction = INSTRUCTIONS.get(mnemonic) or _with_predicate(mnemonic)
        if match is None or instruction is None:
            raise _unknown(asm, f"'{statement}'")
        target, *sources = [operand.strip() for operand in match.group(2).split(",")]
        answer = instruction(*[_register(asm, registers, s) for s in sources])
        if guard is not None:
            holds = _register(asm, registers, guard.group(2)).astype(bool) ^ (guard.group(1) == "!")
            answer = np.where(holds, _as(answer, np.uint32), _as(registers.get(target, UNDEFINED), np.uint32))
        registers[target] = answer


def _with_predicate(mnemonic: str) -> Instruction | None:
    """The instruction that sets a predicate (`setp.gt.f32`) or chooses by one (`selp.f32`); None for any other."""
    name, _, rest = mnemonic.partition(".")
    comparison, _, kind = rest.partition(".")
    if name == "setp" and comparison in COMPARISONS and kind in COMPARED:
        return lambda a, b: COMPARISONS[comparison](_as(a, COMPARED[kind]), _as(b, COMPARED[kind])).astype(np.uint32)
    if name == "selp" and rest in COMPARED:
        return lambda a, b, chosen: np.where(chosen.astype(bool), _as(a, np.uint32), _as(b, np.uint32))
    return None


def _register(asm: str, registers: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return the value of a register or an immediate operand."""
    if name in registers:
        return registers[name]
    if match := _HEX_FLOAT.match(name):
        return np.array([int(match.group(1), 16)], np.uint32)
    if _DECIMAL_FLOAT.match(name):
        return np.array([float(name)], np.float32)
    try:
        return np.array([int(name, 0) & 0xFFFFFFFF], np.uint32)
    except ValueError:
        raise _unknown(asm, f"operand {name}") from None


def _unknown(asm: str, what: str) -> KernelFault:
    return KernelFault(
        "unsupported_in_kernel",
        f"the interpreter cannot run the inline assembly {' '.join(asm.split())!r}: it does not know {what}",
        current_run().where(),
        "Write it in Triton, or use one of: " + ", ".join([*sorted(INSTRUCTIONS), "setp", "selp"]) + ".",
    )


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's `create_inline_asm`, which raises NotImplementedError."""
    builder.create_inline_asm = inline_asm
