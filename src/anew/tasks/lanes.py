"""A lane: some queues' jobs, and what runs them: threads for plain functions and processes, a loop for `async def`."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from anew.tasks.running import START_S, Run, Stopped
from anew.tasks.source import Want

if TYPE_CHECKING:
    from anew.tasks.processes import Processes
    from anew.tasks.task import Task
    from anew.tasks.worker import Worker

AHEAD_MS: Final = 20.0
"""How much work is taken ahead, by what runs have taken until now: short jobs must not wait for a sync each, and long ones must not
wait here while another worker is idle."""

MOST_AHEAD: Final = 1_000
LEAST_SHARE: Final = 1 / 16
"""A kind of which no jobs have come for long may come again."""

GRACE_NS: Final = 5_000_000_000
"""How much longer than its time-out a run may take to obey: an `async def` that is cancelled, a process that is killed."""


CLOSE_S: Final = 1.0
"""How long coroutines that are cancelled may take to end before their loop does."""


STALLED_NS: Final = 100_000_000
"""Jobs that wait here are given back when none has begun for so long: those before them are longer than any until now."""


class Pace:
    """How many jobs of one kind a lane has, and how many more it takes ahead.

    Args:
        concurrency: Runs at one time.

    Attributes:
        held: Taken and not claimed by the worker's thread as ended. Only that thread changes it.
        share: Of the jobs that the lane takes, those that are of this kind, as it was until now.
        moved_ns: When jobs last came, or one began, by the performance counter.
    """

    def __init__(self, concurrency: int, share: float) -> None:
        self.concurrency = concurrency
        self.held = 0
        self.share = share
        self.moved_ns = 0
        self._mean_ms = 1_000.0
        self._stalled = False

    def note(self, took_ms: float) -> None:
        """Note how long a run took."""
        self._mean_ms += (took_ms - self._mean_ms) / 16
        self._stalled = False

    def note_share(self, share: float) -> None:
        """Note how many of the jobs that were taken were of this kind."""
        self.share += (share - self.share) / 4

    def free(self) -> int:
        """Report how many jobs of all kinds may be taken so that not too many are of this one."""
        ahead = min(MOST_AHEAD, int(self.concurrency * AHEAD_MS / max(self._mean_ms, 0.001)))
        if self._stalled:
            ahead = 0
        return int(max(0, self.concurrency + ahead - self.held) / max(self.share, LEAST_SHARE))

    def hold(self, jobs: int) -> None:
        """Note that so many jobs have come."""
        if jobs:
            self.held += jobs
            self.moved_ns = time.perf_counter_ns()

    def stalls(self, now_ns: int) -> bool:
        """Report whether jobs wait and none begins; until a run has ended, no more are taken ahead then."""
        if self.held <= self.concurrency or now_ns - self.moved_ns <= STALLED_NS:
            return False
        self._stalled = True
        return True


class Lane:
    """Runs the jobs of some queues.

    Args:
        queues: From which it takes; None means all.
        concurrency: Runs of plain functions and processes at one time.
        coroutines: Runs of `async def` at one time.
        worker: Told of each run's begin and end.

    Attributes:
        open: Runs that have a thread or an asyncio task, and have not ended. Two may be of one job: one that was given up still
            has its thread when the job's next run begins.
    """

    def __init__(
        self, queues: Sequence[str] | None, concurrency: int, coroutines: int, worker: Worker
    ) -> None:
        self.queues = queues
        self.open: set[Run] = set()
        self._hanging: set[Run] = set()
        self.worker = worker
        kinds = {task.is_async for task in worker.app.tasks.values()}
        self._plain = Pace(concurrency, 1 / max(len(kinds), 1))
        self._async = Pace(coroutines, 1 / max(len(kinds), 1))
        self._todo: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads = 0
        self._loop: Loop | None = None
        self._processes: Processes | None = None
        known = [pace for kind, pace in ((False, self._plain), (True, self._async)) if kind in kinds]
        self._paces = known or [self._plain]

    # -- for the worker's thread

    def want(self) -> Want:
        """Say what it could take now."""
        return Want(self.queues, min(pace.free() for pace in self._paces))

    def add(self, runs: Sequence[Run]) -> None:
        """Have jobs run that were taken."""
        coroutines = [run for run in runs if run.is_async]
        plain = [run for run in runs if not run.is_async]
        for run in runs:
            run.lane = self
        if runs:
            self._async.note_share(len(coroutines) / len(runs))
            self._plain.note_share(len(plain) / len(runs))
        for pace, some in ((self._async, coroutines), (self._plain, plain)):
            pace.hold(len(some))
            # The first of a task that was not known when the lane was made.
            if some and pace not in self._paces:
                self._paces.append(pace)
        for run in plain:
            if self._processes is None and run.task is not None and run.task.options.process:
                from anew.tasks.processes import Processes

                # In this one thread: of two, one would be lost with its processes.
                self._processes = Processes(self.worker.app, self.worker.runner, **self.worker.recycling)
            self._todo.put(run)
        if coroutines:
            if self._loop is None:
                self._loop = Loop(self, self._async)
            self._loop.submit(coroutines)
        while self._threads < min(self._plain.concurrency, self._plain.held):
            self._start_thread()

    @property
    def held(self) -> int:
        """Jobs that were taken, and whose end the worker's thread has not seen."""
        return self._plain.held + self._async.held

    def claim(self, run: Run) -> None:
        """Note that the worker's thread has seen the end of a run."""
        pace = self._async if run.is_async else self._plain
        pace.held -= 1
        if not run.held:
            pace.note(run.took_ms)

    def unbegun(self) -> list[Run]:
        """Give up the jobs that have not begun; give them."""
        return self._unbegun_plain() + self._unbegun_async()

    def surplus(self, now_ns: int) -> list[Run]:
        """Give up the jobs that wait behind runs of unexpected length, while another worker may be idle; give them."""
        runs = self._unbegun_plain() if self._plain.stalls(now_ns) else []
        return runs + (self._unbegun_async() if self._async.stalls(now_ns) else [])

    def _unbegun_plain(self) -> list[Run]:
        runs: list[Run] = []
        while True:
            try:
                run = self._todo.get_nowait()
            except queue.Empty:
                break
            if run is not None:
                runs.append(run)
        self._plain.held -= len(runs)
        return runs

    def _unbegun_async(self) -> list[Run]:
        runs = [] if self._loop is None else self._loop.unbegun()
        self._async.held -= len(runs)
        return runs

    def abandon_all(self) -> list[Run]:
        """Give up what runs; what its handlers come to is heard of no more."""
        return [run for run in list(self.open) if self.is_open(run)]

    def overdue(self, now_ns: int) -> list[tuple[Run, int]]:
        """Give up the runs that have not ended though their time is over, with their time-outs; threads take their place."""
        late: list[tuple[Run, int]] = []
        for run in list(self.open):
            timeout_ms = None if run.task is None else run.task.options.timeout_ms
            if timeout_ms is None or run.task is None:
                continue
            if not run.began_ns or now_ns - run.began_ns < timeout_ms * 1_000_000 + _grace_ns(run.task):
                continue
            if self._give_up(run):
                # A copy: whatever the handler comes to at last is written into the run that it knows.
                late.append((copy(run), timeout_ms))
        return late

    def _give_up(self, run: Run) -> bool:
        """Have another run take the place of one that does not end; report False if it has ended meanwhile."""
        if run.is_async:
            if self._loop is None or not self.is_open(run):
                return False
            self._loop.give_up(run)
            return True
        self._hanging.add(run)  # first: as soon as it is open no more, its thread may end
        if not self.is_open(run):
            self._hanging.discard(run)
            return False
        self._threads -= 1
        return True

    def stop(self, lost: Mapping[Run, Stopped]) -> None:
        """Stop runs that no longer hold their jobs; the handler in a thread has to look itself (`ctx.cancelled`)."""
        for run, why in lost.items():
            self.worker.runner.stop(run, why)
            if self._processes is not None:
                self._processes.stop(run)
        if self._loop is not None:
            self._loop.stop(lost.keys())

    @property
    def hanging(self) -> int:
        """Threads whose runs were given up, and have not ended since."""
        return len(self._hanging)

    def close(self) -> None:
        """End the threads that wait, the loop and the processes; none is waited for that runs a handler."""
        for _ in range(self._threads):
            self._todo.put(None)
        if self._loop is not None:
            self._loop.close()
        if self._processes is not None:
            self._processes.close()

    # -- where jobs run

    def is_open(self, run: Run) -> bool:
        """Take a run off the list of open ones; report whether it was there, so that nobody else has given it up."""
        try:
            self.open.remove(run)
        except KeyError:
            return False
        return True

    def _start_thread(self) -> None:
        self._threads += 1
        slot = self.worker.next_slot()
        threading.Thread(target=self._serve, args=(slot,), name=f"anew-worker-{slot}", daemon=True).start()

    def _serve(self, slot: int) -> None:
        """Run one job after the other, in a thread of its own, until there is a None or the thread was given up."""
        worker, runner = self.worker, self.worker.runner
        while (run := self._todo.get()) is not None:
            run.began_ns = self._plain.moved_ns = time.perf_counter_ns()
            self.open.add(run)
            if not (worker.open_breakers and worker.holds(run)):
                worker.begin(run, slot)
                if self._processes is not None and run.task is not None and run.task.options.process:
                    runner.call_elsewhere(run, self._processes.call)
                else:
                    runner.call(run)
            if not self.is_open(run):  # it took too long: another thread has this one's place
                self._hanging.discard(run)
                return
            worker.ended(run)


