"""The playbooks, in order of precedence: what fuses most comes first, elementwise chains take the rest."""

from collections.abc import Iterable

from egg_graph.expert.playbooks.attention.playbook import AttentionPlaybook
from egg_graph.expert.playbooks.axis import Column, Row
from egg_graph.expert.playbooks.full_reduction import FullReduction
from egg_graph.expert.playbooks.gemm.playbook import GemmPlaybook
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.expert.playbooks.pointwise import Pointwise
from egg_graph.expert.playbooks.scan.playbook import ScanPlaybook

PLAYBOOKS: tuple[Playbook, ...] = (
    AttentionPlaybook(),
    GemmPlaybook(),
    ScanPlaybook(),
    Row(),
    Column(),
    FullReduction(),
    Pointwise(),
)
BY_NAME: dict[str, Playbook] = {playbook.name: playbook for playbook in PLAYBOOKS}


def playbooks_of(groups: Iterable[str]) -> dict[str, str]:
    """The playbook of each group, from its name (`row`, `pointwise_2`)."""
    return {g: g if g in BY_NAME else g.rsplit("_", 1)[0] for g in groups}


def playbook_guidance(operators: tuple[str, ...] = ()) -> dict[str, str]:
    """What each playbook knows, by its name: a few lines each, for prompts and for people.

    Args:
        operators: ATen operators of a task; only playbooks about one of them are told. Empty tells all.
    """
    bases = {op.split(".")[1] if "." in op else op for op in operators}
    return {p.name: p.guidance for p in PLAYBOOKS if not bases or _is_about(p.name, bases)}


def _is_about(playbook: str, bases: set[str]) -> bool:
    from egg_graph.expert.codegen.expressions import POINTWISE

    about = {
        "attention": {"scaled_dot_product_attention", "softmax", "_softmax"},
        "gemm": {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"},
        "scan": {"cumsum", "cumprod"},
        "row": _REDUCING,
        "column": _REDUCING,
        "full_reduction": {b for b in bases if b.endswith("_loss") or b == "kl_div"} | {"sum", "mean", "max", "min"},
        "pointwise": set(POINTWISE),
    }
    return bool(about.get(playbook, bases) & bases)


_REDUCING = {
    "softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp", "layer_norm", "native_layer_norm", "rms_norm",
    "group_norm", "native_group_norm", "instance_norm", "linalg_vector_norm", "sum", "mean", "amax", "amin", "max",
    "min", "argmax", "argmin", "var", "std", "var_mean", "cross_entropy_loss", "cosine_similarity",
}  # fmt: skip
