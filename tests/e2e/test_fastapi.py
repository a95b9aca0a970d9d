"""The application of docs/fastapi.md under uvicorn: real processes, their signals, and one file."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.docs import ROOT, blocks

from .server import START_TIMEOUT_S, environment
from .task_worker import Pipes

GATED = """
import os

@app.task(keep_result="1h")
def gated() -> str:
    with open("begun", "w") as begun:
        begun.write(f"{os.getpid()}\\n")
    with open("go", "rb", buffering=0) as go:
        return go.read(2).decode().strip()

@api.post("/gated")
async def enqueue_gated() -> dict[str, str]:
    return {"job": (await gated.aenqueue()).id}
"""
"""A handler that says in which process it has begun, and returns what comes from the other pipe."""


class Uvicorn:
    """A running uvicorn, once it listens."""

    def __init__(self, folder: Path, *words: str) -> None:
        (block,) = blocks(ROOT / "docs" / "fastapi.md", "python")
        (folder / "main.py").write_text(block.text + GATED, "utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "main:api", "--port", "0", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.url = self.wait_for(r"running on (http://\S+)")

    def wait_for(self, pattern: str) -> str:
        """Read its log up to a line; give the group."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"uvicorn ended before it said {pattern!r}")

    def ask(self, method: str, path: str) -> Any:
        """Send a request; give what its JSON says."""
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as answer:
            return json.load(answer)

    def stop(self) -> int:
        """SIGTERM; give the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end."""
        assert self._process.stderr is not None
        self._process.stderr.read()
        return self._process.wait(START_TIMEOUT_S)

    def terminate(self) -> None:
        """SIGTERM, and nothing else."""
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End it, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
        assert self._process.stderr is not None
        self._process.stderr.close()


@contextlib.contextmanager
def uvicorn(folder: Path, *words: str) -> Iterator[Uvicorn]:
    """Run it."""
    with contextlib.closing(Uvicorn(folder, *words)) as server:
        yield server


def results_of(folder: Path, *job_ids: str) -> list[str]:
    """Wait for jobs' results in a process of its own, from the same file; give them as text."""
    program = "import main, sys; [print(main.app.job(one).wait(timeout='30s')) for one in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", program, *job_ids],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=True,
    )
    return done.stdout.split()


def test_sigterm_lets_the_running_job_end(tmp_path: Path) -> None:
    with contextlib.closing(Pipes(tmp_path)) as pipes, uvicorn(tmp_path) as server:
        photo = server.ask("POST", "/photos/cat?width=300")["job"]
        assert results_of(tmp_path, photo) == ["cat-300.jpg"]
        assert server.ask("GET", f"/jobs/{photo}")["result"] == "cat-300.jpg"
        job = server.ask("POST", "/gated")["job"]
        pipes.begun()
        server.terminate()
        server.wait_for("(Waiting for application shutdown)")
        pipes.let_through()
        assert server.ended() in (0, -signal.SIGTERM)
        assert results_of(tmp_path, job) == ["x"]


def test_several_processes_share_the_file(tmp_path: Path) -> None:
    with contextlib.closing(Pipes(tmp_path)) as pipes, uvicorn(tmp_path, "--workers", "2") as server:
        for _ in range(2):
            server.wait_for(r"(Application startup complete)")
        # As many as one process runs at a time, and one more: it must begin in the other process.
        jobs = [server.ask("POST", "/gated")["job"] for _ in range(9)]
        assert len({pipes.begun() for _ in jobs}) == 2
        for _ in jobs:
            pipes.let_through()
        assert results_of(tmp_path, *jobs) == ["x"] * 9
        assert server.stop() in (0, -signal.SIGTERM)
