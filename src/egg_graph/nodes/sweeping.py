"""What a sweep of the tuner tries, and what its trials say."""

from collections.abc import Iterable, Sequence

from egg_graph.context import Context
from egg_graph.nodes.improvement import NOISE
from egg_graph.nodes.roles import TUNER
from egg_graph.routing import timed
from egg_graph.schema import Candidate, Knob, StageName, Trial
from egg_graph.stages import swept_knobs
from egg_graph.state import StageState

UNTIMED_CONFIGS = 4
"""Most configurations in a sweep without a clock: there only the lower bound and large spills rank them."""
KNOWN_CONFIGS = 6
"""Most configurations of the one sweep for all stages, where one that won in the same situation is known."""
JOINED = 4
"""Most configurations that join changes which each paid alone, in the one sweep that stands for those of all stages."""


def choose_configurations(
    best: Candidate, stage: StageName, state: StageState, context: Context, favourite: dict[str, Knob] | None
) -> list[dict[str, Knob]]:
    """The configurations of the best kernel to try, its own first.

    In the one sweep that stands for those of all stages each turns one knob: changes that pay are joined afterwards.

    Args:
        favourite: the one that won before; None where nobody remembers one.
    """
    from egg_graph.tuning import configurations

    limit, _ = sweep_limit(state, context, known=favourite is not None)
    farthest = 1 if context.sweep == "knobs" else None
    return configurations(best.config, swept_knobs(best.space, stage, context), limit, favourite, farthest)


def sweep_limit(state: StageState, context: Context, *, known: bool) -> tuple[int, str]:
    """The most configurations of a sweep, and in words what limits them.

    Args:
        known: whether a configuration is known that won in the same situation.
    """
    if context.sweep == "knobs" and known:
        return min(KNOWN_CONFIGS, context.max_configs), "a stored winner is known: `egg-graph tune` tries more"
    if context.sweep == "knobs":
        most = max(2, 2 * context.max_configs - JOINED)
        return most, f"max_configs is {context.max_configs}, and {most} fit into one sweep for all stages"
    if timed(state) or context.max_configs <= UNTIMED_CONFIGS:
        return context.max_configs, f"max_configs is {context.max_configs}"
    return UNTIMED_CONFIGS, f"where nothing is timed, a sweep tries at most {UNTIMED_CONFIGS} configurations"


def what_is_left_out(
    best: Candidate, tried: Sequence[Candidate], stage: StageName, state: StageState, context: Context, *, known: bool
) -> str:
    """Which configurations a sweep does not try, and which limit leaves them out; empty where none is meant to be.

    Args:
        known: whether a configuration is known that won in the same situation.
    """
    from egg_graph.tuning import left_out, spanned

    most, limit = sweep_limit(state, context, known=known)
    if context.sweep == "knobs" and len(tried) < most:
        return ""
    left = left_out(spanned(best.config, swept_knobs(best.space, stage, context)), [c.config for c in tried])
    return f"{left}: {limit}" if left else ""


def variants(best: Candidate, configs: Iterable[dict[str, Knob]], stage: StageName) -> list[Candidate]:
    """The best kernel in each of some configurations; itself in its own."""
    from egg_graph.tuning import bake

    return [
        best
        if config == best.config
        else best.model_copy(
            update={
                "source": bake(best.source, config),
                "author": TUNER,
                "stage": stage,
                "mode": "tune",
                "parent": best.id,
                "plan": _changes(best.config, config),
                "config": config,
                "mended": (),
            }
        )
        for config in configs
    ]


def join_changes(trials: Sequence[Trial], context: Context) -> list[dict[str, Knob]]:
    """The configurations to try after those of the one sweep for all stages; none after any other sweep."""
    from egg_graph.tuning import joined

    return joined(trials, JOINED, NOISE) if context.sweep == "knobs" else []


def are_alike(winner: Trial, own: Trial) -> bool:
    """Whether the winner of a sweep is faster than the kernel's own configuration by no more than the noise."""
    if winner.milliseconds is None or own.milliseconds is None:
        return False
    return winner.milliseconds >= own.milliseconds * (1 - NOISE)


def _changes(old: dict[str, Knob], new: dict[str, Knob]) -> str:
    return ", ".join(f"{knob} {old[knob]} -> {value}" for knob, value in new.items() if value != old[knob])
