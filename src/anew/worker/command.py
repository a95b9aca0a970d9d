"""A worker for any program: takes jobs over streams, runs the program once for each, reports how it ended.

One thread owns all state and reads messages from one inbox; the others do only what blocks. A feed's thread reads a
stream, the runner threads run programs and report. Nothing is shared but the inbox.
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
from anew.client.feed import Connected, Delivered, Feed, FeedMessage, Heartbeat, Lost
from anew.errors import AnewError, InternalError
from anew.units import format_duration
from anew.worker.process import MESSAGE_LIMIT, Ended, Run
from anew.worker.reports import Level, Notice, Reported, is_another_attempt, notice_of, report_until_heard

_JOIN_S: Final = 5.0
"""How long killed runs and threads may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Some queues, and how many of their jobs run at once. Each share has its own stream.

    Attributes:
        queues: Take from these; none means all.
        concurrency: Runs at once, and jobs held at once.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """What to work on, and how.

    Attributes:
        command: Program and arguments.
        shares: What to take, and how much of it at once.
        timeout_ms: Longest run of one job; None means no limit.
        once: Stop after one job.
        drain: Stop when no job is ready any more.
        stop_timeout_ms: How long runs may go on after the first `stop`.
        idle_timeout_ms: Longest silence of a stream before it is opened again.
    """

    command: tuple[str, ...]
    shares: tuple[Share, ...] = (Share(),)
    timeout_ms: int | None = None
    once: bool = False
    drain: bool = False
    stop_timeout_ms: int = 25_000
    idle_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class _FromFeed:
    number: int
    message: FeedMessage


@dataclass(frozen=True, slots=True)
class _Done:
    job: JobView
    ended: Ended
    reported: Reported


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


@dataclass(slots=True, eq=False)
class _Source:
    """One share at work.

    Attributes:
        feed: Reads its stream.
        connected: Whether the stream is open.
        idle: A heartbeat came after the last delivery and after the last end of any run.
        running: Its jobs that the runners have.
        pending: Delivered jobs that no runner is free for.
    """

    share: Share
    feed: Feed
    connected: bool = False
    idle: bool = False
    running: int = 0
    pending: deque[JobView] = field(default_factory=deque)


