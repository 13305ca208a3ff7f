"""The calls of a module in service, on a GPU: see `problem.uses`."""

from __future__ import annotations

from typing import Any

from egg_graph.evaluator.gpu.answers import arena, load, refill, share_state
from egg_graph.evaluator.gpu.arena import ALIGNMENT
from egg_graph.evaluator.gpu.calls import Calls, Judged, Place
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.plan import Call, in_service
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Finding


def calls_in_service(session: WorkerSession, problem: Problem, name: str, machine: str) -> Judged:
    """Load the first case of a reduced shape, and use the module as one in service is used.

    Raises:
        Unevaluable: as `Problem.cases`.
        CandidateFailed: if a call does not come back.
        torch.OutOfMemoryError: if the judge's part does not fit.
    """
    first = problem.cases(name)[0]
    loaded: dict[int, Case] = {0: first}
    with arena(session) as weights, arena(session) as shared:
        session.ask("load", **load(first, problem, weights))
        calls = Calls(session, problem, machine, shared)
        place = calls.place(first)
        right = calls.call(first, place, "first call")
        for call in in_service(problem, name, first) if right else ():
            place, right = _used(calls, call, place, loaded)
            if not right:
                calls.judged.findings = _cured(calls.judged.findings, call)
                break
            calls.judged.notes.append(call.what)
        calls.judged.kernelbench = None  # its word is on the full shape
        return calls.judged


def _used(calls: Calls, call: Call, place: Place, loaded: dict[int, Case]) -> tuple[Place, bool]:
    """One call: where its inputs lie, and whether the answer is right. `loaded` holds, by instance, whose weights."""
    manner, last = call.manner, loaded.get(call.manner.module)
    session, problem = calls.session, calls.problem
    try:
        session.ask("turn", **_turned(call), construction=problem.construction(loaded[0]))
        if last is None or last.updates or call.case.state is not last.state:
            state = share_state(call.case, problem, calls.shared)
            session.ask("reload", state=state, in_place=manner.in_place)
        loaded[manner.module] = call.case
        if call.reuse:
            refill(place.copies, call.case)
        else:
            place = _placed(calls.place(call.case), call)
        return place, calls.call(call.case, place, call.what, anew=not call.reuse)
    except CandidateFailed as failure:
        where = f"{failure.finding.where}; {call.what}".removeprefix("; ")
        raise CandidateFailed(failure.finding.model_copy(update={"where": where}), failure.log) from failure


def _turned(call: Call) -> dict[str, Any]:
    """Arguments of the worker's `turn`."""
    manner = call.manner
    return {
        "module": manner.module,
        "evaluating": manner.evaluating,
        "gradients": manner.gradients,
        "scribbled": manner.scribbled,
    }


def _placed(place: Place, call: Call) -> Place:
    """Inputs as a call has them: views that begin within a larger tensor, or one tensor for several."""
    forms = list(place.forms)
    if call.manner.views:
        forms = [_view(form) for form in forms]
    for number in call.manner.tied:
        forms[number] = forms[call.manner.tied[0]]
    return Place(place.copies, forms)


def _view(form: Any) -> Any:
    """The form of an input whose storage begins in the band before it."""
    if not isinstance(form, dict) or "tensor" not in form:
        return form
    return {"tensor": {**form["tensor"], "room": ALIGNMENT}}


def _cured(findings: list[Finding], call: Call) -> list[Finding]:
    """The findings of a wrong answer with this use's cure. After weights moved in place it is that of before because
    the weights are, and no answer was kept."""
    if call.manner.in_place:
        findings = [finding for finding in findings if finding.kind != "replayed_output"]
    values = ("wrong_values", "non_finite", "unwritten_output", "wrong_shape", "out_of_bounds")
    return [
        finding.model_copy(update={"cure": call.use, "message": f"{call.what}: {finding.message}"})
        if finding.kind in values and call.what not in finding.message
        else finding
        for finding in findings
    ]
