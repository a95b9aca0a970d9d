"""Makes the copy of a store that a client downloads: it lies beside the store until it is sent."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path

from anew.store.sqlite.backup import UNFINISHED, back_up
from anew.store.sqlite.opening import Places
from anew.store.sqlite.packing import pack

UNSENT = ".unsent"
LOWEST_PRIORITY = 19


class Stopped(Exception):
    """Nobody wants the copy any more."""


def archive(places: Places, stopped: Callable[[], bool]) -> Generator[bytes, None, None]:
    """Copy a store, verify the copy, and give it as a compressed tar.

    The copy lies beside the store, on the device whose space the operator has planned.

    Args:
        places: Of the store.
        stopped: Says when nobody wants it any more.

    Yields:
        Nothing, when the copy is made; then its pieces.

    Raises:
        Stopped: Nobody wanted it any more.
        AnewError: See `back_up`.
    """
    _stand_back()

    def progress(copied: int, pages: int) -> None:
        if stopped():
            raise Stopped

    made = _unsent(places)
    try:
        copied = back_up(places, made, progress, stopped)
        copy = made.open("rb")
    finally:
        # Opened, it lasts as long as this process; and nothing of it is left, whatever ends that.
        made.unlink(missing_ok=True)
    with copy:
        yield b""
        yield from pack(copy, copied.size)


def remove_unsent(places: Places) -> None:
    """Remove what a process has left that was killed while it copied."""
    made = _unsent(places)
    for path in (made, made.with_name(made.name + UNFINISHED)):
        path.unlink(missing_ok=True)


def _unsent(places: Places) -> Path:
    return places.database.with_name(places.database.name + UNSENT)


def _stand_back() -> None:
    """Let this thread have only what others leave of the processor, where threads have priorities of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
