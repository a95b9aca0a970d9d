"""The worker: takes jobs, runs their handlers in threads, an event loop or processes, and settles them together.

One thread exchanges with the store: what has ended is settled and new jobs are taken in one transaction, so that a sync is shared
by all that ended meanwhile. Handlers never wait for it: while it runs, threads and loop go on with the jobs that are there.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from anew.errors import AnewError, InvalidInput
from anew.jobs import Cancelled, Failed, Interrupted, Snoozed, State
from anew.jobs.breaker import BreakerRow, BreakerState
from anew.tasks.app import Anew
from anew.tasks.backend import CRASHES
from anew.tasks.events import Event
from anew.tasks.lanes import Lane
from anew.tasks.outbox import Drainer
from anew.tasks.running import HELD, Run, Runner, timed_out
from anew.tasks.source import SettledJob, Want
from anew.tasks.task import read_queue
from anew.tasks.times import Wait, wait_ms, whole
from anew.units import MINUTE_MS, counted, parse_size, refused

log = logging.getLogger("anew.tasks")

LAST_TRIES: Final = 5
"""How often a worker that ends tries to say so while another program keeps the file, 2 s each."""

IDLE_S: Final = 0.05
"""How long the exchanging thread sleeps at most, with nothing to do: it looks after time-outs and stops between."""

BUSY_S: Final = 0.01

LOOK_S: Final = 1.0
"""How often a worker looks whether what it runs still holds its jobs, where somebody may have taken some away."""

MOST_LOOKED: Final = 2_000
"""Runs of one such look; of more, the next ones take their turn."""

MOST_CONCURRENT: Final = 1_000
MOST_COROUTINES: Final = 100_000
MOST_RUNS: Final = (1 << 63) - 1
MOST_ABANDONED: Final = 50
"""Threads whose runs were given up and go on: a worker with more of them stops, so that its supervisor starts a fresh one."""


MOST_NAMED: Final = 3
"""Tasks that are named when a worker says what it waits for."""

MOST_UNKNOWN: Final = 1_000
"""Names of unknown tasks that are remembered; the log may be told of more of them more often."""


class Worker:
    """Runs the jobs of one application until it is stopped.

    Either `run` does so here, or ``with`` (in an event loop ``async with``) has a thread do so for as long as the block lasts, and
    drains at its end; signals are then left to the program.

    Args:
        app: Its tasks are known here; jobs of others go back, to be taken later, perhaps by a worker that knows them.
        queues: From which; none means all. With numbers (``{"mail": 4}``) each queue has runs of its own, so many of each kind; a
            single one has `coroutines` of its `async def` handlers.
        concurrency: Runs at one time, of plain functions and processes, of all queues together.
        coroutines: The same of `async def` handlers.
        drain: How long runs may go on once the worker is stopped; then their jobs are given back, uncounted.
        burst: Stop when nothing is ready any more.
        most_jobs: Stop after so many runs, so that memory that handlers leak comes back; None: never.
        process_jobs: Replace a process of a `process=True` task after so many runs; None: never.
        process_memory: Replace one that has grown beyond this, such as ``"500MB"``, once its run has ended; None: never.
        outboxes: Files with an `Outbox`, from which jobs come into the queue while it runs.

    Attributes:
        done: Runs that have ended, by outcome: ``succeeded``, ``failed``, ``discarded``, ``snoozed``, ``cancelled``,
            ``interrupted``, ``lost``.
        open_breakers: By key: the breakers that were not closed at the last look, each with the key of the job that probes, or 0.
        stopped_by: The signal that has stopped it; None: none has.
        is_quiet: Whether it takes nothing more; see `be_quiet`.
        has_given_up: Whether it stopped by itself because too many threads never end.
        given_back: Jobs that it gave back at its end; their handlers may still run in threads that nobody can stop.

    Raises:
        InvalidInput: A value does not fit.
    """

    def __init__(
        self,
        app: Anew,
        *,
        queues: Sequence[str] | Mapping[str, int] = (),
        concurrency: int = 8,
        coroutines: int = 100,
        drain: Wait = 25,
        burst: bool = False,
        most_jobs: int | None = None,
        process_jobs: int | None = None,
        process_memory: int | str | None = None,
        outboxes: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.app = app
        self.done = dict.fromkeys(
            ("succeeded", "failed", "discarded", "snoozed", "cancelled", "interrupted", "lost"), 0
        )
        shares = _shares(queues, concurrency)
        whole("coroutines", coroutines, 1, MOST_COROUTINES, f"a number from 1 to {MOST_COROUTINES}")
        for field, number in (("most_jobs", most_jobs), ("process_jobs", process_jobs)):
            if number is not None:
                whole(field, number, 1, MOST_RUNS, "a number of runs, 1 or more, or None for no limit")
        self._drain_s = wait_ms(drain, "drain") / 1_000
        self._burst = burst
        self._most_jobs = most_jobs
        self._source = app.backend.source(app)
        self.runner = Runner(self._source.now, self._source.progress, self._source.batch_of)
        self._ended: deque[Run] = deque()
        self._again: list[Run] = []
        self._kept_back: Sequence[Run] = ()
        self._is_busy = False
        self._is_drained = True
        self._sleeping = False
        self.stopped_by: int | None = None
        self.given_back = 0
        self.has_given_up = False
        self._stop_at: float | None = None
        self.is_quiet = self._said_quiet = self._said_stop = False
        size = None if process_memory is None else parse_size(process_memory, field="process_memory")
        self.recycling = {"most_jobs": process_jobs, "most_kib": None if size is None else size // 1_024}
        self._drainer = Drainer(app, outboxes)
        self._lanes = [
            Lane(names, number, coroutines if names is None or len(shares) == 1 else number, self)
            for names, number in shares
        ]
        self._slots = iter(range(1 << 30))
        self._look_at = 0.0
        self._unlooked: list[Run] = []
        self._looks_again = False  # jobs that had not begun at the last look were not in it
        self.open_breakers: Mapping[str, int] = {}
        self._kept = 0
        self._unknown: dict[str, int] = {}
        """By the name of a task that is not known: when the log was told of it, epoch ms."""
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    # -- for others

    def run(self, started: Callable[[], object] = lambda: None) -> None:
        """Run jobs until `stop`, SIGTERM or SIGINT; a second signal stops at once.

        Args:
            started: Called when signals are heeded, before the first job is taken.

        Raises:
            AnewError: The store failed; nothing more can be done.
        """
        with self._signals():
            self._put_crons()
            self.app.put_limits()
            started()
            try:
                self._drainer.start()
                while not self._is_over():
                    self._turn()
                self._give_back_rest()
            except BaseException:
                # Others may have soon what this worker has taken: nothing of it may begin here any more. The store may not hear it.
                with suppress(Exception):
                    self._give_back_rest()
                raise
            finally:
                self._drainer.stop()
                for lane in self._lanes:
                    lane.close()
                self._source.close()
        self.app.events.close()

    def start(self) -> None:
        """Run jobs in a thread until `stop`."""
        self._thread = threading.Thread(target=self._run_beside, name="anew-worker", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread has ended.

        Raises:
            AnewError: What has ended it before `stop`, as for `run`.
        """
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()

    async def __aenter__(self) -> Worker:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and wait beside the event loop for what runs; where the wait is cancelled, give it back at once."""
        import asyncio

        self.stop()
        try:
            await asyncio.to_thread(self.join)
        except asyncio.CancelledError:
            self.stop_now()
            raise

    def stop(self) -> None:
        """Take nothing more, and end when what runs has ended, or when `drain` is over. From any thread, or a signal's handler."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._drain_s

    def stop_now(self) -> None:
        """End at once; what runs is given back, and no failure is counted."""
        self._stop_at = time.monotonic()

    def be_quiet(self) -> None:
        """Take nothing more, and go on until `stop`: what is new is left to other workers."""
        self.is_quiet = True

    @property
    def is_stopping(self) -> bool:
        """Whether it has been stopped and waits for what runs."""
        return self._stop_at is not None

    @property
    def running(self) -> int:
        """Jobs whose handlers run now."""
        return sum(len(lane.open) for lane in self._lanes)

    def _run_beside(self) -> None:
        try:
            self.run()
        except BaseException as error:  # kept for whoever joins, who may do so much later
            self._error = error
            log.exception("the worker has ended")

    # -- for the lanes

    def next_slot(self) -> int:
        """Give the number of one more thing that runs one job at a time."""
        return next(self._slots)

    def begin(self, run: Run, slot: int) -> None:
        """Called where a run begins: note it."""
        self._source.note_begun(slot, run)
        log_start(run)
        if self.app.events:
            self.app.events.emit(event_of("started", run, now=self._source.now()))

    def holds(self, run: Run) -> bool:
        """Called before a run begins where `open_breakers` has any: report whether it must not, as that of its service is open."""
        if run.task is None or run.task.options.downstream is None:
            return False
        run.held = self.open_breakers.get(run.task.options.downstream.key, run.key) != run.key
        if run.held:
            run.end(Snoozed(ready_at=0, reason=HELD, outcome="held"))
        return run.held

    def ended(self, run: Run) -> None:
        """Called from any thread when a run has ended: it is settled with whatever else has."""
        self._ended.append(run)
        if self._sleeping:
            self._source.wake()

    # -- one turn

    def _turn(self) -> None:
        """Settle what has ended and take what can run; sleep if there is neither."""
        if self.is_quiet and not self._said_quiet:
            # Not logged by a signal's handler, which may interrupt a write to the log.
            self._said_quiet = True
            log.info("the worker takes no more", extra={"running": self.running})
        if self._stop_at is not None and not self._said_stop:
            self._said_stop = True
            self._say_stop(self._stop_at)
        seen = self._source.seen
        ended = self._claim()
        takes = self._stop_at is None and not self.is_quiet
        given_back = [*self._kept_back]
        for lane in self._lanes:
            given_back += lane.surplus(time.perf_counter_ns()) if self._stop_at is None else lane.unbegun()
        wants = [lane.want() for lane in self._lanes] if takes else []
        taken = 0
        if ended or given_back or any(want.limit for want in wants):
            taken = self._exchange(ended, given_back, wants)
        if self._burst and self._is_drained and not (taken or ended or self._is_busy or self._held()):
            self.stop()
        if not (taken or ended):
            self._sleep(seen, looks=any(want.limit for want in wants))
        self._look_after_time_outs()
        self._look_after_holds()

    def _say_stop(self, stop_at: float) -> None:
        """Say what the end waits for: whoever has pressed Ctrl-C looks on, perhaps without any set-up of logs."""
        names = sorted({run.name for lane in self._lanes for run in list(lane.open)})
        if not names:
            return
        left_s = max(0, round(stop_at - time.monotonic()))
        shown = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
        again = "" if self.stopped_by is None else "; a second signal gives them back at once"
        log.log(
            logging.INFO if self.stopped_by is None else logging.WARNING,
            "stopping: it waits up to %d s for %s of %s%s",
            left_s,
            counted(self.running, "run"),
            shown,
            again,
            extra={"running": self.running},
        )

    def _claim(self) -> list[Run]:
        """Give the runs that have ended and are not settled yet."""
        again, self._again = self._again, []
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        for run in ended:
            if run.lane is not None:
                run.lane.claim(run)
        return again + ended

    def _exchange(self, ended: list[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> int:
        done = self._source.exchange(ended, given_back, wants)
        if done.open is not None:  # first: a probe must not find its breaker as it was before
            self.open_breakers = done.open
        for lane, runs in zip(self._lanes, done.taken, strict=False):
            lane.add(runs)
        self._kept += done.held
        for run, job in done.settled:
            self._settled(run, job)
        for row in done.turned:
            self._turned(row)
        for run in done.lost:
            self.done["lost"] += 1
            log.info("a job was no longer held when its run ended", extra={"event": "lost"} | _about(run))
        self._is_drained = done.is_drained
        self._again, self._kept_back = done.again, done.kept
        self._is_busy = done.busy
        if done.again or done.kept or done.busy:
            time.sleep(BUSY_S)
        return sum(map(len, done.taken)) + done.held + done.goes_on

    def _sleep(self, seen: int, *, looks: bool) -> None:
        self._sleeping = True
        try:
            if not self._ended:
                self._source.sleep(IDLE_S, seen if looks else self._source.seen)
        finally:
            self._sleeping = False

    def _held(self) -> int:
        return len(self._again) + len(self._kept_back) + sum(lane.held for lane in self._lanes)

    # -- the end

    def _is_over(self) -> bool:
        if self._most_jobs is not None and sum(self.done.values()) - self._kept >= self._most_jobs:
            self.stop()
        hanging = sum(lane.hanging for lane in self._lanes)
        if hanging > MOST_ABANDONED and self._stop_at is None:
            log.error("too many threads never end; the worker stops", extra={"threads": hanging})
            self.has_given_up = True
            self.stop()
        if self._stop_at is None:
            return False
        return time.monotonic() >= self._stop_at or not self._held()

    def _give_back_rest(self) -> None:
        """Settle what has ended, and give back what still runs: its report will find it held by nobody, or by another."""
        rest = [run for lane in self._lanes for run in [*lane.unbegun(), *lane.abandon_all()]]
        self.given_back = len(rest)
        if rest:
            log.warning("jobs are given back that had not ended in time", extra={"jobs": len(rest)})
        self._kept_back = [*self._kept_back, *rest]
        for _ in range(LAST_TRIES):
            ended = self._claim()
            if not (ended or self._kept_back):
                return
            self._exchange(ended, self._kept_back, [])

    # -- time-outs

    def _look_after_time_outs(self) -> None:
        now_ns = time.perf_counter_ns()
        for lane in self._lanes:
            for run, timeout_ms in lane.overdue(now_ns):
                run.end(timed_out(run, self.runner.context, timeout_ms))
                self._ended.append(run)
                log.error(
                    "a run is abandoned: it did not end in time, and cannot be stopped",
                    extra=_about(run) | {"timeout_ms": timeout_ms},
                )

    # -- jobs that were cancelled

    def _look_after_holds(self) -> None:
        """Stop the runs that no longer hold their jobs."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if not self._unlooked and self.running and (self._source.may_have_lost() or self._looks_again):
            self._unlooked = [run for lane in self._lanes for run in list(lane.open)]
            self._looks_again = any(lane.held > len(lane.open) for lane in self._lanes)
        looked, self._unlooked = self._unlooked[:MOST_LOOKED], self._unlooked[MOST_LOOKED:]
        runs = [
            run for run in looked if run.stopped is None and run.lane is not None and run in run.lane.open
        ]
        lost = self._source.lost(runs) if runs else {}
        for lane in self._lanes:
            if its := {run: why for run, why in lost.items() if run.lane is lane}:
                lane.stop(its)
        for run, why in lost.items():
            reason = why.reason if isinstance(why, Cancelled) else why.how
            log.info("a run is called off: %s", reason, extra=_about(run) | {"reason": reason})

    # -- events

    def _settled(self, run: Run, job: SettledJob | None) -> None:
        name = outcome_name(run, job)
        self.done[name] += 1
        log_end(name, run, job)
        if isinstance(run.outcome, Snoozed) and run.outcome.outcome == "unknown_task":
            self._tell_unknown(run, job)
        if self.app.events:
            self.app.events.emit(event_of(name, run, job))

    def _tell_unknown(self, run: Run, job: SettledJob | None) -> None:
        """Log that a task is not known here, for each once a minute."""
        now = self._source.now()
        if now - self._unknown.get(run.name, -MINUTE_MS) < MINUTE_MS:
            return
        if len(self._unknown) >= MOST_UNKNOWN:
            self._unknown.clear()
        self._unknown[run.name] = now
        log.error(
            "no task %r here: expected it to be imported by the worker; its jobs come back later",
            run.name,
            extra={"event": "unknown_task"} | _about(run) | _facts(run, job),
        )

    def _turned(self, row: BreakerRow) -> None:
        closed = row.state is BreakerState.CLOSED
        name = "breaker_closed" if closed else "breaker_opened"
        next_at = None if closed else row.reopen_at
        facts: dict[str, Any] = {"event": name, "downstream": row.key}
        if closed:
            log.info("jobs that call %s start again", row.key, extra=facts)
        else:
            facts |= {"runs": row.runs, "failures": row.failures, "next_at": next_at}
            log.warning("jobs that call %s are held: too many fail", row.key, extra=facts)
        if self.app.events:
            self.app.events.emit(
                Event(name=name, job_id="", task="", queue="", downstream=row.key, next_at=next_at)
            )

    # -- the rest

    def _put_crons(self) -> None:
        try:
            self.app.put_crons()
        except AnewError as error:
            if self.app.crons:
                raise
            log.warning(
                "whether there are cron entries that the application has no longer is not known",
                extra={"reason": str(error)},
            )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop at SIGTERM, SIGINT and SIGHUP, at once at the second; only where this is the main thread.

        The latter two are left alone where whoever started this process has it ignore them, as a shell has for Ctrl-C in its
        background jobs, and ``nohup`` for SIGHUP of a terminal that is closed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            if self.stopped_by is None:
                self.stopped_by = number
                self.stop()
            elif (
                number != signal.SIGHUP
            ):  # a closed terminal's comes twice: from the kernel, and from the shell
                self.stopped_by = number
                self.stop_now()

        heeded = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, *heeded)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def outcome_name(run: Run, job: SettledJob | None) -> str:
    """Name what a settled run has come to, as events and counters do."""
    match run.outcome:
        case None:
            return "succeeded"
        case Cancelled():
            return "cancelled"
        case _ if job is not None and job.state is State.DEAD:
            return "discarded"
        case Snoozed():
            return "snoozed"
        case Interrupted():
            return "interrupted"
        case Failed():
            return "failed"


_LEVELS: Final = {"failed": logging.WARNING, "interrupted": logging.WARNING, "discarded": logging.ERROR}


def log_end(name: str, run: Run, job: SettledJob | None) -> None:
    """Log what a settled run has come to (`outcome_name`)."""
    level = _LEVELS.get(name, logging.INFO)
    if not log.isEnabledFor(level):
        return
    facts = _facts(run, job)
    why = f": {facts['error_type']}: {facts['reason']}" if "error_type" in facts else ""
    if isinstance(run.outcome, Interrupted):
        why = f": {facts['reason']}"
    record = log.makeRecord(
        log.name,
        level,
        __file__,
        0,
        "%s %s %s%s",
        (run.name, run.job_id, name, why),
        None,
        "log_end",
        {"event": _event_name(name)} | _about(run) | facts,
    )
    # As text, which came from a process or was made when the handler raised: every formatter prints it as it does `exc_info`.
    record.exc_text = run.outcome.backtrace if isinstance(run.outcome, Failed) else None
    log.handle(record)


def log_start(run: Run) -> None:
    """Log, for those who look for faults, that a run begins."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s %s started", run.name, run.job_id, extra={"event": "started"} | _about(run))


def _event_name(name: str) -> str:
    return "rescued" if name == "interrupted" else name


def event_of(name: str, run: Run, job: SettledJob | None = None, *, now: int | None = None) -> Event:
    """Give the event that a run has begun (``started``, at an instant, epoch ms), or that it was settled (`outcome_name`)."""
    facts = _facts(run, job)
    return Event(
        name=_event_name(name),
        job_id=run.job_id,
        task=run.name,
        queue=run.queue,
        attempt=run.attempts + 1,
        waited_ms=None if now is None else max(0, now - run.ready_at),
        duration_ms=run.took_ms if run.ended_ns and not run.held else None,
        error_type=facts.get("error_type"),
        error=facts.get("reason"),
        outcome=facts.get("outcome"),
        next_at=facts.get("next_at"),
    )


def _facts(run: Run, job: SettledJob | None) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    outcome = run.outcome
    if run.ended_ns and not run.held:
        facts["took_ms"] = round(run.took_ms, 3)
    if isinstance(outcome, Failed):
        facts |= {"error_type": outcome.error_type, "reason": outcome.message, "outcome": outcome.outcome}
    elif isinstance(outcome, Snoozed):
        facts |= {"reason": outcome.reason, "outcome": outcome.outcome}
    elif isinstance(outcome, Cancelled):
        facts["reason"] = outcome.reason
    elif isinstance(outcome, Interrupted):
        in_a_row = f", {CRASHES} times in a row" if job is not None and job.state is State.DEAD else ""
        facts |= {"reason": f"{outcome.how or outcome.cause}{in_a_row}", "outcome": "interrupted"}
    if job is not None and job.state in (State.RETRYING, State.SCHEDULED):
        facts["next_at"] = job.ready_at
    return facts


def _about(run: Run) -> dict[str, Any]:
    return {"job_id": run.job_id, "task": run.name, "queue": run.queue, "attempt": run.attempts + 1}


def _shares(
    queues: Sequence[str] | Mapping[str, int], concurrency: int
) -> list[tuple[tuple[str, ...] | None, int]]:
    if isinstance(queues, str):
        raise refused("queues", queues, "a list of names, or a dict of names and numbers")
    for name in queues:
        read_queue(name)
    numbers = [*queues.values()] if queues and isinstance(queues, Mapping) else [concurrency]
    for number in numbers:
        whole("concurrency", number, 1, MOST_CONCURRENT, f"a number from 1 to {MOST_CONCURRENT}")
    if sum(numbers) > MOST_CONCURRENT:
        raise InvalidInput(f"queues: expected at most {MOST_CONCURRENT} runs in all", field="queues")
    if queues and isinstance(queues, Mapping):
        return [((name,), number) for name, number in queues.items()]
    return [(tuple(queues) or None, concurrency)]
