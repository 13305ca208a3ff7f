"""Read an object that is almost JSON: comments, trailing commas, single or missing quotes, quotes inside texts."""

import re
from typing import Any

_MAX_DIGITS = 400
MAX_DEPTH = 20
"""Most levels of objects and lists inside each other."""

_GAP = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?:[^*]|\*(?!/)){0,2000}+\*/)*+")
_NUMBER = re.compile(r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w.-]*+")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "/": "/", "\\": "\\", "\n": ""}
_KEY = r"""(?:["'][\w \t-]{1,60}["']|[A-Za-z_]\w{0,60})\s{0,40}:"""
_NEXT_KEY = re.compile(_KEY)
_AFTER_KEY = re.compile(r"\s{0,40}:")
_AFTER_VALUE = re.compile(rf"\s{{0,40}}(?:\Z|\}}|//|/\*|#|,\s{{0,40}}(?:\}}|//|/\*|#|{_KEY})|(?<=\s){_KEY})")
_AFTER_ITEM = re.compile(r"""\s{0,40}(?:\Z|\]|\)|//|/\*|#|,\s{0,40}(?:["'\])\[{\d-]|//|/\*|#|true|false|null))""")


class NotAnObject(Exception):
    """Raised where the text is no object, not even almost."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no object: see character {at}")
        self.at = at
        """Index up to which the text was read."""


def read_lenient(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Read the object that begins at a brace.

    A quote ends a text only where a comma, a bracket or a colon follows it as the place demands, so that texts may hold
    quotes that nobody escaped.

    Returns:
        The object, and the index behind it.

    Raises:
        NotAnObject: if there is none, or it does not end.
    """
    reader = _Reader(text, start)
    return reader.object(MAX_DEPTH), reader.at


class _Reader:
    """Reads one value after the other; `at` is the index of what comes next."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.at = start

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._expect("{")
        while not self._ends_with("}"):
            key = self._string(_AFTER_KEY) if self._peek() in "\"'" else self._word()
            self._expect(":")
            found[str(key)] = self._value(depth - 1, _AFTER_VALUE)
            if not self._ends_with(",") and self._peek() != "}" and not _NEXT_KEY.match(self.text, self.at):
                raise NotAnObject(self.at)
        return found

    def _list(self, depth: int, closing: str) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while not self._ends_with(closing):
            found.append(self._value(depth - 1, _AFTER_ITEM))
            if not self._ends_with(",") and self._peek() != closing:
                raise NotAnObject(self.at)
        return found

    def _value(self, depth: int, after: re.Pattern[str]) -> Any:
        first = self._peek()
        if not depth:
            raise NotAnObject(self.at)
        if first == "{":
            return self.object(depth)
        if first in "[(":
            return self._list(depth, "]" if first == "[" else ")")
        if first in "\"'":
            return self._string(after)
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            return self._word()
        self.at = number.end()
        whole = len(number[0]) < _MAX_DIGITS and not set(number[0]) & set(".eE")
        return int(number[0]) if whole else float(number[0])

    def _string(self, after: re.Pattern[str]) -> str:
        """A text; also one in three quotes."""
        quote = self.text[self.at]
        if self.text.startswith(3 * quote, self.at):
            quote *= 3
        begin = at = self.at + len(quote)
        while True:
            at = self.text.find(quote, at)
            if at < 0:
                raise NotAnObject(len(self.text))
            behind = at + len(quote)
            if not self._escaped(at, begin) and (len(quote) == 3 or after.match(self.text, behind)):
                self.at = behind
                return _unescape(self.text[begin:at])
            at += 1

    def _escaped(self, at: int, begin: int) -> bool:
        slashes = 0
        while at - slashes > begin and self.text[at - slashes - 1] == "\\" and slashes < 99:
            slashes += 1
        return slashes % 2 == 1

    def _word(self) -> Any:
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise NotAnObject(self.at)
        self.at = word.end()
        return _WORDS.get(word[0].lower(), word[0])

    def _expect(self, character: str) -> None:
        if not self._ends_with(character):
            raise NotAnObject(self.at)

    def _ends_with(self, character: str) -> bool:
        """Take this character, if it comes next."""
        taken = self._peek() == character
        self.at += taken
        return taken

    def _peek(self) -> str:
        """The next character that says something."""
        gap = _GAP.match(self.text, self.at)
        self.at = self.at if gap is None else gap.end()
        if self.at >= len(self.text):
            raise NotAnObject(self.at)
        return self.text[self.at]


def _unescape(text: str) -> str:
    """Read JSON's escapes; an unknown one stays as it is."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPED.get(name, match[0])

    return _ESCAPE.sub(one, text) if "\\" in text else text
