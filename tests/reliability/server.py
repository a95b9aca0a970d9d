"""Starts, watches, kills and restarts the server under test, as a process of its own.

The command is taken from ``ANEW_TEST_SERVER`` when it is set, so that the same rigs can be held against any
build, or against another server that speaks the same protocol.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.forked import Forked
from tests.waiting import until

from .wire import Address, Client

START_TIMEOUT_S = 30.0
LOG_LINES_KEPT = 2000


OWN = [sys.executable, "-m", "anew"]
"""The usual command; a server of it is forked instead of started, and counts as the same."""


def server_command() -> list[str]:
    """Give the command that starts a server, without its flags."""
    chosen = os.environ.get("ANEW_TEST_SERVER")
    return shlex.split(chosen) if chosen else OWN


class StartFailure(RuntimeError):
    """The server ended, or did not listen in time. The text is what it printed."""


class Server:
    """One server process at a time on one directory.

    Args:
        root: Data directory.
        flags: Flags after ``serve`` and those that every rig needs.
        command: Other than `server_command`, for a planted bug or a wrapper.
    """

    def __init__(self, root: Path, *flags: str, command: Sequence[str] | None = None) -> None:
        self.root = root
        self.flags = flags
        self.command = list(command or server_command())
        self.address: Address = ("", 0)
        self._fwp_address: Address | None = None
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES_KEPT)
        self.process: subprocess.Popen[str] | Forked | None = None
        self._listening = threading.Event()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def spawn(self) -> None:
        """Start the process without waiting for it to listen."""
        standard = ["--root-dir", str(self.root), "--port", "0", "--no-admin", "--log-format", "json"]
        self._listening = threading.Event()
        self._fwp_address = None
        self.process = self._started(["serve", *standard, *self.flags])
        threading.Thread(target=self._watch, args=(self.process, self._listening), daemon=True).start()

    def _started(self, words: list[str]) -> subprocess.Popen[str] | Forked:
        # A session of its own: the kill must reach a wrapper's children and nobody else.
        if self.command == OWN:
            return Forked(words, os.environ, leads=True, merged=True)
        return subprocess.Popen(
            [*self.command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def start(self) -> Server:
        """Start the process and wait until it answers.

        Raises:
            StartFailure: It did not.
        """
        self.spawn()
        self.wait_listening()
        return self

    def wait_listening(self, timeout: float = START_TIMEOUT_S) -> None:
        """Wait until the server answers a request.

        Raises:
            StartFailure: It did not in time.
        """
        if not self._listening.wait(timeout) or not self.address[1]:
            self.kill()
            raise StartFailure("\n".join(self.log))
        with Client(self.address, timeout=timeout) as client:
            reply = client.request("GET", "/health")
        if reply.status != 200:
            raise StartFailure(f"/health answered {reply}")

    def _watch(self, process: subprocess.Popen[str] | Forked, listening: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout:
            self.address = ("", 0)
            for line in process.stdout:
                self.log.append(line.rstrip("\n"))
                if not listening.is_set() and (address := _listening_address(line, "primary")):
                    self.address = address
                    listening.set()
                elif process is self.process and self._fwp_address is None:
                    self._fwp_address = _listening_address(line, "fwp")
        listening.set()  # at its end nobody need wait any longer

    def fwp_address(self) -> Address:
        """Wait until the server says where it serves the Faktory Work Protocol; it does so right after the other door."""
        until(lambda: self._fwp_address, within_s=10, what="the port of the protocol")
        assert self._fwp_address is not None
        return self._fwp_address

    @property
    def pid(self) -> int:
        """The process, which leads its own group."""
        assert self.process is not None
        return self.process.pid

    def kill(self, *, alone: bool = False) -> None:
        """SIGKILL to the process group, or to the server alone, and wait for its end. No effect when it is gone already."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            (os.kill if alone else os.killpg)(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self, timeout: float = START_TIMEOUT_S) -> int:
        """SIGTERM, and wait for the end.

        Returns:
            The exit status.
        """
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send any other signal to the whole group."""
        os.killpg(self.pid, number)

    def cpu_s(self) -> float:
        """Seconds of processor time that the process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """Most resident memory that the process has had so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _listening_address(line: str, api: str) -> Address | None:
    try:
        fields = json.loads(line)["fields"]
        if fields["message"] != "listening" or fields.get("api", "primary") != api:
            return None
        host, _, port = fields["addr"].rpartition(":")
    except (ValueError, KeyError, TypeError):
        return None
    return host, int(port)