def _grace_ns(task: Task[Any, Any, Any]) -> int:
    if task.options.process:
        return GRACE_NS + int(START_S * 1e9)
    return GRACE_NS if task.is_async else 0


class Loop:
    """An event loop in a thread of its own, which is made for the first jobs.

    Args:
        lane: Whose jobs it runs.
        pace: Of its jobs.
    """

    def __init__(self, lane: Lane, pace: Pace) -> None:
        self._lane = lane
        self._pace = pace
        self._waiting: deque[Run] = deque()
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._held: set[Run] = set()  # of the tasks' runs, those that were not given up
        self._slots: list[int] = []
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # -- for other threads

    def submit(self, runs: Sequence[Run]) -> None:
        """Have jobs run.

        Raises:
            OSError, RuntimeError: The loop cannot be made.
        """
        self._waiting.extend(runs)
        if self._loop is None:
            # Made here, not in its thread: this one would wait for ever for a loop that cannot be made.
            loop = _new_loop()
            self._thread = threading.Thread(target=self._main, args=(loop,), name="anew-loop", daemon=True)
            self._thread.start()
            self._loop = loop
        self._loop.call_soon_threadsafe(self._start)

    def unbegun(self) -> list[Run]:
        """Give up the jobs that have not begun; give them."""
        runs: list[Run] = []
        while self._waiting:
            try:
                runs.append(self._waiting.popleft())
            except IndexError:  # the loop was faster
                break
        return runs

    def give_up(self, run: Run) -> None:
        """Have another run take the place of one that does not end."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leave, run)

    def stop(self, runs: Collection[Run]) -> None:
        """Cancel the handlers of some runs."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, runs)

    def close(self) -> None:
        """Cancel what runs, and end the loop when that has ended, or after a while."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._cancel, self._loop)
            self._thread.join(CLOSE_S)

    # -- in the loop

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        self._closing = True
        if not self._tasks:
            loop.stop()
        for task in self._tasks:
            task.cancel()
        loop.call_later(CLOSE_S, loop.stop)

    def _stop(self, runs: Collection[Run]) -> None:
        for task, run in self._tasks.items():
            if run in runs and run.began_ns:  # one that is cancelled before its turn would keep its place
                task.cancel()

    def _start(self) -> None:
        while self._waiting and len(self._held) < self._pace.concurrency and not self._closing:
            try:
                run = self._waiting.popleft()
            except IndexError:
                return
            self._held.add(run)
            self._lane.open.add(run)  # before its turn: from here on `Lane.unbegun` does not find it any more
            task = asyncio.get_running_loop().create_task(self._run(run))
            self._tasks[task] = run
            task.add_done_callback(self._ended)

    def _leave(self, run: Run) -> None:
        self._held.discard(run)
        self._start()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if self._closing and not self._tasks:
            task.get_loop().stop()
        self._start()

    async def _run(self, run: Run) -> None:
        lane, runner = self._lane, self._lane.worker.runner
        if run not in lane.open:  # given up before its turn: it may be another worker's by now
            self._held.discard(run)
            return
        slot = self._slots.pop() if self._slots else lane.worker.next_slot()
        run.began_ns = time.perf_counter_ns()
        self._pace.moved_ns = run.began_ns
        try:
            if run.stopped is not None:  # before its turn: `_stop` leaves it to this
                run.end(run.stopped)
            elif not (lane.worker.open_breakers and lane.worker.holds(run)):
                lane.worker.begin(run, slot)
                await runner.acall(run)
        finally:
            self._slots.append(slot)
            self._held.discard(run)
        if lane.is_open(run):
            lane.worker.ended(run)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made
