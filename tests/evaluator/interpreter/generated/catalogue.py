"""Every category, with how many kernels of it there are. A kernel is known by its category and its number."""

from collections.abc import Callable, Iterator

from tests.evaluator.interpreter.generated.categories import (
    blocks,
    builtins,
    conversions,
    mathematics,
    operators,
    python,
    reductions,
    rest,
)
from tests.evaluator.interpreter.generated.writer import GeneratedKernel, Writer

CATEGORIES: dict[str, tuple[int, Callable[[Writer], None]]] = {
    "integer_operators": (24, operators.integers),
    "shifts": (8, operators.shifts),
    "shifts_beyond_the_width": (4, operators.shifts_beyond),
    "comparisons": (12, operators.comparisons),
    "float_operators": (20, operators.floats),
    "fused_operators": (4, operators.fused),
    "integer_division": (24, operators.integer_division),
    "number_divided_by_block": (8, operators.number_divided_by_block),
    "division_by_zero": (6, operators.division_by_zero),
    "true_division": (12, operators.true_division),
    "float_remainder": (4, operators.float_remainder),
    "float_floor_division": (1, operators.float_floor_division_is_refused),
    "casts_in_range": (13, conversions.casts_in_range),
    "casts_between_integers": (8, conversions.casts_between_integers),
    "casts_between_floats": (8, conversions.casts_between_floats),
    "casts_of_integers_to_floats": (8, conversions.casts_of_integers_to_floats),
    "casts_of_fractions": (4, conversions.casts_of_fractions),
    "casts_out_of_range": (8, conversions.casts_out_of_range),
    "bits_as_another_type": (8, conversions.bits_as_another_type),
    "rounding_of_casts": (4, conversions.rounding_of_casts),
    "float8": (6, conversions.float8),
    "promotions": (18, conversions.promotions),
    "promotions_of_scalars": (24, conversions.promotions_of_scalars),
    "exact_sums": (15, reductions.exact_sums),
    "rounded_sums": (8, reductions.rounded_sums),
    "extremes": (14, reductions.extremes),
    "places_of_extremes": (10, reductions.places_of_extremes),
    "reductions_of_bits": (8, reductions.bits),
    "own_reductions": (8, reductions.own_reductions),
    "boolean_reductions": (4, reductions.boolean_reductions),
    "exact_scans": (14, reductions.exact_scans),
    "rounded_scans": (4, reductions.rounded_scans),
    "own_scans": (8, reductions.own_scans),
    "booleans": (14, python.booleans),
    "extremes_of_python": (12, python.extremes_of_python),
    "conditions": (9, python.conditions),
    "scalars_in_branches": (5, python.scalars_in_branches),
    "counted_loops": (16, python.counted_loops),
    "loops_backwards": (5, python.loops_backwards),
    "while_loops": (8, python.while_loops),
    "tuples": (4, python.tuples),
    "device_functions": (10, python.device_functions),
    "constants": (8, python.constants),
    "minimum_and_maximum": (9, builtins.extremes),
    "zeros_of_both_signs": (4, builtins.zeros_of_both_signs),
    "selections": (12, builtins.selections),
    "roundings": (6, builtins.roundings),
    "fused_products": (4, builtins.fused_products),
    "functions": (18, builtins.functions),
    "composites": (2, builtins.composites),
    "high_products": (4, builtins.high_products),
    "index_helpers": (5, builtins.index_helpers),
    "random_numbers": (5, builtins.random_numbers),
    "methods": (4, builtins.methods),
    "libdevice_integers": (12, mathematics.integer_functions),
    "libdevice_bits": (9, mathematics.bit_patterns),
    "libdevice_exact": (16, mathematics.exact_functions),
    "libdevice_scaling": (2, mathematics.scaling),
    "libdevice_directed": (10, mathematics.directed_rounding),
    "libdevice_conversions": (15, mathematics.directed_conversions),
    "libdevice_rounded": (29, mathematics.rounded_functions),
    "libdevice_edges": (23, mathematics.edges_of_functions),
    "libdevice_of_more": (8, mathematics.functions_of_more),
    "libdevice_special": (10, mathematics.special_functions),
    "libdevice_fast": (8, mathematics.fast_functions),
    "shapes": (12, blocks.shapes),
    "joins": (8, blocks.joins),
    "gathers": (5, blocks.gathers),
    "sorts": (7, blocks.sorts),
    "histograms": (4, blocks.histograms),
    "masked_loads": (14, blocks.masked_loads),
    "masked_stores": (6, blocks.masked_stores),
    "programs": (4, blocks.programs),
    "block_pointers": (6, blocks.block_pointers),
    "descriptors": (4, blocks.descriptors),
    "atomics_apart": (10, blocks.atomics_apart),
    "atomics_together": (8, blocks.atomics_together),
    "compare_and_swap": (4, blocks.compare_and_swap),
    "exact_dots": (12, blocks.exact_dots),
    "rounded_dots": (12, blocks.rounded_dots),
    "batched_dots": (4, blocks.batched_dots),
    "dots_in_loops": (6, blocks.dots_in_loops),
    "other_names": (12, rest.other_names),
    "largest": (3, rest.largest),
    "hints": (2, rest.hints),
    "assembly": (6, rest.assembly),
    "mapped": (2, rest.mapped),
    "counters": (2, rest.counters),
    "libdevice_words": (1, rest.words_of_floats),
}  # fmt: skip
"""Category -> number of kernels, and the function that writes one."""


def generated(category: str, number: int) -> GeneratedKernel:
    """Write one kernel: the same text for the same category and number, on every machine."""
    writer = Writer(category, number)
    CATEGORIES[category][1](writer)
    return writer.kernel()


def all_kernels(only: str = "") -> Iterator[GeneratedKernel]:
    """Write every kernel whose name begins with one of the comma-separated words of `only`; all if it is empty."""
    words = tuple(filter(None, only.split(",")))
    for category, (count, _) in CATEGORIES.items():
        for number in range(count):
            if not words or f"{category}_{number:03d}".startswith(words):
                yield generated(category, number)
