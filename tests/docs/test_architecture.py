"""ARCHITECTURE.md names rooms and files that exist, and stays one page."""

import re

import pytest

from tests.paths import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
BASES = (ROOT, ROOT / "src/egg_graph", ROOT / "src/egg_graph/evaluator")
"""Folders that a path of the page may start from."""


def paths():
    """Every code span of the page that ends in a slash or in a file's suffix."""
    words = set(re.findall(r"`([^`\n]+)`", PAGE))
    return sorted(word for word in words if re.fullmatch(r"[\w./-]+(/|\.(py|md|toml|j2))", word))


@pytest.mark.parametrize("path", paths())
def test_the_path_exists(path):
    there = any((base / path).is_dir() if path.endswith("/") else (base / path).is_file() for base in BASES)
    assert there, f"ARCHITECTURE.md names {path}, which does not exist"


def test_every_room_of_the_package_is_named():
    for base in BASES[1:]:
        rooms = [room.name for room in base.iterdir() if room.is_dir() and room.name != "__pycache__"]
        assert [room for room in rooms if f"`{room}/`" not in PAGE and f"/{room}/`" not in PAGE] == []


def test_it_is_read_in_ten_minutes():
    assert len(PAGE.split()) < 2200
