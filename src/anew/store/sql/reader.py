"""Long reads: on a connection of their own, so that a list over a million jobs holds up nobody, or in the open transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, takewhile
from typing import Any, Protocol

from anew.jobs import Job, State
from anew.jobs.breaker import BreakerRow
from anew.jobs.key_limits import Place
from anew.store.key_limit_rows import COUNTED_OF_A_KEY, LimitedKey, LimitedKeys
from anew.store.page_reads import Due, FailureGroup, Process, QueueRow, StoreFacts
from anew.store.protocol import JobList, Lengths, Recount
from anew.store.selection import Filter, Page
from anew.store.sql.breakers import breaker_of
from anew.store.sql.filters import Bound, count_statement, find_statement
from anew.store.sql.job_lists import next_places, rank
from anew.store.sql.limited import key_limit_of
from anew.store.sql.payloads import read_payload
from anew.store.sql.queues import Counted, by_state, counted
from anew.store.sql.rows import BLOCKED, STATE, damage, job_of, text_of
from anew.store.sql.statements import Run, Statements, in_lists, in_widths
from anew.store.topics import TopicFigures

RECOUNTED = "recount"
"""The row of `duty` that counts how often a recount has put something right."""


class ReadLink(Protocol):
    """A connection that reads.

    Attributes:
        statements: All that it can run, in its engine's words.
        run: Runs one of them, with a cursor of its own.
    """

    statements: Statements
    run: Run

    def execute(self, text: str, bound: Any = (), /) -> Any:
        """Run a text that is in the engine's words already."""

    def version(self) -> object:
        """Give what is another value as soon as anybody has written since."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Have all reads inside the block see the store as it is at one instant."""

    def close(self) -> None:
        """Let go of the database."""


