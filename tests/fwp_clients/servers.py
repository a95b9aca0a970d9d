"""The server that the clients meet: `anew serve`, or real Faktory, each on a port of its own.

``ANEW_TEST_FAKTORY`` holds the path of a `faktory` program; with it the same tests judge themselves against the original.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Protocol

from tests.e2e.server import ServerProcess

FAKTORY = os.environ.get("ANEW_TEST_FAKTORY", "")
"""Path of the real program, or nothing."""

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class FaktoryServer(Protocol):
    """A running server that speaks the Faktory Work Protocol.

    Attributes:
        url: Its address as clients take it, with the password if it has one.
    """

    url: str

    def close(self) -> None:
        """Stop it and remove its data."""


def url_of(host: str, port: int, password: str | None) -> str:
    """``tcp://:password@host:port``."""
    return f"tcp://{f':{password}@' if password else ''}{host}:{port}"


class RealFaktory:
    """The original, from a program that is already built; it starts a `redis-server` of its own.

    Args:
        program: Its path.
        password: What clients must know; None lets everyone in.
    """

    def __init__(self, program: str, password: str | None = None) -> None:
        # Not below pytest's directory: the path of Redis's Unix socket may have 107 bytes.
        self._place = Path(tempfile.mkdtemp(prefix="faktory"))
        data = self._place / "db"
        data.mkdir()
        port = _free_port()
        self.url = url_of("127.0.0.1", port, password)
        words = ["-e", "development", "-b", f"127.0.0.1:{port}", "-w", ":0", "-c", self._place, "-d", data]
        environment = os.environ | ({"FAKTORY_PASSWORD": password} if password else {})
        self._process = subprocess.Popen(
            [program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self._output: list[str] = []
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._listens.wait(START_TIMEOUT_S)
        if not any("listening at" in line for line in self._output):
            self.close()
            raise AssertionError("Faktory does not listen; its output:\n" + "".join(self._output))

    def _read(self) -> None:
        # Read to the end: a server whose output nobody takes stops when the pipe is full.
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._output.append(line)
            if "listening at" in line:
                self._listens.set()
        self._listens.set()

    def close(self) -> None:
        """Ask it to stop: it ends its Redis too."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._reader.join(STOP_TIMEOUT_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            shutil.rmtree(self._place)


class AnewServer:
    """`anew serve` with the protocol on a port of its own.

    Args:
        password: What clients must know; None lets everyone in.
        flags: Further options of `anew serve`, as `ServerProcess` takes them.
    """

    def __init__(self, password: str | None = None, **flags: str) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="anew"))
        self._server = ServerProcess(self._place / "data", fwp_port=0, fwp_password=password, **flags)
        self.url = url_of(*self._server.address_of("fwp"), password)

    def close(self) -> None:
        """End it; it must have handled every exception."""
        self._server.close()
        shutil.rmtree(self._place)
        assert not self._server.new_complaints()


def start(password: str | None = None) -> FaktoryServer:
    """The server under test: real Faktory where ``ANEW_TEST_FAKTORY`` names it, else Anew."""
    return RealFaktory(FAKTORY, password) if FAKTORY else AnewServer(password)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
