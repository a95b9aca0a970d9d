"""Files that commands write: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
