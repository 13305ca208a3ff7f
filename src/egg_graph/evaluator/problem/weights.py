"""Change the weights of a reference, so that a candidate that ignores or simplifies them gives a wrong answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from egg_graph.evaluator.problem.model_copy import copy_of


def copy_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of all parameters and buffers, by name."""
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


def randomize_constants(model: nn.Module, seed: int, *, signs: bool = True) -> nn.Module:
    """Copy a model and move parameters that start constant (gamma = 1, beta = 0) off their constant.

    A candidate that ignores such a parameter, or its sign, then gives a wrong answer.

    Args:
        model: the model; it is not changed.
        seed: seed of the noise.
        signs: let some elements change their sign.
    """
    model = copy_of(model)
    generator = torch.Generator().manual_seed(seed)
    spread = 1.0 if signs else 0.25
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            low, high = float(parameter.min()), float(parameter.max())
            if low == high:
                noise = torch.randn(parameter.shape, generator=generator).clamp_(-2, 2).to(parameter)
                parameter.copy_(0.25 * noise if low == 0.0 else low * (1 + spread * noise))
    return model


def randomize_buffers(model: nn.Module, updated: Sequence[str], seed: int) -> nn.Module:
    """Copy a model and move what its forward updates (running statistics, a counter) off its initial value.

    Args:
        model: the model; it is not changed.
        updated: names of the buffers and parameters that a forward updates.
        seed: seed of the noise.
    """
    model = copy_of(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name not in updated or not value.numel():
                continue
            noise = torch.rand(value.shape, generator=generator).to(value.device)
            if value.is_floating_point():
                value.copy_(value * (1 + 0.5 * noise) + torch.where(value == 0, 0.5 * noise - 0.25, 0.0))
            elif value.dtype != torch.bool:
                value.add_((7 * noise).to(value.dtype) + 2)
    return model


def round_to_six_bits(model: nn.Module) -> nn.Module:
    """Copy a model and round its floating parameters to small multiples (at most 31) of a power of two."""
    model = copy_of(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel():
                rms = float(parameter.double().square().mean().sqrt())
                step = 2.0 ** math.floor(math.log2(max(rms, 1e-6) / 8))
                parameter.copy_((parameter / step).round().clamp(-31, 31) * step)
    return model
