"""The laboratory's times: what a row holds, what follows from it, and how KernelBench is asked."""

import ast
import json
import textwrap
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from egg_graph.bench.provenance import Provenance
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.second_judge import SecondJudge
from egg_graph.schema import BadInput, CallEntry, Profile, Spending
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam
from tests.lab import kernelbench_turns, times
from tests.lab.cost import KernelBenchCost
from tests.lab.kernelbench_turns import judge_in_turn
from tests.lab.times import Watched, run_times
from tests.lab.times_page import summary, times_page
from tests.lab.times_rows import FIGURES, SingleCall, TimesResults, TimesRow, figures_of
from tests.lab.wrong_kernel import wrong_kernels

KERNEL = """# timed 3
CONFIG = {"NUMBER": 3}
SPACE = {"tensor_tiling": {"NUMBER": [3, 2]}}

def kernel(x_ptr, out, x):
    tl.store(x_ptr + CONFIG["NUMBER"], x, mask=x > 0)
    out.store([0, 0], x)
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class StandIn(ScriptedEvaluator):
    """Judges like a warm evaluator: the kernel above is right, and wrong as soon as its second store is changed."""

    made = []

    def __init__(self, gpu, profile):
        super().__init__(clock=True)
        self.gpu, self.profiling, self.asked, self.closed = gpu, profile, [], False
        self.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def expect_no_finalist(self):
        self.asked.append("no finalist")

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        self.asked.append((stage, finalist))
        changed = [n for n, wrong in enumerate(wrong_kernels(KERNEL)) if wrong == candidate.source]
        if changed:
            named = candidate.model_copy(update={"source": "# timed 3" if changed == [0] else "# bad 1"})
            return super().evaluate(task, named, stage=stage)
        spent = Spending(seconds={"profile": 2.0, "waiting": 1.0})
        told = {"profile": Profile(source="ncu"), "spent": spent} if self.profiling is True else {}
        return super().evaluate(task, candidate, stage=stage, finalist=finalist).model_copy(update=told)


@pytest.fixture
def made(monkeypatch):
    """The stand-ins that were made; nobody watches a GPU's memory."""

    @contextmanager
    def peak_of(gpu):
        yield [3 << 30]

    monkeypatch.setattr(times, "peak_of", peak_of)
    monkeypatch.setattr(StandIn, "made", [])
    return StandIn.made


def references(folder, *names):
    level = folder / "level1"
    level.mkdir()
    paths = [level / f"{name}.py" for name in names]
    for path in paths:
        path.write_text(REFERENCE)
    return paths


def timed(paths, out=None, **options):
    options = {"gpus": ("GPU-a",), "make": StandIn, "target": "h100", "principles": ()} | options
    return run_times(paths, out, **{"team": ScriptedTeam([KERNEL], worth=[False]), **options})


def test_a_row_holds_the_run_and_what_is_asked_behind_it(tmp_path, made):
    told = []
    results = timed(references(tmp_path, "1_Relu"), tmp_path / "out", profile=True, on_row=told.append)
    (row,) = results.rows
    assert told == [row] and row.failed == "" and row.status == "faster" and row.ratio == 2.0
    assert [call.call for call in row.ledger if call.call != "analyst"] == [
        "baseline", "coder", "evaluation", "sweep", "evaluation", "finalist"
    ]  # fmt: skip
    assert row.screened == (2,) and row.kernel == KERNEL and row.peak_bytes == 3 << 30
    assert [(call.what, call.status) for call in row.calls] == [
        ("again", "faster"),
        ("warm", "faster"),
        ("wrong", "faster"),
        ("wrong", "incorrect"),
        ("profiling_baseline", ""),
        ("profiled", "faster"),
    ]
    assert figures_of(row).keys() == FIGURES.keys() - {"over_kernelbench"}
    assert row.profile_seconds == 2.0 and row.cold_seconds < row.seconds
    assert "profiled waited 1.0 s" in row.notes and "still right with 1 of its stores changed" in row.notes
    run, profiling = made
    assert (run.profiling, profiling.profiling) == ("finalists", True) and run.closed and profiling.closed
    assert run.asked[-5:] == ["no finalist", *[(None, False)] * 4]
    assert profiling.asked == [("memory_optimization", False)]
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["summary"]["whole"] == {"median": row.seconds, "worst": row.seconds, "problems": 1, "told": "holds"}
    assert times_page(results) == (tmp_path / "out.md").read_text()


