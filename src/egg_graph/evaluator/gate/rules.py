"""What a candidate may import, and which parts of the libraries it may use: tables, and functions that ask them."""

from __future__ import annotations

import importlib
from types import ModuleType

OTHER_COMPILER = "it would hand the work to another compiler"
ONLY_TRITON = "only Triton kernels are judged"
READS = "a kernel reads nothing but its arguments"
WRITES = "a kernel writes nothing but its results"
STARTS = "a kernel starts no processes and no threads"
TIMES = "a kernel does not time or test itself"
SHARED = "it changes the library for everybody in the process"
HIDES = "it hides operators from those who count them; launch the kernel itself in forward"
EVALUATES = "it runs text that nobody has read"
INSIDE = "it is no part of the public interface"

MODULES = (
    *("__future__", "abc", "bisect", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "enum"),
    *("fractions", "functools", "itertools", "math", "numbers", "operator", "typing", "typing_extensions", "warnings"),
    *("numpy", "numpy.typing", "torch", "torch.amp", "torch.autograd", "torch.autograd.function", "torch.backends"),
    *("torch.cuda", "torch.cuda.amp", "torch.cuda.graphs", "torch.cuda.nvtx", "torch.cuda.random"),
    *("torch.cuda.streams", "torch.fft", "torch.func", "torch.linalg", "torch.nn", "torch.random", "torch.special"),
    *(
        "torch.library",
        "torch.sparse",
        "torch.types",
        "torch.utils",
        "torch.utils.checkpoint",
        "torch.utils.dlpack",
        "torch.version",
    ),
    *("triton", "triton.errors", "triton.runtime", "triton.runtime.autotuner", "triton.runtime.driver"),
    *("triton.runtime.errors", "triton.runtime.jit", "triton.tools", "triton.tools.mxfp"),
    *("triton.tools.tensor_descriptor", "triton.tools.experimental_descriptor", "triton.tools.ragged_tma"),
)
"""Modules that may be imported, by their full names."""
TREES = ("torch.backends", "torch.nn", "triton.language", "triton.experimental")
"""Packages whose every module may be imported, unless `FORBIDDEN` names it."""
SINGLE_NAMES = {
    "types": ("SimpleNamespace", "MappingProxyType", "NoneType"),
    "weakref": ("ref", "WeakKeyDictionary", "WeakValueDictionary"),
}
"""Modules -> the only names that may be imported from them, by `from … import …`."""

