"""An engine on a store in memory, a clock moved by hand, and short hands for operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Batch, Call, Engine, Enqueue, Fail, Limits, Op, Release, Succeed, Taker
from anew.engine.upkeep import Upkeep
from anew.jobs import Defaults, Failed, Job, NewJob, State
from anew.store.protocol import Store, TakenRow
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite

NOW = 1_700_000_000_000
ALL = Page(limit=1_000_000)


class Once:
    """A `done` that must be called exactly once before its result is read."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, result: Any) -> None:
        self.calls.append(result)

    @property
    def result(self) -> Any:
        assert len(self.calls) == 1, f"answered {len(self.calls)} times"
        return self.calls[0]


class Worker:
    """A taker that remembers what it was given."""

    def __init__(self, queues: Sequence[str] | None, prefetch: int) -> None:
        self.rows: list[TakenRow] = []
        self.instants: list[int] = []
        self.taker = Taker(queues, prefetch, self._deliver)

    def _deliver(self, rows: list[TakenRow], now: int) -> None:
        self.rows += rows
        self.instants.append(now)

    @property
    def keys(self) -> list[int]:
        """All that it was ever given, in order."""
        return [row[0] for row in self.rows]

    @property
    def held(self) -> set[int]:
        """What it holds now."""
        return set(self.taker.held)


PARTS = ("turns", "processes", "queues", "slots", "records", "breakers", "imports")


class Part:
    """A part of such a store, whose verbs fail as the store's do; one that the store has itself goes before the part's."""

    def __init__(self, store: FaultyStore, part: Any) -> None:
        self._store, self._part = store, part

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self._store), name) or name in vars(self._store):
            return getattr(self._store, name)
        return self._store.planned(name, getattr(self._part, name))


