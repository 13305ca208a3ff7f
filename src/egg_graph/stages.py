"""The four stages as data: two hierarchical stages, the second in three parts (arXiv 2606.26758, App. E.2 and F)."""

from typing import NamedTuple

from egg_graph.schema import StageName


class Stage(NamedTuple):
    """One stage: what it is after and what it looks at."""

    name: StageName
    title: str
    objective: str
    prompt: str
    """Its system prompt in prompts/."""
    metrics: tuple[str, ...]
    """Nsight Compute metrics that matter here. Names that NVIDIA's GH100 answers."""


STALLS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

ALGORITHMIC_STRUCTURE = Stage(
    name="algorithmic_structure",
    title="Algorithmic structure design",
    objective=(
        "Choose the algorithm and the kernel boundaries: fuse operators so that no intermediate travels through DRAM, "
        "replace algorithms (online softmax, flash attention, one-pass reductions), and remove work. Be right first; "
        "block sizes and launch parameters are left to the later stages."
    ),
    prompt="system_algorithmic_structure.j2",
    metrics=(
        "gpu__time_duration.sum",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed.sum",
        "launch__grid_size",
    ),
)

PARALLEL_MAPPING = Stage(
    name="parallel_mapping",
    title="Parallel mapping",
    objective=(
        "Map the work onto the machine: which axis each program takes, how large the grid is against the number of "
        "multiprocessors, warps per program, split or persistent programs, the order in which programs visit tiles. "
        "Keep the algorithm."
    ),
    prompt="system_parallel_mapping.j2",
    metrics=(
        "launch__grid_size",
        "launch__block_size",
        "launch__waves_per_multiprocessor",
        "sm__maximum_warps_per_active_cycle_pct",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "launch__occupancy_limit_blocks",
        "launch__occupancy_limit_registers",
        "launch__occupancy_limit_shared_mem",
        "launch__occupancy_limit_warps",
        "smsp__warps_eligible.avg.per_cycle_active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__cycles_active.avg",
        "sm__cycles_active.max",
        STALLS.format("barrier"),
        STALLS.format("wait"),
        "smsp__sass_average_branch_targets_threads_uniform.pct",
        "gpu__time_duration.sum",
    ),
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
    metrics=(
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.sum",
        "sm__inst_executed_pipe_fma.sum",
        "sm__inst_executed.sum",
        "launch__registers_per_thread",
        "launch__shared_mem_per_block_static",
        "launch__shared_mem_per_block_dynamic",
        "launch__shared_mem_per_block_allocated",
        "smsp__inst_executed_op_local_ld.sum",
        "smsp__inst_executed_op_local_st.sum",
        "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
        STALLS.format("math_pipe_throttle"),
        STALLS.format("mio_throttle"),
        STALLS.format("short_scoreboard"),
        STALLS.format("gmma"),
        "gpu__time_duration.sum",
    ),
)

MEMORY_OPTIMIZATION = Stage(
    name="memory_optimization",
    title="Memory optimization",
    objective=(
        "Move bytes well: coalesced and wide accesses, no re-reads beyond the compulsory traffic, cache hints and "
        "eviction, software pipelining depth, no bank conflicts. Keep the algorithm, the mapping and the tiles."
    ),
    prompt="system_memory_optimization.j2",
    metrics=(
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__t_sector_hit_rate.pct",
        "lts__t_sector_hit_rate.pct",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        STALLS.format("long_scoreboard"),
        STALLS.format("lg_throttle"),
        "gpu__time_duration.sum",
    ),
)

STRUCTURE_STAGES = (ALGORITHMIC_STRUCTURE,)
TUNING_STAGES = (PARALLEL_MAPPING, TENSOR_TILING, MEMORY_OPTIMIZATION)
STAGES = (*STRUCTURE_STAGES, *TUNING_STAGES)
