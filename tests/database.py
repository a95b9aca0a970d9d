"""A PostgreSQL server that a test may kill: its data is safe from that, as by default."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.postgres import server as usual_server

START_S = 30.0
UNPRIVILEGED = "pgserver"
"""As whom it runs where the tests are root's, as PostgreSQL does not; the usual server's start has made sure that there is one."""


class Database:
    """One server of its own, on a socket of its own and a port of this machine.

    Attributes:
        port: On 127.0.0.1; the same after each start.
    """

    def __init__(self) -> None:
        given = os.environ.get("ANEW_TEST_POSTGRES")  # the directory of another version's programs
        self._programs = Path(given) if given else Path(usual_server().bin_path)
        usual_server()
        self._as = {"user": UNPRIVILEGED, "group": UNPRIVILEGED} if os.geteuid() == 0 else {}
        self.place = Path(tempfile.mkdtemp(prefix="anew-db-"))
        self.place.chmod(0o755)
        self._data = self.place / "data"
        self._data.mkdir(mode=0o700)
        if self._as:
            shutil.chown(self._data, UNPRIVILEGED, UNPRIVILEGED)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self._data))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._name = ""
        self.start()

    def empty(self) -> None:
        """Have what follows use a database in which nothing is stored."""
        self._name = f"jobs_{int(self._name.rpartition('_')[2] or 0) + 1}"
        with psycopg.connect(self._url(self.port, "postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {self._name}")

    def url(self, port: int | None = None) -> str:
        """Give its address, or that of a relay."""
        return self._url(port or self.port, self._name or "postgres")

    def _url(self, port: int, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/{name}"

    def start(self, *settings: str, wait: bool = True) -> None:
        """Start it.

        Args:
            settings: Each ``name=value``, in place of the defaults.
            wait: Until it answers.
        """
        given = [word for setting in settings for word in ("-c", setting)]
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    "-D",
                    self._data,
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(self.port),
                    "-k",
                    "",
                    *given,
                ],
                stdout=log,
                stderr=log,
                **self._as,
            )
        if wait:
            self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.place / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it at once, as if it had crashed (SIGQUIT), or after its backends were ended (SIGINT)."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(START_S)

    def close(self) -> None:
        """End it, and remove all that it has stored."""
        if self._process is not None and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.place)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([self._programs / program, *words], check=True, stdout=subprocess.DEVNULL, **self._as)
