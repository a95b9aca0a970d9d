"""``anew work`` under test, and a program for it to run that nobody has to wait for with a sleep."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .command import url_of
from .server import START_TIMEOUT_S, environment
from .wire import Address


class Worker:
    """A running ``anew work --json``, whose log is read as it comes."""

    def __init__(self, address: Address, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anew", "work", "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | {"ANEW_URL": url_of(address)},
        )
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_for(self, *events: str, **facts: Any) -> dict[str, Any]:
        """Read the log up to a line that is one of these events, and give it."""
        while True:
            record = self._lines.get(timeout=START_TIMEOUT_S)
            assert record is not None, f"the worker ended before it logged {events}"
            if record["event"] in events and facts.items() <= record.items():
                return record

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; give the exit code."""
        code = self._process.wait(START_TIMEOUT_S)
        self._reader.join(START_TIMEOUT_S)
        return code

    def close(self) -> None:
        """End it, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.ended()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(json.loads(line))
        self._lines.put(None)


class Gate:
    """Named pipes: a program announces itself through one and waits at the other; nobody sleeps.

    Both ends stay open here, so that neither an announcement nor a permit is lost when nobody waits for it.
    """

    def __init__(self, folder: Path) -> None:
        begun, go = folder / "begun", folder / "go"
        for path in (begun, go):
            os.mkfifo(path)
        self._begun = os.fdopen(os.open(begun, os.O_RDWR), "r+b", buffering=0)
        self._go = os.fdopen(os.open(go, os.O_RDWR), "r+b", buffering=0)
        # One byte a permit: of a longer one, two programs that wait at once might get a part each.
        wait = f"dd bs=1 count=1 < {go} 2> /dev/null"
        self.program = ("sh", "-c", f'echo "$ANEW_JOB_ID" > {begun}; exit "$({wait})"')

    def begun(self) -> str:
        """Wait until a program has begun; give its job."""
        ready, _, _ = select.select([self._begun], [], [], START_TIMEOUT_S)
        assert ready, "no program has begun"
        return self._begun.readline().decode().strip()

    def let_through(self, code: int = 0) -> None:
        """Let one program end with an exit code."""
        self._go.write(b"%d" % code)

    def close(self) -> None:
        """Close the pipes."""
        self._begun.close()
        self._go.close()
