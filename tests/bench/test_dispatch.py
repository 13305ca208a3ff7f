"""Jobs are dealt over all places of all GPUs; a worker that dies costs no other problem anything."""

import json
import os
import threading

import pytest

from egg_graph.bench.dispatch import Dispatcher, Listener
from egg_graph.bench.run import _gpus, mixed
from egg_graph.bench.values import Row
from egg_graph.bench.worker import Job
from egg_graph.bench.worker import Settings as WorkerSettings
from egg_graph.context import Context
from egg_graph.schema import ModelRefused


class Thread:
    """A worker that is a thread behind two pipes; see `egg_graph.bench.dispatch.Launched`.

    A job named `dies` ends it, at a job named `dies once` the first worker alone; `refused` is a model's refusal.
    """

    pid = 0
    started: list = []

    def __init__(self, gpu):
        (self.jobs, jobs_in), (answers, self.answers_in) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(jobs_in, "wb"), os.fdopen(answers, "rb")
        self.gpu, self.done, self.settings = gpu, [], None
        Thread.started.append(self)
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        with open(self.jobs) as jobs, open(self.answers_in, "w") as answers:
            self.settings = WorkerSettings.model_validate_json(jobs.readline())
            for line in jobs:
                job = Job.model_validate_json(line)
                if job.name == "dies" or (job.name == "dies once" and len(Thread.started) == 1):
                    return
                self.done.append(job.name)
                for message in self.answer(job, jobs):
                    text = json.dumps(message) + "\n"
                    answers.write(text[:5])
                    answers.flush()  # messages come in pieces
                    answers.write(text[5:])
                    answers.flush()

    def answer(self, job, jobs):
        if job.name == "refused":
            yield {"refused": "HTTP 400"}
            return
        if not job.run:
            yield {"begun": f"run of {job.name}"}
            assert jobs.readline() == "go on\n"
        yield {"doing": "works"}
        yield {"row": Row(name=job.name, task="", status="correct", reason=f"{self.gpu} {job.run}").model_dump()}

    def kill(self):
        pass

    def wait(self, timeout=None):
        self.thread.join(timeout)
        return 3


def dispatch(gpus, *names, seconds=float("inf")):
    """The rows, what was begun, and whether all was done."""
    Thread.started = []
    rows, begun = [], []
    listener = Listener(begun=lambda job, run: begun.append(run), done=lambda place, row: rows.append(row))
    with Dispatcher(gpus, WorkerSettings(runs_dir="runs"), Thread, listener) as dispatcher:
        done = dispatcher.run([Job(name=name, path="") for name in names], seconds)
    return rows, begun, done


def test_every_place_has_one_worker_with_its_own_gpu():
    names = [f"p{number}" for number in range(8)]
    rows, begun, done = dispatch(["GPU-a", "GPU-b", "GPU-a"], *names)
    assert done and sorted(row.name for row in rows) == names
    assert sorted(begun) == [f"run of {name}" for name in names]
    assert sorted(worker.settings.gpu for worker in Thread.started) == ["GPU-a", "GPU-a", "GPU-b"]
    assert all(worker.done for worker in Thread.started)


def test_a_job_whose_worker_died_is_done_by_another_one_and_given_up_after_two():
    rows, _, done = dispatch(["GPU-a"], "dies once", "dies", "after")
    assert done and [(row.name, row.status) for row in rows] == [
        ("dies once", "correct"),
        ("dies", "infra_error"),
        ("after", "correct"),
    ]
    assert rows[1].reason == "2 workers died at it, the last one with exit status 3"


def test_no_job_is_begun_after_the_time():
    assert dispatch(["GPU-a"], "late", seconds=0) == ([], [], False)


def test_a_refusal_of_the_model_ends_the_bench():
    with pytest.raises(ModelRefused, match="HTTP 400"):
        dispatch(["GPU-a"], "refused", "never")


def test_all_gpus_of_the_host_are_used_but_without_one_none(monkeypatch):
    monkeypatch.setattr("egg_graph.evaluator.device.detect.visible_gpus", lambda: ("GPU-a", "GPU-b"))
    assert _gpus(Context()) == ("GPU-a", "GPU-b")
    assert _gpus(Context(device="none")) == ()


def test_several_places_get_problems_of_a_kind_apart_and_begun_ones_first():
    jobs = [Job(name=f"{kind}/{i}", path="", without=w) for kind in "ab" for i in range(20) for w in ("", "tuner")]
    jobs[-1] = jobs[-1].model_copy(update={"run": "begun"})
    assert mixed(jobs, 1) == jobs
    dealt = mixed(jobs, 8)
    assert sorted(map(str, dealt)) == sorted(map(str, jobs))
    assert dealt == mixed(jobs[::2] + jobs[1::2], 8), "the same order each time"
    assert dealt[0].run == "begun"
    rest = [job.name for job in dealt if job.name != dealt[0].name]
    assert rest[::2] == rest[1::2], "ablations of a problem stay together"
    assert 4 <= sum(job.name.startswith("a/") for job in dealt[1:17]) <= 12
