"""Limits of queues: which there are, the slots and rates that jobs in flight use, and when the next slot's time is over.

Each take of such a queue writes who has the slot. It is in use while its job is in flight under the token of that take, so that
slots are right with any number of processes and after any kill; what is in memory is a cache of the rows.

All instants in here and in the rows are lease time: the clock's jumps end no slot early or late, and neither fill nor drain a rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from anew.jobs.limits import FULL, Bucket, Throttle, grant, returned, startable
from anew.store.sql.statements import Run, write_rows

_LIMITS = msgspec.json.Decoder(dict[str, Throttle])
_BUCKET = msgspec.json.Decoder(Bucket)


class Slots:
    """The limits of one store, and the slots in use. What has no text here is said in `anew.store.queue_rows.SlotRows`.

    Args:
        run: Runs a statement on the writer's connection, with its own cursor for each.
        write: Runs one that gives nothing, with one cursor for all.
        touch: Called with queues before more of them may be taken: it notes how many may be taken now.

    Attributes:
        limits: By queue; other queues have none. It stays one and the same mapping.
        over: Queues of which the time of a slot has run out, and for which somebody may wait.
        jumped: What the wall clock is ahead of lease time, ms.
    """

    def __init__(self, run: Run, write: Run, touch: Callable[[Iterable[str]], None]) -> None:
        self._run, self._alter, self._touch = run, write, touch
        self._text: str | None = None
        self.limits: dict[str, Throttle] = {}
        self.over: set[str] = set()
        self._now = 0
        self.jumped = 0
        self._in_use: dict[str, dict[str, int]] = {}
        self._oldest: dict[str, int] = {}
        # Queues of which somebody has got less than was asked for: when their next slot's time is over.
        self._ends: dict[str, int] = {}
        self._buckets: dict[str, Bucket] = {}

    def believe(self, text: str | None) -> None:
        """Take over the limits that are stored."""
        self.forget()
        if text != self._text:
            self._have(text)

    def set_limits(self, limits: Mapping[str, Throttle]) -> None:
        old = set(self.limits)
        # First: it notes what could be taken before the change.
        self._touch(old.union(limits))
        self.forget()
        text = msgspec.json.encode(limits).decode()
        self._have(text)
        self._alter("write_meta", ("limits", text))
        for queue in set(limits) - old:
            self._alter("occupy_all", (self.jumped, queue))
        for queue in old - set(limits):
            self._alter("drop_slots", (queue,))

    def _have(self, text: str | None) -> None:
        self._text = text
        self.limits.clear()
        if text is not None:
            self.limits.update(_LIMITS.decode(text))

    def forget(self) -> None:
        """Drop what is remembered: the rows are read again."""
        self._in_use.clear()
        self._oldest.clear()
        self._ends.clear()
        self._buckets.clear()
        self.over.clear()

    def pass_time(self, now: int, jumped: int = 0) -> None:
        self._now, self.jumped = now - jumped, jumped
        for name, throttle in self.limits.items():
            if throttle.timeout_ms is not None:
                self._in_use.pop(name, None)
        ended = [name for name, at in self._ends.items() if at <= self._now]
        for name in ended:
            del self._ends[name]
        self.over.update(ended)

    def next_end(self) -> int | None:
        at = min(self._ends.values(), default=None)
        return None if at is None else at + self.jumped

    def free(self, name: str, wanted: int, in_flight: int, worker: str | None) -> int:
        """Report how many more jobs of a limited queue may be taken.

        Args:
            name: The queue.
            wanted: How many are asked for.
            in_flight: Its jobs in flight; where they leave room for all, no slot is looked at.
            worker: For whom; None: for all workers together, without the bound of each.
        """
        throttle = self.limits[name]
        free = self._free_slots(name, throttle, wanted, in_flight, worker)
        if throttle.rate is None or not free:
            return free
        allowed = grant(throttle.rate, self._bucket(name), free, self._now)
        if allowed.again_at is not None:
            self._ends[name] = min(allowed.again_at, self._ends.get(name, allowed.again_at))
        return allowed.number

    def _free_slots(
        self, name: str, throttle: Throttle, wanted: int, in_flight: int, worker: str | None
    ) -> int:
        if throttle.per_worker is None and in_flight + wanted <= (throttle.concurrency or 0):
            return wanted
        in_use = self._in_use.get(name)
        if in_use is None:
            in_use = self._in_use[name] = self._read(name) if in_flight else {}
        bounds = replace(throttle, per_worker=None) if worker is None else throttle
        free = startable(bounds, wanted, sum(in_use.values()), in_use.get(worker or "", 0))
        if free < wanted and in_use and throttle.timeout_ms is not None:
            self._ends[name] = self._oldest[name] + throttle.timeout_ms
        return free

    def _read(self, name: str) -> dict[str, int]:
        rows = self._run("slots", (name, self._over_before(name, self._now))).fetchall()
        if rows:
            self._oldest[name] = rows[0][0]
        in_use: dict[str, int] = {}
        for _, worker in rows:
            in_use[worker] = in_use.get(worker, 0) + 1
        return in_use

    def _over_before(self, name: str, now: int) -> int:
        """Give the instant up to which slots of a queue were taken whose time is over."""
        timeout_ms = self.limits[name].timeout_ms
        return -1 if timeout_ms is None else now - timeout_ms

    def occupy(self, slots: Iterable[tuple[int, str, str]], now: int) -> None:
        taken = [slot for slot in slots if slot[1] in self.limits]
        at = now - self.jumped
        for queue in {slot[1] for slot in taken}:
            self._alter("drop_left_slots", (queue, self._over_before(queue, at)))
        write_rows(self._alter, "occupy", [(key, worker, self.jumped) for key, _, worker in taken])
        self._count_taken([slot[1:] for slot in taken], at)

    def free_held_by(self, worker: str) -> None:
        self._touch(self.limits)  # first, as well
        for queue in self.limits:
            self._alter("free_slots", (queue, worker))
            self.freed(queue)

    def _count_taken(self, slots: Iterable[tuple[str, str]], now: int) -> None:
        """Count slots that were taken, queue and worker, and write the buckets of those queues that have a rate."""
        drawn: dict[str, int] = {}
        for name, worker in slots:
            drawn[name] = drawn.get(name, 0) + 1
            in_use = self._in_use.get(name)
            if in_use is not None:
                if not in_use:
                    self._oldest[name] = now
                in_use[worker] = in_use.get(worker, 0) + 1
        for name, count in drawn.items():
            rate = self.limits[name].rate
            if rate is not None:
                self._write_bucket(name, grant(rate, self._bucket(name), count, now).bucket)

    def uncount(self, queues: Mapping[str, int]) -> None:
        for name, count in queues.items():
            throttle = self.limits.get(name)
            if throttle is not None and throttle.rate is not None:
                self._write_bucket(name, returned(throttle.rate, self._bucket(name), count))

    def _write_bucket(self, name: str, bucket: Bucket) -> None:
        self._buckets[name] = bucket
        self._alter("write_meta", (f"bucket/{name}", msgspec.json.encode(bucket).decode()))

    def _bucket(self, name: str) -> Bucket:
        """Give the bucket of a queue that has a rate; one that has started nothing yet is full."""
        bucket = self._buckets.get(name)
        if bucket is None:
            rows = self._run("read_one_meta", (f"bucket/{name}",)).fetchall()
            bucket = self._buckets[name] = _BUCKET.decode(rows[0][0]) if rows else FULL
        return bucket

    def freed(self, name: str) -> None:
        """Note that jobs of a queue are in flight no more."""
        self._in_use.pop(name, None)
