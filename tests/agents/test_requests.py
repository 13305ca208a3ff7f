"""Requests to a real HTTP server: streamed, tried again where that helps, every one of them booked and told."""

import asyncio
import json

import pytest

from egg_graph.agents import ModelTeam, load_chat_model, requests
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.evaluator import hear_progress
from egg_graph.model_requests import Terms, asking_under
from egg_graph.nodes.retries import model_may_recover
from egg_graph.schema import BadInput, ModelUnavailable
from tests.agents.answers import DIAGNOSIS, MODULE, fenced
from tests.agents.briefs import make_brief, seed_brief
from tests.agents.openai_server import OpenAIServer, Trickle, completion, failure

GOOD = completion(fenced(MODULE))
PIECES = tuple(fenced(MODULE)[start : start + 100] for start in range(0, len(fenced(MODULE)), 100))
WRITE = [
    pytest.param(lambda team: team.write(seed_brief()), id="write"),
    pytest.param(lambda team: asyncio.run(team.awrite(seed_brief())), id="awrite"),
]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)


def team_at(server: OpenAIServer, **options) -> ModelTeam:
    return ModelTeam(load_chat_model("scripted", base_url=server.url), **options)


def heard(write, team):
    """The draft, what was told meanwhile, and the requests that were told."""
    told = []
    with hear_progress(told.append):
        draft = write(team)
    return draft, [one.doing for one in told if one.doing], [one.request for one in told if one.request]


@pytest.mark.parametrize("write", WRITE)
def test_a_long_answer_is_no_silence_and_is_told_as_it_comes(monkeypatch, write):
    monkeypatch.setattr("egg_graph.agents.partial_answer._TELL", 0.1)
    step = Trickle(PIECES, pause=0.06, thoughts=("hm",) * 4)
    with OpenAIServer([step]) as server:
        draft, doing, calls = heard(write, team_at(server, timeout=0.4))
    assert draft.source == MODULE and 0.06 * len((*step.thoughts, *PIECES)) > 0.4
    assert "the model thinks" in doing and any("tokens so far" in line for line in doing)
    assert (draft.usage.calls, draft.usage.input_tokens, draft.usage.estimated) == (1, 100, 0)
    assert [call.outcome for call in calls] == ["answered"]


@pytest.mark.parametrize("write", WRITE)
def test_silence_in_the_middle_is_a_failure_and_its_tokens_are_booked_as_estimated(write):
    with OpenAIServer([Trickle(PIECES[:2], pause=0.0, ends=False), GOOD]) as server:
        draft, _, calls = heard(write, team_at(server, timeout=0.3))
    assert draft.source == MODULE
    assert (draft.usage.calls, draft.usage.failed, draft.usage.estimated) == (2, 1, 1)
    broken, answered = calls
    assert (broken.outcome, broken.answer) == ("failed", "".join(PIECES[:2])) and "no answer in time" in broken.reason
    assert broken.usage.output_tokens == estimate_tokens("".join(PIECES[:2])) > 40 and broken.usage.input_tokens > 1000
    assert draft.usage.input_tokens == broken.usage.input_tokens + answered.usage.input_tokens


@pytest.mark.parametrize("write", WRITE)
def test_a_busy_endpoint_is_asked_again_and_every_request_is_told(write):
    with OpenAIServer([failure(429, "slow down", retry_after="0.02"), failure(500, "oops"), GOOD]) as server:
        draft, _, calls = heard(write, team_at(server))
    assert draft.source == MODULE and len(server.requests) == 3
    assert (draft.usage.calls, draft.usage.failed, draft.usage.estimated) == (3, 2, 1), "a 429 costs nothing, a 500 may"
    assert [(call.outcome, call.again_in) for call in calls] == [("failed", 0.02), ("failed", 0.03), ("answered", None)]
    assert "HTTP 429: slow down" in calls[0].reason