FORBIDDEN = {
    **dict.fromkeys(("torch.compile", "torch.compiler", "torch.jit", "torch._dynamo"), OTHER_COMPILER),
    **dict.fromkeys(("torch._inductor", "torch._export", "torch._higher_order_ops"), OTHER_COMPILER),
    **dict.fromkeys(("torch.fx", "torch.export", "torch.onnx"), OTHER_COMPILER),
    **dict.fromkeys(("torch.utils.cpp_extension", "torch.cuda._compile_kernel", "torch.cuda.jiterator"), ONLY_TRITON),
    **dict.fromkeys(("torch.ops.load_library", "torch.classes", "torch.cpp", "torch.cuda.cudart"), ONLY_TRITON),
    **dict.fromkeys(("numpy.ctypeslib", "numpy.f2py", "numpy.distutils"), ONLY_TRITON),
    **dict.fromkeys(("triton.compile", "triton.compiler"), ONLY_TRITON),
    **dict.fromkeys(("triton.backends", "triton.runtime.build", "triton.reinterpret"), ONLY_TRITON),
    **dict.fromkeys(("torch.hub", "torch.load", "torch.serialization", "torch.package", "torch.from_file"), READS),
    **dict.fromkeys(("torch.storage", "torch.UntypedStorage", "torch.TypedStorage", "torch.frombuffer"), READS),
    **dict.fromkeys(("numpy.load", "numpy.memmap", "numpy.fromfile", "numpy.loadtxt", "numpy.genfromtxt"), READS),
    **dict.fromkeys(("numpy.DataSource", "numpy.lib.format", "numpy.lib.npyio", "numpy.core"), READS),
    **dict.fromkeys(("torch.save", "numpy.save", "numpy.savez", "numpy.savetxt", "numpy.savez_compressed"), WRITES),
    **dict.fromkeys(("triton.runtime.cache", "torch.cuda.gds", "torch.monitor"), WRITES),
    **dict.fromkeys(("torch.multiprocessing", "torch.futures", "torch.utils.data"), STARTS),
    **dict.fromkeys(("triton.AsyncCompileMode", "torch.cuda.nccl"), STARTS),
    **dict.fromkeys(("torch.testing", "numpy.testing", "triton.testing", "torch.profiler"), TIMES),
    **dict.fromkeys(("torch.cuda.profiler",), TIMES),
    **dict.fromkeys(("torch.autograd.profiler", "triton.profiler", "torch.utils.benchmark"), TIMES),
    **dict.fromkeys(("torch.set_default_device", "torch.set_default_dtype", "torch.set_default_tensor_type"), SHARED),
    **dict.fromkeys(("torch.set_float32_matmul_precision", "torch.use_deterministic_algorithms"), SHARED),
    **dict.fromkeys(("torch.set_num_threads", "torch.set_num_interop_threads", "torch.set_flush_denormal"), SHARED),
    **dict.fromkeys(("torch.cuda.set_per_process_memory_fraction", "torch.cuda.tunable", "triton.knobs"), SHARED),
    **dict.fromkeys(("torch.cuda.memory.change_current_allocator", "torch.cuda.CUDAPluggableAllocator"), SHARED),
    **dict.fromkeys(("torch.cuda.memory.CUDAPluggableAllocator", "torch.cuda.change_current_allocator"), SHARED),
    **dict.fromkeys(("torch.nn.modules.module.register_module_forward_hook", "torch.cuda.set_stream"), SHARED),
    **dict.fromkeys(("torch.nn.modules.module.register_module_forward_pre_hook",), SHARED),
    **dict.fromkeys(("torch.library", "torch.overrides", "torch.Tensor.__torch_function__"), HIDES),
    **dict.fromkeys(("triton.runtime.interpreter", "operator.attrgetter", "operator.methodcaller"), INSIDE),
    **dict.fromkeys(("triton.runtime.jit.JITFunction", "triton.runtime.jit.JITCallable"), INSIDE),
    **dict.fromkeys(("dataclasses.make_dataclass",), "write the class out"),
    **dict.fromkeys(("typing.get_type_hints", "typing.ForwardRef", "typing.evaluate_forward_ref"), EVALUATES),
    **dict.fromkeys(("typing_extensions.get_type_hints", "typing_extensions.evaluate_forward_ref"), EVALUATES),
    **dict.fromkeys(("enum.global_enum",), SHARED),
}  # fmt: skip
"""Dotted name -> why it is forbidden, with everything below it."""
ALLOWED_PRIVATE = frozenset(
    {
        *("_int_mm", "_scaled_mm", "_grouped_mm", "_scaled_grouped_mm", "_assert"),
        *("_calculate_fan_in_and_fan_out", "_calculate_correct_fan"),  # torch.nn.init, copied from torch.nn.Linear
        "_DeviceGuard",  # torch.cuda, as Inductor's wrappers launch
        *("_check", "_assert_async"),  # torch: assertions
    }
)
"""PyTorch's operators and functions that have no public name."""
ALLOWED_NAMES = {
    "logging": frozenset(
        {
            *("getLogger", "Logger", "debug", "info", "warning", "error", "critical", "exception", "log"),
            *("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET", "NullHandler"),
        }
    ),
    "einops": frozenset({"rearrange", "reduce", "repeat", "einsum", "pack", "unpack", "parse_shape", "layers"}),
    "einops.layers": frozenset({"torch"}),
    "einops.layers.torch": frozenset({"Rearrange", "Reduce", "EinMix"}),
    "json": frozenset({"loads", "dumps", "JSONDecodeError"}),
    "os": frozenset(),
    "packaging": frozenset({"version"}),
    "packaging.version": frozenset({"parse", "Version", "InvalidVersion"}),
    "random": frozenset({"randint", "randrange", "random"}),
    "struct": frozenset({"calcsize", "pack", "unpack"}),
    "threading": frozenset({"Lock", "RLock"}),
    "time": frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}),
    "torch.distributed": frozenset(
        {
            *("is_available", "is_initialized", "get_rank", "get_world_size", "ProcessGroup", "ReduceOp", "tensor"),
            *("all_reduce", "all_gather_into_tensor", "all_gather", "reduce_scatter_tensor"),
        }
    ),
    "torch.distributed.tensor": frozenset({"DTensor", "distribute_tensor"}),
    "torch._inductor.runtime": frozenset({"triton_helpers"}),
    "torch._inductor.runtime.triton_helpers": frozenset(
        {
            *("libdevice", "math", "promote_to_tensor", "select_one", "is_floating", "if_mask", "device_assert_then"),
            *("maximum", "minimum", "max2", "min2", "max_with_index", "min_with_index", "any", "prod", "exp"),
            *("maximum_with_index", "minimum_with_index", "sort_with_index", "bucketize_binary_search", "frexp"),
            *("welford", "welford_reduce", "welford_combine", "online_softmax_reduce", "online_softmax_combine"),
            *("div_floor_integer", "remainder_integer", "pow_integer", "randint64", "constexpr_next_power_of_2"),
        }
    ),
    "triton.testing": frozenset({"get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops"}),
    "torch.utils._python_dispatch": frozenset({"is_traceable_wrapper_subclass"}),
}
"""Modules that may be imported where they are installed -> the only names that may be used of them.

Kernels of libraries ask whether their inputs are distributed, or hold other tensors. Nothing here makes a process group
or a device mesh, and without one nothing is. Kernels that PyTorch's compiler wrote call `triton_helpers`: functions in
Triton's language, which are interpreted and compiled as the candidate's own are."""
WITHIN_TORCH = tuple(f"{name}." for name in ALLOWED_NAMES if name.startswith("torch."))
ON_THE_WAY = frozenset({"torch._inductor"})
"""Packages that Python imports on its way to one of `ALLOWED_NAMES`; a candidate may not name them alone."""
SAME_MODULES = {
    "torch._inductor.runtime.triton_helpers.libdevice": "triton.language.extra.libdevice",
    "torch._inductor.runtime.triton_helpers.math": "triton.language.math",
}
"""Modules that PyTorch hands on -> their own names."""
MAKES_OPERATORS = frozenset({"torch.library.custom_op", "torch.library.triton_op"})
"""Functions that register an operator of the candidate's own (see `own_operators`)."""
NO_COMPILER = frozenset(
    {
        *("torch.compiler.disable", "torch.compiler.is_compiling", "torch.fx.wrap"),
        *("torch.jit.is_scripting", "torch.jit.is_tracing"),
    }
)
"""Parts of PyTorch's compilers that compile nothing: they keep a compiler out, or ask for it."""
READS_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
"""Functions that read an environment variable. There is no secret in a candidate's."""
TOOLS_VARIABLES = (
    *("CUDA", "COMPUTE", "EGG_GRAPH", "HOME", "LD_", "NCU", "NSYS", "NV_", "NVIDIA", "NVPROF", "NVTX"),
    *("PYTORCH", "TMP", "TORCHINDUCTOR"),
)
"""Beginnings of names of variables by which a kernel could tell who runs it: a profiler, a sanitizer, or nobody."""
OWN_OPERATORS = MAKES_OPERATORS | {f"torch.library.{n}" for n in ("wrap_triton", "register_fake", "register_autograd")}
"""All that may be used of `torch.library`. In a candidate's process it hides nothing (`host.custom_operators`)."""
SYSTEM_MODULES = frozenset(
    {
        *("os", "sys", "inspect", "ctypes", "gc", "builtins", "importlib", "subprocess", "threading", "socket", "io"),
        *("pickle", "linecache", "traceback", "atexit", "shutil", "tempfile", "glob", "pathlib", "mmap", "marshal"),
        *("runpy", "pkgutil", "multiprocessing", "concurrent", "asyncio", "cffi", "posix", "logging", "time", "bltns"),
        *("pynvml", "amdsmi"),
    }
)
"""Modules that the libraries import for themselves: `torch.os` gives access to the operating system as `os` does."""
BUILTINS = frozenset(
    {
        *("eval", "exec", "compile", "open", "input", "globals", "locals", "vars"),
        *("__import__", "__builtins__", "__loader__", "__spec__", "__file__", "__name__", "__package__"),
    }
)
NEVER_ASKED_FOR = SYSTEM_MODULES - {"io", "time", "code", "glob", "pickle", "logging", "traceback", "concurrent"}
"""Names of such modules that no honest object has as an attribute. They are refused on every object."""
DUNDERS = frozenset({"__init__", "__name__", "__qualname__", "__doc__", "__version__", "__len__", "__post_init__"})
"""Double-underscore attributes that may be read; all others are refused."""
ATTRIBUTES = {
    **dict.fromkeys(("f_back", "f_globals", "f_locals", "f_builtins", "gi_frame", "cr_frame", "tb_frame"), INSIDE),
    **dict.fromkeys(("ag_frame", "tb_next", "f_code", "co_code"), INSIDE),
    **dict.fromkeys(("ctypes", "data_as", "tofile", "from_buffer", "from_file", "load_binary"), ONLY_TRITON),
    **dict.fromkeys(("dump", "dumps"), WRITES),
    "add_pre_run_hook": SHARED,
}
"""Attributes that may be read of the candidate's own objects only -> why."""
ON_NOTHING = {
    **dict.fromkeys(
        (
            *("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"),
            *("register_module_forward_hook", "register_module_forward_pre_hook", "_forward_hooks"),
            *("_forward_pre_hooks", "_call_impl", "_wrapped_call_impl", "_compiled_call_impl"),
        ),
        "work is done in forward, where it is judged",
    ),
    **dict.fromkeys(("compile", "_dynamo", "_inductor"), OTHER_COMPILER),
    **dict.fromkeys(("cpp_extension", "load_inline", "load_library", "_compile_kernel", "cudart", "_C"), ONLY_TRITON),
    **dict.fromkeys(("custom_op", "triton_op", "_python_dispatch", "_disable_current_modes"), HIDES),
    **dict.fromkeys(("findCaller", "makeRecord", "addFilter", "setLogRecordFactory", "addHandler"), INSIDE),
    **dict.fromkeys(("launch_enter_hook", "launch_exit_hook", "jit_hook"), SHARED),
    **dict.fromkeys(("_convert_",), SHARED),
    **dict.fromkeys(("_make_subclass", "_make_wrapper_subclass", "as_subclass"), "a result is a plain tensor"),
}
"""Attributes that may be read of no object -> why."""
METHODS = frozenset(
    {
        *("__torch_function__", "__torch_dispatch__", "__del__", "__getattribute__", "__init_subclass__"),
        *("__set_name__", "__prepare__", "__reduce__", "__reduce_ex__", "__class_getitem__", "__instancecheck__"),
        *("__array_interface__", "__cuda_array_interface__", "__array_struct__", "__module__", "__class__"),
        *("__dataclass_fields__",),
    }
)
"""Members that no class may define: methods that Python calls by itself, and claims about memory or origin."""
MODULE_METHODS = frozenset(
    {
        *("__call__", "__new__", "__getattr__", "__setattr__", "_call_impl", "_wrapped_call_impl"),
        *("state_dict", "load_state_dict"),  # weights are given and read by PyTorch's own functions
    }
)
"""Methods that no torch.nn.Module may define: they would replace or wrap its forward, or the loading of weights."""
COPIES_ATTRIBUTES = {"functools.update_wrapper": 2, "functools.wraps": 1}
"""Functions that can copy attributes by name -> how many arguments they may have; more would name attributes."""
LIBRARIES = frozenset({"torch", "triton", "numpy"})
ROOTS = frozenset({name.split(".")[0] for name in (*MODULES, *SINGLE_NAMES, *ALLOWED_NAMES)})
"""Top-level packages that a candidate may import from."""
WITHIN_TREES = frozenset(
    {
        *TREES,
        *("torch.nn.functional", "torch.nn.init", "torch.nn.modules", "torch.nn.parameter", "torch.nn.utils"),
        *("torch.nn.attention", "torch.backends.cuda", "torch.backends.cudnn", "torch.backends.cuda.matmul"),
        *("triton.language.core", "triton.language.math", "triton.language.standard", "triton.language.extra"),
        *("triton.language.random", "triton.language.semantic", "triton.language.extra.libdevice"),
        *("triton.language.extra.cuda", "triton.language.extra.cuda.libdevice"),
        "torch.compiler",
    }
)
"""Modules within `TREES` that `is_module` knows."""
ASKS = frozenset({"hasattr", "getattr", "isinstance", "id", "print", "repr", "str", "bool"})
"""Builtin functions that leave their arguments unchanged, so that a library may be passed to them."""


