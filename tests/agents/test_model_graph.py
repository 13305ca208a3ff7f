"""The whole graph with a model behind a real HTTP server: answers of every kind, failures of the endpoint, budgets."""

import json

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from egg_graph import Context, build_egg_graph
from egg_graph.agents import load_chat_model, requests
from egg_graph.schema import ModelRefused
from tests.agents.answers import ANALYSIS, DIAGNOSIS, HOPELESS, MENDED, MODULE, TEST_CODE, fenced
from tests.agents.openai_server import OpenAIServer, Response, Stall, completion, failure
from tests.graph.scripted import REFERENCE, ScriptedEvaluator

WORTH = completion(json.dumps(ANALYSIS))
NOT_WORTH = completion('{"worth_optimizing": false, "bottleneck": "none", "root_cause": "at the floor"}')
REPAIR = completion(json.dumps(DIAGNOSIS))


def module(verdict: str) -> str:
    """A module of which the scripted evaluator thinks what its first line says ("ok 3.0", "bad 1")."""
    return f"# {verdict}\n{MODULE}\nVERDICT = {verdict!r}\n"


def role_of(body: dict) -> str:
    system = body["messages"][0]["content"]
    return next(role for role in ("ANALYST", "CODER", "DEBUGGER") if f"Your role: {role}" in system).lower()


def by_role(coder: list, analyst: Response = NOT_WORTH, debugger: Response = REPAIR) -> list:
    """A script that answers by who asks; the coder's answers in order, the last one again and again."""
    answers = iter(coder[:-1])

    def step(body: dict) -> Response | Stall:
        if role_of(body) == "coder":
            return next(answers, coder[-1])
        return analyst if role_of(body) == "analyst" else debugger

    return [step]


class FondEvaluator(ScriptedEvaluator):
    """Likes every module, whatever its first line."""

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        liked = candidate.model_copy(update={"source": f"# ok 3\n{candidate.source}"})
        return super().evaluate(task, liked, stage=stage).model_copy(update={"candidate": candidate.id})


def run(server: OpenAIServer, evaluator: ScriptedEvaluator | None = None, timeout: float = 10.0, **knobs):
    model = load_chat_model("scripted", base_url=server.url, timeout=timeout)
    graph = build_egg_graph(model, evaluator=evaluator or ScriptedEvaluator(clock=True))
    context = Context(target="h100", expert_seed=False, accept="right", **knobs)
    return graph.invoke({"reference": REFERENCE}, context=context)


def modes(state) -> list[str]:
    return [attempt.candidate.mode for attempt in state["attempts"]]


def test_seed_repair_optimize_accept():
    coder = [completion(fenced(module(verdict))) for verdict in ("bad 9", "ok 3", "ok 2")]
    with OpenAIServer(by_role(coder, analyst=WORTH)) as server:
        state = run(server, stages=("algorithmic_structure",), max_optimizations=1)
    assert modes(state) == ["seed", "repair", "optimize"]
    assert state["status"] == "correct" and state["kernel"] == module("ok 2")
    assert state["attempts"][1].candidate.author == "scripted"
    assert [role_of(body) for body in server.requests] == ["coder", "debugger", "coder", "analyst", "coder"]
    assert DIAGNOSIS["modification_plan"] in server.prompts[2]
    assert ANALYSIS["plan"] in server.prompts[4]


def test_later_stages_are_told_what_earlier_ones_did():
    coder = [completion(fenced(module(f"ok {9 - n}"))) for n in range(5)]
    with OpenAIServer(by_role(coder, analyst=WORTH)) as server:
        state = run(server, max_optimizations=1)
    assert state["status"] == "correct" and len(state["attempts"]) == 5
    system, last = (message["content"] for message in server.requests[-1]["messages"])
    assert "Present stage: MEMORY OPTIMIZATION" in system
    for stage in ("algorithmic_structure", "parallel_mapping", "tensor_tiling"):
        assert f"- {stage}: improved after" in last


@pytest.mark.parametrize("kind", ["no fence", "test code", "a stub after the module"])
def test_a_mendable_answer_ends_accepted(kind):
    with OpenAIServer(by_role([completion(MENDED[kind])])) as server:
        state = run(server, FondEvaluator())
    assert state["status"] == "correct" and modes(state) == ["seed"]
    assert "class ModelNew" in state["kernel"] and "get_inputs" not in state["kernel"]


