"""Device functions that generated kernels share, as source text. The writer adds those that a module calls.

Triton has no tanh, expm1 or log1p of its own; these stay accurate to a few units in the last place of fp32
over the whole range, without a library call that an interpreter would have to imitate.
"""

from egg_graph.expert.codegen.tile_helpers import TILE_HELPERS, TILE_NEEDS

HELPERS: dict[str, str] = {
    "tanh": '''@triton.jit
def tanh(x):
    """(1 - e) / (1 + e) with e = exp(-2 |x|), which never overflows; a series near 0, where 1 - e would cancel."""
    e = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    near = x * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488))))
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))
''',
    "expm1": '''@triton.jit
def expm1(x):
    """exp(x) - 1; a series near 0, where the subtraction would cancel."""
    near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666667 + x * (0.0083333333 + x * 0.0013888889)))))
    return tl.where(tl.abs(x) < 0.25, near, tl.exp(x) - 1.0)
''',
    "log1p": '''@triton.jit
def log1p(x):
    """log(1 + x), corrected by what rounding 1 + x lost (Kahan)."""
    w = 1.0 + x
    d = w - 1.0
    return tl.where(d == 0.0, x, tl.log(w) * (x / tl.where(d == 0.0, 1.0, d)))
''',
    "softplus": '''@triton.jit
def softplus(x):
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which never overflows."""
    return tl.where(x < 0, 0.0, x) + log1p(tl.exp(-tl.abs(x)))
''',
    "gelu": '''@triton.jit
def gelu(x):
    """x Phi(x), with the exact error function."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
''',
    "gelu_tanh": '''@triton.jit
def gelu_tanh(x):
    """0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(2.0 * u)
''',
    "mish": '''@triton.jit
def mish(x):
    """x tanh(log(1 + e)) = x n / (n + 2), e = exp(x), n = e (e + 2); the ratio is 1 in fp32 from x = 20 on."""
    e = tl.exp(tl.where(x < 20.0, x, 20.0))
    n = e * (e + 2.0)
    return tl.where(x < 20.0, x * (n / (n + 2.0)), x)
''',
    "round_to_tf32": '''@triton.jit
def round_to_tf32(x):
    """Round fp32 to TF32, to nearest. A tensor core alone would truncate, which biases every product."""
    return tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
''',
    "propagate_max": '''@triton.jit
def propagate_max(a, b):
    """The larger, NaN where either is: PyTorch's maximum."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "propagate_min": '''@triton.jit
def propagate_min(a, b):
    """The smaller, NaN where either is: PyTorch's minimum."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "finite_or": '''@triton.jit
def finite_or(x, other):
    """x, or `other` where x is infinite."""
    return tl.where(tl.abs(x) == float("inf"), other, x)
''',
}  # fmt: skip

HELPERS |= TILE_HELPERS
NEEDS: dict[str, tuple[str, ...]] = {"softplus": ("log1p",)} | TILE_NEEDS
"""Helpers that call other helpers."""


def helper_source(names: set[str]) -> str:
    """Source of these helpers and of those they call, callees first."""
    wanted = set(names)
    for name in names:
        wanted.update(NEEDS.get(name, ()))
    ordered = sorted(wanted, key=lambda name: (bool(NEEDS.get(name)), list(HELPERS).index(name)))
    return "\n\n".join(HELPERS[name] for name in ordered)
