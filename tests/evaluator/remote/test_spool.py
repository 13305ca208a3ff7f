"""A folder between graphs and the host that judges: whole files, one batch for many runs, nothing paid twice."""

import asyncio
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from egg_graph import AnswerPending, BadInput, Context, InfrastructureError, build_egg_graph, checkpoint_serde
from egg_graph.evaluator import SpoolEvaluator
from egg_graph.evaluator.remote.by_name import evaluator_by_name
from egg_graph.evaluator.remote.questions import Question
from egg_graph.evaluator.remote.spool import Spool
from egg_graph.schema import Evaluation, KernelResources
from tests.evaluator.remote.commands import lines, started, until
from tests.evaluator.remote.host import judge_batch
from tests.graph.scripted import REFERENCE, StatelessTeam, kernel, tunable

STAGE = "algorithmic_structure"
CONTEXT = Context(stages=(STAGE,), max_optimizations=1)


def graph(folder, *writes, **options):
    team = StatelessTeam(writes)
    saver = InMemorySaver(serde=checkpoint_serde())
    return build_egg_graph(team=team, evaluator=SpoolEvaluator(folder, **options), principles=(), checkpointer=saver)


def test_many_runs_advance_in_lockstep_on_one_batch_and_end_resumably_until_it_is_judged(tmp_path):
    folder, log = tmp_path / "spool", tmp_path / "log"
    same = tunable("timed", 9, STAGE, [9, 7])
    runs = [graph(folder, same, kernel("timed", number), wait=0) for number in (5, 6)]
    config, batches, results = {"configurable": {"thread_id": "1"}}, [], {}
    while len(results) < len(runs):
        for number, one in enumerate(runs):
            begun = bool(one.get_state(config).values)
            try:
                results[number] = one.invoke(None if begun else {"reference": REFERENCE}, config, context=CONTEXT)
            except AnswerPending as pending:
                assert f"egg-graph spool {folder}" in str(pending)
        batches.append(len(list(folder.glob("questions/*.json"))))
        judge_batch(folder, log)
    assert [results[n]["evaluation"].timing.candidate_ms for n in (0, 1)] == [5, 6]
    assert results[0]["task"].target.key == "h100" and results[0]["evaluation"].environment.driver == "580.159"
    assert batches[:3] == [1, 1, 1] and 2 in batches and batches[-1] == 0, "what is equal is one question"
    assert len(lines(log)) == len(set(lines(log))), "judged twice"


def test_a_killed_host_judges_again_what_it_had_not_answered(tmp_path, task, candidate):
    folder, log = tmp_path / "spool", tmp_path / "log"
    evaluator = SpoolEvaluator(folder, wait=60, poll=0.05)
    with ThreadPoolExecutor() as threads:
        gated = threads.submit(evaluator.evaluate, task, candidate("gated"))
        with started(log, "spool", folder, "--watch", "--workers", 2, end=signal.SIGKILL) as host:
            assert threads.submit(evaluator.evaluate, task, candidate("ok")).result(60).status == "correct"
            until(lambda: f"began {candidate('gated').id}" in lines(log), host)
        log.with_name("log.open").touch()
        (folder / "questions" / f"{'0' * 64}.json").write_text("{")
        (folder / "questions" / f"{'1' * 64}.json").symlink_to("/etc/passwd")
        (folder / "questions" / "notes.json").write_text("{")
        with started(log, "spool", folder, "--watch") as host:
            assert gated.result(60).status == "correct"
            run = graph(folder, kernel("ok", 9), kernel("ok", 8), poll=0.05)
            result = run.invoke({"reference": REFERENCE}, {"configurable": {"thread_id": "1"}}, context=CONTEXT)
            assert result["status"] == "correct" and result["kernel"] == kernel("ok", 8)
            until(lambda: len(list(folder.glob("questions/*.json"))) == 1, host)
            with pytest.raises(InfrastructureError, match=rf"process {host.pid} on .* judges what lies in"):
                Spool(folder, "another").held().__enter__()
    said, complaint = host.said
    refused = [line for line in said.splitlines() if "unreadable question: refused" in line]
    assert [line[:8] for line in sorted(refused)] == ["0" * 8, "1" * 8] and "root:" not in said
    assert host.returncode == 130 and "Traceback" not in complaint
    assert lines(log).count(candidate("ok").id) == 1 and lines(log).count(f"began {candidate('gated').id}") == 2


