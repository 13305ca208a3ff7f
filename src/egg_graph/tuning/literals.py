"""Read the literals CONFIG and SPACE from the syntax tree of a candidate's source. Nothing is executed."""

import ast
import math
from typing import Any, NamedTuple, cast, get_args

from egg_graph.schema import BadInput, ConfigSpace, Knob, StageName

STAGES = get_args(StageName)


class DictLiteral(NamedTuple):
    """One assignment `CONFIG = {...}` or `SPACE = {...}` of a source."""

    statement: ast.Assign | ast.AnnAssign
    value: ast.Dict
    entries: dict[str, ast.expr]
    """Key -> expression of its value, so that a rewrite can change the values alone."""


def parse_space(source: str) -> tuple[dict[str, Knob], ConfigSpace]:
    """Read CONFIG and SPACE from a candidate's source.

    Args:
        source: the module's text.

    Returns:
        The value of each knob, and per stage the values that each knob may take. Both are empty where the source has no
        such literal.

    Raises:
        BadInput: if the source does not parse, or a literal is malformed: what, on which line, and how to mend it.
    """
    tree = parse(source)
    config = find(tree, "CONFIG")
    space = find(tree, "SPACE")
    knobs = {} if config is None else {key: _knob(f"CONFIG[{key!r}]", node) for key, node in config.entries.items()}
    if space is None:
        return knobs, {}
    if config is None:
        raise BadInput(f"SPACE at line {space.statement.lineno} has no CONFIG beside it; add CONFIG = {{knob: value}}")
    return knobs, {stage: _stage(stage, node, knobs) for stage, node in _stages(space)}


def parse(source: str) -> ast.Module:
    """Parse a module.

    Raises:
        BadInput: if it is no Python; the message names the line.
    """
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise BadInput(f"the source does not parse: {error.msg} (line {error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
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
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadInput(f"{where} at line {node.lineno} must be a literal, not an expression") from error


def _knob(where: str, node: ast.expr, value: Any = None) -> Knob:
    """The value of a knob: an int, a finite float, a bool or a str."""
    value = _literal(where, node) if value is None else value
    if not isinstance(value, int | float | bool | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput(f"{where} at line {node.lineno} must be a finite number, True, False or a text, not {value!r}")
    return value


def _stages(space: DictLiteral) -> list[tuple[StageName, ast.Dict]]:
    """The entries of SPACE: known stages, each with a dict literal."""
    for stage, node in space.entries.items():
        if stage not in STAGES:
            raise BadInput(f"SPACE at line {node.lineno}: no stage {stage!r}; the stages are {', '.join(STAGES)}")
        if not isinstance(node, ast.Dict):
            raise BadInput(f"SPACE[{stage!r}] at line {node.lineno} must be a dict literal, knob -> list of values")
    return [(cast(StageName, stage), cast(ast.Dict, node)) for stage, node in space.entries.items()]


def _stage(stage: StageName, node: ast.Dict, config: dict[str, Knob]) -> dict[str, tuple[Knob, ...]]:
    values = {}
    for knob, choices in _entries(f"SPACE[{stage!r}]", node).items():
        where = f"SPACE[{stage!r}][{knob!r}]"
        if knob not in config:
            raise BadInput(f"{where} at line {choices.lineno} turns a knob that CONFIG lacks")
        literal = _literal(where, choices)
        if not isinstance(literal, list | tuple) or not literal:
            raise BadInput(f"{where} at line {choices.lineno} must be a list with at least one value")
        values[knob] = tuple(_knob(where, choices, value) for value in literal)
    return values
