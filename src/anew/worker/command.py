"""A worker for any program: takes jobs over a stream, runs the program once for each, reports how it ended.

One thread owns all state and reads messages from one inbox; the others do only what blocks. The feed's thread
reads the stream, the runner threads run programs and report. Nothing is shared but the inbox.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from anew.client import Client, Filters, JobView
from anew.errors import AnewError
from anew.units import format_duration
from anew.worker.feed import Connected, Delivered, Feed, Heartbeat, Lost
from anew.worker.notices import Level, Notice, notice_of
from anew.worker.process import Ended, Run
from anew.worker.settle import Settled, is_another_attempt, settle

_LAST_WORDS_S: Final = 5.0
"""How long killed runs and threads may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """What to work on, and how.

    Attributes:
        queues: Take from these; none means all.
        command: Program and arguments.
        concurrency: Runs at once, and jobs held at once.
        timeout_ms: Longest run of one job; None means no limit.
        once: Stop after one job.
        drain: Stop when no job is ready any more.
        stop_timeout_ms: How long runs may go on after the first `stop`.
        idle_timeout_ms: Longest silence of the stream before it is opened anew.
    """

    queues: tuple[str, ...]
    command: tuple[str, ...]
    concurrency: int = 1
    timeout_ms: int | None = None
    once: bool = False
    drain: bool = False
    stop_timeout_ms: int = 25_000
    idle_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class _Done:
    job: JobView
    ended: Ended
    settled: Settled


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


@dataclass(slots=True)
class _State:
    """What the owner thread knows.

    Attributes:
        running: Runs that have been handed to the runners, by job.
        pending: Delivered jobs that no runner is free for.
        again: Jobs that were delivered once more while we still run them.
        accepted: Jobs begun so far.
        stops: How often we were told to stop.
        deadline_s: When patience with the running jobs ends, on the monotonic clock.
    """

    running: dict[str, Run] = field(default_factory=dict)
    pending: deque[JobView] = field(default_factory=deque)
    again: dict[str, JobView] = field(default_factory=dict)
    accepted: int = 0
    connected: bool = False
    stops: int = 0
    deadline_s: float | None = None
    failure: AnewError | None = None


