"""Assemble the module: docstring, imports, CONFIG and SPACE, kernels, wrappers, and `ModelNew`."""

from collections.abc import Iterable, Mapping

from egg_graph.expert.codegen.forward import KEPT, ForwardWriter
from egg_graph.expert.codegen.group import KernelCode
from egg_graph.expert.codegen.helpers import helper_source
from egg_graph.expert.codegen.plan import Plan, plan_docstring
from egg_graph.expert.codegen.reference import CannotWrite, ReferenceSource
from egg_graph.expert.codegen.sharing import share_functions
from egg_graph.schema import ConfigSpace, Knob, StageName

STAGES: tuple[StageName, ...] = ("parallel_mapping", "tensor_tiling", "memory_optimization")


def write_module(
    reference: str, plan: Plan, kernels: Mapping[str, KernelCode], config: Mapping[str, Knob] | None = None
) -> str:
    """Write the candidate's source.

    Args:
        reference: The reference's source.
        plan: Its groups.
        kernels: The source written for each group, by the group's name.
        config: Knobs that replace the playbooks' first choice; unknown names are ignored.

    Raises:
        CannotWrite: if the plan has no group, or a size cannot be expressed for every shape.
    """
    if not plan.groups:
        left = ", ".join(dict.fromkeys(node.base for node in plan.left))
        raise CannotWrite(f"no playbook matches any operator of the reference ({left or 'it has none'})")
    kernels = share_functions(plan, kernels)
    kept = ReferenceSource(reference)
    writer = ForwardWriter(plan, kernels, kept.forward_arguments)
    statements = writer.statements()
    all_config = {k: v for code in kernels.values() for k, v in code.config.items()}
    all_config.update({k: v for k, v in (config or {}).items() if k in all_config})
    helpers = helper_source(writer.helpers.union(*(code.helpers for code in kernels.values())))
    model = kept.model(statements, {KEPT: "{}"} if any(code.keeps for code in kernels.values()) else {})
    text = "\n\n\n".join(
        part.strip("\n")
        for part in (
            plan_docstring(plan, kernels) + "\n\n" + "\n".join(kept.imports()),
            _literals(all_config, _space(kernels.values())),
            helpers,
            *(code.source for code in kernels.values()),
            *kept.needed(model),
            model,
        )
        if part.strip()
    )
    return text + "\n"


def _space(codes: Iterable[KernelCode]) -> ConfigSpace:
    space: dict[StageName, dict[str, tuple[Knob, ...]]] = {}
    for code in codes:
        for stage, knobs in code.space.items():
            space.setdefault(stage, {}).update(knobs)
    return {stage: space[stage] for stage in STAGES if space.get(stage)}


def _literals(config: Mapping[str, Knob], space: ConfigSpace) -> str:
    if not config:
        return ""
    lines = ["CONFIG = {", *(f'    "{k}": {_quoted(v)},' for k, v in config.items()), "}"]
    if space:
        lines.append("SPACE = {")
        for stage, knobs in space.items():
            lines.append(f'    "{stage}": {{')
            lines += [f'        "{k}": [{", ".join(_quoted(v) for v in values)}],' for k, values in knobs.items()]
            lines.append("    },")
        lines.append("}")
    return "\n".join(lines)


def _quoted(value: Knob) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
