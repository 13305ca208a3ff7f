"""Which configurations to try, in which order, and which trial won."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from egg_graph.schema import USABLE, BadInput, Knob, Trial


def configurations(
    config: Mapping[str, Knob],
    knobs: Mapping[str, Sequence[Knob]],
    limit: int,
    favourite: Mapping[str, Knob] | None = None,
    farthest: int | None = None,
) -> list[dict[str, Knob]]:
    """Choose configurations to try, nearest first, always the same for the same arguments.

    The current configuration comes first, then the favourite, then every one that differs from the current one in one
    knob, then in two, and so on to the whole product: where the limit cuts, what is lost is farthest from a kernel
    known to work.

    Args:
        config: the current value of each knob.
        knobs: the values that each turned knob may take; a knob not named here keeps its value.
        limit: the most configurations to return, the current one included.
        favourite: values that won before; left out where one of them is none that its knob may take.
        farthest: the most knobs in which a configuration differs from the current one, the favourite aside; None for
            any number.

    Returns:
        Complete configurations (every knob of `config`), without duplicates.

    Raises:
        BadInput: if `knobs` turns a knob that `config` lacks, or `limit` is below 1.
    """
    if limit < 1:
        raise BadInput(f"the limit of a sweep must be at least 1, not {limit}")
    for knob in knobs:
        if knob not in config:
            raise BadInput(f"knob {knob!r} is not in the configuration ({', '.join(config) or 'which is empty'})")
    nearest = _nearest_first(config, knobs, farthest)
    second = None if favourite is None else _turned(config, knobs, favourite)
    if second is not None:
        ahead = [next(nearest), second]
        nearest = itertools.chain(ahead, (other for other in nearest if repr(other) != repr(ahead[1])))
    return list(itertools.islice(nearest, limit))


def _turned(
    config: Mapping[str, Knob], knobs: Mapping[str, Sequence[Knob]], favourite: Mapping[str, Knob]
) -> dict[str, Knob] | None:
    """The configuration with the favourite's values; None where it is the current one, or a knob may not take one."""
    for knob, values in spanned(config, knobs).items():
        if knob not in favourite or repr(favourite[knob]) not in map(repr, values):
            return None
    turned = {**config, **{knob: favourite[knob] for knob in knobs}}
    return None if repr(turned) == repr(dict(config)) else turned


def _nearest_first(
    config: Mapping[str, Knob], knobs: Mapping[str, Sequence[Knob]], farthest: int | None
) -> Iterator[dict[str, Knob]]:
    others = {knob: values[1:] for knob, values in spanned(config, knobs).items()}
    for distance in range(min(len(others), farthest or len(others)) + 1):
        for turned in itertools.combinations(others, distance):
            for values in itertools.product(*(others[knob] for knob in turned)):
                yield {**config, **dict(zip(turned, values, strict=True))}


def joined(trials: Sequence[Trial], limit: int, gain: float) -> list[dict[str, Knob]]:
    """Choose configurations that join changes of single knobs which each paid alone.

    All of them together come first, then subsets, the larger ones and those that paid most before.

    Args:
        trials: of a sweep, the current configuration first.
        limit: the most configurations to return.
        gain: the relative gain in time beyond which a change paid.

    Returns:
        Complete configurations that were not tried; none where fewer than two knobs paid, or nothing was timed.
    """
    own, tried = trials[0], {repr(trial.config) for trial in trials}
    most = 0.0 if own.milliseconds is None else own.milliseconds * (1 - gain)
    paid: dict[str, tuple[float, Knob]] = {}
    for trial in trials[1:]:
        turned = [knob for knob, value in trial.config.items() if repr(value) != repr(own.config[knob])]
        if len(turned) != 1 or trial.status not in USABLE or trial.milliseconds is None:
            continue
        (knob,) = turned
        if trial.milliseconds < (paid[knob][0] if knob in paid else most):
            paid[knob] = trial.milliseconds, trial.config[knob]
    best_first = sorted(paid, key=lambda knob: paid[knob][0])
    subsets = (s for size in range(len(paid), 1, -1) for s in itertools.combinations(best_first, size))
    found = ({**own.config, **{knob: paid[knob][1] for knob in subset}} for subset in subsets)
    return list(itertools.islice((config for config in found if repr(config) not in tried), limit))


def spanned(config: Mapping[str, Knob], knobs: Mapping[str, Sequence[Knob]]) -> dict[str, tuple[Knob, ...]]:
    """The values that each turned knob may take, each once, the current one first."""
    return {knob: (config[knob], *_others(config[knob], values)) for knob, values in knobs.items()}


def left_out(values: Mapping[str, Sequence[Knob]], tried: Sequence[Mapping[str, Knob]]) -> str:
    """Name what a sweep does not try: the values where one knob turns, else how many configurations of how many.

    Args:
        values: the values that each knob may take, each once.
        tried: the configurations that are tried.

    Returns:
        A few words; empty where every configuration is tried.
    """
    possible = math.prod(len(one) for one in values.values())
    if possible <= len(tried):
        return ""
    turning = [knob for knob, one in values.items() if len(one) > 1]
    if len(turning) > 1:
        return f"{possible - len(tried)} of {possible} configurations left out"
    (knob,) = turning
    seen = {repr(config[knob]) for config in tried}
    return f"{knob} {', '.join(str(value) for value in values[knob] if repr(value) not in seen)} left out"


def _others(current: Knob, values: Sequence[Knob]) -> list[Knob]:
    """The values other than the current one, each once. 1, 1.0 and True are three values."""
    seen = {repr(current)}
    return [value for value in values if repr(value) not in seen and not seen.add(repr(value))]  # type: ignore[func-returns-value]


def best(trials: Sequence[Trial]) -> Trial | None:
    """The usable trial with the smallest merit; None where no trial is usable.

    Of several with equal merit the first is taken, so that the current configuration stays.
    """
    return min((trial for trial in trials if trial.status in USABLE), key=lambda trial: trial.merit, default=None)
