"""Gives the children of tests the signals that they are tested with, however the tests themselves were started."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def undo_ignored_signals() -> None:
    """Let children have the default handling of signals that this process was started to ignore.

    A shell starts its background jobs with SIGINT ignored, and ``nohup`` its command with SIGHUP; that passes to every
    child. A handler does not, and one that does nothing leaves this process as it was.
    """
    for number in STOPS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@contextlib.contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """Start what is started meanwhile as a shell starts its background jobs: with a signal ignored."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def ignores(pid: int, number: signal.Signals) -> bool:
    """Say whether a process ignores a signal, as the kernel has it."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        (mask,) = (line.split()[1] for line in status if line.startswith("SigIgn:"))
    return bool(int(mask, 16) & 1 << number - 1)
