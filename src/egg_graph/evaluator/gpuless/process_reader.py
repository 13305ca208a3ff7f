"""Judge what one process of the guarded interpreter left in its folder: answers, reports, and how it ended.

All of it is data, and may be anything; every comparison is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.evidence.integrity import judge_integrity, judge_makers
from egg_graph.evaluator.evidence.statements import no_launch
from egg_graph.evaluator.evidence.traffic import Traffic, judge_read_back
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.evaluator.host.fork_server import ChildExit
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import (
    VALUES,
    Answer,
    judge_answer,
    judge_leaves,
    leaf_name,
    overwritten,
    stride_notes,
)
from egg_graph.evaluator.problem.kernelbench_criterion import tolerance_of
from egg_graph.evaluator.problem.outcome import Outcome
from egg_graph.evaluator.problem.plan import Call
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.evaluator.wire.operators import computing
from egg_graph.evaluator.wire.untrusted import open_file, parse
from egg_graph.evaluator.worker.interpreted import FEW_KEPT
from egg_graph.schema import Candidate, Check, Finding, FindingKind, Integrity

INTERPRETER = "interpreter"
MOST_LOADS = 8
"""Loads without `other` that are told."""
OF_ANOTHER: frozenset[FindingKind] = VALUES | {"no_triton_kernel"}
"""Findings that the answer to another question gives."""
Unreadable = (exchange.ExchangeError, OSError, LookupError, TypeError, ValueError, AttributeError, ValidationError)


@dataclass
class ProcessReader:
    """Judges what one process left in its folder.

    Args:
        problem: the task under judgement.
        candidate: its source may be named in messages.
        calls: as planned.
        folder: of the process, which has ended.
        end: how it ended.
        limit: seconds it was given.
    """

    problem: Problem
    candidate: Candidate
    calls: Sequence[Call]
    folder: Path
    end: ChildExit
    limit: float
    answers: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    part: str = ""

    def read(self) -> ProcessOutcome:
        """Judge every call, up to the first section that fails."""
        many = (self.folder / "many_programs").exists()
        found = ProcessOutcome(log=self.end.log, undefined_loads=self._undefined_loads(), many_programs=many)
        reports = {index: self._report(index) for index in range(len(self.calls))}
        death = finding_of(self.end, limit=self.limit)
        killed = self.end.cause == "killed"  # then what it left says nothing of the candidate: it was in mid-work
        if death is not None and (killed or not any(self.begun(index) for index in reports)):
            found.sections["correctness"].findings.append(death)
            return found
        for index, call in enumerate(self.calls):
            outcome, report = found.sections[call.section], reports[index]
            if call.silent:
                self._read_silent(index, report, found)
            elif report is not None and report.get("cut_short"):
                found.cut_short = True
                return found
            elif report is not None:
                self._judge_call(index, call, report, outcome)
                found.used += [call.what] if call.section == "other_uses" else []
            elif self.begun(index):
                fault = death or Finding(kind="exited", message="the process left no readable answer")
                outcome.findings.append(fault.model_copy(update={"where": _where(fault.where, call)}))
            elif death is None and call.section == "other_uses":
                found.unused.append(call.what)
            elif death is None and not call.tuning:
                found.left_out.append(call.case.family)
            if outcome.failed and not call.silent:
                return found
        found.sections["correctness"].findings += self._overwritten()
        found.sections["other_uses"].findings += self._kept()
        told = [r["untried"] for r in reports.values() if r and type(r.get("untried")) is int]
        found.untried = max(0, told[-1]) if told else 0
        self._judge_integrity(reports[0], found)
        found.part = self.part
        return found

    def begun(self, index: int) -> bool:
        """Whether the process began a call."""
        return (self.folder / f"begun_{index}").exists()

    def _left(self, name: str) -> Any:
        """Read a report of the process; anything may stand in it. Raises OSError or ValueError if there is none."""
        with open_file(self.folder / name) as file:
            return parse(file.read())

    def _undefined_loads(self) -> list[str]:
        try:
            told = self._left("undefined.json")
        except (OSError, ValueError):
            return []
        return [str(load)[:200] for load in told[:MOST_LOADS]] if isinstance(told, list) else []

    def _report(self, index: int) -> dict[str, Any] | None:
        try:
            report = self._left(f"call_{index}.json")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        return report if isinstance(report, dict) else {}

    # -------------------------------------------------------------------------------------------------- one call

    def _judge_call(self, index: int, call: Call, report: dict[str, Any], outcome: Outcome) -> None:
        try:
            findings, check = self._compared(index, call.case, report)
        except Unreadable as error:
            outcome.findings.append(Finding(kind="exited", message=f"the process left no readable answer: {error}"))
            return
        outcome.checks += [check] if check is not None else []
        if not index and check is not None:
            outcome.notes += [*stride_notes(call.case, report["forms"]), *_rename_notes(report["renamed"])]
        stale = call.manner.in_place  # the weights of before, with inputs of before: no answer was kept
        if index and not stale and any(finding.kind in OF_ANOTHER for finding in findings):
            findings = [*self._replayed(index, call), *findings]
        outcome.findings += [_of_call(finding, call) if index else finding for finding in findings]

    def _compared(self, index: int, case: Case, report: dict[str, Any]) -> tuple[list[Finding], Check | None]:
        """Judge one answer."""
        structure, leaves = self._delivered(index, report)
        whole = bool(leaves) and not any(leaf is None for leaf in leaves) and len(leaves) == len(case.leaves)
        if whole:
            self.answers[index] = leaves
            if not report["kernels"]:
                return [no_launch()], None
        answer = Answer(
            structure=structure,
            forms=[{key: value for key, value in form.items() if key != "device"} for form in report["forms"]],
            leaves=self._completed(index, case, leaves) if whole and report["partly"] else leaves,
            inputs=_inputs_after(case, exchange.load(self.folder, f"after_{index}")[1]),
            machine=INTERPRETER,
            source=self.candidate.source,
            state=self._state(index, case, report) if whole else None,
            changed=report["changed"],
            aliases=[(leaf_name(0, len(leaves)), str(owner)) for owner in report["aliases"][:1]],
            observed=[
                *(Finding.model_validate(finding) for finding in report["findings"]),
                *judge_read_back(report["read_back"], case.inputs),
            ],
        )
        return judge_answer(self.problem, case, answer)

    def _delivered(self, index: int, report: dict[str, Any]) -> tuple[str, list[Any]]:
        """Structure and leaves of an answer; none where a leaf is no plain tensor."""
        if report["strange"]:
            return "", [None] * len(report["forms"])
        return exchange.load(self.folder, f"output_{index}")

    def _state(self, index: int, case: Case, report: dict[str, Any]) -> dict[str, Any] | None:
        """Parameters and buffers after a call; None where programs that would update them were left out."""
        if report["partly"] and case.updates:
            return None
        return dict(zip(case.state, exchange.load(self.folder, f"weights_{index}")[1], strict=True))

    def _completed(self, index: int, case: Case, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """The answer, with PyTorch's in the place of what programs would have written that were left out for time.

        Raises:
            ExchangeError: if what was left out cannot be read.
        """
        missing = exchange.load(self.folder, f"missing_{index}")[1]
        if any(gap.dtype != torch.bool or gap.shape != x.shape for gap, x in zip(missing, leaves, strict=True)):
            raise exchange.ExchangeError("the map of what was left out does not fit the answer")
        written = sum(int((~gap).sum()) for gap in missing)
        self.part = f" on {written} of {sum(gap.numel() for gap in missing)} elements"
        return [
            torch.where(gap, leaf.expected if leaf.pytorch is None else leaf.pytorch, x).to(x.dtype)
            for gap, x, leaf in zip(missing, leaves, case.leaves, strict=True)
        ]

    def _replayed(self, index: int, call: Call) -> Iterator[Finding]:
        """Report an answer that equals that to another case, where the reference's answers differ."""
        got = self.answers.get(index)
        for earlier, answer in self.answers.items():
            if got is None or earlier >= index or self.calls[earlier].case is call.case or not got:
                continue
            if _same(got, answer):
                yield Finding(
                    kind="replayed_output",
                    message="the answer to other content is, byte for byte, that of an earlier call "
                    f"({self.calls[earlier].what})",
                    cure="compute from what the tensors hold at the call; keep nothing by address, id or version",
                )
                return

    def _kept(self) -> Iterator[Finding]:
        """Report answers that the candidate holds after everybody else released them."""
        try:
            told = self._left("kept.json")
            kept, given = int(told["kept"]), int(told["given"])
        except Unreadable as error:
            yield Finding(kind="exited", message=f"the process left no readable answer: {error}")
            return
        if kept > FEW_KEPT and not any(call.case.aliases for call in self.calls):
            yield Finding(
                kind="aliased_output",
                message=f"the module keeps {kept} of {given} answers when nobody else does: memory grows with every "
                "call, or old answers are handed out again",
                cure="keep no reference to what forward returns",
            )

    def _overwritten(self) -> list[Finding]:
        """Report answers that later calls overwrote."""
        for index, leaves in self.answers.items():
            try:
                later = exchange.load(self.folder, f"late_{index}")[1]
            except Unreadable as error:
                return [Finding(kind="exited", message=f"the process left no readable answer: {error}")]
            if not _same(leaves, later):
                return [overwritten(self.calls[index].what)]
        return []

    # ------------------------------------------------------------------------------------------------- integrity

    def _read_silent(self, index: int, report: dict[str, Any] | None, found: ProcessOutcome) -> None:
        """Whether the answer is right even where the candidate's Triton kernels do nothing."""
        call = self.calls[index]
        if report is None:
            found.not_tried = "with silent kernels forward came to no end"
            return
        found.integrity = Integrity(causal=True)
        if report.get("failed"):
            return  # without its kernels it cannot even answer
        try:
            structure, leaves = exchange.load(self.folder, f"output_{index}")
        except Unreadable:
            return  # nor give an answer that can be read
        if structure != call.case.structure or len(leaves) != len(call.case.leaves):
            return
        compared, _ = judge_leaves(self.problem.task, call.case, leaves, machine=INTERPRETER, source="")
        if not rejecting(compared):
            found.integrity = Integrity(causal=False)
            found.sections["causality"].findings.append(
                Finding(
                    kind="not_causal",
                    message="the answer is right even when the candidate's Triton kernels do nothing when launched",
                    cure="let the kernels compute the answer; what PyTorch or Python computes is not replaced by them",
                )
            )

    def _judge_integrity(self, report: dict[str, Any] | None, found: ProcessOutcome) -> None:
        """Judge what one forward launched and called, and apply KernelBench's criterion to the first answer."""
        case = self.calls[0].case
        if report is None or 0 not in self.answers:
            return
        found.kernelbench = tolerance_of(case, self.answers[0], self.problem.task.precision)
        reports = [r for index in self.answers if (r := self._report(index))]
        library = tuple(dict.fromkeys(str(name) for r in reports for name in r["library"]))
        causal = found.integrity.causal if found.integrity is not None else None
        kernels = tuple(dict.fromkeys(str(name) for name in report["kernels"]))
        found.integrity = Integrity(kernels=kernels, operators=library, computing=computing(library), causal=causal)
        found.launches = _launches(report.get("launches"))
        operators = self.problem.forward_summary.operators
        plain = [i for i in self.answers if self.calls[i].section == "correctness"]
        given = [r for i in plain if (r := self._report(i))]
        moving = all(r["moves_only"] for r in given)  # families may hold few values, of which that cannot be told
        traffic = Traffic.told(
            case.answer_bytes,
            report.get("results"),
            report.get("kernel_bytes"),
            report.get("library_read"),
            read=lambda: self.problem.bytes_read_wholly(case),
            filled=case.filled_bytes,
        )
        made_by = [str(r["made_by"]) for r in given]
        found.sections["causality"].findings += judge_integrity(
            self.problem.task,
            found.integrity,
            operators,
            moving=moving,
            copied=any(r["copied"] for r in given),
            traffic=traffic,
        ) or judge_makers(found.integrity, operators, made_by)


