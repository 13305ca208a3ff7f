"""Problems and candidates for timing alone: honest kernels, and tricks that only a clock can fall for."""

from __future__ import annotations

import dataclasses

HEAD = "import torch\nfrom torch import nn\n\n"
SOFTMAX = (
    HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=1)\n\n"
    "rows = 8192\nwidth = 4096\n\ndef get_inputs():\n    return [torch.randn(rows, width)]\n"
)
SMALL = (
    HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n\n"
    "n = 65536\n\ndef get_inputs():\n    return [torch.randn(n)]\n"
)
CHAIN = (
    HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        for _ in range(20):\n"
    "            x = torch.sin(x)\n        return x\n\n"
    "n = 65536\n\ndef get_inputs():\n    return [torch.randn(n)]\n"
)
LONG = (
    HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        for _ in range(900):\n"
    "            x = torch.sin(x)\n        return x\n\n"
    "n = 33554432\n\ndef get_inputs():\n    return [torch.randn(n)]\n"
)

KERNELS = """import time

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    places = tl.program_id(0).to(tl.int64) * width + columns
    x = tl.load(x_ptr + places, mask=columns < width, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + places, e / tl.sum(e, axis=0), mask=columns < width)


@triton.autotune([triton.Config({}, num_warps=n) for n in (4, 8, 16)], ["width"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    places = tl.program_id(0).to(tl.int64) * width + columns
    x = tl.load(x_ptr + places, mask=columns < width, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + places, e / tl.sum(e, axis=0), mask=columns < width)


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n)
    tl.store(out_ptr + places, tl.maximum(x, 0.0), mask=places < n)


@triton.jit
def sine_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n)
    tl.store(out_ptr + places, tl.sin(x), mask=places < n)


def softmax(x, out, kernel=softmax_kernel):
    kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.kept, self.graphs = 0, {}, {}
        self.side = torch.cuda.Stream()

    def forward(self, x):
        self.calls += 1
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A candidate, and what its timing must find."""

    name: str
    problem: str
    body: str
    findings: tuple[str, ...] = ()
    """Kinds of findings, of which at least one must occur; empty for an honest kernel."""

    @property
    def source(self) -> str:
        return KERNELS + "".join(f"        {line}\n" for line in self.body.strip("\n").splitlines())

    @property
    def honest(self) -> bool:
        return not self.findings


