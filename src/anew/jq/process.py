"""One process that evaluates, as its users see it: started when first needed, asked, ended, replaced."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from anew.errors import ExpressionTooSlow, InternalError, Overloaded
from anew.jq import evaluating
from anew.jq.evaluating import (
    ANSWER,
    CPU_S,
    DONE,
    FOLD,
    FOLD_CPU_S,
    MEMORY_BYTES,
    MERGE,
    READY,
    WHEN,
    Refused,
    framed,
)

log = logging.getLogger("anew.jq")

WALL_S_PER_MIB: Final = 0.4
"""What each MiB of a payload adds to the longest that an evaluation may take by the clock."""

START_S: Final = 20.0

TOO_LONG: Final = "the expression takes more than {:.0f} ms for one payload"
TOO_MUCH: Final = (
    f"the expression takes more than {MEMORY_BYTES >> 20} MiB of memory for one payload, or nests too deeply"
)

NO_ROOM: Final = "this machine has no room for a process that evaluates; try again in a second"

STARVED: Final = "this machine is too busy to evaluate an expression; try again in a second"

MOST_ANSWER: Final = 1 << 20
"""Bytes of an answer: what is merged, what jq says, or a byte for each payload of a request."""

_MOST_REFUSAL: Final = 1_000
"""Characters of what jq says: it may repeat a payload."""


class _Ended(Exception):
    """The process has ended before its answer.

    Args:
        late: It had used up its time.
    """

    def __init__(self, *, late: bool) -> None:
        super().__init__()
        self.late = late


class _NotStarted(Exception):
    """The process has ended before it was ready."""


class EvaluatingProcess:
    """A process that evaluates; one thread at a time asks it.

    Args:
        wall_s: The longest that one evaluation may take by the clock.
        background: It has only what others leave of the processor.
    """

    def __init__(self, wall_s: float, *, background: bool = False) -> None:
        self._wall_s = wall_s
        self._background = background
        self._lock = Lock()  # of what follows; nobody waits while holding it
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Its id; None while there is none."""
        return None if self._process is None else self._process.pid

    def ask(self, parts: Sequence[bytes], within_s: float = 0.0) -> bytes:
        """Have a request answered.

        Args:
            parts: Its kind and what belongs to it.
            within_s: How long the process itself may go on with new payloads.

        Raises:
            Refused: The expression does not do.
            ExpressionTooSlow: It has used up its bounds, twice unless a transaction waits for it, and the process was ended.
            Overloaded: The process did not get the processor for so long, the machine has no room for one more, or `close` was
                called.
            InternalError: It does not start.
        """
        cpu_s = FOLD_CPU_S if parts[0] in (WHEN, FOLD, MERGE) else CPU_S
        too_long = TOO_LONG.format(cpu_s * 1_000)
        wall_s = self._wall_s + WALL_S_PER_MIB * max(map(len, parts)) / (1 << 20) + within_s
        try:
            return self._attempt(parts, wall_s)
        except _NotStarted:
            pass
        except _Ended as ended:
            if ended.late and parts[0] == MERGE:
                raise ExpressionTooSlow(too_long) from None
        # Somebody else may have ended it, or what earlier expressions left may have filled it, or a host may have taken the
        # processor from this machine, which counts as the process's time: a fresh one can tell.
        try:
            return self._attempt(parts, wall_s)
        except _NotStarted:
            log.error("the process that evaluates expressions does not start")
            raise InternalError("the process that evaluates expressions does not start") from None
        except _Ended as ended:
            raise ExpressionTooSlow(too_long if ended.late else TOO_MUCH) from None

    def start(self) -> None:
        """Start it, unless it runs; whoever asks it tells if it does not start."""
        with contextlib.suppress(_NotStarted):
            self._started()

    def close(self) -> None:
        """End it, and whatever it does; it is not started again."""
        with self._lock:
            self._closed = True
        self._end()

    # ---- inside

    def _attempt(self, parts: Sequence[bytes], wall_s: float) -> bytes:
        """Ask once; raises _Ended if the process is gone by then."""
        try:
            connection = self._started()
            end = time.monotonic() + wall_s
            connection.settimeout(wall_s)
            connection.sendall(framed(parts))
            return _answer(connection, end)
        except Refused:
            raise
        except TimeoutError:
            self._end()
            raise Overloaded(STARVED) from None  # else its processor time would have been over long ago
        except (OSError, EOFError):
            ended_by = self._end()
            self._check_open()
            raise _Ended(late=ended_by == signal.SIGPROF) from None
        except BaseException:  # Ctrl-C in a program: the next one that asks must not get this answer
            self._end()
            raise

    def _started(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        with self._lock:
            self._check_open()
            try:
                self._process, ours = self._launched()
            except OSError:
                raise Overloaded(NO_ROOM) from None
            self._socket = ours
            if self._background:
                _put_back(self._process.pid)
        try:
            ready = _answer(ours, time.monotonic() + START_S)
        except (OSError, EOFError) as error:
            self._end()
            self._check_open()
            if self._background and isinstance(error, TimeoutError):
                raise Overloaded(STARVED) from None
            raise _NotStarted from None
        assert ready == READY
        return ours

    def _launched(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start it: give it, and our end of its socket. Raises OSError where there are too many files or processes."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own program, no input in its words
                    [sys.executable, "-I", "-S", evaluating.__file__, _directory_of_jq()],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    # Ctrl-C in a terminal is for the server, which ends it. A session of its own would do as well, but Linux
                    # gives each session its share of the processor (autogroup), however far its processes stand back.
                    process_group=0,
                )
            except BaseException:
                ours.close()
                raise
        return process, ours

    def _check_open(self) -> None:
        if self._closed:
            raise Overloaded("the server is shutting down")

    def _end(self) -> int:
        """End it, and give the signal that it died of; 0 if it ended otherwise."""
        with self._lock:
            process, self._process = self._process, None
            connection, self._socket = self._socket, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # who reads from it in another thread wakes up
            connection.close()
        if process is None:
            return 0
        process.kill()  # without effect if it has ended
        return max(0, -process.wait())


def _put_back(pid: int) -> None:
    """Let a process run while nobody else wants the processor.

    Beside one that is only nice the server waits for whole slices of time, some 4 ms each.
    """
    with contextlib.suppress(OSError):  # it has ended already, which is seen when it is asked
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.setpriority(os.PRIO_PROCESS, pid, 19)


def _answer(connection: socket.socket, end: float) -> bytes:
    status, length = ANSWER.unpack(_received(connection, ANSWER.size, end))
    if length > MOST_ANSWER:
        raise EOFError(length)
    text = _received(connection, length, end)
    if status != DONE:
        raise Refused(text.decode()[:_MOST_REFUSAL])
    return text


def _received(connection: socket.socket, length: int, end: float) -> bytes:
    received = bytearray(length)
    rest = memoryview(received)
    while rest:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        n = connection.recv_into(rest)
        if not n:
            raise EOFError
        rest = rest[n:]
    return bytes(received)


def _directory_of_jq() -> str:
    """Find the folder of jq's module without importing it: it belongs into the process alone."""
    found = importlib.util.find_spec("jq")
    if found is None or found.origin is None:
        raise InternalError("the package jq is not installed")
    return str(Path(found.origin).parent)