def test_a_run_without_a_kernel_has_no_times_of_one(tmp_path, made):
    (row,) = timed(references(tmp_path, "1_Relu"), team=ScriptedTeam(["# bad 1"], worth=[False])).rows
    assert row.status == "reference_kept" and row.kernel == "" and row.calls == () and row.ratio is None
    assert "first verdict incorrect" in row.notes and len(made) == 1 and made[0].profiling is False
    assert figures_of(row).keys() == {"baseline", "cold", "whole"}


def test_what_fails_is_told_and_tried_again_and_the_rest_is_kept(tmp_path, made):
    paths = references(tmp_path, "1_Relu", "2_Relu")
    paths[1].write_text("def")
    first = timed(paths, tmp_path / "out")
    assert [bool(row.failed) for row in first.rows] == [False, True]
    paths[1].write_text(REFERENCE)
    again = timed(paths, tmp_path / "out", keep=True, before=tmp_path / "out.json")
    assert again.rows[0] == first.rows[0] and not again.rows[1].failed and len(made) == 3
    assert again.figures_before.keys() == {"level1/1_Relu", "level1/2_Relu"} and "| before | after |" in times_page(
        again
    )
    with pytest.raises(BadInput, match="no results of this command"):
        timed(paths, before=tmp_path / "level1" / "1_Relu.py")


def test_times_up_and_no_gpu(tmp_path, made):
    paths = references(tmp_path, "1_Relu")
    assert timed(paths, seconds=0.0).rows == ()
    with pytest.raises(BadInput, match="there is no GPU here"):
        timed(paths, gpus=())


def test_an_evaluator_notes_the_configurations_of_its_sweeps(monkeypatch):
    monkeypatch.setattr(LocalEvaluator, "__init__", lambda self, **_: None)
    monkeypatch.setattr(LocalEvaluator, "start", lambda self: None)
    monkeypatch.setattr(LocalEvaluator, "screen", lambda self, task, candidates: ())
    watched = Watched("GPU-a", profile=False)
    watched.screen(None, [1, 2, 3])
    assert watched.screened == [3]


def test_an_evaluator_makes_no_judge_ahead_behind_the_run():
    watched = Watched.__new__(Watched)
    watched._settings = {"device": "gpu", "profile": False}
    watched._second = earlier = SecondJudge(watched._settings)
    earlier.used = True
    watched.expect_no_finalist()
    assert watched._second is not earlier and not watched._second.used


def call(kind, begin, seconds, **fields):
    parts = fields.pop("parts", {"other": seconds})
    return CallEntry(call=kind, begin=BEGIN + timedelta(seconds=begin), seconds=seconds, parts=parts, **fields)


def row(problem="level1/1_Relu", **fields):
    ledger = (
        call("baseline", 0, 7, parts={"start": 4, "other": 3}),
        call("coder", 7, 2),
        call("evaluation", 9.5, 3, status="faster"),
        call("sweep", 13, 9, status="failed", reason="the GPU is busy"),
        call("sweep", 22, 6),
        call("sweep", 28, 2),
        call("finalist", 30, 1, status="incorrect"),
        call("finalist", 31, 15, status="faster", parts={"waiting": 1.2, "other": 13.8}),
    )
    calls = (
        SingleCall(what="again", seconds=9, status="faster"),
        SingleCall(what="warm", seconds=2.4, status="faster"),
        SingleCall(what="wrong", seconds=0.8, status="incorrect"),
        SingleCall(what="profiled", seconds=11, status="faster", parts={"profile": 2.0}, profile="ncu"),
    )
    theirs = KernelBenchCost(cold_seconds=20, first_seconds=5, warm_seconds=(1.1, 1.3), compiled=True, correct=True)
    told = {
        "seconds": 45.0,
        "status": "faster",
        "ratio": 1.5,
        "ledger": ledger,
        "screened": (12, 12, 4),
        "calls": calls,
    }
    return TimesRow(**{"problem": problem, "kernelbench": theirs, **told, **fields})


