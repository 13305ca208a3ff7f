"""Triton's cache of forwards that were compiled before, by kernel and shape: a kernel that is judged again, as after a
sweep or as a finalist, is not compiled again.

What is kept was written by confined processes of the same kernel, which knew no value of any input, and is given to
that kernel alone: it tells a candidate nothing that it does not know.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.fingerprint import evaluator_digest
from egg_graph.evaluator.wire.untrusted import open_file

MOST_KEPT = 256
"""Forwards that are kept; the one that was used longest ago goes first."""
MOST_BYTES = 8 << 20
"""Keep no forward whose code is larger [bytes]."""
FINGERPRINT = "fingerprint"
GROUP = "__grp__"
"""Begin of the names of files in which Triton lists the others of a kernel, by their whole paths."""


def key_of(source: str, call: Mapping[str, Any]) -> str:
    """What a compiled forward hangs on: the kernel's text, the payload of the run that records its launches, and the
    evaluator that records and compiles them."""
    parts = [source, call, evaluator_digest()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


@dataclass(frozen=True)
class KeptCode:
    """Compiled forwards in a folder that no candidate can reach; several judges may share it.

    Args:
        folder: made when something is kept.
    """

    folder: Path

    def give(self, key: str, cache: Path) -> str | None:
        """Copy the code of a forward into a folder that Triton uses as its cache.

        Returns:
            Its `compiled_fingerprint` (empty where it is not known); None if it is not kept.
        """
        place = self.folder / key
        try:
            fingerprint = (place / FINGERPRINT).read_text()
            place.touch()
            copy_cache(place / "cache", cache)
        except OSError:  # it is not there, or another judge has just deleted it
            return None
        return fingerprint

    def keep(self, key: str, cache: Path, fingerprint: str, known: Collection[str] = ()) -> None:
        """Keep a copy of Triton's cache; all or nothing, and nothing where it is too large or the disk is full.

        Args:
            key: as `key_of` makes it.
            cache: written by processes that have ended.
            fingerprint: of the forward.
            known: names of entries that every candidate has.
        """
        if sum(path.lstat().st_size for _, path in files_of(cache, known)) > MOST_BYTES:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            passing = Path(tempfile.mkdtemp(dir=self.folder, prefix=".passing-"))
            try:
                copy_cache(cache, passing / "cache", known, listed_as=self.folder / key / "cache")
                (passing / FINGERPRINT).write_text(fingerprint)
                passing.rename(self.folder / key)  # fails where another judge was faster
            finally:
                shutil.rmtree(passing, ignore_errors=True)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        kept = sorted(self.folder.iterdir(), key=lambda place: place.stat().st_mtime)
        for place in kept[: max(0, len(kept) - MOST_KEPT)]:
            shutil.rmtree(place, ignore_errors=True)


def files_of(cache: Path, known: Collection[str] = ()) -> Iterator[tuple[str, Path]]:
    """The regular files of a cache of Triton, each with the name of its entry; lists of files come last.

    No link is followed: a candidate's processes wrote them, which have ended.
    """
    for entry in cache.iterdir() if cache.is_dir() else ():
        if entry.name in known or entry.is_symlink() or not entry.is_dir():
            continue
        files = [path for path in entry.iterdir() if path.is_file() and not path.is_symlink()]
        yield from ((entry.name, path) for path in sorted(files, key=lambda path: path.name.startswith(GROUP)))


def copy_cache(source: Path, target: Path, known: Collection[str] = (), *, listed_as: Path | None = None) -> None:
    """Copy the entries of one cache of Triton into another, which a candidate's process may be changing: nothing is
    written through a link, or beside the folder.

    Args:
        source: the one cache.
        target: the other one; made if missing.
        known: names of entries that are left out.
        listed_as: folder that Triton's lists of files are to name; `target` if None.

    Raises:
        OSError: if that cannot be done, or a file has more than `MOST_BYTES`.
    """
    with suppress(FileExistsError):
        target.mkdir()
    with opened(target) as root:
        for entry, path in files_of(source, known):
            content = _read(path)
            if path.name.startswith(GROUP):
                content = content.replace(_as_json(source), _as_json(listed_as or target))
            with suppress(FileExistsError):
                os.mkdir(entry, dir_fd=root)
            with opened(entry, root) as place:
                if path.name not in os.listdir(place):
                    _write(path.name, content, place)


@contextmanager
def opened(folder: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder that is no link, for the block. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    """Read a file that a candidate's process left. Raises OSError if it is none, or larger than `MOST_BYTES`."""
    with open_file(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"{path.name} has more than {MOST_BYTES} bytes")
    return content


def _write(name: str, content: bytes, folder: int) -> None:
    """Write a file, whole or not at all."""
    passing = f".{name}.{secrets.token_hex(4)}"
    with open(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
    os.replace(passing, name, src_dir_fd=folder, dst_dir_fd=folder)


def _as_json(folder: Path) -> bytes:
    return json.dumps(f"{folder}/")[1:-1].encode()
