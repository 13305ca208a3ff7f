"""References that the heavy playbooks must turn into kernels, with the shapes and structures to check them at."""

from dataclasses import dataclass
from pathlib import Path

HEAD = "import math\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"
POLICY_DTYPE = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True)
class Case:
    """One reference; `kinds` are `precision/variant` (an empty variant is the playbook's own first choice)."""

    reference: str
    kinds: tuple[str, ...]
    shapes: tuple[dict[str, int], ...]
    """Small ones for an interpreter: the first is awkward."""
    compile: tuple[str, ...] = ()
    """Of `kinds`, those to compile at full shape."""


def module(body: str, sizes: str, inputs: str, arguments: str = "x", init: str = "", init_args: str = "") -> str:
    """A reference in KernelBench's form."""
    lines = [f"{sizes}\n\n\nclass Model(nn.Module):"]
    if init:
        head, *rest = init.split("; ")
        lines.append(f"    def __init__(self, {head}):\n        super().__init__()")
        lines += [f"        {line}" for line in rest]
    lines.append(f"    def forward(self, {arguments}):")
    lines += [f"        {line}" for line in body.split("; ")]
    lines.append(f"\n\ndef get_inputs():\n    return [{inputs}]\n")
    lines.append(f"\ndef get_init_inputs():\n    return [{init_args}]\n")
    return HEAD + "\n".join(lines)


def product(body: str, inputs: str, arguments: str = "a, b", sizes: str = "Z, M, K, N = 6, 2048, 1024, 4096") -> str:
    return module(body, sizes, inputs, arguments)


def attention(body: str, more: str = "", argument: str = "", head: int = 64, batch: str = "B, H, ") -> str:
    tensors = ", ".join(f"torch.randn({batch}T, D)" for _ in range(3))
    return module(body, f"B, H, T, D = 4, 16, 2048, {head}", tensors + more, f"q, k, v{argument}")


def scan(body: str, inputs: str, arguments: str = "x", sizes: str = "B, N, I = 8192, 32768, 512") -> str:
    return module(body, sizes, inputs, arguments)


def convolution(layer: str, inputs: str, ones: str, few: int = 32, out: int = 64, tail: str = "n") -> str:
    """A convolution of `few` channels into `out`, and stride S, with a tail of which every part is elementwise."""
    return module(
        "y = self.conv(x); return F.mish(y) * self.scale + y",
        f"B, C, N, H, S = 8, {few}, {out}, 48, 2", inputs,
        init=f"c, n, s; self.conv = {layer}; self.scale = nn.Parameter(torch.randn({tail}, {ones}))",
        init_args="C, N, S",
    )  # fmt: skip


def wide_row(body: str, sizes: str = "R, N = 16, 4194304") -> str:
    return module(body, sizes, "torch.randn(R, N)")


def recurrence(cell: str, options: str, directions: int = 1, layers: int = 2) -> str:
    """A recurrence whose results are all looked at."""
    cells = cell == "LSTM"
    last, first = ("(h, c)", "(h0, c0)") if cells else ("h", "h0")
    state = f"torch.rand({directions * layers}, B, H)"
    return module(
        f"y, {last} = self.cell(x, {first}); return torch.cat([y.flatten(), h.flatten(){', c.flatten()' * cells}])",
        "B, T, I, H = 10, 512, 128, 256",
        f"torch.rand({'B, T' if 'batch_first' in options else 'T, B'}, I), {state}{f', {state}' * cells}",
        f"x, h0{', c0' * cells}",
        init=f"i, h; self.cell = nn.{cell}(i, h, {layers}{options})", init_args="I, H",
    )  # fmt: skip


GEMM_SHAPES = ({"M": 37, "K": 50, "N": 71}, {"M": 64, "K": 96, "N": 48})
ATTENTION_SHAPES = ({"B": 2, "H": 4, "T": 77}, {"B": 1, "H": 2, "T": 128})
RECURRENCE_SHAPES = ({"B": 3, "T": 5, "I": 7, "H": 19}, {"B": 17, "T": 3, "I": 16, "H": 16})
SCAN_SHAPES = ({"B": 5, "N": 1237, "I": 19}, {"B": 3, "N": 2048, "I": 32})
AB = "torch.randn(M, K), torch.randn(K, N)"

