"""Processes of ``anew`` that are forked from one which has imported everything, so that each need not do it again.

They are processes like any other, but for the first third of a second: arguments, environment, output and end are their own.
What that third of a second does is tested where `server.run`, `anew_process` and the rigs of ``tests/reliability`` start programs.

    python -m tests.e2e.forked N        forks for who asks on the socket of descriptor N, until that is closed
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.signals import STOPS

ROOT = Path(__file__).parents[2]

MOST_BYTES = 1 << 17
"""Of a request: arguments and environment."""

BEGUN, ENDED, SIZE = b"b", b"e", 12
"""What is told of a process, a letter and eleven digits: that it has begun, and its id; that it has ended, and its status."""


class Forked:
    """A process of ``anew``, with the methods of `subprocess.Popen` that are used here.

    Args:
        words: Subcommand and arguments.
        env: Its environment.
        leads: It leads a session of its own.
        merged: What it writes to stderr comes from ``stdout`` too.
    """

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], *, leads: bool = False, merged: bool = False
    ) -> None:
        self.args = ["anew", *words]
        self.returncode: int | None = None
        ignored = [number for number in STOPS if signal.getsignal(number) is signal.SIG_IGN]
        request = {
            "words": [*words],
            "env": {**env},
            "folder": os.getcwd(),
            "ignored": ignored,
            "leads": leads,
        }
        pipes = [os.pipe() for _ in range(2 if merged else 3)]
        (out, to_out), *err, (self._told, to_told) = pipes
        given = [to_out, err[0][1] if err else to_out, to_told]
        socket.send_fds(_asking(), [json.dumps(request).encode()], given)
        for _, writing in pipes:
            os.close(writing)
        self.stdout = io.TextIOWrapper(open(out, "rb"), "utf-8")  # noqa: SIM115 - its owner closes it
        self.stderr = io.TextIOWrapper(open(err[0][0], "rb"), "utf-8") if err else None  # noqa: SIM115
        told = os.read(self._told, SIZE)
        assert told.startswith(BEGUN), f"{self.args} has not begun: {told!r}"
        self.pid = int(told[1:])
        os.set_blocking(self._told, False)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Give its exit status if it has ended."""
        with self._lock:
            if self.returncode is None:
                with contextlib.suppress(BlockingIOError):
                    self.returncode = int(os.read(self._told, SIZE).removeprefix(ENDED))
                    os.close(self._told)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and give its exit status."""
        if self.returncode is None:
            select.select([self._told], [], [], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its end has not been told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _asking() -> socket.socket:
    """Start the process that forks; it ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(its.fileno())],
        pass_fds=[its.fileno()],
        cwd=ROOT,  # a test may be in a folder of its own
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def become_what_is_asked_for() -> None:
    """Return in each process that was asked for, as which it goes on; ends this one when nobody asks any more."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        text, descriptors, _, _ = socket.recv_fds(asked, MOST_BYTES, 3)
        if not text:
            raise SystemExit
        if os.fork() == 0:
            break
        for one in descriptors:
            os.close(one)
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, err, told = descriptors
    child = os.fork()
    if child:
        os.close(out)
        os.close(err)
        _wait_and_tell(child, told)
    request = json.loads(text)
    os.dup2(out, 1)
    os.dup2(err, 2)
    _dress(request)
    os.write(told, BEGUN + b"%011d" % os.getpid())  # from now on it can be killed, with its session
    for one in descriptors:
        os.close(one)


def _wait_and_tell(child: int, told: int) -> None:
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):  # who asked has ended
        os.write(told, ENDED + b"%011d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _dress(request: dict[str, Any]) -> None:
    if request["leads"]:
        os.setsid()
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["folder"])
    sys.argv[:] = ["anew", *request["words"]]


def main() -> None:
    """Import what the server will, fork, and be the command line."""
    import uvloop  # noqa: F401

    import anew.app.server
    import anew.cli.root
    import anew.cli.serve  # noqa: F401
    from tests import refusals
    from tests.postgres import tolerate_them

    refusals.check()
    tolerate_them()
    gc.collect()
    gc.freeze()
    become_what_is_asked_for()
    from anew.cli import main

    main()


if __name__ == "__main__":
    main()
