"""Simulate a GPU that is not there: `torch.cuda` and Triton's driver answer from the target's data sheet.

Only processes of the GPU-less ladder use it: it patches `torch.cuda` and `torch.compile` for the rest of the process.
"""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from egg_graph.schema import Hardware

DEFAULTS = {
    "multiprocessors": 132,
    "dram_capacity": 80e9,
    "l2_capacity": 50e6,
    "shared_memory_per_block": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "registers_per_multiprocessor": 65536,
    "max_warps_per_multiprocessor": 64,
    "warp_size": 32,
}
"""Figures of an H100, for a missing target or figure."""
IN_USE = 42 << 20
"""Bytes of GPU memory that count as in use: a process with inputs and weights holds some."""


def figure(hardware: Hardware | None, name: str) -> int:
    """Return a figure of the target; the default if it has none."""
    if hardware is not None and name in hardware.figures:
        return int(hardware.figures[name].value)
    return int(DEFAULTS[name])


def capability(hardware: Hardware | None) -> tuple[int, int]:
    """Return the compute capability: (9, 0) for `sm_90`; as PyTorch does for AMD: (9, 4) for `gfx942`."""
    arch = hardware.arch if hardware is not None else "sm_90"
    if arch.startswith("gfx"):
        digits = arch.removeprefix("gfx")
        return int(digits[:-2]), int(digits[-2], 16)
    number = int(arch.removeprefix("sm_").rstrip("a"))
    return number // 10, number % 10


def gpu_target(hardware: Hardware | None) -> Any:
    """Return Triton's compilation target."""
    from triton.backends.compiler import GPUTarget

    if hardware is not None and hardware.arch.startswith("gfx"):
        return GPUTarget("hip", hardware.arch, figure(hardware, "warp_size"))
    major, minor = capability(hardware)
    return GPUTarget("cuda", 10 * major + minor, 32)


def properties(hardware: Hardware | None) -> SimpleNamespace:
    """Return what `torch.cuda.get_device_properties` would."""
    major, minor = capability(hardware)
    return SimpleNamespace(
        name=hardware.name if hardware is not None else "NVIDIA H100",
        major=major,
        minor=minor,
        multi_processor_count=figure(hardware, "multiprocessors"),
        total_memory=figure(hardware, "dram_capacity"),
        L2_cache_size=figure(hardware, "l2_capacity"),
        warp_size=figure(hardware, "warp_size"),
        max_threads_per_block=1024,
        max_threads_per_multi_processor=figure(hardware, "warp_size")
        * figure(hardware, "max_warps_per_multiprocessor"),
        regs_per_multiprocessor=figure(hardware, "registers_per_multiprocessor"),
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=figure(hardware, "shared_memory_per_block"),
        shared_memory_per_multiprocessor=figure(hardware, "shared_memory_per_multiprocessor"),
        gcnArchName=hardware.arch if hardware is not None else "",
        is_integrated=False,
        is_multi_gpu_board=False,
    )


class _Stream:
    """The one stream of the simulated GPU."""

    cuda_stream = 0
    stream_id = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return _Event() if event is None else event

    def query(self) -> bool:
        return True


class _Event:
    """A point on that stream, which has always been reached. It measures no time: nothing runs on a GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class SimulatedDriver:
    """Triton's active driver, with the methods that wrappers of kernels call."""

    def __init__(self, hardware: Hardware | None) -> None:
        self.hardware = hardware
        self.utils = SimpleNamespace(get_device_properties=self._device_properties)

    def _device_properties(self, device: Any = 0) -> dict[str, int]:
        return {
            "max_shared_mem": figure(self.hardware, "shared_memory_per_block"),
            "max_num_regs": figure(self.hardware, "registers_per_multiprocessor"),
            "multiprocessor_count": figure(self.hardware, "multiprocessors"),
            "warpSize": figure(self.hardware, "warp_size"),
            "warp_size": figure(self.hardware, "warp_size"),
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 3_201_000,
            "mem_bus_width": 5120,
        }

    def get_current_target(self) -> Any:
        return gpu_target(self.hardware)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: Any = 0) -> int:
        return 0

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda


def simulate_gpu(hardware: Hardware | None) -> None:
    """Make this process's `torch.cuda`, `torch.compile` and Triton driver answer for the target; an H100 if None."""
    import torch
    from triton.runtime import driver

    capacity = figure(hardware, "dram_capacity")
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_name": lambda device=None: properties(hardware).name,
        "get_device_capability": lambda device=None: capability(hardware),
        "get_device_properties": lambda device=None: properties(hardware),
        "is_bf16_supported": lambda including_emulation=True: True,
        "current_stream": lambda device=None: _Stream(),
        "default_stream": lambda device=None: _Stream(),
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "_DeviceGuard": lambda index: nullcontext(),
        "device_of": lambda tensor: nullcontext(),
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        **dict.fromkeys(("memory_allocated", "max_memory_allocated"), lambda device=None: IN_USE // 2),
        **dict.fromkeys(("memory_reserved", "max_memory_reserved"), lambda device=None: IN_USE),
        "mem_get_info": lambda device=None: (capacity - IN_USE, capacity),
        "Stream": _Stream,
        "Event": _Event,
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    accelerator: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_stream": lambda device=None: _Stream(),
        "synchronize": lambda device=None: None,
    }
    for name, answer in accelerator.items():
        setattr(torch.accelerator, name, answer)
    torch.Tensor.record_stream = lambda self, stream: None  # of the one stream that there is
    torch.compile = _no_compile
    torch.from_numpy = torch.asarray  # the same function, but one that a dispatch mode sees
    driver.set_active(SimulatedDriver(hardware))


def _no_compile(model: Any = None, **_: Any) -> Any:
    """Stand in for `torch.compile` as the identity, because the interpreter cannot be traced."""
    return (lambda function: function) if model is None else model
