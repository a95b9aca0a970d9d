"""``anew`` at a terminal of its own, which can be closed under it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from types import TracebackType

from .server import START_TIMEOUT_S, environment


class AtTerminal:
    """A running ``anew``; a context manager that ends it.

    Args:
        words: Subcommand and arguments.
        folder: Where it runs.
        variables: Beside the usual environment.
    """

    def __init__(self, *words: str, folder: Path | None = None, **variables: str) -> None:
        self._ours, terminal = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anew", *words],
            cwd=folder,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment() | {"TERM": "xterm"} | variables,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)

    def close_terminal(self) -> None:
        """Close it: the kernel sends SIGHUP, and a shell would send another one."""
        os.close(self._ours)
        self._ours = -1
        self._process.send_signal(signal.SIGHUP)

    def ended(self) -> int:
        """Wait for its end; give the exit code."""
        return self._process.wait(START_TIMEOUT_S)

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._ours >= 0:
            os.close(self._ours)
