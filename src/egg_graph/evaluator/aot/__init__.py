"""Ahead-of-time compilation of recorded launches for a GPU that need not be there.

Call it in a process that was started WITHOUT TRITON_INTERPRET (one child per candidate):

    compile_launch(module_path, launch, hardware) -> KernelResources

`launch` is a `Launch` that a fake run recorded: at full shape, so its alignment and constants are the real ones. What
the compiler refuses is raised as `KernelFault(kind, message, where, cure)` with kind `kernel_compile_error`,
`unsupported_in_kernel`, `shared_memory_exceeded` or `programs_not_resident`. Set TRITON_CACHE_DIR to a directory of
the child's own. A compiler that aborts takes its process with it; the caller reports that. Importing this package loads
no triton.
"""

from egg_graph.evaluator.aot.compile import compile_launch
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import Launch

__all__ = ["KernelFault", "Launch", "compile_launch"]
