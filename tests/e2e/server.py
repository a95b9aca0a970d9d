"""A server process under test: started on a port of its own, watched, and ended by its process id.

``ANEW_TEST_SERVER`` names another command to test in place of ``python -m anew``, for example an installed
executable; it is split as a shell would. ``ANEW_TEST_STORE=postgres`` gives each data directory a PostgreSQL database in place of
its file.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .forked import Forked
from .wire import Address

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0

COMPLAINTS = (
    "Traceback (most recent call last)",
    "never retrieved",
    "was never awaited",
    "Exception in callback",
    "Unhandled exception",
    "panicked at",
    '"level":"ERROR"',
    '"level": "ERROR"',
)
"""Marks of an exception that nobody handled, wherever in the output they appear."""


def command() -> list[str]:
    """The command line of the program under test, without subcommand."""
    return shlex.split(os.environ.get("ANEW_TEST_SERVER", "")) or [sys.executable, "-m", "anew"]


def on_postgres() -> bool:
    """Whether data directories are PostgreSQL databases."""
    return os.environ.get("ANEW_TEST_STORE") == "postgres"


def environment() -> dict[str, str]:
    """This process's variables without those that would configure the server."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANEW_", "ZIZQ_", "FAKTORY_")) and name != "PYTHONUNBUFFERED"
    } | {"ANEW_FWP_PORT": "0", "ANEW_ADMIN_PORT": "0"}


def flag_list(flags: dict[str, Any]) -> list[str]:
    """``{"heartbeat_interval": "1s", "relaxed": True}`` as command line words; None says nothing."""
    words = []
    for name, value in flags.items():
        if value is None:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


def _started(words: list[str]) -> subprocess.Popen[str] | Forked:
    if "ANEW_TEST_SERVER" not in os.environ:
        return Forked(words, environment())
    return subprocess.Popen(
        [*command(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


class ServerProcess:
    """A running ``serve``; construction returns when it says that it listens.

    Args:
        root_dir: Its data directory.
        flags: Further options, in the form of ``flag_list``.

    Attributes:
        address: Host and port it listens on.
        listening: The whole log record that said so.
        output: Every line it has printed so far, stdout and stderr as they came.
    """

    def __init__(self, root_dir: Path, **flags: Any) -> None:
        self.root_dir = root_dir
        self.output: list[str] = []
        self._checked = 0
        self._records: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._listening: dict[str, dict[str, Any]] = {}
        flags = {
            "root_dir": root_dir,
            "port": 0,
            "no_admin": True,
            "log_format": "json",
            "log_level": "info",
        } | flags
        if on_postgres():
            from tests.postgres import database_of

            flags.setdefault("store", database_of(root_dir))
            if (
                "ANEW_TEST_SERVER" in os.environ
            ):  # which refuses a server that syncs nothing, as the tests' does
                flags.setdefault("commit", "relaxed")
        self._process = _started(["serve", *flag_list(flags)])
        self._readers = [
            threading.Thread(target=self._read, args=(pipe,), daemon=True)
            for pipe in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()
        try:
            self.listening = self._await_listening("primary")
        except BaseException:
            self.close()
            raise
        self.address = self.address_of("primary")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def address_of(self, api: str) -> Address:
        """Host and port on which it serves an API; waits for the record that says so."""
        host, _, port = self._await_listening(api)["fields"]["addr"].rpartition(":")
        return host.strip("[]"), int(port)

    def process_signal(self, number: int) -> None:
        """Send it a signal and do not wait."""
        self._process.send_signal(number)

    def terminate(self) -> int:
        """Ask it to stop (SIGTERM), wait for that, and return its exit status."""
        self._process.terminate()
        return self.wait()

    def kill(self) -> int:
        """End it at once (SIGKILL)."""
        self._process.kill()
        return self.wait()

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for its end and for the rest of its output."""
        status = self._process.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return status

    def close(self) -> None:
        """End it, if it still runs, and release its pipes."""
        if self._process.poll() is None:
            self.kill()
        else:
            self.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def new_complaints(self) -> list[str]:
        """Output lines since the last call that tell of an unhandled exception, each with what follows it."""
        lines = self.output[self._checked :]
        self._checked += len(lines)
        hits = [at for at, line in enumerate(lines) if any(mark in line for mark in COMPLAINTS)]
        return ["\n".join(lines[at : at + 30]) for at in hits[:3]]

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            self.output.append(line.rstrip("\n"))
            if pipe is self._process.stdout:
                with contextlib.suppress(ValueError):
                    self._records.put(json.loads(line))
        if pipe is self._process.stdout:
            self._records.put(None)

    def await_record(self, message: str) -> dict[str, Any]:
        """Wait for the next record of the log that says this, and give its fields; those before it are passed over."""
        while True:
            fields: dict[str, Any] = self._next_record(f"does not log {message!r}").get("fields") or {}
            if fields.get("message") == message:
                return fields

    def _await_listening(self, api: str) -> dict[str, Any]:
        while api not in self._listening:
            record = self._next_record("does not listen")
            fields = record.get("fields") or {}
            if fields.get("message") == "listening":
                self._listening[fields["api"]] = record
        return self._listening[api]

    def _next_record(self, failing: str) -> dict[str, Any]:
        try:
            record = self._records.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(self._report(f"{failing} after {START_TIMEOUT_S} s")) from None
        if record is None:
            raise AssertionError(self._report(f"has ended: it {failing}"))
        return record

    def _report(self, what: str) -> str:
        return f"the server {what}; its output:\n" + "\n".join(self.output[-40:])


def run(*words: str, timeout_s: float = START_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run the program to its end and return what it printed; it must end by itself."""
    return subprocess.run(
        [*command(), *words],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment(),
        check=False,
    )
