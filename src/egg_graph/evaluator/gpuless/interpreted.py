"""Right answers without a GPU: calls of one candidate in one process of the guarded interpreter, judged.

One process per shape. In it the candidate is called as a module in service is: other content at the same addresses,
weights loaded anew, inputs of other families, further uses (`problem.uses`), and at last with its Triton kernels doing
nothing. What the process leaves is data; every comparison is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from egg_graph.evaluator.evidence.findings import rejecting
from egg_graph.evaluator.evidence.integrity import judge_integrity, judge_makers
from egg_graph.evaluator.evidence.statements import no_launch
from egg_graph.evaluator.evidence.traffic import Traffic, judge_read_back
from egg_graph.evaluator.host.fork_server import Ended
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import (
    judge_leaves,
    judge_strides,
    left_changed,
    mutated,
    stride_notes,
    weights_changed,
)
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.kernelbench_criterion import tolerance_of
from egg_graph.evaluator.problem.plan import Call
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.evaluator.wire.operators import computing
from egg_graph.evaluator.wire.untrusted import open_file, parse
from egg_graph.evaluator.worker.interpreted import FEW_KEPT
from egg_graph.schema import Candidate, Check, Finding, FindingKind, Integrity, Tolerance

INTERPRETER = "interpreter"
OPTIONAL_SECONDS = 8.0
"""Processor time after which no further input family is tried."""
VALUES: frozenset[FindingKind] = frozenset(
    {"wrong_values", "non_finite", "unwritten_output", "precision_loss", "no_triton_kernel"}
)
"""What an answer to something else looks like at first."""
Unreadable = (exchange.ExchangeError, OSError, LookupError, TypeError, ValueError, AttributeError, ValidationError)


@dataclass
class Word:
    """What the calls of one kind proved."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(rejecting(self.findings))


@dataclass
class Verdicts:
    """All that one process proved."""

    given: Word = field(default_factory=Word)
    """On get_inputs' own distribution."""
    families: Word = field(default_factory=Word)
    uses: Word = field(default_factory=Word)
    """Of the module in service: see `problem.uses`."""
    used: list[str] = field(default_factory=list)
    """Those that were tried, in words."""
    unused: list[str] = field(default_factory=list)
    """Those that time did not suffice for."""
    left_out: list[str] = field(default_factory=list)
    """Families that time did not suffice for."""
    kernelbench: Tolerance | None = None
    integrity: Integrity | None = None
    causality: list[Finding] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    """Of the first call: kernels whose values were checked."""
    not_tried: str = ""
    """Why causality is not known."""
    untried: int = 0
    """Tuning configurations that never ran."""
    cut_short: bool = False
    """Programs were left out for time, and what the answer lacks is not known."""
    part: str = ""
    """Which part of the answer was compared, in words; empty for all of it."""
    log: str = ""
    """What the process wrote."""


