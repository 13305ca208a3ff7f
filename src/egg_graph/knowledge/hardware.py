"""Hardware specifications: one TOML file per GPU, each figure with its unit and source."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from egg_graph.knowledge.toml_files import complaint, own_tables, shipped_tables
from egg_graph.schema import BadInput, Hardware

_UNITS = {
    "dram_bandwidth": "byte/s",
    "l2_bandwidth": "byte/s",
    "dram_capacity": "byte",
    "l2_capacity": "byte",
    "shared_memory_per_block": "byte",
    "shared_memory_per_multiprocessor": "byte",
    "peak_fp32": "flop/s",
    "peak_tf32": "flop/s",
    "peak_bf16": "flop/s",
    "peak_fp16": "flop/s",
    "power": "W",
}
"""Required unit of each figure, so that a data sheet's GB/s or TFLOPS is refused."""

_NEEDED = (
    "dram_bandwidth",
    "dram_capacity",
    "shared_memory_per_block",
    "shared_memory_per_multiprocessor",
    "multiprocessors",
    "registers_per_multiprocessor",
    "max_warps_per_multiprocessor",
    "max_blocks_per_multiprocessor",
    "warp_size",
    "peak_fp32",
)
"""Figures that the roofline and the occupancy calculation need."""


class _Entry(NamedTuple):
    hardware: Hardware
    detect: tuple[str, ...]


def load_hardware(key: str, folder: str | Path | None = None) -> Hardware:
    """Load the specification with this key (`h200`, `mi300x`, ...). A file in `folder` replaces a shipped one.

    Raises:
        BadInput: if there is none (the message lists the known keys), or a file is wrong (file, key, how to mend it).
    """
    known = _load(folder)
    if key not in known:
        raise BadInput(
            f"hardware {key!r}: unknown; choose one of {', '.join(sorted(known))}, "
            f"or add hardware_{key}.toml to a folder of your own"
        )
    return known[key].hardware


def hardware_keys(folder: str | Path | None = None) -> tuple[str, ...]:
    """Keys of all specifications, sorted."""
    return tuple(sorted(_load(folder)))


def detect_hardware(gpu_name: str, folder: str | Path | None = None) -> str | None:
    """Find the key of a GPU by the name that its driver gives it ("NVIDIA H200"); None where no specification fits.

    The whole name must agree, apart from case and punctuation: an A100 with 40 GB is not one with 80 GB, a laptop's
    RTX 4090 is another chip, and a MIG slice is not a whole GPU.
    """
    names = [_words(field) for field in gpu_name.split(",")]  # rocm-smi answers with a line of CSV
    for key, entry in reversed(_load(folder).items()):  # the user's own first
        if any(_words(known) in names for known in entry.detect):
            return key
    return None


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _load(folder: str | Path | None) -> dict[str, _Entry]:
    return {**_shipped(), **_by_key(own_tables("hardware_", folder))}


@cache
def _shipped() -> dict[str, _Entry]:
    return _by_key(shipped_tables("hardware_"))


def _by_key(found: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, _Entry]:
    entries = (_entry(where, table) for where, table in found)
    return {entry.hardware.key: entry for entry in entries}


def _entry(where: str, table: dict[str, Any]) -> _Entry:
    detect = table.pop("detect", [])
    if not isinstance(detect, list) or not all(isinstance(item, str) and _words(item) for item in detect):
        raise BadInput(f'{where}: detect: not a list of names; write detect = ["NVIDIA H200"]')
    try:
        hardware = Hardware.model_validate(table)
    except ValidationError as error:
        raise complaint(where, error) from error
    for name in _NEEDED:
        if name not in hardware.figures:
            line = f'{name} = {{ value = ..., unit = "...", source = "..." }}'
            raise BadInput(f"{where}: figures.{name}: missing; add {line}")
    for name, figure in hardware.figures.items():
        if figure.value <= 0:
            raise BadInput(f"{where}: figures.{name}: {figure.value:g} is not positive; leave out what is unknown")
        if figure.unit != _UNITS.get(name, figure.unit):
            raise BadInput(f"{where}: figures.{name}: unit {figure.unit!r}; convert to {_UNITS[name]!r}")
        if not figure.source.strip():
            raise BadInput(f"{where}: figures.{name}: no source; say where the figure was read")
    return _Entry(hardware, tuple(detect))
