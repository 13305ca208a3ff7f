"""What soak, spread, cost and throughput make of their numbers; and what /proc says of our processes."""

import os
import random
import subprocess
import sys
import time

import pytest

from egg_graph.bench.provenance import Provenance
from egg_graph.bench.trust.headers import read_entries
from egg_graph.bench.trust.spread import SpreadResults, SpreadVerdict, spread_page
from tests.bench.trust.files import header, make_corpus
from tests.lab.cost import CostResults, KernelBenchCost, cost_page
from tests.lab.distinct_problems import DistinctProblemsResults, Judged, distinct_problems_page
from tests.lab.faults import FaultResults, faults_page
from tests.lab.processes import all_processes, descendants
from tests.lab.soak import SoakResults, Turn, mixture, soak_page
from tests.lab.throughput import Pace, ThroughputResults, throughput_page

PROVENANCE = Provenance(version="0", evaluator="e", started="now")


def turns(count, **changes):
    told = {"id": "x", "fault": False, "status": "correct", "outcome": "right", "seconds": 1.0, "judges": (7,)}
    told |= {"resident_bytes": 100 << 20, "descriptors": 20, "processes": 3}
    return tuple(
        Turn(**{**told, **{name: value(number) if callable(value) else value for name, value in changes.items()}})
        for number in range(count)
    )


def soak(**changes):
    return SoakResults(
        **{
            "terms": PROVENANCE,
            "ladder": "cpu",
            "count": 40,
            "seed": 1,
            "turns": turns(40),
            "processes_left": (),
            "files_left": (),
            **changes,
        }
    )


