"""The four stages as data: two hierarchical stages, the second in three parts (arXiv 2606.26758, App. E.2 and F)."""

from typing import NamedTuple

from egg_graph.context import Context
from egg_graph.schema import STAGE_METRICS, ConfigSpace, Knob, StageName


class Stage(NamedTuple):
    """One stage: its goal, its system prompt and the metrics that it reads."""

    name: StageName
    title: str
    objective: str
    prompt: str
    """File name of its system prompt in prompts/."""
    metrics: tuple[str, ...]
    """Names of the Nsight Compute metrics that matter in this stage."""


ALGORITHMIC_STRUCTURE = Stage(
    name="algorithmic_structure",
    title="Algorithmic structure design",
    objective=(
        "Choose the algorithm and the kernel boundaries: fuse operators so that no intermediate travels through DRAM, "
        "replace algorithms (online softmax, flash attention, one-pass reductions), and remove work. Be right first; "
        "block sizes and launch parameters are left to the later stages."
    ),
    prompt="system_algorithmic_structure.j2",
    metrics=STAGE_METRICS["algorithmic_structure"],
)

PARALLEL_MAPPING = Stage(
    name="parallel_mapping",
    title="Parallel mapping",
    objective=(
        "Map the work onto the machine: which axis each program takes, how large the grid is against the number of "
        "multiprocessors, warps per program, persistent programs, the order in which programs visit tiles. "
        "Keep the algorithm and the number of kernels."
    ),
    prompt="system_parallel_mapping.j2",
    metrics=STAGE_METRICS["parallel_mapping"],
)

TENSOR_TILING = Stage(
    name="tensor_tiling",
    title="Tensor tiling",
    objective=(
        "Choose block shapes: enough reuse per tile to feed the tensor cores, few enough registers that nothing "
        "spills, shared memory within the target's limit, tiles that divide the problem without idle lanes. "
        "Keep the algorithm and the mapping."
    ),
    prompt="system_tensor_tiling.j2",
    metrics=STAGE_METRICS["tensor_tiling"],
)

MEMORY_OPTIMIZATION = Stage(
    name="memory_optimization",
    title="Memory optimization",
    objective=(
        "Move bytes well: coalesced and wide accesses, no re-reads beyond the compulsory traffic, cache hints and "
        "eviction, software pipelining depth, no bank conflicts. Keep the algorithm, the mapping and the tiles."
    ),
    prompt="system_memory_optimization.j2",
    metrics=STAGE_METRICS["memory_optimization"],
)

STRUCTURE_STAGES = (ALGORITHMIC_STRUCTURE,)
TUNING_STAGES = (PARALLEL_MAPPING, TENSOR_TILING, MEMORY_OPTIMIZATION)
STAGES = (*STRUCTURE_STAGES, *TUNING_STAGES)


def swept_knobs(space: ConfigSpace, stage: StageName, context: Context) -> dict[str, tuple[Knob, ...]]:
    """The knobs that the tuner of a stage turns, with the values that each may take.

    Args:
        space: of the kernel.
        stage: whose tuner it is.
        context: says whether each stage sweeps its own knobs, or the first one that runs sweeps all, or all that belong
            to stages that run.
    """
    if context.sweep == "stage":
        return space.get(stage, {})
    if stage != next((one.name for one in STAGES if one.name in context.stages), None):
        return {}
    whole: dict[str, tuple[Knob, ...]] = {}
    for owner, knobs in space.items():
        if context.sweep == "knobs" and owner not in context.stages:
            continue
        whole |= {knob: (*whole.get(knob, ()), *values) for knob, values in knobs.items()}
    return whole
