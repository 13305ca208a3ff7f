"""Small references of our own, one for each thing the expert must be able to write."""

from dataclasses import dataclass

HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


@dataclass(frozen=True)
class Case:
    """A reference, and what the expert should make of it."""

    source: str
    playbooks: tuple[str, ...]
    """Of the groups it plans, in execution order."""
    left: tuple[str, ...] = ()
    """Operators that stay PyTorch."""
    variant: str = ""
    """Structure forced upon the first group."""
    budget: float = 2e-6
    """Relative L2 error: a few units in the last place of fp32."""
    dropped: tuple[str, ...] = ()
    """Groups that are left to PyTorch, one after the other."""
    wrappers: int = 0
    """Functions that its groups share, where some are written alike."""


def module(
    forward: str,
    *,
    init: str = "",
    arguments: str = "x",
    inputs: str = "torch.randn(N, C)",
    sizes: str = "N, C = 96, 640",
) -> str:
    """A reference whose forward is one piece of text; `init` may use all sizes but the first."""
    names = sizes.split(" = ")[0].split(", ", 1)[1]
    body = "\n".join(f"        {line}" for line in forward.strip().splitlines())
    setup = "\n".join(f"        {line}" for line in init.strip().splitlines())
    return (
        f"{HEADER}{sizes}\n\n\nclass Model(nn.Module):\n    def __init__(self, {names}):\n"
        f"        super().__init__()\n{setup}\n\n    def forward(self, {arguments}):\n{body}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{names}]\n"
    )


SMALL_IMAGE = {"inputs": "torch.randn(N, C, H, W)", "sizes": "N, C, H, W = 2, 3, 12, 20"}
IMAGE = {"inputs": "torch.randn(N, C, H, W)", "sizes": "N, C, H, W = 4, 12, 12, 20"}
LARGE_IMAGE = {"inputs": "torch.randn(N, C, H, W)", "sizes": "N, C, H, W = 4, 12, 48, 51"}
FAR = "(lambda x: (x - x.flip(-1)) / 256.0 - 8192.0)(torch.randint(-256, 256, (N, C)))"
"""Values far from zero whose mean fp32 holds exactly, and the sum of the values no more."""
FAR_IMAGE = {**IMAGE, "inputs": FAR.replace("(N, C)", "(N, C, H, W)")}
TWO = {"arguments": "x, y", "inputs": "torch.randn(N, C), torch.randn(N, C)"}

ACTIVATIONS = """
a = F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x) + F.relu(x) + F.leaky_relu(x, 0.2)
b = F.hardswish(x) + F.hardsigmoid(x) + F.hardtanh(x, -0.5, 0.75) + F.elu(x, 0.7) + F.selu(x) + F.softplus(x)
c = torch.tanh(x) * torch.sigmoid(x) - F.softsign(x) + F.softplus(x, beta=2.0) + F.logsigmoid(x) + F.relu6(x)
d = torch.abs(x) + torch.exp(-x) + torch.log(x * x + 1.0) + torch.sqrt(x * x + 0.5) + torch.rsqrt(x * x + 1.0)
e = x**3 + (x * x + 0.1) ** 1.5 + 1.0 / (x * x + 1.0) + torch.clamp(x, -0.3) + torch.clamp(x, max=0.4)
f = torch.where(x > 0.1, x, 2.0 * x) + torch.maximum(x, -x) + torch.minimum(x, 0.5 * x) + torch.erf(x) + (x > 0).float()
return a + b + c + d + e + f
"""

NORMS_BEHIND_A_CONVOLUTION = module(
    "return self.last(F.relu(self.norm(torch.tanh(self.convolution(x)))))",
    init="self.convolution = nn.Conv2d(C, 12, 3)\nself.norm = nn.GroupNorm(4, 12)\nself.last = nn.BatchNorm2d(12)",
    inputs="torch.randn(N, C, H, W)",
    sizes="N, C, H, W = 3, 10, 12, 22",
)