class TestSoak:
    def test_nothing_to_complain_of(self):
        assert soak().complaints == ()
        assert "Nothing to complain of" in soak_page(soak())

    def test_memory_that_grows_is_told(self):
        grown = soak(turns=turns(40, resident_bytes=lambda number: (100 + 10 * number) << 20))
        assert grown.complaints == ("resident memory grew by 200 MiB",)

    def test_descriptors_that_stay_open_are_told(self):
        assert soak(turns=turns(40, descriptors=lambda number: 20 + number)).complaints == ("20 more descriptors open",)

    def test_a_disturbed_right_kernel_is_told(self):
        row = (*turns(20), *turns(1, status="runtime_error", outcome="false_reject"), *turns(19))
        assert soak(turns=row).complaints == ("right kernel x: runtime_error",)

    def test_an_accepted_fault_is_told(self):
        row = (*turns(20), *turns(1, fault=True, outcome="missed"), *turns(19))
        assert soak(turns=row).complaints == ("fault x was accepted",)

    def test_what_is_left_is_told(self):
        left = soak(
            processes_left=("python -m x",), files_left=("job-1/a",), gpu_bytes_before=0, gpu_bytes_after=1 << 30
        )
        assert len(left.complaints) == 3

    def test_a_lost_judge_is_counted(self):
        assert soak(turns=turns(40, judges=lambda number: (number // 20,))).judges == 2


class TestSpread:
    def results(self, *verdicts):
        rows = [
            SpreadVerdict(status=status, reason="", ratio=ratio, low=ratio - 0.01, high=ratio + 0.01, pairs=30)
            for status, ratio in verdicts
        ]
        return SpreadResults(
            terms=PROVENANCE, reference="r", candidate="c", precision="tf32", count=len(rows), verdicts=tuple(rows)
        )

    def test_equal_ratios_do_not_spread(self):
        results = self.results(("faster", 1.2), ("faster", 1.2))
        assert results.geometric_deviation == 1.0
        assert (results.contradiction, results.apart) == (False, 0)

    def test_a_contradiction_is_told(self):
        results = self.results(("faster", 1.1), ("slower", 0.9))
        assert (results.contradiction, results.apart) == (True, 1)
        assert "both said" in spread_page(results)

    def test_untimed_verdicts_have_no_spread(self):
        untimed = SpreadVerdict(status="correct", reason="")
        results = SpreadResults(
            terms=PROVENANCE, reference="r", candidate="c", precision="tf32", count=2, verdicts=(untimed, untimed)
        )
        assert results.geometric_deviation is None
        assert "Nothing was timed" in spread_page(results)


class TestFaults:
    def complaints(self, **fault):
        told = {"status": "timeout", "findings": ("timeout",), "reason": "", "as_expected": True, "seconds": 9.0}
        told |= {"name": "loop", "what": "loop.py", "after": "correct", "same_answer": True, **fault}
        results = FaultResults(
            terms=PROVENANCE, ladder="cpu", timeout=10.0, reference="r", candidate="c", faults=(told,)
        )
        assert faults_page(results).count("Nothing to complain of") == (not results.complaints)
        return results.complaints

    def test_nothing_to_complain_of(self):
        assert self.complaints() == ()

    @pytest.mark.parametrize(
        ("fault", "complaint"),
        [
            ({"as_expected": False}, "loop: timeout"),
            ({"seconds": 100.0}, "loop: took 100 s"),
            ({"after": "infra_error"}, "after loop the right kernel is infra_error"),
            ({"same_answer": False}, "after loop the right kernel has another answer"),
        ],
    )
    def test_each_thing_that_went_wrong_is_told(self, fault, complaint):
        (told,) = self.complaints(**fault)
        assert told.startswith(complaint)


class TestCost:
    def results(self, **kernelbench):
        return CostResults(
            terms=PROVENANCE,
            reference="r",
            candidate="c",
            precision="tf32",
            status="faster",
            start_seconds=4.0,
            baseline_seconds=6.0,
            cold_seconds=30.0,
            warm_seconds=(9.0, 10.0, 11.0),
            cold_rungs={"gate": 1.0},
            warm_rungs={},
            kernelbench=KernelBenchCost(**kernelbench),
        )

    def test_the_overhead_is_ours_over_theirs(self):
        results = self.results(cold_seconds=15.0, warm_seconds=(4.0, 5.0, 6.0))
        assert (results.cold_overhead, results.warm_overhead) == (2.0, 2.0)

    def test_what_was_not_measured_is_said(self):
        results = self.results(not_measured="it needs a GPU")
        assert results.cold_overhead is None
        assert "not measured: it needs a GPU" in cost_page(results)


def test_throughput_tells_the_ratio_and_what_was_lost():
    pace = Pace(
        workers=1, kind="processes", count=10, seconds=60.0, warm_up_seconds=5.0, statuses={"correct": 10}, lost=0
    )
    faster = pace.model_copy(update={"workers": 2, "seconds": 30.0, "killed": "one judge of 2"})
    results = ThroughputResults(
        terms=PROVENANCE,
        reference="r",
        candidates=("c",),
        precision="tf32",
        device="none",
        cores=2,
        paces=(pace, faster),
    )
    assert (pace.per_minute, faster.per_minute) == (10.0, 20.0)
    assert "2 workers do 2.00 times the work of one" in throughput_page(results)


def test_distinct_problems_are_counted_from_the_first_question_to_the_last_answer():
    rows = [
        Judged(file=f"right/{name}.py", problem=name, status=status, began=began, ended=ended)
        for name, status, began, ended in (("a", "faster", 0.0, 20.0), ("b", "infra_error", 0.1, 30.0))
    ]
    results = DistinctProblemsResults(terms=PROVENANCE, workers=2, cores=4, asked=3, judged=tuple(rows))
    assert results.per_minute == 4.0
    assert results.complaints == ("right/b.py: infra_error",)
    page = distinct_problems_page(results)
    assert "**4.0 a minute**: 2 right kernels of as many problems of 3" in page
    assert page.rstrip().endswith("right/b.py: infra_error")


class TestProcesses:
    def test_a_child_is_a_descendant_until_it_ends(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        try:
            (found,) = [process for process in descendants() if process.pid == child.pid]
            time.sleep(0.1)
            assert found.alive
            assert "time.sleep(60)" in found.command
            assert found.resident_bytes > 0
            assert found.descriptors > 0
        finally:
            child.kill()
            child.wait()
        assert not found.alive
        assert found.command == ""

    def test_who_works_in_a_folder_holds_it(self, tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], cwd=tmp_path)
        try:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                held = [process.pid for process in all_processes() if process.holds(str(tmp_path))]
                if child.pid in held:
                    break
            assert child.pid in held
            assert os.getpid() not in held
        finally:
            child.kill()
            child.wait()


def test_the_mixture_of_a_soak_is_fixed_by_its_seed_and_a_right_kernel_follows_each_fault(tmp_path):
    expectations = {f"right{n}": '["right"]' for n in range(3)} | {f"fault{n}": '["incorrect"]' for n in range(3)}
    corpus = make_corpus(tmp_path, **{name: header(name, expect) for name, expect in expectations.items()})
    entries = read_entries([corpus])
    row = mixture(entries, 40, True, random.Random(1), 8)
    assert row == mixture(entries, 40, True, random.Random(1), 8)
    assert len(row) == 40
    faults = [number for number, entry in enumerate(row[:-1]) if not entry.header.honest]
    assert len(faults) > 5
    assert all(row[number + 1].header.honest for number in faults)
    assert all(entry.header.honest for entry in mixture(entries, 10, False, random.Random(1), 8))
