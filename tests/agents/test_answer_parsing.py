"""Parsers: every malformed answer is mended or named, nothing else is raised, whatever is sent."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egg_graph.agents.parsing import Reply, Unreadable, mend_module, read_module, read_object, trim_words
from tests.agents.answers import DIAGNOSIS, HOPELESS, MENDED, MODULE, WRITTEN_JSON, fenced

KEYS = ("critical_issue", "modification_plan")


def same_code(left: str, right: str) -> bool:
    return ast.dump(ast.parse(left)) == ast.dump(ast.parse(right))


@pytest.mark.parametrize("kind", MENDED)
def test_the_module_comes_out_of_a_malformed_answer(kind):
    source = read_module(Reply(MENDED[kind])).source
    assert same_code(source, MODULE)
    assert "# one block per program" in source, "comments survive"


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_hopeless_answer_is_named(kind):
    text, reason = HOPELESS[kind]
    with pytest.raises(Unreadable) as unreadable:
        read_module(Reply(text))
    assert reason in unreadable.value.reason
    assert unreadable.value.request


@pytest.mark.parametrize("lines", [2, 8, 11, 14])
def test_an_answer_cut_off_inside_the_code_is_named(lines):
    text = "```python\n" + "\n".join(MODULE.splitlines()[:lines])
    with pytest.raises(Unreadable, match="cut off"):
        read_module(Reply(text, truncated=True))


def test_an_answer_cut_off_after_the_code_is_whole():
    assert same_code(read_module(Reply(f"{fenced(MODULE)}\nThis ker", truncated=True)).source, MODULE)


def test_what_was_mended_is_told():
    mended = read_module(Reply(MENDED["test code"])).mended
    assert mended == (
        "removed get_inputs",
        "removed get_init_inputs",
        "removed test_model",
        "removed the __main__ block",
    )
    assert "added 'import triton.language as tl'" in read_module(Reply(MENDED["imports missing"])).mended
    assert read_module(Reply(MENDED["prose around the fence"])).mended == ()


def test_a_syntax_error_is_left_to_the_evaluator():
    broken = MODULE.replace("return y", "return y)")
    assert read_module(Reply(fenced(broken))).source == broken


@pytest.mark.parametrize(
    "source",
    [
        MODULE.replace("class ModelNew", "def test_scale(x):\n    return 2 * x\n\n\nclass ModelNew").replace(
            "return y", "return test_scale(y)"
        ),
        MODULE + '\n\nCONFIG = {"BLOCK": 256}\nSPACE = {}\n',
        MODULE.replace("import torch\n", "from __future__ import annotations\n\nimport torch\n", 1),
        MODULE.replace("y = torch.empty_like(x)", 'y = torch.empty_like(x)\n        print("called")'),
    ],
    ids=["a helper named test_", "literals", "future import", "print inside forward"],
)
def test_code_that_belongs_to_the_module_stays(source):
    assert mend_module(source).source == source


def test_imports_go_after_docstring_and_future_imports():
    source = mend_module(
        '"""Doc."""\nfrom __future__ import annotations\n\nclass ModelNew(nn.Module):\n    pass\n'
    ).source
    assert source.splitlines()[:3] == ['"""Doc."""', "from __future__ import annotations", "import torch.nn as nn"]
    compile(source, "<module>", "exec")


@pytest.mark.parametrize("kind", WRITTEN_JSON)
def test_the_object_comes_out_of_malformed_json(kind):
    answer = read_object(Reply(WRITTEN_JSON[kind]), KEYS).values
    assert {key: " ".join(answer[key].split()) for key in KEYS} == DIAGNOSIS


@pytest.mark.parametrize(
    ("text", "truncated", "reason"),
    [
        ("", False, "empty"),
        ("no object here", False, "no JSON object"),
        ('{"critical_issue": "the ma', True, "cut off"),
        ('["critical_issue"]', False, "no JSON object"),
    ],
)
def test_an_answer_without_an_object_is_named(text, truncated, reason):
    with pytest.raises(Unreadable, match=reason):
        read_object(Reply(text, truncated), KEYS)


def test_words_are_trimmed_to_the_limit_at_a_sentence_if_one_fits():
    assert trim_words("one two three", 3) == "one two three"
    assert trim_words("one two. three four five", 4) == "one two. three four…"
    assert trim_words("one two three. four five", 4) == "one two three."
    assert len(trim_words("word " * 100, 30).split()) == 30


hostile_text = st.text(max_size=300) | st.lists(
    st.sampled_from(
        ["```", "```python\n", "~~~", "\n", "{", "}", '"', "'", ",", "//", "/*", "<think>", "</think>", "\x00", "\\",
         "((", "class ModelNew:\n", "    pass\n", "@triton.jit\n", "import torch\n", '"critical_issue": ', "é",
         "\u2028", "if __name__ == 1:\n", "return\n", "def get_inputs(): 0\n"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(hostile_text, st.booleans())
def test_no_answer_makes_a_parser_raise_anything_but_unreadable(text, truncated):
    for read in (read_module, lambda reply: read_object(reply, KEYS)):
        try:
            read(Reply(text, truncated))
        except Unreadable as unreadable:
            assert unreadable.reason and unreadable.request


@settings(max_examples=100, deadline=None)
@given(
    before=st.text(max_size=200).filter(lambda t: "`" not in t and "~" not in t and "<" not in t),
    after=st.text(max_size=200).filter(lambda t: "`" not in t and "~" not in t and "<" not in t),
    number=st.integers(),
)
def test_a_valid_fence_always_yields_its_module(before, after, number):
    source = MODULE.replace("256", str(number))
    found = read_module(Reply(f"{before}\n{fenced(source)}\n{after}")).source
    assert same_code(found, source)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), st.text(min_size=1, max_size=80), min_size=2))
def test_valid_json_in_a_fence_is_read_back_exactly(answer):
    import json

    assert read_object(Reply(f"Answer:\n```json\n{json.dumps(answer)}\n```\n"), KEYS).values == answer


def test_a_runaway_answer_is_read_in_bounded_time():
    with pytest.raises(Unreadable):
        read_object(Reply("{" * 150_000), KEYS)
    with pytest.raises(Unreadable):
        read_module(Reply("(" * 150_000))
