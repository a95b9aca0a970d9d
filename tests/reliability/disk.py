"""A disk that remembers what reached it: records every write, truncation, deletion and sync, and shows what a power cut leaves.

What was written before a file's last sync is certain. Of what came later any part may have reached the platter, in any order, torn
at 512 bytes. A deletion or a new size may have happened or not. `cut` makes such an image; nothing here knows what is stored.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw
import pytest

SECTOR = 512

Change = tuple[str, int, bytes]
"""``("write", offset, data)`` or ``("truncate", size, b"")``."""


@dataclass
class DiskFile:
    """One file: what is certain, and what has happened since its last sync."""

    certain: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        """Make everything certain."""
        for change in self.pending:
            _apply(self.certain, change)
        self.pending.clear()

    def after_cut(self, rng: Random) -> bytes:
        """Give one possible content after a power cut now."""
        content = bytearray(self.certain)
        survivors = [change for change in self.pending if rng.random() < 0.6]
        if rng.random() < 0.5:
            rng.shuffle(survivors)
        for change in survivors:
            _apply(content, _torn(change, rng))
        return bytes(content)


class Disk:
    """All files below one directory, by name, and the deletions that may not have lasted.

    Attributes:
        moment: Held while something happens, so that a cut falls between two happenings whatever thread they are in.
    """

    def __init__(self) -> None:
        self.moment = threading.RLock()
        self.files: dict[str, DiskFile] = {}
        self.deleted: dict[str, DiskFile] = {}
        self.syncs = self.late_syncs = 0

    def file(self, name: str) -> DiskFile:
        """Give a file, new if need be."""
        return self.files.setdefault(name, DiskFile())

    def change(self, name: str, change: Change) -> None:
        """A file was changed; until its next sync that may not have happened."""
        with self.moment:
            self.file(name).pending.append(change)

    def sync(self, name: str) -> None:
        """A file was synced; so were, with the journalled metadata, deletions before it."""
        with self.moment:
            self.syncs += 1
            self.file(name).sync()
            self.deleted.clear()

    @contextmanager
    def seeing_syncs(self) -> Iterator[None]:
        """Be told of the syncs that the store makes itself, outside of SQLite."""

        def sync(fd: int) -> None:
            self.late_syncs += 1
            self.sync(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fdatasync", sync)
            yield

    def delete(self, name: str) -> None:
        """A file was deleted; until the next sync it may come back."""
        with self.moment:
            gone = self.files.pop(name, None)
            if gone is not None:
                self.deleted[name] = gone

    def cut(self, directory: Path, rng: Random) -> None:
        """Write into an empty directory what a power cut now might leave."""
        with self.moment:
            for name, kept in self.files.items():
                (directory / name).write_bytes(kept.after_cut(rng))
            for name, gone in self.deleted.items():
                if name not in self.files and rng.random() < 0.5:
                    (directory / name).write_bytes(gone.after_cut(rng))


class RecordingVfs(apsw.VFS):
    """An apsw VFS that does everything for real and tells a `Disk` about it.

    Args:
        name: Name to open databases through.
        disk: What is told.
    """

    def __init__(self, name: str, disk: Disk) -> None:
        self.disk = disk
        super().__init__(name, "")

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> RecordingFile:
        """Open a file and record it, unless SQLite keeps it for itself."""
        return RecordingFile(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Delete a file; with `syncdir` the deletion is certain at once."""
        super().xDelete(filename, syncdir)
        self.disk.delete(os.path.basename(filename))
        if syncdir:
            self.disk.deleted.clear()


class RecordingFile(apsw.VFSFile):
    """One open file of a `RecordingVfs`."""

    def __init__(self, disk: Disk, name: apsw.URIFilename | str | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else (name or "")
        self._disk = disk
        self._name = os.path.basename(path)
        if self._name:
            disk.file(self._name)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Write for real, and record it as not yet certain."""
        super().xWrite(data, offset)
        if self._name:
            self._disk.change(self._name, ("write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        """Truncate for real, and record it as not yet certain."""
        super().xTruncate(newsize)
        if self._name:
            self._disk.change(self._name, ("truncate", newsize, b""))

    def xSync(self, flags: int) -> None:
        """Note the sync; the real one adds nothing to what is recorded."""
        if self._name:
            self._disk.sync(self._name)


def _apply(content: bytearray, change: Change) -> None:
    kind, at, data = change
    if kind == "truncate":
        if at < len(content):
            del content[at:]
        else:
            content.extend(bytes(at - len(content)))
        return
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _torn(change: Change, rng: Random) -> Change:
    """Let a write end early at a sector's edge, one time in four."""
    kind, at, data = change
    if kind != "write" or len(data) <= SECTOR or rng.random() < 0.75:
        return change
    return kind, at, data[: rng.randrange(1, len(data) // SECTOR + 1) * SECTOR]
