"""What happens to jobs, for the user's own code.

    enqueued      a job was stored (not for a duplicate)
    folded        a call was folded into a job that waits, which it is about (``debounce``, ``merge``)
    started       a run began
    succeeded     a run ended well
    failed        a run failed, and there are attempts left: the job is retrying
    discarded     a job failed for the last time: it is dead
    snoozed       a handler asked to run later
    cancelled     a handler called its own job off
    rescued       a job came back that had been taken from a process that died

    breaker_opened, breaker_closed    of a service that handlers call; see docs/downstream.md

Hooks are called in a thread of their own, one after the other, after the change is on the disk. What they raise is logged and
changes nothing. Where they are slower than the jobs for long, events are dropped, and that is logged too.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from anew.errors import InvalidInput
from anew.jobs import WAITING, Job, NewJob, State
from anew.tasks.backend import Placed

log = logging.getLogger("anew.tasks")

NAMES: Final = (
    "enqueued", "folded", "started", "succeeded", "failed", "discarded", "snoozed", "cancelled", "rescued",
    "breaker_opened", "breaker_closed",
)  # fmt: skip

MOST_WAITING: Final = 10_000
"""Events that may wait for slow hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one job, or to a circuit breaker.

    Attributes:
        name: One of the list above.
        job_id, task, queue: The job; empty where it is about a breaker.
        attempt: The run that it is about, 1 for the first; 0 for ``enqueued`` and ``folded``.
        waited_ms: For ``started``: how long the job had waited since it might run; None otherwise.
        duration_ms: How long that run took; None where it has not ended, or did not begin.
        error_type, error: What it failed with, or why it was snoozed or cancelled.
        outcome: For a failure ``error`` or ``timeout``, for a snooze ``snoozed``, ``rate_limited``, ``held`` or
            ``unknown_task``, for a job that came back ``interrupted``; a job is discarded after any of them.
        next_at: When it runs again, epoch ms; None if it does not. For ``breaker_opened``: when the first job may try again.
        downstream: The key of the breaker that it is about.
    """

    name: str
    job_id: str
    task: str
    queue: str
    attempt: int = 0
    waited_ms: int | None = None
    duration_ms: float | None = None
    error_type: str | None = None
    error: str | None = None
    outcome: str | None = None
    next_at: int | None = None
    downstream: str | None = None


Hook = Callable[[Event], object]


def names_of(names: Sequence[str]) -> Sequence[str]:
    """Give the names of events that somebody has asked for; none means all.

    Raises:
        InvalidInput: There is no such event.
    """
    for name in names:
        if name not in NAMES:
            raise InvalidInput(
                f"on: {name!r} is no event; expected one of {', '.join(NAMES)}", field="name", value=name
            )
    return names or NAMES


def interrupted(job: Job, job_id: str) -> Event:
    """Give the event that a job's process has died while it ran, and that it was given back or is dead; log it too."""
    name, level = ("discarded", logging.ERROR) if job.state is State.DEAD else ("rescued", logging.WARNING)
    event = Event(
        name=name,
        job_id=job_id,
        task=job.type,
        queue=job.queue,
        attempt=job.attempts + 1,
        outcome="interrupted",
        next_at=job.ready_at if job.state in WAITING else None,
    )
    fields = {"event": name} | {
        one: getattr(event, one) for one in ("job_id", "task", "queue", "attempt", "outcome", "next_at")
    }
    log.log(level, "%s %s %s: its process died", job.type, job_id, name, extra=fields)
    return event


class Events:
    """The hooks of one application; false while there are none, so that nothing is built for nobody."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        self._waiting: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._last: threading.Thread | None = None
        self._lock = threading.Lock()
        self._dropping = False

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: Hook, names: Sequence[str]) -> None:
        """Have a hook called for events of these names; see `names_of`."""
        for name in names:
            self._hooks.setdefault(name, []).append(hook)

    def emit(self, event: Event) -> None:
        """Have the hooks of an event called soon."""
        if event.name not in self._hooks:
            return
        try:
            with self._lock:
                if self._thread is None:
                    self._start()
                self._waiting.put_nowait(event)
            self._dropping = False
        except RuntimeError:  # no thread can be started, as at the interpreter's end
            log.exception("hooks cannot be called: an event is dropped", extra={"event": event.name})
        except queue.Full:
            if not self._dropping:
                log.warning("hooks are too slow: events are dropped", extra={"waiting": MOST_WAITING})
            self._dropping = True

    def enqueued(self, task: str, jobs: Sequence[NewJob], placed: Sequence[Placed]) -> None:
        """Emit that jobs were stored or folded; log it too, for those who look for faults, with the duplicates."""
        is_logged = log.isEnabledFor(logging.DEBUG)
        if not (is_logged or self):
            return
        for job, one in zip(jobs, placed, strict=True):
            name = "enqueued" if one.created else "folded" if one.folded else "duplicate"
            if is_logged:
                facts = {"event": name, "job_id": one.id, "task": task, "queue": job.queue}
                log.debug("%s %s %s", task, one.id, name, extra=facts | {"ready_at": job.ready_at})
            if one.created or one.folded:
                self.emit(Event(name=name, job_id=one.id, task=task, queue=job.queue))

    def close(self) -> None:
        """Call the hooks for what has happened until now, and end the thread; the next event starts another."""
        if self._thread is threading.current_thread():  # a hook has called it, and others may still come
            return
        with self._lock:
            thread, self._thread = self._thread, None
            waiting = self._waiting
        if thread is not None:
            waiting.put(None)
            thread.join()

    def forget_thread(self) -> None:
        """In a forked child: the thread is not here, and what waits is the parent's."""
        self._thread = self._last = None
        self._lock = threading.Lock()

    def _start(self) -> None:
        # Each has a queue of its own: another one would take the end that `close` has meant for this one, which then never ends.
        waiting: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        arguments = (waiting, self._last)
        thread = threading.Thread(target=self._run, args=arguments, name="anew-events", daemon=True)
        thread.start()
        self._thread, self._last, self._waiting = thread, thread, waiting

    def _run(self, waiting: queue.Queue[Event | None], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # hooks are called one after the other
        while (event := waiting.get()) is not None:
            self.call(event)

    def call(self, event: Event) -> None:
        """Call the hooks of an event, here and now; log what they raise."""
        for hook in self._hooks.get(event.name, ()):
            try:
                hook(event)
            except (Exception, SystemExit):  # which would end the thread, and with it all later calls
                log.exception("a hook failed", extra={"event": event.name, "job_id": event.job_id})
