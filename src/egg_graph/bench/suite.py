"""Which references a suite holds."""

import ast
from pathlib import Path

from egg_graph.schema import BadInput


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
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {"Model", "get_inputs"} <= names
