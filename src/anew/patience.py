"""What one question about policies may burn: processor time and memory. The kernel keeps both bounds.

Parameters are bounded where they are read, but not every product of them can be foreseen: a policy without an end, held
against an outage of a year, is a short text. A command is held by `patience`; the page's helper process, which may die of
its bound and is started anew, needs the numbers and `bound_memory` alone.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from anew.errors import TooLarge
from anew.units import SECOND_MS, format_duration

CPU_S: Final = 2.0
"""Seconds of processor time that one question may take."""

MEMORY_BYTES: Final = 256 << 20
"""Address space that it may take beyond what the process has when all is loaded."""

_AGAIN_S: Final = 0.25
"""An exception that comes while an object is being deleted is lost; the next one comes so much later."""


class _Spent(BaseException):
    """The time is over. No `Exception`, lest somebody on the way takes it for a failure of a part."""


@contextlib.contextmanager
def patience(cpu_s: float | None = CPU_S, memory_bytes: int | None = MEMORY_BYTES) -> Iterator[None]:
    """Hold what runs inside to so much processor time and memory.

    What is imported inside counts too. In threads besides the main one nothing is bounded: signals do not reach them.

    Args:
        cpu_s: Seconds of processor time; None: any.
        memory_bytes: Bytes of address space beyond the present one; None: any.

    Raises:
        TooLarge: It was not enough; its ``field`` is "time" or "memory".
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with _memory(memory_bytes), _time(cpu_s):
            yield
    except _Spent:
        assert cpu_s is not None
        told = format_duration(round(cpu_s * SECOND_MS))
        raise TooLarge(f"this takes longer than {told} of processor time", field="time") from None
    except MemoryError:
        if memory_bytes is None:
            raise
        told = f"{memory_bytes >> 20} MiB"
        raise TooLarge(f"this needs more than {told} of memory", field="memory") from None


def bound_memory(extra: int) -> bool:
    """Bound this process's address space to what it has now and a little more.

    Args:
        extra: Bytes that it may still take.

    Returns:
        Whether that was possible: where the kernel does not tell a process's size there is no such bound.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except (OSError, ValueError):
        return False
    limit = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return True


@contextlib.contextmanager
def _memory(extra: int | None) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    bounded = extra is not None and bound_memory(extra)
    try:
        yield
    finally:
        if bounded:
            resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def _time(cpu_s: float | None) -> Iterator[None]:
    if cpu_s is None:
        yield
        return
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, cpu_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _Spent
