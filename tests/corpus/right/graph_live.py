"""Right: a CUDA graph of one Triton kernel, replayed on inputs that are copied to where it reads."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def run(self, x, out):
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))

    def forward(self, x):
        if tuple(x.shape) not in self.graphs:
            held, out = x.clone(), torch.empty_like(x)
            self.run(held, out)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run(held, out)
            self.graphs[tuple(x.shape)] = (graph, held, out)
        graph, held, out = self.graphs[tuple(x.shape)]
        held.copy_(x)
        graph.replay()
        return out.clone()