def _rename_notes(told: Any) -> list[str]:
    """Say which parameters were matched in order, for they have other names than the reference's."""
    pairs = [f"{own} is {name}" for own, name in told.items()] if isinstance(told, dict) else []
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return [f"parameters have other names and were matched in order: {', '.join(pairs[:3])}{more}"] if pairs else []


def _launches(told: Any) -> list[Launch]:
    try:
        return [Launch.model_validate(entry) for entry in told]
    except (TypeError, ValidationError):
        return []


def _inputs_after(case: Case, after: Sequence[Any]) -> list[Any]:
    """What each input tensor of a case is after the call; words where it is no tensor of its form any more."""
    found: list[Any] = []
    for before, now in zip(case.inputs, after, strict=True):
        given = sum(isinstance(x, torch.Tensor) for x in tree_leaves(before))
        tensors = [now] if isinstance(before, torch.Tensor) else tree_leaves(now)
        kept = [x for x in tensors if isinstance(x, torch.Tensor)] if given != len(tensors) else tensors
        found += kept[:given] + ["gone"] * (given - len(kept))
    return found


def _of_call(finding: Finding, call: Call) -> Finding:
    """A finding with the call that it is about."""
    told: dict[str, str] = {"where": _where(finding.where, call)}
    if call.section == "other_uses" and finding.kind in (*OF_ANOTHER, "exception", "out_of_bounds", "wrong_shape"):
        told |= {"message": f"right before, and wrong now ({call.what}): {finding.message}", "cure": call.cure}
    return finding.model_copy(update=told)


def _where(where: str, call: Call) -> str:
    return f"{where}; {call.what}" if where else call.what


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Two answers, byte for byte."""
    return [exchange.as_bytes(torch.as_tensor(x)) for x in a] == [exchange.as_bytes(torch.as_tensor(x)) for x in b]
