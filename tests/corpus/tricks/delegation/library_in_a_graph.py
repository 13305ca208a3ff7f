# /// trick
# id = "D2-graph"
# name = "library work inside a CUDA graph"
# problem = "matmul"
# expect = ["invalid"]
# where = ["gpu"]
# terms = {triton_only = true}
# ///
"""The library's product is captured once in a CUDA graph and replayed: no operator passes the dispatcher.
A Triton kernel copies the result."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def capture(self, a, b):
        left, right = torch.empty_like(a), torch.empty_like(b)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            left @ right
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            product = left @ right
        return graph, left, right, product

    def forward(self, a, b):
        key = (a.shape, b.shape)
        if key not in self.graphs:
            self.graphs[key] = self.capture(a, b)
        graph, left, right, product = self.graphs[key]
        left.copy_(a)
        right.copy_(b)
        graph.replay()
        out = torch.empty_like(product)
        copy_kernel[(triton.cdiv(out.numel(), 1024),)](product, out, out.numel(), BLOCK=1024)
        return out
