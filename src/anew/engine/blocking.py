"""Limits of keys inside a batch's transaction: who may start, who is blocked, and who goes into line again.

`anew.jobs.key_limits` says how it works and decides, `Store.key_limits` writes, and this joins the two. `Hooks` calls it for jobs
that have a key. Others never come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from anew.jobs.codec import LimitKey
from anew.jobs.key_limits import (
    AHEAD,
    Gate,
    KeyLimit,
    KeyStanding,
    Place,
    full_at,
    held_back,
    may_start,
    throttle_of,
    to_unblock,
)
from anew.jobs.limits import FULL, Throttle
from anew.jobs.state import State
from anew.store.key_limit_rows import KeyLimitRows, LimitedJob

LOOKS = 100
"""Keys that one batch looks at because their time has come: some milliseconds' work."""


class Blocking:
    """The keys of one transaction.

    Args:
        rows: Where they are.
        now: Epoch ms.

    Attributes:
        looked: When keys are to be looked at again may have changed.
    """

    def __init__(self, rows: KeyLimitRows, now: int) -> None:
        self._rows = rows
        self._now = now
        self._touched: dict[str, None] = {}
        self.looked = False

    def came(self, jobs: Sequence[tuple[LimitedJob, LimitKey]]) -> None:
        """Tie new jobs that are stored to their keys, and block those that others stand before.

        Args:
            jobs: With the bounds of their keys; the last ones hold. Those that are ready stand as UNBLOCKED.
        """
        self._rows.add([job for job, _ in jobs])
        limits, new = self._bound({key.name: key for _, key in jobs})
        ready: dict[tuple[str, str], list[Place]] = {}
        for job, _ in jobs:
            if job.standing is KeyStanding.UNBLOCKED:
                ready.setdefault((job.name, job.queue), []).append((job.priority, job.key))
        if not ready:
            return
        running = self._rows.running([name for name in limits if name not in new])
        blocked: list[int] = []
        for (name, queue), places in ready.items():
            most = max(len(places), AHEAD)
            free = may_start(limits[name], running.get(name, 0), most, self._now).number
            first: list[Place] = []
            # A new key has no other jobs; statements for each of thousands of keys would hold up everybody.
            if name in new:
                in_line = sorted(places)[:free]
            else:
                in_line = self._rows.first(name, KeyStanding.UNBLOCKED, queue, free)
                first = self._rows.first(name, KeyStanding.BLOCKED, queue, 1)
            back = held_back(places, in_line, first[0] if first else None)
            blocked += back
            # Where some stay in line, the key is looked at when they are taken.
            if back and {place[1] for place in in_line} <= set(back):
                self._touched[name] = None
        self._rows.block(blocked, taken=False)

    def _bound(self, keys: Mapping[str, LimitKey]) -> tuple[dict[str, KeyLimit], set[str]]:
        """Have these bounds; give the limits, and the keys that had none."""
        limits = self._rows.limits(list(keys))
        new = keys.keys() - limits.keys()
        changed: list[KeyLimit] = []
        for name, key in keys.items():
            throttle = throttle_of(key)
            if name in new:
                changed.append(KeyLimit(name, throttle, FULL))
            elif limits[name].throttle != throttle:
                changed.append(replace(limits[name], throttle=throttle))
                self._touched[name] = None
        limits |= {one.name: one for one in changed}
        self._rows.write_limits(changed)
        return limits, new

    def admit(self, keys: Sequence[int]) -> set[int]:
        """Decide which of some jobs that were just taken start; give the others, which are blocked now."""
        jobs = self._rows.among(keys)
        if not jobs:
            return set()
        if any(job.standing is KeyStanding.RUNNING for job in jobs):  # an earlier run's
            self._rows.leave(keys)
        by_name: dict[str, list[Place]] = {}
        for job in jobs:
            by_name.setdefault(job.name, []).append((job.priority, job.key))
        limits, running = self._rows.limits(list(by_name)), self._rows.running(list(by_name))
        start: list[int] = []
        away: list[int] = []
        drawn: list[KeyLimit] = []
        for name, places in by_name.items():
            in_order = [key for _, key in sorted(places)]
            number = len(in_order)
            if (limit := limits.get(name)) is not None:
                allowed = may_start(limit, running.get(name, 0), number, self._now)
                number = allowed.number
                if number and allowed.bucket != limit.bucket:
                    drawn.append(replace(limit, bucket=allowed.bucket))
            start += in_order[:number]
            away += in_order[number:]
            self._touched[name] = None
        self._rows.write_limits(drawn)
        self._rows.run(start)
        self._rows.block(away, taken=True)
        return set(away)

    def leave(self, jobs: Mapping[int, State], *, removed: bool) -> None:
        """Note that something else happens to jobs, wherever they stand.

        Args:
            jobs: By key: their states before that.
            removed: Their records go.
        """
        if ready := [key for key, state in jobs.items() if state is State.READY]:
            self._rows.unblock(ready)  # what follows finds them as ready as any others
        names = self._rows.remove(list(jobs)) if removed else self._rows.leave(list(jobs))
        self._touched.update(dict.fromkeys(names))

    def gate(self, gates: Mapping[str, Gate]) -> None:
        """Have keys held back, or let go on; a key of which no job is stored forgets that."""
        limits = self._rows.limits(list(gates))
        new = KeyLimit("", Throttle(), FULL)
        written = [replace(limits.get(name, new), name=name, gate=gate) for name, gate in gates.items()]
        self._rows.write_limits(written)
        self.look(list(gates))

    def look(self, names: Sequence[str]) -> None:
        """Have keys looked at."""
        self._touched.update(dict.fromkeys(names))

    def look_at_due(self) -> None:
        """Have the keys looked at whose time has come."""
        self.look(self._rows.looks(self._now, LOOKS))
        self.looked = True

    def settle(self) -> int:
        """Look at the keys to whose jobs something has happened; report how many jobs were put into line."""
        if not self._touched:
            return 0
        names = list(self._touched)
        self._touched.clear()
        self.looked = True
        limits, running = self._rows.limits(names), self._rows.running(names)
        unblocked: list[int] = []
        written: list[KeyLimit] = []
        dropped: list[str] = []
        for name in names:
            limit = limits.get(name, KeyLimit(name, Throttle(), FULL))  # a lost row bounds nothing
            allowed = may_start(limit, running.get(limit.name, 0), AHEAD, self._now)
            queues = self._rows.blocked_queues(limit.name)
            for queue in queues if allowed.number else ():
                unblocked += self._next(limit.name, queue, allowed.number)
            # Where some may start, those in line have the key looked at when they are taken: no clock is needed for more tokens.
            look_at = allowed.again_at if queues and not allowed.number else None
            if not queues and not self._rows.any_of(limit.name):
                look_at = full_at(limit, self._now)
                if look_at is None:
                    dropped.append(limit.name)
                    continue
            set_back = allowed.bucket.at < limit.bucket.at
            if set_back:  # else nothing would run into the bucket until the clock is where it was
                limit = replace(limit, bucket=allowed.bucket)
            if set_back or look_at != limit.look_at:
                written.append(replace(limit, look_at=look_at))
        self._rows.drop_limits(dropped)
        self._rows.write_limits(written)
        return self._rows.unblock(unblocked)

    def _next(self, name: str, queue: str, free: int) -> list[int]:
        blocked = self._rows.first(name, KeyStanding.BLOCKED, queue, free)
        ahead = self._rows.first(name, KeyStanding.UNBLOCKED, queue, free)
        return to_unblock(blocked, ahead, free)
