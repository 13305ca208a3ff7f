"""Make a right kernel wrong: one stored value gets 1.0 more."""

import ast
from collections.abc import Iterator

VALUE = 1
"""Place of the value among the arguments of `tl.store` and of a descriptor's `.store`."""


def wrong_kernels(source: str) -> Iterator[str]:
    """Yield the source with `+ 1.0` at the value of its first store, then of its second one, and so on.

    A store is a call of `tl.store`, or of a descriptor's `.store`. The first may be on a way that is not taken, or
    write an intermediate result that a later step subtracts again.
    """
    for number in range(len(_stores(ast.parse(source)))):
        tree = ast.parse(source)
        store = _stores(tree)[number]
        if len(store.args) > VALUE:
            store.args[VALUE] = _more(store.args[VALUE])
        else:
            keyword = next(keyword for keyword in store.keywords if keyword.arg == "value")
            keyword.value = _more(keyword.value)
        yield ast.unparse(ast.fix_missing_locations(tree))


def _stores(tree: ast.Module) -> list[ast.Call]:
    """The stores of a module, in the order of its text."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_store(node)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _is_store(call: ast.Call) -> bool:
    has_value = len(call.args) > VALUE or any(keyword.arg == "value" for keyword in call.keywords)
    return isinstance(call.func, ast.Attribute) and call.func.attr == "store" and has_value


def _more(value: ast.expr) -> ast.expr:
    return ast.BinOp(value, ast.Add(), ast.Constant(1.0))
