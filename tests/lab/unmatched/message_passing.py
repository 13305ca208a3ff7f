"""One round of a graph network: each node takes the largest of its rectified messages, feature by feature."""

import torch
from torch import nn

NODES = 65536
NEIGHBOURS = 16
FEATURES = 128


class Model(nn.Module):
    def forward(self, nodes: torch.Tensor, neighbours: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        messages = torch.relu(nodes[neighbours] + edges.unsqueeze(-1))
        return nodes + messages.amax(dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(NODES, FEATURES),
        torch.randint(0, NODES, (NODES, NEIGHBOURS)),
        torch.randn(NODES, NEIGHBOURS),
    ]


def get_init_inputs() -> list[int]:
    return []
