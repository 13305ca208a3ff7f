"""Which GPU to write for."""

from egg_graph.schema import BadInput, Hardware

DEFAULT_TARGET = "h200"
"""Written for where the machine has no GPU of its own."""


def choose_target(key: str, folder: str | None = None) -> Hardware:
    """The specification of the GPU that a kernel is written for.

    Args:
        key: a hardware key, or `auto` for the machine's own GPU (without one, `DEFAULT_TARGET`).
        folder: further specifications, beside those that ship.

    Raises:
        BadInput: if there is no specification of that name, or none of the machine's GPU.
    """
    from egg_graph.evaluator import environment
    from egg_graph.knowledge import detect_hardware, hardware_keys, load_hardware

    if key != "auto":
        return load_hardware(key, folder)
    name = environment().gpu
    if name is None:
        return load_hardware(DEFAULT_TARGET, folder)
    known = detect_hardware(name, folder)
    if known is None:
        keys = ", ".join(hardware_keys(folder))
        raise BadInput(f"no specification of this machine's GPU ({name}): pass target= one of {keys}")
    return load_hardware(known, folder)