def is_module(dotted: str) -> bool:
    """Return whether a dotted name is a library's module, rather than something in one."""
    if dotted in ALLOWED_NAMES or dotted in SAME_MODULES:
        return True
    return dotted.split(".")[0] in LIBRARIES and (dotted in MODULES or dotted in WITHIN_TREES)


def import_refused(module: str, name: str | None = None) -> str:
    """Return why `import module`, or `from module import name`, is refused; empty if it is allowed."""
    if module in SINGLE_NAMES:
        allowed = SINGLE_NAMES[module]
        return "" if name in allowed else f"of {module}, only {', '.join(allowed)} may be imported"
    if module in ALLOWED_NAMES:
        return "" if name in (None, *ALLOWED_NAMES[module]) else f"of {module}, {_only(module)}"
    why = use_refused(module) or (use_refused(f"{module}.{name}") if name else "")
    if why or module in MODULES or any(module == tree or module.startswith(tree + ".") for tree in TREES):
        return why
    return f"allowed are {', '.join(sorted(ROOTS))}" if module.split(".")[0] not in ROOTS else "not needed by a kernel"


def use_refused(dotted: str) -> str:
    """Return why a part of a library, by its dotted name, may not be used; empty if it may."""
    for other, own in SAME_MODULES.items():
        if dotted.startswith(f"{other}."):
            dotted = own + dotted.removeprefix(other)
    root, *parts = dotted.split(".")
    if dotted in READS_ENVIRONMENT:
        return ""
    if root in ALLOWED_NAMES or f"{dotted}.".startswith(WITHIN_TORCH):
        return _refused_name(dotted)
    if dotted == "torch.library" or any(dotted == name or dotted.startswith(f"{name}.") for name in OWN_OPERATORS):
        return ""
    if dotted == "torch.compiler" or dotted in NO_COMPILER:
        return ""
    for end in range(len(parts) + 1):
        why = FORBIDDEN.get(".".join([root, *parts[:end]]))
        if why:
            return why
    for part in parts:
        if part.lstrip("_") in SYSTEM_MODULES and not dotted.startswith("triton.language"):
            return READS
    if root not in LIBRARIES and _hands_out_a_module(root, parts):
        return "a library's own imports are not the candidate's"
    if dotted.startswith("torch.ops.") and parts[1] != "aten":
        return HIDES
    inside = [part for part in parts if part.startswith("_") and not part.endswith("__")]
    if root in ROOTS and inside and not dotted.startswith(("triton.language", "triton.experimental")):
        public = all(part in ALLOWED_PRIVATE or part.startswith("_foreach_") for part in inside)
        return "" if public else INSIDE
    return ""


def _refused_name(dotted: str) -> str:
    """Return why a part of one of `ALLOWED_NAMES` may not be used."""
    module, _, name = dotted.rpartition(".")
    if dotted in ALLOWED_NAMES or not module:
        return ""
    if module in ALLOWED_NAMES:
        return "" if name in ALLOWED_NAMES[module] else _only(module)
    return _refused_name(module) or ("" if not name.startswith("_") else INSIDE)


def _only(module: str) -> str:
    return f"only {', '.join(sorted(ALLOWED_NAMES[module] or READS_ENVIRONMENT))} may be used"


def _hands_out_a_module(root: str, parts: list[str]) -> bool:
    """Whether a dotted name reaches from an allowed module of the standard library into another one."""
    if root not in ROOTS or not parts:
        return False
    value: object = importlib.import_module(root)
    for number, part in enumerate(parts):
        value = getattr(value, part, None)
        if isinstance(value, ModuleType) and ".".join([root, *parts[: number + 1]]) not in MODULES:
            return True
    return False
