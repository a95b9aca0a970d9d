"""Ready jobs to jobs in flight: which come first, and their payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from anew.jobs.codec import RESERVED_MS
from anew.jobs.hooks import SEEN_BY_TAKES
from anew.jobs.job import Job
from anew.store.protocol import Hold, Reserved, Taken, TakenRow
from anew.store.sql.payloads import Payloads
from anew.store.sql.queues import Heads, Queues, tally
from anew.store.sql.rows import IN_FLIGHT, READY, WIDTH_OF_JOB, checksum, damage, job_of
from anew.store.sql.statements import WIDTH, Run, in_lists

_HOOKS_OF_TAKEN = itemgetter(-1)


class Takes:
    """Takes the ready jobs of one store; `anew.store.protocol.Store` says what its verbs do.

    Args:
        run: Runs a statement on the writer's connection.
        queues: Where they are counted, with the limits of queues.
        payloads: Where long payloads are.
    """

    def __init__(self, run: Run, queues: Queues, payloads: Payloads) -> None:
        self._run, self._queues, self._payloads = run, queues, payloads

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, hold: Hold) -> Taken:
        if queues is not None:
            queues = list(dict.fromkeys(queues))
            if len(queues) == 1:
                return self._take_first(queues[0], limit, max_bytes, hold)
        heads = self._queues.heads(queues, limit)
        if len(heads) == 1:
            return self._take_first(heads[0][2], limit, max_bytes, hold)
        keys, behind = self._queues.first(heads, limit)
        return self._take_keys(keys, behind, max_bytes, hold)

    def take_each(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Taken:
        each: dict[str, int] = {}
        for queue, n in wanted:
            each[queue] = each.get(queue, 0) + n
        if self._queues.slots.limits:
            each = {queue: self._queues.cap(queue, n) for queue, n in each.items()}
        keys, behind = self._queues.first_of_each(each)
        return self._take_keys(keys, behind, max_bytes, hold)

    def _take_first(self, queue: str, limit: int, max_bytes: int, hold: Hold) -> Taken:
        """Take from one queue: its rows are found in the order of its line."""
        if queue in self._queues.slots.limits:
            limit = self._queues.cap(queue, limit)
        start = self._queues.start(queue)
        found = self._run("select_ready", (queue, *start, limit)).fetchall()
        rows, corrupt = self._with_payloads(found, max_bytes)
        n = len(rows) + len(corrupt)
        if n > WIDTH:
            self._run("hold", (*_stamp(hold), queue, *start, n))
        else:
            # For a few rows this is faster than finding their places in line again.
            self._hold_keys([row[0] for row in found[:n]], hold)
        if n:
            self._queues.move({queue: n}, READY, IN_FLIGHT)
            self._queues.change(queue, came=False)
            if queue in self._queues.slots.limits:
                self._queues.slots.occupy([(row[0], queue, "") for row in found[:n]], hold.now)
        return Taken(rows, corrupt, _hooked(found[:n]))

    def _take_keys(self, keys: list[int], behind: Heads, max_bytes: int, hold: Hold) -> Taken:
        """Take jobs that were found by their index entries alone; `behind`: who is first in their queues then."""
        by_key: dict[int, tuple[Any, ...]] = {}
        for part in in_lists(keys):
            by_key |= {row[0]: row for row in self._run("select_ready_by_key", part, len(part))}
        found = [by_key[key] for key in keys if key in by_key]
        rows, corrupt = self._with_payloads(found, max_bytes)
        taken = found[: len(rows) + len(corrupt)]
        self._hold_keys([row[0] for row in taken], hold)
        self._took(taken, keys, behind)
        if self._queues.slots.limits:
            self._queues.slots.occupy([(row[0], row[1], "") for row in taken], hold.now)
        return Taken(rows, corrupt, _hooked(taken))

    def reserve(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Reserved:
        each: dict[str, int] = {}
        for queue, n in wanted:
            each[queue] = each.get(queue, 0) + n
        keys, found, behind = (self._first_of_one if len(each) == 1 else self._first_of_each)(each, hold)
        jobs: list[Job] = []
        corrupt: dict[int, str] = {}
        taken: list[tuple[Any, ...]] = []
        left = max_bytes
        for row in found:
            size, crc, payload = row[WIDTH_OF_JOB : WIDTH_OF_JOB + 3]
            if size is not None:
                if taken and size > left:
                    break
                left -= size
                payload = self._payloads.read(row[0])
            taken.append(row)
            wrong = damage(size, crc, payload)
            if wrong is None:
                jobs.append(job_of(row, payload))
            else:
                corrupt[row[0]] = wrong
        stamp = (int(hold.kind), hold.token, hold.owner, hold.deadline, RESERVED_MS, hold.now)
        for some in in_lists([row[0] for row in taken]):
            self._run("reserve_by_key", (*stamp, *some), len(some))
        self._took(taken, keys, behind)
        return Reserved(jobs, corrupt)

    def _first_of_one(
        self, each: Mapping[str, int], hold: Hold
    ) -> tuple[list[int], list[tuple[Any, ...]], Heads]:
        """As `_first_of_each`, of a single queue: one statement finds its rows, and who is behind them."""
        ((queue, n),) = each.items()
        n = min(n, max(self._queues.takeable(queue), 0))
        asked = (int(hold.kind), hold.token, queue, *self._queues.start(queue), n + 1)
        rows = self._run("select_first_reserved", asked).fetchall()
        behind = (rows[n][3], rows[n][0]) if len(rows) > n else None
        return [row[0] for row in rows[:n]], rows[:n], {queue: behind}

    def _first_of_each(
        self, each: Mapping[str, int], hold: Hold
    ) -> tuple[list[int], list[tuple[Any, ...]], Heads]:
        """Find the first ready jobs of some queues: their keys, their rows as they will be, and who is behind them."""
        keys, behind = self._queues.first_of_each(each)
        by_key: dict[int, tuple[Any, ...]] = {}
        for part in in_lists(keys):
            found = self._run("select_reserved", (int(hold.kind), hold.token, *part), len(part))
            by_key |= {row[0]: row for row in found}
        return keys, [by_key[key] for key in keys if key in by_key], behind

    def _took(self, taken: list[tuple[Any, ...]], keys: list[int], behind: Heads) -> None:
        """Count jobs that were taken; `keys`, `behind`: those that were found, and who is first in their queues behind them."""
        self._queues.move(tally([row[1] for row in taken]), READY, IN_FLIGHT)
        if len(taken) == len(keys):
            self._queues.took(behind)
        else:
            for queue in behind:
                self._queues.change(queue, came=False)

    def _hold_keys(self, keys: Sequence[int], hold: Hold) -> None:
        for part in in_lists(keys):
            self._run("hold_by_key", (*_stamp(hold), *part), len(part))

    def _with_payloads(
        self, found: list[tuple[Any, ...]], max_bytes: int
    ) -> tuple[list[TakenRow], dict[int, str]]:
        """Read the payloads that are kept apart, check all, and stop where they grow too much for one turn."""
        rows: list[TakenRow] = []
        corrupt: dict[int, str] = {}
        total = 0
        for row in found:
            size, _, payload, crc = row[10:14]
            if size is not None:
                if total and total + size > max_bytes:
                    break
                total += size
                payload = self._payloads.read(row[0])
            elif crc is not None and payload is not None and checksum(payload) == crc:
                rows.append(row[:-2])
                continue
            wrong = damage(size, crc, payload)
            if wrong is None:
                rows.append((*row[:12], payload))
            else:
                corrupt[row[0]] = wrong
        return rows, corrupt


def _stamp(hold: Hold) -> tuple[Any, ...]:
    return (int(hold.kind), hold.token, hold.owner, hold.deadline, hold.now)


def _hooked(taken: list[tuple[Any, ...]]) -> Sequence[int]:
    """Give the keys of taken jobs for whose ties a take means something; mostly none, so the first look is a quick one."""
    if not any(map(_HOOKS_OF_TAKEN, taken)):
        return ()
    return [row[0] for row in taken if row[-1] & SEEN_BY_TAKES]