CASES: dict[str, Case] = {
    "activations": Case(module(ACTIVATIONS, sizes="N, C = 48, 150"), ("pointwise",)),
    "broadcasting": Case(
        module(
            "return torch.relu((x + self.bias) * self.scale - self.rows)",
            init="self.bias = nn.Parameter(torch.randn(C, 1, 1))\nself.scale = nn.Parameter(torch.randn(W))\n"
            "self.rows = nn.Parameter(torch.randn(C, H, 1))",
            **IMAGE,
        ),
        ("pointwise",),
    ),
    "swiglu": Case(module("a, b = x.chunk(2, dim=-1)\nreturn F.silu(a) * b"), ("pointwise",)),
    "rotary": Case(
        module(
            "a, b = x.chunk(2, dim=-1)\nreturn x * self.cosine + torch.cat((-b, a), dim=-1) * self.sine",
            init="self.cosine = nn.Parameter(torch.randn(2 * H))\nself.sine = nn.Parameter(torch.randn(2 * H))",
            inputs="torch.randn(N, 2 * H)",
            sizes="N, H = 96, 320",
        ),
        ("pointwise",),
    ),
    "joined_rows": Case(
        module("return torch.cat((y, x * 2.0, y + x), 1)", **TWO),
        ("pointwise",),
    ),
    "softmax": Case(module("return torch.softmax(2.0 * x, dim=-1)"), ("row",)),
    "softmax_looped": Case(module("return torch.softmax(2.0 * x, dim=-1)"), ("row",), variant="looped"),
    "log_softmax_looped": Case(module("return F.log_softmax(x, dim=1) * 0.5"), ("row",), variant="looped"),
    "softmax_channels": Case(module("return torch.softmax(x, dim=1) + 1.0", **IMAGE), ("column",)),
    "softmax_channels_looped": Case(
        module("return torch.softmax(x, dim=1) + 1.0", **IMAGE), ("column",), variant="looped"
    ),
    "layer_norm": Case(
        module("return F.gelu(self.norm(x))", init="self.norm = nn.LayerNorm([H, W])", **FAR_IMAGE), ("row",)
    ),
    "layer_norm_looped": Case(
        module("return self.norm(x)", init="self.norm = nn.LayerNorm(C)", inputs=FAR), ("row",), variant="looped"
    ),
    "layer_norm_split": Case(
        module("return F.relu(self.norm(x + 1.0))", init="self.norm = nn.LayerNorm([C, H, W])", **FAR_IMAGE),
        ("row",),
        variant="split",
        budget=1e-5,  # each piece hands on a rounded mean
    ),
    "statistics_split": Case(
        module(
            "return x.sum(1), x.mean(1), x.var(1), x.amax(1), torch.logsumexp(x, 1), torch.softmax(x, 1)",
            sizes="N, C = 8, 640",
        ),
        ("row",),
        variant="split",
    ),
    "rms_norm": Case(
        module(
            "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight",
            init="self.weight = nn.Parameter(torch.randn(C))",
        ),
        ("row",),
    ),
    "rms_norm_channels": Case(
        module("return x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)", **IMAGE), ("column",)
    ),
    "group_norm": Case(
        module("return F.silu(self.norm(x))", init="self.norm = nn.GroupNorm(4, C)", **IMAGE), ("row",)
    ),
    "group_norm_looped_by_channel": Case(
        module("return F.silu(self.norm(x))", init="self.norm = nn.GroupNorm(4, C)", **LARGE_IMAGE),
        ("row",),
        variant="looped",
    ),
    "group_norm_split_by_channel": Case(
        module("return F.silu(self.norm(x))", init="self.norm = nn.GroupNorm(4, C)", **LARGE_IMAGE),
        ("row",),
        variant="split",
    ),
    "softmax_of_pixels_looped": Case(
        module(
            "return torch.softmax(x.flatten(2), 2) * self.scale",
            init="self.scale = nn.Parameter(torch.randn(C, 1))",
            **LARGE_IMAGE,
        ),
        ("row",),
        variant="looped",
    ),
    "instance_norm": Case(module("return self.norm(x)", init="self.norm = nn.InstanceNorm2d(C)", **IMAGE), ("row",)),
    "batch_norm": Case(
        module("return torch.relu(self.norm(x))", init="self.norm = nn.BatchNorm1d(C)"), ("column",), left=("add",)
    ),
    "repeated_layers": Case(
        module(
            "for convolution, norm in zip(self.convolutions, self.norms):\n    x = F.relu(norm(convolution(x)) + x)\n"
            "return x",
            init="self.convolutions = nn.ModuleList(nn.Conv2d(C, C, 3, padding=1) for _ in range(2))\n"
            "self.norms = nn.ModuleList(nn.BatchNorm2d(C) for _ in range(2))",
            inputs="torch.randn(N, C, H, W)",
            sizes="N, C, H, W = 2, 4, 12, 10",
        ),
        ("convolution", "join", "planes") * 2,
        left=("add",) * 2,
        wrappers=3,
    ),
    "joined_channels": Case(
        module(
            "return torch.cat([self.wide(x), x, F.relu(self.narrow(x))], 1)",
            init="self.wide = nn.Conv2d(C, 3, 3, padding=1)\nself.narrow = nn.Conv2d(C, 5, 1)",
            inputs="torch.randn(N, C, H, W)",
            sizes="N, C, H, W = 2, 4, 12, 10",
        ),
        ("convolution", "convolution"),
        left=("cat",),
    ),
    "channels_innermost": Case(
        module(
            "y = F.relu(x * self.scale + x)\nreturn self.convolution(y) + y",
            init="self.scale = nn.Parameter(torch.randn(32, 1, 1))\n"
            "self.convolution = nn.Conv2d(32, 32, (1, 3), padding=(0, 1))",
            inputs="torch.randn(N, 32, H, W)",
            sizes="N, H, W = 2, 9, 10",
        ),
        ("layout", "convolution"),
    ),
    "batch_norm_planes": Case(
        module(
            "return F.leaky_relu(self.norm(x * torch.tanh(x) + 3.0), 0.1) * self.scale + x",
            init="self.norm = nn.BatchNorm2d(C)\nself.scale = nn.Parameter(torch.randn(C, 1, 1))",
            inputs="torch.randn(N, C, H, W)",
            sizes="N, C, H, W = 4, 10, 67, 63",
        ),
        ("statistics", "join", "planes"),
        left=("add",),
    ),
    "statistics_of_large_numbers": Case(
        module(
            "return x.var((0, 2, 3)), x.mean((0, 2, 3), keepdim=True)",
            inputs="torch.randn(N, C, H, W) + 3e4",
            sizes="N, C, H, W = 4, 10, 12, 20",
        ),
        ("statistics", "join"),
    ),
    "norms_behind_the_library": Case(
        NORMS_BEHIND_A_CONVOLUTION,
        ("statistics", "join", "statistics", "planes", "join"),
        left=("conv2d", "add"),
        dropped=("convolution",),
    ),
    "joined_by_the_library": Case(
        NORMS_BEHIND_A_CONVOLUTION,
        ("pointwise", "planes", "planes", "pointwise", "pointwise"),
        left=(
            "conv2d", "parts", "mean_of_parts", "var_of_parts", "add", "parts", "mean_of_parts", "var_of_parts",
            "var_of_parts",
        ),
        dropped=("convolution", "statistics_1", "statistics", "join_1", "join"),
    ),
    "batch_norm_into_others": Case(
        module(
            "y = F.max_pool1d(torch.tanh(self.norm(x)), 2)\n"
            "z = F.batch_norm(x.unsqueeze(2), None, None, training=True)\nreturn y, z.mean(-1)",
            init="self.norm = nn.BatchNorm1d(C, affine=False)",
            inputs="torch.randn(N, C, W)",
            sizes="N, C, W = 4, 12, 34",
        ),
        ("statistics", "join", "pooling", "statistics", "join", "row"),
        left=("add",),
    ),
    "statistics": Case(
        module("return x.sum(1), x.mean(1), x.var(1), x.amax(1), torch.logsumexp(x, 1), torch.norm(x, dim=1)"),
        ("row", "row"),
    ),
    "statistics_looped": Case(
        module("return x.sum(1), x.mean(1), x.var(1), x.amin(1), torch.argmin(x, 1), torch.std(x, 1, correction=0)"),
        ("row",),
        variant="looped",
    ),
    "argmax_channels": Case(module("return torch.argmax(x, dim=1), torch.max(x, dim=1)[0]", **IMAGE), ("column",)),
    "columns_folded": Case(
        module(
            "y = x + 1.0\nreturn y.sum(1), y.var(1), torch.argmin(y, 1), torch.max(y, dim=1)[0] * self.scale",
            init="self.scale = nn.Parameter(torch.randn(W))",
            inputs="torch.randn(N, 8 * C, W)",
            sizes="N, C, W = 4, 40, 33",
        ),
        ("column",),
        variant="folded",
    ),
    "global_average": Case(
        module(
            "return torch.tanh(F.adaptive_avg_pool2d(x, 1) + self.bias)",
            init="self.bias = nn.Parameter(torch.randn(C, 1, 1))",
            **IMAGE,
        ),
        ("row",),
    ),
    "max_pool": Case(
        module(
            "y = F.max_pool2d(x * x, 3, 2, 1, ceil_mode=True)\nreturn torch.tanh(y + self.bias), "
            "F.max_pool2d(x, (3, 2), dilation=(1, 2))",
            init="self.bias = nn.Parameter(torch.randn(C, 1, 1))",
            **SMALL_IMAGE,
        ),
        ("pointwise", "pooling", "pooling"),
    ),
    "average_pool": Case(
        module(
            "y = self.pool(F.relu(x))\nz = F.avg_pool1d(x.view(x.shape[0], -1, x.shape[3]), 4, 1, 2)\n"
            "return y * 2.0, z, F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)",
            init="self.pool = nn.AvgPool3d((3, 2, 2), ceil_mode=True)",
            **SMALL_IMAGE,
        ),
        ("pooling", "pooling", "pooling"),
    ),
    "constant_of_a_layer": Case(
        module(
            "return self.layer(x)",
            init="class Limited(nn.Module):\n    def forward(self, x):\n"
            "        return torch.clamp(x, max=torch.log(torch.tensor(1.5))) * 3.0\nself.layer = Limited()",
        ),
        ("pointwise",),
    ),
    "state_just_held": Case(
        module(
            "self.state.copy_(y)\nself.state = torch.tanh(x * self.state)\nreturn self.state + 1.0",
            init="self.state = torch.zeros(N, C)",
            **TWO,
        ),
        ("pointwise",),
    ),
    "cross_entropy": Case(
        module(
            "return F.cross_entropy(x, y)", arguments="x, y", inputs="torch.randn(N, C), torch.randint(0, C, (N,))"
        ),
        ("row", "full_reduction"),
    ),
    "cross_entropy_looped": Case(
        module(
            "return F.cross_entropy(x, y, reduction='none', ignore_index=3)",
            arguments="x, y",
            inputs="torch.randn(N, C), torch.randint(0, C, (N,))",
        ),
        ("row",),
        variant="looped",
    ),
    "cross_entropy_channels_looped": Case(
        module(
            "return F.cross_entropy(x, y, reduction='none') * self.scale",
            init="self.scale = nn.Parameter(torch.randn(H, W))",
            arguments="x, y",
            inputs="torch.randn(N, C, H, W), torch.randint(0, C, (N, H, W))",
            sizes="N, C, H, W = 4, 12, 12, 20",
        ),
        ("column",),
        variant="looped",
    ),
    "rows_replaced": Case(
        module(
            "return x.index_copy(0, at, new), y.index_copy(0, at, new - 1.0)",
            arguments="x, y, new, at",
            inputs="torch.randn(N, C), torch.randn(N, C), torch.randn(M, C), torch.randperm(N)[:M]",
            sizes="N, C, M = 96, 40, 17",
        ),
        ("pointwise", "scatter"),
    ),
    "losses": Case(
        module(
            "return F.mse_loss(x, y) + F.smooth_l1_loss(x, y) + F.huber_loss(x, y, delta=0.5) + F.l1_loss(x, y)"
            " + F.binary_cross_entropy_with_logits(x, (y > 0).float())",
            **TWO,
        ),
        ("full_reduction",),
    ),
    "kl_div": Case(
        module("return F.kl_div(x, torch.exp(y), reduction='batchmean')", **TWO), ("full_reduction",)
    ),
    "triplet": Case(
        module("return F.triplet_margin_loss(x, y, x * y, margin=0.5)", **TWO), ("row", "full_reduction")
    ),
    "cosine": Case(module("return (1.0 - F.cosine_similarity(x, y, dim=1)).mean()", **TWO), ("row", "full_reduction")),
    "frobenius": Case(module("return x / torch.norm(x)"), ("full_reduction", "pointwise")),
    "convolution": Case(
        module(
            "return F.hardswish(self.conv(x) + self.bias) / 6.0",
            init="self.conv = nn.Conv2d(C, 8, 3, padding=1)\nself.bias = nn.Parameter(torch.randn(8, 1, 1))",
            **IMAGE,
        ),
        ("convolution",),
    ),
    "mean_of_a_convolution": Case(
        module(
            "return (self.layer(x) * 0.5).mean(dim=-1) - self.v",
            init="self.layer = nn.ConvTranspose1d(C, M, K, padding=1)\nself.v = nn.Parameter(torch.randn(M))",
            inputs="torch.rand(N, C, W)",
            sizes="N, C, M, K, W = 16, 5, 10, 3, 8192",
        ),
        ("row", "row", "row"),
        left=("cat", "cat", "permute"),
    ),
    "einsum": Case(
        module(
            "return torch.einsum('bijl,lk->bijk', x, self.w), torch.einsum('bcij,bcik->bckj', x, x)",
            init="self.w = nn.Parameter(torch.randn(W, 24))",
            inputs="torch.randn(N, C, H, W)",
            sizes="N, C, H, W = 2, 3, 24, 40",
        ),
        ("gemm", "gemm"),
        left=("permute", "permute"),
    ),
    "heads": Case(
        module(
            "y = x.view(N0(x), self.heads, -1)\nreturn torch.softmax(y / y.shape[-1] ** 0.5, dim=-1).reshape(x.shape)",
            init="self.heads = 8",
        ).replace("N0(x)", "x.shape[0]"),
        ("row",),
    ),
    "held_numbers": Case(
        module(
            "return torch.softmax(x * self.scale, dim=-1) * (3.0 * self.scale) / self.scale",
            init="self.scale = D**-0.5",
            sizes="N, D = 96, 24",
            inputs="torch.randn(N, 640)",
        ),
        ("row",),
    ),
    "structure": Case(module('return {"y": torch.relu(x), "z": [x.sum(-1), x]}'), ("pointwise", "row")),
}  # fmt: skip