class SqlReader:
    """Reads on one connection. What has no text here is said in `anew.store.protocol.Reader`, or in `PageReads`.

    Args:
        link: Any; it is used by one thread at a time.
    """

    def __init__(self, link: ReadLink) -> None:
        self._link, self._run = link, link.run
        self.version, self.snapshot, self.close = link.version, link.snapshot, link.close

    def find(self, where: Filter, page: Page) -> list[int]:
        if where.keys is not None and not where.keys:
            return []
        joined = self._one(*find_statement(where, page))
        if joined is None:
            return []
        return sorted(map(int, str(joined).split(",")), reverse=page.order == "desc")

    def count(self, where: Filter) -> int:
        if where.keys is not None and not where.keys:
            return 0
        count = self._one(*count_statement(where))
        assert isinstance(count, int)
        return count

    def payloads(self, keys: Sequence[int], most_bytes: int) -> list[bytes]:
        sizes: dict[int, int] = {}
        found: dict[int, bytes] = {}
        with self._link.snapshot():  # one transaction: a job may be folded into between two statements
            for part in in_lists(keys):
                sizes.update(self._run("payload_sizes", part, len(part)).fetchall())
            before = accumulate((sizes.get(key, 0) for key in keys), initial=0)
            wanted = list(takewhile(lambda pair: pair[1] < most_bytes, zip(keys, before, strict=False)))
            for part in in_lists([key for key, _ in wanted]):
                for key, size, crc, payload in self._run("payloads", part, len(part)).fetchall():
                    if size is not None:
                        payload = read_payload(self._run, key)
                    if damage(size, crc, payload) is None:
                        found[key] = payload
        return [found.get(key, b"") for key, _ in wanted]

    def counts(self) -> Counted:
        return counted(self._run("read_counters"))

    def listed(self) -> dict[str, bool]:
        return {name: bool(paused) for name, paused in self._run("listed_queues")}

    def ended(self) -> dict[int, tuple[int, int]]:
        return {day: (processed, failed) for day, processed, failed in self._run("ended")}

    def ready_since(self, queues: Sequence[str]) -> dict[str, int]:
        parts = in_widths(queues)
        rows = [row for part in parts for row in self._run("ready_since", part, len(part))]
        return {name: ready_at for name, ready_at in rows if ready_at is not None}

    def totals(self) -> dict[State, int]:
        rows: list[tuple[Any, ...]] = self._run("totals").fetchall()
        return by_state([int(jobs) for jobs in rows[0]])

    def busiest(self, most: int) -> list[QueueRow]:
        return self._queue_rows("busiest", [most])

    def queue_rows(self, start: str, most: int) -> list[QueueRow]:
        return self._queue_rows("queue_rows", [start, most])

    def queue_count(self) -> int:
        ((count,),) = self._run("queue_count").fetchall()
        return int(count)

    def processes(self, most: int) -> list[Process]:
        return [Process(*row) for row in self._run("processes", (most,)).fetchall()]

    def _queue_rows(self, name: str, bound: Bound) -> list[QueueRow]:
        rows: list[tuple[Any, ...]] = self._run(name, bound).fetchall()
        return [QueueRow(text_of(queue), bool(paused), by_state(jobs)) for queue, paused, *jobs in rows]

    def due_until(self, most: int) -> Due:
        found: list[tuple[Any, ...]] = self._run("due_until", (most,)).fetchall()
        ((jobs, latest),) = found
        return Due(jobs, latest)

    def due_counts(self, most: int, start: int, step_ms: int) -> list[tuple[int, State, int]]:
        bound = (most, start, step_ms)
        rows: list[tuple[Any, ...]] = self._run("due_counts", bound).fetchall()
        return [(step, STATE[code], jobs) for step, code, jobs in rows]

    def failing(self, most: int, groups: int) -> list[FailureGroup]:
        rows: list[tuple[Any, ...]] = self._run("failing", (most, groups)).fetchall()
        return [
            FailureGroup(
                text_of(kind) or "", text_of(error), dead, retrying, failed_at, text_of(message) or ""
            )
            for kind, error, dead, retrying, failed_at, message in rows
        ]

    def breakers(self, most: int, shown: int) -> list[BreakerRow]:
        rows = self._run("breakers_to_show", (most, shown)).fetchall()
        return [breaker_of([text_of(value) for value in row]) for row in rows]

    def limited_keys(self, after: str, most: int, shown: int, *, idle: bool) -> LimitedKeys:
        rows: list[tuple[Any, ...]] = self._run(
            "limits_to_show", (after, most, int(idle), shown + 1, COUNTED_OF_A_KEY)
        ).fetchall()
        keys = [
            LimitedKey(key_limit_of((text_of(name), *limit)), running, blocked)
            for name, *limit, running, blocked in rows[:shown]
        ]
        if len(rows) > shown:
            return LimitedKeys(keys, keys[-1].limit.name)
        return LimitedKeys(keys, text_of(self._one_of("limit_at", after, most - 1)))

    def facts(self) -> StoreFacts:
        return StoreFacts(*self._run("store_facts").fetchone())

    def topic_figures(self, queue: str) -> TopicFigures:
        counts = self._run("topic_counts").fetchall()
        since = self._run("blocked_since", (queue,)).fetchall()
        return TopicFigures(
            counts={(text_of(name), text_of(label)): value for name, label, value in counts},
            subscriptions={text_of(status): n for status, n in self._run("subscription_counts")},
            unwell=[health for (health,) in self._run("unwell_subscriptions").fetchall()],
            blocked_since=since[0][0],
            due_since=self.ready_since([queue]).get(queue),
        )

    def oldest_ready(self, most: int = 10_000) -> int | None:
        oldest: int | None = None
        place: tuple[Any, ...] = (-1, -1)
        while most > 0:
            heads = self._run("heads_behind", (*place, min(most, 1_000))).fetchall()
            for _, _, name in heads:
                queue, priority = text_of(name), -1
                while most > 0:
                    head = self._run("next_priority", (queue, priority)).fetchone()
                    if head is None:
                        break
                    priority, _, ready_at = head
                    oldest = ready_at if oldest is None else min(oldest, ready_at)
                    most -= 1
            if not heads:
                break
            place = heads[-1][:2]
        return oldest

    def load(self, keys: Sequence[int]) -> list[Job]:
        return [
            job_of(row)
            for part in in_lists(sorted(set(keys)))
            for row in self._run("load", part, len(part)).fetchall()
        ]

    def names(self, keys: Sequence[int]) -> dict[int, tuple[str, str]]:
        parts = in_lists(keys)
        rows = [row for part in parts for row in self._run("names_of", part, len(part)).fetchall()]
        return {key: (queue, kind) for key, queue, kind in rows}

    def lengths(self) -> Lengths:
        return Lengths(*self._run("lengths").fetchone())

    def places(self, of: JobList, place: Place, limit: int, *, forward: bool) -> list[Place]:
        return next_places(self._run, of, place, limit, forward=forward)

    def rank(self, of: JobList, place: Place, most: int, *, forward: bool) -> int:
        return rank(self._run, of, place, most, forward=forward)

    def recount(self) -> Recount:
        """Count all jobs row by row, and look for each queue's first; see `Recount`."""
        number = recounted(self._run)  # first: what is written meanwhile only makes the recount void
        # Rows and counters are read in one statement, so that both are of one moment.
        rows: list[tuple[Any, ...]] = self._run("recount").fetchall()
        counters = {(queue, STATE[code]): n for queue, code, n in rows if code in STATE and code != BLOCKED}
        blocked = {queue: n for queue, code, n in rows if code == BLOCKED}
        heads = [str(queue) for (queue,) in self._run("heads_amiss")]
        forgotten = [str(name) for (name,) in self._run("keys_forgotten")]
        return Recount(number, counters, heads, blocked, forgotten)

    def damaged_texts(self) -> dict[int, tuple[str, str]]:
        """Look through all jobs for queues and types that are no UTF-8; give what is left of them, by key."""
        found: dict[int, tuple[str, str]] = {}
        for key, *texts in self._run("all_texts"):
            queue, kind = (text.decode("utf-8", "replace") for text in texts)
            if [queue.encode(), kind.encode()] != texts:
                found[key] = (queue, kind)
        return found

    def damaged_names(self) -> list[bytes]:
        """List the queues whose derived row has a name that is no UTF-8."""
        names = [name for (name,) in self._run("queue_texts")]
        return [name for name in names if name.decode("utf-8", "replace").encode() != name]

    def _one_of(self, name: str, *bound: Any) -> Any:
        row = self._run(name, bound).fetchone()
        return None if row is None else row[0]

    def _one(self, text: str, bound: Bound) -> object:
        row = self._link.execute(self._link.statements.say(text), bound).fetchone()
        return None if row is None else row[0]


def recounted(run: Run) -> int:
    """Give how often a recount has put something right."""
    row = run("read_duty", (RECOUNTED,)).fetchone()
    return 0 if row is None else int(row[0])
