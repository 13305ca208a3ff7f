"""How far the interpreter and the hardware may lie apart, by class, and where that is documented.

A difference of one unit in the last place (ulp) is one step between neighbouring numbers of the output's type, at the
interpreter's value. The hardware's bound is that of NVIDIA's documents; numpy's own functions add up to 4 ulp in fp32
(its vector implementations are tested against 4 ulp).
"""

from dataclasses import dataclass

NUMPY = 4.0
GUIDE = "CUDA C++ Programming Guide, mathematical functions"
PTX = "PTX ISA"


@dataclass(frozen=True)
class Bound:
    """What two answers may differ by: the sum of the parts.

    Attributes:
        ulps: units in the last place of the output's type.
        absolute: in the output's unit.
        scaled: times the fp32 step 2^-23 and the absolute value of the next output, which the kernel stores as a scale.
        source: what documents it.
    """

    ulps: float = 0.0
    absolute: float = 0.0
    scaled: float = 0.0
    source: str = ""


def _documented(ulps: float, what: str, source: str = GUIDE, *, absolute: float = 2.0**-125) -> Bound:
    """Bound a function of the hardware, computed here by numpy; denormal results may be flushed to zero."""
    return Bound(ulps=ulps + NUMPY, absolute=absolute, source=f"{source}: {what}, {ulps:g} ulp; numpy {NUMPY:g} ulp")


ERRORS: dict[str, Bound] = {
    "exact": Bound(source="the same bits; NaN is one value"),
    "undefined": Bound(
        scaled=float("inf"),
        source="not compared, for nothing defines it: a quotient by zero (PTX ISA, div: machine-specific; while of two "
        "8-bit quotients in one register a zero divisor spoils both), the order of elements after tl.view",
    ),
    "scale": Bound(scaled=float("inf"), source="not compared: it scales the error of the output before it"),
    "division": Bound(2, 2.0**-125, source=f"{PTX}, div.full.f32: 2 ulp"),
    "fused": Bound(scaled=1.0, source="a product and a sum may be one fma: one rounding of the product, 2^-24 of it"),
    "sum order": Bound(
        scaled=64.0,
        source="the order of a tree over n <= 128 numbers is the compiler's: (n - 1) 2^-24 of the sum of absolutes",
    ),
    "sum order fp64": Bound(scaled=2.0**-24, source="as `sum order`, with steps of 2^-53"),
    "sum order fp16": Bound(
        scaled=2.0**13 * 16, source="as `sum order`, each of at most 8 steps here and there rounded to fp16: 2^-11"
    ),
    "sum order bf16": Bound(
        scaled=2.0**16 * 16, source="as `sum order`, each of at most 8 steps here and there rounded to bfloat16: 2^-8"
    ),
    "dot": Bound(
        scaled=192.0,
        source="sums of K <= 64 products in fp32 on tensor cores, truncated rather than rounded (2^-22 each; Fasi et "
        "al. 2021, numerical behavior of NVIDIA tensor cores), and in another order",
    ),
    "dot fp8": Bound(
        scaled=2.0**11,
        source="Hopper sums fp8 products with about 14 bits (DeepSeek-V3 technical report, 2024, section 3.3.2); "
        "tl.dot leaves it at that unless max_num_imprecise_acc says otherwise: 2^-12 of the sum of absolutes",
    ),
    "dot split": Bound(
        scaled=256.0, source="as `dot` for each product of the parts; the parts keep 21 or more bits of an operand"
    ),
    "ex2": _documented(2 + 4, "ex2.approx.ftz.f32 of x log2(e), whose rounding counts |x| <= 4 times", PTX),
    "ex2 exactly scaled": _documented(2, "ex2.approx.ftz.f32", PTX),
    "lg2": _documented(1, "logf, log2f"),
    "sin": _documented(2, "sinf, cosf"),
    "rsqrt": _documented(2, "rsqrt.approx.ftz.f32 (2^-22.9 relative)", PTX),
    "sqrt approx": _documented(2, "sqrt.approx.ftz.f32 (2^-23 relative)", PTX),
    "erf": _documented(2, "erff"),
    "softmax": Bound(ulps=16, absolute=2.0**-30, source="as `ex2`, a sum of 64 numbers, and div.full.f32"),
    "normal numbers": Bound(
        ulps=32, absolute=2.0**-20, source="Box and Muller of logf, sqrt.approx and cosf, each as above"
    ),
    "fast sine": Bound(absolute=2.0**-19.5, source=f"{GUIDE}, intrinsics: 2^-21.19 absolute in [-pi, pi], told twice"),
    "fast tangent": Bound(ulps=64, absolute=2.0**-16, source=f"{GUIDE}, intrinsics: from __sinf and __cosf"),
    "fast": Bound(ulps=2 * (2 + 8) + NUMPY, absolute=2.0**-20, source=f"{GUIDE}, intrinsics, |x| <= 8, told twice"),
    "fast power": Bound(
        ulps=128,
        absolute=2.0**-125,
        source=f"{GUIDE}, intrinsics: __powf is 2^(y __log2f(x)); 2 ulp of a logarithm up to 6, times y up to 8, told "
        "twice",
    ),
    "fast tanh": Bound(ulps=2 * 2.0**12, absolute=2.0**-125, source=f"{PTX}, tanh.approx.f32: 2^-11, told twice"),
    **{f"guide {ulps}": _documented(ulps, "the function's row") for ulps in (0, 1, 2, 3, 4, 9)},
    "guide fp64": Bound(ulps=16, absolute=1e-300, source=f"{GUIDE}: at most 12 ulp in fp64; numpy and PyTorch 4 ulp"),
    "gamma": _documented(
        24, "lgammaf, tgammaf: 6 and 5 ulp of fp32; here by fp32 or fp64 logarithms", absolute=2.0**-18
    ),
    "bessel": _documented(32, "j0f ... y1f for |x| < 8: 9 ulp, absolute near zeros; PyTorch alike", absolute=2.0**-19),
    "distribution": _documented(16, "erfcxf, normcdff: at most 5 ulp; PyTorch's by rational functions"),
    "quantile": _documented(
        16,
        "erfinvf ... normcdfinvf: at most 5 ulp; PyTorch's alike; the operand's product and sum may be one fma: "
        "2^-25, where the slope is at most 10",
        absolute=2.0**-21,
    ),
}
"""Class of an output -> its bound."""
