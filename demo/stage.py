"""Starts the demo's processes and makes sure that they end: in a directory of their own, gone with the demo."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Stage:
    """Everything that the demo starts. `stage` makes one and clears it away.

    Args:
        folder: Where the server keeps its data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._server: subprocess.Popen[str] | None = None
        self._port = 0
        # A variable or an anew.toml meant for another server must not reach this one.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANEW_", "ZIZQ_"))
        }

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._port}"

    def serve(self) -> int:
        """Start ``anew serve``, the second time on the same port and the same directory.

        Returns:
            How many jobs were in flight when the server before it ended, as its log tells.
        """
        server = self._start(
            "anew", "serve", "--root-dir", "data", "--port", str(self._port), "--log-format", "json",
            "--default-completed-job-retention", "1h", "--min-free-disk", "16MiB", "--no-fwp", "--no-admin",
        )  # fmt: skip
        self._server = server
        assert server.stdout is not None
        returned: int = 0
        for line in server.stdout:
            fields = json.loads(line)["fields"]
            returned = fields.get("jobs", returned)
            if fields["message"] == "listening":
                self._port = int(fields["addr"].rpartition(":")[2])
                # Somebody must go on reading, or the server would wait with a full pipe.
                threading.Thread(target=server.stdout.read, daemon=True).start()
                return returned
        raise SystemExit("the server ended before it listened; its last words are above")

    def kill_server(self) -> int:
        """End the server by SIGKILL: no handler runs, nothing is flushed. Give its process id."""
        assert self._server is not None
        self._server.kill()
        self._server.wait()
        return self._server.pid

    def receiver(self) -> int:
        """Start the receiver; give its port."""
        process = self._start("demo.receiver", cwd=HERE.parent)
        assert process.stdout is not None
        return int(process.stdout.readline())

    def worker(self, receiver: int) -> None:
        """Start the worker."""
        self._start("demo.worker", self.url, str(receiver), cwd=HERE.parent)

    def anew(self, *words: str) -> str:
        """Run one ``anew`` command and give what it prints."""
        return subprocess.run(
            [sys.executable, "-m", "anew", *words],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=self._folder,
            env=self._environment | {"ANEW_URL": self.url},
        ).stdout

    def close(self) -> None:
        """End everything that still runs."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

    def _start(self, module: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
            # Ctrl-C is for the demo, which then ends the others itself.
            process_group=0,
            **{"cwd": self._folder} | options,
        )
        self._running.append(process)
        return process


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """Give a stage, and leave nothing of it behind: no process, no file."""
    with tempfile.TemporaryDirectory(prefix="anew-demo-") as folder:
        made = Stage(Path(folder))
        try:
            yield made
        finally:
            made.close()