def test_what_was_mended_in_an_answer_and_dropped_of_its_knobs_is_told_to_whoever_works_on_it():
    def answer(verdict: str) -> Response:
        idle = "CONFIG = {'BLOCK': 256}\nSPACE = {'tensor_tiling': {'BLOCK': [128]}}\n"
        return completion(fenced(module(verdict) + idle + TEST_CODE))

    coder = [answer(verdict) for verdict in ("bad 9", "ok 3", "ok 2")]
    with OpenAIServer(by_role(coder, analyst=WORTH)) as server:
        state = run(server, stages=("algorithmic_structure",), max_optimizations=1)
    assert modes(state) == ["seed", "repair", "optimize"]
    _, *told = zip(map(role_of, server.requests), server.prompts, strict=True)
    assert [role for role, _ in told] == ["debugger", "coder", "analyst", "coder"]
    for role, prompt in told:
        (line,) = [line for line in prompt.splitlines() if line.startswith("Mended in it: ")]
        assert "removed get_inputs" in line, role
        assert "; knob dropped: SPACE['tensor_tiling']['BLOCK'] turns a knob that the module never reads" in line, role


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_hopeless_answer_is_a_failed_attempt_and_the_run_goes_on(kind):
    hopeless = completion(HOPELESS[kind][0])
    with OpenAIServer(by_role([hopeless, hopeless, completion(fenced(module("ok 3")))])) as server:
        state = run(server, stages=("algorithmic_structure",))
    assert modes(state) == ["seed", "repair"]
    assert HOPELESS[kind][1] in state["attempts"][0].candidate.problem
    assert not state["attempts"][0].evaluation.usable
    assert state["status"] == "correct"


def test_roles_that_never_answer_usefully_end_in_the_reference_kept():
    nonsense = completion("Bananas.")
    with OpenAIServer([nonsense]) as server:
        state = run(server, max_repairs=2)
    assert state["status"] == "reference_kept"
    assert len(state["attempts"]) == 2, "the same answer without code twice: no third question"
    assert len(server.requests) == 2 * (2 + 1), "each question asked twice: two modules, one diagnosis"


def test_429_500_and_timeouts_are_recovered_from(monkeypatch):
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    good = completion(fenced(module("ok 3")))
    with OpenAIServer([failure(429), failure(500), good, Stall(9), NOT_WORTH]) as server:
        state = run(server, timeout=0.5)
    assert state["status"] == "correct"
    assert modes(state) == ["seed"]
    assert len(server.requests) == 3 + 2 + 3, "two failed seeds, one failed analysis, three further analyses"
    assert (state["usage"].calls, state["usage"].failed) == (8, 3), "a request that failed is booked"


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_ends_the_run_at_once_with_one_clear_line(status):
    with OpenAIServer([failure(status, "no such thing")]) as server, pytest.raises(ModelRefused) as error:
        run(server)
    assert len(server.requests) == 1
    assert f"HTTP {status}: no such thing" in str(error.value) and server.url in str(error.value)


def test_a_model_that_is_always_wrong_is_stopped_by_the_budget():
    number = iter(range(1000))

    def step(body: dict) -> Response:
        return completion(fenced(module(f"bad {next(number)}"))) if role_of(body) == "coder" else REPAIR

    with OpenAIServer([step]) as server:
        state = run(server, max_attempts=5, max_repairs=100)
    assert state["status"] == "reference_kept" and len(state["attempts"]) == 5


class Watch(BaseCallbackHandler):
    """Records what a tracer is told of each call of a model."""

    def __init__(self):
        self.calls = []

    def on_chat_model_start(self, *_, metadata=None, name=None, **__):
        told = metadata or {}
        self.calls.append((name, told["role"], told["stage"], told["attempt"], told["mode"]))


def test_a_trace_shows_which_attempt_each_call_was_for():
    coder = [completion(fenced(module("bad 3"))), completion(fenced(module("ok 3")))]
    watch = Watch()
    with OpenAIServer(by_role(coder)) as server:
        graph = build_egg_graph(
            load_chat_model("scripted", base_url=server.url), evaluator=ScriptedEvaluator(clock=True)
        )
        knobs = Context(target="h100", expert_seed=False, stages=("algorithmic_structure", "tensor_tiling"))
        graph.invoke({"reference": REFERENCE}, {"callbacks": [watch]}, context=knobs)
    first, second = "algorithmic_structure", "tensor_tiling"
    assert [call[1:] for call in watch.calls] == [
        ("coder", first, 1, "seed"),
        ("debugger", first, 2, "repair"),
        ("coder", first, 2, "repair"),
        ("analyst", first, 3, "optimize"),
        ("analyst", second, 3, "optimize"),
    ]
    assert watch.calls[2][0] == "egg coder: repair, attempt 2 in algorithmic_structure"


def test_tokens_are_counted_also_when_the_run_is_streamed():
    with OpenAIServer(by_role([completion(fenced(module("ok 3")))])) as server:
        graph = build_egg_graph(
            load_chat_model("scripted", base_url=server.url), evaluator=ScriptedEvaluator(clock=True)
        )
        knobs = Context(target="h100", expert_seed=False)
        modes_wanted = ["messages", "values"]
        events = list(graph.stream({"reference": REFERENCE}, context=knobs, stream_mode=modes_wanted, subgraphs=True))
    tokens = [payload for _, mode, payload in events if mode == "messages"]
    final = [payload for namespace, mode, payload in events if mode == "values" and not namespace][-1]
    assert any("egg" in (metadata.get("tags") or []) for _, metadata in tokens)
    assert any(body.get("stream") for body in server.requests)
    seed = final["attempts"][0]
    assert (seed.usage.calls, seed.usage.input_tokens, seed.usage.output_tokens) == (1, 100, 20)
