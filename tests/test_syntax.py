"""Sources that are right parse in as many threads as there are."""

import ast
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from egg_graph.schema.syntax import syntax_tree

SOURCE = Path(ast.__file__).read_text(encoding="utf-8")


@pytest.fixture
def interrupted_often() -> Iterator[None]:
    """Threads take turns in the middle of a parse, as they do where much garbage is collected."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(give_way)
    yield
    gc.callbacks.remove(give_way)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


def parse_below(depth: int) -> bool:
    """Parse with so many calls below: each thread stands at a depth of its own."""
    return parse_below(depth - 1) if depth else bool(syntax_tree(SOURCE).body)


@pytest.mark.usefixtures("interrupted_often")
def test_many_threads_parse_at_once() -> None:
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(parse_below, [0, 7, 14, 21, 28, 35] * 4))