class TestFigures:
    def test_they_follow_from_the_ledger_and_the_calls(self):
        assert figures_of(row()) == pytest.approx(
            {
                "cold": 10.5,
                "baseline": 7.0,
                "warm": 2.4,
                "warm_with_profile": 4.4,
                "wrong": 0.8,
                "finalist": 15.0,
                "configuration": 0.5,
                "whole": 45.0,
                "over_kernelbench": 2.0,
            }
        )
        assert row().notes == ("sweep failed: the GPU is busy", "finalist waited 1.2 s")

    def test_what_is_no_such_time_is_left_out(self):
        calls = (
            SingleCall(what="warm", seconds=1, status="invalid", reason="why"),
            SingleCall(what="wrong", seconds=1, status="runtime_error", reason="it broke"),
            SingleCall(what="profiled", seconds=1, status="faster", parts={"profile": 1.0}, profile="compiled"),
        )
        wrong = KernelBenchCost(cold_seconds=1, warm_seconds=(0.1,), correct=False)
        odd = row(calls=calls, kernelbench=wrong)
        assert not figures_of(odd).keys() & {"warm", "warm_with_profile", "wrong", "over_kernelbench"}
        assert odd.notes[2:] == (
            "right in the run, then invalid: why",
            "the wrong kernel is runtime_error: it broke",
            "KernelBench calls the kernel wrong, and does not time it",
        )
        assert row(calls=calls[:1]).notes[-1] == "no store to make wrong"

    def test_the_page_says_which_floors_hold(self):
        terms = Provenance(version="0", evaluator="e", started="now")
        slow = row("level2/9_Slow", seconds=121.0)
        results = TimesResults(
            terms=terms, precision="tf32", asked=3, rows=(row(), row("level1/2_Gelu", seconds=9), slow)
        )
        told = {name: figure["told"] for name, figure in summary(results).items()}
        assert set(told.values()) == {"holds", "does not"}
        assert [name for name, said in told.items() if said == "does not"] == ["whole"]
        page = times_page(results)
        assert "| whole run, none over 120 s | 40.0 | 45.0 | 121.0 | 3 | does not |" in page
        assert (
            "| level1/1_Relu | faster | 1.50 | 45.0 | 7.00 (4.00) | 10.5 | 2.40 | 4.40 | 0.80 | 0.50 (12 + 4) |" in page
        )
        before = {"level1/2_Gelu": {"whole": 18.0}, "level1/3": {"whole": 1.0}}
        compared = results.model_copy(update={"before": "Then.", "figures_before": before})
        assert "| 45.0 | 121.0 | 3 | does not | 18.0 | 9.00 |" in times_page(compared)
        assert "not measured" in times_page(results.model_copy(update={"rows": ()}))


class TestWrongKernels:
    def test_each_store_in_turn_gets_one_more(self):
        first, second = wrong_kernels(KERNEL)
        assert "tl.store(x_ptr + CONFIG['NUMBER'], x + 1.0, mask=x > 0)" in first and "out.store([0, 0], x)" in first
        assert "CONFIG['NUMBER'], x, mask=x > 0)" in second and "out.store([0, 0], x + 1.0)" in second

    def test_a_value_by_its_name_and_no_value(self):
        (only,) = wrong_kernels("tl.store(p, value=a if b else c)\nfile.store()\nstore(p, x)")
        assert "value=(a if b else c) + 1.0" in only
        assert list(wrong_kernels("tl.atomic_add(p, x)")) == []
        ast.parse(only)


