"""A prompt is held to a number of tokens: its least important parts are left out in their order, and it says which."""

import json

import pytest

from egg_graph.agents import ModelTeam, load_chat_model
from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.parts import PartList
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.knowledge import prompt_text
from tests.agents.answers import ANALYSIS
from tests.agents.briefs import PROMPTS, make_brief
from tests.agents.openai_server import OpenAIServer, completion


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("fewshot_kernel.py.txt", 1267), ("_triton_rules.j2", 607), ("principles_tensor_tiling.toml", 1453)],
)
def test_the_estimate_is_near_what_a_tokenizer_counts(name, tokens):
    """Counted once with o200k_base, on these files as they were; a file that changed a little is still near it."""
    assert 0.9 < estimate_tokens(prompt_text(name)) / tokens < 1.25


def test_parts_go_in_their_order_until_the_rest_fits():
    parts = PartList()
    texts = {"kernel": (None, 50), "old": (2, 40), "new": (3, 40), "playbooks": (1, 40)}
    rendered = "Begin.\n" + "\n".join(
        parts.part(name, cut, caller=lambda count=count, name=name: f"{name} " * count)
        for name, (cut, count) in texts.items()
    )
    assert [part.name for part in parts.assemble(rendered, None).parts] == list(texts)
    prompt = parts.assemble(rendered, 110)
    assert [part.name for part in prompt.parts] == ["kernel", "new"]
    assert [part.name for part in prompt.left_out] == ["old", "playbooks"]
    assert "old old" not in prompt.text and prompt.text.startswith("Begin.\nkernel kernel")
    assert prompt.text.endswith("Left out of this brief for its size: old (40 tokens), playbooks (80 tokens).\n")


def test_what_always_stays_stays_even_where_it_is_too_much():
    parts = PartList()
    prompt = parts.assemble(parts.part("kernel", caller=lambda: "word " * 99), 10)
    assert prompt.text.count("word") == 99 and not prompt.left_out


def test_a_text_cannot_pose_as_a_part():
    parts = PartList()
    hostile = "\0" + "0" * 16 + "\0" + "0"
    assert hostile in parts.assemble(parts.part("kernel", caller=lambda: hostile), None).text


def test_a_brief_keeps_what_its_role_cannot_do_without():
    brief = make_brief(guidance=dict.fromkeys("abcdefgh", "fuse everything " * 50))
    system, whole = ANALYST.compose(PROMPTS, brief, None)
    _, held = ANALYST.compose(PROMPTS, brief, estimate_tokens(system) + 900)
    assert not whole.left_out and held.left_out[-1].name == "the playbooks"
    assert held.tokens < 900 + 200 < whole.tokens
    kept = [part.name for part in held.parts]
    assert kept[:3] == ["the kernel", "the evaluation", "the metrics"] and "the account of attempt 4" in kept


def test_a_team_sends_no_more_than_it_may():
    with OpenAIServer([completion(json.dumps(ANALYSIS))]) as server:
        team = ModelTeam(load_chat_model("scripted-model", base_url=server.url), brief_tokens=2000)
        team.analyze(make_brief(guidance={"gemm": "x" * 4000}))
    assert (
        "Left out of this brief for its size: " in server.prompts[0] and "Playbooks for these" not in server.prompts[0]
    )
