"""Answers of a kernel, and how those of the interpreter differ from those of the hardware."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.evaluator.interpreter.generated.errors import ERRORS, Bound

NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
BFLOAT16_NAN = 0x7FC0
DTYPES = {"bool": "uint8", "bfloat16": "uint16", "float8_e5m2": "uint8", "float8_e4m3fn": "uint8"}
"""Dtype of torch that numpy lacks -> numpy's dtype of its bits."""
PRECISION = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
LOWEST = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}


@dataclass(frozen=True)
class Answer:
    """One output: torch's name of its dtype, its shape and its bits, in which NaN is one value."""

    dtype: str
    shape: tuple[int, ...]
    bits: np.ndarray

    @property
    def digest(self) -> str:
        """Hash of dtype, shape and bits."""
        text = f"{self.dtype}{list(self.shape)}".encode()
        return hashlib.sha256(text + self.bits.tobytes()).hexdigest()[:16]

    @property
    def values(self) -> np.ndarray:
        """The numbers, in fp64 where they are floats."""
        if self.dtype == "bfloat16":
            return (self.bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.bits.astype(np.float64) if self.bits.dtype.kind == "f" else self.bits

    def to_json(self) -> dict[str, Any]:
        """As JSON, bits in base64."""
        return {"dtype": self.dtype, "shape": list(self.shape), "bits": base64.b64encode(self.bits.tobytes()).decode()}

    @staticmethod
    def of_json(data: dict[str, Any]) -> Answer:
        """Read what `to_json` wrote."""
        bits = np.frombuffer(base64.b64decode(data["bits"]), DTYPES.get(data["dtype"], data["dtype"]))
        return Answer(data["dtype"], tuple(data["shape"]), bits)

    @staticmethod
    def of_tensor(tensor: Any) -> Answer:
        """Copy a tensor to the host."""
        import torch

        dtype = str(tensor.dtype).removeprefix("torch.")
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        bits = flat.view(DTYPES.get(dtype, dtype)).copy()
        if bits.dtype.kind == "f":
            bits.view(f"uint{8 * bits.itemsize}")[np.isnan(bits)] = NAN[bits.itemsize]
        elif dtype == "bfloat16":
            bits[(bits & 0x7FFF) > 0x7F80] = BFLOAT16_NAN
        elif dtype == "float8_e5m2":
            bits[(bits & 0x7F) > 0x7C] = 0x7F
        elif dtype == "float8_e4m3fn":
            bits[(bits & 0x7F) == 0x7F] = 0x7F
        return Answer(dtype, tuple(tensor.shape), bits)


def difference(expected: Answer, got: Answer, error: str, scale: Answer | None) -> str:
    """Say how an answer differs from the expected one by more than its class allows; empty if it does not.

    Args:
        expected: the interpreter's.
        got: the hardware's.
        error: class of `ERRORS`.
        scale: the output behind it, for classes that are scaled.
    """
    if (expected.dtype, expected.shape) != (got.dtype, got.shape):
        return f"{got.dtype}{list(got.shape)} for {expected.dtype}{list(expected.shape)}"
    bound = ERRORS[error]
    if same_bits(expected, got) or bound.scaled == float("inf"):
        return ""
    unsigned = f"uint{8 * expected.bits.itemsize}"
    if error == "exact":
        lanes = expected.bits.view(unsigned) != got.bits.view(unsigned)
    else:
        lanes = _beyond(expected, got, bound, scale)
    if not lanes.any():
        return ""
    first = int(np.flatnonzero(lanes)[0])
    what = f"{expected.values[first]!r} here, {got.values[first]!r} there"
    return f"{int(lanes.sum())} of {lanes.size} {expected.dtype} elements, first [{first}]: {what} ({error})"


def same_bits(expected: Answer, got: Answer) -> bool:
    """Whether two answers agree bit by bit."""
    return expected.bits.tobytes() == got.bits.tobytes()


def _beyond(expected: Answer, got: Answer, bound: Bound, scale: Answer | None) -> np.ndarray:
    """Return which elements lie further apart than the bound; NaN and infinities have to agree."""
    with np.errstate(all="ignore"):
        left, right = expected.values.astype(np.float64), got.values.astype(np.float64)
        exponent = np.maximum(np.frexp(left)[1] - 1, LOWEST[expected.dtype])
        allowed = bound.absolute + bound.ulps * np.ldexp(1.0, exponent - PRECISION[expected.dtype])
        if bound.scaled and scale is not None:
            allowed = allowed + bound.scaled * 2.0**-23 * np.abs(scale.values.astype(np.float64))
        finite = np.isfinite(left) & np.isfinite(right)
        alike = (left == right) | (np.isnan(left) & np.isnan(right))
        return ~np.where(finite, np.abs(left - right) <= allowed, alike)


def compared(expected: list[Answer], got: list[Answer], errors: tuple[str, ...]) -> tuple[str, str]:
    """Compare all outputs of a kernel.

    Returns:
        `same bits`, `within error` or `different`; and what differs.
    """
    if len(expected) != len(got):
        return "different", f"{len(got)} outputs for {len(expected)}"
    scales = [*expected[1:], None]
    found = [
        f"output {place}: {text}"
        for place, (left, right, error, scale) in enumerate(zip(expected, got, errors, scales, strict=True))
        if (text := difference(left, right, error, scale))
    ]
    if found:
        return "different", "; ".join(found)
    alike = all(
        same_bits(*pair) for pair, e in zip(zip(expected, got, strict=True), errors, strict=True) if e != "scale"
    )
    return ("same bits" if alike else "within error"), ""
