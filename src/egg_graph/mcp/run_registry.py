"""The runs of one folder: those at work in this process, and those on disk."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from egg_graph.evaluator.protocol import Evaluator
from egg_graph.mcp.active_run import HANDOFF, ActiveRun
from egg_graph.runs.folder import read_request
from egg_graph.runs.optimize import optimize, resume
from egg_graph.runs.results import Run
from egg_graph.schema import BadInput
from egg_graph.schema.errors import ModelNotLoaded
from egg_graph.team import Team

EXPERT = "expert"
"""The team that needs no model."""
TEAMS = f"the teams are {EXPERT!r}, {HANDOFF!r} and the names of chat models such as 'openai:gpt-5'"
PATIENCE = 86_400.0
"""Seconds that a run waits for one answer."""
RESERVED = frozenset({"reference", "name", "model", "team", "evaluator", "principles", "runs_dir"})


class RunRegistry:
    """Starts, finds and stops the runs of one folder.

    Args:
        runs_dir: the folders of the runs are made in this folder.
        model: the team where none is named: `expert`, `handoff`, or the name of a chat model.
        team: plays the roles of every run that names no team; for a team of your own.
        evaluator: judges the kernels; None for the evaluator of this machine.
    """

    def __init__(
        self,
        runs_dir: str | Path = "runs",
        *,
        model: str | None = None,
        team: Team | None = None,
        evaluator: Evaluator | None = None,
    ) -> None:
        self.runs_dir = Path(runs_dir)
        self.evaluator = evaluator
        self._model = model or EXPERT
        self._team = team
        self._active: dict[str, ActiveRun] = {}

    def start(self, reference: str, name: str | None, team: str | None, knobs: Mapping[str, Any]) -> ActiveRun:
        """Start a run.

        Args:
            reference: source text, or the path of a .py file.
            name: name of the task.
            team: `expert`, `handoff`, or the name of a chat model; None for the registry's own.
            knobs: knobs of `Context`.

        Raises:
            BadInput: if there is no such team, or the run is refused before its first step.
        """
        if wrong := sorted(RESERVED & set(knobs)):
            raise BadInput(f"no knob {wrong[0]!r}; it is an argument of its own")
        services, handoff = self._services(team)

        def work(run: ActiveRun) -> Run:
            def begin(folder: Path) -> None:
                if handoff is not None:
                    handoff.join(run, folder)
                run.take_folder(folder)

            start = partial(optimize, reference, name=name, runs_dir=self.runs_dir, on_start=begin, on_event=run.listen)
            return start(**services, **knobs)

        try:
            return self._add(ActiveRun(work))
        except ModelNotLoaded as error:
            if team is None:
                raise
            raise BadInput(f"{error}; {TEAMS}") from error

    def resume(self, run: str) -> ActiveRun:
        """Go on with a run that was stopped, failed, or belonged to a process that ended.

        Raises:
            BadInput: if there is no such run, or it is at work.
        """
        phase = self._active[run].phase if run in self._active else "stopped"
        if phase in ("working", "waiting_for_answer", "stopping"):
            raise BadInput(f"the run {run!r} is {'stopping' if phase == 'stopping' else 'at work'}; watch it")
        folder = self.folder(run)
        request = read_request(folder)
        services, handoff = self._services(HANDOFF if (folder / HANDOFF).is_dir() else request["model"] or None)

        def work(active: ActiveRun) -> Run:
            if handoff is not None:
                handoff.join(active, folder)
            return resume(run, runs_dir=self.runs_dir, on_event=active.listen, **services)

        return self._add(ActiveRun(work, folder))

    def find(self, run: str) -> ActiveRun | None:
        """The run, if this process has worked on it; None where it is only on disk.

        Raises:
            BadInput: if there is no such run.
        """
        if run not in self._active:
            read_request(self.folder(run))
        return self._active.get(run)

    def close(self) -> None:
        """Stop every run before its next step. Each can be resumed."""
        for run in self._active.values():
            run.stop()

    def folder(self, run: str) -> Path:
        """The folder of a run, which need not exist.

        Raises:
            BadInput: if the name leads out of `runs_dir`.
        """
        if not run or run != Path(run).name:
            raise BadInput(f"no run {run!r}: give the id that start_run returned")
        return self.runs_dir / run

    def _add(self, run: ActiveRun) -> ActiveRun:
        folder = run.start()
        self._active[folder.name] = run
        return run

    def _services(self, team: str | None) -> tuple[dict[str, Any], "_HandoffTeam | None"]:
        """Model or team of a run and its evaluator; and the team of `handoff`, which has to be told the folder."""
        if team is None and self._team is not None:
            return {"team": self._team, "evaluator": self.evaluator}, None
        name = team or self._model
        if name == HANDOFF:
            handoff = _HandoffTeam()
            return {"team": handoff.team, "evaluator": self.evaluator}, handoff
        if name != EXPERT and get_close_matches(name, (EXPERT, HANDOFF), n=1, cutoff=0.8):
            raise BadInput(f"no team {name!r}: {TEAMS}")
        return {"model": None if name == EXPERT else name, "evaluator": self.evaluator}, None


class _HandoffTeam:
    """A team whose prompts and answers are files in the folder of the run, which is known once the run has started."""

    def __init__(self) -> None:
        from egg_graph.agents import ModelTeam
        from egg_graph.agents.handoff import HandoffModel

        self._model = HandoffModel(folder=Path(HANDOFF), timeout=PATIENCE)
        self.team = ModelTeam(self._model, name=HANDOFF)

    def join(self, run: ActiveRun, folder: Path) -> None:
        """Work for this run: prompts and answers go into its folder, and its stop ends the wait for an answer."""
        self._model.folder = folder / HANDOFF
        self._model.on_poll = run.check
