"""Operation records: what the edges ask of the engine, gathered into batches.

Each has `done`, which is called once with the operation's result or with an `AnewError`: after the batch's commit and, if the
operation is durable, its sync. What the result is stands with each class. The edges' hottest operations have it as a method of a
subclass, because a closure for each request costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from anew.engine.batch import Batch, Enqueued
from anew.engine.takers import Taker
from anew.jobs import Failed, NewJob, Outcome

Done = Callable[[Any], None]
Verb = Callable[[Batch], Any]


class Op:
    """One operation.

    Attributes:
        group: A batch runs those of one group together.
        durable: It is answered only after a sync.
        settles: It ends an attempt, and is tried even where there is no space for anything new.
        waits: It waits for as long as the store is busy; others are refused after a while.
    """

    __slots__ = ("done",)
    group: ClassVar[str]
    durable = True
    settles = False
    waits = True

    def __init__(self, done: Done) -> None:
        self.done = done


class Enqueue(Op):
    """Store new jobs, all or none. Result: `Enqueued`.

    `plain` promises that no job says anything beyond type, queue and payload. `keyed`: they have a key by which a repeat is known.
    """

    __slots__ = ("jobs", "plain")
    group = "enqueue"
    waits = False
    keyed: ClassVar[bool] = False

    def __init__(self, jobs: Sequence[NewJob], done: Done, plain: bool = False) -> None:
        self.jobs = jobs
        self.plain = plain
        self.done = done

    def insert(self, batch: Batch, keys: Sequence[int] | None = None) -> Enqueued:
        """Store the jobs, inside a batch; `keys` as for `Batch.insert`."""
        return batch.insert(self.jobs, plain=self.plain and keys is None, keys=keys)


class Succeed(Op):
    """Report success. Result: the keys that were not in flight (or no longer under their token).

    `tokens` names the attempt of each key, where the reporter knows it. `results` is what is to be kept of some, by key.
    """

    __slots__ = ("keys", "results", "tokens")
    group = "succeed"
    settles = True
    tokens: Sequence[int] | None

    def __init__(
        self,
        keys: Sequence[int],
        done: Done,
        tokens: Sequence[int] | None = None,
        results: Mapping[int, bytes] | None = None,
    ) -> None:
        self.keys = keys
        self.tokens = tokens
        self.results = results
        self.done = done


class Fail(Op):
    """Report an attempt that did not succeed. Result: the job as it is now, or NotFound.

    `token` names the attempt, where the reporter knows it.
    """

    __slots__ = ("failure", "key", "token")
    group = "fail"
    settles = True
    token: int | None

    def __init__(self, key: int, failure: Outcome, done: Done, token: int | None = None) -> None:
        self.key = key
        self.failure = failure
        self.token = token
        self.done = done


class FailMany(Op):
    """Report many failed attempts, each decided by itself. Result: for each the job as it is now, or NotFound, in order."""

    __slots__ = ("reports",)
    group = "fail"
    settles = True

    def __init__(self, reports: Sequence[tuple[int, Failed]], done: Done) -> None:
        self.reports = reports
        self.done = done


class Acknowledge(Op):
    """Report the success of a job without naming its attempt. Result: whether there was one.

    A job with a producer's id is named by that, and must be reserved: of several with this id the one is meant that the worker
    may have, and of these the one that was taken last. Any other is named by its key. `worker` is who reports, if it has a name:
    a report of an attempt that it cannot have changes nothing, see `Reservers.can_report`.
    """

    __slots__ = ("job", "worker")
    group = "settle_reserved"
    settles = True

    def __init__(self, job: str | int, done: Done, worker: str = "") -> None:
        self.job = job
        self.worker = worker
        self.done = done


class Reject(Op):
    """Report the failure of a job as `Acknowledge` its success. Result: the job as it is now, or NotFound."""

    __slots__ = ("failure", "job", "worker")
    group = "settle_reserved"
    settles = True

    def __init__(self, job: str | int, failure: Failed, done: Done, worker: str = "") -> None:
        self.job = job
        self.failure = failure
        self.worker = worker
        self.done = done


class Release(Op):
    """Give back what a taker that has gone still holds. Result: how many jobs.

    `interrupted`: the worker went away; False where the server itself ends its streams.
    """

    __slots__ = ("interrupted", "taker")
    group = "other"
    durable = False
    settles = True

    def __init__(self, taker: Taker, done: Done, *, interrupted: bool = True) -> None:
        self.taker = taker
        self.interrupted = interrupted
        self.done = done


class Call(Op):
    """Run a rarer verb inside the batch's transaction. Result: what it returns.

    Args:
        verb: Called with the batch; raises an `AnewError` before it has written anything, or not at all.
        done: See `Op`.
        durable, waits: See `Op`.
    """

    __slots__ = ("durable", "verb", "waits")
    group = "other"

    def __init__(self, verb: Verb, done: Done, *, durable: bool = True, waits: bool = True) -> None:
        self.verb = verb
        self.durable = durable
        self.waits = waits
        self.done = done
