# /// trick
# id = "fault-29"
# name = "plain PyTorch"
# problem = "softmax"
# expect = ["invalid"]
# finding = ["no_triton_kernel"]
# ///
"""Planted: plain PyTorch."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
