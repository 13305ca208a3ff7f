"""Models by name, and a model played through files."""

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from langchain.chat_models import init_chat_model

from egg_graph.agents import HandoffModel, ModelTeam, load_chat_model
from egg_graph.agents.models import PROVIDERS
from egg_graph.model_requests import logging_requests, read_requests
from egg_graph.runs.request_log import FolderLog
from egg_graph.schema import AnswerPending, BadInput, ModelRefused, Usage
from tests.agents.answers import MODULE, fenced
from tests.agents.briefs import seed_brief
from tests.agents.openai_server import OpenAIServer, Response, completion, raw


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_the_endpoint_may_come_from_the_environment_and_needs_no_key(monkeypatch):
    with OpenAIServer([completion("hello")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert load_chat_model("openai:any").invoke("hi").text == "hello"
    assert server.requests[0]["model"] == "any"
    assert "temperature" not in server.requests[0]


@pytest.mark.parametrize("name", ["qwen2.5-coder:32b", "org/model", "gpt-5.2-pro", "claude-opus", "ft:gpt-4o:me::1"])
def test_an_endpoint_gets_the_name_as_it_is_on_chat_completions(name):
    with OpenAIServer([completion("hello")]) as server:
        assert load_chat_model(name, base_url=server.url).invoke("hi").text == "hello"
    assert server.requests[0]["model"] == name


def test_the_endpoint_gets_a_providers_name_only_where_openai_is_named():
    with OpenAIServer([completion("hello")]) as server:
        load_chat_model("openai:anthropic:claude", base_url=server.url).invoke("hi")
    assert server.requests[0]["model"] == "anthropic:claude"


def test_another_providers_name_goes_to_no_openai_endpoint(monkeypatch):
    said = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    refused = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    script = [raw(json.dumps(said)), Response(401, json.dumps(refused).encode())]
    with OpenAIServer([completion("wrong")]) as openai, OpenAIServer(script) as anthropic:
        monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
        model = load_chat_model("anthropic:claude-opus")
        assert model.invoke("hi").text == "hello"
        with pytest.raises(ModelRefused, match=r"HTTP 401: .*set ANTHROPIC_API_KEY to a key") as error:
            ModelTeam(model).write(seed_brief())
    assert openai.requests == []
    assert [request["model"] for request in anthropic.requests] == ["claude-opus"] * 2
    assert "OPENAI" not in str(error.value)


def test_the_providers_are_those_of_langchain():
    with pytest.raises(ValueError, match="Supported providers: ") as error:
        init_chat_model("nonsense")
    listed = re.search(r"Supported providers: (.*)", str(error.value)).group(1)
    assert set(listed.split(", ")) == PROVIDERS


def test_a_temperature_is_sent_where_one_is_given():
    with OpenAIServer([completion("hello")]) as server:
        load_chat_model("m", base_url=server.url, temperature=0.2).invoke("hi")
    assert server.requests[0]["temperature"] == 0.2


def test_tokens_are_counted_when_the_answer_is_streamed():
    with OpenAIServer([completion("hello", input_tokens=7, output_tokens=3)]) as server:
        chunks = list(load_chat_model("m", base_url=server.url).stream("hi"))
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert total.text == "hello" and total.usage_metadata["total_tokens"] == 10


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("", {}, "the name is empty"),
        ("openai:", {}, "the name is empty"),
        ("openai:gpt-5", {}, "OPENAI_API_KEY is not set"),
        ("antropic:claude", {}, "no provider 'antropic'; there are anthropic, "),
        ("anthropic:claude-opus", {}, "ANTHROPIC_API_KEY is not set"),
        ("claude-opus", {}, "ANTHROPIC_API_KEY is not set"),
        ("anthropic:", {}, "the name is empty"),
        ("ollama:codellama", {}, "pip install langchain-ollama"),
        ("azure_openai:gpt-5", {}, "AZURE_OPENAI_API_KEY"),
        ("m", {"base_url": "localhost:8000"}, "not an http"),
    ],
)
def test_what_cannot_be_loaded_is_one_clear_line(name, options, said):
    with pytest.raises(BadInput, match=said) as error:
        load_chat_model(name, **options)
    assert "\n" not in str(error.value)


def test_importing_the_agents_loads_no_openai_and_no_torch():
    code = "import sys, egg_graph.agents as a; print([m for m in ('openai', 'torch', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def answer_when_asked(folder: Path, text: str) -> threading.Thread:
    def play() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for prompt in folder.glob("*.prompt.md"):
                answer = prompt.with_name(prompt.name.replace(".prompt.md", ".answer.md"))
                if not answer.exists():
                    answer.write_text(text)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    return thread


def test_a_model_may_be_played_through_files(tmp_path):
    player = answer_when_asked(tmp_path, fenced(MODULE))
    draft = ModelTeam(HandoffModel(folder=tmp_path, poll=0.02, timeout=10)).write(seed_brief())
    player.join()
    assert draft.source == MODULE
    assert sorted(file.name for file in tmp_path.iterdir()) == ["001-coder.answer.md", "001-coder.prompt.md"]
    assert "Your role: CODER" in (tmp_path / "001-coder.prompt.md").read_text()


def test_waiting_for_a_file_can_be_cancelled_and_holds_up_no_event_loop(tmp_path):
    team = ModelTeam(HandoffModel(folder=tmp_path, poll=0.02, timeout=10))

    async def work():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(team.awrite(seed_brief()), 0.3)
        player = answer_when_asked(tmp_path, fenced(MODULE))
        draft = await team.awrite(seed_brief())
        player.join()
        return draft.source

    assert asyncio.run(work()) == MODULE


def test_a_prompt_asked_before_takes_the_answer_already_there(tmp_path):
    team = ModelTeam(HandoffModel(folder=tmp_path, poll=0.02, timeout=0.1))
    with pytest.raises(ModelRefused, match=r"001-coder\.answer\.md: no answer within 0\.1 s"):
        team.write(seed_brief())
    (tmp_path / "001-coder.answer.md").write_text(fenced(MODULE))
    assert team.write(seed_brief()).source == MODULE
    assert len(list(tmp_path.glob("*.prompt.md"))) == 1


def test_a_run_may_end_while_a_prompt_waits_and_nothing_is_booked_for_it(tmp_path):
    model, log = load_chat_model(f"handoff:{tmp_path / 'handoff'},wait=0"), FolderLog(tmp_path)
    team = ModelTeam(model)
    for _ in range(2):
        with logging_requests(log), pytest.raises(AnswerPending, match=r"001-coder\.answer\.md"):
            team.write(seed_brief())
    assert (read_requests(tmp_path), log.owed()) == ([], Usage())
    (tmp_path / "handoff" / "001-coder.answer.md").write_text(fenced(MODULE))
    with logging_requests(log):
        assert team.write(seed_brief()).source == MODULE
    assert [one.outcome for one in read_requests(tmp_path)] == ["answered"]
    with pytest.raises(BadInput, match="'soon' are no seconds"):
        load_chat_model("handoff:folder,wait=soon")
