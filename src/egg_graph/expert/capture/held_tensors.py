"""Tensors that modules just hold (`self.state = torch.zeros(4)`), neither parameters nor buffers. Imports torch."""

import torch


def hold_as_buffers(model: torch.nn.Module) -> frozenset[str]:
    """Make buffers of the tensors that modules just hold: the exporter follows a forward that changes a buffer only.

    Returns:
        Their qualified names.
    """
    names: set[str] = set()
    for prefix, module in model.named_modules():
        held = [name for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
        for name in held:
            value = vars(module).pop(name)
            module.register_buffer(name, value, persistent=False)
            names.add(f"{prefix}.{name}" if prefix else name)
    return frozenset(names)