def test_answers_stay_and_faults_are_taken_once(tmp_path, task, candidate):
    evaluator, log = SpoolEvaluator(tmp_path, wait=0), tmp_path / "log"
    for _ in range(2):
        with pytest.raises(AnswerPending):
            evaluator.baseline(task)
    judge_batch(tmp_path, log)
    assert evaluator.baseline(task) == evaluator.baseline(task)
    key = Question(kind="baseline", task=task).key
    failed = {"format": 1, "key": key, "judge": "host", "error": "InfrastructureError", "message": "the GPU fell off"}
    (tmp_path / "answers" / f"{key}.json").write_text(json.dumps(failed))
    with pytest.raises(InfrastructureError, match="the GPU fell off"):
        evaluator.baseline(task)
    with pytest.raises(AnswerPending):
        evaluator.baseline(task)
    (tmp_path / "answers" / f"{key}.json").write_text(json.dumps({**failed, "error": "", "format": 7}))
    with pytest.raises(
        InfrastructureError, match=r"format: Input should be 1; see that both sides have the same version"
    ):
        evaluator.baseline(task)
    judge_batch(tmp_path, log)
    assert evaluator.baseline(task).task == task.digest, "a damaged answer keeps its question from the judge"


def test_a_kernel_that_was_judged_is_profiled_for_another_stage(tmp_path, task, candidate):
    evaluator, log = SpoolEvaluator(tmp_path, wait=0), tmp_path / "log"
    kernel = KernelResources(kernel="tile", target="sm_90", grid=(4,), num_warps=4, num_stages=2)
    judged = Evaluation(candidate=candidate("ok").id, task=task.digest, status="faster", reason="", resources=(kernel,))

    def profile(log_tail=""):
        return evaluator.profile(task, candidate("ok"), judged.model_copy(update={"log": log_tail}), stage=STAGE)

    with pytest.raises(AnswerPending):
        profile()
    judge_batch(tmp_path, log)
    assert profile().kernel == profile("only its kernels count").kernel == f"tile in {STAGE}"
    assert len(lines(log)) == 1


def test_a_cancelled_call_takes_its_question_back(tmp_path, task):
    async def cancel():
        call = asyncio.create_task(SpoolEvaluator(tmp_path, poll=0.01).abaseline(task))
        while not list(tmp_path.glob("questions/*.json")):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait([call])

    asyncio.run(cancel())
    assert not list(tmp_path.glob("*/*.json"))


def test_old_answers_are_deleted(tmp_path, task):
    evaluator = SpoolEvaluator(tmp_path, wait=0)
    with pytest.raises(AnswerPending):
        evaluator.baseline(task)
    judge_batch(tmp_path, tmp_path / "log")
    (answer,) = tmp_path.glob("answers/*.json")
    Spool(tmp_path).prune(days=1)
    assert answer.exists()
    os.utime(answer, (0, 0))
    Spool(tmp_path).prune(days=1)
    assert not answer.exists()


def test_what_a_question_hangs_on_is_its_key(task, candidate):
    asked = Question(kind="evaluate", task=task, candidates=(candidate("ok"),), stage=STAGE)
    same = asked.model_copy(update={"candidates": (candidate("ok", parent="abc", mode="repair"),), "egg_graph": "0"})
    others = [
        {"candidates": (candidate("ok", 2),)},
        {"candidates": (candidate("ok", config={"N": 1}),)},
        {"task": task.model_copy(update={"precision": "bf16"})},
        {"stage": "tensor_tiling"},
        {"finalist": True},
        {"kind": "screen"},
        {"label": "two"},
    ]
    keys = {asked.model_copy(update=other).key for other in others}
    assert asked.key == same.key and len(keys) == len(others) and asked.key not in keys


@pytest.mark.parametrize("name", ["gpu-host", "spool:", "spool:here,wait=soon"])
def test_a_name_of_no_evaluator_is_refused(name):
    with pytest.raises(BadInput, match=rf"evaluator '{name}'"):
        evaluator_by_name(name)