class CommandWorker:
    """Takes jobs and runs a program for each until it is stopped.

    Args:
        client: The server's client; it stays the caller's.
        options: What to work on, and how.
        log: Called for each thing worth a line, always by the thread that called `run`.
    """

    def __init__(self, client: Client, options: WorkOptions, log: Callable[[Notice], None]) -> None:
        self._client, self._options, self._log = client, options, log
        # SimpleQueue, because a signal handler may call its put at any moment.
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._work: queue.SimpleQueue[tuple[JobView, Run] | None] = queue.SimpleQueue()
        self._give_up = threading.Event()
        self._state = _State()
        self._feed = Feed(
            client,
            self._inbox,
            queues=options.queues,
            prefetch=options.concurrency,
            idle_timeout_ms=options.idle_timeout_ms,
            patient=not (options.once or options.drain),
        )

    def stop(self) -> None:
        """Take no more and finish what runs; a second call kills what runs. A signal handler may call it."""
        self._inbox.put(_Stop())

    def run(self) -> None:
        """Work until stopped; with `once` or `drain`, until that is reached.

        Killed runs are not reported: when the stream closes, the server offers their jobs to others.

        Raises:
            AnewError: The server refuses the stream for good; with `once` or `drain`, also that it was not there.
        """
        runners = [
            threading.Thread(target=self._run_jobs, name=f"runner-{number}", daemon=True)
            for number in range(self._options.concurrency)
        ]
        for runner in runners:
            runner.start()
        self._feed.start()
        try:
            while not self._finished():
                self._handle(self._next_message())
        finally:
            self._close(runners)
        if self._state.failure is not None:
            raise self._state.failure

    def _next_message(self) -> object:
        deadline = self._state.deadline_s
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._inbox.get(timeout=wait)
        except queue.Empty:
            return _Stop()

    def _finished(self) -> bool:
        state = self._state
        # A third stop is the end of all patience: not even a killed run has ended.
        return state.stops > 0 and (not state.running or state.stops > 2)

    def _close(self, runners: list[threading.Thread]) -> None:
        self._give_up.set()
        for run in self._state.running.values():
            run.kill()
        self._feed.close()
        for _ in runners:
            self._work.put(None)
        for runner in runners:
            runner.join(_LAST_WORDS_S)

    def _run_jobs(self) -> None:
        while (task := self._work.get()) is not None:
            job, run = task
            ended = run.run()
            self._inbox.put(_Done(job, ended, settle(self._client, job, ended, self._give_up)))

    def _handle(self, message: object) -> None:
        match message:
            case Delivered(job):
                self._accept(job)
            case _Done():
                self._done(message)
            case Connected():
                self._state.connected = True
                self._say("info", "listening", ", ".join(self._options.queues) or "all queues")
                self._stop_if_drained(certain=False)
            case Heartbeat():
                self._stop_if_drained(certain=True)
            case Lost(error, wait_ms):
                self._lost(error, wait_ms)
            case _Stop():
                self._stop()

    def _accept(self, job: JobView) -> None:
        state = self._state
        if state.stops or (self._options.once and state.accepted):
            return  # It goes back to the queue when the stream closes.
        if job.id in state.running:
            # The stream broke, and the server offers the job once more to us, who still run it.
            state.again[job.id] = job
            return
        state.pending.append(job)
        self._begin_pending()

    def _begin_pending(self) -> None:
        """Give as many jobs as there are free runners for to them, in the order in which they came."""
        state = self._state
        while state.pending and len(state.running) < self._options.concurrency:
            following = state.pending.popleft()
            run = Run(self._options.command, following, self._options.timeout_ms)
            state.accepted += 1
            state.running[following.id] = run
            self._work.put((following, run))

    def _done(self, done: _Done) -> None:
        state = self._state
        del state.running[done.job.id]
        self._log(notice_of(done.job, done.ended, done.settled))
        offered = state.again.pop(done.job.id, None)
        if state.stops:
            return
        if offered is not None and is_another_attempt(done.settled, done.job, offered):
            state.pending.append(offered)
        self._begin_pending()
        if self._options.once:
            self._stop()
        self._stop_if_drained(certain=False)

    def _lost(self, error: AnewError | None, wait_ms: int | None) -> None:
        state = self._state
        state.connected = False
        # What was delivered and not begun belongs to the queue again, and will be delivered again.
        state.pending.clear()
        state.again.clear()
        if state.stops:
            return
        if wait_ms is None:
            state.failure = error
            self._stop()
            return
        reason = "the server ended the stream" if error is None else str(error)
        self._say("warn", "lost", f"{reason}; trying again in {format_duration(wait_ms)}")

    def _stop(self) -> None:
        state = self._state
        state.stops += 1
        state.pending.clear()
        if state.stops == 1:
            # The stream stays open meanwhile: closing it would give the running jobs to others at once.
            self._feed.finish()
            state.deadline_s = time.monotonic() + self._options.stop_timeout_ms / 1000
            if state.running:
                limit = format_duration(self._options.stop_timeout_ms)
                self._say("info", "stopping", f"{len(state.running)} still running, at most {limit} more")
        elif state.stops == 2:
            state.deadline_s = time.monotonic() + _LAST_WORDS_S
            text = f"{len(state.running)} still running; their jobs return to the queue"
            self._say("warn", "killing", text)
            self._give_up.set()
            for run in state.running.values():
                run.kill()

    def _stop_if_drained(self, *, certain: bool) -> None:
        """Stop if nothing is left to do.

        Args:
            certain: The stream said so: a heartbeat comes after whatever was sent before it. Otherwise the
                server is asked, and a job in flight, which may be on its way to us, makes us wait for the
                heartbeat.
        """
        state = self._state
        busy = state.running or state.pending or not state.connected
        if self._options.drain and not state.stops and not busy and (certain or self._is_empty()):
            self._stop()

    def _is_empty(self) -> bool:
        filters = Filters(queue=self._options.queues, status=("ready", "in_flight"))
        try:
            return self._client.count(filters) == 0
        except AnewError:
            return False

    def _say(self, level: Level, what: str, text: str) -> None:
        self._log(Notice(level=level, what=what, text=text))
