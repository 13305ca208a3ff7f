"""The embedded expert: analyst, coder and debugger without a model. Each answer follows from its brief alone."""

import time

from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.process import begin_capture
from egg_graph.expert.codegen.reference import CannotWrite
from egg_graph.expert.roles.analyst import plan_structure, plan_tuning
from egg_graph.expert.roles.coder import pointless_repair, write_source
from egg_graph.expert.roles.debugger import diagnose
from egg_graph.expert.roles.switch import read_switch
from egg_graph.schema import Analysis, Brief, Diagnosis, Draft, KernelTask, Usage


class EmbeddedExpert:
    """Plays the whole Team from playbooks: no key, no network, no state between calls."""

    name = "embedded expert"
    no_plan = "the embedded expert follows no plan but its own: give a chat model"
    """Why a person's plan is not followed."""
    reads_metrics = False
    """Its analyst goes by times, bounds and spills: no kernel is profiled again for it."""
    drafts_alike = True
    """One brief gets one draft, however often it is asked."""
    one_sweep = True
    """Its later stages only turn the knobs that the kernel was written with."""

    def get_ready(self, task: KernelTask) -> None:
        """Capture the task's reference in the background, which takes seconds."""
        begin_capture(task)

    def analyze(self, brief: Brief) -> Analysis:
        """In the first stage name the next structure worth an evaluation; in later ones name the knobs to sweep."""
        started = time.monotonic()
        if brief.kernel is None:
            analysis = Analysis(worth_optimizing=False, bottleneck="there is no kernel to analyze")
        elif brief.stage == "algorithmic_structure":
            analysis = plan_structure(brief, brief.kernel)
        else:
            analysis = plan_tuning(brief, brief.kernel)
        return analysis.model_copy(update={"usage": _usage_since(started)})

    def write(self, brief: Brief) -> Draft:
        """Write a seed, the structure that the analysis names, or the remedy of the failure.

        A plan of somebody else's is declined: the source stays as it is. So is a repair of an alternative that would
        only take its structure back.
        Where there is no kernel to be written, because the reference has no graph, no playbook matches it, or every
        group was taken back to PyTorch, the draft is declined, with the reason as its `problem`.

        Raises:
            BadInput: if the reference cannot be loaded.
            InfrastructureError: if the capturing process failed.
        """
        started = time.monotonic()
        if why := pointless_repair(brief):
            return Draft(declined=why, usage=_usage_since(started))
        try:
            source, note = write_source(brief)
            own = brief.mode != "optimize" or brief.kernel is None or source != brief.kernel.source or _own_plan(brief)
            draft = Draft(source=source, note=note, declined="" if own else self.no_plan)
        except (CannotCapture, CannotWrite) as error:
            why = f"the embedded expert has no kernel for this reference: {error}"
            draft = Draft(problem=why, declined=why)
        return draft.model_copy(update={"usage": _usage_since(started)})

    def debug(self, brief: Brief) -> Diagnosis:
        """Name the root cause of a failure and the remedy that `write` applies in repair mode."""
        started = time.monotonic()
        if brief.kernel is None or brief.evaluation is None:
            return Diagnosis(critical_issue="There is no evaluated kernel.", modification_plan="Write one.")
        diagnosis = diagnose(brief.evaluation, brief.kernel)
        return diagnosis.model_copy(update={"usage": _usage_since(started)})


def _own_plan(brief: Brief) -> bool:
    """Return whether the plan is a switch of structures, in the analyst's own words."""
    return brief.analysis is not None and read_switch(brief.analysis.plan) is not None


def _usage_since(started: float) -> Usage:
    return Usage(seconds=time.monotonic() - started)