@dataclass(slots=True)
class _State:
    """What the owner thread knows.

    Attributes:
        running: Runs that the runners have, by job, with the source of each.
        again: Jobs that were delivered once more, and by whom, while we still run them.
        accepted: Jobs begun so far.
        incomplete: Runs whose job did not complete.
        stops: How often `stop` was called.
        deadline_s: When the next stop follows by itself, on the monotonic clock.
    """

    running: dict[str, tuple[_Source, Run]] = field(default_factory=dict)
    again: dict[str, tuple[_Source, JobView]] = field(default_factory=dict)
    accepted: int = 0
    incomplete: int = 0
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
        self._sources = [self._source(number, share) for number, share in enumerate(options.shares)]

    def _source(self, number: int, share: Share) -> _Source:
        feed = Feed(
            self._client,
            lambda message: self._inbox.put(_FromFeed(number, message)),
            queues=share.queues,
            prefetch=share.concurrency,
            idle_timeout_ms=self._options.idle_timeout_ms,
            wait_for_server=not (self._options.once or self._options.drain),
        )
        return _Source(share, feed)

    def stop(self) -> None:
        """Take no more and finish what runs; a second call kills what runs. A signal handler may call it."""
        self._inbox.put(_Stop())

    def run(self) -> bool:
        """Work until stopped; with `once` or `drain`, until that is reached.

        Killed runs are not reported: when the stream closes, the server offers their jobs to others.

        Returns:
            Whether every job that was run has completed.

        Raises:
            AnewError: The server refuses a stream for good; with `once` or `drain`, also that it was not there.
        """
        runners = [
            threading.Thread(target=self._run_jobs, name=f"runner-{number}", daemon=True)
            for number in range(sum(share.concurrency for share in self._options.shares))
        ]
        for runner in runners:
            runner.start()
        for source in self._sources:
            source.feed.start()
        try:
            while not self._finished():
                self._handle(self._next_message())
        finally:
            self._close(runners)
        if self._state.failure is not None:
            raise self._state.failure
        return self._state.incomplete == 0

    def _next_message(self) -> object:
        deadline = self._state.deadline_s
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._inbox.get(timeout=wait)
        except queue.Empty:
            return _Stop()

    def _finished(self) -> bool:
        state = self._state
        # The third stop ends the wait: not even a killed run has ended.
        return state.stops > 0 and (not state.running or state.stops > 2)

    def _close(self, runners: list[threading.Thread]) -> None:
        self._give_up.set()
        for _, run in self._state.running.values():
            run.kill()
        for source in self._sources:
            source.feed.close()
        for _ in runners:
            self._work.put(None)
        for runner in runners:
            runner.join(_JOIN_S)

    def _run_jobs(self) -> None:
        while (task := self._work.get()) is not None:
            # Whatever happens: without its _Done a job would count as running for ever, and this runner would be gone.
            self._inbox.put(self._run_one(*task))

    def _run_one(self, job: JobView, run: Run) -> _Done:
        try:
            ended = run.run()
        except Exception as error:
            run.kill()
            name = type(error).__name__
            message = (str(error) or name)[:MESSAGE_LIMIT]
            ended = Ended(kind="error", error_type=name, message=message, took_ms=0)
        try:
            reported = report_until_heard(self._client, job, ended, self._give_up, self._inbox.put)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            reported = Reported(verdict="unreported", error=InternalError(text))
        return _Done(job, ended, reported)

    def _handle(self, message: object) -> None:
        match message:
            case _FromFeed(number, from_feed):
                self._hear(self._sources[number], from_feed)
            case _Done():
                self._done(message)
            case Notice():
                self._log(message)
            case _Stop():
                self._stop()

    def _hear(self, source: _Source, message: FeedMessage) -> None:
        match message:
            case Delivered(job):
                source.idle = False
                self._accept(source, job)
            case Connected():
                source.connected = True
                self._say("info", "listening", ", ".join(source.share.queues) or "all queues")
                self._stop_if_drained()
            case Heartbeat():
                source.idle = True
                if all(each.idle for each in self._sources):
                    self._stop_if_drained()
            case Lost(error, wait_ms):
                self._lost(source, error, wait_ms)

    def _accept(self, source: _Source, job: JobView) -> None:
        state = self._state
        if state.stops or (self._options.once and state.accepted):
            return  # It goes back to the queue when the stream closes.
        if job.id in state.running:
            # The stream broke, and the server offers the job once more to us, who still run it.
            state.again[job.id] = (source, job)
            return
        source.pending.append(job)
        self._begin_pending(source)

    def _begin_pending(self, source: _Source) -> None:
        """Give as many jobs as there are free runners for to them, in the order in which they came."""
        state = self._state
        while source.pending and source.running < source.share.concurrency:
            following = source.pending.popleft()
            run = Run(self._options.command, following, self._options.timeout_ms)
            state.accepted += 1
            source.running += 1
            state.running[following.id] = (source, run)
            self._work.put((following, run))

    def _done(self, done: _Done) -> None:
        state = self._state
        source, _ = state.running.pop(done.job.id)
        source.running -= 1
        state.incomplete += done.reported.verdict != "completed"
        for each in self._sources:
            each.idle = False  # The run may have enqueued jobs for any of them.
        self._log(notice_of(done.job, done.ended, done.reported))
        offered = state.again.pop(done.job.id, None)
        if state.stops:
            return
        if offered is not None and is_another_attempt(done.reported, done.job, offered[1]):
            offered[0].pending.append(offered[1])
        for each in self._sources:
            self._begin_pending(each)
        if self._options.once:
            self._stop()
        self._stop_if_drained()

    def _lost(self, source: _Source, error: AnewError | None, wait_ms: int | None) -> None:
        state = self._state
        source.connected = source.idle = False
        # What was delivered and not begun belongs to the queue again, and will be delivered again.
        source.pending.clear()
        state.again = {job_id: offer for job_id, offer in state.again.items() if offer[0] is not source}
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
        for source in self._sources:
            source.pending.clear()
        if state.stops == 1:
            # The streams stay open meanwhile: closing one would give its running jobs to others at once.
            for source in self._sources:
                source.feed.finish()
            state.deadline_s = time.monotonic() + self._options.stop_timeout_ms / 1000
            if state.running:
                limit = format_duration(self._options.stop_timeout_ms)
                self._say("info", "stopping", f"{len(state.running)} still running, at most {limit} more")
        elif state.stops == 2:
            state.deadline_s = time.monotonic() + _JOIN_S
            text = f"{len(state.running)} still running; their jobs return to the queue"
            self._say("warn", "killing", text)
            self._give_up.set()
            for _, run in state.running.values():
                run.kill()

    def _stop_if_drained(self) -> None:
        """With `drain`, stop if nothing is left to do.

        Heartbeats on all streams are certain: each comes after whatever was sent before it. Without them the server
        is asked; a job in flight may be on its way to us, and then the next heartbeats decide.
        """
        state = self._state
        if not self._options.drain or state.stops or state.running:
            return
        if any(source.pending or not source.connected for source in self._sources):
            return
        if all(source.idle for source in self._sources) or self._is_empty():
            self._stop()

    def _is_empty(self) -> bool:
        shares = [share.queues for share in self._options.shares]
        queues = tuple(name for names in shares for name in names) if all(shares) else ()
        try:
            return self._client.count(Filters(queue=queues, status=("ready", "in_flight"))) == 0
        except AnewError:
            return False

    def _say(self, level: Level, what: str, text: str) -> None:
        self._log(Notice(level=level, what=what, text=text))
