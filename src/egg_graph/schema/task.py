"""What is to be optimized, and for which GPU."""

import hashlib
from typing import Literal

from egg_graph.schema.base import Value

Precision = Literal["ieee", "tf32", "tf32_truncated", "bf16", "fp16"]
"""The precision policy of candidate and baseline alike.

`ieee`: dtypes as declared, fp32 products in IEEE arithmetic. `tf32`: dtypes as declared, operands of fp32
products may be rounded to TF32. `tf32_truncated`: as `tf32`, and a kernel's operands may be truncated to TF32, as a
plain `tl.dot` does; PyTorch rounds them as ever. `bf16`, `fp16`: parameters and floating inputs cast, products
accumulated in fp32.
"""

Domain = Literal["finite", "nonfinite"]
"""The inputs on which a kernel has to be right.

`finite`: what `get_inputs` draws, and the finite input families. Infinities belong to it where the reference draws or
makes non-finite numbers itself; elsewhere it is told whether they are preserved. `nonfinite`: infinities always.
"""
TF32: tuple[Precision, ...] = ("tf32", "tf32_truncated")
"""Policies under which PyTorch's products are in TF32."""
FP32: tuple[Precision, ...] = ("ieee", *TF32)
"""Policies that leave dtypes as declared."""


class Figure(Value):
    """One number of a data sheet, with its unit and its source."""

    value: float
    unit: str
    source: str


class Hardware(Value):
    """The specification of one GPU, for the agents and for the roofline.

    `figures` holds, in SI units: dram_bandwidth and l2_bandwidth [byte/s], dram_capacity, l2_capacity,
    shared_memory_per_block and shared_memory_per_multiprocessor [byte], multiprocessors,
    registers_per_multiprocessor, max_warps_per_multiprocessor, max_blocks_per_multiprocessor, warp_size [count],
    peak_fp32, peak_tf32, peak_bf16, peak_fp16 [flop/s, dense], power [W].
    """

    key: str
    name: str
    vendor: Literal["nvidia", "amd"]
    arch: str
    """Compilation target: `sm_90`, `gfx942`, ..."""
    figures: dict[str, Figure]
    notes: tuple[str, ...] = ()

    def figure(self, name: str) -> float:
        """Value of one figure.

        Raises:
            KeyError: if the specification lacks this figure.
        """
        return self.figures[name].value

    def peak(self, precision: Precision) -> float:
        """Dense matrix-product rate [flop/s] under a precision policy."""
        return self.figure({"ieee": "peak_fp32", "tf32_truncated": "peak_tf32"}.get(precision, f"peak_{precision}"))


class KernelTask(Value):
    """A PyTorch reference in KernelBench's form, and the terms on which a kernel may replace it."""

    name: str
    reference: str
    """Python source: `Model(nn.Module)`, `get_inputs()` and, if `Model` takes arguments, `get_init_inputs()`."""
    target: Hardware
    precision: Precision = "tf32"
    domain: Domain = "finite"
    triton_only: bool = False
    """Forbid library calls (cuBLAS, cuDNN) beside the candidate's own Triton kernels."""
    further_shapes: tuple[dict[str, int], ...] = ()
    """Further shapes at which the kernel must be right: each overrides module-level integers of the reference."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that defines the task, as 16 hex digits; the default domain adds nothing to it."""
        text = self.model_dump_json(exclude={"domain"} if self.domain == "finite" else None)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
