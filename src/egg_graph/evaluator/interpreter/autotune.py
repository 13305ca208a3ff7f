"""`@triton.autotune` as a GPU meets it: any configuration may be chosen, and choosing runs the kernel many times.

A real run takes another configuration at each launch, in an order that nobody outside of the judge knows. The first
launch for a key is tuned: the kernel runs once more before it, so that what tuning leaves behind shows. Hooks run then
alone, as in Triton: `reset_to_zero` resets nothing at later launches.
"""

from __future__ import annotations

from typing import Any

from triton.runtime.autotuner import Autotuner

from egg_graph.evaluator.interpreter.run_state import Session, current
from egg_graph.schema import Knob


def run(self: Any, *args: Any, **keywords: Any) -> Any:
    """Replacement of `Autotuner.run`; a fake run takes the first configuration, and puts all of them on record."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    configs = self.prune_configs(keywords)
    session, key = current(), _key(self, keywords)
    session.configs = tuple(_plain(config) for config in configs)
    self.best_config = chosen = _chosen(session, self, key, configs)
    keywords.update(chosen.all_kwargs())
    if len(self.configs) > 1 and key not in self.cache and not session.fake and not session.silent:
        self.cache[key] = chosen
        if _tuned(self, session, args, keywords):
            return None
    if chosen.pre_hook:
        chosen.pre_hook({**self.nargs, **keywords})
    return self.fn.run(*args, **keywords)


def _key(self: Any, keywords: dict[str, Any]) -> tuple[Any, ...]:
    """What Triton remembers its choice by."""
    named = {name: value for name, value in {**self.nargs, **keywords}.items() if name in self.arg_names}
    dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
    return (*(named[name] for name in self.keys if name in named), *dtypes)


def _chosen(session: Session, self: Any, key: tuple[Any, ...], configs: list[Any]) -> Any:
    """One configuration for all launches of one forward that share a key, as on a GPU."""
    if session.trials is None or session.silent:
        return configs[0]
    known = session.chosen.get((id(self), key))
    if known is None or known not in configs:
        known = session.chosen[id(self), key] = session.trials.choose(self.base_fn.__name__, configs)
    return known


def _tuned(self: Any, session: Session, args: Any, keywords: dict[str, Any]) -> bool:
    """Run the kernel once as tuning does. True if the launch that follows would do the very same again."""
    before, configs = len(session.launches), session.configs
    hooks = (self.reset_to_zero, self.restore_value, self.user_defined_pre_hook, self.user_defined_post_hook)
    everything = {**self.nargs, **keywords}
    if self.best_config.pre_hook:
        self.best_config.pre_hook(everything)
    self.pre_hook(everything)
    session.accumulates = False
    failed: Exception | None = None
    try:
        self.fn.run(*args, **keywords)
    except Exception as error:
        failed = error
        raise
    finally:
        self.post_hook(everything, exception=failed)
    accumulates, session.accumulates = session.accumulates, None
    if not any(hooks) and not accumulates and not self.best_config.pre_hook:
        return True
    self.pre_hook(everything, reset_only=True)
    del session.launches[before:]
    session.configs = configs
    return False


def _plain(config: Any) -> dict[str, Knob]:
    return {name: value for name, value in config.all_kwargs().items() if isinstance(value, int | float | str | bool)}


def install() -> None:
    """Replace Triton's autotuner."""
    Autotuner.run = run
