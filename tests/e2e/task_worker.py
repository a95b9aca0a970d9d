"""``anew worker`` under test, and applications for it whose handlers nobody has to wait for with a sleep."""

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

from .server import START_TIMEOUT_S, environment

JOBS = """
import asyncio, os, sys
from anew import Anew, ctx

app = Anew({store!r})

def wait_at_the_gate():
    with open("begun", "w") as begun:
        begun.write(ctx.job_id + "\\n")
    with open("go") as go:
        return go.readline()

@app.task
def gated():
    return wait_at_the_gate()

@app.task
async def gated_beside_the_loop():
    return await asyncio.to_thread(wait_at_the_gate)

@app.task
def greet(name):
    print("hello", name)

@app.task(max_attempts=1)
def fail(secret):
    raise ValueError("no")
"""
"""An application whose gated handlers tell the pipe "begun" of their jobs, and wait at the pipe "go"."""

ENQUEUE = "import sys, jobs; print(getattr(jobs, sys.argv[1]).enqueue(*sys.argv[2:]).id)"
COUNTS = "import json, jobs; print(json.dumps(jobs.app.counts()))"


class Project:
    """A folder with an application in ``jobs.py``."""

    def __init__(self, folder: Path, store: str = "jobs.db") -> None:
        self.folder = folder
        self.write("jobs.py", JOBS.format(store=store))

    def write(self, name: str, text: str) -> None:
        """Write one of its files."""
        (self.folder / name).write_text(text, "utf-8")

    def python(self, program: str, *words: str) -> str:
        """Run a program there to its end; give what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def enqueue(self, task: str, *arguments: str) -> str:
        """Enqueue a task of ``jobs.py`` from a process of its own; give the job's id."""
        return self.python(ENQUEUE, task, *arguments)

    def counts(self) -> dict[str, int]:
        """Count its jobs by state, without the states of which there are none."""
        return {state: count for state, count in json.loads(self.python(COUNTS)).items() if count}

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``anew`` there to its end."""
        return subprocess.run(
            [sys.executable, "-m", "anew", *words],
            cwd=self.folder,
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )


class TaskWorker:
    """A running ``anew worker --json``, whose log is read as it comes."""

    def __init__(self, project: Project, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anew", "worker", "--json", *words],
            cwd=project.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, message: str, **facts: Any) -> dict[str, Any]:
        """Read the log up to a message, or the event of a run, and give its fields; what is no log is passed over."""
        while True:
            line = self._line(message)
            fields = json.loads(line)["fields"] if line.startswith("{") else {}
            if message in (fields.get("message"), fields.get("event")) and facts.items() <= fields.items():
                return dict(fields)

    def wait_for_text(self, text: str) -> str:
        """Read the output up to a line that has this text, and give it."""
        while text not in (line := self._line(text)):
            pass
        return line

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

    def _line(self, awaited: str) -> str:
        line = self._lines.get(timeout=START_TIMEOUT_S)
        assert line is not None, f"the worker ended before it said {awaited!r}"
        return line

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)


class Pipes:
    """The gate of a project's handlers: both ends stay open here, so that nothing is lost when nobody waits for it."""

    def __init__(self, folder: Path) -> None:
        for name in ("begun", "go"):
            os.mkfifo(folder / name)
        self._begun = os.fdopen(os.open(folder / "begun", os.O_RDWR), "r+b", buffering=0)
        self._go = os.fdopen(os.open(folder / "go", os.O_RDWR), "r+b", buffering=0)

    def begun(self) -> str:
        """Wait until a handler has begun; give its job."""
        ready, _, _ = select.select([self._begun], [], [], START_TIMEOUT_S)
        assert ready, "no handler has begun"
        return self._begun.readline().decode().strip()

    def let_through(self) -> None:
        """Let one handler end."""
        self._go.write(b"x\n")

    def close(self) -> None:
        """Close the pipes."""
        self._begun.close()
        self._go.close()
