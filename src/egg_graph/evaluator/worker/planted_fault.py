"""A small faulty PTX kernel for each tool of compute-sanitizer.

The watched program launches it last. A tool that does not report it saw nothing, whatever the reason (an option that it
takes otherwise, a GPU that it does not watch), so its silence about the candidate proves nothing.
"""

from __future__ import annotations

import ctypes

from egg_graph.evaluator.device.driver import check_driver, load_libcuda

KERNEL = "egg_graph_planted_fault"
"""Name of the faulty kernel; no candidate's kernel is called so by accident."""
NBYTES, THREADS = 256, 64
"""Size of the memory that the kernel gets [bytes], and its threads: two warps in one block."""

_READS = """
  ld.global.u32 %v, [%a+{offset}];
"""
_RACES = """
  mov.u32 %t, %tid.x;
  shl.b32 %o, %t, 2;
  mov.u32 %s, shared_words;
  add.u32 %w, %s, %o;
  st.shared.u32 [%w], %t;
  xor.b32 %o, %o, 128;
  add.u32 %w, %s, %o;
  ld.shared.u32 %v, [%w];
"""
_BODIES = {
    "memcheck": _READS.format(offset=NBYTES + 64),
    "racecheck": _RACES,
    "initcheck": _READS.format(offset=64),
}
"""Reads past the end of the memory; reads what the other warp writes, without a barrier; reads what nobody wrote."""


def ptx(tool: str) -> str:
    """Return the PTX module of one tool's fault; its kernel takes the address of `NBYTES` of fresh GPU memory."""
    return (
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        f".visible .entry {KERNEL}(.param .u64 where) {{\n"
        f"  .shared .align 4 .b8 shared_words[{4 * THREADS}];\n"
        "  .reg .u64 %a;\n  .reg .u32 %v, %t, %o, %s, %w;\n"
        "  ld.param.u64 %a, [where];\n  cvta.to.global.u64 %a, %a;"
        f"{_BODIES[tool]}"
        "  st.global.u32 [%a], %v;\n  ret;\n}\n"
    )


def commit(tool: str) -> None:
    """Launch the tool's fault and wait for it. The CUDA context may be lost by it, so nothing may run after it.

    Args:
        tool: of compute-sanitizer, as it is called there.

    Raises:
        RuntimeError: if the driver does not load or launch the kernel.
        torch.OutOfMemoryError: if it has no memory for it.
    """
    cuda, module, function = load_libcuda(), ctypes.c_void_p(), ctypes.c_void_p()
    check_driver(cuda.cuModuleLoadData(ctypes.byref(module), ptx(tool).encode() + b"\0"), "cuModuleLoadData")
    check_driver(cuda.cuModuleGetFunction(ctypes.byref(function), module, KERNEL.encode()), "cuModuleGetFunction")
    where = ctypes.c_uint64()  # never freed: that would fail where the context is lost
    check_driver(cuda.cuMemAlloc_v2(ctypes.byref(where), ctypes.c_size_t(NBYTES)), "cuMemAlloc")
    packed = (ctypes.c_void_p * 1)(ctypes.addressof(where))
    code = cuda.cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, None, packed, None)
    check_driver(code, f"launch of {KERNEL}")
    cuda.cuCtxSynchronize()  # what it returns is the fault itself, where the tool ends the context at it
