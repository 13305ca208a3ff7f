"""Template filters of the page: values as text."""

from collections.abc import Mapping

from egg_graph.schema import Effect, Evaluation, Usage

TONES = {"faster": "good", "correct": "good", "inconclusive": "fair", "slower": "fair", "reference_kept": "fair"}
"""Tone of a status; every other status is `bad`."""


def tone(status: str) -> str:
    """The tone of a status: `good`, `fair` or `bad`."""
    return TONES.get(status, "bad")


def words(name: str) -> str:
    """An identifier with spaces for underscores."""
    return name.replace("_", " ")


def duration(evaluation: Evaluation) -> str:
    """The measured time, else the lower bound with "≥"; "-" for a kernel that cannot be used."""
    if not evaluation.usable:
        return "-"
    if evaluation.timing is not None:
        return f"{evaluation.timing.candidate_ms:.4g} ms"
    return "-" if evaluation.bound is None else f"≥ {evaluation.bound.milliseconds:.4g} ms"


def margin(evaluation: Evaluation) -> str:
    """Error over budget of the check with the largest such ratio."""
    checks = [check for check in evaluation.checks if check.budget > 0]
    return f"{max(check.error / check.budget for check in checks):.2g}" if checks else "-"


def effect_text(effect: Effect | None) -> str:
    """The predicted effect and the measured one, in one phrase."""
    if effect is None:
        return "-"
    predicted = f"{effect.expected.metric} {effect.expected.direction}"
    if effect.held is None or effect.before is None or effect.after is None:
        return f"{predicted}: not measured"
    return f"{predicted}: {effect.before:.4g} to {effect.after:.4g}, {'held' if effect.held else 'did not hold'}"


def cost(usage: Usage) -> str:
    """Calls and tokens of a model, and the seconds that its answers took."""
    tokens = usage.input_tokens + usage.output_tokens
    parts = [f"{usage.calls} calls"] if usage.calls else []
    parts += [f"{tokens:,} tokens"] if tokens else []
    return ", ".join([*parts, f"{usage.seconds:.1f} s"]) if parts or usage.seconds else "-"


def size(count: float) -> str:
    """A count of bytes in GB, MB, kB or B: the largest unit with a value of at least 1."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def counts(found: Mapping[str, int]) -> str:
    """Counts by name: `LDG.128 x 4, STG.32 x 8`."""
    return ", ".join(f"{name} x {count}" for name, count in sorted(found.items())) or "-"


def shapes(found: Mapping[str, tuple[int, ...]]) -> str:
    """Shapes by name: `x [16, 1024]`."""
    return ", ".join(f"{name} {list(shape)}" for name, shape in found.items()) or "-"


def pairs(found: Mapping[str, str]) -> str:
    """Texts by name: `x float32[16, 1024]`."""
    return ", ".join(f"{name} {value}" for name, value in found.items()) or "-"


def knobs(found: Mapping[str, object]) -> str:
    """Values of knobs: `BLOCK=64, WARPS=4`."""
    return ", ".join(f"{name}={value}" for name, value in found.items()) or "-"


FILTERS = {
    "bytes": size,
    "cost": cost,
    "counts": counts,
    "duration": duration,
    "effect": effect_text,
    "knobs": knobs,
    "margin": margin,
    "pairs": pairs,
    "shapes": shapes,
    "tone": tone,
    "words": words,
}
