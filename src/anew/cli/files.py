"""Files that commands write: known before the work to be writable, and then whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from anew.units import refused, shown


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever finds half of it: a full disk, Ctrl-C or a bound leave what was there.

    Args:
        path: Its name. What is no plain file, such as /dev/stdout, is written to as it is.
        content: All of it.

    Raises:
        OSError: It cannot be written.
    """
    # Not Path.resolve, to which a link that leads to itself is no OSError.
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not (target.is_file() and os.access(target, os.W_OK)):
        target.write_bytes(content)
        return
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=".anew-")
    except PermissionError:
        # Where no file may be made, one that is there may still be written.
        target.write_bytes(content)
        return
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def require_writable(path: Path, field: str) -> None:
    """Refuse a place where no file can be written, before the work that is to be written there.

    Args:
        path: The file's name.
        field: What it is called in the error.

    Raises:
        InvalidInput: The folder does not exist, or nothing may be written there.
    """
    folder = path.parent
    if not folder.is_dir():
        raise refused(field, str(path), f"a file in a folder that exists, and {shown(str(folder))} does not")
    if path.is_dir():
        raise refused(field, str(path), "a file, and this is a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise refused(field, str(path), "a file that may be written")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
