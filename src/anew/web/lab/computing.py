"""The helper process: makes pages out of query strings, one at a time, within bounds that the kernel keeps.

It reads `Ask` messages from its stdin and writes a `Made` for each to its stdout: MessagePack, each message behind its
length. At the end of its stdin it ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

CPU_S: Final = 2.0
"""Seconds of processor time that one page may take."""

MEMORY_BYTES: Final = 256 << 20
"""Address space that it may take beyond what the process has when all is loaded."""

_NICENESS: Final = 5
"""The server itself comes first."""

_ALARM_S: Final = 10
"""A second line behind the server's own watch, which may have been killed: no computation outlives this."""


# ---- what the server and this process say to each other

LENGTH_BYTES: Final = 4
MAX_ANSWER: Final = 32 << 20
"""Bytes of one answer; a page has a few hundred thousand."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A page to be made.

    Attributes:
        query: The raw query string, which holds the whole state.
        partial: Only what changes when a value changes, for a page that is open already.
        problem: Why nothing can be computed; the page then shows the form and this sentence. "" computes.
    """

    query: bytes
    partial: bool = False
    problem: str = ""


class Made(msgspec.Struct, frozen=True, array_like=True):
    """A page.

    Attributes:
        html: Its bytes; empty if it could not be made.
        problem: Why there is none, for people; "" if there is.
        trace: The same for the log; "" if nothing is wrong with the program.
    """

    html: bytes = b""
    problem: str = ""
    trace: str = ""


def framed(message: msgspec.Struct) -> bytes:
    """Give a message as it goes through a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


READY: Final = Made(b"ready")
"""What the helper says first: all it needs is loaded, and its bounds are set."""


# ---- the process


def stand_back() -> None:
    """Let the server have the processor first.

    Linux shares it out among sessions, and this process has one of its own: how nice it is counts inside that alone.
    """
    os.nice(_NICENESS)
    with contextlib.suppress(OSError):  # there is no such thing elsewhere
        Path("/proc/self/autogroup").write_text(str(_NICENESS))


def main() -> None:
    """Serve stdin until it ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not get between the messages
    stand_back()
    try:
        from anew.web.lab.page import make, warm_up

        warm_up()
    except Exception:
        _say(sink, Made(problem="the lab does not start", trace=traceback.format_exc()))
        raise
    bound_memory(MEMORY_BYTES)
    _say(sink, READY)
    decoder = msgspec.msgpack.Decoder(Ask)
    while (body := _read(source)) is not None:
        signal.alarm(_ALARM_S)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # SIGPROF, which nobody handles, ends the process
        _say(sink, answer(make, decoder.decode(body)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def answer(make: Callable[[Ask], Made], ask: Ask) -> Made:
    """Make one page; whatever goes wrong is an answer too."""
    try:
        return make(ask)
    except MemoryError:
        most = f"{MEMORY_BYTES >> 20} MiB of memory"
        return Made(problem=f"this needs more than {most}; ask for fewer jobs or retries")
    except Exception:
        problem = "the page could not be made; the server's log says why"
        return Made(problem=problem, trace=traceback.format_exc())


def bound_memory(extra: int) -> None:
    """Bound this process's address space to what it has now and so many bytes more, where the kernel reports its size."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except (OSError, ValueError):
        return
    limit = pages * resource.getpagesize() + extra
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _say(sink: BinaryIO, made: Made) -> None:
    sink.write(framed(made))
    sink.flush()


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    return source.read(int.from_bytes(head, "big"))
