"""Runs handlers in processes of their own, one job at a time each, so that they use all cores and can be stopped.

A child (see `anew.tasks.child`) gets the name of a task and where it stands, and the job's payload; it answers with the outcome.
Nothing is pickled.
"""

from __future__ import annotations

import queue
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from anew.errors import AnewError
from anew.jobs import Interrupted
from anew.tasks.app import Anew
from anew.tasks.around import fitting
from anew.tasks.child import BEGUN, Answer, Reply, Request, encode, place_of, read_reply
from anew.tasks.running import START_S, Run, Runner, timed_out
from anew.tasks.task import Task

END_S: Final = 1.0
"""How long a child may take to end once it has let go of its connection: a core dump is written in between."""


class _Child:
    """One process, and how often it was used."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # Not multiprocessing: it runs the worker's own script again, which then starts another worker.
            command = [sys.executable, "-m", "anew.tasks.child", str(theirs.fileno())]
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self.connection: Connection = Connection(ours.detach())
        self.jobs = 0
        self.kib = 0

    def how_ended(self) -> str:
        """Say how it has ended, once nothing comes from it any more."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "its process has closed the connection to its worker, and was killed"
        if code >= 0:
            return f"its process has ended with exit code {code}"
        memory = " (by somebody else, or for want of memory)" if code == -signal.SIGKILL else ""
        return f"its process was killed by {_signal_name(-code)}{memory}"

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


class Processes:
    """The processes of one lane.

    Args:
        app: Whose tasks they run.
        runner: Of the worker: for progress and for policies about time-outs.
        most_jobs: A process is replaced after so many; None: never.
        most_kib: A process is replaced that has grown beyond so many KiB of memory; None: never.
    """

    def __init__(
        self, app: Anew, runner: Runner, *, most_jobs: int | None = None, most_kib: int | None = None
    ) -> None:
        self._app = app
        self._runner = runner
        self._most_jobs = most_jobs
        self._most_kib = most_kib
        self._idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
        self._all: set[_Child] = set()
        self._of: dict[Run, _Child] = {}
        self._closed = False

    def call(self, run: Run) -> None:
        """Run a job in a process that is free, or in a new one; note how it has ended."""
        child = self._of[run] = self._free_child()
        try:
            if run.stopped is None:
                self._talk(child, run)
            else:
                run.end(run.stopped)
        except (OSError, EOFError, msgspec.DecodeError):
            how = child.how_ended()
            self._drop(child)
            run.end(run.stopped or Interrupted("worker gone", how=how))
            return
        finally:
            del self._of[run]
        if child in self._all:
            # Who stops a run marks it first: from here on nobody kills this process for this run's sake, but somebody may have.
            if self._closed or self._is_spent(child) or run.stopped is not None:
                self._drop(child)
            else:
                self._idle.put(child)

    def stop(self, run: Run) -> None:
        """Kill the process that runs a job, if one does. Called by another thread, once the run is marked as stopped."""
        child = self._of.get(run)
        if child is not None:
            child.process.kill()

    def _free_child(self) -> _Child:
        """Give a process that waits for a job, or a new one. One that has died meanwhile must not count against its next job."""
        while True:
            try:
                child = self._idle.get_nowait()
            except queue.Empty:
                child = _Child()
                self._all.add(child)
                return child
            if child.process.poll() is None:
                return child
            self._drop(child)

    def close(self) -> None:
        """End all of them."""
        self._closed = True
        for child in list(self._all):
            self._drop(child)

    def _talk(self, child: _Child, run: Run) -> None:
        """Send a job and wait for its end; kill the process if that takes too long.

        Raises:
            OSError, EOFError: The process has died.
        """
        task: Task[Any, Any, Any] | None = run.task
        assert task is not None
        timeout_ms = task.options.timeout_ms
        child.connection.send_bytes(
            encode(
                Request(
                    path=[folder for folder in sys.path if isinstance(folder, str)],  # as imports do
                    place=place_of(task.function),
                    name=run.name,
                    job_id=run.job_id,
                    queue=run.queue,
                    payload=run.payload,
                    attempts=run.attempts,
                    max_attempts=run.max_attempts,
                    carried=fitting(run.carried, run.name),
                    first=self._app.first_module,
                    retention=run.retention,
                )
            )
        )
        # A new process has to start and import first, which is none of the handler's time.
        extra_s = START_S if child.jobs == 0 else 0.0
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000 + extra_s
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not child.connection.poll(left):
                self._drop(child)
                run.end(timed_out(run, self._runner.context, timeout_ms or 0))
                return
            reply = read_reply(child.connection.recv_bytes())
            if reply.progress == BEGUN:
                until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000
                run.began_ns = time.perf_counter_ns()
            elif reply.asks_batch or reply.progress is not None:
                child.connection.send_bytes(encode(self._answer(run, reply)))
            else:
                break
        child.jobs += 1
        child.kib = reply.kib
        run.result = reply.result
        run.end(reply.outcome())

    def _answer(self, run: Run, asked: Reply) -> Answer:
        try:
            if asked.progress is not None:
                self._runner.progress(run.job_id, *asked.progress)
                return Answer()
            return Answer(counts=self._runner.batch_of(run.job_id))
        except AnewError as error:
            return Answer(error=str(error))

    def _is_spent(self, child: _Child) -> bool:
        if self._most_jobs is not None and child.jobs >= self._most_jobs:
            return True
        return self._most_kib is not None and child.kib > self._most_kib

    def _drop(self, child: _Child) -> None:
        if child in self._all:
            self._all.discard(child)
            child.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time one
        return f"signal {number}"
