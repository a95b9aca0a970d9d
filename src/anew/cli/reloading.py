"""``anew worker --reload``: the worker runs in a child, which is replaced when a file of the project changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from anew.app.running import stop_signals

POLL_S: Final = 0.5
"""How often the files are looked at."""

PARENT: Final = "ANEW_RELOADER"
"""Tells a child the descriptor of a pipe that ends with the process that restarts it, however that ends."""

_PASSED_OVER: Final = ("__pycache__", "node_modules", "site-packages")


def stamps(folder: Path) -> dict[str, int]:
    """Give the time of change, epoch ns, of each ``.py`` file of a project.

    Folders whose names begin with a dot are passed over, and virtual environments.
    """
    found: dict[str, int] = {}
    for place, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if name[0] != "." and name not in _PASSED_OVER]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                try:
                    found[path] = os.stat(path).st_mtime_ns
                except OSError:  # it has just been removed
                    continue
    return found


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Name the files that are new, are gone or have changed, in order."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


class Reloader:
    """Runs a command, and again whenever a file of the project has changed.

    Args:
        command: What to run.
        folder: The project.
        say: Prints a line.
    """

    def __init__(self, command: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
        self._command = command
        self._folder = folder
        self._say = say
        self._child: subprocess.Popen[bytes] | None = None
        self._received: list[int] = []
        self._signalled = threading.Event()
        self._pipe, self._kept_open = os.pipe()  # nothing is ever written: a child sees its end

    def run(self) -> int:
        """Go on until a signal; give the exit code."""
        for number in stop_signals():
            signal.signal(number, self._stop)
        before = stamps(self._folder)
        while True:
            # A group of its own: a terminal's Ctrl-C comes to this process alone, which passes it on once.
            self._child = subprocess.Popen(  # noqa: S603 - this program itself
                self._command,
                process_group=0,
                pass_fds=[self._pipe],
                env={**os.environ, PARENT: str(self._pipe)},
            )
            if self._received:  # it came while the child was being started
                self._child.terminate()
            after = self._wait_for_change(before, self._child)
            if self._received:
                return 128 + self._received[0]
            paths = changed(before, after)
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            self._say(f"{os.path.relpath(paths[0])}{more} changed: the worker is restarted")
            self._child.terminate()
            self._child.wait()
            if self._received:
                return 128 + self._received[0]
            before = after

    def _wait_for_change(self, before: Mapping[str, int], child: subprocess.Popen[bytes]) -> dict[str, int]:
        """Wait until a file has changed, and give the stamps; or until a signal has come and the child has ended."""
        ended = False
        while not (self._received and ended):
            if not ended:
                ended = _ends(child)
                if ended and not self._received:
                    code = child.returncode
                    self._say(f"the worker has ended (exit code {code}); a change starts it again")
            else:
                self._signalled.wait(POLL_S)
            if not self._received and changed(before, after := stamps(self._folder)):
                return after
        return {}

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._received.append(number)
        self._signalled.set()
        if self._child is not None:
            self._child.send_signal(number)


def _ends(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def run_reloading(folder: Path, say: Callable[[str], None]) -> int:
    """Run this command line again and again, without ``--reload``; see `Reloader`."""
    words = [word for word in sys.argv[1:] if word != "--reload"]
    return Reloader([sys.executable, "-m", "anew", *words], folder, say).run()


def end_with_parent() -> None:
    """Where this process is a child of `Reloader`, have it stop, as by SIGTERM, when that is gone: nobody else would end it."""
    descriptor = os.environ.pop(PARENT, None)
    if descriptor is not None:
        threading.Thread(
            target=_wait_for_parent, args=(int(descriptor),), name="anew-parent", daemon=True
        ).start()


def _wait_for_parent(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
