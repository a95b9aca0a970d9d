"""A copy of a store as a compressed tar, the form in which Zizq's backups come, and such a tar back into a copy."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from anew.errors import InvalidInput
from anew.units import shown

NAME: Final = "zizq-root/data/anew.db"
"""The one file of an archive."""

PIECE = 256 << 10
"""Bytes that are read and packed at a time."""

SENT = 64 << 10
"""Bytes of an archive that are given at a time, about."""

_GZIP: Final = 31  # zlib's own number for gzip with the largest window
_MAGIC: Final = b"\x1f\x8b"
_BLOCK: Final = 512


def is_archive(path: Path) -> bool:
    """Report whether a file is compressed; a database is not."""
    with path.open("rb") as file:
        return file.read(2) == _MAGIC


def pack(copy: BinaryIO, size: int) -> Iterator[bytes]:
    """Give a copy of so many bytes as a compressed tar, in pieces."""
    head = tarfile.TarInfo(NAME)
    head.size, head.mode = size, 0o600
    # Fast: a higher level takes several times as long for a tenth less.
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    packed = packer.compress(head.tobuf(tarfile.GNU_FORMAT))
    while piece := copy.read(PIECE):
        packed += packer.compress(piece)
        if len(packed) >= SENT:
            yield packed
            packed = b""
    end = bytes(-size % _BLOCK + 2 * _BLOCK)
    yield packed + packer.compress(end) + packer.flush()


def unpack(source: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Write the copy that an archive holds.

    Args:
        source: The archive.
        target: An empty file.
        progress: Called after each piece with how much is written and how much there is, in pages as small as a piece.

    Raises:
        InvalidInput: It is no archive of a server of ours, or not whole.
    """
    found = False
    try:
        with gzip.open(source) as packed:
            with tarfile.open(fileobj=packed, mode="r|") as tar:
                for entry in tar:
                    if entry.name == NAME and entry.isreg() and not found:
                        found = True
                        _write(tar.extractfile(entry), entry.size, target, progress)
            while packed.read(PIECE):  # only its end says whether all of it is as it was sent
                pass
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _unusable(source, f"it is damaged or not whole ({error})") from error
    if found:
        return
    raise _unusable(source, f"it holds no {NAME}")


def _write(file: object, size: int, target: Path, progress: Callable[[int, int], None]) -> None:
    assert file is not None
    done = 0
    with target.open("wb") as copy:
        while piece := file.read(PIECE):  # type: ignore[attr-defined]
            copy.write(piece)
            done += len(piece)
            progress(-(-done // PIECE), -(-size // PIECE))


def _unusable(source: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{shown(str(source))} cannot be restored: {why}; expected what POST /backup of Anew's admin listener gives",
        field="file",
        value=str(source),
    )
