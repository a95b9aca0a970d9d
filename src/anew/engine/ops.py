"""Operation records: what the edges ask of the engine, gathered into batches.

Each has `done`, which is called once, after the batch's commit is on disk, with the operation's result or with an
`AnewError`. What the result is stands with each class. The edges' hottest operations have it as a method of a subclass, because
a closure for each request costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anew.jobs import Failed, NewJob

if TYPE_CHECKING:
    from anew.engine.engine import Engine
    from anew.engine.takers import Taker

Done = Callable[[Any], None]


class Op:
    """One operation. `durable` operations are answered only after a sync."""

    __slots__ = ("done",)
    durable = True
    settles = False

    def __init__(self, done: Done) -> None:
        self.done = done


class Enqueue(Op):
    """Store new jobs, all or none. Result: (first key, now); the keys are consecutive.

    `plain` promises that no job says anything beyond type, queue and payload.
    """

    __slots__ = ("jobs", "plain")

    def __init__(self, jobs: Sequence[NewJob], done: Done, plain: bool = False) -> None:
        self.jobs = jobs
        self.plain = plain
        self.done = done


class Succeed(Op):
    """Report success. Result: the keys that were not in flight."""

    __slots__ = ("keys",)
    settles = True

    def __init__(self, keys: Sequence[int], done: Done) -> None:
        self.keys = keys
        self.done = done


class Fail(Op):
    """Report a failed attempt. Result: the job as it is now, or NotFound."""

    __slots__ = ("failure", "key")
    settles = True

    def __init__(self, key: int, failure: Failed, done: Done) -> None:
        self.key = key
        self.failure = failure
        self.done = done


class Release(Op):
    """Give back what a taker that has gone still holds. Result: how many jobs.

    `interrupted` tells a worker that went away from a server that ends its streams itself.
    """

    __slots__ = ("interrupted", "taker")
    durable = False
    settles = True

    def __init__(self, taker: Taker, done: Done, *, interrupted: bool = True) -> None:
        self.taker = taker
        self.interrupted = interrupted
        self.done = done


class Call(Op):
    """Run a rarer verb inside the batch's transaction. Result: what it returns.

    Args:
        verb: Called with the engine and now; raises an `AnewError` before it has written anything, or not at all.
    """

    __slots__ = ("verb",)

    def __init__(self, verb: Callable[[Engine, int], Any], done: Done) -> None:
        self.verb = verb
        self.done = done