@dataclass
class Hearing:
    """Judges what one process left in its folder.

    Args:
        problem: of the task.
        candidate: whose source words may name.
        calls: as planned.
        folder: of the process, which has ended.
        end: how it ended.
        limit: seconds it was given.
    """

    problem: Problem
    candidate: Candidate
    calls: Sequence[Call]
    folder: Path
    end: Ended
    limit: float
    answers: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    part: str = ""

    def judged(self) -> Verdicts:
        found = Verdicts(log=self.end.log)
        reports = {index: self._report(index) for index in range(len(self.calls))}
        death = finding_of(self.end, limit=self.limit)
        if death is not None and not any(self.begun(index) for index in reports):
            found.given.findings.append(death)
            return found
        for index, call in enumerate(self.calls):
            use = found.uses if call.use else None
            word = use or (found.given if call.case.family == AS_GIVEN else found.families)
            if call.silent:
                self._causality(index, reports[index], found)
            elif (report := reports[index]) is not None and report.get("cut_short"):
                found.cut_short = True
                return found
            elif reports[index] is not None:
                self._call(index, call, reports[index], word)
                found.used += [call.what] if call.use else []
            elif self.begun(index):
                fault = death or Finding(kind="exited", message="the process left no readable answer")
                word.findings.append(fault.model_copy(update={"where": _where(fault.where, call)}))
            elif death is None and not call.tuning:
                (found.unused if call.use else found.left_out).append(call.what if call.use else call.case.family)
            if word.failed:
                return found
        found.given.findings += self._late()
        found.uses.findings += self._kept()
        told = [r["untried"] for r in reports.values() if r and type(r.get("untried")) is int]
        found.untried = max(0, told[-1]) if told else 0
        self._told(reports[0], found)
        found.part = self.part
        return found

    def begun(self, index: int) -> bool:
        return (self.folder / f"begun_{index}").exists()

    def _report(self, index: int) -> dict[str, Any] | None:
        try:
            with open_file(self.folder / f"call_{index}.json") as file:
                report = parse(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        return report if isinstance(report, dict) else {}

    # -------------------------------------------------------------------------------------------------- one call

    def _call(self, index: int, call: Call, report: dict[str, Any] | None, word: Word) -> None:
        case = call.case
        try:
            findings, check = self._compared(index, case, report or {})
        except Unreadable as error:
            word.findings.append(Finding(kind="exited", message=f"the process left no readable answer: {error}"))
            return
        word.checks += [check] if check is not None else []
        word.notes += [] if index or check is None else stride_notes(case, report["forms"] if report else ())
        stale = call.manner.in_place  # the weights of before, with inputs of before: no answer was kept
        if index and not stale and any(finding.kind in VALUES for finding in findings):
            findings = [*self._replayed(index, call), *findings]
        word.findings += [_said(finding, call) if index else finding for finding in findings]

    def _compared(self, index: int, case: Case, report: dict[str, Any]) -> tuple[list[Finding], Check | None]:
        """What is wrong with one answer."""
        findings = [Finding.model_validate(f) for f in report["findings"]]
        if report["strange"]:
            message = (
                f"forward returns {', '.join(map(str, report['strange']))[:200]} where the reference returns tensors"
            )
            return [Finding(kind="wrong_structure", message=message)], None
        structure, leaves = exchange.load(self.folder, f"output_{index}")
        if structure != case.structure or len(leaves) != len(case.leaves):
            message = f"forward returns {structure[:200]} where the reference returns {case.structure} (* is a tensor)"
            return [Finding(kind="wrong_structure", message=message)], None
        if any(leaf is None for leaf in leaves):
            leaves = [_by_form(leaf, form) for leaf, form in zip(leaves, report["forms"], strict=True)]
            return judge_leaves(self.problem.task, case, leaves, machine=INTERPRETER, source=self.candidate.source)
        self.answers[index] = leaves
        if not report["kernels"]:
            return [no_launch()], None
        findings += judge_read_back(report["read_back"], case.inputs)
        if not case.changes_inputs:
            findings += mutated(
                self.problem.reference.forward_names(len(case.inputs)),
                case.inputs,
                exchange.load(self.folder, f"after_{index}")[1],
            )
        after = exchange.load(self.folder, f"weights_{index}")[1]
        if not (report["partly"] and case.updates):  # by programs that were left out
            findings += weights_changed(case, dict(zip(case.state, after, strict=True)))
        findings += self._memory(case, report)
        findings += left_changed(report["changed"])
        if report["partly"]:
            leaves = self._completed(index, case, leaves)
        compared, check = judge_leaves(
            self.problem.task, case, leaves, machine=INTERPRETER, source=self.candidate.source
        )
        return [*findings, *compared], check

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

    def _memory(self, case: Case, report: dict[str, Any]) -> Iterator[Finding]:
        """An answer must lie in memory of its own, in an order that the reference's users may count on."""
        if report["aliases"] and not case.aliases:
            yield Finding(
                kind="aliased_output",
                message=f"the answer lies in the memory of {', '.join(map(str, report['aliases']))}",
                cure="return a fresh tensor (torch.empty_like), which later changes do not reach",
            )
        yield from judge_strides(case, report["forms"])

    def _replayed(self, index: int, call: Call) -> Iterator[Finding]:
        """The same answer as to another case, where the reference's differ."""
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
        """Answers that the candidate keeps, whoever else lets go of them."""
        try:
            with open_file(self.folder / "kept.json") as file:
                told = parse(file.read())
            kept, given = int(told["kept"]), int(told["given"])
        except (*Unreadable, FileNotFoundError) as error:
            yield Finding(kind="exited", message=f"the process left no readable answer: {error}")
            return
        if kept > FEW_KEPT and not any(call.case.aliases for call in self.calls):
            yield Finding(
                kind="aliased_output",
                message=f"the module keeps {kept} of {given} answers when nobody else does: memory grows with every "
                "call, or old answers are handed out again",
                cure="keep no reference to what forward returns",
            )

    def _late(self) -> list[Finding]:
        """Answers that later calls overwrote."""
        for index, leaves in self.answers.items():
            try:
                later = exchange.load(self.folder, f"late_{index}")[1]
            except Unreadable as error:
                return [Finding(kind="exited", message=f"the process left no readable answer: {error}")]
            if not _same(leaves, later):
                return [
                    Finding(
                        kind="aliased_output",
                        message="an answer changes when forward is called again: later calls write to its memory",
                        where=self.calls[index].what,
                        cure="allocate the output in forward, each time; only scratch memory may be kept",
                    )
                ]
        return []

    # ------------------------------------------------------------------------------------------------- integrity

    def _causality(self, index: int, report: dict[str, Any] | None, found: Verdicts) -> None:
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
            found.causality.append(
                Finding(
                    kind="not_causal",
                    message="the answer is right even when the candidate's Triton kernels do nothing when launched",
                    cure="let the kernels compute the answer; what PyTorch or Python computes is not replaced by them",
                )
            )

    def _told(self, report: dict[str, Any] | None, found: Verdicts) -> None:
        """KernelBench's word on the first answer, and what one forward launched and called."""
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
        operators = self.problem.plainly_surveyed.operators
        plain = [i for i in self.answers if self.calls[i].case.family == AS_GIVEN and not self.calls[i].use]
        given = [r for i in plain if (r := self._report(i))]
        moving = all(r["moves_only"] for r in given)  # families may hold few values, of which that cannot be told
        traffic = Traffic.told(case.answer_bytes, report.get("results"), report.get("kernel_bytes"))
        made_by = [str(r["made_by"]) for r in given]
        found.causality += judge_integrity(
            self.problem.task, found.integrity, operators, moving=moving, traffic=traffic
        ) or judge_makers(found.integrity, operators, made_by)


def _launches(told: Any) -> list[Launch]:
    try:
        return [Launch.model_validate(entry) for entry in told]
    except (TypeError, ValidationError):
        return []


def _by_form(leaf: Any, form: Any) -> Any:
    """A leaf that was not copied as a tensor of its form alone: the wrong one, by the process's own word.

    Raises:
        ExchangeError: if that word makes no sense.
    """
    if leaf is not None:
        return leaf
    shape, dtype = form["shape"], form["dtype"]
    if dtype not in exchange.DTYPES or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
        raise exchange.ExchangeError("the form of a leaf makes no sense")
    return torch.empty(shape, dtype=exchange.DTYPES[dtype], device="meta")


def _said(finding: Finding, call: Call) -> Finding:
    """A finding with the call that it is about."""
    told: dict[str, str] = {"where": _where(finding.where, call)}
    if call.use and finding.kind in (*VALUES, "exception", "out_of_bounds", "wrong_shape"):
        told |= {"message": f"right before, and wrong now ({call.what}): {finding.message}", "cure": call.use}
    return finding.model_copy(update=told)


def _where(where: str, call: Call) -> str:
    return f"{where}; {call.what}" if where else call.what


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Two answers, byte for byte."""
    return [exchange.as_bytes(torch.as_tensor(x)) for x in a] == [exchange.as_bytes(torch.as_tensor(x)) for x in b]
