"""The coder: a brief becomes one complete module, in seed, optimize or repair mode (paper, App. E.1 and E.4)."""

from egg_graph.agents.chat_role import ChatRole, Template
from egg_graph.agents.parsing import Reply, read_module
from egg_graph.schema import Brief, Draft


def _read(reply: Reply, brief: Brief) -> Draft:
    module = read_module(reply, "" if brief.kernel is None else brief.kernel.source)
    return Draft(source=module.source, mended=module.mended)


def _no_module(problem: str, brief: Brief) -> Draft:
    return Draft(problem=f"no usable module: {problem}")


CODER = ChatRole(
    name="coder",
    templates={
        "seed": Template("coder_seed.j2"),
        "optimize": Template("coder_optimize.j2", needs=("kernel", "evaluation", "analysis")),
        "repair": Template("coder_repair.j2", needs=("kernel", "evaluation", "diagnosis")),
    },
    read=_read,
    fallback=_no_module,
)
