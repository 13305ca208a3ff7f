"""Which problems a bench has: a folder, a list, one file, KernelBench's levels, or the workloads that ship."""

import ast
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from egg_graph.bench.classes import operator_class
from egg_graph.schema import BadInput
from egg_graph.schema.syntax import syntax_tree

KERNELBENCH, WORKLOADS = "kernelbench", "workloads"
"""Names of suites; any other is a path."""
_LEVEL = re.compile(r"level(\d+)")
_CHOICE = re.compile(r"(?:(\d+)/)?(\d+)(?:-(\d+))?")


class Problem(NamedTuple):
    """One reference of a bench."""

    name: str
    """Unique in the bench: `level1/19_ReLU`, or the file's name without .py."""
    path: Path
    section: str = ""
    """`level1` for KernelBench, `workloads` for ours, else empty."""

    @property
    def digest(self) -> str:
        """SHA-256 of the file, as 16 hex digits."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]

    @property
    def operator_class(self) -> str:
        """Its class by the rule of `egg_graph.bench.classes`."""
        return operator_class(self.path.read_text(encoding="utf-8", errors="replace"))


def find_problems(
    suite: str, *, path: str | Path | None = None, levels: str = "", problems: str = "", only: str = "*"
) -> tuple[Problem, ...]:
    """The problems of a suite, in their order.

    Args:
        suite: `kernelbench`, `workloads`, or a folder, a .txt list or a file as `find_references` takes them.
        path: KernelBench's checkout, or the folder in it that holds `level1`.
        levels: KernelBench's levels, such as `1,2`; all that are there if empty.
        problems: numbers of KernelBench's problems, such as `1-10,15` of every level or `2/18` of one.
        only: pattern on the file's name without .py.

    Raises:
        BadInput: if the suite, a level or a problem does not exist, or an option belongs to another suite.
    """
    if suite == KERNELBENCH:
        return _kernelbench(path, levels, problems, only)
    if path is not None or levels or problems:
        raise BadInput(f"--path, --levels and --problems belong to the suite {KERNELBENCH}, not to {suite!r}")
    if suite == WORKLOADS:
        folder = Path(__file__).with_name("workloads")
        return tuple(Problem(file.stem, file, WORKLOADS) for file in find_references(folder, only))
    if not Path(suite).exists():
        raise BadInput(
            f"{suite}: no such folder or file, and no suite; name {KERNELBENCH}, {WORKLOADS}, a folder of references, "
            "or a .txt list of them"
        )
    return name_problems(find_references(suite, only))


def name_problems(files: Sequence[Path]) -> tuple[Problem, ...]:
    """Problems of files: named by the file, or by folder and file where two files have one name.

    Raises:
        BadInput: if two files have one name in folders of one name.
    """
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [f"{file.parent.name}/{file.stem}" for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"two references are named {twice[0]!r}: a bench tells problems apart by folder and file name")
    return tuple(Problem(name, file) for name, file in zip(names, files, strict=True))


def find_references(path: str | Path, only: str = "*") -> tuple[Path, ...]:
    """The references of a suite, sorted by path for a folder, in its own order for a list.

    Args:
        path: a folder (every .py file in it that defines `Model` and `get_inputs`), a .txt file with one path a line
            (relative to the list; `#` begins a comment), or one reference.
        only: pattern on the file's name without .py, such as `*norm`.

    Raises:
        BadInput: if the path does not exist or nothing in it is a reference.
    """
    path = Path(path)
    if path.is_dir():
        found = [file for file in sorted(path.glob("*.py")) if _is_reference(file)]
    elif path.suffix == ".txt" and path.is_file():
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        found = [path.parent / line for line in lines if line]
    elif path.is_file():
        found = [path]
    else:
        raise BadInput(f"{path}: no such folder or file; name a folder of references, or a .txt list of them")
    chosen = tuple(file for file in found if file.match(f"{only}.py"))
    if not chosen:
        raise BadInput(f"{path}: no reference named {only!r} in it (a .py file with class Model and get_inputs)")
    return chosen


def _is_reference(file: Path) -> bool:
    try:
        tree = syntax_tree(file.read_bytes())
    except (SyntaxError, ValueError):
        return False
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {"Model", "get_inputs"} <= names


def _kernelbench(path: str | Path | None, levels: str, problems: str, only: str) -> tuple[Problem, ...]:
    if path is None:
        raise BadInput(f"the suite {KERNELBENCH} does not ship: give --path, a checkout of KernelBench")
    there = _level_folders(Path(path))
    there = {level: there[level] for level in _levels(levels, there)}
    every = [
        Problem(f"level{level}/{file.stem}", file, f"level{level}")
        for level, folder in there.items()
        for file in sorted(find_references(folder), key=lambda file: (_number(file), file.name))
    ]
    choices = _choices(problems)
    for choice in choices:
        if not any(choice.holds(problem) for problem in every):
            raise BadInput(f"problems: no {choice.text} in level {', '.join(map(str, there))} of {path}")
    wanted = [problem for problem in every if not choices or any(choice.holds(problem) for choice in choices)]
    found = tuple(problem for problem in wanted if problem.path.match(f"{only}.py"))
    if not found:
        raise BadInput(f"{path}: no problem named {only!r} in level {', '.join(map(str, there))}")
    return found


def _level_folders(path: Path) -> dict[int, Path]:
    """The folders level1, level2 ... below a checkout or below its inner folder, by number."""
    for folder in (path, path / "KernelBench"):
        if folder.is_dir():
            named = {_LEVEL.fullmatch(each.name): each for each in folder.iterdir() if each.is_dir()}
            if found := {int(match[1]): each for match, each in named.items() if match}:
                return dict(sorted(found.items()))
    raise BadInput(f"{path}: no folder level1, level2 ... in it; name a checkout of KernelBench")


def _levels(text: str, there: dict[int, Path]) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if not word.isdigit() or int(word) not in there]
    if unknown:
        raise BadInput(f"levels: no level {unknown[0]!r}; there are {', '.join(map(str, there))}")
    return [int(word) for word in words] or list(there)


class _Choice(NamedTuple):
    """A range of problems' numbers, of one level or of all."""

    text: str
    level: str
    first: int
    last: int

    def holds(self, problem: Problem) -> bool:
        """Whether a problem is in the range."""
        return self.level in ("", problem.section) and self.first <= _number(problem.path) <= self.last


def _choices(text: str) -> list[_Choice]:
    found: list[_Choice] = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        match = _CHOICE.fullmatch(word)
        if match is None:
            raise BadInput(f"problems: {word!r} is no number; write 1-10,15 for every level, or 2/18 for one")
        level, first, last = match.groups()
        if found and found[-1].level and not level:
            raise BadInput(
                f"problems: {word} stands behind {found[-1].text} and names no level: write it with one, as in "
                f"{found[-1].level.removeprefix('level')}/{word}, or give --levels and numbers alone"
            )
        found.append(_Choice(word, f"level{level}" if level else "", int(first), int(last or first)))
    return found


def _number(file: Path) -> int:
    """The number that KernelBench's file names begin with; -1 without one."""
    digits = file.name.split("_")[0]
    return int(digits) if digits.isdigit() else -1
