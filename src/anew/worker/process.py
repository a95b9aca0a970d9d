"""One run of a program for one job: payload on stdin, verdict from its exit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final, Literal

from anew.client import JobView
from anew.units import format_duration

MESSAGE_LIMIT: Final = 1_000
"""Characters of stderr that a failure report carries: its end, where programs say why they died."""

KILL_GRACE_S: Final = 2.0
"""From SIGTERM to SIGKILL when a run has used up its time."""

_SECRET: Final = re.compile(r"(ANEW|ZIZQ)_.*(TOKEN|PASSWORD|SECRET|KEY).*")
"""Variables with which a program could act as the worker. A job's program works on input that is not to be trusted."""

_TAIL_BYTES: Final = 4 * MESSAGE_LIMIT
_READ: Final = 1 << 16
_LINGER_S: Final = 1.0

RunEnd = Literal["success", "error", "timeout", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended.

    Attributes:
        kind: ``interrupted`` means that we killed it to stop; that says nothing about the job.
        error_type: ``exit status 3``, ``killed by SIGKILL``, ``timeout`` or ``cannot start``; empty after
            success.
        message: The end of its stderr, at most 1,000 characters; if it wrote nothing, the error type.
        took_ms: From start to end.
    """

    kind: RunEnd
    error_type: str = ""
    message: str = ""
    took_ms: int


class Run:
    """A program at work on a job, in its own process group.

    Args:
        command: Program and arguments.
        job: The job; its payload becomes the program's stdin, byte for byte.
        timeout_ms: Longest run; then the group gets SIGTERM, and 2 s later SIGKILL. None: no limit.
    """

    def __init__(self, command: Sequence[str], job: JobView, timeout_ms: int | None = None) -> None:
        self._command, self._job, self._timeout_ms = command, job, timeout_ms
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._alive = False
        self._interrupted = self._timed_out = False

    def run(self) -> Ended:
        """Start the program, wait for its end, and say how it ended."""
        started = time.monotonic_ns()
        try:
            process = self._start()
        except (OSError, ValueError) as error:  # the latter for a name that the environment has no bytes for
            text = f"{self._command[0]}: {getattr(error, 'strerror', None) or error}"
            return Ended(kind="error", error_type="cannot start", message=text, took_ms=0)
        assert process.stderr is not None
        tail = _Tail(process.stderr)
        timers = self._set_timers()
        try:
            self._await_exit(process)
        finally:
            for timer in timers:
                timer.cancel()
        took_ms = (time.monotonic_ns() - started) // 1_000_000
        return self._verdict(process.returncode, tail.text(), took_ms)

    def kill(self) -> None:
        """End it at once, from another thread; `run` then says ``interrupted``, unless it has ended already."""
        with self._lock:
            if self._process is None or self._alive:
                self._interrupted = True
                self._signal(signal.SIGKILL)

    def _start(self) -> subprocess.Popen[bytes]:
        job = self._job
        facts = {"ID": job.id, "TYPE": job.type, "QUEUE": job.queue, "ATTEMPTS": str(job.attempts)}
        environment = without_secrets(os.environ) | {
            f"ANEW_JOB_{name}": value for name, value in facts.items()
        }
        with _as_file(job.payload_json()) as payload, self._lock:
            # Its own group: a terminal's Ctrl-C is for us, who let the run finish, and a time-out can
            # end whatever the program has started.
            self._process = subprocess.Popen(  # noqa: S603 the user's own command, and no shell
                self._command, stdin=payload, stderr=subprocess.PIPE, env=environment, start_new_session=True
            )
            self._alive = True
            if self._interrupted:
                self._signal(signal.SIGKILL)
            return self._process

    def _set_timers(self) -> list[threading.Timer]:
        if self._timeout_ms is None:
            return []
        seconds = self._timeout_ms / 1000
        timers = [
            threading.Timer(seconds, self._time_out, (signal.SIGTERM,)),
            threading.Timer(seconds + KILL_GRACE_S, self._time_out, (signal.SIGKILL,)),
        ]
        for timer in timers:
            timer.daemon = True
            timer.start()
        return timers

    def _time_out(self, number: signal.Signals) -> None:
        with self._lock:
            if self._alive:
                self._timed_out = True
                self._signal(number)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        # Wait without reaping: until the lock is held the process id stays taken, so no signal can reach another
        # process.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        with self._lock:
            if self._timed_out or self._interrupted:
                self._signal(signal.SIGKILL)
            self._alive = False
            process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _verdict(self, status: int, said: str, took_ms: int) -> Ended:
        if self._interrupted:
            return Ended(kind="interrupted", took_ms=took_ms)
        if self._timed_out:
            limit = format_duration(self._timeout_ms or 0)
            text = f"timed out after {limit}; {said}"[:MESSAGE_LIMIT].removesuffix("; ")
            return Ended(kind="timeout", error_type="timeout", message=text, took_ms=took_ms)
        if status == 0:
            return Ended(kind="success", took_ms=took_ms)
        error_type = f"exit status {status}" if status > 0 else f"killed by {_signal_name(-status)}"
        return Ended(kind="error", error_type=error_type, message=said or error_type, took_ms=took_ms)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that a program may see: all but Anew's own tokens, passwords and keys."""
    return {name: value for name, value in environment.items() if not _SECRET.fullmatch(name.upper())}


class _Tail:
    """Reads a pipe to its end and keeps the last of it, so that a program's output cannot fill the memory."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """What was written last, at most 1,000 characters, without blanks around it."""
        # A process that the program has started may live on and hold the pipe open.
        self._thread.join(_LINGER_S)
        return bytes(self._kept).decode(errors="replace").replace("\0", "").strip()[-MESSAGE_LIMIT:]

    def _read(self) -> None:
        with self._pipe:
            while data := os.read(self._pipe.fileno(), _READ):
                self._kept = (self._kept + data)[-_TAIL_BYTES:]


def _as_file(content: bytes) -> IO[bytes]:
    # A file and no pipe: a program may read its stdin at the end, twice or never, and no thread has to write meanwhile.
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("payload"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 the caller closes it
    file.write(content)
    file.flush()
    file.seek(0)
    return file


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
