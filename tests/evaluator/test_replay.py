"""Evidence records: signatures, tampering, and a replay that comes out bit for bit."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph.cli import app
from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.evidence.confirmation import confirmed
from egg_graph.evaluator.replay import compare_replay
from egg_graph.runs.evidence import make_record, read_evidence, write_record
from egg_graph.schema import (
    BadInput,
    Check,
    Environment,
    Evaluation,
    EvidenceRecord,
    Finding,
    Hardware,
    Profile,
    Status,
    Timing,
)
from egg_graph.schema.record import KEY_VARIABLE
from tests.evaluator.slow_candidate import RIGHT, candidate, task

pytestmark = pytest.mark.slow

KEY = "planted-key"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def evaluation(h200: Hardware, **changes: object) -> Evaluation:
    """One without a judge."""
    check = Check(
        name="shrunk", seed=7, error=0.1, budget=1e-5, max_abs=float("inf"), passed=True, machine="interpreter"
    )
    here = Environment(machine="Linux", torch="2.13.0", triton="3.7.1", python="3.11.7")
    known = {"status": "correct", "reason": "right", "checks": (check,), "environment": here, "seed": 2**61 + 1}
    return Evaluation(candidate=candidate().id, task=task(h200).digest, **{**known, **changes})  # type: ignore[arg-type]


def record(h200: Hardware) -> EvidenceRecord:
    return make_record(task(h200), candidate(), evaluation(h200), finalist=True)


@pytest.mark.parametrize("key", ["", KEY])
def test_a_record_is_read_back_as_it_was(
    h200: Hardware, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key:
        monkeypatch.setenv(KEY_VARIABLE, key)
    made = record(h200)
    write_record(tmp_path / "r.json", made)
    read = read_evidence(tmp_path / "r.json")
    assert read == made
    assert read.signed_with == ("hmac-sha256" if key else "sha256")
    assert read.evaluation.checks[0].max_abs == float("inf")
    assert key not in (tmp_path / "r.json").read_text() or not key


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("evaluation", "status"), "faster"),
        (("evaluation", "checks", 0, "error"), 0.2),
        (("candidate", "source"), "import torch"),
        (("seed",), 5),
        (("signature",), "0" * 64),
        (("signature",), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("key", ["", KEY])
def test_any_change_is_noticed(
    h200: Hardware, key: str, path: tuple, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    data = record(h200).data()
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(BadInput, match="tampered with"):
        EvidenceRecord.read(data, key=key)


def test_a_checksum_is_no_signature(h200: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    data = record(h200).data()
    with pytest.raises(BadInput, match="only a checksum"):
        EvidenceRecord.read(data, key=KEY)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    signed = record(h200).data()
    with pytest.raises(BadInput, match="another key"):
        EvidenceRecord.read(signed, key="other")
    with pytest.raises(BadInput, match=f"set {KEY_VARIABLE}"):
        EvidenceRecord.read(signed)


def test_parts_that_do_not_belong_together_are_noticed_whoever_signed(h200: Hardware) -> None:
    other = evaluation(h200).model_copy(update={"candidate": candidate(number=1).id})
    mixed = make_record(task(h200), candidate(), other, finalist=False)
    with pytest.raises(BadInput, match="evaluated candidate is not"):
        EvidenceRecord.read(mixed.data())


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 99}', '{"record": null}'])
def test_what_is_no_record_is_one_line_and_exit_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "r.json")])
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_verdict_is_replayed_bit_for_bit(evaluator: LocalEvaluator, h200: Hardware, tmp_path: Path) -> None:
    """Judged by one evaluator that has judged others before, repeated by another; then with one bit changed."""
    exponential = task(h200).model_copy(
        update={"reference": task(h200).reference.replace("torch.relu(x)", "torch.exp(x)")}  # rounded: an error above 0
    )
    load = "tl.load(x + offsets, mask=inside)"
    kernel = candidate(RIGHT.replace(f"tl.maximum({load}, 0.0)", f"tl.exp({load})"))
    evaluator.evaluate(task(h200), candidate(number=1))
    judged = evaluator.evaluate(exponential, kernel, finalist=True)
    assert judged.status == "correct", judged.reason
    assert max(check.error for check in judged.checks) > 0
    written = make_record(exponential, kernel, judged, timeout=evaluator.timeout, finalist=True)
    write_record(tmp_path / "r.json", written)
    told = CliRunner().invoke(app, ["replay", str(tmp_path / "r.json"), "--json"])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout.splitlines()[-1])
    assert answer["same"]
    assert answer["differs"] == answer["other_machine"] == []
    again = Evaluation.model_validate(answer["evaluation"])
    assert again.checks == judged.checks
    nudged = judged.checks[0].model_copy(update={"error": judged.checks[0].error * (1 + 2e-16) + 1e-300})
    comparison = compare_replay(judged.model_copy(update={"checks": (nudged, *judged.checks[1:])}), again)
    assert not comparison.same
    assert "then" in comparison.differs[0]


def test_a_replay_tells_what_differs_and_why_it_may(h200: Hardware) -> None:
    then = evaluation(h200)
    elsewhere = Environment(machine="Linux", torch="2.11.0", triton="3.7.1", python="3.11.7")
    wrong = evaluation(
        h200, status="incorrect", reason="differs", findings=(Finding(kind="wrong_values", message="differs"),),
        environment=elsewhere, checks=(),
    )  # fmt: skip
    told = compare_replay(then, wrong)
    assert not told.same
    assert len(told.differs) == 2, "verdict and findings; its check was made on a machine that is not here"
    assert told.why == ("torch: 2.13.0 then, 2.11.0 now",)
    assert compare_replay(then, then).same


def test_without_a_gpu_the_speed_is_not_repeated_and_that_is_told(h200: Hardware) -> None:
    told = compare_replay(timed(h200, "faster", 2.0), evaluation(h200))
    assert told.same
    assert any("speed" in line for line in told.not_repeated)
    assert not compare_replay(timed(h200, "faster", 2.0), timed(h200, "slower", 0.5)).same


def timed(h200: Hardware, status: Status, ratio: float) -> Evaluation:
    timing = Timing(
        candidate_ms=1 / ratio, eager_ms=1.0, baseline="eager", ratio=ratio, ratio_low=ratio - 0.01,
        ratio_high=ratio + 0.01, pairs=64,
    )  # fmt: skip
    return evaluation(h200, status=status, timing=timing)


@pytest.mark.parametrize(
    ("first", "finalist", "status", "agrees"),
    [
        (("faster", 2.0), ("faster", 2.05), "faster", True),
        (("faster", 2.0), ("faster", 1.2), "faster", False),
        (("faster", 2.0), ("slower", 0.8), "inconclusive", False),
        (("faster", 1.02), ("inconclusive", 1.0), "inconclusive", False),
        (("slower", 0.5), ("slower", 0.5), "slower", True),
        (("slower", 0.5), ("faster", 1.5), "inconclusive", False),
        (("inconclusive", 1.0), ("faster", 1.5), "inconclusive", False),
    ],
)
def test_both_measurements_have_to_say_the_same(
    h200: Hardware, first: tuple, finalist: tuple, status: Status, agrees: bool
) -> None:
    told = confirmed(timed(h200, *finalist), timed(h200, *first))
    assert told.status == status
    assert told.timing is not None
    assert told.timing.ratio == finalist[1], "what is told is measured in fresh processes, not the best of a search"
    assert told.timing.confirmation is not None
    assert (told.timing.confirmation.ratio, told.timing.confirmation.agrees) == (first[1], agrees)
    assert told.rungs[-1].outcome == ("passed" if agrees else "failed")
    assert (told.reason == "right") == agrees


@pytest.mark.parametrize(
    ("first", "ratio", "status"),
    [("faster", 188.0, "faster"), ("faster", 1.0, "inconclusive"), ("inconclusive", 188.0, "inconclusive")],
)
def test_a_kernel_that_is_faster_by_the_clock_that_counts_most_of_it_stays_faster(
    h200: Hardware, first: Status, ratio: float, status: Status
) -> None:
    disputed = timed(h200, "inconclusive", ratio)
    assert disputed.timing is not None
    disputed = disputed.model_copy(update={"timing": disputed.timing.model_copy(update={"clock": "host"})})
    told = confirmed(disputed, timed(h200, first, 491.0))
    assert told.status == status
    assert told.timing is not None and told.timing.ratio == ratio
    assert "491.00x" in told.rungs[-1].statement


def test_what_the_finalists_judge_rejects_is_rejected(h200: Hardware) -> None:
    finding = Finding(kind="wrong_values", message="differs")
    told = confirmed(
        evaluation(h200, status="incorrect", reason="differs", findings=(finding,)), timed(h200, "faster", 2.0)
    )
    assert (told.status, told.findings) == ("incorrect", (finding,))
    assert "fresh inputs" in told.reason
    untimed = confirmed(evaluation(h200), timed(h200, "faster", 2.0))
    assert untimed.status == "inconclusive" and "no speed was told now" in untimed.reason


def test_a_finalist_keeps_the_metrics_that_were_measured_before(h200: Hardware) -> None:
    metrics = Profile(source="ncu", kernel="softmax")
    first = timed(h200, "faster", 2.0).model_copy(update={"profile": metrics})
    assert confirmed(timed(h200, "faster", 2.0), first).profile == metrics


@pytest.fixture
def judges(h200: Hardware, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, object]]:
    """Judges that answer as one on a GPU would; what each was asked, by its number: 0 is the first one made."""
    asked: list[tuple[int, str, object]] = []
    made: list[object] = []

    class Judge:
        def __init__(self, settings: dict) -> None:
            made.append(self)
            assert settings["seed"] is None

        def ask(self, method: str, params: dict, seconds: float) -> object:
            asked.append((made.index(self), method, params.get("finalist")))
            answer = timed(h200, "faster", 2.0).model_copy(update={"seconds": 2.0})
            return answer.model_dump(mode="json") if method == "evaluate" else []

        def interrupt(self) -> None:
            pass

        def kill(self) -> None:
            asked.append((made.index(self), "ended", None))

    monkeypatch.setattr("egg_graph.evaluator.client.JudgeClient", Judge)
    monkeypatch.setattr("egg_graph.evaluator.local.JudgeClient", Judge)
    monkeypatch.setattr("egg_graph.evaluator.local.gpu_present", lambda: True)
    return asked


def of(number: int, asked: list[tuple[int, str, object]]) -> list[tuple[str, object]]:
    return [(method, finalist) for judge, method, finalist in asked if judge == number]


def test_a_finalist_has_a_judge_of_its_own(h200: Hardware, judges: list) -> None:
    told = LocalEvaluator().evaluate(task(h200), candidate(), finalist=True)
    assert told.timing is not None
    assert told.timing.confirmation is not None
    assert told.seconds == 4.0, "both evaluations were made for it"
    assert of(0, judges) == [("warm", None), ("evaluate", True), ("ended", None)], "it warms up from the beginning"
    assert of(1, judges) == [("evaluate", False), ("release", None)]


def test_a_kernel_that_was_measured_is_not_measured_once_more_by_the_first_judge(h200: Hardware, judges: list) -> None:
    evaluator = LocalEvaluator()
    kernel = candidate().model_copy(update={"config": {"BLOCK": 64}})
    evaluator.evaluate(task(h200), kernel)
    assert of(1, judges) == [], "who only evaluates starts no second judge"
    evaluator.screen(task(h200), [kernel])
    plain = kernel.model_copy(update={"source": kernel.source + "\nBLOCK = 64\n", "parent": kernel.id})
    told = evaluator.evaluate(task(h200), plain, finalist=True)
    assert told.seconds == 2.0
    assert of(0, judges) == [("evaluate", False), ("screen", None), ("release", None)]
    assert of(1, judges) == [("warm", None), ("evaluate", True), ("ended", None)]
    other = plain.model_copy(update={"config": {"BLOCK": 32}})
    judges.clear()
    evaluator.evaluate(task(h200), other, finalist=True)
    assert of(0, judges)[0] == ("evaluate", False), "its parent is another kernel"
    judges.clear()
    evaluator.evaluate(task(h200), kernel)
    assert "warm" in [method for _, method, _ in judges], "the next finalist's judge is made ahead"
    evaluator.close()
    assert judges[-1][1] == "ended"
