"""What one question about policies may burn: processor time and memory. The kernel keeps both bounds.

Parameters are bounded where they are read, but not every product of them can be foreseen: a policy without an end, held
against an outage of a year, is a short text. A command is held by `patience`; the page's helper process, which may die of
its bound and is started anew, needs the numbers and `bound_memory` alone.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Final

from anew.errors import TooLarge
from anew.units import SECOND_MS, format_duration

CPU_S: Final = 2.0
"""Seconds of processor time that one question may take."""

MEMORY_BYTES: Final = 256 << 20
"""Address space that it may take beyond what the process has when all is loaded."""

LESS: Final = "fewer jobs or retries, or longer waits"
"""What takes less, where nobody says it better."""

_less: ContextVar[str] = ContextVar("less", default=LESS)

_AGAIN_S: Final = 0.05
"""An exception that comes while an object is being deleted is lost; the next one comes so much later."""

_SPARED: Final = (__name__, contextlib.__name__)
"""Where the time is never over: an exception from between here and what runs inside would leave the bounds in force."""


class _Spent(BaseException):
    """The time is over. No `Exception`, lest somebody on the way takes it for a failure of a part."""


@contextlib.contextmanager
def patience(
    cpu_s: float | None = CPU_S, memory_bytes: int | None = MEMORY_BYTES, *, less: str = LESS
) -> Iterator[None]:
    """Hold what runs inside to so much processor time and memory.

    What is imported inside counts too. In threads besides the main one nothing is bounded: signals do not reach them.
    Not to be nested: the end of an inner one lifts the bound on the time of the outer one.

    Args:
        cpu_s: Seconds of processor time; None: any.
        memory_bytes: Bytes of address space beyond the present one; None: any.
        less: What would take less, for the error; what runs inside may say it better with `spending`.

    Raises:
        TooLarge: It was not enough; its ``field`` is "time" or "memory".
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _less.set(less)
    try:
        with _held(cpu_s, memory_bytes):
            yield
    finally:
        _less.reset(before)


@contextlib.contextmanager
def spending(less: str) -> Iterator[None]:
    """Say what would take less than what runs inside, should it be what uses up a caller's `patience`.

    Args:
        less: To be read after "expected", such as "a shorter text".
    """
    before, spent = _less.set(less), False
    try:
        yield
    except (_Spent, MemoryError, SystemError):
        spent = True  # The text stays set: whoever holds the budget puts it into its error.
        raise
    finally:
        if not spent:
            _less.reset(before)


def left_s() -> float | None:
    """Give the seconds of processor time that are left of a caller's `patience`; None: any."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.getitimer(signal.ITIMER_PROF)[0] or None


@contextlib.contextmanager
def _held(cpu_s: float | None, memory_bytes: int | None) -> Iterator[None]:
    ends: list[str] = []
    try:
        with _quiet(), _memory(memory_bytes), _time(cpu_s, ends):
            yield
    except _Spent:
        raise _late(cpu_s, ends) from None
    except (MemoryError, SystemError) as error:
        # Code in C does not always say that it got no memory: "returned NULL without setting an exception".
        if memory_bytes is None and not ends:
            raise
        raise _large(memory_bytes) if memory_bytes is not None else _late(cpu_s, ends) from error
    except Exception as error:
        # Code in C may have put its own exception in place of the end's.
        if not ends:
            raise
        raise _late(cpu_s, ends) from error
    if ends:
        # It may have gone on with what was not finished, too.
        raise _late(cpu_s, ends)


def _late(cpu_s: float | None, ends: list[str]) -> TooLarge:
    assert cpu_s is not None
    told = format_duration(round(cpu_s * SECOND_MS))
    return TooLarge(f"this takes longer than {told} of processor time; expected {ends[0]}", field="time")


def _large(memory_bytes: int) -> TooLarge:
    told = f"this needs more than {memory_bytes >> 20} MiB of memory; expected {_less.get()}"
    return TooLarge(told, field="memory")


def bound_memory(extra: int) -> bool:
    """Bound this process's address space to what it has now and a little more.

    Args:
        extra: Bytes that it may still take.

    Returns:
        Whether that was possible: where the kernel does not report a process's size there is no such bound.
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
def _quiet() -> Iterator[None]:
    """Keep Python from printing a traceback about an end that was lost."""
    before = sys.unraisablehook

    def told(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, (_Spent, MemoryError)):
            before(lost)

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before


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
def _time(cpu_s: float | None, ends: list[str]) -> Iterator[None]:
    """Raise `_Spent` inside when the time is over, and note in ``ends`` what takes less: not every exception arrives."""
    if cpu_s is None:
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_globals.get("__name__") not in _SPARED:
            ends.append(_less.get())
            raise _Spent

    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_s, _AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
