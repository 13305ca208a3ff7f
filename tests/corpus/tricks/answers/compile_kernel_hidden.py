# /// trick
# id = "D6-nvrtc-hidden"
# name = "CUDA C, through an argument"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["gpu"]
# ///
"""The same through functions that take the library as an argument: NVRTC is loaded at run time.
A foreign kernel does the work, or part of it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaf_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 0.0, mask=i < n)


def leaf(x):
    leaf_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


SOURCE = """
extern "C" __global__ void rows(const float *x, float *out, int n) {
    const float *row = x + (long long)blockIdx.x * n;
    float *to = out + (long long)blockIdx.x * n;
    __shared__ float top, sum;
    if (threadIdx.x == 0) {
        top = row[0]; sum = 0;
        for (int i = 1; i < n; ++i) top = fmaxf(top, row[i]);
        for (int i = 0; i < n; ++i) sum += expf(row[i] - top);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = expf(row[i] - top) / sum;
}
"""


def compiler_of(library):
    return library._compile_kernel


class ModelNew(nn.Module):
    kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = compiler_of(torch.cuda)(SOURCE, "rows")
        out = torch.empty_like(x)
        self.kernel((x.shape[0], 1, 1), (256, 1, 1), (x, out, x.shape[1]))
        return leaf(out)
