"""Models by name, and a model played through files."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from egg_graph.agents import HandoffModel, ModelTeam, load_chat_model
from egg_graph.schema import BadInput, ModelRefused
from tests.agents.answers import MODULE, fenced
from tests.agents.briefs import seed_brief
from tests.agents.openai_server import OpenAIServer, completion


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def test_the_endpoint_may_come_from_the_environment_and_needs_no_key(monkeypatch):
    with OpenAIServer([completion("hello")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert load_chat_model("openai:any").invoke("hi").text == "hello"
    assert server.requests[0]["model"] == "any"
    assert "temperature" not in server.requests[0]


@pytest.mark.parametrize("name", ["qwen2.5-coder:32b", "org/model", "gpt-5.2-pro", "ollama:codellama"])
def test_an_endpoint_gets_the_name_as_it_is_on_chat_completions(name):
    with OpenAIServer([completion("hello")]) as server:
        assert load_chat_model(name, base_url=server.url).invoke("hi").text == "hello"
    assert server.requests[0]["model"] == name


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
        ("anthropic:claude", {}, "pass the anthropic chat model itself"),
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
