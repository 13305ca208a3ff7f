"""Read the literals CONFIG and SPACE from the syntax tree of a candidate's source. Nothing is executed."""

import ast
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast, get_args

from egg_graph.schema import BadInput, ConfigSpace, Knob, StageName
from egg_graph.schema.syntax import UNREADABLE, syntax_tree

STAGES = get_args(StageName)


class DictLiteral(NamedTuple):
    """One assignment `CONFIG = {...}` or `SPACE = {...}` of a source."""

    statement: ast.Assign | ast.AnnAssign
    value: ast.Dict
    entries: dict[str, ast.expr]
    """Key -> expression of its value, so that a rewrite can change the values alone."""


class Knobs(NamedTuple):
    """What CONFIG and SPACE of a source say."""

    config: dict[str, Knob]
    """The value of each knob."""
    space: ConfigSpace
    """Per stage, the values that each knob may take."""
    dropped: tuple[str, ...] = ()
    """Each part of the two literals that cannot be used, and why; one line each."""


def read_knobs(source: str) -> Knobs:
    """Read CONFIG and SPACE from a candidate's source.

    A part that is malformed is dropped, and the rest is read: knobs are for the tuner, and a kernel may be right
    without them. A source that does not parse has none.

    Args:
        source: the module's text.
    """
    dropped: list[str] = []
    try:
        tree = parse(source)
    except BadInput:
        return Knobs({}, {})
    config = _config(tree, dropped)
    return Knobs(config, _space(tree, config, dropped), tuple(dropped))


def _config(tree: ast.Module, dropped: list[str]) -> dict[str, Knob]:
    literal = find_well_formed(tree, "CONFIG", dropped)
    knobs: dict[str, Knob] = {}
    for key, node in {} if literal is None else literal.entries.items():
        with _dropping(dropped):
            where = f"CONFIG[{key!r}]"
            knobs[key] = _knob(where, node, _literal(where, node))
    return knobs


def _space(tree: ast.Module, config: dict[str, Knob], dropped: list[str]) -> ConfigSpace:
    literal = find_well_formed(tree, "SPACE", dropped)
    space: ConfigSpace = {}
    if literal is None or not literal.entries:
        return space
    if not config:
        line = literal.statement.lineno
        dropped.append(f"SPACE at line {line} has no usable CONFIG beside it; add CONFIG = {{knob: value}}")
        return space
    for stage, node in literal.entries.items():
        with _dropping(dropped):
            entries = _stage_entries(stage, node)
            space[cast(StageName, stage)] = knobs = {}
            for knob, choices in entries.items():
                with _dropping(dropped):
                    knobs[knob] = _choices(f"SPACE[{stage!r}][{knob!r}]", knob, choices, config)
    return space


@contextmanager
def _dropping(dropped: list[str]) -> Iterator[None]:
    """Note what is refused inside, and go on behind it."""
    try:
        yield
    except BadInput as error:
        dropped.append(str(error))


def find_well_formed(tree: ast.Module, name: str, dropped: list[str]) -> DictLiteral | None:
    """`find`, with None for an assignment that it refuses; the reason goes to `dropped`."""
    with _dropping(dropped):
        return find(tree, name)
    return None


def parse(source: str) -> ast.Module:
    """Parse a module.

    Raises:
        BadInput: if it is no Python; the message names the line.
    """
    try:
        return syntax_tree(source)
    except SyntaxError as error:
        raise BadInput(f"the source does not parse: {error.msg} (line {error.lineno})") from error
    except UNREADABLE as error:
        raise BadInput(f"the source does not parse: {error or type(error).__name__}") from error


def find(tree: ast.Module, name: str) -> DictLiteral | None:
    """Find the module-level assignment of a dict literal to `name`; None where the module does not bind it.

    Raises:
        BadInput: if it is bound more than once or is no dict literal with text keys.
    """
    statements = [s for s in tree.body if isinstance(s, ast.Assign | ast.AnnAssign) and name in _targets(s)]
    if not statements:
        return None
    statement = statements[0]
    if _targets(statement) != [name] or len(_writes(tree, name)) != 1:
        raise BadInput(f"{name} at line {statement.lineno} must be bound once, alone, and never changed afterwards")
    if not isinstance(statement.value, ast.Dict):
        raise BadInput(f"{name} at line {statement.lineno} must be a dict literal, {name} = {{...}}")
    return DictLiteral(statement, statement.value, _entries(name, statement.value))


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _writes(tree: ast.Module, name: str) -> list[ast.AST]:
    """Every node that binds `name` or stores into it, anywhere in the module; a shadowing argument counts."""

    def writes(node: ast.AST) -> bool:
        match node:
            case ast.Name(id=bound, ctx=ast.Store() | ast.Del()) | ast.arg(arg=bound):
                return bound == name
            case ast.Subscript(value=ast.Name(id=bound), ctx=ast.Store() | ast.Del()):
                return bound == name
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                return bound == name
            case ast.alias(name=imported, asname=bound):
                return (bound or imported) == name
        return False

    return [node for node in ast.walk(tree) if writes(node)]


def _entries(name: str, value: ast.Dict) -> dict[str, ast.expr]:
    entries: dict[str, ast.expr] = {}
    for key, node in zip(value.keys, value.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise BadInput(f"{name} at line {(key or node).lineno}: every key must be a text literal")
        if key.value in entries:
            raise BadInput(f"{name} at line {key.lineno}: {key.value!r} stands twice")
        entries[key.value] = node
    return entries


def _literal(where: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (TypeError, *UNREADABLE) as error:
        raise BadInput(f"{where} at line {node.lineno} must be a literal, not an expression") from error


def _knob(where: str, node: ast.expr, value: Any) -> Knob:
    """The value of a knob, which stands at `node`: an int, a finite float, a bool or a str."""
    if not isinstance(value, int | float | bool | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput(f"{where} at line {node.lineno} must be a finite number, True, False or a text, not {value!r}")
    return value


def _stage_entries(stage: str, node: ast.expr) -> dict[str, ast.expr]:
    """The knobs of one stage of SPACE."""
    if stage not in STAGES:
        raise BadInput(f"SPACE at line {node.lineno}: no stage {stage!r}; the stages are {', '.join(STAGES)}")
    if not isinstance(node, ast.Dict):
        raise BadInput(f"SPACE[{stage!r}] at line {node.lineno} must be a dict literal, knob -> list of values")
    return _entries(f"SPACE[{stage!r}]", node)


def _choices(where: str, knob: str, choices: ast.expr, config: dict[str, Knob]) -> tuple[Knob, ...]:
    """The values that one knob may take."""
    if knob not in config:
        raise BadInput(
            f"{where} at line {choices.lineno} turns a knob that CONFIG lacks; CONFIG has {', '.join(config)}"
        )
    literal = _literal(where, choices)
    if not isinstance(literal, list | tuple) or not literal:
        raise BadInput(f"{where} at line {choices.lineno} must be a list with at least one value")
    return tuple(_knob(where, choices, value) for value in literal)
