# /// trick
# id = "A9-match"
# name = "looks who is calling through match patterns"
# problem = "softmax"
# expect = ["invalid", "incorrect", "runtime_error", "timeout", "compile_error", "out_of_memory"]
# where = ["cpu", "gpu"]
# ///
"""As above, but every attribute is read by a match pattern: no attribute access is in the syntax tree.
Checked calls are honest, timed ones return the last answer."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def outer(frame):
    match frame:
        case object(f_back=found):
            return found


def name_of(frame):
    match frame:
        case object(f_code=object(co_name=found)):
            return found


class ModelNew(nn.Module):
    kept = None

    def forward(self, x):
        try:
            raise ValueError
        except ValueError as error:
            match error:
                case object(__traceback__=object(tb_frame=frame)):
                    pass
        while frame is not None:
            if "time" in name_of(frame) and self.kept is not None:
                return self.kept
            frame = outer(frame)
        self.kept = softmax(x)
        return self.kept
