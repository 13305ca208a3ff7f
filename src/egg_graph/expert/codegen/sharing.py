"""Let groups that were written alike share one function, so that repeated layers are compiled and tuned once.

Two sources are alike if they differ in nothing but the group's name and the names of the tensors that it touches.
Docstrings do not count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from egg_graph.expert.capture.graph import Placeholder
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.codegen.plan import Plan

DOCSTRING = re.compile(r'"""[\s\S]*?"""')
WRAPPED = ((r"\(\n\s+", "("), (r",\n\s*\)", ")"), (r",\n\s+", ", "))
"""Where a long call is broken into lines hangs on the lengths of names."""
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def share_functions(plan: Plan, kernels: Mapping[str, KernelCode]) -> dict[str, KernelCode]:
    """Return the kernels by group; one that is alike to an earlier group's calls its function, and has no source."""
    known: dict[object, list[_Text]] = {}
    shared = {}
    for name, code in kernels.items():
        text = _text_of(plan, name, code)
        alike = next((other for other in known.setdefault(text.frame, []) if text.is_alike(other)), None)
        if alike is None:
            known[text.frame].append(text)
            shared[name] = code
        else:
            function = alike.function
            shared[name] = replace(code, function=function, source="", config={}, space={}, summary=f"as {function}")
    return shared


@dataclass(frozen=True)
class _Text:
    """A source, taken apart into its words and what stands between them."""

    function: str
    frame: object
    """What must be equal: all but the words, the knobs, and how the function is called."""
    words: tuple[str, ...]
    own: frozenset[str]
    """The Python names of the group's tensors; other names begin with them."""

    def is_alike(self, other: "_Text") -> bool:
        """Return whether the words differ in own names alone, one of these for one of those."""
        there: dict[str, str] = {}
        back: dict[str, str] = {}
        return all(
            there.setdefault(a, b) == b and back.setdefault(b, a) == a and (a == b or self._rest(a) & other._rest(b))
            for a, b in zip(self.words, other.words, strict=True)
        )

    def _rest(self, word: str) -> set[str]:
        """Return what may follow an own name in a word; empty if it begins with none."""
        parts = word.split("_")
        stems = ("_".join(parts[:count]) for count in range(1, len(parts) + 1))
        return {word[len(stem) :] for stem in stems if stem in self.own}


def _text_of(plan: Plan, name: str, code: KernelCode) -> _Text:
    source = re.sub(rf"\b{name}(?=_|\b)", "@", DOCSTRING.sub("", code.source))
    for pattern, flat in WRAPPED:
        source = re.sub(pattern, flat, source)
    knobs = tuple((knob.removeprefix(name), value) for knob, value in code.config.items())
    called = len(code.tensors), len(code.sizes), len(code.returns), len(code.in_place)
    space = str(code.space).replace(f"'{name}_", "'_")
    frame = WORD.sub("", source), knobs, space, code.helpers, code.keeps, code.into, called
    return _Text(code.function, frame, tuple(WORD.findall(source)), _own_names(plan, plan.groups[name]))


def _own_names(plan: Plan, group: Group) -> frozenset[str]:
    tensors = (plan.graph[n] for n in (*group.nodes, *group.inputs))
    return frozenset(re.sub(r"\W", "_", t.target if isinstance(t, Placeholder) else t.name) for t in tensors)
