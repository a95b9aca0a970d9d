"""Keys that have a limit, and the jobs of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from anew.jobs.key_limits import Gate, KeyLimit, KeyStanding, Place
from anew.jobs.limits import Bucket, Throttle
from anew.store.key_limit_rows import LimitedJob
from anew.store.sql.queues import Queues, tally
from anew.store.sql.rows import BLOCKED, IN_FLIGHT, READY
from anew.store.sql.statements import Run, in_lists, in_widths

TABLES = ("limited", "limit_key")

_bounds = msgspec.json.Decoder(Throttle)


class LimitedRows:
    """The rows of one store; nothing of them is cached. What has no text here is said in `anew.store.key_limit_rows.KeyLimitRows`.

    Args:
        run: Runs a statement of the connection that writes.
        queues: What is derived by queue.
    """

    def __init__(self, run: Run, queues: Queues) -> None:
        self._run = run
        self._queues = queues

    # -- keys

    def limits(self, names: Sequence[str]) -> dict[str, KeyLimit]:
        rows = chain.from_iterable(self._rows("limit_keys", part) for part in in_lists(names))
        return {row[0]: key_limit_of(row) for row in rows}

    def write_limits(self, limits: Sequence[KeyLimit]) -> None:
        for part in in_widths(limits):
            values = chain.from_iterable(map(_values, part))
            self._run("write_limit_keys", tuple(values), len(part))

    def drop_limits(self, names: Sequence[str]) -> None:
        for part in in_lists(names):
            self._run("drop_limit_keys", part, len(part))

    def looks(self, now: int, limit: int) -> list[str]:
        return [name for (name,) in self._run("limit_looks", (now, limit)).fetchall()]

    def next_look(self) -> int | None:
        rows: list[tuple[int]] = self._run("next_limit_look").fetchall()
        return rows[0][0] if rows else None

    # -- their jobs

    def add(self, jobs: Sequence[LimitedJob]) -> None:
        for part in in_widths(jobs):
            self._run("add_limited", tuple(chain.from_iterable(part)), len(part))

    def among(self, keys: Sequence[int]) -> list[LimitedJob]:
        parts = in_lists(keys)
        rows = chain.from_iterable(self._rows("limited_jobs", part) for part in parts)
        return [
            LimitedJob(key, name, KeyStanding(standing), queue, priority)
            for key, name, standing, queue, priority in rows
        ]

    def running(self, names: Sequence[str]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for part in in_lists(names):
            found.update(self._rows("limited_running", part))
        return found

    def blocked_queues(self, name: str) -> list[str]:
        rows = self._run("blocked_queues", (name,)).fetchall()
        return [queue for (queue,) in rows]

    def first(self, name: str, standing: KeyStanding, queue: str, limit: int) -> list[Place]:
        rows: list[Place] = self._run("first_limited", (name, int(standing), queue, limit)).fetchall()
        return rows

    def any_of(self, name: str) -> bool:
        return bool(self._run("any_limited", (name,)).fetchall())

    def run(self, keys: Sequence[int]) -> None:
        for part in in_lists(keys):
            self._run("stand", (int(KeyStanding.RUNNING), *part), len(part))

    def block(self, keys: Sequence[int], *, taken: bool) -> None:
        before = IN_FLIGHT if taken else READY
        for part in in_lists(keys):
            rows = self._run("block", (*part, before), len(part)).fetchall()
            counted = tally([queue for _, queue, _ in rows])
            self._queues.move(counted, before, BLOCKED)
            if not taken:
                self._change(counted)
            if rows:
                places = chain.from_iterable(rows)
                self._run("stand_blocked", (int(KeyStanding.BLOCKED), *places), len(rows))

    def unblock(self, keys: Sequence[int]) -> int:
        found = 0
        for part in in_lists(keys):
            rows = self._run("unblock", part, len(part)).fetchall()
            counted = tally([queue for _, queue in rows])
            self._queues.move(counted, BLOCKED, READY)
            self._change(counted)
            if rows:
                values = (int(KeyStanding.UNBLOCKED), *(key for key, _ in rows))
                self._run("stand", values, len(rows))
            found += len(rows)
        return found

    def leave(self, keys: Sequence[int]) -> list[str]:
        return self._names("free_limited", keys)

    def remove(self, keys: Sequence[int]) -> list[str]:
        return self._names("remove_limited", keys)

    # -- for the doctor, and after a process has died

    def mend(self) -> list[str]:
        """Put jobs into line that are blocked and not known to be, and forget jobs that are gone."""
        names = [name for (name,) in self._run("remove_limited_of_nobody").fetchall()]
        amiss = [key for (key,) in self._run("blocked_amiss").fetchall()]
        amiss += [key for (key,) in self._run("limited_amiss").fetchall()]
        self.unblock(amiss)
        return list(dict.fromkeys([*names, *self.leave(amiss)]))

    def _change(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self._queues.change(queue)

    def _names(self, name: str, keys: Sequence[int]) -> list[str]:
        found = chain.from_iterable(self._rows(name, part) for part in in_lists(keys))
        return list(dict.fromkeys(key for (key,) in found))

    def _rows(self, name: str, part: Sequence[Any]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._run(name, part, len(part)).fetchall()
        return rows


def _values(one: KeyLimit) -> tuple[Any, ...]:
    gate, bucket = one.gate, one.bucket
    bounds = msgspec.json.encode(one.throttle)
    return one.name, bounds, bucket.debt, bucket.at, one.look_at, gate.closed_until, gate.probing


def key_limit_of(row: Sequence[Any]) -> KeyLimit:
    """Give the limit of a row."""
    name, bounds, debt, at, look_at, until, probing = row
    return KeyLimit(name, _bounds.decode(bounds), Bucket(debt, at), look_at, Gate(until, bool(probing)))