class FaultyStore:
    """A store that fails when told to; everything else goes to the real one.

    Attributes:
        commits: What the next commits raise, in order; None lets one through.
        verbs: By name: what the next calls of a verb raise, in order; None lets one through.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.verbs: dict[str, list[Exception | None]] = {}
        self.committed = 0
        for name in PARTS:
            setattr(self, name, Part(self, getattr(inner, name)))

    @property
    def commits(self) -> list[Exception | None]:
        return self.verbs.setdefault("commit", [])

    @property
    def staging(self) -> Any:
        return self

    @property
    def device(self) -> Any:
        return None if self.inner.device is None else self

    def __getattr__(self, name: str) -> Any:
        # What belongs to its device is asked of the link, which is the device.
        return self.planned(
            name, getattr(self.inner if hasattr(self.inner, name) else self.inner._link, name)
        )

    def planned(self, name: str, value: Any) -> Any:
        """Give a verb that fails when told to; what is no verb as it is."""
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            planned = self.verbs.get(name)
            error = planned.pop(0) if planned else None
            if error is not None:
                raise error
            result = value(*args, **kwargs)
            self.committed += name == "commit"
            return result

        return call


class Rig:
    """One engine and what it works with.

    Args:
        store: In memory if not given.
        policy: JSON form of the default policy; ten seconds, constant, if not given.
        limits: What the engine bounds.
        defaults: Fields of `Defaults`.
    """

    def __init__(
        self,
        store: Any = None,
        *,
        policy: dict[str, Any] | None = None,
        limits: Limits | None = None,
        clock: ManualClock | None = None,
        **defaults: Any,
    ) -> None:
        self.clock = clock or ManualClock(NOW)
        self.store: Store = store if store is not None else open_sqlite()
        self.engine = Engine(
            self.store,
            clock=self.clock,
            defaults=Defaults(policy=Policy.from_json(policy or {"curve": {"constant": "10s"}}), **defaults),
            limits=limits or Limits(global_in_flight=0),
            rng=lambda: 0.5,
        )

    def apply(self, *ops: Op) -> list[Any]:
        """Apply one batch; gives the results in the order of the operations."""
        waiters = []
        for op in ops:
            waiter = Once()
            op.done = waiter
            waiters.append(waiter)
        self.engine.apply(ops)
        return [waiter.result for waiter in waiters]

    def do(self, op: Op) -> Any:
        """Apply one operation alone."""
        (result,) = self.apply(op)
        return result

    def put(self, *jobs: NewJob) -> list[int]:
        """Store jobs; gives their keys."""
        return list(self.do(enqueue(*jobs)).keys)

    def worker(self, queues: Sequence[str] | None = None, prefetch: int = 1_000) -> Worker:
        """Add a taker and let it have what there is."""
        worker = Worker(queues, prefetch)
        self.engine.dispatcher.add(worker.taker)
        self.engine.apply([])
        return worker

    def leave(self, worker: Worker, *, interrupted: bool = True) -> Release:
        """Take a taker out; gives the operation that returns what it holds."""
        self.engine.dispatcher.remove(worker.taker)
        return Release(worker.taker, ignore, interrupted=interrupted)

    def job(self, key: int) -> Job:
        """Read one job."""
        (job,) = self.store.load([key])
        return job

    def state(self, key: int) -> State | None:
        """Where a job stands; None if it is gone."""
        jobs = self.store.load([key])
        return jobs[0].state if jobs else None

    def advance(self, ms: int) -> None:
        """Let time pass, then run an empty batch."""
        self.clock.advance(ms)
        self.engine.apply([])

    def broken_rules(self) -> list[str]:
        """What does not hold of all that must hold after every batch."""
        return differences(self.engine) + idle_beside_ready(self.engine)


def differences(engine: Engine) -> list[str]:
    """Where memory is no mirror of the rows: its holders are those in flight, and each taker knows its own."""
    dispatcher = engine.dispatcher
    in_flight = engine.store.find(Filter(states=frozenset({State.IN_FLIGHT})), ALL)
    found = []
    if sorted(dispatcher.holders) != in_flight:
        found.append(f"held in memory are {sorted(dispatcher.holders)}, in flight {in_flight}")
    for key, taker in dispatcher.holders.items():
        if key not in taker.held:
            found.append(f"taker {taker.number} does not know that it holds {key}")
    for taker in dispatcher.takers:
        if len(taker.held) > taker.prefetch:
            found.append(f"taker {taker.number} holds {len(taker.held)} jobs of {taker.prefetch}")
        if any(dispatcher.holders.get(key) is not taker for key in taker.held):
            found.append(f"taker {taker.number} believes that it holds more than it does")
    return found


def idle_beside_ready(engine: Engine) -> list[str]:
    """Takers with a free slot beside a ready job, unless the global limit holds it; and a limit that is passed."""
    limit = engine.parts.limits.global_in_flight
    in_flight = len(engine.dispatcher.holders)
    if limit and in_flight > limit:
        return [f"{in_flight} jobs are in flight where {limit} may be"]
    if limit and in_flight == limit:
        return []
    counts = engine.store.queues.counts()
    ready = {queue for queue, states in counts.items() if states[State.READY]}
    found = []
    for taker in engine.dispatcher.takers:
        waiting = ready if taker.queues is None else ready & set(taker.queues)
        if taker.free_slots() > 0 and waiting:
            found.append(
                f"taker {taker.number} has {taker.free_slots()} free slots beside ready jobs in {sorted(waiting)}"
            )
    return found


def tick(batch: Batch) -> bool:
    """What is looked at once a second; tells whether there is more."""
    return Upkeep().run(batch)


def ignore(result: object) -> None:
    """Nobody waits for this."""


def new_job(queue: str = "mail", payload: bytes = b"{}", **members: Any) -> NewJob:
    """A job of type ``send``."""
    return NewJob(**{"type": "send", "queue": queue, "payload": msgspec.Raw(payload)} | members)


def enqueue(*jobs: NewJob, plain: bool = False) -> Enqueue:
    return Enqueue(jobs, ignore, plain=plain)


def plain(n: int = 1, queue: str = "mail") -> Enqueue:
    """Jobs that say nothing of their own."""
    return Enqueue([new_job(queue) for _ in range(n)], ignore, plain=True)


def succeed(*keys: int) -> Succeed:
    return Succeed(keys, ignore)


def fail(key: int, message: str = "no", **members: Any) -> Fail:
    return Fail(key, Failed(message=message, **members), ignore)


def call(verb: Any) -> Call:
    return Call(verb, ignore)
