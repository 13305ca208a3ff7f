"""One worker of a bench: a process that optimizes one problem after another, on one GPU.

`python -m egg_graph.bench.worker` reads one JSON object a line on standard input, and writes one a line on standard
output:

| line | from | holds |
| --- | --- | --- |
| `Settings` | bench | first line: the GPU, the knobs, who makes team and evaluator |
| `Job` | bench | a problem, and the run to resume if there is one |
| `begun` | worker | the run's folder exists; the worker waits for a line before the run's first step |
| `doing` | worker | what is being done, for the display |
| `row` | worker | the problem's row |
| `refused` | worker | the model's endpoint rejects requests; nothing would work after that |

The worker dies with the bench, however that ends, and its judge with it.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from egg_graph.bench.ablation import services_without
from egg_graph.bench.values import Row, row_of
from egg_graph.schema import BadInput, EggError, ModelRefused, Value
from egg_graph.schema.errors import RunHeld

PATIENCE = 30.0
"""Seconds to wait for a run that the worker of a killed bench still holds."""


class Settings(Value):
    """What a worker keeps for all its jobs."""

    runs_dir: str
    model: str | dict[str, str] | None = None
    device: str = "auto"
    profile: bool = True
    gpu: str | None = None
    """UUID of the worker's GPU; None without one."""
    evaluator: str = ""
    """Name of an evaluator elsewhere; empty for this machine's."""
    store_out: str = ""
    """Store that the winner of every run's sweep is written to; empty for none."""
    parts: str = ""
    """Function that makes team and evaluator, as `module:function`; empty for the default ones."""


class Job(Value):
    """One problem to optimize."""

    name: str
    path: str
    section: str = ""
    operator_class: str = ""
    source: str = ""
    without: str = ""
    knobs: dict[str, Any] = {}
    run: str = ""
    """Name of the folder of a run that was begun; empty for a new one."""

    @property
    def known(self) -> dict[str, Any]:
        """What its row takes over."""
        return {name: getattr(self, name) for name in ("name", "section", "operator_class", "without", "source")}

    def failed(self, status: Literal["bad_input", "infra_error"], reason: str) -> Row:
        """Its row where no run could be made."""
        return Row(**self.known, task="", status=status, reason=reason, run=self.run)


class Worker:
    """Does jobs with one evaluator, which stays warm between them.

    Args:
        settings: what all jobs have in common.
        tell: sends a message to the bench.
        wait: returns when the bench has answered.
    """

    def __init__(self, settings: Settings, tell: Callable[..., None], wait: Callable[[], object]) -> None:
        self.settings, self.tell, self.wait = settings, tell, wait
        self.services = self._services()
        self._attempt = ""

    def close(self) -> None:
        """End the evaluator."""
        close = getattr(self.services.get("evaluator"), "close", None)
        if close is not None:
            close()

    def do(self, job: Job) -> Row:
        """Optimize one problem, or go on with its run. Where no run can be made, the row says why.

        Raises:
            ModelRefused: if the model's endpoint rejects requests.
        """
        self._attempt = ""
        try:
            run = self._run(job)
            self._store_winner(run)
            return row_of(run, **job.known)
        except BadInput as error:
            return job.failed("bad_input", str(error))
        except ModelRefused:
            raise
        except EggError as error:
            return job.failed("infra_error", str(error))
        except Exception as error:  # noqa: BLE001 - a defect of ours costs one problem, and its row tells
            traceback.print_exc()
            reason = f"a defect of egg-graph, told in the log: {type(error).__name__}: {error}"
            return job.failed("infra_error", reason)

    def _run(self, job: Job) -> Any:
        from egg_graph import optimize, resume

        services = {**self.services, **services_without(job.without)}
        runs_dir = Path(self.settings.runs_dir)
        if job.run and (runs_dir / job.run).is_dir():
            return self._unlocked(lambda: resume(job.run, runs_dir=runs_dir, on_event=self._hear, **services))
        return optimize(job.path, runs_dir=runs_dir, on_start=self._begin, on_event=self._hear, **services, **job.knobs)

    def _store_winner(self, run: Any) -> None:
        from egg_graph.runs.winner import store_winner

        if self.settings.store_out:
            store_winner(run, [Path(self.settings.store_out)])

    def _unlocked(self, go_on: Callable[[], Any]) -> Any:
        """Resume, once the worker that was killed with its bench has let go of the run."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return go_on()
            except RunHeld:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def _begin(self, folder: Path) -> None:
        self.tell(begun=folder.name)
        self.wait()

    def _hear(self, event: Any) -> None:
        """Tell the bench what is being done."""
        if "attempt" in event:
            self._attempt = f"attempt {event['attempt']}, "
        if event.get("event") in ("started", "working"):
            self.tell(doing=f"{self._attempt}{event.get('doing') or event.get('node', '')}")

    def _services(self) -> dict[str, Any]:
        settings = self.settings
        if settings.parts:
            return {"model": settings.model, **load_parts(settings.parts)(settings.gpu)}
        if settings.evaluator:
            from egg_graph.evaluator.remote.by_name import evaluator_by_name

            return {"model": settings.model, "evaluator": evaluator_by_name(settings.evaluator)}
        from egg_graph.evaluator import LocalEvaluator

        profile = settings.profile and settings.model is not None  # the embedded expert reads no metrics
        evaluator = LocalEvaluator(device=settings.device, profile=profile, gpu=settings.gpu)  # type: ignore[arg-type]
        evaluator.start()
        return {"model": settings.model, "evaluator": evaluator}


def load_parts(name: str) -> Callable[[str | None], dict[str, Any]]:
    """Find a function that takes a GPU's UUID, or None, and returns team and evaluator for `optimize`.

    Args:
        name: `module:function`.

    Raises:
        BadInput: if there is none of that name.
    """
    module, _, function = name.partition(":")
    try:
        found: Callable[[str | None], dict[str, Any]] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"parts: no function {name!r} (module:function): {error}") from error
    return found


@contextmanager
def private_output() -> Iterator[IO[str]]:
    """Standard output for the messages alone: whatever else is printed there goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as messages:
        os.dup2(2, 1)
        yield messages


def serve(messages_in: IO[str], messages_out: IO[str]) -> None:
    """Do the jobs that come, until there are no more."""

    def tell(**message: Any) -> None:
        messages_out.write(json.dumps(message) + "\n")
        messages_out.flush()

    worker = Worker(Settings.model_validate_json(messages_in.readline()), tell, messages_in.readline)
    try:
        for line in messages_in:
            tell(row=worker.do(Job.model_validate_json(line)).model_dump(mode="json"))
    except ModelRefused as error:
        tell(refused=str(error))
    finally:
        worker.close()


def main() -> None:
    """Serve the bench that started this process, and die with it."""
    from egg_graph.evaluator.sandbox.confine import die_with_parent

    die_with_parent()
    with private_output() as messages:
        serve(sys.stdin, messages)


if __name__ == "__main__":
    main()
