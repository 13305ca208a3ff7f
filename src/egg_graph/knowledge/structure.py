"""What a reference is made of, by its operators: products, their tails, reductions, scans, attention."""

from collections.abc import Sequence
from typing import Literal, get_args

Structure = Literal[
    "pointwise_chain",
    "plain_product",
    "product_tail",
    "product_reduction",
    "row_reduction",
    "scan",
    "attention",
    "convolution",
]
"""`pointwise_chain`: pointwise operators follow each other. `plain_product`: products and nothing else that computes.
`product_tail`, `product_reduction`: a product or a convolution, behind it something pointwise; behind that a reduction.
"""
STRUCTURES: tuple[Structure, ...] = get_args(Structure)

Kind = Literal["product", "convolution", "attention", "reduction", "scan", "pointwise", "view", "other"]
_KINDS: tuple[tuple[Kind, str], ...] = (
    ("attention", "scaled_dot_product"),
    ("convolution", "conv"),
    ("product", "mm matmul bmm addmm baddbmm addbmm linear einsum bilinear dot mv addmv"),
    ("scan", "cumsum cumprod cummax cummin logcumsumexp"),
    (
        "reduction",
        "softmax log_softmax sum mean amax amin max.dim min.dim argmax argmin var std norm logsumexp prod any all "
        "layer_norm group_norm batch_norm instance_norm rms_norm native_layer_norm native_group_norm "
        "native_batch_norm linalg_vector_norm cudnn_batch_norm cross_entropy nll_loss mse_loss",
    ),
    (
        "view",
        "view t transpose permute reshape expand slice select unsqueeze squeeze clone contiguous to detach alias "
        "unsafe_view flatten unflatten chunk split unbind lift dropout copy to_copy as_strided movedim "
        "numpy_T empty empty_like empty_strided zeros zeros_like ones ones_like full full_like arange scalar_tensor",
    ),
    (
        "pointwise",
        "add sub rsub mul div relu gelu silu sigmoid tanh exp exp2 expm1 log log1p log2 sqrt rsqrt pow neg abs clamp "
        "clamp_min clamp_max hardtanh hardswish hardsigmoid leaky_relu elu selu celu where maximum minimum mish "
        "softplus softsign erf square reciprocal sign sin cos floor ceil round ge gt le lt eq ne masked_fill "
        "log_sigmoid threshold prelu relu6 fmod remainder addcmul addcdiv lerp logical_not isnan",
    ),
)
_BY_NAME: dict[str, Kind] = {name: kind for kind, names in _KINDS for name in names.split()}


def kind_of(operator: str) -> Kind:
    """The kind of an ATen operator, by its name with or without overload: `aten.mul.Tensor`, `_softmax`."""
    name = operator.removeprefix("aten.").removeprefix("aten::").strip("_")
    base = name.partition(".")[0].rstrip("_")
    for found in (name, base):
        if found in _BY_NAME:
            return _BY_NAME[found]
    return next((kind for kind, names in _KINDS[:2] if base.startswith(names)), "other")


def structures_of(operators: Sequence[str]) -> frozenset[Structure] | None:
    """The structures that operators in this order have; None where one of them is not known, so that any may be there.

    The order is that of execution, which says nothing of branches: what follows is taken to read what stands before.
    """
    kinds = [kind for kind in map(kind_of, operators) if kind != "view"]
    if "other" in kinds:
        return None
    found: set[Structure] = set()
    for kind, structure in (("scan", "scan"), ("convolution", "convolution"), ("reduction", "row_reduction")):
        if kind in kinds:
            found.add(structure)  # type: ignore[arg-type]
    if kinds and set(kinds) == {"product"}:
        found.add("plain_product")
    products = [n for n, kind in enumerate(kinds) if kind in ("product", "convolution")]
    for n, following in enumerate(kinds[1:]):
        if kinds[n] == following == "pointwise":
            found.add("pointwise_chain")
    for n in products:
        tail = kinds[n + 1 :]
        if tail[:1] == ["pointwise"]:
            found.add("product_tail")
        if next((kind for kind in tail if kind != "pointwise"), "") == "reduction":
            found.add("product_reduction")
    if "attention" in kinds or _composed_attention(kinds):
        found.add("attention")
    return frozenset(found)


def _composed_attention(kinds: Sequence[Kind]) -> bool:
    """Whether a product, something that is no product, and another product follow each other, a reduction between."""
    between = "".join({"product": "p", "reduction": "r"}.get(kind, ".") for kind in kinds)
    first, last = between.find("p"), between.rfind("p")
    return first >= 0 and "r" in between[first:last]
