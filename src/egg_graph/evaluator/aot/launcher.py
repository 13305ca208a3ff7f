"""The C module that launches a compiled kernel. Triton before 3.7 builds one for each list of parameter types, which
takes the C compiler as long as Triton takes for a small kernel; since 3.7 one module launches all."""

from collections.abc import Sequence
from typing import Any

from egg_graph.schema import Hardware

NAME = "__triton_launcher"
"""By which Triton looks for it in its cache."""
DESCRIPTOR = "tensordesc"
"""Begin of the type of a tensor descriptor."""
HOPPER = 90
"""Compute capability, times ten."""


def is_built_by_types() -> bool:
    """Whether this Triton builds a module for each list of parameter types."""
    from triton.backends.nvidia import driver

    return hasattr(driver, "make_launcher")


def build_launcher(types: Sequence[Any], hardware: Hardware) -> None:
    """Build the module for kernels of some parameter types into Triton's cache, for a process on an NVIDIA GPU.

    Triton writes its text from a table of types: no word of a type is in it.

    Args:
        types: the values of `Launch.signature`, in order.
        hardware: the target. From Hopper on it loads by descriptors (TMA), which are passed otherwise then.

    Raises:
        KeyError: if Triton knows no such type.
        OSError, CalledProcessError: if the C compiler fails.
    """
    from triton.backends.nvidia import driver

    from egg_graph.evaluator.device.simulated import gpu_target

    descriptors = [kind for kind in types if isinstance(kind, str) and kind.startswith(DESCRIPTOR)]
    by_tma = gpu_target(hardware).arch >= HOPPER
    descriptions: list[dict[str, Any]] | None = [{} for _ in descriptors] if by_tma else None
    source = driver.make_launcher({}, dict(enumerate(map(as_tuples, types))), descriptions)
    driver.compile_module_from_src(
        src=source,
        name=NAME,
        library_dirs=driver.library_dirs(),
        include_dirs=driver.include_dirs,
        libraries=driver.libraries,
    )


def as_tuples(kind: Any) -> Any:
    """Turn the lists of a parameter's type, which come from JSON, into tuples."""
    return tuple(map(as_tuples, kind)) if isinstance(kind, list) else kind
