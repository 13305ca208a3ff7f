"""The rung `integrity` on a GPU: how a candidate's answer came about, and what it changed of PyTorch."""

from __future__ import annotations

from dataclasses import replace

import torch

from egg_graph.evaluator.device.layout import tensors
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import reason_of, rejecting
from egg_graph.evaluator.evidence.integrity import judge_fingerprints, judge_silence, judge_watch
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.evidence.traffic import judge_read_back
from egg_graph.evaluator.gpu.answers import (
    arena,
    load,
    poisoned_targets,
    received,
    refill,
    share_inputs,
    source_of,
)
from egg_graph.evaluator.gpu.timing.input_sets import form_of
from egg_graph.evaluator.gpu.worker_session import CandidateFailed, WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_builder import draw_inputs
from egg_graph.evaluator.problem.comparison import judge_answer
from egg_graph.evaluator.problem.precision import cast_as_policy_says
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Finding, Integrity

RUNG: RungName = "integrity"
NEVER_OTHERWISE = "the reference's inputs are always the same, and an answer may lie in the module's own buffer"


def examine(session: WorkerSession, problem: Problem, case: Case, machine: str, builder: EvaluationBuilder) -> bool:
    """Examine what one forward launches and calls, whether the answer depends on it, and what changed in PyTorch.

    The session may have ended afterwards: what computes on unwritten memory can be an illegal access.

    Args:
        session: of the candidate.
        problem: of the task.
        case: at full shape.
        machine: name of the GPU.
        builder: gets the rung, the findings and `integrity`.

    Raises:
        CandidateFailed: if a forward that was right before does not come back.
    """
    raised = ""
    wrong: list[Finding] = []
    with arena(session) as shared:
        before = session.ask("load", **load(case, problem, shared))["fingerprint"]
        earlier = other_inputs(problem, case)
        inputs, forms = share_inputs(earlier or case, shared, problem)
        untried = "" if earlier is not None else NEVER_OTHERWISE
        del earlier
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        targets, target_forms = poisoned_targets(case, shared)
        session.ask("call", outputs=target_forms)  # compiles and tunes what it has to
        record = session.ask("record")
        integrity, findings = judge_watch(
            problem.task,
            record,
            problem.untimed_baseline.operators,
            answer_bytes=case.answer_bytes,
            bytes_read=lambda: problem.bytes_read_wholly(case),
        )
        findings += judge_read_back(record.get("read_back"), case.inputs)
        findings += judge_fingerprints(before, session.ask("fingerprint")["fingerprint"])
        if not untried and not rejecting(findings):
            refill(inputs, case)
            for target in targets:
                poison_(target)
            try:
                answer = session.ask("silence", outputs=target_forms)
                untried, raised = str(answer.get("untried", "")), str(answer.get("raised", ""))
                if "structure" in answer:
                    silenced = received(problem, case, answer, targets, inputs, machine, source_of(session))
                    wrong, _ = judge_answer(problem, case, silenced)
            except CandidateFailed as failure:
                raised = reason_of(failure.finding)
            if raised:
                session.close()  # indices that no kernel wrote trip an assertion, after which its GPU answers no more
        if not rejecting(findings):
            integrity, more = judge_silence(integrity, rejecting(wrong), raised=raised, untried=untried)
            findings += more
    builder.integrity = integrity
    if rejecting(findings):
        builder.fail(RUNG, findings)
        return False
    builder.findings += findings
    builder.passed(RUNG, statement(integrity, untried))
    return True


def other_inputs(problem: Problem, case: Case) -> Case | None:
    """The case with inputs that no later call asks about: an answer kept from them is a wrong answer."""
    drawn = draw_inputs(problem.reference, problem.seed("before silence", 0), problem.device)
    other = replace(case, inputs=cast_as_policy_says(drawn, problem.task.precision))
    same_form = form_of(other.inputs) == form_of(case.inputs)
    pairs = zip(tensors(other.inputs), tensors(case.inputs), strict=True) if same_form else ()
    return other if any(not torch.equal(a, b) for a, b in pairs) else None


def statement(integrity: Integrity, untried: str) -> str:
    """Say what was proven about how the answer came about."""
    kernels = ", ".join(integrity.kernels)
    causal = f"not tried without them: {untried}" if untried else "the answer changes when they do nothing"
    beside = f"; beside them {', '.join(integrity.computing)}" if integrity.computing else "; nothing else computes"
    return f"forward launches its own {kernels}; {causal}{beside}; PyTorch and Triton are as they were"
