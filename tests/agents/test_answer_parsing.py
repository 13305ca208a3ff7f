"""Parsers: every malformed answer is mended or named, nothing else is raised, whatever is sent."""

import ast
import functools
import json
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egg_graph.agents.parsing import Reply, Unreadable, mend_module, read_module, read_object, trim_words
from tests.agents.answers import (
    AMBIGUOUS,
    DIAGNOSIS,
    DOCUMENTED,
    HOPELESS,
    KERNEL,
    MENDED,
    MODULE,
    PARTS,
    STATEFUL,
    WRITTEN_JSON,
    fenced,
)

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


@pytest.mark.parametrize("answer", [fenced(DOCUMENTED), DOCUMENTED], ids=["fenced", "bare"])
def test_a_fence_inside_a_docstring_ends_nothing(answer):
    assert read_module(Reply(answer)).source == DOCUMENTED


def test_a_quotation_of_the_module_before_is_no_answer():
    new = MODULE.replace("256", "512")
    assert read_module(Reply(f"{fenced(new)}\nIn place of:\n{fenced(MODULE)}"), base=MODULE).source == new
    assert read_module(Reply(fenced(MODULE)), base=MODULE).source == MODULE


def test_an_escape_that_python_warns_of_is_no_error():
    source = MODULE.replace("return y", 'return y  if y is not None else "\\d"')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_module(Reply(fenced(source)), base=MODULE).source == source


def test_a_docstring_that_never_ends_swallows_no_later_block():
    broken = '```python\n"""Draft\n```\n'
    assert read_module(Reply(f"{broken}{fenced(MODULE)}")).source == MODULE


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_is_merged_into_the_module_it_is_about(kind):
    module = read_module(Reply(PARTS[kind]), base=MODULE)
    assert module.source.count("2 * ") == 1 and "the module before" in module.mended[0]
    assert [name for name in ("copy_kernel", "ModelNew") if module.source.count(f"{name}(") > 1] == []
    whole = module.source.replace("2 * ", "")
    assert same_code(whole, MODULE) or kind == "a new helper"
    compile(module.source, "<module>", "exec")


def test_a_class_gets_the_methods_it_relies_on():
    answer = fenced(MODULE.replace("return y", "return self.gain + y"))
    module = read_module(Reply(answer), base=STATEFUL)
    assert same_code(module.source, STATEFUL.replace("self.gain * y", "self.gain + y"))
    assert module.mended == ("ModelNew.__init__ taken from the module before",)


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_a_part_that_belongs_nowhere_is_refused_with_one_line(kind):
    text, reason = AMBIGUOUS[kind]
    with pytest.raises(Unreadable, match=reason) as unreadable:
        read_module(Reply(text), base=MODULE)
    assert "\n" not in unreadable.value.reason


@pytest.mark.parametrize("base", ["", "def broken(:"])
def test_a_part_without_a_module_to_merge_it_into_is_refused(base):
    with pytest.raises(Unreadable, match="no `class ModelNew`"):
        read_module(Reply(fenced(KERNEL)), base=base)


def test_a_later_version_of_a_kernel_in_a_block_of_its_own_goes_with_the_class():
    text = MENDED["kernels and class in two fences"]
    assert "taken from another block of the answer" in read_module(Reply(text)).mended[0]


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


def test_quotes_that_nobody_escaped_belong_to_the_text():
    text = '{"critical_issue": "it calls "tl.dot", then "tl.store", twice", "modification_plan": "say "once"."}'
    assert read_object(Reply(text), KEYS) == (
        {"critical_issue": 'it calls "tl.dot", then "tl.store", twice', "modification_plan": 'say "once".'},
        ("malformed JSON read by its plain meaning",),
    )


def test_words_are_trimmed_to_the_limit_at_a_sentence_if_one_fits():
    assert trim_words("one two three", 3) == "one two three"
    assert trim_words("one two. three four five", 4) == "one two. three four…"
    assert trim_words("one two three. four five", 4) == "one two three."
    assert len(trim_words("word " * 100, 30).split()) == 30
    assert len(trim_words("w" * 200_000, 30)) < 600, "an endless word"


hostile_text = st.text(max_size=300) | st.lists(
    st.sampled_from(
        ["```", "```python\n", "~~~", "\n", "{", "}", '"', "'", ",", "//", "/*", "<think>", "</think>", "\x00", "\\",
         "((", "class ModelNew:\n", "    pass\n", "@triton.jit\n", "import torch\n", '"critical_issue": ', "é",
         "\u2028", "if __name__ == 1:\n", "return\n", "def get_inputs(): 0\n", '\n"""\n', "\n@@ -1 +1 @@\n", "-",
         "+", "    ", "def f(self): ...\n",
         "\ud800", "[", "]", ":", "#", "*/", "CONFIG = {", "\n```diff\n", "lambda:"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(hostile_text, st.booleans())
def test_no_answer_makes_a_parser_raise_anything_but_unreadable(text, truncated):
    merged = functools.partial(read_module, base=MODULE)
    for read in (read_module, merged, lambda reply: read_object(reply, KEYS)):
        try:
            read(Reply(text, truncated))
        except Unreadable as unreadable:
            assert unreadable.reason and unreadable.request and "\n" not in unreadable.reason


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
    assert read_object(Reply(f"Answer:\n```json\n{json.dumps(answer)}\n```\n"), KEYS).values == answer


@pytest.mark.parametrize("said", ["<think>", "a tag </think> and more", "<think>x</think>"])
@pytest.mark.parametrize(
    "form", ["{}", "Answer:\n```json\n{}\n```\n", "why so</think>\n{}", "<think>```json\n{{\n</think>{}"]
)
def test_a_tag_of_thinking_within_a_string_is_the_answers_own(form, said):
    answer = dict.fromkeys(KEYS, said)
    assert read_object(Reply(form.format(json.dumps(answer))), KEYS).values == answer


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        "(",
        '{"',
        "{/*",
        '{"a": "x" y',
        "a",
        "```\n'''\n",
        "> ",
        "\\",
        "@@ -1 +1 @@\n-import torch\n+x\n",
        "\r",
        "<think>\n```\n1\n```\n",
    ],
)
def test_an_endless_answer_is_read_in_time_proportional_to_it(unit):
    text = f"```{unit}" + unit * (190_000 // len(unit)) + "`"
    start = time.process_time()
    for read in (read_module, functools.partial(read_module, base=MODULE), lambda reply: read_object(reply, KEYS)):
        with pytest.raises(Unreadable):
            read(Reply(text))
    assert time.process_time() - start < 10, "what is quadratic takes hours"


def test_what_is_too_long_is_named():
    with pytest.raises(Unreadable, match="200100 characters; at most 200000"):
        read_object(Reply("x" * 200_100), KEYS)
    with pytest.raises(Unreadable, match="the module has 120508 characters; at most 100000"):
        read_module(Reply(fenced(MODULE + "# x\n" * 30_000)))
    assert read_module(Reply("y" * 150_000 + "\n" + fenced(MODULE))).source == MODULE
