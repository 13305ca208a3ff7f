"""Find the module in a coder's answer, in one fence, in several, or in none."""

import re
import textwrap

from egg_graph.agents.parsing.module import Module, defines_class, mend_module, parse_python
from egg_graph.agents.parsing.reply import Block, Reply, Unreadable, find_blocks, strip_thinking

_ENTRY = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_KERNEL = re.compile(r"^[ \t]*@triton\.(jit|autotune|heuristics)\b", re.MULTILINE)
_PYTHON = frozenset({"", "python", "python3", "py", "triton", "code"})
_BEGIN = re.compile(r"^(import |from |@|def |class |\"\"\"|#!|# ?-\*-)")
_MAX_TRAILING = 200
"""Lines of prose after unfenced code that are tried away, one by one."""

_WHOLE = "Answer again with one fenced Python block that holds the whole module, `class ModelNew(nn.Module)` included."


def read_module(reply: Reply) -> Module:
    """Read the module of an answer, and mend it where that is plain.

    A module with a syntax error is returned as it is: the evaluator names the line.

    Raises:
        Unreadable: if the answer is empty, was cut off inside the code, or defines no `class ModelNew`.
    """
    text = strip_thinking(reply.text).strip()
    if not text:
        reason = (
            "the answer was cut off before any code" if reply.truncated or reply.text.strip() else "the answer is empty"
        )
        raise Unreadable(reason, _WHOLE)
    found = [block for block in find_blocks(text) if block.language in _PYTHON]
    source = _from_blocks(found, reply) if found else _from_prose(text, reply)
    return mend_module(textwrap.dedent(source).strip("\n") + "\n")


def _from_blocks(found: list[Block], reply: Reply) -> str:
    """The last block that defines ModelNew and parses; kernels in blocks of their own are joined before it."""
    entries = [block for block in found if _ENTRY.search(block.text)]
    if not entries:
        if reply.truncated or not found[-1].closed:
            raise _cut_off()
        raise Unreadable("the code defines no `class ModelNew`", _WHOLE)
    whole = [block for block in entries if parse_python(textwrap.dedent(block.text)) is not None]
    chosen = whole[-1] if whole else entries[-1]
    if not whole and (reply.truncated or not chosen.closed):
        raise _cut_off()
    if not chosen.closed and reply.truncated:
        raise _cut_off()
    if _KERNEL.search(chosen.text):
        return chosen.text
    parts = [block.text for block in found if _is_part(block, chosen)]
    return "\n\n".join([*parts, chosen.text])


def _is_part(block: Block, chosen: Block) -> bool:
    """A block of kernels or helpers that belongs to the module in `chosen`: Python, and no second entry point."""
    if block is chosen or _ENTRY.search(block.text):
        return False
    tree = parse_python(textwrap.dedent(block.text))
    return tree is not None and not defines_class(tree, "Model") and bool(_KERNEL.search(block.text))


def _from_prose(text: str, reply: Reply) -> str:
    """Code without a fence: from the first line that can begin a module to the last with which it parses."""
    if not _ENTRY.search(text):
        raise Unreadable("there is no code in the answer", _WHOLE)
    lines = text.split("\n")
    begin = next((number for number, row in enumerate(lines) if _BEGIN.match(row)), 0)
    code = lines[begin:]
    for drop in range(min(_MAX_TRAILING, len(code))):
        candidate = "\n".join(code[: len(code) - drop])
        if not _ENTRY.search(candidate):
            break
        if parse_python(candidate) is not None:
            if reply.truncated:
                raise _cut_off()
            return candidate
    if reply.truncated:
        raise _cut_off()
    return "\n".join(code)


def _cut_off() -> Unreadable:
    return Unreadable(
        "it was cut off inside the code by the output limit",
        "Answer again, shorter: the module alone in one fenced Python block, no explanation, no long comments.",
    )
