"""Read the JSON object in an answer, even amid prose, with comments, trailing commas or Python literals."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from egg_graph.agents.parsing.reply import Reply, Unreadable, find_blocks, strip_thinking

_MAX_TEXT = 200_000
_MAX_STARTS = 64
"""Most characters that are read, and most opening braces that are tried: a run-away answer takes bounded time."""

_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_REQUEST = "Answer again with the JSON object alone."


def read_object(reply: Reply, wanted: Sequence[str]) -> dict[str, Any]:
    """Read the object with most of the `wanted` keys; the last one where several have as many.

    Keys are normalised to lower case with underscores ("modification plan" -> "modification_plan").

    Raises:
        Unreadable: if the answer is empty, cut off, or holds no object with any of the keys.
    """
    text = strip_thinking(reply.text).strip()[:_MAX_TEXT]
    if not text:
        raise Unreadable("the answer is empty", _REQUEST)
    best: dict[str, Any] = {}
    for source in [*(block.text for block in find_blocks(text)), text]:
        for candidate in _objects(source):
            if _count(candidate, wanted) >= max(1, _count(best, wanted)):
                best = candidate
        if _count(best, wanted) == len(wanted):
            return best
    if best:
        return best
    reason = "it was cut off by the output limit" if reply.truncated else f"it holds no JSON object with {wanted[0]!r}"
    raise Unreadable(reason, _REQUEST)


def _count(candidate: dict[str, Any], wanted: Sequence[str]) -> int:
    return sum(key in candidate for key in wanted)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every outermost `{...}` that can be read as an object."""
    end = -1
    starts = [match.start() for match in re.finditer(r"\{", text)]
    for start in starts[:_MAX_STARTS]:
        if start < end:
            continue
        stop = _closing(text, start)
        if stop is None:
            continue
        value = _lenient(text[start:stop])
        if isinstance(value, dict):
            end = stop
            yield {_normal(key): entry for key, entry in value.items() if isinstance(key, str)}


def _normal(key: str) -> str:
    return "_".join(key.lower().replace("-", " ").replace("_", " ").split())


def _closing(text: str, start: int) -> int | None:
    """Index after the brace that closes the one at `start`; braces in double-quoted strings do not count."""
    depth, quoted, escaped = 0, False, False
    for index in range(start, len(text)):
        character = text[index]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = quoted
        elif character == '"':
            quoted = not quoted
        elif not quoted and character == "{":
            depth += 1
        elif not quoted and character == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _lenient(text: str) -> Any:
    """JSON; then JSON without comments and trailing commas; then a Python literal; else None."""
    plain = _TRAILING_COMMA.sub(r"\1", _without_comments(text))
    for attempt in (text, plain):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    python = re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", re.sub(r"\bnull\b", "None", plain)))
    try:
        return ast.literal_eval(python)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _without_comments(text: str) -> str:
    """Text without `// ...`, `# ...` and `/* ... */` outside double-quoted strings."""
    pattern = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|#[^\n]*|/\*.*?\*/', re.DOTALL)
    return pattern.sub(lambda match: match[0] if match[0].startswith('"') else "", text)
