"""`@triton.autotune` as on a GPU: any configuration may be chosen, and choosing it runs the kernel several times.

Triton's own `run` times every configuration on a GPU, which is not there. Here each real run takes another one, in an
order given by the judge's seed; one that a `tl.static_assert` of the kernel refuses is passed over. The first launch
for a tuning key is tuned: the kernel runs once more before it, so that what tuning leaves in memory shows. As in
Triton, `reset_to_zero`, `restore_value` and the user's hooks run during tuning only, so later launches reset nothing.
"""

from __future__ import annotations

from typing import Any

from triton.runtime.autotuner import Autotuner

from egg_graph.evaluator.interpreter.language import StaticAssertion
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState, current_run
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.schema import Knob

MOST_RECORDED = 64
"""Record a launch under at most this many configurations."""


def run_autotuned(self: Any, *args: Any, **keywords: Any) -> Any:
    """Replace `Autotuner.run`. A fake run takes the first configuration; every launch records all of them."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    try:
        return _run(self, args, keywords)
    finally:
        self.nargs = None  # it would keep the launch's tensors alive


def _run(self: Any, args: Any, keywords: dict[str, Any]) -> Any:
    """Launch under the first configuration chosen that the kernel's static assertions let pass."""
    configs = list(self.prune_configs(keywords))  # a pruning function may be a generator
    key = _key(self, keywords)
    while True:
        try:
            return _run_one(self, configs, key, args, dict(keywords))
        except KernelFault as fault:
            configs = [config for config in configs if config is not self.best_config]
            if not isinstance(fault.__cause__, StaticAssertion) or not configs:
                raise
            self.cache.pop(key, None)


def _run_one(self: Any, configs: list[Any], key: tuple[Any, ...], args: Any, keywords: dict[str, Any]) -> Any:
    """Launch under one of these configurations."""
    run = current_run()
    run.configs = tuple(_knobs(config) for config in configs)
    self.best_config = chosen = _choose(run, self, key, configs)
    keywords.update(chosen.all_kwargs())
    if len(self.configs) > 1 and key not in self.cache and not run.fake and not run.silent:
        self.cache[key] = chosen
        if _tune(self, run, args, keywords):
            return None
    if run.fake:
        _record_others(self, run, configs, args, keywords)
    if chosen.pre_hook:
        chosen.pre_hook({**self.nargs, **keywords})
    return self.fn.run(*args, **keywords)


def _record_others(self: Any, run: RunState, configs: list[Any], args: Any, keywords: dict[str, Any]) -> None:
    """Record the launch under the configurations that are not chosen; any of them may win on a GPU."""
    chosen = self.best_config
    run.only_records, run.launch = True, LaunchState(self.base_fn.__name__)  # what a hook does is not forward's work
    try:
        for config in configs[:MOST_RECORDED]:
            if config is not chosen:
                with_it = {**keywords, **config.all_kwargs()}
                if config.pre_hook:
                    config.pre_hook({**self.nargs, **with_it})
                self.fn.run(*args, **with_it)
    finally:
        run.only_records, run.launch = False, None


def _key(self: Any, keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the tuning key: Triton makes one choice for each."""
    named = {name: value for name, value in {**self.nargs, **keywords}.items() if name in self.arg_names}
    dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
    return (*(named[name] for name in self.keys if name in named), *dtypes)


def _choose(run: RunState, self: Any, key: tuple[Any, ...], configs: list[Any]) -> Any:
    """Choose a configuration; within one forward, launches with the same tuning key get the same one, as on a GPU."""
    if run.trials is None or run.silent:
        return configs[0]
    known = run.chosen_configs.get((id(self), key))
    if known is None or known not in configs:
        known = run.chosen_configs[id(self), key] = run.trials.choose(self.base_fn.__name__, configs)
    return known


def _tune(self: Any, run: RunState, args: Any, keywords: dict[str, Any]) -> bool:
    """Run the kernel once as tuning does. Return True if the launch that follows would only repeat it.

    It would not if there are hooks, or if the kernel updates memory that it also reads. Then the record of the tuning
    launch is dropped.
    """
    before, configs = len(run.launches), run.configs
    hooks = (self.reset_to_zero, self.restore_value, self.user_defined_pre_hook, self.user_defined_post_hook)
    everything = {**self.nargs, **keywords}
    if self.best_config.pre_hook:
        self.best_config.pre_hook(everything)
    self.pre_hook(everything)
    run.accumulates = False
    failed: Exception | None = None
    try:
        self.fn.run(*args, **keywords)
    except Exception as error:
        failed = error
        raise
    finally:
        self.post_hook(everything, exception=failed)
    accumulates, run.accumulates = run.accumulates, None
    if not any(hooks) and not accumulates and not self.best_config.pre_hook:
        return True
    self.pre_hook(everything, reset_only=True)
    del run.launches[before:], run.counts[before:]
    run.configs = configs
    return False


def _knobs(config: Any) -> dict[str, Knob]:
    """Return the values of a configuration that JSON can hold."""
    return {name: value for name, value in config.all_kwargs().items() if isinstance(value, int | float | str | bool)}


def install() -> None:
    """Replace how Triton launches autotuned kernels."""
    Autotuner.run = run_autotuned