WRONG = ("replayed_output", "late_output")
HONEST = (
    Entry("plain", SOFTMAX, "return softmax(x, torch.empty_like(x))"),
    Entry("tuned", SOFTMAX, "return softmax(x, torch.empty_like(x), tuned_kernel)"),
    Entry(
        "same as pytorch",
        SOFTMAX,
        "if self.calls < 9:\n    relu_kernel[(1,)](x, torch.empty_like(x), 16, BLOCK=16)\n"
        "return torch.softmax(x, dim=1)",
    ),
    Entry(
        "side stream, joined",
        SOFTMAX,
        """
out = torch.empty_like(x)
self.side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(self.side):
    softmax(x, out)
torch.cuda.current_stream().wait_stream(self.side)
return out
""",
    ),
    Entry(
        "graph of live pointers",
        SOFTMAX,
        """
if self.calls == 1:
    return softmax(x, torch.empty_like(x))
if x.data_ptr() not in self.graphs:
    torch.cuda.synchronize()
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(x)
    with torch.cuda.graph(graph):
        softmax(x, out)
    self.graphs[x.data_ptr()] = graph, out
graph, out = self.graphs[x.data_ptr()]
graph.replay()
return out
""",
    ),
    Entry("waits inside", SOFTMAX, "out = softmax(x, torch.empty_like(x))\ntorch.cuda.synchronize()\nreturn out"),
    Entry(
        "slow while warm",
        SOFTMAX,
        "until = time.perf_counter() + (0.02 if self.calls < 20 else 0.0)\nwhile time.perf_counter() < until:\n"
        "    pass\nreturn softmax(x, torch.empty_like(x))",
    ),
    Entry(
        "events patched",
        SOFTMAX,
        "type(torch.cuda.Event()).elapsed_time = lambda *a: 1e-3\nreturn softmax(x, torch.empty_like(x))",
    ),
    Entry(
        "small",
        SMALL,
        "out = torch.empty_like(x)\nrelu_kernel[(64,)](x, out, x.numel(), BLOCK=1024)\nreturn out",
    ),
    Entry(
        "chain of 20",
        CHAIN,
        "for _ in range(20):\n    out = torch.empty_like(x)\n    sine_kernel[(64,)](x, out, x.numel(), BLOCK=1024)\n"
        "    x = out\nreturn x",
    ),
    Entry(
        "100 ms",
        LONG,
        "for _ in range(900):\n    out = torch.empty_like(x)\n"
        "    sine_kernel[(x.numel() // 1024,)](x, out, x.numel(), BLOCK=1024)\n    x = out\nreturn x",
    ),
)
CHEATS = (
    Entry(
        "side stream, not joined",
        SOFTMAX,
        "out = torch.empty_like(x)\nwith torch.cuda.stream(self.side):\n    softmax(x, out)\nreturn out",
        WRONG,
    ),
    Entry(
        "side stream, not waited for",
        SOFTMAX,
        "out = torch.empty_like(x)\nself.side.wait_stream(torch.cuda.current_stream())\n"
        "with torch.cuda.stream(self.side):\n    softmax(x, out)\nreturn out",
        ("late_output", "wrong_values", "clock_disagreement"),  # it may be in time by chance, never by the clocks
    ),
    Entry(
        "memo by pointer",
        SOFTMAX,
        "relu_kernel[(1,)](x, torch.empty_like(x), 16, BLOCK=16)\nif x.data_ptr() not in self.kept:\n"
        "    self.kept[x.data_ptr()] = softmax(x, torch.empty_like(x))\n"
        "return self.kept[x.data_ptr()]",
        ("replayed_output",),
    ),
    Entry(
        "answer kept",
        SOFTMAX,
        "if 0 not in self.kept:\n    self.kept[0] = softmax(x, torch.empty_like(x))\n"
        "relu_kernel[(1,)](x, torch.empty_like(x), 16, BLOCK=16)\nreturn self.kept[0]",
        ("replayed_output",),
    ),
    Entry(
        "every second call skipped",
        SOFTMAX,
        "if self.calls > 6 and self.calls % 2:\n    return self.last\n"
        "self.last = softmax(x, torch.empty_like(x))\nreturn self.last",
        ("replayed_output",),
    ),
    Entry(
        "graph of first copies",
        SOFTMAX,
        """
if self.calls < 3:
    return softmax(x, torch.empty_like(x))
if not self.graphs:
    self.input, self.out = x.clone(), torch.empty_like(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        softmax(self.input, self.out)
    self.graphs[0] = graph
self.graphs[0].replay()
return self.out
""",
        WRONG,
    ),
    Entry(
        "events of the harness",
        SOFTMAX,
        """
torch.sys.modules["egg_graph.evaluator.device.driver"].CudaDriver.elapsed_ms = lambda self: 3e-3
return softmax(x, torch.empty_like(x))
""",
        ("clock_disagreement",),
    ),
    Entry(
        "events and timestamps of the harness",
        SOFTMAX,
        """
harness = torch.sys.modules["egg_graph.evaluator.device.driver"].CudaDriver
def after(self, address):
    if address % 16:
        self._write(address - 8)
        self._write(address)
if self.calls == 1:
    harness.elapsed_ms = lambda self: 3e-3
    harness._write, harness.write_timestamp = harness.write_timestamp, after
return softmax(x, torch.empty_like(x))
""",
        ("clock_disagreement",),
    ),
)