def test_an_endpoint_that_stays_broken_is_asked_four_times_and_by_nobody_again():
    with (
        OpenAIServer([failure(503)]) as server,
        pytest.raises(ModelUnavailable, match=r"HTTP 503.*asked 4 times") as error,
    ):
        team_at(server).write(seed_brief())
    assert len(server.requests) == 4 and not model_may_recover(error.value)


def test_no_request_is_sent_again_when_the_budget_is_spent():
    with (
        OpenAIServer([failure(503)]) as server,
        asking_under(Terms(spent=lambda cost: "max_calls (2) reached" * (cost.calls > 1))),
    ):
        draft = team_at(server).write(seed_brief())
    assert len(server.requests) == 2 and draft.usage.calls == 2
    assert "max_calls (2) reached" in draft.problem


def test_no_answer_is_asked_for_anew_when_the_budget_is_spent():
    with (
        OpenAIServer([completion("no code")]) as server,
        asking_under(Terms(spent=lambda cost: "max_calls (1) reached" * (cost.calls > 0))),
    ):
        draft = team_at(server).write(seed_brief())
    assert len(server.requests) == 1 and "not asked again: max_calls (1) reached" in draft.problem


def test_nobody_is_asked_at_all_when_the_budget_is_spent_before():
    with (
        OpenAIServer([completion("no code")]) as server,
        asking_under(Terms(spent=lambda cost: "max_calls (1) reached")),
    ):
        draft = team_at(server).write(seed_brief())
    assert not server.requests and draft.problem.endswith("not asked: max_calls (1) reached")


def refuses_schemas(body):
    return failure(400, "no response_format") if "response_format" in body else completion(json.dumps(DIAGNOSIS))


def test_a_refused_schema_costs_its_request_and_its_seconds():
    with OpenAIServer([refuses_schemas]) as server:
        usage, _, calls = heard(lambda team: team.debug(make_brief(mode="repair")).usage, team_at(server, tries=1))
    assert [(call.outcome, call.again_in) for call in calls] == [("failed", 0.0), ("answered", None)]
    assert usage == calls[0].usage + calls[1].usage
    assert (usage.calls, usage.failed) == (2, 1) and calls[0].usage.seconds > 0


def test_a_refused_schema_is_not_followed_by_a_request_that_no_budget_is_left_for():
    with (
        OpenAIServer([refuses_schemas]) as server,
        asking_under(Terms(spent=lambda cost: "max_calls (1) reached" * (cost.calls > 0))),
    ):
        team = team_at(server)
        withheld = team.debug(make_brief(mode="repair"))
    assert len(server.requests) == withheld.usage.calls == 1
    assert "no response_format" in withheld.unusable and withheld.withheld == "max_calls (1) reached"


def test_tokens_that_nobody_tells_are_estimated_and_said_to_be():
    with OpenAIServer([Trickle(PIECES, pause=0.0, usage=False)]) as server:
        usage = team_at(server).write(seed_brief()).usage
    assert (usage.calls, usage.estimated, usage.failed) == (1, 1, 0)
    assert usage.output_tokens == estimate_tokens("".join(PIECES)) > 100


def test_a_price_is_that_of_the_users_own_file_or_unknown(tmp_path):
    row = 'model = "scripted"\ninput = 10.0\noutput = 100.0\nsource = "a bill"\n'
    (tmp_path / "prices.toml").write_text(f"[[price]]\n{row}")
    with OpenAIServer([GOOD]) as server:
        team = team_at(server)
        unknown = team.write(seed_brief()).usage
        with asking_under(Terms(knowledge_dir=str(tmp_path))):
            known = team.write(seed_brief()).usage
    assert (unknown.dollars, unknown.unpriced) == (0.0, 1)
    assert (round(known.dollars, 6), known.unpriced) == (0.003, 0), "100 tokens in, 20 out"


def test_prices_that_cannot_be_read_are_told_before_an_answer_is_paid(tmp_path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "scripted"\n')
    with (
        OpenAIServer([GOOD]) as server,
        asking_under(Terms(knowledge_dir=str(tmp_path))),
        pytest.raises(BadInput, match=r"prices\.toml"),
    ):
        team_at(server).write(seed_brief())
    assert server.requests == []
