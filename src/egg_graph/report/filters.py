"""How the page says things: small functions from values to words, used as template filters."""

from collections.abc import Mapping

from egg_graph.schema import Effect, Evaluation, Usage

TONES = {"faster": "good", "correct": "good", "inconclusive": "fair", "slower": "fair", "reference_kept": "fair"}
"""The tone that a status is told in; every other one is `bad`."""


def tone(status: str) -> str:
    """`good`, `fair` or `bad`."""
    return TONES.get(status, "bad")


def words(name: str) -> str:
    """An identifier as words."""
    return name.replace("_", " ")


def duration(evaluation: Evaluation) -> str:
    """Time where it was measured, else the bound, marked as one; neither for a kernel that cannot be used."""
    if not evaluation.usable:
        return "-"
    if evaluation.timing is not None:
        return f"{evaluation.timing.candidate_ms:.4g} ms"
    return "-" if evaluation.bound is None else f"≥ {evaluation.bound.milliseconds:.4g} ms"


def margin(evaluation: Evaluation) -> str:
    """Error over budget of the check nearest to its budget."""
    checks = [check for check in evaluation.checks if check.budget > 0]
    return f"{max(check.error / check.budget for check in checks):.2g}" if checks else "-"


def effect(effect: Effect | None) -> str:
    """Predicted against measured, in one phrase."""
    if effect is None:
        return "-"
    predicted = f"{effect.expected.metric} {effect.expected.direction}"
    if effect.held is None or effect.before is None or effect.after is None:
        return f"{predicted}: not measured"
    return f"{predicted}: {effect.before:.4g} to {effect.after:.4g}, {'held' if effect.held else 'did not hold'}"


def cost(usage: Usage) -> str:
    """Calls, tokens and seconds of the model, or what an answer without a model took."""
    tokens = usage.input_tokens + usage.output_tokens
    told = [f"{usage.calls} calls"] if usage.calls else []
    told += [f"{tokens:,} tokens"] if tokens else []
    return ", ".join([*told, f"{usage.seconds:.1f} s"]) if told or usage.seconds else "-"


def size(count: float) -> str:
    """Bytes in the largest unit that leaves at least one."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def counts(found: Mapping[str, int]) -> str:
    """`LDG.128 x 4, STG.32 x 8`."""
    return ", ".join(f"{name} x {count}" for name, count in sorted(found.items())) or "-"


def shapes(found: Mapping[str, tuple[int, ...]]) -> str:
    """`x [16, 1024]`."""
    return ", ".join(f"{name} {list(shape)}" for name, shape in found.items()) or "-"


def pairs(found: Mapping[str, str]) -> str:
    """`x float32[16, 1024]`."""
    return ", ".join(f"{name} {value}" for name, value in found.items()) or "-"


FILTERS = {
    "bytes": size,
    "cost": cost,
    "counts": counts,
    "duration": duration,
    "effect": effect,
    "margin": margin,
    "pairs": pairs,
    "shapes": shapes,
    "tone": tone,
    "words": words,
}