CASES: dict[str, Case] = {
    "linear_gelu": Case(
        module(
            "return F.gelu(self.linear(x))", "M, K, N = 1024, 2048, 8192", "torch.randn(M, K)",
            init="k, n; self.linear = nn.Linear(k, n)", init_args="K, N",
        ),
        ("tf32/tma", "tf32/split_k", "ieee/tma", "fp16/pointer"),
        GEMM_SHAPES,
        ("tf32/tma",),
    ),
    "recurrence_lstm": Case(
        recurrence("LSTM", ", batch_first=True", layers=3), ("tf32/", "ieee/", "bf16/"), RECURRENCE_SHAPES
    ),
    "recurrence_gru": Case(recurrence("GRU", ""), ("tf32/",), RECURRENCE_SHAPES),
    "recurrence_gru_both_ways": Case(
        recurrence("GRU", ", batch_first=True, bidirectional=True", 2), ("tf32/", "fp16/"), RECURRENCE_SHAPES,
        ("tf32/",),
    ),
    "recurrence_lstm_both_ways": Case(
        recurrence("LSTM", ", bias=False, bidirectional=True", 2, 4), ("tf32/",), RECURRENCE_SHAPES
    ),
    "recurrence_tanh": Case(recurrence("RNN", ""), ("tf32/",), RECURRENCE_SHAPES),
    "recurrence_relu": Case(recurrence("RNN", ", nonlinearity='relu', bias=False"), ("ieee/",), RECURRENCE_SHAPES),
    "linear_relu": Case(  # compiled in a third of the time of a GELU
        module(
            "return F.relu(self.linear(x))", "M, K, N = 1024, 2048, 8192", "torch.randn(M, K)",
            init="k, n; self.linear = nn.Linear(k, n)", init_args="K, N",
        ),
        ("tf32/pointer", "tf32/tma_registers", "ieee/pointer", "bf16/pointer", "bf16/tma"),
        GEMM_SHAPES,
        ("tf32/pointer", "tf32/tma_registers", "ieee/pointer", "bf16/pointer", "bf16/tma"),
    ),
    "long_epilogue": Case(
        module(
            "y = F.silu(self.linear(x)) * 2.0 + r; return torch.relu(y * self.table) * m / x.shape[1]**0.5",
            "B, T, K, N = 4, 512, 1024, 4096",
            "torch.randn(B, T, K), torch.randn(B, T, N), torch.randn(B, 1, 1)", "x, r, m",
            init="k, n, t; self.linear = nn.Linear(k, n); self.table = nn.Parameter(torch.randn(t, n))",
            init_args="K, N, T",
        ),
        ("tf32/pointer", "tf32/tma", "bf16/tma"),
        ({"B": 3, "T": 13, "K": 50, "N": 71},),
        ("tf32/tma",),
    ),
    "batched": Case(
        product("return torch.matmul(a, b) * 0.5", "torch.randn(2, Z // 2, M, K), torch.randn(Z // 2, K, N)"),
        ("tf32/pointer", "tf32/tma", "tf32/tma_registers", "tf32/split_k", "bf16/tma"),
        ({"Z": 4, "M": 37, "K": 50, "N": 71},),
        ("bf16/tma",),
    ),
    "matrix_vector": Case(
        product(
            "return torch.relu(a @ b + c)", "torch.randn(M, K), torch.randn(K, 1), torch.randn(M, 1)", "a, b, c",
            "M, K = 2048, 1048576",
        ),
        ("tf32/vector", "ieee/vector", "bf16/vector"),
        ({"M": 37, "K": 5001}, {"M": 3, "K": 20}),
        ("tf32/vector",),
    ),
    "row_major_b": Case(
        product("return torch.relu(a @ b)", AB),
        ("tf32/pointer", "tf32/tma", "tf32/tma_registers", "bf16/tma"),
        GEMM_SHAPES,
        ("tf32/tma_registers", "bf16/tma"),
    ),
    "both_transposed": Case(
        product("return a.T @ b.T", "torch.randn(K, M), torch.randn(N, K)"),
        ("tf32/pointer", "tf32/tma", "bf16/tma"),
        GEMM_SHAPES[:1],
        ("tf32/pointer",),
    ),
    "addmm": Case(
        product("return torch.sigmoid(torch.addmm(c, a, b, alpha=0.5, beta=2.0))", f"torch.randn(N), {AB}", "c, a, b"),
        ("tf32/tma_registers", "bf16/pointer"),
        GEMM_SHAPES[:1],
    ),
    "baddbmm": Case(
        product(
            "return torch.baddbmm(c, a, b)", "torch.randn(Z, 1, N), torch.randn(Z, M, K), torch.randn(Z, K, N)",
            "c, a, b",
        ),
        ("tf32/pointer",),
        ({"Z": 3, "M": 37, "K": 50, "N": 71},),
    ),
    "long_k": Case(
        product("return a @ b + 1.0", AB, sizes="M, K, N = 128, 262144, 128"),
        ("tf32/",),
        ({"M": 19, "K": 1031, "N": 37},),
        ("tf32/",),
    ),
    "packed_weights": Case(
        module(
            "both = torch.stack((self.packed & 15, self.packed >> 4), -1).flatten(1).to(x.dtype); "
            "w = (both.unflatten(1, (-1, self.group)) - self.zero.unsqueeze(-1)) * self.scale.unsqueeze(-1); "
            "return x @ (w.flatten(1) * self.rows).t()",
            "B, M, K, N, G = 2, 32, 2048, 4096, 128", "torch.randn(B, M, K)",
            init="k, n, g; self.group = g; self.scale = nn.Parameter(torch.rand(n, k // g)); "
            "self.zero = nn.Parameter(torch.randint(0, 16, (n, k // g)).float()); "
            "self.rows = nn.Parameter(torch.rand(n, 1)); "
            "self.register_buffer('packed', torch.randint(0, 256, (n, k // 2), dtype=torch.uint8))",
            init_args="K, N, G",
        ),
        ("bf16/", "fp16/"),
        ({"B": 3, "M": 7, "K": 96, "N": 37, "G": 32}, {"K": 256, "M": 5, "N": 48}),
        ("bf16/",),
    ),
    "swiglu": Case(
        module(
            "return self.down(F.silu(self.gate(x)) * self.up(x))", "M, K, N = 2048, 1024, 4096", "torch.randn(M, K)",
            init="k, n; self.gate = nn.Linear(k, n, bias=False); self.up = nn.Linear(k, n, bias=False); "
            "self.down = nn.Linear(n, k, bias=False)",
            init_args="K, N",
        ),
        ("tf32/", "bf16/tma"),
        GEMM_SHAPES[:1],
    ),
    "causal": Case(
        attention("return F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
        ("tf32/pointer", "tf32/tma", "bf16/pointer", "bf16/tma", "ieee/pointer"),
        ATTENTION_SHAPES,
        ("tf32/pointer", "tf32/tma", "bf16/tma", "ieee/pointer"),
    ),
    "wide_head": Case(
        attention("return F.scaled_dot_product_attention(q, k, v, is_causal=True)", head=128),
        ("tf32/tma",),
        ATTENTION_SHAPES[:1],
        ("tf32/tma",),
    ),
    "odd_head": Case(
        attention("return F.scaled_dot_product_attention(q, k, v)", head=80),
        ("tf32/tma", "bf16/tma"),
        ATTENTION_SHAPES[:1],
    ),
    "boolean_mask": Case(
        attention(
            "return F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
            ", (torch.rand(B, 1, T, T) > 0.5) & (torch.arange(T) != 3)[:, None]", ", m",
        ),
        ("tf32/pointer", "bf16/tma"),
        ATTENTION_SHAPES[:1],
    ),
    "added_mask": Case(
        attention(
            "return F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.2)", ", torch.randn(T, T)", ", m"
        ),
        ("tf32/tma",),
        ATTENTION_SHAPES[:1],
    ),
    "shared_heads": Case(
        attention(
            "half = k.shape[1] // 2; "
            "return F.scaled_dot_product_attention(q, k[:, :half], v[:, :half], is_causal=True, enable_gqa=True)"
        ),
        ("tf32/pointer", "bf16/tma"),
        ATTENTION_SHAPES[:1],
    ),
    "few_queries": Case(
        attention(
            "half = k.shape[1] // 2; "
            "return F.scaled_dot_product_attention(q[:, :, :3], k[:, :half], v[:, :half], enable_gqa=True)"
        ),
        ("tf32/split_keys", "bf16/split_keys"),
        ({"B": 2, "H": 4, "T": 301},),
        ("bf16/split_keys",),
    ),
    "three_dimensions": Case(
        attention("return F.scaled_dot_product_attention(q, k, v)", batch="B, "),
        ("tf32/pointer",),
        ATTENTION_SHAPES[:1],
    ),
    "written_out": Case(
        module(
            "b, t, c = x.shape; "
            "q, k, v = (z.view(b, t, self.h, c // self.h).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1)); "
            "s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(c // self.h); "
            "s = s.masked_fill(~torch.tril(torch.ones(t, t, device=x.device, dtype=torch.bool)), float('-inf')); "
            "return (torch.softmax(s, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)",
            "B, H, T, D = 2, 16, 2048, 64", "torch.randn(B, T, H * D)",
            init="h, d; self.h = h; self.qkv = nn.Linear(h * d, 3 * h * d)", init_args="H, D",
        ),
        ("tf32/tma", "ieee/pointer"),
        ATTENTION_SHAPES[:1],
    ),
    "cumsum": Case(
        scan("return torch.cumsum(x, dim=1)", "torch.randn(B, N)"),
        ("tf32/pieces", "tf32/rows", "bf16/pieces"),
        SCAN_SHAPES,
        ("tf32/pieces", "tf32/rows"),
    ),
    "masked_cumsum": Case(
        scan("return torch.cumsum(x * m, dim=1)", "torch.randn(B, N), torch.rand(B, N) > 0.5", "x, m"),
        ("tf32/pieces",),
        SCAN_SHAPES[:1],
        ("tf32/pieces",),
    ),
    "cumsum_from_end": Case(
        scan("return torch.cumsum(x.flip(1), dim=1).flip(1) * 2 + 1", "torch.randn(B, N)"),
        ("tf32/pieces", "tf32/rows"),
        SCAN_SHAPES[:1],
        ("tf32/pieces",),
    ),
    "cumsum_exclusive": Case(
        scan(
            "y = torch.cumsum(x[:, :-1], dim=1); return torch.cat([torch.zeros_like(x[:, :1]), y], dim=1)",
            "torch.randn(B, N)",
        ),
        ("tf32/rows", "tf32/pieces"),
        SCAN_SHAPES[:1],
    ),
    "exclusive_sum_of_columns": Case(
        scan(
            "y = torch.cumsum(x[:, :-1], 1); return torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), y), 1)",
            "torch.randn(B, N, I)",
            sizes="B, N, I = 64, 4096, 512",
        ),
        ("tf32/",),
        ({"B": 3, "N": 77, "I": 19},),
    ),
    "cumprod": Case(
        scan("return torch.cumprod(x, dim=1)", "torch.rand(B, N) * 0.001 + 1"), ("tf32/",), SCAN_SHAPES[:1]
    ),
    "cumsum_of_columns": Case(
        scan(
            "return torch.exp(torch.cumsum(torch.exp(x), dim=1))", "torch.randn(B, N, I) * 0.01 - 9",
            sizes="B, N, I = 64, 1024, 512",
        ),
        ("tf32/",),
        ({"B": 3, "N": 77, "I": 19},),
        ("tf32/",),
    ),
    "short_rows": Case(
        scan("return torch.cumsum(x, -1)", "torch.randn(B, N)", sizes="B, N = 65536, 200"),
        ("tf32/",),
        ({"B": 33, "N": 77},),
    ),
    "integers": Case(
        scan("return torch.cumsum(x, 1)", "torch.randint(-9, 9, (B, N))"), ("tf32/",), SCAN_SHAPES[:1], ("tf32/",)
    ),
    "scaled_softmax": Case(
        wide_row("return torch.softmax(0.3 * x, dim=1)", "R, N = 4096, 8192"),
        ("ieee/whole", "ieee/looped"), ({"R": 3, "N": 1237},), ("ieee/whole",),
    ),
    "few_long_rows": Case(
        wide_row("return F.layer_norm(x, (x.shape[1],))"), ("ieee/split",), ({"R": 3, "N": 9001},), ("ieee/split",)
    ),
    "group_norm": Case(
        module(
            "return self.norm(x)", "B, C, H = 112, 64, 128", "torch.randn(B, C, H, H)",
            init="c; self.norm = nn.GroupNorm(8, c)", init_args="C",
        ),
        ("ieee/split", "ieee/looped"),
        ({"B": 2, "C": 16, "H": 37},),
        ("ieee/split", "ieee/looped"),
    ),
    "pooling_in_3d": Case(
        module(
            "return torch.relu(F.max_pool3d(x, 3, 2, 1, 2))", "B, H = 16, 64", "torch.randn(B, 8, H, H + 1, H - 1)"
        ),
        ("ieee/",),
        ({"B": 2, "H": 7},),
        ("ieee/",),
    ),
    "batch_norm": Case(
        module(
            "return F.hardtanh(self.norm(x.abs()), -1.0, 2.0) + x", "B, C, H = 32, 32, 63",
            "torch.randn(B, C, H, H + 2) * 2 + 9", init="c; self.norm = nn.BatchNorm2d(c, momentum=0.5)", init_args="C",
        ),
        ("tf32/", "bf16/"),
        ({"B": 5, "C": 16, "H": 17}, {"B": 17, "C": 3, "H": 7}),
        ("tf32/", "bf16/"),
    ),
    "pooling_aligned": Case(
        module(
            "x = F.avg_pool3d(F.layer_norm(x, (64,), w), 2); return F.max_pool3d(x, 3, 1, 1)",
            "B, H = 32, 32", "torch.randn(B, 8, H, H, 64), torch.randn(64)", arguments="x, w",
        ),
        ("ieee/",),
        ({"B": 1, "H": 6},),
        ("ieee/",),
    ),
    "pooling_rolling": Case(
        module(
            "x = torch.relu(F.avg_pool2d(x, (3, 5), 1, (1, 2), count_include_pad=False)) * w[:, None, None]; "
            "return F.max_pool2d(F.avg_pool2d(x, 4, 1, ceil_mode=True), (5, 2), (1, 1), (2, 1), dilation=(1, 2)) - 1",
            "B, C, H = 16, 8, 61", "torch.randn(B, C, H, H + 3), torch.randn(C)", arguments="x, w",
        ),
        ("ieee/", "bf16/"),
        ({"B": 2, "H": 9}, {"B": 1, "C": 3, "H": 20}),
        ("ieee/",),
    ),
    "pooling_unaligned": Case(
        module(
            "x = F.avg_pool2d(F.group_norm(x, 4, w), 3); return F.max_pool2d(x, 2)",
            "B, H = 64, 127", "torch.randn(B, 8, H, H), torch.randn(8)", arguments="x, w",
        ),
        ("ieee/",),
        ({"B": 2, "H": 20}, {"B": 1, "H": 13}),
    ),
    "convolution_few_channels": Case(
        convolution("nn.Conv3d(c, n, 3, padding=(1, 0, 1))", "torch.randn(B, C, H, H, H - 1)", "1, 1, 1", few=3),
        ("tf32/padded", "tf32/planes", "bf16/padded"),
        ({"B": 2, "N": 20, "H": 7},),
        ("tf32/padded", "tf32/planes"),
    ),
    "convolution_runs_of_outputs": Case(
        convolution(
            "nn.Conv2d(c, n // 4, (3, 5), (s, 3), (0, 2), (2, 1), groups=2)", "torch.randn(B, C, H, H - 1)", "1, 1",
            few=10, tail="n // 4",
        ),
        ("tf32/padded", "ieee/padded"),
        ({"B": 2, "N": 56, "H": 30},),
        ("tf32/padded",),
    ),
    "convolution_runs_that_end_beyond_the_line": Case(
        convolution("nn.Conv1d(c, n // 2, 4, bias=False)", "torch.randn(B, C, H)", "1", few=2, tail="n // 2"),
        ("tf32/padded",),
        ({"B": 2, "N": 64, "H": 300},),
    ),
    "convolution_pooled": Case(  # an average of the filter is what remains of the pooling
        module(
            "y = self.conv(x) * self.scale; return torch.sigmoid(F.avg_pool2d(y + self.bias, 4))",
            "B, C, N, H = 8, 8, 64, 98", "torch.randn(B, C, H, H)",
            init="c, n; self.conv = nn.Conv2d(c, n, 3); self.scale = nn.Parameter(torch.randn(())); "
            "self.bias = nn.Parameter(torch.randn(n, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/padded",),
        ({"B": 2, "C": 3, "N": 19, "H": 21},),
    ),
    "convolution_transposed_pooled": Case(
        module(
            "return F.avg_pool3d(self.conv(x) * self.scale, 2) + 1",
            "B, C, N, H, K, S = 8, 5, 24, 20, 3, 2", "torch.randn(B, C, H, H + 3, H)",
            init="c, n, k, s; self.conv = nn.ConvTranspose3d(c, n, k, stride=s, padding=1); "
            "self.scale = nn.Parameter(torch.randn(()))",
            init_args="C, N, K, S",
        ),
        ("ieee/padded",),
        ({"B": 1, "H": 5}, {"B": 1, "C": 2, "N": 3, "H": 7, "K": 2, "S": 1}, {"B": 1, "C": 2, "N": 3, "H": 6, "S": 1}),
    ),
    "convolution_softmax_over_channels": Case(
        module(
            "y = self.conv(x) * 2; return torch.sigmoid(torch.softmax(y, 1) + self.bias)",
            "B, C, N, H = 8, 3, 24, 34", "torch.randn(B, C, H, H - 1, H)",
            init="c, n; self.conv = nn.Conv3d(c, n, 3); self.bias = nn.Parameter(torch.randn(n, 1, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/padded", "tf32/planes", "bf16/padded"),
        ({"B": 2, "N": 19, "H": 7}, {"B": 1, "C": 2, "N": 70, "H": 5}),
        ("tf32/padded",),
    ),
    "convolution_least_of_channels": Case(
        module(
            "y = self.conv(x) * 2; least = torch.min(y, dim=1, keepdim=True)[0]; "
            "return torch.tanh(least) + y.var(1, keepdim=True) + self.bias",
            "B, C, N, H = 8, 64, 128, 64", "torch.randn(B, C, H, H)",
            init="c, n; self.conv = nn.Conv2d(c, n, 3, padding=1); self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/planes", "tf32/channels_last", "ieee/planes"),
        ({"B": 2, "C": 20, "N": 19, "H": 11},),
        ("tf32/channels_last",),
    ),
    "convolution_transposed_logsumexp_of_channels": Case(
        module(
            "y = torch.logsumexp(self.conv(x), 1, True); "
            "return torch.clamp(y * torch.sigmoid(y + 3) - self.bias, -9, 9)",
            "B, C, N, H = 8, 16, 16, 15", "torch.randn(B, C, H, H + 1, H)",
            init="c, n; self.conv = nn.ConvTranspose3d(c, n, 3, stride=2, padding=1); "
            "self.bias = nn.Parameter(torch.randn(1))",
            init_args="C, N",
        ),
        ("tf32/phases", "tf32/planes", "tf32/channels_last"),
        ({"B": 2, "C": 20, "N": 19, "H": 3},),
        ("tf32/planes",),
    ),
    "convolution_mean_of_pixels": Case(
        module(
            "return F.adaptive_avg_pool2d(F.gelu(self.conv(x)), 1) + self.bias",
            "B, C, N, H = 8, 8, 64, 66", "torch.randn(B, C, H, H)",
            init="c, n; self.conv = nn.Conv2d(c, n, 3, padding=1); self.bias = nn.Parameter(torch.randn(n, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/padded", "bf16/padded"),
        ({"B": 2, "C": 3, "N": 19, "H": 17},),
        ("tf32/padded",),
    ),
    "convolution_mean_of_a_group_norm": Case(
        module(
            "return self.norm(F.hardswish(self.conv(x))).mean(dim=(1, 2, 3, 4))",
            "B, C, N, G, H = 8, 3, 24, 8, 34", "torch.randn(B, C, H, H - 1, H)",
            init="c, n, g; self.conv = nn.Conv3d(c, n, 3); self.norm = nn.GroupNorm(g, n); "
            "nn.init.normal_(self.norm.weight)",
            init_args="C, N, G",
        ),
        ("tf32/padded", "ieee/padded"),
        ({"B": 2, "N": 40, "H": 9}, {"B": 1, "C": 2, "N": 16, "H": 5}),
    ),
    "convolution_least_of_the_depth": Case(
        module(
            "y = torch.amin(self.conv(x) * 2, dim=2); return torch.softmax(y, 1) * self.scale",
            "B, C, N, H = 8, 3, 24, 34", "torch.randn(B, C, H, H - 1, H)",
            init="c, n; self.conv = nn.Conv3d(c, n, 3, stride=(2, 1, 1)); "
            "self.scale = nn.Parameter(torch.randn(n, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/padded", "bf16/padded"),
        ({"B": 2, "N": 19, "H": 8}, {"B": 1, "C": 2, "N": 70, "H": 5}),
        ("tf32/padded",),
    ),
    "convolution_greatest_of_windows": Case(
        module(
            "y = F.max_pool3d(torch.tanh(self.conv(x) / 2), 2) + self.bias; return y.mean((2, 3, 4), keepdim=True)",
            "B, C, N, H = 8, 8, 16, 34", "torch.randn(B, C, H, H - 1, H + 3)",
            init="c, n; self.conv = nn.Conv3d(c, n, 3); self.bias = nn.Parameter(torch.randn(n, 1, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/padded", "ieee/padded"),
        ({"B": 2, "C": 3, "N": 11, "H": 9}, {"B": 1, "C": 2, "N": 17, "H": 6}),
        ("tf32/padded",),
    ),
    "convolution_greatest_of_wide_windows": Case(
        module(
            "return F.max_pool2d(torch.tanh(self.conv(x)) * 2 + self.bias, 4) * self.scale",
            "B, C, N, H = 8, 8, 64, 66", "torch.randn(B, C, H, H)",
            init="c, n; self.conv = nn.Conv2d(c, n, 3); self.bias = nn.Parameter(torch.randn(n, 1, 1)); "
            "self.scale = nn.Parameter(torch.randn(1))",
            init_args="C, N",
        ),
        ("tf32/padded",),
        ({"B": 2, "C": 3, "N": 11, "H": 17}, {"B": 1, "C": 2, "N": 17, "H": 23}),
        ("tf32/padded",),
    ),
    "convolution_transposed_greatest_of_phases": Case(  # windows and phases begin at the same places
        module(
            "y = torch.softmax(F.max_pool3d(self.conv(x), 2), 1) - self.bias.view(1, -1, 1, 1, 1); "
            "return torch.max(y * torch.sigmoid(y), dim=1)[0]",
            "B, C, N, H = 8, 3, 16, 16", "torch.randn(B, C, H, H + 1, H)",
            init="c, n; self.conv = nn.ConvTranspose3d(c, n, 3, stride=2, padding=1, output_padding=1); "
            "self.bias = nn.Parameter(torch.randn(n))",
            init_args="C, N",
        ),
        ("tf32/pooled_phases", "ieee/pooled_phases", "bf16/pooled_phases"),
        ({"B": 2, "N": 19, "H": 3}, {"B": 1, "C": 6, "H": 5}),
        ("tf32/pooled_phases", "ieee/pooled_phases"),
    ),
    "convolution_transposed_mean_of_phases": Case(  # a tap reaches across windows, and the last outputs are in none
        module(
            "y = F.leaky_relu(self.conv(x), 0.2) * self.scale; y = F.max_pool2d(F.leaky_relu(y, 0.2), 2); "
            "return torch.clamp(F.adaptive_avg_pool2d(y, 1), -1, 1)",
            "B, C, N, H = 8, 16, 48, 32", "torch.randn(B, C, H, H + 1)",
            init="c, n; self.conv = nn.ConvTranspose2d(c, n, (5, 4), 2, (0, 3), (1, 0), dilation=(1, 3)); "
            "self.scale = nn.Parameter(torch.randn(n, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/pooled_phases", "ieee/pooled_phases", "bf16/pooled_phases"),
        ({"B": 2, "C": 11, "N": 19, "H": 7}, {"B": 1, "N": 70, "H": 12}),
        ("tf32/pooled_phases", "ieee/pooled_phases"),
    ),
    "convolution_transposed_greatest_of_few_phases": Case(
        module(
            "return F.max_pool3d(self.conv(x), (2, 1, 4), stride=(2, 1, 4)) * self.scale",
            "B, C, N, H = 8, 8, 24, 16", "torch.randn(B, C, H, H, H)",
            init="c, n; self.conv = nn.ConvTranspose3d(c, n, (2, 3, 7), (2, 1, 4), (3, 1, 2), bias=False); "
            "self.scale = nn.Parameter(torch.randn(n, 1, 1, 1))",
            init_args="C, N",
        ),
        ("tf32/pooled_phases",),
        ({"B": 2, "C": 5, "N": 10, "H": 4},),
        ("tf32/pooled_phases",),
    ),
    "convolution_strided": Case(
        convolution("nn.Conv2d(c, n, (3, 5), s, (1, 2), (2, 1))", "torch.randn(B, C, H, H - 1)", "1, 1"),
        ("tf32/planes", "tf32/channels_last", "ieee/planes", "bf16/channels_last"),
        ({"B": 2, "C": 20, "N": 24, "H": 13},),
        ("tf32/planes", "tf32/channels_last"),
    ),
    "convolution_groups": Case(
        convolution("nn.Conv1d(c, n, 3, s, groups=2, bias=False)", "torch.randn(B, C, H)", "1"),
        ("tf32/planes",),
        ({"B": 2, "C": 40, "N": 20, "H": 39},),
    ),
    "convolution_transposed": Case(
        convolution("nn.ConvTranspose3d(c, n, (3, 2, 3), s, 1)", "torch.randn(B, C, H, H, H + 1)", "1, 1, 1"),
        ("tf32/planes", "tf32/channels_last"),
        ({"B": 1, "C": 16, "N": 20, "H": 4}, {"B": 2, "C": 16, "N": 16, "H": 3, "S": 1}),
        ("tf32/planes",),
    ),
    "convolution_transposed_interleaved": Case(
        convolution(
            "nn.ConvTranspose2d(c, n, (3, 4), (3, 2), 1, (1, 0))", "torch.randn(B, C, H + 1, H)", "1, 1", out=128
        ),
        ("tf32/planes", "tf32/channels_last", "tf32/phases"),
        ({"B": 2, "C": 16, "N": 20, "H": 5}, {"B": 1, "C": 20, "N": 16, "H": 17}),
        ("tf32/channels_last", "tf32/phases"),
    ),
    "convolution_transposed_interleaved_flat": Case(
        convolution(
            "nn.ConvTranspose3d(c, n, (3, 5, 7), 2, (1, 0, 3), groups=2, dilation=(2, 1, 1))",
            "torch.randn(B, C, H, H, H + 1)", "1, 1, 1", few=6,
        ),
        ("tf32/planes", "tf32/phases", "ieee/phases", "bf16/phases"),
        ({"B": 2, "N": 20, "H": 3}, {"B": 1, "N": 70, "H": 4}),
        ("tf32/phases", "ieee/phases"),
    ),
    "convolution_transposed_groups": Case(  # half of each step over innermost channels is padding
        convolution(
            "nn.ConvTranspose3d(c, n, (3, 2, 5), (2, 1, 2), 1, groups=2)", "torch.randn(B, C, H, H, H + 1)", "1, 1, 1",
            few=16,
        ),
        ("tf32/channels_last", "tf32/planes", "bf16/channels_last", "tf32/phases"),
        ({"B": 2, "N": 20, "H": 4}, {"B": 1, "N": 12, "H": 3}),
        ("tf32/channels_last", "tf32/phases"),
    ),
    "convolution_transposed_dilated": Case(
        convolution(
            "nn.ConvTranspose2d(c, n, (3, 5), (s, 3), (1, 0), (0, 1), groups=2, dilation=2)",
            "torch.randn(B, C, H, H + 1)", "1, 1", few=6,
        ),
        ("tf32/",),
        ({"B": 2, "N": 20, "H": 7},),
    ),
    "convolution_before_a_batch_norm": Case(
        module(
            "return self.norm(F.silu(self.conv(x)))", "B, C, N, H = 16, 32, 64, 34", "torch.randn(B, C, H, H + 2)",
            init="c, n; self.conv = nn.Conv2d(c, n, 3, padding=1, groups=2); self.norm = nn.BatchNorm2d(n)",
            init_args="C, N",
        ),
        ("tf32/planes", "tf32/channels_last", "bf16/channels_last"),
        ({"B": 3, "C": 32, "N": 40, "H": 13}, {"B": 2, "N": 6, "H": 5}),
        ("tf32/planes",),
    ),
    "convolution_of_few_channels_before_norms": Case(
        module(
            "y = self.norm(self.conv(x)); return self.last(self.conv_2(y))",
            "B, C, N, H = 8, 8, 64, 66", "torch.randn(B, C, H, H + 1)",
            init="c, n; self.conv = nn.Conv2d(c, 12, 3); self.norm = nn.InstanceNorm2d(12); "
            "self.conv_2 = nn.Conv2d(12, n, (3, 5)); self.last = nn.BatchNorm2d(n)",
            init_args="C, N",
        ),
        ("tf32/padded", "ieee/padded"),
        ({"B": 2, "C": 3, "N": 19, "H": 17}, {"B": 1, "C": 2, "N": 70, "H": 9}),
        ("tf32/padded",),
    ),
    "convolution_transposed_before_a_group_norm": Case(  # a tile lies in one sample
        module(
            "return self.norm(F.gelu(self.conv(x))) * 2", "B, C, N, G, H = 8, 32, 64, 8, 48",
            "torch.randn(B, C, H, H + 2)",
            init="c, n, g; self.conv = nn.ConvTranspose2d(c, n, (3, 4), (3, 2), 1); self.norm = nn.GroupNorm(g, n)",
            init_args="C, N, G",
        ),
        ("tf32/planes", "tf32/channels_last", "ieee/planes", "tf32/phases"),
        ({"B": 3, "C": 16, "N": 24, "H": 7}, {"B": 2, "C": 20, "N": 40, "H": 13}),
        ("tf32/channels_last", "tf32/phases"),
    ),
    "convolution_depthwise": Case(
        convolution("nn.Conv2d(c, c, (3, 5), s, (1, 0), groups=c)", "torch.randn(B, C, H, H - 1)", "1, 1", tail="c"),
        ("tf32/",),
        ({"B": 2, "C": 10, "H": 13},),
        ("tf32/",),
    ),
}  # fmt: skip


def candidates() -> list[tuple[str, str]]:
    """Every case with each of its kinds."""
    return [(name, kind) for name, case in CASES.items() for kind in case.kinds]


def write_candidate(name: str, kind: str, folder: Path, graphs: dict[tuple[str, str], object]) -> Path:
    """The candidate's file; `graphs` keeps what was captured, one graph for all kinds of the same dtype."""
    from egg_graph.expert.capture.export import export_graph
    from egg_graph.expert.capture.folds import fold_linear_steps
    from egg_graph.expert.codegen.module import write_module
    from egg_graph.expert.playbooks.convolution.layout import prepare
    from egg_graph.expert.playbooks.planner import make_plan, write_kernels
    from egg_graph.expert.playbooks.registry import PLAYBOOKS, playbooks_by_name

    precision, variant = kind.split("/")
    reference = CASES[name].reference
    dtype = POLICY_DTYPE.get(precision, "float32")
    if (name, dtype) not in graphs:
        graphs[name, dtype] = prepare(fold_linear_steps(export_graph(reference, precision)))
    graph = graphs[name, dtype]
    groups = make_plan(graph, PLAYBOOKS).groups
    chosen = {g: variant for g, group in groups.items() if variant in playbooks_by_name()[group.playbook].variants}
    assert not variant or chosen, f"{name} has no group with a variant {variant}"
    path = folder / f"{name}_{kind.replace('/', '_')}.py"
    plan = make_plan(graph, PLAYBOOKS, chosen)
    path.write_text(write_module(reference, plan, write_kernels(plan, PLAYBOOKS, precision)))
    return path


def load_reference(name: str, shape: dict[str, int], precision: str):
    """The reference's model and inputs at a shape, cast as the policy says, and its answer in fp64."""
    import copy

    import torch

    namespace: dict = {"__name__": "reference"}
    exec(compile(CASES[name].reference, name, "exec"), namespace)
    namespace.update(shape)
    torch.manual_seed(20261121)
    model = namespace["Model"](*namespace["get_init_inputs"]())
    inputs = namespace["get_inputs"]()
    if precision in POLICY_DTYPE:
        dtype = getattr(torch, POLICY_DTYPE[precision])
        model = model.to(dtype)
        inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    init = namespace["get_init_inputs"]()
    with torch.no_grad():
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        expected = copy.deepcopy(model).double()(*wide)
    return model, init, inputs, expected