KERNELBENCH = """
import sys
import time

def get_torch_dtype_from_string(name):
    return name

def eval_kernel_against_ref(reference, candidate, *, precision, device, **options):
    assert "get_init_inputs" in reference and precision == "fp32" and device == "cuda:0"
    print("{KernelBench talks}", 3)
    if candidate == "crash":
        raise RuntimeError("illegal memory access")
    class Result:
        compiled, correctness, runtime = True, candidate == "right", 0.5
    return Result
"""


class TestKernelBenchInTurn:
    @pytest.fixture
    def checkout(self, tmp_path):
        source = tmp_path / "checkout" / "src"
        (source / "kernelbench").mkdir(parents=True)
        (source / "kernelbench" / "__init__.py").write_text("")
        (source / "kernelbench" / "eval.py").write_text(KERNELBENCH)
        stub = """
        class cuda:
            is_available = staticmethod(lambda: True)
        device = str
        """
        (source / "torch.py").write_text(textwrap.dedent(stub))
        return tmp_path / "checkout"

    def judge(self, checkout, *kernels, **options):
        return list(judge_in_turn([("pass", kernel) for kernel in kernels], checkout, "tf32", **options))

    def test_one_process_judges_all_and_another_one_goes_on_behind_a_crash(self, checkout):
        right, wrong, crash, last = self.judge(checkout, "right", "wrong", "crash", "right", warm=1)
        assert [cost.correct for cost in (right, wrong, crash, last)] == [True, False, None, True]
        assert crash.not_measured == "it failed: RuntimeError: illegal memory access"
        assert len(right.warm_seconds) == 1 and right.runtime == 0.5 and not right.not_measured
        starts = [cost.cold_seconds - cost.first_seconds for cost in (right, wrong, last)]
        assert starts[0] == pytest.approx(starts[1]) and starts[0] != pytest.approx(starts[2], abs=1e-9)

    def test_one_that_hangs_is_ended(self, checkout, monkeypatch, tmp_path):
        program = tmp_path / "hangs.py"
        program.write_text("import time; time.sleep(60)")
        monkeypatch.setattr(kernelbench_turns, "PROGRAM", program)
        monkeypatch.setattr(kernelbench_turns, "KERNELBENCH_SECONDS", 0.2)
        (cost,) = self.judge(checkout, "right")
        assert cost.not_measured == "it failed: without a word"

    def test_no_kernel_is_begun_when_time_is_up(self, checkout):
        assert self.judge(checkout, "right", end=0.0) == []

    def test_right_kernels_alone_are_given_to_it_and_a_later_call_goes_on(self, checkout, tmp_path, made, monkeypatch):
        asked = []

        def judge(kernels, folder, precision, *, warm, gpu, end):
            asked.append((len(kernels), gpu))
            yield KernelBenchCost(cold_seconds=2, first_seconds=1, warm_seconds=(1.0,) * warm, correct=True)

        monkeypatch.setattr(times, "judge_in_turn", judge)
        paths, out = references(tmp_path, "1_Relu", "2_Relu"), tmp_path / "out"
        first = timed(paths, out, kernelbench=checkout)
        assert sorted(row.kernelbench is not None for row in first.rows) == [False, True] and asked == [(2, "GPU-a")]
        both = timed(paths, out, kernelbench=checkout, keep=True)
        assert all(row.over_kernelbench for row in both.rows) and asked[1:] == [(1, "GPU-a")] and len(made) == 2
        bad = ScriptedTeam(["# bad 1"], worth=[False])
        timed(paths, kernelbench=checkout, team=bad, gpus=("GPU-a", "GPU-b"))
        assert asked[2:] == []
