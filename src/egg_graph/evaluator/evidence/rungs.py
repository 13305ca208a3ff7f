"""The rungs of both ladders: one name each, and what passing one proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RungName = Literal[
    "baseline",
    "machine",
    "clean_workers",
    "static_gate",
    "process",
    "correctness",
    "sizes_at_full_value",
    "other_inputs",
    "inputs_left_out",
    "other_uses",
    "uses_left_out",
    "tuning_configurations",
    "repeats",
    "integrity",
    "full_shape_launches",
    "unsampled_programs",
    "greatest_integers",
    "coverage_at_full_shape",
    "bounds_at_odd_shape",
    "compile_for_target",
    "compile_checked_kernels",
    "kernels_at_full_shape",
    "masked_lanes",
    "constructor_arguments",
    "input_sizes",
    "inputs_never_tried",
    "launches",
    "roofline",
    "answers_on_gpu",
    "timing",
    "device_trace",
    "profile",
    "sanitizer",
    "sanitizer_rest",
    "confirmation",
]
"""Name of a rung. In evidence, `correctness` is followed by the shape it was judged at: `correctness_awkward`."""

Ladder = Literal["gpu", "no gpu", "both"]


@dataclass(frozen=True)
class RungRow:
    """One row of the table of rungs."""

    ladder: Ladder
    """Which ladder has this rung."""
    proves: str
    """What passing it proves, in one sentence."""


RUNGS: dict[RungName, RungRow] = {
    "baseline": RungRow("both", "The reference runs, repeats itself, and can tell a kernel from an empty one."),
    "machine": RungRow("both", "The machine did its part; a fault of it is reported here and blames no candidate."),
    "clean_workers": RungRow("both", "A second evaluation on fresh processes replaced one that the machine spoilt."),
    "static_gate": RungRow("both", "The source is Triton with a ModelNew: no test code, no forbidden construct."),
    "process": RungRow("gpu", "The candidate runs in a process of its own."),
    "correctness": RungRow("both", "Answers are right at this shape: every seed, every element, inputs unchanged."),
    "sizes_at_full_value": RungRow("no gpu", "Every size was tried as large as it is at full shape."),
    "other_inputs": RungRow("both", "Answers are right on input families that get_inputs does not draw."),
    "inputs_left_out": RungRow("both", "Every input family was tried, at one shape at least."),
    "other_uses": RungRow("both", "The module is right in service: other sizes, weights, instances, modes, views."),
    "uses_left_out": RungRow("both", "Every other use of the module was tried."),
    "tuning_configurations": RungRow("no gpu", "Every configuration of an autotuned kernel ran."),
    "repeats": RungRow("gpu", "The same call gives right answers again and again (finalists)."),
    "integrity": RungRow("both", "The candidate's own kernels make the answer, and PyTorch is as it was."),
    "full_shape_launches": RungRow("no gpu", "Every access of the sampled programs is in bounds at full shape."),
    "unsampled_programs": RungRow("no gpu", "Every program at full shape was run."),
    "greatest_integers": RungRow("no gpu", "Accesses stay in bounds where integer inputs hold their greatest values."),
    "coverage_at_full_shape": RungRow("no gpu", "The programs at full shape reach all of each input and output."),
    "bounds_at_odd_shape": RungRow("gpu", "Every access of the sampled programs is in bounds at an odd shape."),
    "compile_for_target": RungRow("no gpu", "Every kernel compiles for the target GPU and fits its shared memory."),
    "compile_checked_kernels": RungRow("no gpu", "Kernels that only reduced shapes launch compile, too."),
    "kernels_at_full_shape": RungRow("no gpu", "Every kernel and branch at full shape had its values checked."),
    "masked_lanes": RungRow("no gpu", "No answer depends on lanes that a load masks off without `other`."),
    "constructor_arguments": RungRow("both", "Answers are right with other arguments of Model's constructor, too."),
    "input_sizes": RungRow("both", "Answers are right with other sizes of the inputs, too."),
    "inputs_never_tried": RungRow("both", "Answers are right with larger inputs, and with NaN in them (never tried)."),
    "launches": RungRow("gpu", "What was compiled on the GPU: registers, spills, shared memory, share of GPU time."),
    "roofline": RungRow("both", "A lower bound on the time of one forward; never a speed."),
    "answers_on_gpu": RungRow("no gpu", "Answers were compared on GPU hardware (never, without one)."),
    "timing": RungRow("gpu", "The time against the faster of eager and torch.compile at equal precision."),
    "device_trace": RungRow("gpu", "The device itself ran the candidate's kernels, and was busy no longer than timed."),
    "profile": RungRow("gpu", "Nsight Compute's metrics of the stage, or why there are none."),
    "sanitizer": RungRow("gpu", "compute-sanitizer sees no stray access, race or uninitialised read (finalists)."),
    "sanitizer_rest": RungRow("gpu", "Tools of compute-sanitizer that told nothing, and why: not done in time, say."),
    "confirmation": RungRow("gpu", "A second measurement in fresh processes agrees with the first (finalists)."),
}
